"""A text that goes through the cache."""

from __future__ import annotations

from typing import Any

from posenc.audit.causes.judgement import FAILS, JUDGES, PASS, PROPERTY, Judgement, follows, judges
from posenc.audit.causes.sight import ahead, encoder
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import FOLLOWS

OTHER_DEFAULT = "Positions 0, 1, 2, … are not the model's default (arange), and so it is here."


def _inherited(m: Measures, *before: str) -> Judgement | None:
    """A failure that a simpler test explains."""
    if m.bad("future"):
        return Judgement(PROPERTY if encoder(m) else FAILS, ahead(m))
    if m.bad("prefix"):
        return Judgement(
            FAILS,
            f"{FOLLOWS} `prefix`: logits depend on the text's length, which was shorter when they were cached.",
        )
    for name in before:
        if m.bad(name):
            return follows(name, m)
    return None


def _place(m: Measures) -> str:
    """Which position the first cached token gets, in words, if it is a wrong one."""
    if not m.ok("step_place"):
        return ""
    place, right = (m["step_place"].details[key] for key in ("place", "right"))
    if place == right:
        return ""
    how = {0: "positions restart at 0", right + 1: "one too many", right - 1: "one too few"}.get(place, "")
    return f"the first cached token gets position {place} instead of {right} (step_place)" + (f": {how}" if how else "")


def _turned(query: int | None, key: int | None, right: int) -> str:
    """Where a token lies in the first layer of a cached call, in words; "" where that cannot be told."""
    if query is None or key is None:
        return ""
    if query == key:
        how = {1: ": one too many", -1: ": one too few"}.get(query - right, "")
        return f"token {right} lies at position {query}{how} (cached_look)"
    wrong = [f"its {name} as at position {place}" for name, place in (("query", query), ("key", key)) if place != right]
    rest = "key" if query != right else "query"
    same = f", and its {rest} is right" if len(wrong) == 1 else ""
    return f"token {right} has {' and '.join(wrong)}{same} (cached_look)"


def _seen_in(look: dict[str, Any]) -> Judgement | None:
    """What the first layer of a cached call does wrong; None where it was not seen, or is right."""
    if not look:
        return None
    right, query, key = look["right"], look["query"], look["key"]
    if (query, key) != (right, right) and (said := _turned(query, key, right)):
        return Judgement(
            FAILS, f"In the cached path, {said}.", "positions of a call with a cache: they continue from its length"
        )
    moved = [at for at, place in enumerate(look["past"]) if place is not None and place != at]
    if (query, key) == (right, right) and moved:
        return Judgement(
            FAILS,
            f"In the cached path, the key of token {moved[0]} lies at position {look['past'][moved[0]]} (cached_look).",
            "what is kept: keys turned once, by their own positions, or kept unturned and turned with the queries",
        )
    for name, words in (("hidden", "does not see"), ("shown", "sees")):
        if (query, key) == (right, right) and look[name]:
            tokens = ", ".join(map(str, look[name][:4])) + (", …" if len(look[name]) > 4 else "")
            end = "in one pass it does" if name == "hidden" else "in one pass it does not"
            return Judgement(
                FAILS,
                f"The first cached token {words} token{'s' * (len(look[name]) > 1)} {tokens}, and {end} (cached_look).",
                "the mask of a single query: its row is that of the last token, not the first row of the mask",
            )
    if (query, key) == (right, right) and not look["scores"]:
        return Judgement(
            FAILS,
            "Queries and keys of the first cached token are right, and their scores are not (cached_look).",
            "what is added to the scores of a single query: a bias of distances takes the row of the last token",
        )
    return None


@judges("step")
def _step(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m)) is not None:
        return judgement
    first, prompt = measured.details["first"], measured.details["prompt"]
    look = m["cached_look"].details
    if first is not None and first < prompt:
        at = look.get("right", 0) - 1
        places = [look.get(name) for name in ("prompt", "prompt_key")]
        said = _turned(places[0], places[1], at) if look and places != [at, at] else ""
        if said:
            return Judgement(
                FAILS,
                f"Logits of the prompt itself differ from token {first} on as soon as a cache is kept: {said}.",
                "when a count of the past is read and when it moves on: before queries and keys are turned, and not in "
                "place between the two",
            )
        if first > 4:
            return Judgement(
                FAILS,
                f"Logits match up to token {first}, within the prompt, and differ from there on as soon as a cache is "
                "kept.",
                "what happens after that many tokens: a window, a full buffer, an eviction",
            )
        return Judgement(
            FAILS,
            f"Logits of the prompt itself differ from token {first} on as soon as a cache is kept.",
            "what depends on whether there is a cache: masks, positions, a different kernel",
        )
    place = _place(m)
    if m.ok("step_ids"):
        return Judgement(
            FAILS,
            "It passes when positions are given (step_ids), so the cached path computes wrong positions"
            + (f"; {place}." if place else "."),
            "where positions are made when there is a cache: they continue from its length",
        )
    if place:
        return Judgement(
            FAILS,
            f"In the cached path, {place}.",
            "positions of a call with a cache: they continue from its length",
        )
    if (seen := _seen_in(look)) is not None:
        return seen
    if first is not None and first > prompt:
        after = first - prompt
        return Judgement(
            FAILS,
            f"Logits match up to token {first}, {after} {'token' if after == 1 else 'tokens'} after the prompt.",
            "what happens after that many tokens: a window, a full buffer, an eviction",
        )
    partner = "giving positions does not help (step_ids)" if m.bad("step_ids") else "the model takes no positions"
    return Judgement(
        FAILS,
        f"Logits of the first cached token are wrong, and {partner}.",
        "the cached keys, rotated once by their own positions, or kept unrotated and rotated with the queries; the "
        "mask of a single query; the axis of concatenation",
    )


@judges("step_ids")
def _step_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m)) is not None:
        return judgement
    if m.bad("arange"):
        return Judgement(PROPERTY, OTHER_DEFAULT)
    if m.bad("step"):
        return follows("step", m)
    return Judgement(
        FAILS,
        "It passes without positions (step): with a cache, explicit positions are used in another way.",
        "whether the cache's length is added to positions that count it already",
    )


@judges("step_left")
def _step_left(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        if m.bad("step_left_default") and m.ok("left_pad") and m.ok("step"):
            return Judgement(
                FAILS,
                "It passes only when positions are given: without them, a cached call counts padding, and a single "
                "pass does not (left_pad).",
                "positions of a cached call: the number of real tokens before it, not the length of the cache",
                m.size("step_left_default"),
            )
        return Judgement(PASS)
    if (judgement := _inherited(m, "step", "left_pad_ids")) is not None:
        return judgement
    if m.bad("left_pad") and m["left_pad_ids"].off is None:
        return JUDGES["left_pad"](measured, m)
    return Judgement(
        FAILS,
        "A cache alone passes (step), and so does padding alone (left_pad_ids), but not both together.",
        "the mask in the cached path: it covers the past as well, so the cache must keep it or be given it",
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
            "One token at a time passes (step), but tokens of a chunk see later ones of it (chunk_ahead).",
            "the causal mask of several queries with a past: its diagonal starts at the cache's length",
        )
    if m.ok("chunks_ids"):
        return Judgement(
            FAILS,
            "It passes when positions are given (chunks_ids), and one token at a time passes too (step).",
            "positions of several tokens that are added to a cache",
        )
    sizes = m["chunk_sizes"].details
    if sizes.get("good") and sizes.get("bad"):
        return Judgement(
            FAILS,
            f"Chunks of up to {sizes['good']} tokens pass, and chunks of {sizes['bad']} do not (chunk_sizes)"
            + (f"; the window has {m.probe.window} tokens." if m.probe.layers and m.probe.window else "."),
            "rows of a ring that a chunk overwrites before its own first tokens have read them, and the mask of "
            "several queries where a window has begun to drop keys",
        )
    return Judgement(
        FAILS,
        "One token at a time passes (step), but several tokens added to a cache do not.",
        "the mask of several queries with a past, states that a call with several tokens resets, and rows of a ring "
        "that a chunk overwrites before it has read them",
    )


@judges("chunks_ids")
def _chunks_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("arange"):
        return Judgement(PROPERTY, OTHER_DEFAULT)
    for name in ("chunks", "step_ids"):
        if m.bad(name):
            return follows(name, m)
    return Judgement(
        FAILS, "It passes without positions (chunks).", "positions of several tokens that are added to a cache"
    )


@judges("reorder")
def _reorder(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _inherited(m, "step", "neighbours")) is not None:
        return judgement
    if measured.details["plain"] <= m.tolerance and m.bad("step_left"):
        return Judgement(
            PASS,
            "Texts of equal length pass; a padded text fails even where rows keep their order (step_left).",
            off=measured.details["plain"],
        )
    if m.bad("reorder_none"):
        return Judgement(
            FAILS,
            "It fails even when rows keep their order (reorder_none).",
            "what reorder returns, and batches of two",
        )
    if measured.details["plain"] <= m.tolerance:
        return Judgement(
            FAILS,
            "Texts of equal length pass, texts of different lengths do not: where each text begins is not reordered.",
            "tensors of the cache beside keys and values: positions, masks, lengths",
        )
    return Judgement(
        FAILS,
        "After reordering, a row continues from the past of another row, in whole or in part.",
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
            "It passes when positions are given (crop_ids): keys are removed, but positions are not reset.",
            "counters beside the cache, such as a next position",
        )
    return Judgement(
        FAILS,
        "Removed tokens still change the logits.",
        "every tensor of the cache, in every layer, and lengths that a mask or a window still counts",
    )
