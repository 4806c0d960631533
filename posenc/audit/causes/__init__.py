"""Verdicts by cause: what a number means is decided by other tests, its partners, and the sentence says by which."""

from __future__ import annotations

from posenc.audit.causes import cache, generation, packing, padding, place, reference, repeat, sight  # noqa: F401
from posenc.audit.causes.said import FAILS, FOLLOWS, JUDGES, NONE, PASS, PROPERTY, Said, number
from posenc.audit.checks import CHECKS
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import Finding, Verdict

HEALED = {
    "window": "where the window is applied: the mask of one pass, that of a cached call, and what a cache keeps",
    "expert": "routing: ties between experts, and their capacity",
}
"""Where to look, by a word of the variant that passes."""


def judge(name: str, m: Measures) -> Finding:
    """The row of one test; it and the partners that it needs are measured if they were not."""
    question = CHECKS[name].question
    if name != "again" and not comparable(m):
        return Finding(name, question, NONE, None, f"{_incomparable(m['again'])}, so nothing can be compared.")
    found = m[name]
    said = _general(found, m) or (JUDGES[name](found, m) if name in JUDGES else _plain(found, m))
    if said.verdict == FAILS and name != "again" and (words := m.healed(name)):
        said = _healed(said, words, getattr(m.probe.adapter, "explained", {}).get(words, ""))
    off = found.off if said.off is None else said.off
    return Finding(name, question, said.verdict, off, said.cause, said.look)


def comparable(m: Measures) -> bool:
    """Whether answers of the model can be compared: not if they are not finite, random, or no answers."""
    return m.ok("again") or (m["again"].refused is not None and not m["again"].raised)  # it took too long to ask


def _incomparable(again: Measurement) -> str:
    if again.raised:
        return "The model raises where a text is given twice (again)"
    if again.details["finite"] < 1:
        return "Logits are not finite (again)"
    return "No answer is the same twice (again)"


def _healed(said: Said, words: str, explained: str) -> Said:
    """A failure that is none with one thing changed; a property where that explains it."""
    if explained:
        return Said(PROPERTY, f"{explained} It passes with {words}, the rest unchanged.")
    if said.cause.startswith(FOLLOWS):
        return said
    look = next((look for word, look in HEALED.items() if word in words), said.look)
    return Said(FAILS, f"It passes with {words}, the rest unchanged. {said.cause}", look)


def _general(found: Measurement, m: Measures) -> Said | None:
    """What holds of any test: it does not apply, it raised, or what came back is not finite."""
    if found.raised:
        return Said(Verdict.ERROR, f"The model raised in this test, and the others went on: {found.refused}")
    if found.refused is not None:
        return Said(NONE, f"{found.refused[0].upper()}{found.refused[1:]}.")
    if found.off is not None and found.off != found.off and found.name != "again":
        return Said(
            FAILS, "Logits are not finite in this call.",
            "a row of scores that is masked everywhere, or a mask of finfo.min that overflows",
        )  # fmt: skip
    return None


def _plain(found: Measurement, m: Measures) -> Said:
    return Said(PASS) if m.ok(found.name) else Said(FAILS, f"Logits change by {number(found.off)} of their size.")
