"""Every command of the program, as the site and the tests read them."""

from __future__ import annotations

from collections.abc import Iterator

from dikkat_runtime.cli.options import Command
from dikkat_runtime.cli.program import NAME, Group, find_command, summaries


def all_commands() -> Iterator[Command]:
    """Yield every command, those of groups too."""
    for name in summaries():
        target = find_command(name)
        if isinstance(target, Group):
            yield from (Command(f"{NAME} {name} {part}", target.function(part)) for part in target.commands)
        else:
            yield Command(f"{NAME} {name}", target)
