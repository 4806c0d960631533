"""Exercises of the chapter on bugs."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, draw, expect

# ---- positions(real, start) ----------------------------------------------------------------------------------------

PADDED = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 1]]).bool()


def _numbered(positions: Attempt, real: Tensor, start: Tensor) -> Tensor:
    found = positions.tensor(real, start, shape=real.shape)
    expect(close(found, found.round()), f"{positions.last} has positions that are not whole")
    return found


def _whole(found: Tensor) -> list[int]:
    return [int(position) for position in found]


def _from_start(positions: Attempt) -> None:
    for start in (0, 1, 7, 300):
        found = _numbered(positions, torch.ones(3, 5, dtype=torch.bool), torch.full((3,), start))
        right = (found == start + torch.arange(5)).all()
        expect(right, f"{positions.last}, three texts that go on from {start}, gives {_whole(found[0])}")


def _rows_apart(positions: Attempt) -> None:
    start = torch.tensor([4, 0, 9])
    found = _numbered(positions, torch.ones(3, 2, dtype=torch.bool), start)
    for row, first in zip(found, start.tolist(), strict=True):
        given = _whole(row)
        expect(given == [first, first + 1], f"a text that goes on from {first}, beside others, is numbered {given}")


def _only_real(positions: Attempt) -> None:
    found = _numbered(positions, PADDED, torch.zeros(4, dtype=torch.long))
    for row, real in zip(found, PADDED, strict=True):
        given, kinds = _whole(row[real]), "".join(".x"[int(here)] for here in real)
        expect(given == list(range(len(given))), f"the tokens of {kinds} (x a token, . padding) get {given}")


def _in_pieces(positions: Attempt) -> None:
    start = torch.tensor([0, 3, 5, 2])
    whole = _numbered(positions, PADDED, start)[PADDED]
    for cut in (1, 2, 4):
        first, second = PADDED[:, :cut], PADDED[:, cut:]
        parts = _numbered(positions, first, start), _numbered(positions, second, start + first.sum(1))
        same = torch.equal(torch.cat(parts, 1)[PADDED], whole)
        expect(same, f"read in pieces of {cut} and {6 - cut} columns, tokens get other positions than in one")


def _rows_of_a_table(positions: Attempt) -> None:
    for start in (0, 2):
        found = _numbered(positions, PADDED, torch.full((4,), start))
        expect((found >= 0).all(), f"{positions.last} gives padding the position {int(found.min())}")
        expect((found < start + 6).all(), f"{positions.last} gives padding the position {int(found.max())}")


# ---- turn(x, pos, freq) --------------------------------------------------------------------------------------------

FREQ = 100.0 ** -(torch.arange(4, dtype=torch.float64) / 4)


def _turned(turn: Attempt, x: Tensor, pos: Tensor) -> Tensor:
    return turn.tensor(x, pos, FREQ, shape=x.shape)


def _zero_stays(turn: Attempt) -> None:
    x = draw(5, 8)
    expect(close(_turned(turn, x, torch.zeros(5, dtype=torch.long)), x), "at position 0 a vector changes")


def _length_is_kept(turn: Attempt) -> None:
    x = draw(40, 8, seed=1)
    ratio = _turned(turn, x, torch.arange(40)).norm(dim=-1) / x.norm(dim=-1)
    worst = int((ratio - 1).abs().argmax())
    expect(close(ratio, torch.ones(40)), f"the vector at position {worst} becomes {ratio[worst]:.2f} times as long")


def _offsets_only(turn: Attempt) -> None:
    q, k, pos = draw(6, 8, seed=2), draw(6, 8, seed=3), torch.arange(6)
    here = _turned(turn, q, pos) @ _turned(turn, k, pos).T
    there = _turned(turn, q, pos + 50) @ _turned(turn, k, pos + 50).T
    off = float((here - there).abs().max())
    expect(close(here, there, 1e-5), f"moved by 50, a score changes by {off:.2f}")


def _halves(turn: Attempt) -> None:
    for t in range(4):
        for channel, other, sign in ((t, t + 4, 1.0), (t + 4, t, -1.0)):
            unit = torch.zeros(1, 8, dtype=torch.float64)
            unit[0, channel] = 1.0
            found = _turned(turn, unit, torch.tensor([3]))[0]
            expected = torch.zeros(8, dtype=torch.float64)
            expected[channel], expected[other] = (3 * FREQ[t]).cos(), sign * (3 * FREQ[t]).sin()
            moved = [n for n in range(8) if abs(float(found[n])) > 1e-6]
            said = f"a vector along channel {channel} at position 3 has parts in channels {moved}"
            expect(close(found, expected), f"{said}, the first of them {found[moved[0]] if moved else 0.0:.2f}")


def _bf16(turn: Attempt) -> None:
    x, pos = draw(4, 8, seed=4).bfloat16(), torch.tensor([0, 10, 300, 2001])
    found = turn(x, pos, FREQ)
    expect(isinstance(found, Tensor), f"{turn.last} returns no tensor")
    expect(found.dtype == torch.bfloat16, f"x is bfloat16, and what comes back is {found.dtype}")
    exact = _turned(turn, x.double(), pos)
    off = (found.double() - exact).abs().amax(-1)
    worst = int(off.argmax())
    expect(
        off[worst] < 0.05, f"in bfloat16, at position {int(pos[worst])}, the result is off by {float(off[worst]):.2f}"
    )


# ---- by_key(table) -------------------------------------------------------------------------------------------------


def _entry_by_entry(by_key: Attempt) -> None:
    for n in (2, 3, 7):
        distance = torch.arange(n - 1, -n, -1, dtype=torch.float64).expand(n, -1).contiguous()
        found = by_key.tensor(distance, shape=(n, n))
        pos = torch.arange(n)
        wrong = (found != pos[:, None] - pos).nonzero()
        if len(wrong):
            i, j = wrong[0].tolist()
            said = f"in a table of its distances, {n} by {2 * n - 1},"
            expect(False, f"{said} query {i} finds {found[i, j].item():g} at key {j}")


def _own_row(by_key: Attempt) -> None:
    for n in (2, 5):
        row = torch.arange(n, dtype=torch.float64)[:, None].expand(n, 2 * n - 1).contiguous()
        found = by_key.tensor(row, shape=(n, n))
        wrong = (found != torch.arange(n)[:, None]).nonzero()
        if len(wrong):
            i, j = wrong[0].tolist()
            expect(False, f"query {i} of {n}, at key {j}, gets what belongs to query {found[i, j].item():g}")


def _leading_axes(by_key: Attempt) -> None:
    table = draw(2, 3, 4, 7, seed=5)
    found = by_key.tensor(table, shape=(2, 3, 4, 4))
    one = torch.stack([by_key.tensor(part, shape=(4, 4)) for part in table.flatten(0, 1)]).unflatten(0, (2, 3))
    expect(close(found, one), "a head of a batch gets something else than by itself")


# ---- may_see(qpos, kpos, qdoc, kdoc) -------------------------------------------------------------------------------

POS = torch.tensor([0, 1, 2, 3, 0, 1, 2])
DOC = torch.tensor([0, 0, 0, 0, 1, 1, 1])


def _mask(may_see: Attempt, index: Tensor, jndex: Tensor) -> Tensor:
    """The mask of some tokens of the two documents, the queries and the keys."""
    given = POS[index], POS[jndex], DOC[index], DOC[jndex]
    return may_see.tensor(*given, shape=(len(index), len(jndex))) != 0


def _every(may_see: Attempt) -> Tensor:
    return _mask(may_see, torch.arange(7), torch.arange(7))


def _says(i: int, j: int) -> str:
    return (
        f"the token at {int(POS[i])} of document {int(DOC[i])} and the key at {int(POS[j])} of document {int(DOC[j])}"
    )


def _itself_and_past(may_see: Attempt) -> None:
    for i, j in (_every(may_see).logical_not() & (DOC[:, None] == DOC) & (POS[:, None] >= POS)).nonzero().tolist():
        expect(False, f"{_says(i, j)}: it may not see it, and should")


def _no_future(may_see: Attempt) -> None:
    for i, j in (_every(may_see) & (DOC[:, None] == DOC) & (POS[:, None] < POS)).nonzero().tolist():
        expect(False, f"{_says(i, j)}: it sees the future")


def _no_other(may_see: Attempt) -> None:
    for i, j in (_every(may_see) & (DOC[:, None] != DOC)).nonzero().tolist():
        expect(False, f"{_says(i, j)}: it sees another document")


def _step(may_see: Attempt) -> None:
    full = _every(may_see)
    for i in range(7):
        row = _mask(may_see, torch.tensor([i]), torch.arange(7))[0]
        there = f"the token at {int(POS[i])} of document {int(DOC[i])}"
        expect(torch.equal(row, full[i]), f"{there}, as the only query, sees {int(row.sum())} keys, not its own")


def _any_order(may_see: Attempt) -> None:
    order = torch.tensor([6, 2, 4, 0, 3, 5, 1])
    here, there = _every(may_see), _mask(may_see, torch.arange(7), order)
    expect(torch.equal(there[:, order.argsort()], here), "keys that are stored in another order are seen by others")


EXERCISES = {
    "bugs_offset": [
        ("a text without padding goes on from its start, one by one", _from_start),
        ("each text of a batch goes on from its own start", _rows_apart),
        ("tokens are numbered from 0, wherever padding stands", _only_real),
        ("a text that is read in two pieces gets the positions that it gets in one", _in_pieces),
        ("padding gets a position for which a table has a row", _rows_of_a_table),
    ],
    "bugs_pairs": [
        ("position 0 changes nothing", _zero_stays),
        ("a vector keeps its length", _length_is_kept),
        ("scores depend on the offset alone", _offsets_only),
        (
            "channels t and t + d/2 are a pair and turn counter-clockwise, by pos times its frequency",
            _halves,
        ),
        ("bfloat16 comes back as bfloat16, with exact angles", _bf16),
    ],
    "bugs_shift": [
        ("query i finds the distance i - j at key j", _entry_by_entry),
        ("a query gets nothing of another's", _own_row),
        ("every head of every sequence is served alike", _leading_axes),
    ],
    "bugs_mask": [
        ("a token may see itself and the past of its document", _itself_and_past),
        ("a token sees nothing of the future", _no_future),
        ("a token sees nothing of another document", _no_other),
        ("one query alone sees what it sees among all", _step),
        ("it does not matter in which order keys are stored", _any_order),
    ],
}
