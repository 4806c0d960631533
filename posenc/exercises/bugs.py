"""Exercises of the chapter on bugs."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, expect

# ---- positions(real, start) ----------------------------------------------------------------------------------------

PADDED = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 1]]).bool()


def _numbered(positions: Attempt, real: Tensor, start: Tensor) -> Tensor:
    answer = positions.tensor(real, start, shape=real.shape)
    expect(close(answer, answer.round()), f"{positions.last} has positions that are not whole")
    return answer


def _whole(answer: Tensor) -> list[int]:
    return [int(position) for position in answer]


def _from_start(positions: Attempt) -> None:
    for start in (0, 1, 7, 300):
        answer = _numbered(positions, torch.ones(3, 5, dtype=torch.bool), torch.full((3,), start))
        right = (answer == start + torch.arange(5)).all()
        expect(right, f"{positions.last}, three texts that go on from {start}, gives {_whole(answer[0])}")


def _rows_apart(positions: Attempt) -> None:
    start = torch.tensor([4, 0, 9])
    answer = _numbered(positions, torch.ones(3, 2, dtype=torch.bool), start)
    for row, first in zip(answer, start.tolist(), strict=True):
        given = _whole(row)
        expect(given == [first, first + 1], f"a text that goes on from {first}, beside others, is numbered {given}")


def _only_real(positions: Attempt) -> None:
    answer = _numbered(positions, PADDED, torch.zeros(4, dtype=torch.long))
    for row, real in zip(answer, PADDED, strict=True):
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
        answer = _numbered(positions, PADDED, torch.full((4,), start))
        expect((answer >= 0).all(), f"{positions.last} gives padding the position {int(answer.min())}")
        expect((answer < start + 6).all(), f"{positions.last} gives padding the position {int(answer.max())}")


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
    "bugs_mask": [
        ("a token may see itself and the past of its document", _itself_and_past),
        ("a token sees nothing of the future", _no_future),
        ("a token sees nothing of another document", _no_other),
        ("one query alone sees what it sees among all", _step),
        ("it does not matter in which order keys are stored", _any_order),
    ],
}
