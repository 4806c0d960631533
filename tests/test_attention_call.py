"""posenc.attention, the one call: it turns, caches, hides and attends, and layers may share their masks."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from posenc import (
    ENCODINGS,
    ALiBi,
    Encoding,
    KVCache,
    Masks,
    NoPE,
    RoPE,
    Transformer,
    attend,
    attention,
    attention_scores,
    attention_weights,
    frequencies,
    sliding_window,
)  # fmt: skip
from posenc import attention as one_call
from posenc.scaling import dynamic_ntk

BATCH, HEADS, DIM, LENGTH = 2, 2, 8, 10
POS = torch.arange(LENGTH)
LEFT = torch.tensor([[False] * 3 + [True] * 7, [True] * 10])  # padding of the first sequence
IN_HEADS = [name for name in ENCODINGS if name not in ("nope", "sinusoidal", "learned")]
every = pytest.mark.parametrize("name", ENCODINGS)
embedded = partial(attention, embedded=True)  # of any encoding: what enters by the input has entered


def make(name: str) -> Encoding:
    encoding = ENCODINGS[name](model_dim=HEADS * DIM, heads=HEADS, head_dim=DIM, length=LENGTH).double()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding.requires_grad_(False)


def draw(kv_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(BATCH, h, LENGTH, DIM, dtype=torch.float64) for h in (HEADS, kv_heads, kv_heads))


def close(found: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


@every
@pytest.mark.parametrize("causal", [True, False])
def test_one_call_is_the_two_steps(name, causal):
    encoding, (q, k, v) = make(name), draw()
    mask = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.8
    turned = encoding.query(q, POS), encoding.key(k, POS), v
    expected = attend(*turned, encoding, POS, POS, causal=causal, mask=mask, scale=0.3)
    close(embedded(q, k, v, encoding, POS, causal=causal, mask=mask, scale=0.3), expected)
    close(embedded(q, k, v, encoding, POS, POS, causal=causal, mask=mask, scale=0.3), expected)


@pytest.mark.parametrize("name", IN_HEADS)
def test_vectors_as_projected_are_not_taken_for_turned_ones(name):
    encoding, (q, k, v) = make(name), draw()
    assert (attention(q, k, v, encoding, POS) - attention(q, k, v, NoPE(), POS)).abs().max() > 1e-2


@every
@pytest.mark.parametrize("chunks", [[1] * LENGTH, [4, 1, 3, 2]])
@pytest.mark.parametrize("window", [None, (3, 0), (3, 2)])
def test_a_cache_gives_what_the_full_pass_gives(name, chunks, window):
    encoding, (q, k, v) = make(name), draw()
    cache, parts, start = KVCache(*window) if window else KVCache(), [], 0
    for size in chunks:
        at = slice(start, start := start + size)
        parts.append(embedded(q[:, :, at], k[:, :, at], v[:, :, at], encoding, POS[at], cache=cache))
    mask = sliding_window(POS, POS, *window) if window else None
    close(torch.cat(parts, 2), embedded(q, k, v, encoding, POS, mask=mask))


def test_keys_that_depend_on_the_length_are_kept_as_projected():
    rope = RoPE(DIM, freq=lambda length: dynamic_ntk(frequencies(DIM, dtype=torch.float64), length, 4))
    (q, k, v), cache = draw(), KVCache()
    for t in range(LENGTH):
        at, so_far = slice(t, t + 1), slice(0, t + 1)
        step = attention(q[:, :, at], k[:, :, at], v[:, :, at], rope, POS[at], cache=cache)
        full = attention(q[:, :, so_far], k[:, :, so_far], v[:, :, so_far], rope, POS[so_far])
        close(step, full[:, :, -1:])


@every
@pytest.mark.parametrize("chunks", [None, [1] * LENGTH, [5, 2, 3]])
@pytest.mark.parametrize("window", [None, (3, 1)])
def test_padding_is_hidden_also_in_a_cache(name, chunks, window):
    encoding, (q, k, v) = make(name), draw()
    pos = (LEFT.cumsum(-1) - 1).clamp(min=0)
    if chunks is None:
        near = sliding_window(pos, pos, *window) if window else None
        found = embedded(q, k, v, encoding, pos, mask=near, padding_mask=LEFT)
    else:
        cache, parts, start = KVCache(*window) if window else KVCache(), [], 0
        for size in chunks:
            at = slice(start, start := start + size)
            new = q[:, :, at], k[:, :, at], v[:, :, at]
            parts.append(embedded(*new, encoding, pos[:, at], padding_mask=LEFT[:, at], cache=cache))
        found = torch.cat(parts, 2)
    for n, pad in enumerate((3, 0)):
        own, places = [x[n : n + 1, :, pad:] for x in (q, k, v)], POS[: LENGTH - pad]
        mask = sliding_window(places, places, *window) if window else None
        close(found[n : n + 1, :, pad:], embedded(*own, encoding, places, mask=mask))


def test_padding_after_real_tokens_is_refused_by_a_window():
    q, k, v = draw()
    with pytest.raises(ValueError, match="pad on the left"):
        attention(q, k, v, NoPE(), POS, padding_mask=LEFT.flip(1), cache=KVCache(3))


@pytest.mark.parametrize("mask", [LEFT[:, 1:], LEFT.int(), LEFT[:, None]])
def test_a_padding_mask_that_does_not_fit_is_refused(mask):
    with pytest.raises(ValueError, match=r"padding_mask .* True for real tokens"):
        attention(*draw(), NoPE(), POS, padding_mask=mask)


def test_scores_are_what_weights_are_the_softmax_of():
    alibi, (q, k, _) = make("alibi"), draw(kv_heads=1)
    scores = attention_scores(q, k, alibi, POS, POS, scale=0.7)
    future = POS[None, :] > POS[:, None]
    expected = scores.masked_fill(future, -torch.inf).softmax(-1)
    close(attention_weights(q, k, alibi, POS, POS, scale=0.7), expected)
    close(scores[1, 1, 4, 2], q[1, 1, 4] @ k[1, 0, 2] * 0.7 - 2 * alibi.slope[1])


@every
def test_weights_are_returned_beside_the_output(name):
    encoding, (q, k, v) = make(name), draw()
    z, weights = embedded(q, k, v, encoding, POS, return_weights=True)
    close(z, embedded(q, k, v, encoding, POS))
    close(weights, attention_weights(encoding.query(q, POS), encoding.key(k, POS), encoding, POS, POS))
    with pytest.raises(ValueError, match='use backend="dense"'):
        attention(q, k, v, NoPE(), POS, backend="sdpa", return_weights=True)


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_dropout_drops_weights_and_keeps_the_mean(backend):
    q, k = torch.zeros(2, 1, 1, 1, 4)
    v, pos = torch.ones(1, 1, 1, 1).expand(1, 1, 400, 1), torch.arange(400)
    k = k.expand(1, 1, 400, 4)
    found = torch.cat([
        attention(q, k, v, NoPE(), pos[-1:], pos, dropout=0.75, backend=backend).flatten() for _ in range(200)
    ])  # fmt: skip
    assert found.std() > 0.05  # a mean of 400 weights of 0 or 4: a deviation of 0.087
    assert found.mean() == pytest.approx(1.0, abs=0.03)
    assert attention(q, k, v, NoPE(), pos[-1:], pos, backend=backend).item() == pytest.approx(1.0)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_a_share_to_drop_that_is_none_is_refused(dropout):
    with pytest.raises(ValueError, match=r"dropout .* 0 or more and below 1"):
        attention(*draw(), NoPE(), POS, dropout=dropout)


def test_flex_refuses_dropout():
    with pytest.raises(ValueError, match="dropout"):
        attention(*draw(), NoPE(), POS, dropout=0.5, backend="flex")


# Layers of one pass


@pytest.mark.parametrize(("backend", "part"), [("flex", "_block_mask"), ("sdpa", "_is_triangle")])
def test_a_pass_looks_at_positions_once_for_all_layers(backend, part, monkeypatch):
    import sys

    module = sys.modules[one_call.__module__]
    asked, inner = [], getattr(module, part)
    monkeypatch.setattr(module, part, lambda *args: asked.append(part) or inner(*args))
    model = Transformer(11, layers=3, model_dim=16, heads=2, encoding="rope", backend=backend).requires_grad_(False)
    tokens = torch.randint(11, (2, 6))
    found = model(tokens)
    assert asked == [part]
    model(tokens)
    assert asked == [part] * 2  # another pass looks again
    dense = Transformer(11, layers=3, model_dim=16, heads=2, encoding="rope").requires_grad_(False)
    dense.load_state_dict(model.state_dict())
    close(found, dense(tokens), atol=1e-5)


def test_layers_that_share_masks_compute_what_they_compute_alone():
    mask, masks = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.6, Masks()
    for encoding in (ALiBi(HEADS).double(), NoPE(), make("rope"), make("shaw")):
        q, k, v = draw()
        close(attention(q, k, v, encoding, POS, mask=mask, masks=masks), attention(q, k, v, encoding, POS, mask=mask))


def test_flex_uses_the_block_mask_that_is_given():
    from torch.nn.attention.flex_attention import create_block_mask

    q, k, v = draw()
    near = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 3), None, None, LENGTH, LENGTH, device="cpu")
    found = attention(q, k, v, NoPE(), POS, backend="flex", masks=Masks(block_mask=near))
    close(found, attention(q, k, v, NoPE(), POS, mask=sliding_window(POS, POS, 3)))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_layers_after_the_first_do_not_wait_for_the_gpu(backend):
    q, k, v = (x.cuda() for x in draw())
    rope, pos, masks = make("rope").cuda(), POS.cuda(), Masks()
    first = attention(q, k, v, rope, pos, backend=backend, masks=masks)
    torch.cuda.set_sync_debug_mode("error")
    try:
        again = attention(q, k, v, rope, pos, backend=backend, masks=masks)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(again, first)


def test_without_an_encoding_it_is_torch_s_own():
    q, k, v = draw()
    close(attention(q, k, v, NoPE(), POS), scaled_dot_product_attention(q, k, v, is_causal=True))
    close(attention(q, k, v, NoPE(), POS, causal=False), scaled_dot_product_attention(q, k, v))


@every
def test_positions_without_a_sign_are_those_with_one(name):
    encoding, (q, k, v) = make(name), draw()
    close(embedded(q, k, v, encoding, POS.to(torch.uint8)), embedded(q, k, v, encoding, POS))
