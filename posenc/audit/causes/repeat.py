"""Whether the answer is the same again, and the question stays as it was."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, PASS, Judgement, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("again")
def _again(measured: Measurement, m: Measures) -> Judgement:
    if m.ok("again"):
        return Judgement(PASS)
    if measured.details["finite"] < 1:
        share = 1 - measured.details["finite"]
        return Judgement(FAILS, f"{share:.0%} of the logits are not finite.", "weights, and scores before the softmax")
    if m.ok("again_seeded"):
        return Judgement(
            FAILS,
            "The model is random: two calls with the same seed agree (again_seeded).",
            "dropout that is active in eval mode, noise, or sampling",
        )
    return Judgement(
        FAILS,
        "The model keeps state between calls: fixing the seed does not help (again_seeded).",
        "attributes and buffers that forward changes, such as a counter of positions or a cache",
    )


@judges("neighbours")
def _neighbours(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("neighbours_copies"):
        return Judgement(
            FAILS,
            "The result depends on the row in the batch: the second of three copies differs too (neighbours_copies).",
            "positions or masks made from the batch size, as when code for (L, B, D) gets (B, L, D)",
        )
    return Judgement(
        FAILS,
        "The result depends on the other sequences in the batch; copies of the text do not change it "
        "(neighbours_copies).",
        "what is computed over the batch: norms, routing with a capacity, reshapes that mix rows",
    )


@judges("fresh")
def _fresh(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    return Judgement(
        FAILS,
        f"After a text of {m.probe.room} tokens the model gives other logits, though two calls in a row agree (again).",
        "what grows with the longest text so far, such as a base or a table that is enlarged and never reset",
    )


@judges("inputs")
def _inputs(measured: Measurement, m: Measures) -> Judgement:
    changed = measured.details["changed"]
    if not changed:
        return Judgement(PASS)
    names = " and ".join([", ".join(list(changed)[:-1]), list(changed)[-1]]).removeprefix(" and ")
    return Judgement(
        FAILS,
        f"A call changes its {names} in place: {max(changed.values()):.0%} of the entries. Code that uses them "
        "afterwards, such as generation or a loss, gets wrong values. (The other tests pass copies.)",
        "operations in place on arguments, such as masked_fill_, clamp_ or +=: clone first",
    )
