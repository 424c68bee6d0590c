"""The rule for plural forms that a gettext catalog states about itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from gettext import c2py

_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,2})")
_RULE = re.compile(r"plural\s*=\s*([^;\n]+)")


MANY = 5
"""Unlike 2 it is no dual (Arabic) and no "few" (Polish, Russian)."""


@dataclass(frozen=True, slots=True)
class PluralRule:
    """How many forms there are, and which of them stands for the number 1."""

    count: int
    singular: int | None
    """None where one form stands for all numbers."""
    many: int = 1
    """The form of numbers that are many in every language; see `MANY`."""
    is_known: bool = True
    """Whether the catalog states a rule that can be read."""

    @classmethod
    def of(cls, header: str) -> PluralRule:
        """From the text of the header; a rule that cannot be read is that of most languages, `n != 1`."""
        count, rule = _COUNT.search(header), _RULE.search(header)
        if count is None or rule is None or not int(count[1]):
            return cls(2, 0, is_known=False)
        try:
            form_of = c2py(rule[1].strip())
            forms = [form_of(number) for number in range(200)]
        except (ValueError, ArithmeticError, RecursionError, SyntaxError):
            return cls(int(count[1]), 0 if int(count[1]) > 1 else None, is_known=False)
        alone = forms[1] if int(count[1]) > 1 else None
        return cls(int(count[1]), alone, forms[MANY])

    def takes_singular(self, form: int) -> bool:
        """Whether a form is made of the singular of the source."""
        return form == self.singular
