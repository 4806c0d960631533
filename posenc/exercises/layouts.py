"""Exercises of the chapter on layouts."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, draw, expect
from posenc.schemes.layout import Layout
from posenc.schemes.rope import rotate
from posenc.schemes.sinusoidal import frequencies

# heads, heads of keys and values, channels of a head, and how many of them rotate
PLAIN = ((1, 1, 8, 8), (3, 3, 8, 8), (4, 4, 16, 16))
GROUPED = ((4, 2, 8, 8), (6, 1, 12, 12))
PARTLY = ((2, 2, 16, 8), (4, 2, 24, 6))
ALL = PLAIN + GROUPED + PARTLY
WIDTH = 10


BY_HEAD = ((1, 8, 8), (2, 8, 8), (3, 16, 16))
BY_HEAD_PARTLY = ((2, 16, 8), (3, 24, 6))


def _weight(heads: int, kv_heads: int, head_dim: int) -> Tensor:
    return draw((heads + 2 * kv_heads) * head_dim, WIDTH, seed=head_dim + heads)


def _scores(weight: Tensor, heads: int, kv_heads: int, head_dim: int, rotary_dim: int, layout: Layout) -> Tensor:
    """Scores of twelve random tokens, (heads, 12, 12), from the rows of queries and keys."""
    x = draw(12, WIDTH, seed=1)
    pos, freq = torch.arange(5, 17), frequencies(rotary_dim, dtype=torch.float64)
    parts = weight.double().split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim])

    def turned(rows: Tensor) -> Tensor:
        y = (x @ rows.T).unflatten(-1, (-1, head_dim)).transpose(0, 1)  # (H, L, d)
        return torch.cat((rotate(y[..., :rotary_dim], pos, freq, layout=layout), y[..., rotary_dim:]), -1)

    return turned(parts[0]) @ turned(parts[1]).repeat_interleave(heads // kv_heads, 0).mT


def _moved(fused: Attempt, sizes: tuple[int, int, int, int]) -> tuple[Tensor, Tensor]:
    heads, kv_heads, head_dim, _ = sizes
    weight = _weight(heads, kv_heads, head_dim)
    return weight, fused.tensor(weight.clone(), *sizes, shape=weight.shape)


def _rows(fused: Attempt) -> None:
    for sizes in ALL:
        weight, answer = _moved(fused, sizes)
        for row in weight:
            times = int((answer == row).all(-1).sum())
            expect(times == 1, f"{fused.last}: a row of the weight is there {times} times")


def _values(fused: Attempt) -> None:
    for sizes in ALL:
        weight, answer = _moved(fused, sizes)
        values = sizes[1] * sizes[2]
        changed = int((answer[-values:] != weight[-values:]).any(-1).sum())
        expect(changed == 0, f"{fused.last}: {changed} of the last {values} rows are not what they were")


def _equal(fused: Attempt, cases: tuple[tuple[int, int, int, int], ...]) -> None:
    for sizes in cases:
        weight, answer = _moved(fused, sizes)
        right, got = _scores(weight, *sizes, layout="interleaved"), _scores(answer, *sizes, layout="half")
        off = (got - right).abs().amax((1, 2))
        worst = int(off.argmax())
        expect(close(got, right), f"{fused.last}: a score of head {worst} is off by {off[worst]:.2g}")


def _plain(fused: Attempt) -> None:
    _equal(fused, PLAIN)


def _grouped(fused: Attempt) -> None:
    _equal(fused, GROUPED)


def _partly(fused: Attempt) -> None:
    _equal(fused, PARTLY)


def _untouched(fused: Attempt) -> None:
    weight = _weight(4, 2, 8)
    before = weight.clone()
    fused.tensor(weight, 4, 2, 8, 8, shape=weight.shape)
    expect(torch.equal(weight, before), f"{fused.last} changes the weight that it was given")


def _by_head(by_head: Attempt, sizes: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """A matrix in the order of GPT-NeoX, and what becomes of it, both as (heads, 3, head_dim, WIDTH)."""
    heads, head_dim, _ = sizes
    weight = _weight(heads, heads, head_dim)
    answer = by_head.tensor(weight.clone(), *sizes, shape=weight.shape)
    return weight.unflatten(0, (heads, 3, head_dim)), answer.unflatten(0, (heads, 3, head_dim))


def _by_head_values(by_head: Attempt) -> None:
    for sizes in BY_HEAD + BY_HEAD_PARTLY:
        weight, answer = _by_head(by_head, sizes)
        for head in range(sizes[0]):
            changed = int((answer[head, 2] != weight[head, 2]).any(-1).sum())
            expect(changed == 0, f"{by_head.last}: {changed} rows of the values of head {head} are not what they were")


def _by_head_equal(by_head: Attempt, cases: tuple[tuple[int, int, int], ...]) -> None:
    for heads, head_dim, rotary_dim in cases:
        weight, answer = _by_head(by_head, (heads, head_dim, rotary_dim))
        blocks = [x.transpose(0, 1).flatten(0, 2) for x in (weight, answer)]
        sizes = heads, heads, head_dim, rotary_dim
        right, got = _scores(blocks[0], *sizes, layout="interleaved"), _scores(blocks[1], *sizes, layout="half")
        off = (got - right).abs().amax((1, 2))
        worst = int(off.argmax())
        expect(close(got, right), f"{by_head.last}: a score of head {worst} is off by {off[worst]:.2g}")


EXERCISES = {
    "layouts_by_head": [
        ("rows of values stay where they are", _by_head_values),
        ("scores in the half layout are what they were", lambda by_head: _by_head_equal(by_head, BY_HEAD)),
        ("and if only a part of each head rotates", lambda by_head: _by_head_equal(by_head, BY_HEAD_PARTLY)),
    ],
    "layouts_fused": [
        ("every row of the weight is there once", _rows),
        ("rows of values stay where they are", _values),
        ("with as many heads of keys as of queries, scores in the half layout are what they were", _plain),
        ("and with fewer heads of keys", _grouped),
        ("and if only a part of each head rotates", _partly),
        ("the weight that is given is not changed", _untouched),
    ],
}
