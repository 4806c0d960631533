import math

import torch

from posenc import Encoding, KVCache


def masked_softmax(s, mask):
    low = torch.finfo(s.dtype).min
    s = s.masked_fill(~mask, low)
    e = (s - s.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)


def as_it_is_written(s, mask):
    e = s.exp() * mask
    return e / e.sum(-1, keepdim=True)


def largest_of_all(s, mask):
    e = (s - s.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def masked_fill(s, mask):
    return s.masked_fill(~mask, -torch.inf).softmax(-1)


def zeroed_afterwards(s, mask):
    return s.softmax(-1) * mask


def to_base_two(s, mask):
    return masked_softmax(s * math.log(2), mask)


def hidden_afterwards(s, mask):
    largest = s.masked_fill(~mask, torch.finfo(s.dtype).min).amax(-1, keepdim=True)
    e = torch.where(mask, (s - largest).exp(), 0.0)
    return e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)


class Window(Encoding):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def score_bias(self, q, k, qpos, kpos):
        near = lambda b, i, j: qpos[b, i] - kpos[b, j] < self.width  # noqa: E731
        return lambda b, h, i, j: torch.where(near(b, i, j), 0.0, -torch.inf)


class NoDoor(Window):
    score_bias = None


class OneMore(Window):
    def __init__(self, width):
        super().__init__(width + 1)


class ByRows(Window):
    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: torch.where(i - j < self.width, 0.0, -torch.inf)


class BothSides(Window):
    def score_bias(self, q, k, qpos, kpos):
        near = lambda b, i, j: (qpos[b, i] - kpos[b, j]).abs() < self.width  # noqa: E731
        return lambda b, h, i, j: torch.where(near(b, i, j), 0.0, -torch.inf)


class QueriesAlone(Window):
    """Positions of keys are taken from the queries, as if both were always the same tokens."""

    def score_bias(self, q, k, qpos, kpos):
        return super().score_bias(q, k, qpos, qpos)


class Rescaled(Window):
    score_bias = None

    def rescale(self, qpos, kpos):
        return lambda s, b, h, i, j: s.masked_fill(qpos[b, i] - kpos[b, j] >= self.width, -torch.inf)


SOLUTIONS = {"attention_softmax": masked_softmax, "attention_window": Window}
WRONG = {
    "attention_softmax": [
        (as_it_is_written, "large logits"),
        (largest_of_all, "large logits"),
        (masked_fill, "everything is forbidden"),
        (zeroed_afterwards, "the others share 1"),
        (to_base_two, "the odds of two"),
        (hidden_afterwards, "gradients"),
    ],
    "attention_window": [
        (NoDoor, "more positions back"),
        (OneMore, "more positions back"),
        (ByRows, "by positions"),
        (BothSides, "share the weight"),
        (Rescaled, "fused kernel"),
        (QueriesAlone, "a step with a cache"),
        (lambda width: KVCache(width), "more positions back"),
    ],
}
