"""Generation, against one pass."""

from __future__ import annotations

from posenc.audit.causes.said import FAILS, JUDGES, PASS, PROPERTY, Said, follows, judges
from posenc.audit.causes.sight import ahead, encoder
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("generate")
def _generate(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    if m.bad("generate_nocache"):
        return Said(
            FAILS, "Without a cache it fails too (generate_nocache): generate gives other positions, or another mask, "
            "than forward makes itself." + (" Forward does not count from 0 (arange)." if m.bad("arange") else ""),
            "what generate passes as positions, beside what forward makes when it gets none",
        )  # fmt: skip
    if m.bad("step"):
        return follows("step", m)
    return Said(
        FAILS, "Without a cache it passes (generate_nocache), and by hand too (step).", "what generate gives a step"
    )  # fmt: skip


@judges("generate_nocache")
def _generate_nocache(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    return follows("generate", m) if m.bad("generate") else JUDGES["generate"](found, m)


@judges("generate_left", "static", "generate_on")
def _generate_otherwise(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("generate"):
        return follows("generate", m)
    if found.name == "generate_left":
        if m.bad("left_pad_ids"):
            return JUDGES["left_pad_ids"](found, m)
        if m.bad("left_pad") and m.ok("left_pad_ids"):
            return Said(
                FAILS, "Positions that are given would heal it (left_pad_ids), and generate gives none.",
                "whether generate makes positions from the mask for this class",
            )  # fmt: skip
        if m["left_pad_ids"].off is None and m.bad("left_pad"):
            return JUDGES["left_pad"](found, m)
        look = "positions and mask that generate makes from padding"
    elif found.name == "static":
        look = "what is indexed by the length of the keys, which is that of the whole buffer in a static cache"
    else:
        if m.bad("chunks"):
            return follows("chunks", m)
        look = "several new tokens on top of a cache"
    return Said(FAILS, "Plain generation passes (generate).", look)


@judges("beams", "lookup")
def _sequences(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    for name in ("generate", "reorder") if found.name == "beams" else ("generate", "chunks"):
        if m.bad(name):
            return follows(name, m)
    details = found.details
    return Said(
        FAILS, f"{details.get('rows', 'Some')} of {details.get('of', 'the')} sequences differ, though one beam passes "
        "(generate).",
        "how rows of the cache are reordered" if found.name == "beams" else "how rejected tokens leave the cache",
    )  # fmt: skip
