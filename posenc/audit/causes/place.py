"""How position enters."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, NONE, PASS, PROPERTY, Judgement, judges, number
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("constant")
def _constant(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS, "Equal tokens get equal logits at every position.")
    return Judgement(
        PROPERTY,
        "Equal tokens get different logits at different positions: absolute positions, distances in the values, "
        "recurrence, convolution or a sink.",
    )


@judges("arange")
def _arange(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.ok("arange_from"):
        first = m["arange_from"].details["first"]
        return Judgement(
            PROPERTY,
            f"The model counts from {first}: positions {first}, {first + 1}, … reproduce its default (arange_from). "
            "Code that passes 0, 1, … gets other logits.",
        )
    return Judgement(
        FAILS,
        "Explicit positions 0, 1, 2, … do not reproduce the model's default, and neither does counting from 1, 2 or 3 "
        "(arange_from).",
        "where positions are made when none are given",
    )


@judges("shift")
def _shift(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        if (rounded := _escaped(m)) is not None:
            return rounded
        if m.bad("stretch"):
            return Judgement(PASS, "Relative: a shift changes nothing, but other distances do (stretch).")
        return Judgement(PASS, "A shift changes nothing.")
    if m.expects != "relative" and (m.expects == "absolute" or not m.ok("constant")):
        partner = "the scheme is absolute" if m.expects else "equal tokens differ by position (constant)"
        return Judgement(PROPERTY, f"Absolute: logits change under a shift, and {partner}.")
    why = (
        "the configuration names a relative scheme"
        if m.expects == "relative"
        else "equal tokens get equal logits at every position (constant), so position enters through the scores, which "
        "should depend on distances"
    )
    if scales := getattr(m.probe.adapter, "scales", ""):
        return Judgement(PROPERTY, f"Scores depend on more than distances: {scales}.")
    far = m["shift_far"]
    if far.off is not None and far.details["near"] < 0.2 * far.off:
        return Judgement(
            FAILS,
            f"Logits change under a shift, though {why}. The change grows with the shift, from "
            f"{number(far.details['near'])} at 1 to {number(far.off)} at 1000 (shift_far), as if angles were rounded.",
            "the dtype in which positions are multiplied by frequencies: float32 or more, also under autocast. A scale "
            "of the scores that grows with the position would do this by design",
        )
    if m.bad("casts") and far.off is not None and measured.off is not None and measured.off < 0.1:
        return Judgement(
            PASS,
            f"Logits change by as little at 1 as at 1000 (shift_far: {number(far.details['near'])} and "
            f"{number(far.off)}), which is the rounding of what the model computes in 16 bits.",
        )
    return Judgement(
        FAILS,
        f"Logits change under a shift, though {why}.",
        "the rotation: of queries and of keys, in the same layout of pairs, with a cosine and a sine. Tables that are "
        "added to queries and keys only would do this by design",
    )


def _escaped(m: Measures) -> Judgement | None:
    """A failure that float64 hides, since autocast and casts leave it alone."""
    if not m.double or not m.bad("casts"):
        return None
    single = m["shift_single"]
    if single.off is None or not single.off > max(10 * m.tolerance, 5 * single.details["near"]):
        return None
    return Judgement(
        FAILS,
        f"In float32 logits change under a shift, by {number(single.details['near'])} at 1 and {number(single.off)} at "
        "1000 (shift_single), and in float64 they do not: something casts to 16 bits, such as autocast, and rounds "
        "angles.",
        "positions times frequencies: in float32, with autocast switched off around them",
        single.off,
    )


@judges("stretch")
def _stretch(measured: Measurement, m: Measures) -> Judgement:
    if m.bad(measured.name):
        return Judgement(PASS, "Explicit positions have an effect.")
    if m.expects == "none":
        return Judgement(PASS, "Positions have no effect, as the scheme says.")
    rows = m.ok("left_pad") and m.bad("holes")
    counted = m.bad("constant") and not m.ok("left_pad")
    if not m.knows("recurrent") and (rows or counted):
        partner = (
            "padding between tokens changes logits (holes)" if rows else "equal tokens differ by position (constant)"
        )
        return Judgement(
            FAILS,
            f"Explicit positions change nothing, and yet {partner}: positions are counted from the start of the row.",
            "whether the argument reaches the encoding; packed and left-padded texts need it",
        )
    if m.expects:
        return Judgement(
            FAILS,
            f"Positions change nothing, though the scheme should be {m.expects}.",
            "whether the encoding is applied at all, with angles or entries that are not zero",
        )
    return Judgement(PROPERTY, "Explicit positions change nothing: the model has none, or it ignores the argument.")


@judges("embeds")
def _embeds(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if measured.details["plain"] <= m.tolerance:
        return Judgement(
            PROPERTY,
            "After padding, embeddings get other logits than tokens: nothing tells which of them are padding, so give "
            "positions as well.",
        )
    if m.ok("embeds_at"):
        mine, theirs = (m["embeds_at"].details[name] for name in ("tokens", "embeddings"))
        return Judgement(
            FAILS,
            f"Embeddings are counted from {theirs}, and tokens from {mine} (embeds_at).",
            "where positions are made when there are no tokens: from the number that tokens are counted from",
        )
    return Judgement(
        FAILS,
        "Embeddings from the model's own table get other logits than their tokens.",
        "positions that are made from tokens, and from which number they count without; factors of the embedding that "
        "are applied in one path alone",
    )


@judges("far")
def _far(measured: Measurement, m: Measures) -> Judgement:
    if scales := getattr(m.probe.adapter, "scales", ""):
        return Judgement(PROPERTY, f"Scores depend on more than distances: {scales}.")
    noise, exactly = measured.details["noise"], measured.details["exactly"]
    if m.bad("shift"):
        return Judgement(NONE, "Logits change under a shift anyway.")
    if (rounded := _escaped(m)) is not None:
        return rounded
    if exactly > 0.1 * measured.details["unit"]:
        return Judgement(NONE, "Logits change under a shift by 32768 in float32 already.")
    if (measured.off or 0.0) <= 3 * noise:
        return Judgement(PASS, "A shift by 32768 costs no more than rounding to bfloat16 does.")
    return Judgement(
        FAILS,
        f"In bfloat16, a shift by 32768 changes logits {(measured.off or 0.0) / max(noise, 1e-12):.0f} times as much "
        f"as rounding does; in float32, it changes them by {number(exactly)}.",
        "angles: positions and frequencies are multiplied in float32, and are not cast before the cosine",
    )
