"""Are two documents in one row separate where positions restart?"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused
from posenc.audit.checks import Outcome, check
from posenc.audit.probe import Probe

FIRST = 9


@check("positions restart after another document: the same logits?")
def packed_ids(p: Probe) -> Outcome:
    """Alone, and beside a row whose second document begins elsewhere."""
    x, positions = _packed(p)
    alone = p.off(p.logits(x, positions)[:, FIRST:], p.full)
    first = FIRST + 8
    other = torch.cat((p.count(first), p.count(x.shape[1] - first)), 1)
    try:
        out = p.logits(torch.cat((p.text(x.shape[1], seed=11), x)), torch.cat((other, positions)))
    except Refused:  # one row of positions for the whole batch
        return Outcome(alone, details={"alone": alone, "beside": None})
    beside = p.off(out[1:, FIRST:], p.full)
    worst = beside if beside != beside else max(alone, beside)
    return Outcome(worst, details={"alone": alone, "beside": beside})


@check("the same, with the cache left to its default?")
def packed_default(p: Probe) -> float:
    logits = p.able("logits_by_default", "has no argument that switches the cache off")
    p.in_time()
    x, positions = _packed(p)
    return p.off(logits(x, positions)[:, FIRST:], p.full)


def _packed(p: Probe) -> tuple[Tensor, Tensor]:
    x = torch.cat((p.text(FIRST, seed=6), p.x), 1)
    return x, torch.cat((p.count(FIRST), p.pos), 1)
