"""Exercises of the chapter on relative representations."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, CounterExample, close, draw, expect, worst
from posenc.schemes.shaw import Shaw
from posenc.schemes.t5 import t5_bucket


def _of(label: Attempt, offset: list[int], clip: int) -> list[int]:
    return [int(n) for n in label.whole(torch.tensor(offset), clip, shape=(len(offset),))]


def _range(label: Attempt) -> None:
    for clip in (0, 1, 4, 16):
        for r, c in zip(range(-40, 41), _of(label, list(range(-40, 41)), clip), strict=True):
            expect(0 <= c <= 2 * clip, f"{label.name} gives the offset {r} the label {c}, with clip = {clip}")


def _one_each(label: Attempt) -> None:
    for clip in (1, 4, 16):
        offset = list(range(-clip, clip + 1))
        answer = _of(label, offset, clip)
        for r, a, b in zip(offset, answer, answer[1:], strict=False):
            expect(b == a + 1, f"offsets {r} and {r + 1} have the labels {a} and {b}, with clip = {clip}")


def _beyond(label: Attempt) -> None:
    for clip in (0, 1, 4, 16):
        for side in (-1, 1):
            last, further, far = _of(label, [side * clip, side * (clip + 1), side * 1000], clip)
            offsets = f"{side * clip}, {side * (clip + 1)} and {side * 1000}"
            expect(last == further == far, f"offsets {offsets}: labels {last}, {further} and {far}, with clip = {clip}")


def _any_shape(label: Attempt) -> None:
    pos = torch.arange(5)
    label.whole(pos - pos[:, None], 2, shape=(5, 5))


def _marked(L: int) -> Tensor:
    """Entry (i, c) is 100 i + c."""
    return 100.0 * torch.arange(L, dtype=torch.float64)[:, None] + torch.arange(L)


def _shape(skew: Attempt) -> None:
    for shape in ((1, 1), (5, 5), (3, 4, 4), (2, 3, 6, 6)):
        skew.tensor(torch.zeros(shape), shape=shape)


def _entries(skew: Attempt, pairs: Callable[[int, int], bool]) -> None:
    for L in (1, 2, 5, 8):
        answer = skew.tensor(_marked(L), shape=(L, L))
        for i in range(L):
            for j in (j for j in range(i + 1) if pairs(i, j)):
                row, column = divmod(int(answer[i, j]), 100)
                message = f"L = {L}: entry ({i}, {j}) is what x has in row {row}, column {column}, which is for"
                at = f"query {row} and the offset {column - L + 1}"
                expect((row, column) == (i, L - 1 + j - i), f"{message} {at}")


def _heads(skew: Attempt) -> None:
    x = draw(2, 3, 5, 5)
    answer = skew.tensor(x, shape=x.shape).tril()
    for b in range(2):
        for h in range(3):
            alone = skew.tensor(x[b, h], shape=(5, 5)).tril()
            expect(close(answer[b, h], alone), f"head {h} of sequence {b} is skewed otherwise than it is alone")


def _stairs(heads: int) -> Callable[[Tensor], Tensor]:
    table = draw(32, heads, seed=12)

    def stairs(offset: Tensor) -> Tensor:
        return table[t5_bucket(offset.cpu())].movedim(-1, 0)

    return stairs


def _slopes(heads: int) -> Callable[[Tensor], Tensor]:
    def slopes(offset: Tensor) -> Tensor:
        slope = torch.tensor([0.5, 0.1, 0.03], dtype=torch.float64)[:heads]
        return slope.view(-1, *[1] * offset.ndim) * offset.cpu().clamp(max=0)

    return slopes


def _made(as_shaw: Attempt, bias: Callable[[Tensor], Tensor], L: int, d: int) -> Shaw:
    encoding = as_shaw.encoding(bias, L, d)
    if not isinstance(encoding, Shaw):
        raise CounterExample(f"{as_shaw.last} is a {type(encoding).__name__}")
    return encoding


def _kind(as_shaw: Attempt) -> None:
    for heads, L, d in ((2, 10, 8), (3, 5, 4)):
        encoding = _made(as_shaw, _stairs(heads), L, d)
        expect(encoding.value_table is None, f"{as_shaw.last} has values, too")
        has = f"{as_shaw.last} has a table {tuple(encoding.key_table.shape)}"
        expect(encoding.key_table.shape == (heads, 2 * L - 1, d), f"{has}, the bias being of {heads} heads")


def _weighs(as_shaw: Attempt, make: Callable[[int], Callable[[Tensor], Tensor]], contents: float = 0.0) -> None:
    for heads, L, d in ((2, 10, 8), (3, 5, 4)):
        bias, pos = make(heads), torch.arange(L)
        q, k = contents * draw(2, 1, heads, L, d, seed=13)
        q[..., 0], k[..., 0] = 1, 0
        wanted = q @ k.mT / d**0.5 + bias(pos - pos[:, None])
        wanted = wanted.masked_fill(pos > pos[:, None], -torch.inf).softmax(-1)
        answer = as_shaw.weights(_made(as_shaw, bias, L, d), q, k, pos, pos)
        _, h, i, j = worst(answer, wanted)
        message = f"with {as_shaw.last}, head {h} gives key {j} of query {i} the weight {answer[0, h, i, j]:.3f}"
        expect(close(answer, wanted, 1e-5), f"{message}; with the bias added it is {wanted[0, h, i, j]:.3f}")


EXERCISES = {
    "shaw_labels": [
        ("labels are whole numbers from 0 to 2 · clip", _range),
        ("up to clip apart, the next offset has the next label", _one_each),
        ("all offsets beyond share the last label on their side", _beyond),
        ("offsets may come in any shape", _any_shape),
    ],
    "shaw_skew": [
        ("the shape stays", _shape),
        ("on the diagonal stands what belongs to the offset 0", lambda skew: _entries(skew, lambda i, j: i == j)),
        ("entry (i, j), for j ≤ i, is that of query i and the offset j - i", lambda x: _entries(x, lambda i, j: True)),
        ("each head and sequence is skewed as if it were alone", _heads),
    ],
    "shaw_t5": [
        ("it is a Shaw of keys only, with a table for each head, and k = L - 1", _kind),
        ("if contents are silent, T5's buckets weigh as they do when added", lambda x: _weighs(x, _stairs)),
        ("if contents are silent, ALiBi's lines weigh as they do when added", lambda x: _weighs(x, _slopes)),
        ("contents count beside it as they did", lambda as_shaw: _weighs(as_shaw, _stairs, 1.0)),
    ],
}
