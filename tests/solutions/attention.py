import torch

from posenc import Encoding, KVCache


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


SOLUTIONS = {"attention_window": Window}
WRONG = {
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
