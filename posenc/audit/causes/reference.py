"""What the model should be."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, PASS, Judgement, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("reference")
def _reference(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.ok("reference_at"):
        change = m["reference_at"].details["change"]
        return Judgement(
            FAILS,
            f"The reference gives the same logits when its positions are {change} (reference_at).",
            "where positions are made and multiplied by frequencies",
        )
    if measured.details.get("default", 1.0) <= m.tolerance:
        return Judgement(
            FAILS, "Both models agree by default, but not with explicit positions.", "how explicit positions are used"
        )
    return Judgement(
        FAILS,
        "No simple change of positions explains the difference (reference_at).",
        "the constants of the scheme: base, number of channels, layout of pairs, scale of the scores",
    )


@judges("angles")
def _angles(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    rates, wanted = measured.details["rates"], sorted(measured.details["wanted"], reverse=True)
    if len(rates) != len(wanted):
        return Judgement(
            FAILS, f"{len(rates)} pairs of channels rotate, but {len(wanted)} should.", "the rotary part of a head"
        )
    first, last = rates[0] / wanted[0], rates[-1] / wanted[-1]
    if abs(first - last) < 1e-3 * first:
        return Judgement(
            FAILS, f"All angles are {first:.3g} times what they should be.", "positions, or a factor of the frequencies"
        )
    falls = [x[0] / x[-1] for x in (rates, wanted)]
    planes = len(rates) / max(1, len(rates) - 1)
    return Judgement(
        FAILS,
        f"From the fastest pair to the slowest, angles fall by a factor of {falls[0]:.4g} instead of {falls[1]:.4g}. "
        f"In a geometric series, the bases are {falls[0] ** planes:.4g} and {falls[1] ** planes:.4g}.",
        "where the base is read from",
    )
