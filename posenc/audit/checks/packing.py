"""Are two documents in one row separate where positions restart?"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.audit.checks import check
from posenc.audit.probe import Probe

FIRST = 9


@check("positions restart after another document: the same logits?")
def packed_ids(p: Probe) -> float:
    x, positions = _packed(p)
    return p.off(p.logits(x, positions)[:, FIRST:], p.full)


@check("the same, with the cache left to its default?")
def packed_default(p: Probe) -> float:
    logits = p.able("logits_by_default", "has no argument that switches the cache off")
    p.in_time()
    x, positions = _packed(p)
    return p.off(logits(x, positions)[:, FIRST:], p.full)


def _packed(p: Probe) -> tuple[Tensor, Tensor]:
    x = torch.cat((p.text(FIRST, seed=6), p.x), 1)
    return x, torch.cat((p.count(FIRST), p.pos), 1)
