"""Texts behind a picture, whose tokens come first."""

from __future__ import annotations

import torch
from torch import Tensor

BEFORE = 3  # tokens of text before the picture


def behind(before: Tensor, tokens: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Puts texts behind the tokens of a picture, which padding precedes.

    Args:
        before: The picture's tokens, (P,).
        tokens: Texts, (B, L).
        mask: 1 for a text's own tokens and 0 for padding, (B, L); None if nothing is padding.

    Returns:
        The texts with the picture, (B, P + L); their mask; and the rows of the texts' own tokens, (B, L).

    Example:
        >>> behind(torch.tensor([7, 7]), torch.tensor([[0, 5]]), torch.tensor([[0, 1]]))
        (tensor([[0, 7, 7, 5]]), tensor([[0, 1, 1, 1]]), tensor([[0, 3]]))
    """
    before, full, marks, rows = before.to(tokens), [], [], []
    for x, m in zip(tokens, torch.ones_like(tokens) if mask is None else mask, strict=True):
        pads = int((m.cumsum(0) == 0).sum())
        full.append(torch.cat((x[:pads], before, x[pads:])))
        marks.append(torch.cat((m[:pads], torch.ones_like(before), m[pads:])))
        at = torch.arange(len(x), device=x.device)
        rows.append(at + len(before) * (at >= pads))
    return torch.stack(full), torch.stack(marks), torch.stack(rows)
