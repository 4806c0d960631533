"""posenc.attention, the one call: it turns, caches, hides and attends, and layers may share their masks."""

import sys
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
from posenc.schemes.scaling import dynamic_ntk

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


OTHERS = {  # of a second layer, and what it is that differs
    "positions": (dict(qpos=POS + 1), "qpos holds other values"),
    "fewer positions": (dict(qpos=POS[:1]), r"qpos is a tensor of shape \(1,\), and .* \(10,\)"),
    "positions of keys": (dict(kpos=POS.flip(0)), "kpos holds other values"),
    "dtype of positions": (dict(qpos=POS.int(), kpos=POS), "qpos holds other values .*int32"),
    "causal": (dict(causal=False), "causal is False, and the first layer's was True"),
    "mask": (dict(mask=torch.ones(LENGTH, LENGTH, dtype=torch.bool)), "mask is a tensor .* was None"),
    "padding": (dict(padding_mask=LEFT), "padding_mask is a tensor .* was None"),
    "window": (dict(cache=(3, 0)), "window is 3, and the first layer's was None"),
    "batch": (dict(batch=1), "batch is 1, and the first layer's was 2"),
}


def layer(masks: Masks, backend: str = "dense", cache: tuple[int, int] | None = None, batch: int = BATCH, **options):
    q, k, v = draw()
    at = {"qpos": POS} | options
    q, n = q[:batch, :, : len(at["qpos"])], len(at.get("kpos", at["qpos"]))
    cache = None if cache is None else KVCache(*cache)
    return attention(q, k[:batch, :, :n], v[:batch, :, :n], NoPE(), backend=backend, masks=masks, cache=cache, **at)


@pytest.mark.parametrize("backend", ["dense", "sdpa", "flex"])
@pytest.mark.parametrize("other", OTHERS)
def test_masks_refuse_a_layer_that_comes_with_something_else(other, backend):
    options, said = OTHERS[other]
    masks = Masks()
    layer(masks, backend)
    with pytest.raises(ValueError, match=rf"{said}(.|\n)*Make a new Masks\(\) for each pass"):
        layer(masks, backend, **options)
    layer(Masks(), backend, **options)  # by itself it's fine


@pytest.mark.parametrize(("other", "said"), [((4, 2), "window is 4"), ((3, 1), "sinks is 1")])
def test_masks_refuse_another_window(other, said):
    masks = Masks()
    layer(masks, cache=(3, 2))
    with pytest.raises(ValueError, match=said):
        layer(masks, cache=other)


def test_masks_refuse_positions_that_were_changed_in_place():
    masks, pos = Masks(), POS.clone()
    layer(masks, qpos=pos)
    pos += 5
    with pytest.raises(ValueError, match=r"qpos was changed in place"):
        layer(masks, qpos=pos)


def test_masks_know_copies_and_the_inner_half():
    masks, (q, k, v) = Masks(), draw()
    expected = attention(q, k, v, NoPE(), POS)
    for found in (
        attention(q, k, v, NoPE(), POS, masks=masks),
        attention(q, k, v, NoPE(), POS.clone(), POS.clone(), masks=masks),
        attend(q, k, v, NoPE(), POS, POS, masks=masks),
    ):
        close(found, expected)
    for half in (attend, lambda q, k, v, *rest, **options: attention_weights(q, k, *rest, **options)):
        with pytest.raises(ValueError, match="kpos holds other values"):
            half(q, k, v, NoPE(), POS, POS + 1, masks=masks)


def test_encodings_dtypes_and_backends_may_differ_among_layers_that_share_masks():
    """What is kept does not depend on them: a bias is made for each layer."""
    masks, (q, k, v) = Masks(), draw()
    for encoding in (NoPE(), ALiBi(HEADS), ALiBi(HEADS, slopes=torch.tensor([0.1, 3.0])), make("t5")):
        for backend in ("dense", "sdpa", "flex"):
            for dtype in (torch.float32, torch.float64):
                x, encoding = [each.to(dtype) for each in (q, k, v)], encoding.to(dtype)
                found = attention(*x, encoding, POS, backend=backend, masks=masks)
                close(found, attention(*x, encoding, POS, backend=backend), atol=1e-6)


@torch.no_grad()
def test_layers_whose_caches_hold_other_tokens_do_not_share(monkeypatch):
    """Neither silently, nor in a model, which gives them masks of their own; and numbers are compared but once."""
    import posenc._attention.cache as module

    compared, inner = [], module.equal
    for owner in (module, sys.modules[one_call.__module__]):
        monkeypatch.setattr(owner, "equal", lambda *args: compared.append(1) or inner(*args))
    (q, k, v), caches = draw(), [KVCache(4), KVCache(4), KVCache(4)]
    for start in range(5):
        masks, now = Masks(), slice(start, start + 1)
        step = (q[:, :, now], k[:, :, now], v[:, :, now], NoPE(), POS[now])
        for cache in caches:
            attention(*step, cache=cache, masks=masks)
    assert not compared  # the same tokens went into all of them
    caches[1].keep(torch.tensor([0, 1, 3]))
    caches[2].keep(torch.tensor([1, 2, 3]))
    caches[0].keep(torch.tensor([1, 2, 3]))
    masks, step = Masks(), (q[:, :, 5:6], k[:, :, 5:6], v[:, :, 5:6], NoPE(), POS[5:6])
    attention(*step, cache=caches[0], masks=masks)
    attention(*step, cache=caches[2], masks=masks)
    with pytest.raises(ValueError, match="cache holds 4 tokens, and not at the positions"):
        attention(*step, cache=caches[1], masks=masks)


@torch.no_grad()
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compile)])
def test_a_model_s_layers_may_keep_other_tokens(compiled):
    """With a window and padding, the mask depends on what a layer's cache holds."""
    model = Transformer(11, layers=3, model_dim=16, heads=2, window=6, sinks=1).double()
    tokens = torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(0))
    real = torch.arange(9) >= torch.tensor([[3], [0]])
    kept = [torch.tensor(keep) for keep in ([0, 1, 3, 4, 5], [0, 2, 3, 4, 5], [0, 1, 3, 4, 5])]

    def after(alone: bool) -> Tensor:
        cache = model.cache()
        model(tokens[:, :6], padding_mask=real[:, :6], cache=cache)
        for layer, index in zip(cache, kept, strict=True):
            layer.keep(index)
        with pytest.MonkeyPatch.context() as patch:
            if alone:  # as if every layer made its own masks
                patch.setattr(Masks, "get", lambda self, name, make: make())
                patch.setattr(Masks, "of", lambda self, *args, **values: self)
                patch.setattr(Masks, "of_cache", lambda self, cache, before, kpos: (self, kpos))
            run = torch.compile(model, backend="aot_eager") if compiled and not alone else model
            return run(tokens[:, 6:], padding_mask=real[:, 6:], cache=cache)

    close(after(alone=False), after(alone=True))


@pytest.mark.compile
@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_a_compiler_shares_masks_of_one_tensor_and_refuses_what_differs(backend):
    q, k, v = (x.float() for x in draw())
    mask = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.8

    def two(q, k, v, pos, mask, causal, copy):
        masks, at = Masks(), pos
        for n in range(2):
            q = attention(q, k, v, NoPE(), at, causal=causal[n], mask=mask, backend=backend, masks=masks)
            at = pos.clone() if copy else pos
        return q

    for copy in (False, True):
        same = (True, True)
        found = torch.compile(two, backend="aot_eager", fullgraph=True)(q, k, v, POS, mask, same, copy)
        close(found, two(q, k, v, POS, mask, same, copy), atol=1e-6)
    with pytest.raises(Exception, match="Make a new Masks"):
        torch.compile(two, backend="aot_eager")(q, k, v, POS, mask, (True, False), False)


@pytest.mark.parametrize("batched", [False, True])
def test_masks_are_shared_under_vmap(batched):
    q, k, v = (torch.stack([x, x + 1]) for x in draw())
    pos = torch.stack([POS, POS + 3])

    def two(q, k, v, pos, masks=None):
        for at in (pos, pos, pos.flip(0) if batched else pos):  # what cannot be compared is not shared
            q = attention(q, k, v, NoPE(), at, masks=masks)
        return q

    over = (0, 0, 0, 0 if batched else None)
    found = torch.func.vmap(partial(two, masks=Masks()), over)(q, k, v, pos if batched else pos[0])
    close(found, torch.stack([two(q[n], k[n], v[n], pos[n if batched else 0]) for n in range(2)]), atol=1e-6)


@pytest.mark.export
def test_masks_are_shared_in_an_exported_graph():
    class Two(torch.nn.Module):
        def forward(self, q, k, v, pos):
            masks = Masks()
            for _ in range(2):
                q = attention(q, k, v, NoPE(), pos, masks=masks)
            return q

    length = torch.export.Dim("length", min=2)
    shapes = ({2: length}, {2: length}, {2: length}, {0: length})
    graph = torch.export.export(Two(), (*draw(), POS), dynamic_shapes=shapes)
    shorter = (*(x[:, :, :7] for x in draw()), POS[:7])
    close(graph.module()(*shorter), Two()(*shorter))
    compared = [node for node in graph.graph.nodes if node.target is torch.ops.aten.le.Tensor]
    assert len(compared) == 1  # positions are compared once for both layers


def test_a_block_mask_that_would_be_left_aside_is_refused():
    from torch.nn.attention.flex_attention import create_block_mask

    near = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 3), None, None, LENGTH, LENGTH, device="cpu")
    for options in (dict(backend="dense"), dict(backend="sdpa"), dict(backend="flex", mask=LEFT[:, None, None])):
        with pytest.raises(ValueError, match=r"block_mask.* use backend=.flex. without mask"):
            attention(*draw(), NoPE(), POS, masks=Masks(block_mask=near), **options)


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
    (dict(masks=LEFT), r"masks is a tensor.*mask="),
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
    if not {"padding_mask", "cache", "masks", "v"} & set(change):
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
