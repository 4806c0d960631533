"""Exercises of the chapter on decoding."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from posenc._attention.call import attention
from posenc._attention.encoding import Encoding
from posenc.exercises.attempt import Attempt, draw, expect
from posenc.schemes.alibi import ALiBi
from posenc.schemes.rope import RoPE
from posenc.transformer.model import Transformer


class Counted(RoPE):
    """RoPE that counts the keys it has rotated."""

    keys = 0

    def key(self, k: Tensor, pos: Tensor, waves: Any = None) -> Tensor:
        self.keys += k.shape[2]
        return super().key(k, pos, waves)


def _decoded(decode: Attempt, encoding: Encoding, chunks: list[int]) -> None:
    q, k, v = draw(3, 1, 2, sum(chunks), 8)
    pos = torch.arange(sum(chunks))
    whole = attention(q, k, v, encoding, pos)
    answer = decode.tensor(q, k, v, encoding, chunks, shape=v.shape)
    wrong = ((answer - whole).abs().amax((0, 1, 3)) > 1e-4).nonzero()[:, 0].tolist()
    first = f", the first at position {wrong[0]}" if wrong else ""
    name = type(encoding).__name__
    message = f"{name}, chunks of {', '.join(map(str, chunks))}: {len(wrong)} of {sum(chunks)} outputs"
    expect(not wrong, f"{message} differ from one pass{first}")


def _every_scheme(decode: Attempt, *chunkings: list[int]) -> None:
    for chunks in chunkings:
        for encoding in (Encoding(), ALiBi(2), RoPE(8)):
            _decoded(decode, encoding, chunks)


def _no_key_twice(decode: Attempt) -> None:
    for chunks in ([1] * 9, [4, 1, 1, 3]):
        encoding, (q, k, v) = Counted(8), draw(3, 1, 2, 9, 8)
        decode(q, k, v, encoding, chunks)
        message = f"chunks of {', '.join(map(str, chunks))}: {encoding.keys} keys are rotated for 9 tokens"
        expect(encoding.keys == 9, message)


def _model() -> Transformer:
    torch.manual_seed(0)
    sizes: dict[str, Any] = dict(layers=2, model_dim=32, heads=4, kv_heads=2, length=96, tied=False)
    return Transformer(50, encoding="rope", **sizes).double().requires_grad_(False)


@cache
def _models() -> tuple[Transformer, Transformer, Tensor, Tensor]:
    """A model, one that is nearly the same, a prompt, and what the first writes after it."""
    model, draft, prompt = _model(), _model(), torch.randint(50, (1, 8), generator=torch.Generator().manual_seed(0))
    for n, weight in enumerate(draft.parameters()):
        weight.add_(draw(*weight.shape, seed=n) * weight.std() * 0.15)
    return model, draft, prompt, model.generate(prompt, 30)


def _speculated(speculate: Attempt, width: int, own: bool = False) -> tuple[Tensor, Tensor]:
    model, draft, prompt, expected = _models()
    return speculate.whole(model, model if own else draft, prompt, 30, width, shape=expected.shape), expected


def _as_many(speculate: Attempt) -> None:
    _, _, prompt, _ = _models()
    for width in (1, 3, 5):
        answer, _ = _speculated(speculate, width)
        expect(torch.equal(answer[:, :8], prompt), f"{speculate.last} does not begin with the prompt")


def _its_own(speculate: Attempt, own: bool) -> None:
    for width in (1, 3, 5):
        answer, expected = _speculated(speculate, width, own)
        same = int((answer == expected)[0].int().cumprod(0).sum()) - 8
        expect(same == 30, f"guessing {width} at a time, only the first {same} of 30 tokens are the model's own")


def _not_again(speculate: Attempt) -> None:
    model, draft, prompt, _ = _models()
    read: list[int] = []
    hook = (
        model.blocks[0]
        .get_submodule("key")
        .register_forward_hook(lambda layer, inputs, keys: read.append(keys.shape[1]))
    )
    try:
        for width in (3, 5):
            read.clear()
            speculate(model, draft, prompt, 30, width)
            # a pass reads what it has not read, which is at most `width` guesses and one token more
            most = prompt.shape[1] + (width + 1) * len(read)
            message = f"guessing {width} at a time, the model reads {sum(read)} tokens in {len(read)} passes"
            expect(sum(read) <= most, f"{message}, the largest of {max(read)}")
    finally:
        hook.remove()


EXERCISES = {
    "decoding_chunks": [
        ("one chunk is one pass", lambda decode: _every_scheme(decode, [6])),
        ("token by token, the outputs are those of one pass", lambda decode: _every_scheme(decode, [1] * 6)),
        ("so they are in chunks of any size", lambda decode: _every_scheme(decode, [2, 2, 2], [5, 1, 3], [1, 4])),
        ("no key is made twice", _no_key_twice),
    ],
    "decoding_speculate": [
        ("it returns the prompt and as many tokens as asked for", _as_many),
        ("if every guess is right, the text is the model's own", lambda speculate: _its_own(speculate, True)),
        ("if guesses are wrong, the text is still the model's own", lambda speculate: _its_own(speculate, False)),
        ("no token is read again that the cache holds", _not_again),
    ],
}
