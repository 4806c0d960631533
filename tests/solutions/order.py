import torch

from posenc import ALiBi, Encoding, RoPE


class Mirror(Encoding):
    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: -(qpos[b, i] - kpos[b, j]).abs()


class Lopsided(Encoding):
    def score_bias(self, q, k, qpos, kpos):
        def b_ij(b, h, i, j):
            offset = qpos[b, i] - kpos[b, j]
            return torch.where(offset >= 0, -offset, 2 * offset)

        return b_ij


class Rows(Encoding):
    """Counts from the beginning of the text."""

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: -(qpos[b, i] - kpos[b, j]).abs() * (1 + qpos[b, i])


class Forward(Encoding):
    """The sign alone: the farther to the right, the less."""

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: qpos[b, i] - kpos[b, j]


class Broken(Encoding):
    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: qpos[b, i] - kpos[i, j]


SOLUTIONS = {"order_backwards": Lopsided}
WRONG = {
    "order_backwards": [
        (Mirror, "read backwards"),
        (Rows, "moving the text"),
        (Forward, "nearer counts for more"),
        (Broken, "moving the text"),
        (lambda: RoPE(8), "nothing else"),
        (lambda: ALiBi(2, symmetric=True), "read backwards"),
    ]
}
