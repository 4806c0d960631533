"""Verdicts by cause: other tests, the partners, decide what a number means, and the sentence names them."""

from __future__ import annotations

import importlib

from posenc.audit.causes.judgement import FAILS, JUDGES, NONE, PASS, PROPERTY, Judgement, number
from posenc.audit.causes.sight import encoder
from posenc.audit.checks import CHECKS, PARTS
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import FOLLOWS, Finding, Verdict

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
    if CHECKS[name].part in ("cache", "generation") and not getattr(m.probe.adapter, "keeps", False) and encoder(m):
        return Finding(name, question, NONE, None, "An encoder: tokens see later ones, so there is nothing to keep.")
    measured = m[name]
    judgement = _general(measured, m) or (JUDGES[name](measured, m) if name in JUDGES else _plain(measured, m))
    if judgement.verdict == FAILS and name != "again" and (words := m.healed(name)):
        judgement = _healed(judgement, words, getattr(m.probe.adapter, "explained", {}).get(words, ""))
    off = measured.off if judgement.off is None else judgement.off
    return Finding(name, question, judgement.verdict, off, judgement.cause, judgement.look)


def comparable(m: Measures) -> bool:
    """Whether answers of the model can be compared: not if they are not finite, random, or no answers."""
    return m.ok("again") or (m["again"].refused is not None and not m["again"].raised)  # it took too long


def _incomparable(again: Measurement) -> str:
    if again.raised:
        return "The model raises an error when a text is given twice (again)"
    if again.details["finite"] < 1:
        return "Logits are not finite (again)"
    return "Two calls with the same text disagree (again)"


def _healed(judgement: Judgement, words: str, explained: str) -> Judgement:
    """A failure that is none with one thing changed; a property where that explains it."""
    if explained:
        return Judgement(PROPERTY, f"{explained} It passes with {words}, the rest unchanged.")
    if judgement.cause.startswith(FOLLOWS):
        return judgement
    look = next((look for word, look in HEALED.items() if word in words), judgement.look)
    return Judgement(FAILS, f"It passes with {words}, the rest unchanged. {judgement.cause}", look)


def _general(measured: Measurement, m: Measures) -> Judgement | None:
    """What holds of any test: it does not apply, it raised, or what came back is not finite."""
    if measured.slow:
        return Judgement(
            Verdict.TIMED_OUT,
            f"{measured.refused[0].upper()}{measured.refused[1:]}: nothing is known." if measured.refused else "",
            "",
        )
    if measured.raised and (before := m.raised_before(measured)):
        return Judgement(Verdict.ERROR, f"{FOLLOWS} `{before}`, which raises the same: {measured.refused}")
    if measured.raised:
        return Judgement(
            Verdict.ERROR, f"The model raised an error in this test; the others went on: {measured.refused}"
        )
    if measured.refused is not None:
        return Judgement(NONE, f"{measured.refused[0].upper()}{measured.refused[1:]}.")
    if measured.off is not None and measured.off != measured.off and measured.name != "again":
        return Judgement(
            FAILS,
            "Logits are not finite in this call.",
            "a row of scores that is masked entirely, or a mask of finfo.min that overflows",
        )
    return None


def _plain(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    return Judgement(FAILS, f"Logits change by {number(measured.off)} times their root mean square.")


for _part in PARTS:  # each part of the checks has its causes in a module of the same name
    importlib.import_module(f"{__name__}.{_part}")
