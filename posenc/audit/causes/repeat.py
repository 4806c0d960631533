"""Whether the answer is the same again, and the question stays as it was."""

from __future__ import annotations

from posenc.audit.causes.said import FAILS, PASS, Said, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


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


@judges("inputs")
def _inputs(found: Measurement, m: Measures) -> Said:
    changed = found.details["changed"]
    if not changed:
        return Said(PASS)
    names = " and ".join([", ".join(list(changed)[:-1]), list(changed)[-1]]).removeprefix(" and ")
    return Said(
        FAILS, f"A call changes its {names} in place: {max(changed.values()):.0%} of the entries. Whoever uses them "
        "afterwards, as generation and a loss do, gets others. (The other tests give copies.)",
        "operations in place on arguments, such as masked_fill_, clamp_ or +=: clone first",
    )  # fmt: skip
