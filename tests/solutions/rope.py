import torch

from posenc import RoPE
from posenc import rotate as turned


def rotate(x, pos, freq):
    angle = pos[:, None] * freq  # (L, d/2)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)


def other_pairs(x, pos, freq):
    return turned(x, pos, freq, layout="half")


def mixed_layouts(x, pos, freq):
    """Angles are lined up for halves, and channels are paired with their neighbours."""
    angle = torch.cat([pos[:, None] * freq] * 2, -1)
    swapped = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * angle.cos() + swapped * angle.sin()


def clockwise(x, pos, freq):
    return rotate(x, -pos, freq)


def by_rows(x, pos, freq):
    return rotate(x, torch.arange(x.shape[-2]), freq)


def one_speed(x, pos, freq):
    return rotate(x, pos, freq[:1].expand(len(freq)))


class PartialRoPE(RoPE):
    def __init__(self, head_dim, fraction, base=10_000.0):
        super().__init__(int(head_dim * fraction), base)

    def query(self, q, pos):
        turned_, rest = q.tensor_split([self.head_dim], -1)
        return torch.cat([turned(turned_, pos, self.freq), rest], -1)

    key = query


class OfTheWhole(PartialRoPE):
    """Frequencies are those of the whole head."""

    def __init__(self, head_dim, fraction):
        super().__init__(head_dim, fraction)
        self.freq = RoPE(head_dim).freq[: int(head_dim * fraction) // 2]


class LastPart(PartialRoPE):
    def query(self, q, pos):
        rest, turned_ = q.tensor_split([q.shape[-1] - self.head_dim], -1)
        return torch.cat([rest, turned(turned_, pos, self.freq)], -1)

    key = query


class QueriesOnly(PartialRoPE):
    def key(self, k, pos):
        return k


class Merged(PartialRoPE):
    """Positions from 31 on are one."""

    def query(self, q, pos):
        return super().query(q, pos.clamp(max=31))

    key = query


class OneOf(PartialRoPE):
    """From 1 on, the fraction is taken for a number of pairs."""

    def __init__(self, head_dim, fraction):
        super().__init__(head_dim, fraction if fraction < 1 else 2 * fraction / head_dim)


def move(keys, by, freq):
    return turned(keys, torch.full(keys.shape[-2:-1], by, device=keys.device), freq)


def to_where_it_is(keys, by, freq):
    return turned(keys, torch.arange(keys.shape[-2]) + by, freq)


def the_other_way(keys, by, freq):
    return move(keys, -by, freq)


def one_by_one(keys, by, freq):
    """Rows are shifted and not rotated."""
    return keys.roll(by, -2)


def retune(keys, pos, old, new):
    return turned(keys, pos, new - old)


def on_top(keys, pos, old, new):
    return turned(keys, pos, new)


def ratio(keys, pos, old, new):
    return turned(keys, pos, new / old)


SOLUTIONS = {"rope_rotate": rotate, "rope_partial": PartialRoPE, "rope_move": move, "rope_retune": retune}
WRONG = {
    "rope_rotate": [
        (other_pairs, "keeps its length"),
        (mixed_layouts, "keeps its length"),
        (clockwise, "towards its second"),
        (by_rows, "its own position"),
        (one_speed, "towards its second"),
        (lambda x, pos, freq: rotate(x, pos + 1, freq), "position 0"),
        (lambda x, pos, freq: rotate(x, pos.clamp(max=31), freq), "the offset only"),
    ],
    "rope_partial": [
        (lambda head_dim, fraction: RoPE(head_dim), "stay as they are"),
        (OfTheWhole, "as a RoPE of that size"),
        (LastPart, "stay as they are"),
        (Merged, "the offset only"),
        (OneOf, "fraction 1 is RoPE"),
        (QueriesOnly, "stay as they are"),
        (lambda head_dim, fraction: None, "stay as they are"),
    ],
    "rope_move": [
        (to_where_it_is, "by 0"),
        (lambda keys, by, freq: move(keys, abs(by), freq), "there and back"),
        (the_other_way, "rotated for j + c"),
        (one_by_one, "rotated for j + c"),
        (lambda keys, by, freq: keys, "rotated for j + c"),
    ],
    "rope_retune": [
        (on_top, "same frequencies"),
        (ratio, "same frequencies"),
        (lambda keys, pos, old, new: keys, "with the new frequencies"),
    ],
}
