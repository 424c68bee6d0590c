"""Count the bytes that all requests hold together, and refuse what is beyond a number of them."""

from dikkat_runtime.server.request_error import RequestError

SMALL_BODY = 16_384
"""Bytes of a request that count in no budget, so that large requests leave room for small ones."""
PIECE = 65_536
"""Bytes of an answer that are sent at once: more wait for their reader in no buffer."""


class Budget:
    """A number of bytes that all requests share; in the event loop alone, so that no lock is needed."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0

    def has(self, size: int) -> bool:
        """Return whether so many more bytes may be held."""
        return self.used + size <= self.most


class Share:
    """The bytes that one request holds of each of some budgets."""

    def __init__(self, *budgets: Budget) -> None:
        self._budgets, self._size = list(budgets), 0

    def take(self, size: int) -> None:
        """Hold more bytes. Raises `RequestError` where there are not so many left."""
        more = _counted(self._size + size) - _counted(self._size)
        if not all(budget.has(more) for budget in self._budgets):
            raise RequestError("overloaded", "too many large requests at once; send it again later", retry_after=2)
        self._size += size
        for budget in self._budgets:
            budget.used += more

    def enter(self, budget: Budget) -> None:
        """Count in one more budget, before any byte is held."""
        self._budgets.append(budget)

    def leave(self, budget: Budget) -> None:
        """Hold nothing more of one budget."""
        if budget in self._budgets:
            self._budgets.remove(budget)
            budget.used -= _counted(self._size)

    def move(self) -> "Share":
        """Return a share of what this one holds, which holds nothing any more."""
        other = Share(*self._budgets)
        other._size, self._budgets = self._size, []
        return other

    def close(self) -> None:
        """Hold nothing more."""
        for budget in list(self._budgets):
            self.leave(budget)


def _counted(size: int) -> int:
    return max(0, size - SMALL_BODY)
