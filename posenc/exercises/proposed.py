"""Exercises of the chapter on what papers propose."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, expect

SHAPES = ((1,), (5,), (2, 7), (2, 3, 9))


def _random(*shape: int, seed: int = 0) -> Tensor:
    """Numbers between 0 and 1."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _column_each(columns: Attempt) -> None:
    for shape in SHAPES:
        columns.tensor(-_random(*shape), shape=shape)


def _open(columns: Attempt) -> None:
    for length in (1, 4, 9):
        answer = columns.tensor(torch.zeros(length, dtype=torch.float64))
        expect(close(answer, answer[:1].expand(length)), f"{columns.last} gives {answer.tolist()}")


def _equal_gates(columns: Attempt) -> None:
    for rate in (0.1, 0.5, 2.0):
        answer = columns.tensor(torch.full((6,), -rate, dtype=torch.float64))
        expect(
            close(answer.diff(), torch.full((5,), rate)),
            f"with ln f = {-rate} everywhere, neighbouring numbers differ by {answer.diff()[0]:.4g}",
        )


def _one_gate(columns: Attempt) -> None:
    for closed in range(1, 6):
        log_gate = torch.zeros(6, dtype=torch.float64)
        log_gate[closed] = -3.0
        answer = columns.tensor(log_gate)
        lost = answer[-1] - answer
        wanted = 3.0 * (torch.arange(6) < closed)
        expect(
            close(lost, wanted),
            f"with ln f = -3 at token {closed} and 0 elsewhere, the keys lose {[round(x, 4) for x in lost.tolist()]}",
        )


def _weights(columns: Attempt) -> None:
    log_gate = -_random(2, 8, seed=1)
    score = 4 * _random(2, 8, 8, seed=2)
    answer = columns.tensor(log_gate, shape=(2, 8))
    for s in range(2):
        for i in range(8):
            bias = [sum(float(log_gate[s, m]) for m in range(j + 1, i + 1)) for j in range(i + 1)]
            expected = (score[s, i, : i + 1] + torch.tensor(bias, dtype=torch.float64)).softmax(0)
            weights = (score[s, i, : i + 1] + answer[s, : i + 1]).softmax(0)
            expect(close(weights, expected), f"in row {i} of sequence {s}, the weights of {columns.last} are others")


def _position_each(positions: Attempt) -> None:
    for shape in SHAPES[1:]:
        gate = _random(*shape, shape[-1])
        answer = positions.tensor(gate, shape=gate.shape)
        expect(
            not answer.triu(1).any(),
            f"{positions.last} gives a key of the future {answer.triu(1).abs().max():.4g}",
        )


def _tokens(positions: Attempt) -> None:
    for length in (1, 4, 7):
        answer = positions.tensor(torch.ones(length, length, dtype=torch.float64))
        i = torch.arange(length)
        for q, k in ((length - 1, 0), (length - 1, length - 1), (length // 2, 0)):
            expect(
                abs(answer[q, k] - (i[q] - i[k] + 1)) < 1e-6,
                f"with all gates at 1, key {k} of {length} is at {answer[q, k]:.4g} for query {q}",
            )


def _past_only(positions: Attempt) -> None:
    gate = _random(6, 6, seed=3)
    later = gate.clone()
    later[torch.triu(torch.ones(6, 6), 1).bool()] = 0.77
    change = (positions.tensor(gate) - positions.tensor(later)).abs()
    where = change.argmax().item()
    expect(
        close(change, torch.zeros(6, 6)),
        f"other gates for tokens after the query move key {where % 6} by {change.max():.4g} for query {where // 6}",
    )


def _own_row(positions: Attempt) -> None:
    gate = torch.zeros(5, 5, dtype=torch.float64)
    gate[3, 1] = 0.5
    answer = positions.tensor(gate)
    expected = torch.zeros(5, 5)
    expected[3, :2] = 0.5
    expect(
        close(answer, expected),
        f"with a single gate of 0.5, query 3's of token 1, row 3 is {[round(x, 4) for x in answer[3].tolist()]}",
    )


def _sums(positions: Attempt) -> None:
    gate = _random(2, 6, 6, seed=4)
    answer = positions.tensor(gate)
    for s in range(2):
        for i in range(6):
            for j in range(i + 1):
                expected = sum(float(gate[s, i, m]) for m in range(j, i + 1))
                expect(
                    abs(answer[s, i, j] - expected) < 1e-6,
                    f"in sequence {s}, key {j} is at {answer[s, i, j]:.4g} for query {i}, which is not the sum",
                )


EXERCISES = {
    "proposed_forget": [
        ("there is a finite number for each key, in the shape of the gates", _column_each),
        ("gates that are all open prefer no key", _open),
        ("with equal gates, a key one place nearer is worth -ln f more", _equal_gates),
        ("a gate costs the keys before its token, and not its own key or later ones", _one_gate),
        ("in every row, the weights are those of the sum from key to query", _weights),
    ],
    "proposed_count": [
        ("each pair has a position, and keys of the future have 0", _position_each),
        ("with all gates at 1, the query itself is at 1 and each key one further than the next", _tokens),
        ("gates of tokens after the query have no effect", _past_only),
        ("a gate counts for its own query, and for the keys up to its token", _own_row),
        ("a position is the sum of the gates from the key to the query", _sums),
    ],
}
