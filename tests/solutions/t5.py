import math
from fractions import Fraction

import torch

from posenc import ALiBi, T5Bias, t5_bucket


def bucket(offset, buckets, max_distance):
    n = (-offset).clamp(min=0)
    near = buckets // 2
    share = (n.clamp(min=1).double() / near).log() / math.log(max_distance / near)
    far = near + (share * (buckets - near) + 1e-9).floor().long()
    return torch.where(n < near, n, far.clamp(max=buckets - 1))


def other_sign(offset, buckets, max_distance):
    return bucket(-offset, buckets, max_distance)


def unclamped(offset, buckets, max_distance):
    n, near = (-offset).clamp(min=0), buckets // 2
    share = (n.clamp(min=1).double() / near).log() / math.log(max_distance / near)
    return torch.where(n < near, n, near + (share * (buckets - near)).floor().long())


def distances(offset, buckets, max_distance):
    return bucket(-offset.abs(), buckets, max_distance)


def rounded_up(offset, buckets, max_distance):
    n, near = (-offset).clamp(min=0), buckets // 2
    share = (n.clamp(min=1).double() / near).log() / math.log(max_distance / near)
    far = near + (share * (buckets - near) - 1e-9).ceil().long()
    return torch.where(n < near, n, far.clamp(max=buckets - 1))


def linear(offset, buckets, max_distance):
    n, near = (-offset).clamp(min=0), buckets // 2
    far = near + (n - near) * (buckets - near) // (max_distance - near)
    return torch.where(n < near, n, far.clamp(max=buckets - 1))


def all_logarithmic(offset, buckets, max_distance):
    n = (-offset).clamp(min=0).double()
    return ((1 + n).log() / math.log(1 + max_distance) * buckets).long().clamp(max=buckets - 1)


def base_two(offset, buckets, max_distance):
    n, near = (-offset).clamp(min=0), buckets // 2
    far = near + (n.clamp(min=1) / near).log2().floor().long()
    return torch.where(n < near, n, torch.where(n < max_distance, far, buckets - 1).clamp(max=buckets - 1))


def bucket_table(reach, a, m, c):
    table, u = [], 0
    for n in range(reach + 1):
        while n >= a and u + 1 < m and n**m * a ** (u + 1) >= c ** (u + 1) * a**m:
            u += 1
        table.append(n if n < a else a + u)
    return table


def if_for_while(reach, a, m, c):
    table, u = [], 0
    for n in range(reach + 1):
        if n >= a and u + 1 < m and n**m * a ** (u + 1) >= c ** (u + 1) * a**m:
            u += 1
        table.append(n if n < a else a + u)
    return table


def round_and_round(reach, a, m, c):
    """After the last bucket come those of the second half again."""
    table, u = [], 0
    for n in range(reach + 1):
        while n >= a and n**m * a ** (u + 1) >= c ** (u + 1) * a**m:
            u += 1
        table.append(n if n < a else a + u % m)
    return table


def in_float64(reach, a, m, c):
    steps = [math.floor(math.log(n / a) / math.log(c / a) * m) if n >= a else 0 for n in range(reach + 1)]
    return [n if n < a else min(a + u, a + m - 1) for n, u in enumerate(steps)]


def strictly(reach, a, m, c):
    table, u = [], 0
    for n in range(reach + 1):
        while n >= a and u + 1 < m and n**m > Fraction(a) ** m * Fraction(c, a) ** (u + 1):
            u += 1
        table.append(n if n < a else a + u)
    return table


def linearly(reach, a, m, c):
    return [n if n < a else min(n - a + a, a + m - 1) for n in range(reach + 1)]


class Capped(T5Bias):
    def __init__(self, heads, trained, buckets=32, max_distance=128):
        super().__init__(heads, buckets, max_distance)
        self.trained = trained
        self.last = int((t5_bucket(-torch.arange(max_distance + 1), buckets, max_distance) < buckets - 1).sum())

    def lowered(self, qpos):
        return ((qpos + 1 - self.last) / (self.trained - self.last)).clamp(min=1).log()

    def score_bias(self, q, k, qpos, kpos):
        inner = super().score_bias(q, k, qpos, kpos)

        def f(b, h, i, j):
            far = qpos[b, i] - kpos[b, j] >= self.last
            return inner(b, h, i, j) - self.lowered(qpos[b, i]) * far

        return f


class Window(T5Bias):
    """Keys further back than the training length are hidden."""

    def __init__(self, heads, trained, buckets, max_distance):
        super().__init__(heads, buckets, max_distance)
        self.trained = trained

    def score_bias(self, q, k, qpos, kpos):
        inner = super().score_bias(q, k, qpos, kpos)
        far = lambda b, i, j: qpos[b, i] - kpos[b, j] >= self.trained  # noqa: E731
        return lambda b, h, i, j: inner(b, h, i, j).masked_fill(far(b, i, j), -torch.inf)


class EveryKey(Capped):
    def score_bias(self, q, k, qpos, kpos):
        inner = T5Bias.score_bias(self, q, k, qpos, kpos)
        return lambda b, h, i, j: inner(b, h, i, j) - self.lowered(qpos[b, i])


class AllTokens(Capped):
    """The share of the length, where that of the bucket is asked for."""

    def lowered(self, qpos):
        return ((qpos + 1) / self.trained).clamp(min=1).log()


class FromTheStart(Capped):
    def lowered(self, qpos):
        return ((qpos + 1 - self.last).clamp(min=1) / (self.trained - self.last)).log()


class ByRow(Capped):
    def score_bias(self, q, k, qpos, kpos):
        inner = T5Bias.score_bias(self, q, k, qpos, kpos)
        return lambda b, h, i, j: inner(b, h, i, j) - self.lowered(i) * (qpos[b, i] - kpos[b, j] >= self.last)


SOLUTIONS = {"t5_bucket": bucket, "t5_integers": bucket_table, "t5_share": Capped}
WRONG = {
    "t5_bucket": [
        (other_sign, "future"),
        (unclamped, "from 0 to buckets - 1"),
        (distances, "future"),
        (linear, "grow geometrically"),
        (all_logarithmic, "one offset each"),
        (base_two, "or in the next"),
        (lambda offset, buckets, max_distance: bucket(offset, buckets, 2 * max_distance), "everything beyond"),
        (rounded_up, "grow geometrically"),
    ],
    "t5_integers": [
        (in_float64, "ended before"),
        (if_for_while, "ended before"),
        (strictly, "ended before"),
        (linearly, "begins after"),
        (lambda *sizes: [n + 1 for n in bucket_table(*sizes)], "below a its own"),
        (round_and_round, "never fall"),
    ],
    "t5_share": [
        (lambda heads, trained, buckets, max_distance: T5Bias(heads, buckets, max_distance), "keeps its share"),
        (EveryKey, "keeps its share"),
        (AllTokens, "keeps its share"),
        (FromTheStart, "within the training length"),
        (ByRow, "a row of the whole"),
        (Window, "odds of keys"),
        (lambda heads, trained, buckets, max_distance: ALiBi(heads), "within the training length"),
    ],
}
