"""Numbers of the text that carry their proof: `evidence` in a cell, and the role of that name in a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from posenc.book.notebook import book_mode

MIME = "application/vnd.posenc.evidence+json"


@dataclass(frozen=True)
class Evidence:
    """What a sentence says, and what stands behind it.

    Args:
        words: What the sentence shows, such as "about a tenth".
        exact: The value and its interval, as text.
        about: How it was found: models, seeds, texts. Default: nothing.
        link: The label of the section or table that has all of it. Default: none.
    """

    words: str
    exact: str
    about: str = ""
    link: str = ""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.words, MIME: asdict(self)}


def evidence(name: str, words: str, exact: Any, about: str = "", *, form: str = "", link: str = "") -> None:
    """Keeps a number for the text under a name, with its proof; in a sentence, the role `evidence` shows both.

    The sentence shows the words. On hover, focus or tap they open the exact value, how it was found, and a link; on
    paper and without scripts these are a note. In a notebook nothing happens.

    Args:
        name: The name, such as "alibi-rise".
        words: What the sentence shows, in words or rounded, such as "a tenth of a nat".
        exact: An `Interval`, or whatever else the exact value is.
        about: How it was found, such as "three models each, 64 texts". Default: nothing.
        form: The format of `exact`, such as ".3f". Default: that of its kind.
        link: The label of a section or table, such as "extrapolation-losses". Default: none.

    Raises:
        ValueError: If there are no words, or nothing exact.

    Example:
        >>> from posenc.lab.intervals import Interval
        >>> evidence("alibi-rise", "a tenth of a nat", Interval(0.104, 0.061, 0.147), "three models", form="+.3f")
    """
    held = Evidence(words, format(exact, form), about, link)
    if not (held.words.strip() and held.exact.strip()):
        raise ValueError(f"{name} has {words!r} for the sentence and {held.exact!r} behind it: both must say something")
    if book_mode():
        from myst_nb import glue as keep  # type: ignore[import-untyped]

        keep(name, held, display=False)
