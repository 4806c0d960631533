"""What the model should be."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, PASS, Judgement, judges, several
from posenc.audit.causes.rates import of_rates
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("reference")
def _reference(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        if "own" in measured.details:
            return Judgement(
                PASS, "With the weights that each has they agree: the same numbers, in the order that each needs."
            )
        return Judgement(PASS)
    if m.ok("reference_at") and "own" not in measured.details:
        change = m["reference_at"].details["change"]
        if change in ("negative", "counted from the end"):
            return Judgement(
                FAILS,
                "The reference gives the same logits when its distances have the other sign (reference_at).",
                "the sign of distances, such as query minus key, or of a sine",
            )
        return Judgement(
            FAILS,
            f"The reference gives the same logits when its positions are {change} (reference_at).",
            "where positions are made and multiplied by frequencies",
        )
    if measured.details.get("default", 1.0) <= m.tolerance and "own" not in measured.details:
        return Judgement(
            FAILS, "Both models agree by default, but not with explicit positions.", "how explicit positions are used"
        )
    if told := m["reference_told"].details.get("told"):
        return Judgement(FAILS, f"{told} (compare).", m["reference_told"].details["look"])
    return Judgement(
        FAILS,
        "No simple change of positions explains the difference (reference_at).",
        "the constants of the scheme: base, number of channels, layout of pairs, scale of the scores",
    )


@judges("angles")
def _angles(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    wrong = measured.details["wrong"]
    told = [of_rates(each["raw"], each["wanted"], each["rotation"]) for each in wrong]
    if len(wrong) == 1:
        where = _where(m)
        return told[0]._replace(
            cause=f"{where}{told[0].cause[:1].lower()}{told[0].cause[1:]}" if where else told[0].cause
        )
    kinds = [f"{each['rotation'].kind or 'all'} layers" if each["rotation"] else "one kind" for each in wrong]
    said = " ".join(
        f"Of {kind}: {judgement.cause[:1].lower()}{judgement.cause[1:]}"
        for kind, judgement in zip(kinds, told, strict=True)
    )
    return told[0]._replace(cause=said)


def _where(m: Measures) -> str:
    """In which layers it is so, where that is known and it is not all of them."""
    details = m["schedule"].details
    layers = [each["layer"] for each in details.get("wrong", []) if each["of"] == "rates"]
    if not layers or len(layers) == len(details["seen"]):
        return ""
    return f"In {several(layers)} "
