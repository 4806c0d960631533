"""Segment recurrence: a segment attends to the hidden states of those before it (Dai et al., 2019)."""

import torch
from torch import Tensor

from posenc import _check


class Memory:
    """What went into each layer for the latest `length` tokens, so that context crosses segments.

    `model(segment, memory=memory)` attends to it, and then puts the segment into it. It holds hidden states:
    keys are made from them anew with each segment, by weights that may have changed since. No gradient flows
    into it: h̃ = [SG(h_mem) ∘ h]. Positions go on from segment to segment, so a learned table must be as long as
    the text. With segments of `length` tokens, n layers see n · length tokens back, besides their own segment.
    Dai et al. (2019), section 3.2.
    Raises ValueError if length is negative.
    """

    def __init__(self, length: int) -> None:
        _check.memory_length(length)
        self.length = length
        self.states: list[Tensor] = []
        """For each layer, (B, M, D), where M <= length."""
        self.positions: Tensor | None = None
        """Where these tokens lie, (M,) or (B, M), or None before the first segment; -1 is padding."""
        self.next: Tensor | None = None
        """The position that follows, (1,) or (B, 1)."""

    def __len__(self) -> int:
        """How many tokens are held."""
        return 0 if self.positions is None else self.positions.shape[-1]

    def join(self, pos: Tensor) -> Tensor:
        """The positions that are held, then pos: (M + L,), or (B, M + L) if either is batched."""
        if self.positions is None:
            return pos
        batch = torch.broadcast_shapes(self.positions.shape[:-1], pos.shape[:-1])
        return torch.cat((self.positions.expand(*batch, -1), pos.expand(*batch, -1)), -1)

    def extend(self, states: list[Tensor], pos: Tensor) -> None:
        """Takes each layer's input (B, L, D) at pos (L,) or (B, L), and forgets what is older than `length`."""
        self.next = following(pos, self.next)
        if self.states:
            states = [torch.cat(pair, 1) for pair in zip(self.states, states, strict=True)]
        pos = self.join(pos)
        start = max(0, pos.shape[-1] - self.length)
        self.states = [state.detach()[:, start:] for state in states]
        self.positions = pos[..., start:]


def following(pos: Tensor, other: Tensor | None = None) -> Tensor | None:
    """The position after the last of pos, (L,) or (B, L) -> (1,) or (B, 1); not before `other`."""
    if pos.shape[-1] == 0:
        return other
    after = pos.amax(-1, keepdim=True) + 1
    return after if other is None else torch.maximum(after, other)
