"""Exercises of the chapter on extrapolation."""

import torch
from torch import Tensor, nn

from posenc.exercises.attempt import Attempt, expect

CASES = [(40, 16, 4), (40, 16, 16), (12, 16, 4), (16, 16, 1), (37, 16, 4)]


class Remembers(nn.Module):
    """A model whose loss on a token is 1 + 1/c nats, if it has c tokens in view."""

    def __init__(self) -> None:
        super().__init__()
        self.widest = 0

    def forward(self, tokens: Tensor) -> Tensor:
        self.widest = max(self.widest, tokens.shape[1])
        c = torch.arange(1, tokens.shape[1] + 1, dtype=torch.float64)
        logit = -(1 + 1 / c).expm1().log()  # of the right one of two tokens
        return torch.stack([logit, 0 * logit], -1).expand(len(tokens), -1, -1)


def _seen(slide: Attempt, tokens: int, window: int, stride: int) -> tuple[list[int], str]:
    """How many tokens were in view for each, and which case it is."""
    text = torch.zeros(tokens + 1, dtype=torch.long)
    loss = slide.tensor(Remembers(), text, window, stride, shape=(tokens,))
    seen = (1 / (loss - 1)).round()
    case = f"{tokens} tokens, a window of {window}, a stride of {stride}"
    expect(seen.isfinite().all() and (seen >= 1).all(), f"{case}: a number that is no loss of the model")
    return [int(n) for n in seen], case


def _once(slide: Attempt) -> None:
    for case in CASES:
        _seen(slide, *case)


def _fits(slide: Attempt) -> None:
    for tokens, window, stride in CASES:
        model, text = Remembers(), torch.zeros(tokens + 1, dtype=torch.long)
        slide(model, text, window, stride)
        case = f"{tokens} tokens, a window of {window}, a stride of {stride}"
        expect(model.widest <= window, f"{case}: the model is given {model.widest} tokens at once")


def _at_first(slide: Attempt) -> None:
    for tokens, window, stride in CASES:
        seen, case = _seen(slide, tokens, window, stride)
        for n, one in enumerate(seen[:window]):
            expect(one == n + 1, f"{case}: token {n} is scored with {one} in view, and {n + 1} are there")


def _later(slide: Attempt) -> None:
    for tokens, window, stride in CASES:
        seen, case = _seen(slide, tokens, window, stride)
        for n, one in list(enumerate(seen))[window:]:
            expect(one > window - stride, f"{case}: token {n} is scored with {one} in view")


EXERCISES = {
    "extrapolation_slide": [
        ("each token is scored once", _once),
        ("the model is never given more than the window", _fits),
        ("as long as all tokens so far fit into the window, all are in view", _at_first),
        ("afterwards, at least window - stride + 1 are in view", _later),
    ],
}
