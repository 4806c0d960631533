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
    if (first := measured.details.get("first")) is not None:
        return Judgement(
            FAILS,
            f"From new token {first} on, its own generate takes other tokens than are likeliest after the text before"
            + (f": they are those of new tokens whose positions are {_late(m)} (generate_late)." if _late(m) else "."),
            "what generate passes to each step: the position of the first new token, and which logits are taken"
            if m.ok("step") or m["step"].off is None
            else "what `step` says",
        )
    if m.bad("generate_nocache"):
        return Judgement(
            FAILS,
            "It fails without a cache too (generate_nocache): generate passes other positions, or another mask, than "
            "forward makes itself." + (" Forward does not count from 0 (arange)." if m.bad("arange") else ""),
            "what generate passes as positions, compared with what forward makes when it gets none",
        )
    if m.bad("step"):
        return follows("step", m)
    good = ["without a cache it passes (generate_nocache)"] if m.ok("generate_nocache") else []
    good += ["calls of forward with a cache pass (step)"] if m.ok("step") else []
    said = f"{' and '.join(good)}, and generate does not" if good else "generate is not what one pass computes"
    where = measured.places.find("x")
    first = f", from token {where} on" if where >= 0 else ""
    if _late(m):
        return Judgement(
            FAILS,
            f"{said[0].upper()}{said[1:]}{first}: it is what new tokens give whose positions are {_late(m)} "
            "(generate_late).",
            "the position that generate gives to the first new token: the length of the prompt, counted from 0",
        )
    return Judgement(FAILS, f"{said[0].upper()}{said[1:]}{first}.", "what generate passes to each step")


def _late(m: Measures) -> str:
    """By how much positions of new tokens are off, in words; "" where that does not explain what generate gives."""
    if not m.ok("generate_late"):
        return ""
    by = m["generate_late"].details["by"]
    return f"{abs(by)} too {'large' if by > 0 else 'small'}"


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
                "Passing positions fixes it (left_pad_ids); generate does not pass them.",
                "whether generate makes positions from the mask for this class",
            )
        if m["left_pad_ids"].off is None and m.bad("left_pad"):
            return JUDGES["left_pad"](measured, m)
        look = "positions and mask that generate makes from padding"
    elif measured.name == "static":
        look = "what is indexed by the number of keys, which in a static cache is the size of the whole buffer"
    else:
        if m.bad("chunks"):
            return follows("chunks", m)
        look = "several new tokens that are added to a cache"
    return Judgement(FAILS, "Plain generation passes (generate).", look)


@judges("beams", "lookup")
def _sequences(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    for name in ("generate", "reorder") if measured.name == "beams" else ("generate", "chunks"):
        if m.bad(name):
            return follows(name, m)
    rows, of = measured.details.get("rows", "Some"), measured.details.get("of", "the")
    return Judgement(
        FAILS,
        f"{rows} of {of} sequences differ, though greedy decoding passes (generate).",
        "how rows of the cache are reordered" if measured.name == "beams" else "how rejected tokens leave the cache",
    )
