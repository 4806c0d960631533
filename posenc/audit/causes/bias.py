"""What is added to scores."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, PASS, Judgement, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("bias")
def _bias(measured: Measurement, m: Measures) -> Judgement:
    wrong, found = measured.details["wrong"], measured.details["found"]
    if not wrong:
        return Judgement(PASS)
    reading, first = m.probe.reading, found[wrong[0]]
    where = "" if len(wrong) == len(found) else f"In layer{'s' * (len(wrong) > 1)} {', '.join(map(str, wrong[:6]))}, "
    if reading.buckets:
        what = "nothing is added to scores" if first.kind == "none" else "slopes are added to scores"
        said = f"{where}{what}, and the configuration names T5's buckets."
        sign = " One bucket for all distances is nothing to softmax: is the relative position key minus query?"
        return Judgement(
            FAILS,
            said[0].upper() + said[1:] + (sign if first.kind == "none" else ""),
            "the sign of the relative position: T5's buckets take the key's position minus the query's",
        )
    if first.kind == "alibi" and first.sign < 0:
        said = f"{where}ALiBi's slopes have the other sign: far keys are favoured."
        return Judgement(
            FAILS, said[0].upper() + said[1:], "the sign of distances: -slope · (query - key) is added to scores"
        )
    if first.kind == "alibi":
        got, want = (", ".join(f"{each:.3g}" for each in slopes[:4]) for slopes in (first.slopes, reading.slopes))
        said = f"{where}slopes are {got}, …, and {want}, … in the configuration."
        return Judgement(FAILS, said[0].upper() + said[1:], "the rule that makes slopes of the number of heads")
    said = (
        f"{where}scores get {'no bias' if first.kind == 'none' else 'another bias than a line'}, and the configuration"
    )
    return Judgement(FAILS, f"{said[0].upper()}{said[1:]} names ALiBi's slopes.", "whether the bias reaches the scores")
