"""What a test can say, and one row of the report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from posenc.configs.printable import printable

IDLE = ("An encoder:", "A question for encoders", "Has no source beside its text")
"""How the cause of a test begins that does not concern a model."""

FOLLOWS = "It follows from"
"""How the cause of a failure begins that a simpler test explains."""


class Verdict(StrEnum):
    """What became of one test.

    Example:
        >>> Verdict("pass") is Verdict.PASS
        True
    """

    PASS = "pass"
    FAILS = "fails"
    NOT_APPLICABLE = "does not apply"
    """The model has no such input or ability, or refuses it in words, so that nothing was asked."""
    TIMED_OUT = "timed out"
    """It took longer than it may, so that nothing is known."""
    BLIND = "blind"
    """With these weights the test, and others with it, would see little."""
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
    places: str = ""
    """For each token that was compared, "." where logits agree and "x" where they do not."""
    reproduction: str = ""
    """Lines of plain torch that show a failure, to be run where `model` is yours."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong, as in a pass, a property, and a test that was not asked (see `Report.require`)."""
        return self.verdict not in (Verdict.FAILS, Verdict.ERROR)

    @property
    def asked(self) -> bool:
        """Whether there is an answer, as there is none where a test does not apply, or ran out of time."""
        return self.verdict not in (Verdict.NOT_APPLICABLE, Verdict.TIMED_OUT)

    @property
    def idle(self) -> bool:
        """Whether it does not concern the model, as the cache of an encoder, so that nothing is unknown."""
        return self.verdict == Verdict.NOT_APPLICABLE and self.cause.startswith(IDLE)

    @property
    def follows(self) -> bool:
        """Whether another failure explains it."""
        return not self.passed and self.cause.startswith(FOLLOWS)

    @property
    def size(self) -> str:
        """`off` as a table has it; "" where there is none."""
        if self.off is None:
            return ""
        return "0" if self.off == 0 else f"{self.off:.1e}" if self.off < 1e-3 else f"{self.off:.2g}"

    @property
    def first(self) -> int | None:
        """The first token whose logits are wrong; None where no place is."""
        return self.places.index("x") if "x" in self.places else None

    @property
    def meaning(self) -> str:
        """What it means, and where to look."""
        return " ".join(filter(None, (self.cause, self.look and f"Look at {self.look}.")))

    def __str__(self) -> str:
        size = f", off by {self.size}" if self.size else ""
        return printable(f"{self.name} {self.verdict.value}{size}: {self.meaning}".rstrip(": "))
