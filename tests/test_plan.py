"""posenc.Plan and Span: what layers of a pass share, which query sees which key, and what is refused."""

from dataclasses import FrozenInstanceError
from functools import lru_cache

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from posenc import (
    ENCODINGS,
    ALiBi,
    KVCache,
    NoPE,
    Plan,
    RoPE,
    Span,
    T5Bias,
    Transformer,
    attend,
    attention,
    attention_scores,
    attention_weights,
    frequencies,
    sliding_window,
)
from posenc._attention import plan as module
from posenc.schemes.scaling import dynamic_ntk
from tests.helpers import close

BATCH, HEADS, DIM, LENGTH = 2, 2, 8, 10
POS, WHOLE = torch.arange(LENGTH), Span(0, LENGTH)
LEFT = torch.tensor([[False] * 3 + [True] * 7, [True] * 10])  # padding of the first sequence
BACKENDS = ["auto", "dense", "sdpa", "flex"]


def draw(queries: int = LENGTH, keys: int = LENGTH, batch: int = BATCH) -> tuple[Tensor, ...]:
    return tuple(torch.randn(batch, HEADS, n, DIM, dtype=torch.float64) for n in (queries, keys, keys))


def seen(qpos: Tensor, kpos: Tensor, causal: bool = True, window: int | None = None, sinks: int = 0) -> Tensor:
    """Which query sees which key, one pair at a time."""
    found = torch.zeros(len(qpos), len(kpos), dtype=torch.bool)
    for i, p in enumerate(qpos.tolist()):
        for j, r in enumerate(kpos.tolist()):
            near = window is None or abs(p - r) < window or r < sinks
            found[i, j] = near and (r <= p or not causal)
    return found


# Spans


def test_a_span_is_positions_in_a_row():
    assert Span(3, 4).tensor().tolist() == [3, 4, 5, 6] and Span(3, 4).end == 7
    assert Span(0, 0).tensor().shape == (0,)
    for pos in (torch.arange(3, 7), torch.arange(3, 7, dtype=torch.uint8), torch.arange(3, 7).expand(2, -1)):
        assert Span.of(pos) == Span(3, 4)
    with pytest.raises(FrozenInstanceError):
        Span(3, 4).start = 2


@pytest.mark.parametrize("pos", [[0, 2], [1, 0], [0, 1, 1], [[0, 1], [1, 2]], [0.0, 1.0]])
def test_positions_that_are_no_span_are_not_taken_for_one(pos):
    with pytest.raises(ValueError, match=r"do not follow one another .* pass the tensor itself"):
        Span.of(torch.tensor(pos))


@pytest.mark.parametrize("start", [torch.tensor(3), 1.0, True, "0", None])
def test_a_span_is_made_of_whole_numbers(start):
    with pytest.raises(TypeError, match=r"start is .* Span\.of\(pos\)"):
        Span(start, 2)
    with pytest.raises(TypeError, match="length is"):
        Span(2, start)


def test_a_span_has_no_negative_length():
    with pytest.raises(ValueError, match="length is -1: use how many"):
        Span(0, -1)


# Patterns


PATTERNS = {  # queries, keys, options: the pattern
    "text": (Span(0, 6), Span(0, 6), {}, "triangle"),
    "later": (Span(5, 6), Span(5, 6), {}, "triangle"),
    "step": (Span(7, 1), Span(0, 8), {}, "all"),
    "first": (Span(0, 1), Span(0, 1), {}, "triangle"),
    "chunk": (Span(5, 3), Span(0, 8), {}, "lower right"),
    "past": (Span(9, 3), Span(0, 8), {}, "all"),
    "touching": (Span(7, 3), Span(0, 8), {}, "all"),
    "overlapping": (Span(6, 3), Span(0, 8), {}, "mask"),
    "future": (Span(0, 3), Span(0, 8), {}, "mask"),
    "both ways": (Span(0, 6), Span(0, 6), dict(causal=False), "all"),
    "window": (Span(0, 6), Span(0, 6), dict(window=3), "mask"),
    "wide window": (Span(0, 6), Span(0, 6), dict(window=6), "triangle"),
    "nearly wide window": (Span(0, 6), Span(0, 6), dict(window=5), "mask"),
    "window both ways": (Span(3, 2), Span(0, 8), dict(causal=False, window=5), "all"),
    "narrow both ways": (Span(3, 2), Span(0, 8), dict(causal=False, window=4), "mask"),
    "window of a step": (Span(7, 1), Span(5, 3), dict(window=3), "all"),
    "step beyond a window": (Span(7, 1), Span(4, 4), dict(window=3), "mask"),
    "sinks": (Span(0, 6), Span(0, 6), dict(window=2, sinks=2), "mask"),
    "mask": (Span(0, 6), Span(0, 6), dict(mask=torch.ones(6, 6, dtype=torch.bool)), "mask"),
    "padding": (Span(0, 6), Span(0, 6), dict(padding_mask=torch.ones(2, 6, dtype=torch.bool)), "mask"),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("given", ["spans", "tensors"])
def test_patterns_are_what_loops_see(name, given):
    queries, keys, options, pattern = PATTERNS[name]
    qpos, kpos = queries.tensor(), keys.tensor()
    plan = Plan(queries, keys, **options) if given == "spans" else Plan(qpos, kpos, **options)
    assert plan.pattern == pattern
    plain = {key: value for key, value in options.items() if key in ("causal", "window", "sinks")}
    expected = seen(qpos, kpos, **plain)
    allowed = plan.allowed()
    assert torch.equal(expected, torch.ones_like(expected) if allowed is None else allowed.expand(2, 1, -1, -1)[1, 0])
    q, k, v = draw(queries.length, keys.length)
    z = attend(q, k, v, NoPE(), qpos, kpos, causal=False, mask=expected, backend="dense")
    for backend in BACKENDS:
        close(attend(q, k, v, NoPE(), plan, backend=backend), z)


@pytest.mark.parametrize(("pos", "pattern"), [
    ([0, 3, 7], "triangle"), ([[0, 1, 2], [0, 2, 3]], "triangle"), ([2, 1, 0], "mask"), ([0, 1, 1], "mask"),
    ([[0, 1, 2], [0, 2, 2]], "mask"), ([0.0, 1.0, 2.0], "triangle"),
])  # fmt: skip
def test_positions_that_rise_are_a_triangle_too(pos, pattern):
    pos = torch.tensor(pos)
    assert Plan(pos).pattern == pattern
    assert Plan(pos, pos.clone()).pattern == pattern
    assert Plan(pos, pos + 1).pattern == "mask"


def test_spans_ask_no_device(monkeypatch):
    asking = [(Tensor, name) for name in ("__bool__", "__int__", "item", "tolist")]
    for owner, name in ((torch, "equal"), *asking):
        monkeypatch.setattr(owner, name, lambda *args: pytest.fail("numbers were read"))
    q, k, v = draw()
    for encoding in (NoPE(), RoPE(DIM).double()):
        for plan in (Plan(WHOLE), Plan(WHOLE, causal=False)):
            attention(q, k, v, encoding, plan, backend="sdpa")
    cache = KVCache(4)
    for t in range(6):
        at = slice(t, t + 1)
        attention(q[:, :, at], k[:, :, at], v[:, :, at], NoPE(), Span(t, 1), cache=cache)


@pytest.mark.compile
@pytest.mark.parametrize(("queries", "keys", "target"), [
    (Span(0, 6), Span(0, 6), dict(is_causal=True, attn_mask=None)),
    (Span(5, 1), Span(0, 6), dict(is_causal=False, attn_mask=None)),
])  # fmt: skip
def test_a_compiler_sees_the_pattern_of_spans(queries, keys, target):
    """The graph calls the fused kernel with what it needs to choose its fastest form."""
    torch._dynamo.reset()
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    q, k, v = draw(queries.length, keys.length)
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, NoPE(), queries, keys), backend=keep, fullgraph=True)
    close(compiled(q, k, v), attention(q, k, v, NoPE(), queries, keys, backend="dense"))
    calls = [node for node in graphs[0].graph.nodes if "scaled_dot_product" in str(node.target)]
    assert len(calls) == 1
    assert {name: calls[0].kwargs.get(name) for name in target} == target


# Texts in one row


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["rope", "alibi", "t5", "nope"])
def test_packed_texts_see_themselves_alone(name, backend):
    encoding = ENCODINGS[name](model_dim=16, heads=HEADS, head_dim=DIM, length=LENGTH).double().requires_grad_(False)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    q, k, v = draw()
    together = attention(q, k, v, encoding, Plan.packed([4, 1, 5]), backend=backend)
    for start, end in ((0, 4), (4, 5), (5, 10)):
        alone = (x[:, :, start:end] for x in (q, k, v))
        close(together[:, :, start:end], attention(*alone, encoding, Span(0, end - start), backend="dense"))


def test_packed_texts_need_not_be_causal():
    allowed = Plan.packed([2, 3], causal=False).allowed()
    assert torch.equal(allowed, torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).bool())


@pytest.mark.parametrize("lengths", [[], [3, 0], [-1]])
def test_no_text_is_empty(lengths):
    with pytest.raises(ValueError, match=r"use how many tokens each text has.*cu_seqlens\.diff"):
        Plan.packed(lengths)


def test_nested_tensors_are_refused_with_the_way_that_is_served():
    q = torch.nested.nested_tensor([torch.randn(HEADS, n, DIM) for n in (3, 5)], layout=torch.jagged)
    with pytest.raises(ValueError, match=r"q is a nested tensor.*Plan\.packed\(lengths\)"):
        attention(q, q, q, NoPE(), Span(0, 5))


# What layers share


def test_layers_that_share_a_plan_compute_what_they_compute_alone():
    """Encodings, dtypes and backends may differ: what is kept does not depend on them."""
    mask = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.6
    for options in (
        {},
        dict(mask=mask),
        dict(padding_mask=LEFT),
        dict(window=3, sinks=1),
        dict(causal=False, mask=mask),
    ):
        plan, (q, k, v) = Plan(POS, **options), draw()
        near = sliding_window(POS, POS, 3, 1) if options.pop("window", None) else None
        options.pop("sinks", None)
        if near is not None:
            options["mask"] = near
        made = [ENCODINGS[name](model_dim=HEADS * DIM, heads=HEADS, head_dim=DIM, length=LENGTH) for name in ENCODINGS]
        for encoding in (*made, ALiBi(HEADS, slopes=torch.tensor([0.1, 3.0])), RoPE(DIM, 50.0)):
            for backend in BACKENDS if encoding.mix is None and encoding.rescale is None else ("auto", "dense"):
                for dtype in (torch.float32, torch.float64)[: 1 if backend == "flex" else 2]:  # which is slow
                    x = [each.to(dtype) for each in (q, k, v)]
                    encoding = encoding.to(dtype).requires_grad_(False)
                    found = attention(*x, encoding, plan, backend=backend, embedded=True)
                    expected = attention(*x, encoding, POS, **options, backend="dense", embedded=True)
                    close(found, expected, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize(("backend", "owner", "part"), [
    ("flex", Plan, "_find_blocks"), ("sdpa", Plan, "_find_pattern"), ("dense", Plan, "_find_allowed"),
    ("auto", RoPE, "waves"),
])  # fmt: skip
def test_a_pass_looks_at_positions_once_for_all_layers(backend, owner, part, monkeypatch):
    asked, inner = [], getattr(owner, part)
    monkeypatch.setattr(owner, part, lambda *args: asked.append(part) or inner(*args))
    model = Transformer(11, layers=3, model_dim=16, heads=2, encoding="rope", backend=backend).requires_grad_(False)
    tokens = torch.randint(11, (2, 6))
    found = model(tokens)
    assert asked == [part]
    model(tokens)
    assert asked == [part] * 2  # another pass looks again
    dense = Transformer(11, layers=3, model_dim=16, heads=2, encoding="rope", backend="dense").requires_grad_(False)
    dense.load_state_dict(model.state_dict())
    close(found, dense(tokens), atol=1e-5)


def test_flex_makes_the_blocks_of_equal_spans_once_for_all_calls(monkeypatch):
    made, inner = [], module.span_blocks.__wrapped__
    monkeypatch.setattr(module, "span_blocks", lru_cache(lambda *args: made.append(args) or inner(*args)))
    q, k, v = draw()
    for _ in range(3):
        close(attention(q, k, v, NoPE(), POS, backend="flex"), attention(q, k, v, NoPE(), POS, backend="dense"))
        attention(q, k, v, ALiBi(HEADS).double(), WHOLE, backend="flex")
    assert len(made) == 1
    attention(q, k, v, NoPE(), POS + 5, backend="flex")  # as far from one another as before
    options = dict(causal=False, window=3), dict(window=3), dict(window=3, sinks=1)
    for option in options:
        found = attention(q, k, v, NoPE(), Plan(WHOLE, **option), backend="flex")
        close(found, attention(q, k, v, NoPE(), Plan(WHOLE, **option), backend="dense"))
    later = Plan(Span(5, LENGTH), window=3, sinks=7)  # sinks are positions, and not indices
    close(attention(q, k, v, NoPE(), later, backend="flex"), attention(q, k, v, NoPE(), later, backend="dense"))


def test_waves_are_those_of_the_frequencies_as_they_are_now():
    plan, (q, k, v) = Plan(WHOLE), draw()
    learned = RoPE(DIM, freq=torch.nn.Parameter(frequencies(DIM, dtype=torch.float64)))
    moving = RoPE(DIM).double()
    for _ in range(2):
        z = attention(q, k, v, learned, plan)
        z.square().sum().backward()  # twice: nothing that has a gradient is kept
        close(z, attention(q, k, v, learned, POS))
        moving.freq += 0.1
        close(attention(q, k, v, moving, plan), attention(q, k, v, moving, POS))
    growing = RoPE(DIM, freq=lambda length: dynamic_ntk(frequencies(DIM, dtype=torch.float64), length, 4))
    close(attention(q, k, v, growing, plan), attention(q, k, v, growing, POS))
    other = RoPE(DIM, freq=moving.freq, attention_factor=2.0).double()
    close(attention(q, k, v, other, plan), attention(q, k, v, other, POS))


def test_keys_at_the_positions_of_the_queries_take_their_waves():
    asked, rope, (q, k, v) = [], RoPE(DIM), draw()
    inner = rope.waves
    rope.waves = lambda *args: asked.append(args) or inner(*args)
    attention(q, k, v, rope, WHOLE)
    attention(q, k, v, rope, POS)
    assert len(asked) == 2
    attention(q, k, v, rope, POS, POS + 1)
    assert len(asked) == 4


# What does not fit


OTHERS = {  # a plan, what a layer comes with, and what is said
    "fewer queries": (dict(), dict(q=3), r"q has 3 vectors, and the plan was made for 10 positions.*Span\(0, 3\)"),
    "fewer keys": (dict(), dict(k=3), "k has 3 vectors"),
    "another batch": (dict(pos=POS.repeat(2, 1)), dict(batch=3), "positions for 2 sequences and the batch has 3"),
    "padding of others": (dict(padding_mask=LEFT), dict(batch=3), r"padding_mask is \(2, 10\)"),
    "mask of others": (dict(mask=torch.ones(2, 1, 10, 10, dtype=torch.bool)), dict(batch=3), "mask has shape"),
    "a cache": (dict(), dict(cache=KVCache()), r"Plan\(pos, cache=cache\)"),
    "no cache": (dict(cache=KVCache()), dict(), "counts the keys in a cache"),
    "another window": (dict(cache=KVCache(3)), dict(cache=KVCache(4)), "another window than 3"),
    "other sinks": (dict(cache=KVCache(3, 2)), dict(cache=KVCache(3, 1)), "3 and 2 sinks"),
    "device": (dict(pos=POS.to("meta")), dict(), "pos is on meta and q on cpu"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("other", OTHERS)
def test_a_layer_that_does_not_fit_is_refused(other, backend):
    made, layer, said = OTHERS[other]
    plan = Plan(made.pop("pos", WHOLE), **made) if "pos" not in made else Plan(**made)
    q, k, v = draw(layer.get("q", LENGTH), layer.get("k", LENGTH), layer.get("batch", BATCH))
    with pytest.raises(ValueError, match=said):
        attention(q, k, v, NoPE(), plan, backend=backend, cache=layer.get("cache"))


def test_a_plan_says_all_that_hides():
    plan, (q, k, v) = Plan(WHOLE), draw()
    for option in (dict(kpos=POS), dict(causal=False), dict(mask=LEFT[:, None, None]), dict(padding_mask=LEFT)):
        with pytest.raises(ValueError, match="leave out kpos, causal"):
            attention(q, k, v, NoPE(), plan, **option)
        if "padding_mask" not in option:
            with pytest.raises(ValueError, match="leave out kpos, causal"):
                attend(q, k, v, NoPE(), plan, **option)


def test_tensors_that_were_changed_in_place_are_refused():
    pos, mask = POS.clone(), torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    plan, (q, k, v) = Plan(pos, mask=mask), draw()
    attention(q, k, v, NoPE(), plan)
    pos += 5
    with pytest.raises(ValueError, match="pos was changed in place after the plan was made"):
        attention(q, k, v, NoPE(), plan)
    plan = Plan(POS, mask=mask)
    mask[0] = False
    with pytest.raises(ValueError, match="mask was changed in place"):
        attend(q, k, v, NoPE(), plan)


def test_a_plan_does_not_change():
    plan = Plan(WHOLE)
    for name in ("causal", "mask", "window", "pattern", "queries", "keys", "block_mask"):
        with pytest.raises(AttributeError):
            setattr(plan, name, None)


@pytest.mark.parametrize(("change", "error", "said"), [
    (dict(pos=range(3)), TypeError, r"qpos is a range.*torch\.arange"),
    (dict(kpos=[0]), TypeError, "kpos is a list"),
    (dict(mask=[True]), TypeError, "mask is a list"),
    (dict(mask=torch.ones(10, 10)), ValueError, "use a bool mask"),
    (dict(padding_mask=LEFT.int()), ValueError, "True for real tokens"),
    (dict(padding_mask=LEFT[:, 1:]), ValueError, r"\(B, 10\)"),
    (dict(window=0), ValueError, "a token sees itself"),
    (dict(sinks=-1), ValueError, "0 for none"),
    (dict(cache=KVCache(3), window=3), ValueError, r"KVCache\(window, sinks\)"),
])  # fmt: skip
def test_what_makes_no_plan_is_refused(change, error, said):
    with pytest.raises(error, match=said):
        Plan(**({"pos": POS} | change))


def test_every_half_of_attention_takes_plans_and_spans():
    (q, k, v), plan, alibi = draw(), Plan(WHOLE), ALiBi(HEADS).double()
    for at in (plan, WHOLE):
        close(attention_scores(q, k, alibi, at), attention_scores(q, k, alibi, POS, POS))
        close(attention_weights(q, k, alibi, at), attention_weights(q, k, alibi, POS, POS))
        close(attend(q, k, v, alibi, at), attend(q, k, v, alibi, POS, POS))
    with pytest.raises(ValueError, match=r"qpos holds 3 positions for 10 .*Span\(0, 10\)"):
        attend(q, k, v, alibi, Span(0, 3))


# Caches


@torch.no_grad()
@pytest.mark.parametrize("window", [(None, 0), (3, 0), (3, 2), (20, 1)])
@pytest.mark.parametrize("chunks", [[1] * LENGTH, [4, 1, 3, 2], [LENGTH]])
@pytest.mark.parametrize("given", ["spans", "tensors"])
def test_one_plan_serves_all_caches_with_the_same_tokens(window, chunks, given):
    (q, k, v), caches, start = draw(), [KVCache(*window) for _ in range(3)], 0
    mask = sliding_window(POS, POS, *window) if window[0] else None
    whole = [attention(q, k, v, encoding, POS, mask=mask, backend="dense") for encoding in (RoPE(DIM), ALiBi(HEADS))]
    for size in chunks:
        at, here = slice(start, start + size), Span(start, size)
        plan = Plan(here if given == "spans" else here.tensor(), cache=caches[0])
        for encoding, cache, full in zip((RoPE(DIM), ALiBi(HEADS)), caches, whole, strict=False):
            close(attention(q[:, :, at], k[:, :, at], v[:, :, at], encoding, plan, cache=cache), full[:, :, at], 1e-6)
        start += size
    if window == (None, 0):
        assert caches[0].span == WHOLE
    with pytest.raises(ValueError, match="does not hold the positions that the plan was made for"):
        attention(q[:, :, at], k[:, :, at], v[:, :, at], NoPE(), plan, cache=caches[0])  # a second time


@torch.no_grad()
def test_a_cache_knows_its_span_where_positions_are_one():
    (_, k, v), cache = draw(), KVCache(4)
    assert cache.span is None and len(cache.positions) == 0
    for t in range(7):
        cache.extend(k[:, :, t : t + 1], v[:, :, t : t + 1], Span(t, 1))
        assert cache.span == Span.of(cache.positions) == Span(max(0, t - 3), min(t + 1, 4))
    cache.extend(k[:, :, :1], v[:, :, :1], torch.tensor([9]))  # after a hole
    assert cache.span is None and cache.positions.tolist() == [4, 5, 6, 9]
    cache = KVCache(3, 1)
    for t in range(3):
        cache.extend(k[:, :, t : t + 1], v[:, :, t : t + 1], Span(t, 1))
    assert cache.span == Span(0, 3)
    cache.extend(k[:, :, :1], v[:, :, :1], Span(3, 1))
    assert cache.span == Span(0, 4)  # the sink and a window are still in a row
    cache.extend(k[:, :, :1], v[:, :, :1], Span(4, 1))
    assert cache.span is None and cache.positions.tolist() == [0, 2, 3, 4]
    cache = KVCache()
    cache.extend(k, v, WHOLE)
    cache.keep(torch.tensor([0, 1, 2]))
    assert cache.span is None


@torch.no_grad()
def test_layers_whose_caches_hold_other_tokens_do_not_share(monkeypatch):
    """Neither silently, nor in a model, which gives them plans of their own; and numbers are compared but once."""
    compared, inner = [], module.equal
    monkeypatch.setattr(module, "equal", lambda *args: compared.append(1) or inner(*args))
    (q, k, v), caches = draw(), [KVCache(4), KVCache(4), KVCache(4)]
    for start in range(5):
        now, plan = slice(start, start + 1), Plan(POS[start : start + 1], cache=caches[0])
        for cache in caches:
            attention(q[:, :, now], k[:, :, now], v[:, :, now], NoPE(), plan, cache=cache)
    caches[1].keep(torch.tensor([0, 1, 3]))
    caches[2].keep(torch.tensor([1, 2, 3]))
    caches[0].keep(torch.tensor([1, 2, 3]))
    assert not compared  # the same tokens went into all of them
    plan, step = Plan(POS[5:6], cache=caches[0]), (q[:, :, 5:6], k[:, :, 5:6], v[:, :, 5:6], NoPE())
    attention(*step, plan, cache=caches[0])
    attention(*step, plan, cache=caches[2])
    with pytest.raises(ValueError, match="does not hold the positions"):
        attention(*step, plan, cache=caches[1])


@torch.no_grad()
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compile)])
def test_a_model_s_layers_may_keep_other_tokens(compiled):
    """With a window and padding, the mask depends on what a layer's cache holds."""
    torch._dynamo.reset()
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
            if alone:  # as if every layer made its own plan
                patch.setattr("posenc.transformer.model.same_future", lambda plan, cache: False)
            run = torch.compile(model, backend="aot_eager") if compiled and not alone else model
            return run(tokens[:, 6:], padding_mask=real[:, 6:], cache=cache)

    close(after(alone=False), after(alone=True))


@torch.no_grad()
@pytest.mark.compile
def test_a_compiled_model_decodes_with_few_programs():
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    model = Transformer(11, layers=2, model_dim=16, heads=2).double()
    tokens, cache = torch.randint(11, (1, 14)), model.cache()
    run = torch.compile(model, backend=counter)
    parts = [run(tokens[:, a:b], cache=cache) for a, b in ((0, 4), *((t, t + 1) for t in range(4, 14)))]
    close(torch.cat(parts, 1), model(tokens))
    assert counter.frame_count <= 6


# Transforms


@pytest.mark.compile
@pytest.mark.parametrize("backend", ["auto", "dense", "sdpa"])
def test_a_compiler_shares_a_plan_of_one_tensor_and_refuses_what_differs(backend):
    torch._dynamo.reset()
    q, k, v = (x.float() for x in draw())
    mask = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.8

    def two(q, k, v, pos, mask, causal):
        plan = Plan(pos, mask=mask)
        q = attention(q, k, v, NoPE(), plan, backend=backend)
        return attention(q, k, v, NoPE(), plan, causal=causal, backend=backend)

    compiled = torch.compile(two, backend="aot_eager", fullgraph=True)
    close(compiled(q, k, v, POS, mask, True), two(q, k, v, POS, mask, True), atol=1e-6)
    with pytest.raises(Exception, match="leave out kpos, causal"):
        torch.compile(two, backend="aot_eager")(q, k, v, POS, mask, False)


@pytest.mark.parametrize("batched", [False, True])
def test_a_plan_is_shared_under_vmap(batched):
    q, k, v = (torch.stack([x, x + 1]) for x in draw())
    pos = torch.stack([POS, POS + 3])

    def two(q, k, v, pos):
        plan = Plan(pos)
        for encoding in (NoPE(), T5Bias(HEADS).double()):
            q = attention(q, k, v, encoding, plan)
        return q

    over = (0, 0, 0, 0 if batched else None)
    found = torch.func.vmap(two, over)(q, k, v, pos if batched else pos[0])
    close(found, torch.stack([two(q[n], k[n], v[n], pos[n if batched else 0]) for n in range(2)]), atol=1e-6)


@pytest.mark.export
def test_a_plan_is_shared_in_an_exported_graph():
    class Two(torch.nn.Module):
        def forward(self, q, k, v, pos):
            plan = Plan(pos)
            for _ in range(2):
                q = attention(q, k, v, NoPE(), plan)
            return q

    length = torch.export.Dim("length", min=2)
    shapes = ({2: length}, {2: length}, {2: length}, {0: length})
    graph = torch.export.export(Two(), (*draw(), POS), dynamic_shapes=shapes)
    shorter = (*(x[:, :, :7] for x in draw()), POS[:7])
    close(graph.module()(*shorter), Two()(*shorter))
    compared = [node for node in graph.graph.nodes if node.target is torch.ops.aten.le.Tensor]
    assert len(compared) == 1  # positions are compared once for both layers


# Block masks


def test_flex_uses_the_block_mask_that_is_given():
    q, k, v = draw()
    near = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 3), None, None, LENGTH, LENGTH, device="cpu")
    expected = attention(q, k, v, NoPE(), POS, mask=sliding_window(POS, POS, 3))
    for backend in ("flex", "auto"):
        close(attention(q, k, v, NoPE(), Plan(POS, block_mask=near), backend=backend), expected)
    for backend in ("dense", "sdpa"):
        with pytest.raises(ValueError, match=r"block_mask.* use backend=.flex. without mask"):
            attention(q, k, v, NoPE(), Plan(POS, block_mask=near), backend=backend)
    for options in (dict(mask=LEFT[:, None, None]), dict(padding_mask=LEFT), dict(window=3), dict(cache=KVCache(3))):
        with pytest.raises(ValueError, match="block_mask takes the place of every other mask"):
            Plan(POS, block_mask=near, **options)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("backend", BACKENDS[:3])
@pytest.mark.parametrize("given", ["spans", "tensors"])
def test_layers_after_the_first_do_not_wait_for_the_gpu(backend, given):
    q, k, v = (x.cuda() for x in draw())
    rope, plan = RoPE(DIM).cuda(), Plan(WHOLE if given == "spans" else POS.cuda())
    first = attention(q, k, v, rope, plan, backend=backend)
    torch.cuda.set_sync_debug_mode("error")
    try:
        again = attention(q, k, v, rope, plan, backend=backend)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(again, first)


@pytest.mark.parametrize("keys_of", [4, 2, 1])
@pytest.mark.parametrize(("queries", "keys"), [(64, 65), (70, 200), (130, 131)])
def test_a_chunk_of_many_tokens_sees_those_before_it_without_a_mask(queries, keys, keys_of, monkeypatch):
    q, (k, v) = torch.randn(2, 4, queries, 8), torch.randn(2, 2, keys_of, keys, 8)
    plan = Plan(Span(keys - queries, queries), Span(0, keys))
    assert plan.pattern == "lower right"
    expected = attend(q, k, v, NoPE(), plan, backend="dense")
    close(attend(q.requires_grad_(), k, v, NoPE(), plan), expected, atol=1e-5)  # a mask, which has gradients
    monkeypatch.setattr(Plan, "allowed", None)
    with torch.no_grad():
        close(attend(q, k, v, NoPE(), plan), expected, atol=1e-5)
