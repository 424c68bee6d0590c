"""Read the rule for plural forms in the header of a gettext catalog."""

import re
from dataclasses import dataclass
from gettext import c2py

_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,2})")
_RULE = re.compile(r"plural\s*=\s*+([^;\n]+)")
_MAX_FORMS = 10
"""Most plural forms of a catalog; no language has more than six."""


MANY = 5
"""A number for plural forms; unlike 2 it is not a dual (Arabic) and no "few" (Polish, Russian)."""


@dataclass(frozen=True, slots=True)
class PluralRule:
    """The number of plural forms, and the form of the number 1."""

    count: int
    singular: int | None
    """The form of the number 1; None where one form stands for all numbers."""
    many: int = 1
    """The form of numbers that are many in every language; see `MANY`."""
    is_known: bool = True
    """True if the catalog has a readable rule."""

    @classmethod
    def of(cls, header: str) -> "PluralRule":
        """Read the rule of a header; an unreadable rule becomes that of most languages, `n != 1`."""
        count, rule = _COUNT.search(header), _RULE.search(header)
        if count is None or rule is None or not 0 < int(count[1]) <= _MAX_FORMS:
            return cls(2, 0, is_known=False)
        try:
            form_of = c2py(rule[1].strip())
            forms = [form_of(number) for number in range(200)]
        except (ValueError, ArithmeticError, RecursionError, SyntaxError):
            return cls(int(count[1]), 0 if int(count[1]) > 1 else None, is_known=False)
        alone = forms[1] if int(count[1]) > 1 else None
        return cls(int(count[1]), alone, forms[MANY])

    def takes_singular(self, form: int) -> bool:
        """Return whether a form is translated from the singular of the source."""
        return form == self.singular
