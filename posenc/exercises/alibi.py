"""Exercises of the chapter on ALiBi."""

import torch

from posenc.exercises.attempt import Attempt, close, draw, expect
from posenc.schemes.alibi import alibi_slopes


def _one_each(slopes: Attempt) -> None:
    for heads in range(1, 65):
        answer = slopes.tensor(heads, shape=(heads,))
        expect((answer > 0).all(), f"{slopes.last} has a slope that is not positive: {answer.min().item():.4g}")
        expect(len(answer.unique()) == heads, f"{slopes.last} has a slope twice")


def _geometric(slopes: Attempt) -> None:
    for heads in (2, 4, 8, 16, 32, 64):
        ratio = slopes.tensor(heads)[1:] / slopes.tensor(heads)[:-1]
        expect(
            close(ratio, ratio[:1].expand(len(ratio))),
            f"{slopes.last}: ratios from {ratio.min():.4f} to {ratio.max():.4f}",
        )


def _gentlest(slopes: Attempt) -> None:
    for heads in (1, 2, 4, 8, 16, 32, 64):
        last = slopes.tensor(heads)[-1].item()
        expect(abs(last * 256 - 1) < 1e-6, f"the last of {slopes.last} is {last:.5f}")


def _first_is_ratio(slopes: Attempt) -> None:
    for heads in (2, 4, 8, 16, 32):
        answer = slopes.tensor(heads)
        expect(close(answer[1] / answer[0], answer[0]), f"{slopes.last} begins with {answer[0]:.4f}, {answer[1]:.4f}")


def _between(slopes: Attempt) -> None:
    for heads in (3, 5, 6, 7, 12, 20, 24, 40, 48, 112):
        power = 2 ** (heads.bit_length() - 1)
        answer, few, many = slopes.tensor(heads), slopes.tensor(power), slopes.tensor(2 * power)
        expect(
            close(answer[:power], few), f"the first {power} of {slopes.name}({heads}) are not {slopes.name}({power})"
        )
        for m in answer[power:]:
            expect(
                ((many - m).abs() < 1e-7).any(),
                f"{slopes.name}({heads}) has {m:.5f}, {slopes.name}({2 * power}) has not",
            )
        missed = f"{slopes.name}({heads}) leaves out one of the steepest slopes between those of {power} heads"
        expect(close(answer[power:].sort().values, many[0::2][: heads - power].sort().values), missed)


def _offsets(sides: Attempt) -> None:
    made, (q, k, v), pos = sides.encoding(4), draw(3, 1, 4, 12, 8), torch.arange(12)
    there, moved = (sides.attend(made, q, k, v, p, p, causal=False) for p in (pos, pos + 50))
    expect(close(there, moved, 1e-4), f"with {sides.last}, tokens at 0 to 11 and at 50 to 61 have other outputs")


def _costs(sides: Attempt, side: int, share: float) -> None:
    for heads in (1, 4, 6):
        made, pos, slope = sides.encoding(heads), torch.arange(11), alibi_slopes(heads)
        silent = torch.zeros(1, heads, 11, 8, dtype=torch.float64)
        logit = sides.weights(made, silent, silent, pos, pos, causal=False)[0, :, 5].log()
        for h in range(heads):
            for n in (1, 2, 5):
                cost = ((logit[h, 5] - logit[h, 5 + side * n]) / slope[h]).item()
                key = f"a key {n} to the {'left' if side < 0 else 'right'}"
                message = f"with {sides.last}, {key} costs {cost:.2f} times the slope of head {h}"
                expect(abs(cost - share * n) < 1e-3, message)


EXERCISES = {
    "alibi_slopes": [
        ("there is a slope for each head, positive, and no two are equal", _one_each),
        ("for a power of two, each slope is the one before it times a constant", _geometric),
        ("for a power of two, the last slope is 1/256", _gentlest),
        ("for a power of two, the first slope equals that constant", _first_is_ratio),
        (
            "for other numbers, as in checkpoints, those of the power below come first, then the steepest between",
            _between,
        ),
    ],
    "alibi_sides": [
        ("moving the text changes nothing", _offsets),
        ("on the left, each position costs the slope, as in ALiBi", lambda sides: _costs(sides, -1, 1.0)),
        ("on the right, each position costs half of it", lambda sides: _costs(sides, 1, 0.5)),
    ],
}
