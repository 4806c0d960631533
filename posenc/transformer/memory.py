"""Segment recurrence: a segment attends to the hidden states of those before it (Dai et al., 2019)."""

import torch
from torch import Tensor


class Memory:
    """What went into each layer for the latest `length` tokens, so that context crosses segments.

    `model(segment, memory=memory)` attends to the memory, and then puts the segment into it. The memory holds
    hidden states; each segment makes keys from them with the present weights. No gradient flows into the memory:
    h̃ = [SG(h_mem) ∘ h]. Positions go on from segment to segment, so a learned table must be as long as the text.
    With segments of `length` tokens, n layers see n · length tokens back, besides their own segment.

    Args:
        length: How many of the latest tokens are remembered, 0 for none.

    Raises:
        ValueError: If length is negative.

    Example:
        >>> from posenc import Memory, Transformer
        >>> model, memory = Transformer(256, layers=2, encoding="transformer_xl"), Memory(4)
        >>> for segment in torch.zeros(2, 1, 6, dtype=torch.long):
        ...     logits = model(segment, memory=memory)
        >>> memory.positions
        tensor([ 8,  9, 10, 11])

    References:
        Dai et al. (2019), section 3.2.
    """

    def __init__(self, length: int) -> None:
        if length < 0:
            raise ValueError(f"length is {length}: use how many of the latest tokens to remember, 0 for none")
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
        """The positions that are held, followed by others.

        Args:
            pos: (L,) or (B, L).

        Returns:
            (M + L,), or (B, M + L) if either is batched.
        """
        if self.positions is None:
            return pos
        batch = torch.broadcast_shapes(self.positions.shape[:-1], pos.shape[:-1])
        return torch.cat((self.positions.expand(*batch, -1), pos.expand(*batch, -1)), -1)

    def extend(self, states: list[Tensor], pos: Tensor) -> None:
        """Takes the inputs of a segment, and forgets what is older than `length` tokens.

        Args:
            states: The input of each layer, (B, L, D).
            pos: Their positions, (L,) or (B, L).
        """
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
