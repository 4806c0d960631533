"""Whether each layer does what the configuration says of it."""

from __future__ import annotations

from typing import Any

from posenc.audit.causes.judgement import FAILS, PASS, Judgement, follows, judges, several
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement

LOOK = {
    "turns": "the list or interval of layers that do not rotate: which value means which, and where it counts from",
    "rates": "which of the sets of cosines each kind of layer gets",
    "back": "the mask of each kind of layer, and on which side a window counts the token itself",
    "ahead": "the mask of each kind of layer: a window of an encoder reaches as far ahead as back",
}


@judges("schedule")
def _schedule(measured: Measurement, m: Measures) -> Judgement:
    wrong: list[dict[str, Any]] = measured.details["wrong"]
    if not wrong:
        many = len(measured.details["seen"])
        return Judgement(PASS, f"Of {many} layers, each turns, and sees, as the configuration says.")
    kinds = {each["of"] for each in wrong}
    none = not any(each.turns for each in measured.details["seen"])
    told, first = [], wrong[0]["of"]
    for of in dict.fromkeys(each["of"] for each in wrong):
        rows = [each for each in wrong if each["of"] == of]
        told.append(_told(of, rows, m.probe.layers))
    exchanged = any("at the rates of" in each for each in told)  # which angles alone do not tell
    if m.bad("angles") and not exchanged and (kinds == {"rates"} or (none and kinds == {"turns"})):
        return follows("angles", m)
    return Judgement(FAILS, " ".join(told), LOOK[first])


def _told(of: str, rows: list[dict[str, Any]], wanted: Any) -> str:
    """One sentence about all layers that differ in one thing."""
    layers = several([each["layer"] for each in rows])
    first = rows[0]
    if of == "turns":
        turning = [each["layer"] for each in rows if each["seen"].turns]
        still = [each["layer"] for each in rows if not each["seen"].turns]
        said = []
        if turning:
            said.append(f"{several(turning)} rotate{'s' if len(turning) == 1 else ''}, and should not")
        if still:
            said.append(f"{several(still)} do{'es' if len(still) == 1 else ''} not rotate, and should")
        inverted = len(rows) == len(wanted) > 1 and bool(turning) and bool(still)
        return f"{'; '.join(said).capitalize()}{': the list is read the other way round' if inverted else ''}."
    if of == "rates":
        return f"{layers.capitalize()} turn{'s' if len(rows) == 1 else ''} {_rates(first, wanted)}."
    got = getattr(first["seen"], of)
    should = getattr(first["wanted"], of)
    where = "back" if of == "back" else "ahead"
    return (
        f"{layers.capitalize()} see{'s' if len(rows) == 1 else ''} {got} token{'s' if got != 1 else ''} {where}, and "
        f"should see {'all' if should is None else should}."
    )


def _rates(row: dict[str, Any], wanted: Any) -> str:
    """At which rates a layer turns, and whose they are."""
    got, want = row["seen"].rates, sorted(row["wanted"].rates, reverse=True)
    if len(got) > len(want):
        return f"{len(got)} pairs of channels, and should turn {len(want)}"
    for other in wanted:
        theirs = sorted(other.rates, reverse=True)
        alike = len(theirs) >= len(got) and all(
            abs(a - b) <= 0.02 * a + 1e-4 for a, b in zip(theirs, got, strict=False)
        )
        if alike and theirs != want:
            return f"at the rates of {other.kind} layers, though the configuration calls it {row['wanted'].kind}"
    n = max(range(len(got)), key=lambda i: abs(got[i] - want[i]) / max(want[i], 1e-4))
    return f"pair {n} by {got[n]:.4g} radians a position, and should turn it by {want[n]:.4g}"
