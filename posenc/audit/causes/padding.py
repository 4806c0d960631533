"""Padding that is masked."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, JUDGES, PASS, PROPERTY, Judgement, judges, number
from posenc.audit.causes.sight import ahead, encoder
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import FOLLOWS


def _mask_at_fault(m: Measures) -> Judgement | None:
    """What is wrong with the mask, whatever the positions are, or why none can help."""
    if (pads := getattr(m.probe.adapter, "pads", "")) and not m.knows("causal"):
        return Judgement(PROPERTY, f"Padding changes logits by the scheme: {pads}.")
    if m.bad("ones"):
        return Judgement(
            FAILS,
            f"A mask that marks every token as real changes logits by {number(m.size('ones'))} (ones).",
            "what 1 and 0, or True and False, mean in the mask, and what is added to the scores",
        )
    if not m.bad("future") and m.bad("future_padded"):
        return Judgement(
            FAILS,
            "With padding in the batch tokens see later ones, and without it they do not (future, future_padded): the "
            "two paths have different masks.",
            "what happens where all tokens are real: a mask that is left out, and attention that then falls back to a "
            "flag such as is_causal",
        )
    if m.bad("future") and m.ok("future_padded"):
        return Judgement(
            FAILS,
            "Without padding tokens see later ones, and with padding in the batch they do not (future, future_padded): "
            "the two paths have different masks.",
            "the path without a mask: whether it is causal",
        )
    if m.ok("mask_seen"):
        return Judgement(
            FAILS,
            "The mask has no effect: masked and unmasked padding give the same logits (mask_seen).",
            "whether the mask reaches attention, in every backend",
        )
    return None


@judges("right_pad")
def _right_pad(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("prefix") and not m.bad("future"):
        return Judgement(FAILS, f"{FOLLOWS} `prefix`: earlier logits depend on the text's length.")
    if (judgement := _mask_at_fault(m)) is not None:
        return judgement
    if m.bad("future") and not encoder(m):
        return Judgement(FAILS, ahead(m))
    return Judgement(
        FAILS,
        "The mask has an effect (mask_seen), but tokens still see padding after them.",
        "whether the mask is applied to keys or to queries, and positions that are counted from the end",
    )


@judges("left_pad")
def _left_pad(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if (judgement := _mask_at_fault(m)) is not None:
        return judgement
    if m.knows("recurrent"):
        return Judgement(PROPERTY, "A recurrent state passes through padding even where it is masked.")
    absolute = m.bad("shift") or (m["shift"].off is None and m.bad("constant"))
    if m.ok("left_pad_ids"):
        if absolute:
            return Judgement(
                PROPERTY,
                "By default, absolute positions count padding; with explicit positions it passes (left_pad_ids).",
            )
        return Judgement(
            FAILS,
            "Passing positions fixes it (left_pad_ids). A shift changes nothing (shift), so the positions that are "
            "made from the mask are not the right ones shifted.",
            "how positions are made from the mask",
        )
    if m["left_pad_ids"].off is None and m.bad("constant"):
        return _uncounted(m)
    if m.bad("constant") and m.ok("stretch"):
        return Judgement(
            FAILS,
            "Absolute positions count padding, and explicit positions have no effect (stretch).",
            "whether the argument reaches the encoding",
        )
    return Judgement(
        FAILS,
        "The mask has an effect (mask_seen), but padding still changes the logits.",
        "the axis of the mask, which is that of keys, and layers or backends that do not get it",
    )


def _uncounted(m: Measures) -> Judgement:
    """Positions count padding, and nobody can give others."""
    if getattr(m.probe.adapter, "pads_right", False) or encoder(m):
        return Judgement(
            PROPERTY, "Absolute positions count padding, and the model takes no others: padding belongs after a text."
        )
    return Judgement(
        FAILS,
        "A text padded on the left gets other logits although its mask is given, and nothing else can be given: "
        "positions count the padding.",
        "where positions are made: count real tokens by the mask, as in (mask.cumsum(-1) - 1).clamp(min=0)",
    )


@judges("left_pad_ids")
def _left_pad_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    return JUDGES["left_pad"](measured, m)


@judges("source_pad")
def _source_pad(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    sides = [side for side, size in measured.details.items() if not size <= m.tolerance]
    return Judgement(
        FAILS,
        f"Padding {' and '.join(sides)} the source changes logits, although it is masked.",
        "the mask in attention to the source: that of its keys, one row for all tokens of the text"
        + ("; positions of the source" if sides == ["before"] else ""),
    )


@judges("rows")
def _rows(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("neighbours"):
        return Judgement(FAILS, f"{FOLLOWS} `neighbours`: other sequences in the batch change the result.")
    if m.ok("left_pad_ids"):
        return Judgement(
            FAILS,
            "It passes alone (left_pad_ids), but not beside a longer text: rows share something.",
            "indexing with [0] or [:1]: positions, mask or a length of the first row, used for all rows",
        )
    return JUDGES["left_pad"](measured, m)
