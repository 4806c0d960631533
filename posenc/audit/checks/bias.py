"""What is added to the scores of each layer: the slopes or buckets that the configuration names?"""

from __future__ import annotations

import torch

from posenc.audit.adapters.protocol import Refused, Unfit
from posenc.audit.checks import Outcome, check
from posenc.audit.comparison.attention import Attention
from posenc.audit.comparison.sides import scores_of
from posenc.audit.identification.biases import bias_of
from posenc.audit.probe import Probe

TEXTS = 4  # of different tokens: what they have in common is added to all


@check("each layer's bias: the slopes or buckets of the configuration?")
def bias(p: Probe) -> Outcome:
    """How many layers have another; none where scores are more than a product and a bias."""
    reading = p.reading
    if reading is None or not (reading.slopes or reading.buckets):
        raise Refused("no configuration names slopes or buckets")
    with Attention(p.n) as look:
        p.alone(p.text(p.n, batch=TEXTS, seed=12))
    if not look.layers:
        raise Refused("no attention in torch was seen")
    found = []
    for each in look.layers:
        _, added, _, straight = scores_of(each)
        try:
            found.append(bias_of(added) if straight else None)
        except Unfit:
            found.append(None)
    if all(each is None for each in found):
        raise Refused("scores are more than a product and a bias")
    wrong = [n for n, each in enumerate(found) if each is not None and not _as_said(each, reading)]
    return Outcome(float(len(wrong)), details={"wrong": wrong, "found": found})


def _as_said(found: object, reading: object) -> bool:
    """Whether a bias is that of the configuration."""
    if reading.buckets:  # type: ignore[attr-defined]
        return found.kind not in ("none", "alibi")  # type: ignore[attr-defined]
    got, want = found.slopes, reading.slopes  # type: ignore[attr-defined]
    if found.kind != "alibi" or found.sign < 0 or len(got) != len(want):  # type: ignore[attr-defined]
        return False
    a, b = (torch.tensor(each, dtype=torch.float64) for each in (got, want))
    return bool(((a - b).abs() <= 1e-3 * b).all())
