"""A text that goes through the cache."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, JUDGES, PASS, PROPERTY, Judgement, follows, judges
from posenc.audit.causes.sight import ahead, encoder
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


def _inherited(m: Measures, *before: str) -> Judgement | None:
    """A failure that a simpler test explains."""
    if m.bad("future"):
        return Judgement(PROPERTY if encoder(m) else FAILS, ahead(m))
    if m.bad("prefix"):
        return Judgement(FAILS, "It follows from the length of the text (prefix): what is cached knew a shorter one.")
    for name in before:
        if m.bad(name):
            return follows(name, m)
    return None


def _place(m: Measures) -> str:
    """At which position the first cached token lies, in words, if it is a wrong one."""
    if not m.ok("step_place"):
        return ""
    place, right = (m["step_place"].details[key] for key in ("place", "right"))
    if place == right:
        return ""
    how = {0: "positions begin again at 0", right + 1: "one is added", right - 1: "one is missing"}.get(place, "")
    return f"the first cached token lies at {place} and not at {right} (step_place)" + (f": {how}" if how else "")


@judges("step")
def _step(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m)) is not None:
        return judgement
    first, prompt = measured.details["first"], measured.details["prompt"]
    if first is not None and first < prompt:
        return Judgement(
            FAILS,
            f"The prompt itself, from token {first} on, differs as soon as a cache is kept.",
            "what depends on whether a cache is there: masks, positions, another kernel",
        )
    place = _place(m)
    if m.ok("step_ids"):
        return Judgement(
            FAILS,
            "With positions it passes (step_ids), so it is positions in the cached path"
            + (f"; {place}." if place else "."),
            "where positions are made when there is a cache: they go on from its length",
        )
    if place:
        return Judgement(
            FAILS, f"In the cached path {place}.", "positions of a call with a cache: they go on from its length"
        )
    if first is not None and first > prompt:
        return Judgement(
            FAILS,
            f"It goes well up to token {first}, {first - prompt} after the prompt.",
            "what happens after so many tokens: a window, a full buffer, an eviction",
        )
    partner = "positions that are given do not help (step_ids)" if m.bad("step_ids") else "no positions can be given"
    return Judgement(
        FAILS,
        f"The first cached token is wrong, and {partner}.",
        "what is kept: keys turned once, by their own positions, or kept raw and turned with the queries; the mask of "
        "one query; the axis of concatenation",
    )


@judges("step_ids")
def _step_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m)) is not None:
        return judgement
    if m.bad("arange"):
        return Judgement(
            PROPERTY, "Positions that are given are others than the model's own (arange), and so it is here."
        )
    if m.bad("step"):
        return follows("step", m)
    return Judgement(
        FAILS,
        "Without positions it passes (step): given ones are used otherwise when there is a cache.",
        "whether positions are added to the cache's length twice",
    )


@judges("step_left")
def _step_left(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        if m.bad("step_left_default") and m.ok("left_pad") and m.ok("step"):
            return Judgement(
                FAILS,
                "It passes with positions alone: without, a cached call counts padding, and one pass does not "
                "(left_pad).",
                "positions of a cached call: the number of real tokens before, and not the length of the cache",
                m.size("step_left_default"),
            )
        return Judgement(PASS)
    if (judgement := _inherited(m, "step", "left_pad_ids")) is not None:
        return judgement
    if m.bad("left_pad") and m["left_pad_ids"].off is None:
        return JUDGES["left_pad"](measured, m)
    return Judgement(
        FAILS,
        "Neither a cache (step) nor padding (left_pad_ids) fails alone.",
        "the mask in the cached path: it has to cover the past as well, so the cache must keep it or be given it",
    )


@judges("chunks", "resume")
def _chunks(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m, *(("step",) if measured.name == "chunks" else ("step", "chunks")))) is not None:
        return judgement
    if m.bad("chunk_ahead"):
        return Judgement(
            FAILS,
            "One token at a time passes (step); in a chunk, tokens see later ones (chunk_ahead).",
            "the causal mask of several queries with a past: its diagonal lies at the cache's length",
        )
    if m.ok("chunks_ids"):
        return Judgement(
            FAILS,
            "With positions it passes (chunks_ids), and one token at a time does too (step).",
            "positions of several tokens on top of a cache",
        )
    return Judgement(
        FAILS,
        "One token at a time passes (step), several on top of a cache do not.",
        "the mask of several queries with a past, and states that a call with several tokens begins anew",
    )


@judges("chunks_ids")
def _chunks_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("arange"):
        return Judgement(
            PROPERTY, "Positions that are given are others than the model's own (arange), and so it is here."
        )
    if m.bad("chunks") or m.bad("step_ids"):
        name = "chunks" if m.bad("chunks") else "step_ids"
        return follows(name, m)
    return Judgement(FAILS, "Without positions it passes (chunks).", "positions of several tokens on top of a cache")


@judges("reorder")
def _reorder(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m, "step", "neighbours")) is not None:
        return judgement
    if measured.details["plain"] <= m.tolerance and m.bad("step_left"):
        return Judgement(
            PASS,
            "Texts of one length pass; a padded one fails already where it stays in its row (step_left).",
            off=measured.details["plain"],
        )
    if m.bad("reorder_none"):
        return Judgement(
            FAILS, "Rows that stay in their order fail too (reorder_none).", "what reorder returns, a batch of two"
        )
    if measured.details["plain"] <= m.tolerance:
        return Judgement(
            FAILS,
            "Texts of one length pass, others do not: what says where each begins stays behind.",
            "tables of the cache beside keys and values: positions, masks, lengths",
        )
    return Judgement(
        FAILS,
        "The row that goes on has another row's past, in part or all of it.",
        "every tensor of the cache, in every layer: keys, values, states of convolution and recurrence",
    )


@judges("crop")
def _crop(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m, "step")) is not None:
        return judgement
    if m.ok("crop_ids"):
        return Judgement(
            FAILS,
            "With positions it passes (crop_ids), so keys are taken back and positions are not.",
            "counters beside the cache, such as a next position",
        )
    return Judgement(
        FAILS,
        "Tokens that were taken back still act.",
        "every tensor of the cache, in every layer, and what a mask or a window still counts",
    )
