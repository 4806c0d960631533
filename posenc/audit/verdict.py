"""What a test can say, and one row of the report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from posenc.configs.printable import printable


class Verdict(StrEnum):
    """What became of one test.

    Example:
        >>> Verdict("pass") is Verdict.PASS
        True
    """

    PASS = "pass"
    FAILS = "fails"
    NOT_APPLICABLE = "does not apply"
    """The model has no such input or ability, and says so."""
    PROPERTY = "property"
    """A change that follows from the scheme, such as an absolute one under a shift."""
    ERROR = "error"
    """The model raised in this test; the others went on."""


@dataclass(frozen=True)
class Finding:
    """One row of the report.

    Example:
        >>> print(Finding("step", "as in one pass?", Verdict.FAILS, 0.63, "No mask.", "the mask"))
        step fails, off by 0.63: No mask. Look at the mask.
    """

    name: str
    """The name of the test."""
    question: str
    """What the test asks, in words."""
    verdict: Verdict
    """What became of it."""
    off: float | None = None
    """The largest change of a logit, over the root mean square of the reference's logits; None where there is none."""
    cause: str = ""
    """What it means, and the partner that decided."""
    look: str = ""
    """Where to look in the model's code."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong, as in a pass, a property, and a test that does not apply (see `Report.require`)."""
        return self.verdict not in (Verdict.FAILS, Verdict.ERROR)

    @property
    def size(self) -> str:
        """`off` as a table has it; "" where there is none."""
        if self.off is None:
            return ""
        return "0" if self.off == 0 else f"{self.off:.1e}" if self.off < 1e-3 else f"{self.off:.2g}"

    @property
    def meaning(self) -> str:
        """What it means, and where to look."""
        return " ".join(filter(None, (self.cause, self.look and f"Look at {self.look}.")))

    def __str__(self) -> str:
        size = f", off by {self.size}" if self.size else ""
        return printable(f"{self.name} {self.verdict.value}{size}: {self.meaning}".rstrip(": "))
