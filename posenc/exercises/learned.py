"""Exercises of the chapter on learned tables."""

import torch
from torch import Tensor, nn

from posenc.exercises.attempt import Attempt, CounterExample, close, draw, expect, worst


def _rows(lookup: Attempt) -> None:
    table, x = draw(12, 4, seed=1), draw(2, 5, 4)
    for pos in ([0, 1, 2, 3, 4], [7, 8, 9, 10, 11], [11, 0, 3, 3, 2]):
        added = lookup.tensor(x, torch.tensor(pos), table, shape=(2, 5, 4)) - x
        wanted = table[pos].expand(2, -1, -1)
        b, i, c = worst(added, wanted)
        says = f"{lookup.last} adds {added[b, i, c]:.3f} in channel {c} to the token at {pos[i]}"
        expect(close(added, wanted, 1e-5), f"{says}, and its row has {wanted[b, i, c]:.3f} there")


def _by_sequence(lookup: Attempt) -> None:
    table, x, pos = draw(12, 4, seed=1), draw(2, 3, 4), torch.tensor([[0, 1, 2], [5, 0, 1]])
    added = lookup.tensor(x, pos, table, shape=(2, 3, 4)) - x
    expect(close(added, table[pos], 1e-5), f"{lookup.last} adds other rows than those at {pos.tolist()}")


def _no_row(lookup: Attempt) -> None:
    table = draw(12, 4, seed=1)
    for pos in ([-1, 0, 1], [10, 11, 12]):
        lookup.refuses(ValueError, draw(2, 3, 4), torch.tensor(pos), table)


def _dtype(lookup: Attempt) -> None:
    x = draw(2, 3, 4).bfloat16()
    answer = lookup(x, torch.arange(3), draw(12, 4, seed=1).float())
    kind = getattr(answer, "dtype", type(answer).__name__)
    expect(kind == torch.bfloat16, f"x is bfloat16 and the table float32, and the result is {kind}")


def _table(*old: int) -> Tensor:
    """Two rows to spare, and a grid in which each row says where it is: (down, right)."""
    axes = [torch.linspace(0, 1, n, dtype=torch.float64) for n in old]
    return torch.cat([torch.full((2, 2), 7.0), torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 1)])


SIZES = [((6, 9), (12, 5)), ((6, 9), (9, 6)), ((4, 4), (7, 7))]


def _grids(resize: Attempt) -> None:
    for old, new in SIZES:
        resize.tensor(_table(*old), old, new, 2, shape=(2 + new[0] * new[1], 2))
    resize.tensor(_table(4, 4)[2:], (4, 4), (6, 6), 0, shape=(36, 2))


def _spare(resize: Attempt) -> None:
    for old, new in SIZES:
        answer = resize.tensor(_table(*old), old, new, 2)[:2]
        expect((answer == 7).all(), f"{resize.last} begins with {answer.tolist()}, the table with rows of 7")


def _ramp(resize: Attempt, axis: int) -> None:
    for old, new in SIZES:
        grid = resize.tensor(_table(*old), old, new, 2, shape=(2 + new[0] * new[1], 2))[2:].view(*new, 2)[..., axis]
        wanted = torch.linspace(0, 1, new[axis], dtype=torch.float64)
        wanted = (wanted[:, None] if axis == 0 else wanted).expand(*new)
        a, b = worst(grid, wanted)
        message = f"{resize.last}, of a grid whose rows say how far {('down', 'right')[axis]} they are (0 to 1)"
        far = f"has {grid[a, b]:.3f} at line {a}, column {b} of {new[0]} × {new[1]}"
        expect(close(grid, wanted, 1e-4), f"{message}, {far}")


def _used(seen: Attempt, pos: list[int], least: int = 1) -> nn.Module:
    """What was made, after one pass in training mode, in evaluation mode."""
    made = seen.encoding(8, 32, least) if least > 1 else seen.encoding(8, 32)
    seen.method(made.train(), "embed")(torch.zeros(2, len(pos), 8, dtype=torch.float64), torch.tensor(pos))
    return made.eval()


def _is_table(seen: Attempt) -> None:
    encoding, x, pos = seen.encoding(8, 32).train(), draw(2, 10, 8), torch.arange(10)
    embed = seen.method(encoding, "embed")
    added = embed.tensor(x, pos, shape=(2, 10, 8)) - x
    table = getattr(encoding, "table", None)
    if not isinstance(table, Tensor):
        raise CounterExample(f"{seen.last} has no table")
    expect(close(added, table[:10].expand(2, -1, -1), 1e-5), f"{embed.last} does not add rows 0 to 9 of its table")


def _serves(seen: Attempt) -> None:
    embed = seen.method(_used(seen, [0, 3, 4]), "embed")
    for pos in ([0], [3, 4], [4, 4, 0]):
        embed.tensor(torch.zeros(1, len(pos), 8, dtype=torch.float64), torch.tensor(pos), shape=(1, len(pos), 8))


def _refuses(seen: Attempt) -> None:
    embed = seen.method(_used(seen, [0, 3, 4]), "embed")
    for pos in ([1], [3, 4, 5], [1]):  # to ask twice is no training
        embed.refuses(ValueError, torch.zeros(1, len(pos), 8, dtype=torch.float64), torch.tensor(pos))


def _least(seen: Attempt) -> None:
    embed = seen.method(_used(seen, [0, 5, 5, 5], 3), "embed")
    one = torch.zeros(1, 1, 8, dtype=torch.float64)
    embed(one, torch.tensor([5]))
    embed.refuses(ValueError, one, torch.tensor([0]))


def _saved(seen: Attempt) -> None:
    encoding = _used(seen, [0, 3, 4])
    fresh = seen.encoding(8, 32)
    try:
        fresh.load_state_dict(encoding.state_dict())
    except Exception as error:
        expect(False, f"a new one cannot load the state_dict of {seen.last}: {' '.join(str(error).split())}")
    embed = seen.method(fresh.eval(), "embed")
    embed(torch.zeros(1, 3, 8, dtype=torch.float64), torch.tensor([0, 3, 4]))
    embed.refuses(ValueError, torch.zeros(1, 1, 8, dtype=torch.float64), torch.tensor([1]))


EXERCISES = {
    "learned_lookup": [
        ("each token gets the row of its position added, wherever it stands", _rows),
        ("sequences of a batch may have positions of their own", _by_sequence),
        ("a position that has no row is refused", _no_row),
        ("the result has the dtype of x", _dtype),
    ],
    "learned_resize": [
        ("there is a row for each place of the new grid, and for each to spare", _grids),
        ("rows that are no places stay as they are", _spare),
        ("a ramp from top to bottom stays one", lambda resize: _ramp(resize, 0)),
        ("a ramp from left to right stays one", lambda resize: _ramp(resize, 1)),
    ],
    "learned_seen": [
        ("in training it is a learned table", _is_table),
        ("in evaluation, rows that training used serve", _serves),
        ("in evaluation, rows that training never used are refused", _refuses),
        ("a row has to be used `least` times, and each time counts", _least),
        ("what was counted is saved with the weights", _saved),
    ],
}
