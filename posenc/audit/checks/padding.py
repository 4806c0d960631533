"""Does padding that is masked leave a text alone: after it, before it, before one row of a batch?"""

from __future__ import annotations

import torch

from posenc.audit.adapters.protocol import Refused, logits_of
from posenc.audit.checks import Outcome, check
from posenc.audit.probe import PADS, Probe


@check("padding after the text, masked: the same logits?")
def right_pad(p: Probe) -> float:
    x = torch.cat((p.x, torch.zeros_like(p.x[:, :PADS])), 1)
    mask = torch.ones_like(x)
    mask[:, p.n :] = 0
    return p.off(p.logits(x, mask=mask)[:, : p.n], p.full)


@check("padding before the text, masked: the same logits?")
def left_pad(p: Probe) -> float:
    x, mask, _ = p.left()
    return p.off(p.logits(x, mask=mask)[:, PADS:], p.full)


@check("padding before the text, masked, with positions that count real tokens?")
def left_pad_ids(p: Probe) -> float:
    x, mask, positions = p.left()
    return p.off(p.logits(x, positions, mask)[:, PADS:], p.full)


@check("a padded text beside a longer one, with mask and positions: the same logits?")
def rows(p: Probe) -> float:
    x, mask, positions = p.left()
    x = torch.cat((p.text(p.n + PADS, seed=8), x))
    mask = torch.cat((torch.ones_like(mask), mask))
    positions = torch.cat((p.count(p.n + PADS), positions))
    return p.off(p.logits(x, positions, mask)[1:, PADS:], p.full)


@check("padding beside the source of a decoder, masked: the same logits?")
def source_pad(p: Probe) -> Outcome:
    """Before the source and after it."""
    padded = p.able("logits_beside_padding", "has no source beside its text")
    sizes = {}
    for words, left in (("before", True), ("after", False)):
        p.in_time()
        sizes[words] = p.off(logits_of(padded(p.x, left)), p.full)
    return Outcome(max(sizes.values()), details=sizes)


@check("a mask of ones", partner=True)
def ones(p: Probe) -> float:
    return p.off(p.logits(p.x, mask=torch.ones_like(p.x)), p.full)


@check("a later token changes in a padded text: do earlier logits stay the same?", partner=True)
def future_padded(p: Probe) -> float:
    """Padding goes after the text, where it moves no positions."""
    x = torch.cat((p.x, torch.zeros_like(p.x[:, :PADS])), 1)
    mask = torch.ones_like(x)
    mask[:, p.n :] = 0
    changed = x.clone()
    changed[:, p.n - 1] = p.other(p.x)
    here = slice(0, p.n - 1)
    return p.off(p.logits(changed, mask=mask)[:, here], p.logits(x, mask=mask)[:, here])


@check("padding before the text, masked and not", partner=True)
def mask_seen(p: Probe) -> float:
    """With positions where the model takes them, since some models make them from the mask. Compared with a mask of
    ones: without a mask, positions that repeat may be read as the end of a document.
    """
    x, mask, positions = p.left()
    given = positions if p.adapter.takes_positions else None
    return p.off(p.logits(x, given, mask)[:, PADS:], p.logits(x, given, torch.ones_like(mask))[:, PADS:])


@check("padding between two tokens, masked, without positions", partner=True)
def holes(p: Probe) -> float:
    if not p.adapter.takes_mask:
        raise Refused("takes no mask of real tokens")
    cut = p.n // 2
    x = torch.cat((p.x[:, :cut], torch.zeros_like(p.x[:, :PADS]), p.x[:, cut:]), 1)
    mask = torch.ones_like(x)
    mask[:, cut : cut + PADS] = 0
    return p.off(p.logits(x, mask=mask)[:, cut + PADS :], p.full[:, cut:])
