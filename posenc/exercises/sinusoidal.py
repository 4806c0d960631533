"""Exercises of the chapter on sinusoids."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.exercises.attempt import Attempt, CounterExample, close, expect
from posenc.schemes.sinusoidal import sinusoidal


def _angles(dim: int) -> Tensor:
    return 10_000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def _codes(codes: Attempt, pos: list[int], dim: int) -> Tensor:
    return codes.tensor(torch.tensor(pos), dim, shape=(len(pos), dim))


def _at_zero(codes: Attempt) -> None:
    for dim in (2, 8, 64):
        row = _codes(codes, [0], dim)[0]
        wanted = torch.tensor([0.0, 1.0]).repeat(dim // 2)
        says = f"{codes.last} begins {', '.join(f'{x:g}' for x in row[:4].tolist())}"
        expect(close(row, wanted, 1e-5), says)


def _on_circles(codes: Attempt) -> None:
    for dim in (4, 8, 64):
        norm = _codes(codes, [0, 1, 2, 5, 40], dim).view(5, -1, 2).norm(dim=-1)
        p, t = divmod(int((norm - 1).abs().argmax()), dim // 2)
        expect(close(norm, 1.0, 1e-4), f"pair {t} of row {p} of {codes.last} has length {norm[p, t]:.3f}")


def _even_steps(codes: Attempt) -> None:
    for dim in (4, 8, 64):
        sin, cos = _codes(codes, [0, 1, 2], dim).view(3, -1, 2).unbind(-1)
        angle = torch.atan2(sin, cos).diff(dim=0).remainder(2 * math.pi)
        for t, theta in enumerate(_angles(dim).tolist()):
            for p in range(2):
                says = f"from position {p} to {p + 1}, pair {t} of {dim // 2} rotates by {angle[p, t]:.5f}"
                expect(abs(angle[p, t].item() - theta) < 1e-4, says)


def _each_alone(codes: Attempt) -> None:
    whole = _codes(codes, list(range(20)), 8)
    for pos in ([7], [5, 6, 7], [9, 2, 2]):
        same = close(_codes(codes, pos, 8), whole[pos], 1e-5)
        expect(same, f"{codes.last} is not rows {', '.join(map(str, pos))} of the codes of 0 to 19")


def _start(dim: int = 8, at: float = 3.0) -> tuple[Tensor, Tensor]:
    return sinusoidal(torch.tensor([at], dtype=torch.float64), dim)[0], _angles(dim)


def _begins(march: Attempt) -> None:
    for length in (1, 5):
        start, theta = _start()
        table = march.tensor(start, theta, length, shape=(length, 8))
        expect(close(table[0], start), f"row 0 of {march.last} is not the code that it was given")


def _keeps_norms(march: Attempt) -> None:
    norm = march.tensor(*_start(), 30, shape=(30, 8)).view(30, -1, 2).norm(dim=-1)
    p, t = divmod(int((norm - 1).abs().argmax()), 4)
    expect(close(norm, 1.0, 1e-4), f"pair {t} of row {p} of {march.last} has length {norm[p, t]:.3f}")


def _turns(march: Attempt) -> None:
    for at in (0.0, 3.0):
        start, theta = _start(at=at)
        sin, cos = march.tensor(start, theta, 6, shape=(6, 8)).view(6, -1, 2).unbind(-1)
        angle = (torch.atan2(sin, cos).diff(dim=0) + math.pi).remainder(2 * math.pi) - math.pi
        for n, t in (n for n in torch.cartesian_prod(torch.arange(5), torch.arange(4)).tolist()):
            says = f"from row {n} to row {n + 1} of {march.last}, pair {t} rotates by {angle[n, t]:.4f}"
            expect(abs(angle[n, t] - theta[t]) < 1e-4, f"{says}, its theta being {theta[t]:.4f}")


class _Waves(TorchDispatchMode):
    """How many sines and cosines are computed."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if any(name in str(function) for name in ("aten.sin", "aten.cos", "aten.polar", "aten.exp.", "aten.tan")):
            self.count += out.numel()
        return out


def _few_sines(march: Attempt) -> None:
    start, theta = _start()
    with _Waves() as waves:
        march(start, theta, 50)
    expect(waves.count <= 8, f"{march.last} computes {waves.count} sines and cosines; there are 4 frequencies")


def _windows(starts: Attempt) -> list[int]:
    answer = starts.whole(200, shape=(200,))
    expect(answer.min() >= 0, f"{starts.last} has a window that begins at {answer.min()}")
    return [int(s) for s in answer]


def _count(starts: Attempt) -> None:
    _windows(starts)


def _unseen(starts: Attempt) -> None:
    last = max(_windows(starts))
    expect(last + 64 <= 400, f"{starts.last} has a window that begins at {last}, and so sees position {last + 63}")


def _finds(starts: Attempt, first: int, last: int) -> None:
    with torch.enable_grad():
        A = _fitted(_windows(starts))
    code = sinusoidal(torch.arange(last).double(), 64)
    i, j = torch.arange(first, last), torch.arange(last)
    looks = (code[first:] @ A @ code.T).masked_fill(j > i[:, None], -math.inf).argmax(-1)
    wrong = (looks != i - 3).nonzero()[:, 0]
    if len(wrong):
        n = int(wrong[0])
        message = f"trained on windows from {starts.last}, query {first + n}"
        raise CounterExample(f"{message} looks at {int(looks[n])}")


def _fitted(starts: list[int]) -> Tensor:
    """The matrix by which i attends to i - 3, on windows of 64."""
    code = sinusoidal(torch.arange(max(starts) + 64).double(), 64)
    hidden = torch.ones(61, 64, dtype=torch.bool).triu(4)
    A = torch.zeros(64, 64, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([A], lr=0.03)
    for s in starts:
        logits = (code[s + 3 : s + 64] @ A @ code[s : s + 64].T).masked_fill(hidden, -math.inf)
        optimiser.zero_grad()
        cross_entropy(logits, torch.arange(61)).backward()
        optimiser.step()
    return A.detach()


EXERCISES = {
    "sinusoidal_encoding": [
        ("the code of position 0 is 0, 1, 0, 1, …", _at_zero),
        ("each pair of channels is a point of the unit circle", _on_circles),
        ("from one position to the next, pair t rotates by 10000^(-2t/dim)", _even_steps),
        ("a code depends on its own position and on nothing else", _each_alone),
    ],
    "sinusoidal_march": [
        ("there are as many rows as asked for, and the first is the start", _begins),
        ("each pair keeps its length", _keeps_norms),
        ("from row to row, each pair rotates by its own frequency", _turns),
        ("there is one sine and one cosine for each frequency, however long the table", _few_sines),
    ],
    "sinusoidal_starts": [
        ("there are 200 windows, and none begins before 0", _count),
        ("no window reaches position 400", _unseen),
        ("queries 3 to 63 look 3 back", lambda starts: _finds(starts, 3, 64)),
        ("queries 64 to 127 look 3 back", lambda starts: _finds(starts, 64, 128)),
        ("queries 400 to 463 look 3 back", lambda starts: _finds(starts, 400, 464)),
    ],
}
