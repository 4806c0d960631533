"""Generation, against one pass."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, JUDGES, PASS, PROPERTY, Judgement, follows, judges
from posenc.audit.causes.sight import ahead, encoder
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("generate")
def _generate(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("future"):
        return Judgement(PROPERTY if encoder(m) else FAILS, ahead(m))
    if m.bad("generate_nocache"):
        return Judgement(
            FAILS,
            "Without a cache it fails too (generate_nocache): generate gives other positions, or another mask, "
            "than forward makes itself." + (" Forward does not count from 0 (arange)." if m.bad("arange") else ""),
            "what generate passes as positions, beside what forward makes when it gets none",
        )
    if m.bad("step"):
        return follows("step", m)
    return Judgement(
        FAILS, "Without a cache it passes (generate_nocache), and by hand too (step).", "what generate gives a step"
    )


@judges("generate_nocache")
def _generate_nocache(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    return follows("generate", m) if m.bad("generate") else JUDGES["generate"](measured, m)


@judges("generate_left", "static", "generate_on")
def _generate_otherwise(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("generate"):
        return follows("generate", m)
    if measured.name == "generate_left":
        if m.bad("left_pad_ids"):
            return JUDGES["left_pad_ids"](measured, m)
        if m.bad("left_pad") and m.ok("left_pad_ids"):
            return Judgement(
                FAILS,
                "Positions that are given would heal it (left_pad_ids), and generate gives none.",
                "whether generate makes positions from the mask for this class",
            )
        if m["left_pad_ids"].off is None and m.bad("left_pad"):
            return JUDGES["left_pad"](measured, m)
        look = "positions and mask that generate makes from padding"
    elif measured.name == "static":
        look = "what is indexed by the length of the keys, which is that of the whole buffer in a static cache"
    else:
        if m.bad("chunks"):
            return follows("chunks", m)
        look = "several new tokens on top of a cache"
    return Judgement(FAILS, "Plain generation passes (generate).", look)


@judges("beams", "lookup")
def _sequences(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    for name in ("generate", "reorder") if measured.name == "beams" else ("generate", "chunks"):
        if m.bad(name):
            return follows(name, m)
    details = measured.details
    return Judgement(
        FAILS,
        f"{details.get('rows', 'Some')} of {details.get('of', 'the')} sequences differ, though one beam passes "
        "(generate).",
        "how rows of the cache are reordered" if measured.name == "beams" else "how rejected tokens leave the cache",
    )
