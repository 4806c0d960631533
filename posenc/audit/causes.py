"""Verdicts by cause: what a number means is decided by other tests, its partners, and the sentence says by which."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from posenc.audit.checks import CHECKS
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import Finding, Verdict

PASS, FAILS, PROPERTY, NONE = Verdict.PASS, Verdict.FAILS, Verdict.PROPERTY, Verdict.NOT_APPLICABLE


class Said(NamedTuple):
    """A verdict, what it means, and where to look."""

    verdict: Verdict
    cause: str = ""
    look: str = ""


Judge = Callable[[Measurement, Measures], Said]
JUDGES: dict[str, Judge] = {}
"""What decides a test's verdict where its number alone does not."""


def judge(name: str, m: Measures) -> Finding:
    """The row of one test; it and the partners that it needs are measured if they were not."""
    question = CHECKS[name].question
    if name != "again" and not m.ok("again"):
        return Finding(name, question, NONE, None, "No answer is the same twice (again), so nothing can be compared.")
    found = m[name]
    said = _general(found, m) or (JUDGES[name](found, m) if name in JUDGES else _plain(found, m))
    if said.verdict == FAILS and name != "again" and (words := m.healed(name)):
        explained = getattr(m.probe.adapter, "explained", {}).get(words)
        healed = f"{explained or said.cause} It passes with {words}, the rest unchanged."
        said = Said(PROPERTY, healed) if explained else Said(FAILS, healed, said.look)
    return Finding(name, question, said.verdict, found.off, said.cause, said.look)


def judges(*names: str) -> Callable[[Judge], Judge]:
    """Registers what decides the verdict of tests of these names."""

    def register(function: Judge) -> Judge:
        JUDGES.update(dict.fromkeys(names, function))
        return function

    return register


def number(off: float | None) -> str:
    """A size as a sentence has it."""
    return "nothing" if off is None else f"{off:.2g}"


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


@judges("again")
def _again(found: Measurement, m: Measures) -> Said:
    if m.ok("again"):
        return Said(PASS)
    if found.details["finite"] < 1:
        share = 1 - found.details["finite"]
        return Said(FAILS, f"{share:.0%} of the logits are not finite.", "weights, and scores before the softmax")
    if m.ok("again_seeded"):
        return Said(
            FAILS, "The model is random: with the same seed twice it gives the same (again_seeded).",
            "dropout that is on in eval mode, noise, or sampling",
        )  # fmt: skip
    return Said(
        FAILS, "The model keeps something from call to call: the same seed does not help (again_seeded).",
        "attributes and buffers that forward changes, such as a counter of positions or a cache",
    )  # fmt: skip


@judges("neighbours")
def _neighbours(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("neighbours_copies"):
        return Said(
            FAILS, "A text's row in the batch matters: the second of three copies differs too (neighbours_copies).",
            "positions or masks made from the batch size, as when code for (L, B, D) gets (B, L, D)",
        )  # fmt: skip
    return Said(
        FAILS, "The texts beside it matter, since copies of it do not (neighbours_copies).",
        "what is computed over the batch: norms, routing with a capacity, reshapes that mix rows",
    )  # fmt: skip


@judges("fresh")
def _fresh(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    return Said(
        FAILS, f"After {m.probe.room} tokens the same text gives other logits, though not twice in a row (again).",
        "what grows with the longest text so far, such as a base or table that is enlarged and never made small again",
    )  # fmt: skip


# ---- sight -----------------------------------------------------------------------------------------------------------


def encoder(m: Measures) -> bool:
    """Whether every token sees all others, and nothing says that it should not."""
    if m.knows("causal") is not None:
        return not m.knows("causal")
    if not m.bad("future") or getattr(m.probe.adapter, "step", None) is not None:
        return False
    return all(seen == at for at, seen, _ in m["future"].details["ahead"])


def ahead(m: Measures) -> str:
    """Why a test fails that compares with the whole text, if a token sees ahead; "" if none does."""
    return "It follows from tokens that see ahead (future)." if m.bad("future") else ""


@judges("future")
def _future(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if encoder(m):
        return Said(
            PROPERTY,
            "Every token sees all others, as in an encoder. If it is meant as a decoder, it has no causal mask.",
        )  # fmt: skip
    spans = [span for _, seen, span in found.details["ahead"] if seen]
    if all(seen == at for at, seen, _ in found.details["ahead"]):
        return Said(
            FAILS, "Every token sees all others, and yet there is a cache, whose tokens cannot.", "the causal mask"
        )  # fmt: skip
    if spans and max(spans) <= m.probe.n // 4:
        many = f"{max(spans)} token{'s' if max(spans) > 1 else ''}"
        return Said(
            FAILS, f"Tokens see up to {many} ahead, all layers together.",
            "the diagonal of the causal mask, and convolutions that are padded on both sides",
        )  # fmt: skip
    return Said(
        FAILS, "Some earlier tokens see a later one, and others do not.",
        "axes that are permuted or reshaped on the way to the scores, and biases laid out for another axis",
    )  # fmt: skip


@judges("prefix")
def _prefix(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    return Said(
        FAILS, "No token sees a later one (future), but the length of the text changes earlier logits.",
        "what is computed from the length: positions counted from the end, a scale or base that depends on it",
    )  # fmt: skip


@judges("order")
def _order(found: Measurement, m: Measures) -> Said:
    if m.bad(found.name):
        return Said(PASS)
    if found.off:
        return Said(
            PROPERTY, "The order of tokens is hardly seen, so other tests see little too: attention is nearly uniform "
            "at these weights, or the model uses its past little.",
        )  # fmt: skip
    return Said(PROPERTY, "The last logit does not see the order of the tokens before it.")


@judges("reach")
def _reach(found: Measurement, m: Measures) -> Said:
    far, room = found.details["far"], found.details["room"]
    if far < 0:
        return Said(PROPERTY, "The first token changes nothing.")
    if m.reach is not None and far > m.reach:
        return Said(
            FAILS, f"The first token acts on {far} later ones, and windows of the configuration allow {m.reach}.",
            "whether the mask of the window is applied in this path",
        )  # fmt: skip
    if far == 0:
        return Said(PROPERTY, "The first token acts on no later one.")
    if far < room - 1:
        return Said(
            PROPERTY, f"The first token acts on the next {far} of {room - 1}: a window, or attention that fades."
        )
    return Said(PASS, f"The first token acts on all {room - 1} that follow.")


@judges("gradient")
def _gradient(found: Measurement, m: Measures) -> Said:
    if found.details["lost"] and m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    if found.details["lost"]:
        return Said(
            FAILS, f"Tokens at {found.details['lost']} change the last logits and get no gradient.",
            "detach, no_grad, rounding or argmax on the way from the embedding",
        )  # fmt: skip
    if found.details["unseen"]:
        return Said(
            PROPERTY, f"Tokens at {found.details['unseen']} get none, and change nothing: they are not selected."
        )
    return Said(PASS)


# ---- place -----------------------------------------------------------------------------------------------------------


@judges("constant")
def _constant(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS, "Alike everywhere: nothing absolute in what values carry.")
    return Said(
        PROPERTY, "They differ: absolute positions, distances in the values, recurrence, convolution or a sink."
    )


@judges("arange")
def _arange(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.ok("arange_from"):
        first = m["arange_from"].details["first"]
        return Said(
            PROPERTY, f"The model counts from {first}: positions {first}, {first + 1}, … give its own logits "
            f"(arange_from). Code that passes 0, 1, … asks for others.",
        )  # fmt: skip
    return Said(
        FAILS, "Positions that are given mean something else than the model's own, and counting from 1 to 3 is it "
        "neither (arange_from).",
        "where positions are made when none are given",
    )  # fmt: skip


@judges("shift")
def _shift(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        if m.bad("stretch"):
            return Said(PASS, "Relative: a shift changes nothing, and other distances do (stretch).")
        return Said(PASS, "A shift changes nothing.")
    if m.expects != "relative" and (m.expects == "absolute" or not m.ok("constant")):
        partner = "the scheme is absolute" if m.expects else "so are equal tokens at different places (constant)"
        return Said(PROPERTY, f"Absolute: logits change under a shift, and {partner}.")
    why = (
        "the configuration names a relative scheme"
        if m.expects == "relative"
        else "equal tokens are alike at all places (constant), so position enters by scores, which should see distances"
    )
    if scales := getattr(m.probe.adapter, "scales", ""):
        return Said(PROPERTY, f"Scores depend on more than distances: {scales}.")
    far = m["shift_far"]
    if far.off is not None and far.details["near"] < 0.2 * far.off:
        return Said(
            FAILS, f"Logits change under a shift, though {why}. It grows with the shift, "
            f"{number(far.details['near'])} at 1 and {number(far.off)} at 1000 (shift_far), as if angles were rounded.",
            "the dtype in which positions are multiplied by frequencies: float32 or more, also under autocast",
        )  # fmt: skip
    return Said(
        FAILS, f"Logits change under a shift, though {why}.",
        "the rotation: of queries and keys both, in one layout of pairs, with a cosine and a sine; tables that are "
        "added to queries and keys alone would do this by design",
    )  # fmt: skip


@judges("stretch")
def _stretch(found: Measurement, m: Measures) -> Said:
    if m.bad(found.name):
        return Said(PASS, "Positions that are given are seen.")
    if m.expects == "none":
        return Said(PASS, "No positions, as the scheme says.")
    rows = m.ok("left_pad") and m.bad("holes")
    counted = m.bad("constant") and not m.ok("left_pad")
    if not m.knows("recurrent") and (rows or counted):
        partner = (
            "padding between tokens changes logits (holes)" if rows else "equal tokens differ by their place (constant)"
        )
        return Said(
            FAILS, f"Positions that are given change nothing, and yet {partner}: tokens lie at their rows.",
            "whether the argument reaches the encoding; packed and left-padded texts need it",
        )  # fmt: skip
    if m.expects:
        return Said(
            FAILS, f"Positions change nothing, and the scheme should be {m.expects}.",
            "whether the encoding is applied at all, with angles or entries that are not zero",
        )  # fmt: skip
    return Said(PROPERTY, "Positions that are given change nothing: there are none, or the argument is ignored.")


@judges("far")
def _far(found: Measurement, m: Measures) -> Said:
    if scales := getattr(m.probe.adapter, "scales", ""):
        return Said(PROPERTY, f"Scores depend on more than distances: {scales}.")
    noise, exactly = found.details["noise"], found.details["exactly"]
    if m.bad("shift") or exactly > 0.1 * found.details["unit"]:
        return Said(NONE, "Logits change under a shift anyway.")
    if (found.off or 0.0) <= 3 * noise:
        return Said(PASS, "A shift of 32768 costs no more than bfloat16 does anyway.")
    return Said(
        FAILS, f"A shift of 32768 changes logits {(found.off or 0.0) / max(noise, 1e-12):.0f} times as much as "
        f"bfloat16 does without one, and in float32 by {number(exactly)}.",
        "angles: positions and frequencies have to be multiplied in float32, and not be cast before the cosine",
    )  # fmt: skip


# ---- padding ---------------------------------------------------------------------------------------------------------


def _mask_at_fault(m: Measures) -> Said | None:
    """What is wrong with the mask, whatever the positions are."""
    if m.bad("ones"):
        return Said(
            FAILS, f"A mask that says all tokens are real changes logits by {number(m.size('ones'))} (ones).",
            "what 1 and 0, True and False mean in the mask, and what is added to the scores",
        )  # fmt: skip
    if m.ok("mask_seen"):
        return Said(
            FAILS, "The mask changes nothing: masked padding gives what unmasked padding gives (mask_seen).",
            "whether the mask reaches attention, in every backend",
        )  # fmt: skip
    return None


@judges("right_pad")
def _right_pad(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("prefix") and not m.bad("future"):
        return Said(FAILS, "It follows from the length of the text (prefix).")
    if (said := _mask_at_fault(m)) is not None:
        return said
    if m.bad("future") and not encoder(m):
        return Said(FAILS, ahead(m))
    return Said(
        FAILS, "The mask does something (mask_seen), and tokens still see padding after them.",
        "the side of the mask: queries or keys; and positions that are counted from the end",
    )  # fmt: skip


@judges("left_pad")
def _left_pad(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if (said := _mask_at_fault(m)) is not None:
        return said
    if m.knows("recurrent"):
        return Said(PROPERTY, "A state passes through padding, also where it is masked.")
    absolute = m.bad("shift") or (m["shift"].off is None and m.bad("constant"))
    if m.ok("left_pad_ids"):
        if absolute:
            return Said(
                PROPERTY, "Absolute positions count padding unless they are given, and with positions it passes "
                "(left_pad_ids).",
            )  # fmt: skip
        return Said(
            FAILS, "Positions that are given heal it (left_pad_ids), and a shift changes nothing (shift), so positions "
            "that are made from the mask are no shift of the right ones.",
            "how positions are made from the mask",
        )  # fmt: skip
    if m["left_pad_ids"].off is None and m.bad("constant"):
        return Said(PROPERTY, "Absolute positions count padding, and there is no argument to give others.")
    if m.bad("constant") and m.ok("stretch"):
        return Said(
            FAILS, "Absolute positions count padding, and those that are given change nothing (stretch).",
            "whether the argument reaches the encoding",
        )  # fmt: skip
    return Said(
        FAILS, "The mask does something (mask_seen), and padding still counts.",
        "the axis of the mask, which is one of keys, and layers or backends that do not get it",
    )  # fmt: skip


@judges("left_pad_ids")
def _left_pad_ids(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    return JUDGES["left_pad"](found, m)


@judges("rows")
def _rows(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("neighbours"):
        return Said(FAILS, "It follows from other texts in the batch (neighbours).")
    if m.ok("left_pad_ids"):
        return Said(
            FAILS, "Alone it passes (left_pad_ids), beside a longer text it does not: the rows share something.",
            "indexing with [0] or [:1]: positions, mask or a length of the first row that serve all rows",
        )  # fmt: skip
    return JUDGES["left_pad"](found, m)


# ---- cache -----------------------------------------------------------------------------------------------------------


def _inherited(m: Measures, *before: str) -> Said | None:
    """A failure that a simpler test explains."""
    if m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    if m.bad("prefix"):
        return Said(FAILS, "It follows from the length of the text (prefix): what is cached knew a shorter one.")
    for name in before:
        if m.bad(name):
            return Said(FAILS, f"It follows from `{name}`.")
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
def _step(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if (said := _inherited(m)) is not None:
        return said
    first, prompt = found.details["first"], found.details["prompt"]
    if first is not None and first < prompt:
        return Said(
            FAILS, f"The prompt itself, from token {first} on, differs as soon as a cache is kept.",
            "what depends on whether a cache is there: masks, positions, another kernel",
        )  # fmt: skip
    place = _place(m)
    if m.ok("step_ids"):
        return Said(
            FAILS, "With positions it passes (step_ids), so it is positions in the cached path"
            + (f"; {place}." if place else "."),
            "where positions are made when there is a cache: they go on from its length",
        )  # fmt: skip
    if place:
        return Said(
            FAILS, f"In the cached path {place}.", "positions of a call with a cache: they go on from its length"
        )  # fmt: skip
    if first is not None and first > prompt:
        return Said(
            FAILS, f"It goes well up to token {first}, {first - prompt} after the prompt.",
            "what happens after so many tokens: a window, a full buffer, an eviction",
        )  # fmt: skip
    partner = "positions that are given do not help (step_ids)" if m.bad("step_ids") else "no positions can be given"
    return Said(
        FAILS, f"The first cached token is wrong, and {partner}.",
        "what is kept: keys turned once, by their own positions, or kept raw and turned with the queries; the mask of "
        "one query; the axis of concatenation",
    )  # fmt: skip


@judges("step_ids")
def _step_ids(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if (said := _inherited(m)) is not None:
        return said
    if m.bad("arange"):
        return Said(PROPERTY, "Positions that are given are others than the model's own (arange), and so it is here.")
    if m.bad("step"):
        said = JUDGES["step"](m["step"], m)
        return Said(said.verdict, f"As in `step`. {said.cause}", said.look)
    return Said(
        FAILS, "Without positions it passes (step): given ones are used otherwise when there is a cache.",
        "whether positions are added to the cache's length twice",
    )  # fmt: skip


@judges("step_left")
def _step_left(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        if m.bad("step_left_default") and m.ok("left_pad") and m.ok("step"):
            return Said(
                FAILS, "It passes with positions alone: without, a cached call counts padding, and one pass does not "
                "(left_pad).",
                "positions of a cached call: the number of real tokens before, and not the length of the cache",
            )  # fmt: skip
        return Said(PASS)
    if (said := _inherited(m, "step", "left_pad_ids")) is not None:
        return said if said.verdict != FAILS or not m.bad("left_pad_ids") else JUDGES["left_pad_ids"](found, m)
    if m.bad("left_pad") and m["left_pad_ids"].off is None:
        return JUDGES["left_pad"](found, m)
    return Said(
        FAILS, "Neither a cache (step) nor padding (left_pad_ids) fails alone.",
        "the mask in the cached path: it has to cover the past as well, so the cache must keep it or be given it",
    )  # fmt: skip


@judges("chunks", "resume")
def _chunks(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if (said := _inherited(m, *(("step",) if found.name == "chunks" else ("step", "chunks")))) is not None:
        return said
    if m.bad("chunk_ahead"):
        return Said(
            FAILS, "One token at a time passes (step); in a chunk, tokens see later ones (chunk_ahead).",
            "the causal mask of several queries with a past: its diagonal lies at the cache's length",
        )  # fmt: skip
    if m.ok("chunks_ids"):
        return Said(
            FAILS, "With positions it passes (chunks_ids), and one token at a time does too (step).",
            "positions of several tokens on top of a cache",
        )  # fmt: skip
    return Said(
        FAILS, "One token at a time passes (step), several on top of a cache do not.",
        "the mask of several queries with a past, and states that a call with several tokens begins anew",
    )  # fmt: skip


@judges("chunks_ids")
def _chunks_ids(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("arange"):
        return Said(PROPERTY, "Positions that are given are others than the model's own (arange), and so it is here.")
    if m.bad("chunks") or m.bad("step_ids"):
        name = "chunks" if m.bad("chunks") else "step_ids"
        said = JUDGES[name](m[name], m)
        return Said(said.verdict, f"As in `{name}`. {said.cause}", said.look)
    return Said(FAILS, "Without positions it passes (chunks).", "positions of several tokens on top of a cache")


@judges("reorder")
def _reorder(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if (said := _inherited(m, "step", "neighbours")) is not None:
        return said
    if found.details["plain"] <= m.tolerance and m.bad("step_left"):
        return Said(
            PASS, "Texts of one length pass; a padded one fails already where it stays in its row (step_left)."
        )  # fmt: skip
    if m.bad("reorder_none"):
        return Said(
            FAILS, "Rows that stay in their order fail too (reorder_none).", "what reorder returns, a batch of two"
        )  # fmt: skip
    if found.details["plain"] <= m.tolerance:
        return Said(
            FAILS, "Texts of one length pass, others do not: what says where each begins stays behind.",
            "tables of the cache beside keys and values: positions, masks, lengths",
        )  # fmt: skip
    return Said(
        FAILS, "The row that goes on has another row's past, in part or all of it.",
        "every tensor of the cache, in every layer: keys, values, states of convolution and recurrence",
    )  # fmt: skip


@judges("crop")
def _crop(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if (said := _inherited(m, "step")) is not None:
        return said
    if m.ok("crop_ids"):
        return Said(
            FAILS, "With positions it passes (crop_ids), so keys are taken back and positions are not.",
            "counters beside the cache, such as a next position",
        )  # fmt: skip
    return Said(
        FAILS, "Tokens that were taken back still act.",
        "every tensor of the cache, in every layer, and what a mask or a window still counts",
    )  # fmt: skip


# ---- generation ------------------------------------------------------------------------------------------------------


@judges("generate")
def _generate(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    if m.bad("generate_nocache"):
        return Said(
            FAILS, "Without a cache it fails too (generate_nocache): generate gives other positions, or another mask, "
            "than forward makes itself." + (" Forward does not count from 0 (arange)." if m.bad("arange") else ""),
            "what generate passes as positions, beside what forward makes when it gets none",
        )  # fmt: skip
    if m.bad("step"):
        said = JUDGES["step"](m["step"], m)
        return Said(said.verdict, f"As in `step`. {said.cause}", said.look)
    return Said(
        FAILS, "Without a cache it passes (generate_nocache), and by hand too (step).", "what generate gives a step"
    )  # fmt: skip


@judges("generate_nocache")
def _generate_nocache(found: Measurement, m: Measures) -> Said:
    return Said(PASS) if m.ok(found.name) else JUDGES["generate"](found, m)


@judges("generate_left", "static", "generate_on")
def _generate_otherwise(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("generate"):
        said = JUDGES["generate"](m["generate"], m)
        return Said(said.verdict, f"As in `generate`. {said.cause}", said.look)
    if found.name == "generate_left":
        if m.bad("left_pad_ids"):
            return JUDGES["left_pad_ids"](found, m)
        if m.bad("left_pad") and m.ok("left_pad_ids"):
            return Said(
                FAILS, "Positions that are given would heal it (left_pad_ids), and generate gives none.",
                "whether generate makes positions from the mask for this class",
            )  # fmt: skip
        if m["left_pad_ids"].off is None and m.bad("left_pad"):
            return JUDGES["left_pad"](found, m)
        look = "positions and mask that generate makes from padding"
    elif found.name == "static":
        look = "what is indexed by the length of the keys, which is that of the whole buffer in a static cache"
    else:
        if m.bad("chunks"):
            said = JUDGES["chunks"](m["chunks"], m)
            return Said(said.verdict, f"As in `chunks`. {said.cause}", said.look)
        look = "several new tokens on top of a cache"
    return Said(FAILS, "Plain generation passes (generate).", look)


@judges("beams", "lookup")
def _sequences(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    for name in ("generate", "reorder") if found.name == "beams" else ("generate", "chunks"):
        if m.bad(name):
            said = JUDGES[name](m[name], m)
            return Said(said.verdict, f"As in `{name}`. {said.cause}", said.look)
    details = found.details
    return Said(
        FAILS, f"{details.get('rows', 'Some')} of {details.get('of', 'the')} sequences differ, though one beam passes "
        "(generate).",
        "how rows of the cache are reordered" if found.name == "beams" else "how rejected tokens leave the cache",
    )  # fmt: skip


# ---- packing and reference -------------------------------------------------------------------------------------------


@judges("packed_ids")
def _packed_ids(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.knows("recurrent"):
        return Said(PROPERTY, "A state passes from one document to the next.")
    if m.knows("packs"):
        return Said(
            FAILS, "The second document sees the first, though positions that begin again should separate them.",
            "whether positions reach the function that makes the mask",
        )  # fmt: skip
    return Said(PROPERTY, "Positions that begin again do not separate documents here: that takes a mask.")


@judges("packed_default")
def _packed_default(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.ok("packed_ids"):
        return Said(
            PROPERTY, "Documents are separate only where no cache is kept (packed_ids): in training, use_cache=False.",
        )  # fmt: skip
    return JUDGES["packed_ids"](found, m)


@judges("reference")
def _reference(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.ok("reference_at"):
        change = m["reference_at"].details["change"]
        return Said(
            FAILS, f"The reference gives the same when its positions are {change} (reference_at).",
            "where positions are made and multiplied by frequencies",
        )  # fmt: skip
    if found.details.get("default", 1.0) <= m.tolerance:
        return Said(
            FAILS, "By default both agree, with positions that are given they do not.", "how given positions are used"
        )  # fmt: skip
    return Said(
        FAILS, "No simple change of positions explains it (reference_at).",
        "the constants of the scheme: base, number of channels, layout of pairs, scale of the scores",
    )  # fmt: skip


@judges("angles")
def _angles(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    rates, wanted = found.details["found"], sorted(found.details["wanted"], reverse=True)
    if len(rates) != len(wanted):
        return Said(
            FAILS, f"{len(rates)} pairs of channels turn, and {len(wanted)} should.", "the rotary part of a head"
        )  # fmt: skip
    first, last = rates[0] / wanted[0], rates[-1] / wanted[-1]
    if abs(first - last) < 1e-3 * first:
        return Said(
            FAILS, f"All angles are {first:.3g} times what they should be.", "positions, or a factor of frequencies"
        )  # fmt: skip
    base = [x[0] / x[-1] for x in (rates, wanted)]
    planes = len(rates) / max(1, len(rates) - 1)
    return Said(
        FAILS, f"From the fastest pair to the slowest, angles fall by {base[0]:.4g}, and should by {base[1]:.4g}. "
        f"For a geometric series the bases are {base[0] ** planes:.4g} and {base[1] ** planes:.4g}.",
        "where the base is read from",
    )  # fmt: skip
