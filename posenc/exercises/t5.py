"""Exercises of the chapter on T5's bias."""

import math
from fractions import Fraction
from itertools import pairwise

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc.exercises.attempt import Attempt, CounterExample, close, expect
from posenc.schemes.t5 import T5Bias

SIZES = [(32, 128), (16, 100), (64, 600)]


def _back(bucket: Attempt, buckets: int, limit: int) -> list[int]:
    """The buckets of keys 0, 1, … back."""
    return [int(n) for n in bucket.whole(-torch.arange(limit + 50), buckets, limit, shape=(limit + 50,))]


def _range(bucket: Attempt) -> None:
    for buckets, limit in SIZES:
        answer = bucket.whole(torch.arange(-1000, 1001), buckets, limit, shape=(2001,))
        expect(answer.min() >= 0, f"{bucket.last} has the bucket {answer.min()}")
        expect(answer.max() < buckets, f"{bucket.last} has the bucket {answer.max()}")


def _future(bucket: Attempt) -> None:
    for buckets, limit in SIZES:
        answer = bucket.whole(torch.arange(50), buckets, limit, shape=(50,))
        for offset, one in enumerate(answer.tolist()):
            expect(one == 0, f"{bucket.name} puts the offset {offset} into bucket {one}, of {buckets}")


def _near(bucket: Attempt) -> None:
    for buckets, limit in SIZES:
        for n, one in enumerate(_back(bucket, buckets, limit)[: buckets // 2]):
            expect(one == n, f"{bucket.name} puts the offset {-n} into bucket {one}, of {buckets}")


def _rises(bucket: Attempt) -> None:
    for buckets, limit in SIZES:
        answer = _back(bucket, buckets, limit)
        for n, (a, b) in enumerate(pairwise(answer)):
            expect(b in (a, a + 1), f"offsets {-n} and {-n - 1} are in buckets {a} and {b}, of {buckets}")


def _last(bucket: Attempt) -> None:
    for buckets, limit in SIZES:
        far = [-limit, -limit - 1, -100_000]
        for offset, one in zip(far, bucket.whole(torch.tensor(far), buckets, limit).tolist(), strict=True):
            expect(one == buckets - 1, f"{bucket.name} puts the offset {offset} into bucket {one}, of {buckets}")


def _growth(bucket: Attempt) -> None:
    for buckets, limit in SIZES:
        near = buckets // 2
        for n, bucket_of_offset in enumerate(_back(bucket, buckets, limit)[near:limit], start=near):
            exact = near * math.log(n / near) / math.log(limit / near)  # buckets after the first half
            message = f"with {buckets} buckets up to {limit}, the offset {-n} is in bucket {bucket_of_offset}"
            least, most = near + math.floor(exact - 1e-6), near + math.floor(exact + 1e-6)
            expect(bucket_of_offset >= min(least, buckets - 1), f"{message}, which ends before it")
            expect(bucket_of_offset <= most, f"{message}, which begins after it")


EXACT = [(16, 16, 128), (8, 8, 128), (5, 5, 160), (12, 12, 889), (20, 20, 640), (3, 7, 50), (4, 20, 60)]


def _table(buckets: Attempt, a: int, m: int, c: int) -> list[int]:
    return [int(n) for n in buckets.whole(c + 5, a, m, c, shape=(c + 6,))]


def _each(table: Attempt) -> None:
    for a, m, c in EXACT:
        for n, one in enumerate(_table(table, a, m, c)):
            expect(0 <= one < a + m, f"{table.last} puts the offset {n} into bucket {one}")
            expect(n >= a or one == n, f"{table.last} puts the offset {n} into bucket {one}")


def _never_back(table: Attempt) -> None:
    for a, m, c in EXACT:
        answer = _table(table, a, m, c)
        for n, (one, other) in enumerate(pairwise(answer)):
            expect(one <= other, f"{table.last} has bucket {one} at {n}, and {other} at {n + 1}")


def _not_early(table: Attempt) -> None:
    for a, m, c in EXACT:
        for n, one in list(enumerate(_table(table, a, m, c)))[a:]:
            begins = n**m >= Fraction(a) ** m * Fraction(c, a) ** (one - a)  # fractions know no rounding
            expect(begins, f"{table.last} puts the offset {n} into bucket {one}, which begins later")


def _not_late(table: Attempt) -> None:
    for a, m, c in EXACT:
        for n, one in list(enumerate(_table(table, a, m, c)))[a:]:
            next_begins = n**m >= Fraction(a) ** m * Fraction(c, a) ** (one + 1 - a)
            last = one == a + m - 1
            expect(last or not next_begins, f"{table.last} leaves the offset {n} in bucket {one}, which ended before")


def _far(pos: Tensor) -> Tensor:
    return (pos[:, None] - pos) >= 15  # with 16 buckets up to 16, all these are in the last


def _table_of(share: Attempt, made: Encoding) -> Tensor:
    table = getattr(made, "table", None)
    if not isinstance(table, Tensor) or table.shape != (16, 2):
        raise CounterExample(f"{share.last} has no table of (16, 2)")
    return table


def _weights(share: Attempt) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of silent contents, those of T5Bias with the same table, and positions."""
    encoding, plain, pos = share.encoding(2, 32, 16, 16), T5Bias(2, 16, 16).double(), torch.arange(400)
    torch.nn.init.normal_(plain.table)
    _table_of(share, encoding).copy_(plain.table)
    silent = torch.zeros(1, 2, 400, 4, dtype=torch.float64)
    return share.weights(encoding, silent, silent, pos, pos)[0], share.weights(plain, silent, silent, pos, pos)[0], pos


def _inside(share: Attempt) -> None:
    weights, usual, _ = _weights(share)
    for i in range(32):
        expect(close(weights[:, i], usual[:, i], 1e-5), f"{share.last}: query {i} weighs otherwise than with T5Bias")


def _keeps(share: Attempt) -> None:
    weights, _, pos = _weights(share)
    kept = (weights * _far(pos)).sum(-1)
    for i in (32, 40, 100, 399):
        message = f"{share.last}: in head 0 the last bucket has {kept[0, i]:.3f} of the weight of query {i}"
        expect(close(kept[:, i], kept[:, 31], 1e-5), f"{message}, and {kept[0, 31]:.3f} of that of query 31")


def _others(share: Attempt) -> None:
    weights, usual, pos = _weights(share)
    for name, pairs in (("in the last bucket", _far(pos)), ("before the last bucket", ~_far(pos))):
        among = [(w * pairs) / (w * pairs).sum(-1, keepdim=True).clamp(min=1e-30) for w in (weights, usual)]
        for i in (32, 100, 399):
            same = close(among[0][:, i], among[1][:, i], 1e-5)
            expect(same, f"{share.last}: for query {i}, keys {name} have other odds among one another than in T5Bias")


def _step(share: Attempt) -> None:
    encoding, pos = share.encoding(2, 32, 16, 16), torch.arange(400)
    silent = torch.zeros(1, 2, 400, 4, dtype=torch.float64)
    torch.nn.init.normal_(_table_of(share, encoding))
    whole = share.weights(encoding, silent, silent, pos, pos)[0]
    for t in (20, 200, 400):
        at = pos[t - 1 : t]
        row = share.weights(encoding, silent[:, :, :1], silent[:, :, :t], at, pos[:t])[0]
        same = close(row[:, 0], whole[:, t - 1, :t], 1e-5)
        expect(same, f"{share.last}: a step at {t - 1}, alone with {t} keys, weighs otherwise than in the whole")


EXERCISES = {
    "t5_bucket": [
        ("buckets are whole numbers from 0 to buckets - 1", _range),
        ("the query itself and all keys of the future are in bucket 0", _future),
        ("the first half of the buckets have one offset each", _near),
        ("going back, each key is in the bucket of the one before, or in the next", _rises),
        ("max_distance and everything beyond is in the last bucket", _last),
        ("in the other half, buckets begin at distances that grow geometrically", _growth),
    ],
    "t5_integers": [
        ("each offset has a bucket, and below a its own", _each),
        ("buckets never fall", _never_back),
        ("no offset is in a bucket that begins after it", _not_early),
        ("no offset is in a bucket that ended before it", _not_late),
    ],
    "t5_share": [
        ("within the training length it is T5Bias", _inside),
        ("the last bucket keeps its share", _keeps),
        ("otherwise the odds of keys are those of T5Bias", _others),
        ("a step with a cache is a row of the whole", _step),
    ],
}
