"""How position enters."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, NONE, PASS, PROPERTY, Judgement, judges, number
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("constant")
def _constant(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS, "Alike everywhere: nothing absolute in what values carry.")
    return Judgement(
        PROPERTY, "They differ: absolute positions, distances in the values, recurrence, convolution or a sink."
    )


@judges("arange")
def _arange(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.ok("arange_from"):
        first = m["arange_from"].details["first"]
        return Judgement(
            PROPERTY,
            f"The model counts from {first}: positions {first}, {first + 1}, … give its own logits "
            f"(arange_from). Code that passes 0, 1, … asks for others.",
        )
    return Judgement(
        FAILS,
        "Positions that are given mean something else than the model's own, and counting from 1 to 3 is it "
        "neither (arange_from).",
        "where positions are made when none are given",
    )


@judges("shift")
def _shift(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        if m.bad("stretch"):
            return Judgement(PASS, "Relative: a shift changes nothing, and other distances do (stretch).")
        return Judgement(PASS, "A shift changes nothing.")
    if m.expects != "relative" and (m.expects == "absolute" or not m.ok("constant")):
        partner = "the scheme is absolute" if m.expects else "so are equal tokens at different places (constant)"
        return Judgement(PROPERTY, f"Absolute: logits change under a shift, and {partner}.")
    why = (
        "the configuration names a relative scheme"
        if m.expects == "relative"
        else "equal tokens are alike at all places (constant), so position enters by scores, which should see distances"
    )
    if scales := getattr(m.probe.adapter, "scales", ""):
        return Judgement(PROPERTY, f"Positions act by more than their distance: {scales}.")
    far = m["shift_far"]
    if far.off is not None and far.details["near"] < 0.2 * far.off:
        return Judgement(
            FAILS,
            f"Logits change under a shift, though {why}. It grows with the shift, "
            f"{number(far.details['near'])} at 1 and {number(far.off)} at 1000 (shift_far), as if angles were rounded.",
            "the dtype in which positions are multiplied by frequencies: float32 or more, also under autocast. A "
            "scale of scores that grows with the position would do this by design",
        )
    return Judgement(
        FAILS,
        f"Logits change under a shift, though {why}.",
        "the rotation: of queries and keys both, in one layout of pairs, with a cosine and a sine; tables that are "
        "added to queries and keys alone would do this by design",
    )


@judges("stretch")
def _stretch(measured: Measurement, m: Measures) -> Judgement:
    if m.bad(measured.name):
        return Judgement(PASS, "Positions that are given are seen.")
    if m.expects == "none":
        return Judgement(PASS, "No positions, as the scheme says.")
    rows = m.ok("left_pad") and m.bad("holes")
    counted = m.bad("constant") and not m.ok("left_pad")
    if not m.knows("recurrent") and (rows or counted):
        partner = (
            "padding between tokens changes logits (holes)" if rows else "equal tokens differ by their place (constant)"
        )
        return Judgement(
            FAILS,
            f"Positions that are given change nothing, and yet {partner}: tokens lie at their rows.",
            "whether the argument reaches the encoding; packed and left-padded texts need it",
        )
    if m.expects:
        return Judgement(
            FAILS,
            f"Positions change nothing, and the scheme should be {m.expects}.",
            "whether the encoding is applied at all, with angles or entries that are not zero",
        )
    return Judgement(PROPERTY, "Positions that are given change nothing: there are none, or the argument is ignored.")


@judges("far")
def _far(measured: Measurement, m: Measures) -> Judgement:
    if scales := getattr(m.probe.adapter, "scales", ""):
        return Judgement(PROPERTY, f"Positions act by more than their distance: {scales}.")
    noise, exactly = measured.details["noise"], measured.details["exactly"]
    if m.bad("shift") or exactly > 0.1 * measured.details["unit"]:
        return Judgement(NONE, "Logits change under a shift anyway.")
    if (measured.off or 0.0) <= 3 * noise:
        return Judgement(PASS, "A shift of 32768 costs no more than bfloat16 does anyway.")
    return Judgement(
        FAILS,
        f"A shift of 32768 changes logits {(measured.off or 0.0) / max(noise, 1e-12):.0f} times as much as "
        f"bfloat16 does without one, and in float32 by {number(exactly)}.",
        "angles: positions and frequencies have to be multiplied in float32, and not be cast before the cosine",
    )
