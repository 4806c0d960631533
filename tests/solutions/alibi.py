import torch

from posenc import ALiBi, Encoding, alibi, alibi_slopes


def slopes(heads):
    power = 2 ** (heads.bit_length() - 1)
    first = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    rest = [2 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return torch.tensor(first + rest[0::2][: heads - power], dtype=torch.float64)


def one_formula(heads):
    return 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)


def from_zero(heads):
    return 2.0 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)


def summary(heads):
    return 2.0 ** -torch.arange(1, heads + 1, dtype=torch.float64)


def evenly(heads):
    return torch.linspace(1, 1 / 256, heads, dtype=torch.float64) if heads > 1 else torch.tensor([1 / 256])


def from_one(heads):
    return 2.0 ** torch.linspace(-8, 0, heads, dtype=torch.float64).flip(0)


class TwoSided(Encoding):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slope", alibi_slopes(heads), persistent=False)

    def slopes(self, offset, h):
        return torch.where(offset > 0, self.slope[h] / 2, self.slope[h])

    def score_bias(self, q, k, qpos, kpos):
        def f(b, h, i, j):
            offset = kpos[b, j] - qpos[b, i]
            return alibi(offset, self.slopes(offset, h), symmetric=True)

        return f


class OtherSide(TwoSided):
    def slopes(self, offset, h):
        return super().slopes(-offset, h)


class Reward(TwoSided):
    """The sign is that of the past on both sides."""

    def score_bias(self, q, k, qpos, kpos):
        def f(b, h, i, j):
            offset = kpos[b, j] - qpos[b, i]
            return alibi(offset, self.slopes(offset, h))

        return f


class ByRow(TwoSided):
    """Halves by the parity of the query, which moves with the text."""

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: -self.slope[h] * (kpos[b, j] - qpos[b, i]).abs() * (1 + qpos[b, i]) / 2


class Misspelt(TwoSided):
    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: -self.slops[h] * (kpos[b, j] - qpos[b, i]).abs()


class WrongShape(TwoSided):
    def score_bias(self, q, k, qpos, kpos):
        return -self.slope * (kpos[:, None] - qpos[:, :, None]).abs().sum(-1)


SOLUTIONS = {"alibi_slopes": slopes, "alibi_sides": TwoSided}
WRONG = {
    "alibi_slopes": [
        (one_formula, "for other numbers"),
        (from_zero, "the last slope"),
        (summary, "the last slope"),
        (evenly, "the one before it times a constant"),
        (from_one, "the first slope equals"),
        (lambda heads: torch.full((heads,), 0.5), "no two are equal"),
    ],
    "alibi_sides": [
        (lambda heads: ALiBi(heads, symmetric=True), "on the right"),
        (OtherSide, "on the left"),
        (Reward, "on the right"),
        (ByRow, "moving the text"),
        (Misspelt, "moving the text"),
        (WrongShape, "moving the text"),
        (lambda heads: ALiBi(heads), "moving the text"),
    ],
}
