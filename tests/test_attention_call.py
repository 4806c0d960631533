"""posenc.attention, the one call: it turns, caches, hides and attends."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from posenc import (
    ENCODINGS,
    Encoding,
    KVCache,
    NoPE,
    RoPE,
    attend,
    attention,
    attention_scores,
    attention_weights,
    frequencies,
    sliding_window,
)  # fmt: skip
from posenc.schemes.scaling import dynamic_ntk
from tests.helpers import close

BATCH, HEADS, DIM, LENGTH = 2, 2, 8, 10
POS = torch.arange(LENGTH)
LEFT = torch.tensor([[False] * 3 + [True] * 7, [True] * 10])  # padding of the first sequence
every = pytest.mark.parametrize("name", ENCODINGS)
embedded = partial(attention, embedded=True)  # of any encoding: what enters by the input has entered


def make(name: str) -> Encoding:
    encoding = ENCODINGS[name](model_dim=HEADS * DIM, heads=HEADS, head_dim=DIM, length=LENGTH).double()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding.requires_grad_(False)


def draw(kv_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(BATCH, h, LENGTH, DIM, dtype=torch.float64) for h in (HEADS, kv_heads, kv_heads))


@every
@pytest.mark.parametrize("causal", [True, False])
def test_one_call_is_the_two_steps(name, causal):
    encoding, (q, k, v) = make(name), draw()
    mask = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.8
    turned = encoding.query(q, POS), encoding.key(k, POS), v
    expected = attend(*turned, encoding, POS, POS, causal=causal, mask=mask, scale=0.3)
    close(embedded(q, k, v, encoding, POS, causal=causal, mask=mask, scale=0.3), expected)
    close(embedded(q, k, v, encoding, POS, POS, causal=causal, mask=mask, scale=0.3), expected)


@every
def test_vectors_as_projected_are_not_taken_for_turned_ones(name):
    encoding, (q, k, v) = make(name), draw()
    if set(encoding.doors) <= {"embed"}:
        pytest.skip("position is in the tokens, or nowhere")
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
    for backend in ("sdpa", "flex"):
        with pytest.raises(ValueError, match='use backend="dense"'):
            attention(q, k, v, NoPE(), POS, backend=backend, return_weights=True)


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


# Arguments of another kind


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_an_encoding_of_the_input_wants_to_hear_that_the_input_was_embedded(name):
    encoding, (q, k, v) = make(name), draw()
    with pytest.raises(ValueError, match=r"embed.*x = encoding\.embed\(x, pos\).*embedded=True.*NoPE\(\)"):
        attention(q, k, v, encoding, POS)
    close(embedded(q, k, v, encoding, POS), attention(q, k, v, NoPE(), POS))
    encoding.score_bias = lambda q, k, qpos, kpos: lambda b, h, i, j: 0.0 * b  # one of several doors
    with pytest.raises(ValueError, match="embedded=True"):
        attention(q, k, v, encoding, POS)


@pytest.mark.parametrize(("change", "said"), [
    (dict(encoding=POS, qpos=RoPE(DIM)), r"encoding is a tensor of shape \(10,\).* q, k, v, encoding, qpos"),
    (dict(encoding="rope"), r"encoding is 'rope'.*ENCODINGS\['rope'\]\("),
    (dict(encoding=RoPE), r"encoding is the class RoPE.*RoPE\(\.\.\.\)"),
    (dict(encoding=None), r"encoding is None.*NoPE\(\) for none"),
    (dict(encoding=ENCODINGS["rope"]), r"encoding is a function.*RoPE\(head_dim\)"),
    (dict(qpos=range(LENGTH)), r"qpos is a range.*torch\.arange"),
    (dict(qpos=POS.tolist()), r"qpos is a list.*torch\.tensor"),
    (dict(qpos=POS.numpy()), r"qpos is a ndarray.*torch\.tensor"),
    (dict(kpos=range(LENGTH)), r"kpos is a range.*torch\.arange"),
    (dict(q=[1.0]), r"q is a list.*\(B, H, L, d\)"),
    (dict(v=torch.ones(BATCH, HEADS, LENGTH, DIM).numpy()), r"v is a ndarray.*torch\.as_tensor"),
    (dict(mask=True), r"mask is True.*causal=True"),
    (dict(padding_mask=[True] * LENGTH), r"padding_mask is a list.*bool"),
    (dict(cache=[KVCache()]), r"cache is a list of 1.*cache\[0\]"),
])  # fmt: skip
def test_an_argument_of_another_kind_is_named_with_the_remedy(change, said):
    q, k, v = draw()
    given = dict(q=q, k=k, v=v, encoding=RoPE(DIM), qpos=POS, kpos=POS) | change
    with pytest.raises(TypeError, match=said):
        attention(**given)
    if not {"padding_mask", "cache"} & set(change):
        with pytest.raises(TypeError, match=said):
            attend(**given)
    if not {"padding_mask", "cache", "v"} & set(change):
        del given["v"]
        with pytest.raises(TypeError, match=said):
            attention_weights(**given)
        if "mask" not in change:
            with pytest.raises(TypeError, match=said):
                attention_scores(**given)


@pytest.mark.parametrize("pos", [range(3), [0, 1, 2], 3])
def test_positions_that_are_no_tensor_are_refused_by_encodings(pos):
    for call in (
        lambda: RoPE(4).query(torch.ones(1, 1, 3, 4), pos),
        lambda: make("sinusoidal").embed(torch.ones(1, 3, 16), pos),
    ):
        with pytest.raises(TypeError, match=r"pos is .*torch\.arange"):
            call()


# Autocast


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["nope", "alibi", "shaw", "transformer_xl", "distance_aware"])
def test_autocast_rounds_no_scores_and_changes_no_dtype(name, dtype, backend):
    encoding, (q, k, v) = make(name).float(), (4 * x.to(dtype) for x in draw())
    if backend == "sdpa" and {"rescale", "mix"} & set(encoding.doors):
        pytest.skip("sdpa does not serve it")
    exact, scores = attention(q, k, v, encoding, POS), attention_scores(q, k, encoding, POS, POS)
    with torch.autocast("cpu", torch.bfloat16):
        z = attention(q, k, v, encoding, POS, backend=backend)
        found = attention_scores(q, k, encoding, POS, POS)
        weights = attention_weights(q, k, encoding, POS, POS)
    assert z.dtype == dtype
    assert found.dtype == weights.dtype == torch.float32
    if encoding.score_bias is None or name == "alibi":  # other biases are products of their own
        close(found, scores, atol=1e-6)
    rounded = backend == "sdpa" or name == "transformer_xl"  # a kernel's inputs, or a bias
    assert (z.double() - exact.double()).abs().max() < (0.5 if rounded else 0.05)


def test_without_an_encoding_it_is_torch_s_own():
    q, k, v = draw()
    close(attention(q, k, v, NoPE(), POS), scaled_dot_product_attention(q, k, v, is_causal=True))
    close(attention(q, k, v, NoPE(), POS, causal=False), scaled_dot_product_attention(q, k, v))


@every
def test_positions_without_a_sign_are_those_with_one(name):
    encoding, (q, k, v) = make(name), draw()
    close(embedded(q, k, v, encoding, POS.to(torch.uint8)), embedded(q, k, v, encoding, POS))
