"""Padding that is masked."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, JUDGES, PASS, PROPERTY, Judgement, judges, number
from posenc.audit.causes.sight import ahead, encoder
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


def _mask_at_fault(m: Measures) -> Judgement | None:
    """What is wrong with the mask, whatever the positions are."""
    if m.bad("ones"):
        return Judgement(
            FAILS,
            f"A mask that says all tokens are real changes logits by {number(m.size('ones'))} (ones).",
            "what 1 and 0, True and False mean in the mask, and what is added to the scores",
        )
    if m.ok("mask_seen"):
        return Judgement(
            FAILS,
            "The mask changes nothing: masked padding gives what unmasked padding gives (mask_seen).",
            "whether the mask reaches attention, in every backend",
        )
    return None


@judges("right_pad")
def _right_pad(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("prefix") and not m.bad("future"):
        return Judgement(FAILS, "It follows from the length of the text (prefix).")
    if (judgement := _mask_at_fault(m)) is not None:
        return judgement
    if m.bad("future") and not encoder(m):
        return Judgement(FAILS, ahead(m))
    return Judgement(
        FAILS,
        "The mask does something (mask_seen), and tokens still see padding after them.",
        "the side of the mask: queries or keys; and positions that are counted from the end",
    )


@judges("left_pad")
def _left_pad(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _mask_at_fault(m)) is not None:
        return judgement
    if m.knows("recurrent"):
        return Judgement(PROPERTY, "A state passes through padding, also where it is masked.")
    absolute = m.bad("shift") or (m["shift"].off is None and m.bad("constant"))
    if m.ok("left_pad_ids"):
        if absolute:
            return Judgement(
                PROPERTY,
                "Absolute positions count padding unless they are given, and with positions it passes (left_pad_ids).",
            )
        return Judgement(
            FAILS,
            "Positions that are given heal it (left_pad_ids), and a shift changes nothing (shift), so positions "
            "that are made from the mask are no shift of the right ones.",
            "how positions are made from the mask",
        )
    if m["left_pad_ids"].off is None and m.bad("constant"):
        return Judgement(PROPERTY, "Absolute positions count padding, and there is no argument to give others.")
    if m.bad("constant") and m.ok("stretch"):
        return Judgement(
            FAILS,
            "Absolute positions count padding, and those that are given change nothing (stretch).",
            "whether the argument reaches the encoding",
        )
    return Judgement(
        FAILS,
        "The mask does something (mask_seen), and padding still counts.",
        "the axis of the mask, which is one of keys, and layers or backends that do not get it",
    )


@judges("left_pad_ids")
def _left_pad_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    return JUDGES["left_pad"](measured, m)


@judges("rows")
def _rows(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("neighbours"):
        return Judgement(FAILS, "It follows from other texts in the batch (neighbours).")
    if m.ok("left_pad_ids"):
        return Judgement(
            FAILS,
            "Alone it passes (left_pad_ids), beside a longer text it does not: the rows share something.",
            "indexing with [0] or [:1]: positions, mask or a length of the first row that serve all rows",
        )
    return JUDGES["left_pad"](measured, m)
