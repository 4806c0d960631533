"""What the model should be."""

from __future__ import annotations

from posenc.audit.causes.said import FAILS, PASS, Said, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


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
