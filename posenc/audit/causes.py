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
        said = Said(FAILS, f"{said.cause} It passes with {words}, the rest unchanged.", said.look)
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
    if m.window is not None and far > m.window:
        return Said(
            FAILS, f"The first token acts on {far} later ones, and windows of the configuration allow {m.window}.",
            "whether the mask of the window is applied in this path",
        )  # fmt: skip
    if far < room - 1:
        return Said(
            PROPERTY, f"The first token acts on the next {far} of {room - 1}: a window, or attention that fades."
        )
    return Said(PASS, f"The first token acts on all {room - 1} that follow.")


@judges("gradient")
def _gradient(found: Measurement, m: Measures) -> Said:
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
