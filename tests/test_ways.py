"""The ways in which schemes say what they are, as channels or as near and far, against attention with all weights."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor

from posenc import (
    ALiBi,
    DistanceAware,
    Encoding,
    NoPE,
    Plan,
    RoPE,
    Shaw,
    Span,
    T5Bias,
    TransformerXL,
    attend,
    attention,
    sliding_window,
)
from posenc._attention import by_distance, kernels, near_far
from posenc._attention.encoding import Split
from tests.helpers import Sizes, close

HEADS, DIM, LENGTH = 4, 8, 45  # no multiple of a block


class Wide(Encoding):
    """A bias of 0.5 · sin j · cos i, as one more channel."""

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: 0.5 * kpos[b, j].to(q.dtype).sin() * qpos[b, i].to(q.dtype).cos()

    def widen(self, q, k, plan, scale):
        qpos, kpos = (pos.to(q.dtype)[..., None, :, None] for pos in (plan.qpos(), plan.kpos()))
        q = torch.cat((q, (0.5 / scale * qpos.cos()).expand(*q.shape[:3], 1)), -1)
        return q, torch.cat((k, kpos.sin().expand(*k.shape[:3], 1)), -1)


WAYS = {  # an encoding, and whether queries see the future
    "own channels": (Wide, True),
    "alibi": (lambda: ALiBi(HEADS), True),
    "alibi, learned": (lambda: ALiBi(HEADS, learned=True, slopes=torch.tensor([0.3, 0.1, 0.02, -0.1])), True),
    "transformer_xl": (lambda: TransformerXL(DIM, HEADS, DIM), True),
    "transformer_xl, both ways": (lambda: TransformerXL(DIM, HEADS, DIM), False),
    "transformer_xl, clamped": (lambda: TransformerXL(DIM, HEADS, DIM, clamp=9), True),
    "transformer_xl, clamped, both ways": (lambda: TransformerXL(DIM, HEADS, DIM, clamp=9), False),
    "t5": (lambda: T5Bias(HEADS, 8, 10), True),
    "t5, bidirectional": (lambda: T5Bias(HEADS, 8, 10, bidirectional=True), False),
    "t5, bidirectional, past": (lambda: T5Bias(HEADS, 8, 10, bidirectional=True), True),
    "t5, one far key": (lambda: T5Bias(HEADS, 8, 11), True),
    "shaw": (lambda: Shaw(DIM, 4), True),
    "shaw, keys only": (lambda: Shaw(DIM, 4, values=False), True),
    "shaw, a table for each head": (lambda: Shaw(DIM, 4, heads=HEADS), True),
    "shaw, both ways": (lambda: Shaw(DIM, 4, heads=HEADS), False),
    "shaw, the smallest reach": (lambda: Shaw(DIM, 1), False),
}
every = pytest.mark.parametrize("name", WAYS)
#: One for each piece of code of its own, for tests that compile or export.
each_way = pytest.mark.parametrize("name", ["own channels", "alibi", "t5", "shaw", "transformer_xl, both ways"])


def make(name: str) -> tuple[Encoding, bool]:
    encoding, causal = WAYS[name][0](), WAYS[name][1]
    for parameter in encoding.parameters():
        if name != "alibi, learned":
            torch.nn.init.normal_(parameter)
    return encoding.double(), causal


def draw(length: int = LENGTH, grouped: int = HEADS, width: int = DIM, batch: int = 2) -> list[Tensor]:
    shapes = (HEADS, DIM), (grouped, DIM), (grouped, width)
    return [torch.randn(batch, heads, length, d, dtype=torch.float64) for heads, d in shapes]


@pytest.fixture(autouse=True)
def any_size_pays(monkeypatch):
    """Otherwise a matrix is taken for short texts."""
    monkeypatch.setattr(kernels, "SMALL", 0)
    monkeypatch.setattr(kernels, "FEW", 0)


@pytest.fixture(autouse=True)
def blocks_are_short(monkeypatch):
    """So that a short text has several, and the last of them is not full; and heads are taken in unequal groups."""
    monkeypatch.setattr(by_distance, "BLOCK", 16)
    monkeypatch.setattr(near_far, "BLOCK", 16)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


@pytest.fixture
def taken(monkeypatch) -> list[str]:
    """What was taken, in place of all weights, or of a matrix of biases."""
    names: list[str] = []

    def watch(name):
        inner = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *args: names.append(name) or inner(*args))

    for name in ("near_far", "by_distance", "dense", "_fused", "pair_bias"):
        watch(name)
    return names


@every
@pytest.mark.parametrize(("grouped", "width"), [(HEADS, DIM), (2, DIM), (1, 5)])
@pytest.mark.parametrize("length", [LENGTH, 64, 1])
def test_a_way_around_the_matrix_computes_the_same(name, grouped, width, length, taken):
    encoding, causal = make(name)
    width = DIM if "shaw" in name else width  # whose values have the channels of the keys
    q, k, v = draw(length, grouped, width)
    at, options = Span(7, length), dict(causal=causal, scale=0.3 if "shaw" not in name else None)
    expected = attention(q, k, v, encoding, at, backend="dense", **options)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            taken.clear()
            found = attention(q, k, v, encoding, at, **options)
        close(found, expected)
        if length > 1:
            ways = {"t5": "near_far", "shaw": "near_far", "transformer_xl": "by_distance"}
            assert taken == [ways.get(name.split(",")[0], "_fused")]


@every
def test_gradients_are_those_of_the_matrix(name):
    encoding, causal = make(name)
    inputs, weight = [x.requires_grad_() for x in draw()], torch.randn(2, HEADS, LENGTH, DIM, dtype=torch.float64)
    wanted = [*inputs, *encoding.parameters()]
    found, expected = (
        torch.autograd.grad(
            (attention(*inputs, encoding, Span(0, LENGTH), causal=causal, backend=backend) * weight).sum(), wanted
        )
        for backend in ("auto", "dense")
    )
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 1e-3
        close(one, other, atol=1e-9)


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_less_precision_stays_as_close_to_float64_as_with_a_matrix(name, dtype):
    encoding, causal = make(name)
    encoding = encoding.to(dtype)
    q, k, v = (x.to(dtype) for x in draw(200))
    exact = attention(
        *(x.double() for x in (q, k, v)), copy.deepcopy(encoding).double(), Span(0, 200), causal=causal, backend="dense"
    )
    with torch.no_grad():
        z = attention(q, k, v, encoding, Span(0, 200), causal=causal)
    assert z.dtype == dtype
    scale = 1 + exact.abs().max()
    assert (z.double() - exact).abs().max() < (200 if "xl" in name else 16) * torch.finfo(dtype).eps * scale


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("start", [0, 60_000])
def test_alibi_in_sixteen_bits_is_no_less_exact_than_with_a_matrix(dtype, start, monkeypatch):
    torch.manual_seed(0)
    q, k, v = (x.to(dtype) for x in torch.randn(3, 1, 8, 700, 64))
    alibi, at = ALiBi(8), Span(start, 700)
    exact = attention(*(x.double() for x in (q, k, v)), copy.deepcopy(alibi).double(), at, backend="dense")
    error = {}
    for way, few in (("channels", 0), ("matrix", 10_000)):
        monkeypatch.setattr(kernels, "FEW", few)
        error[way] = (attention(q, k, v, alibi, at, backend="sdpa").double() - exact).abs().max().item()
    assert error["channels"] <= 1.05 * error["matrix"]
    assert error["channels"] < 2 * torch.finfo(dtype).eps


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("places", ["span", "far span", "gaps", "floats"])
def test_alibi_s_channels_hold_slopes_and_positions_exactly(dtype, places):
    """q' · k' alone, summed in float64, is the bias of every pair but for what is the same for all keys of a query."""
    pos = {
        "span": Span(3, 300), "far span": Span(0, 70_000), "gaps": torch.tensor([0, 1, 255, 256, 70_000, 200_001]),
        "floats": torch.arange(5) + 0.5,
    }[places]  # fmt: skip
    alibi, plan = ALiBi(HEADS), Plan(pos)
    count = plan.lengths[0]
    q, k = torch.zeros(1, HEADS, 1, DIM, dtype=dtype), torch.zeros(1, 1, count, DIM, dtype=dtype)
    wide = alibi.widen(q, k, plan, 0.125)
    if wide is None:  # a matrix is right for them
        assert places == "floats" or (dtype == torch.float16 and places != "span")
        return
    assert (
        [x.dtype for x in wide] == [dtype, dtype]
        and wide[0].shape[-1] == wide[1].shape[-1]
        and wide[0].shape[-1] % 8 == 0
    )
    score = 0.125 * (wide[0].double() @ wide[1].double().mT)[0, :, 0]
    bias = alibi.slope.double()[:, None] * plan.kpos().double()
    error = (score - score[:, -1:]) - (bias - bias[:, -1:])
    assert error.abs().max() < 3e-7 * bias.abs().max()


@torch.no_grad()
def test_no_way_makes_a_matrix_of_all_pairs():
    length = 600
    q, k, v = torch.randn(3, 1, 2, length, DIM)
    encodings = ALiBi(2), T5Bias(2, 8, 10), Shaw(DIM, 4), TransformerXL(DIM, 2, DIM)
    for encoding in encodings:
        with Sizes() as sizes:
            attention(q, k, v, encoding, Span(0, length))
        assert sizes.largest < length * length


SPANS = {  # of queries and keys
    "one block": (Span(3, 16), Span(3, 16)),
    "a block and one": (Span(0, 17), Span(0, 17)),
    "a segment and its memory": (Span(31, 21), Span(5, 47)),
    "a segment of one block": (Span(35, 9), Span(0, 44)),
    "one query": (Span(43, 1), Span(0, 44)),
    "keys that end before the queries": (Span(60, 33), Span(0, 40)),
    "keys that end at the first query": (Span(39, 33), Span(0, 40)),
    "keys before and after": (Span(20, 18), Span(0, 50)),
    "keys that come later": (Span(0, 18), Span(30, 35)),
}


@pytest.mark.parametrize("clamp", [None, 6])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("spans", SPANS)
def test_distances_are_met_in_blocks_wherever_queries_and_keys_lie(spans, causal, clamp, taken):
    """Held against the matrix, which tests/test_transformer_xl.py holds against loops; gradients too."""
    xl, (queries, keys) = TransformerXL(6, HEADS, DIM, clamp=clamp).double(), SPANS[spans]
    for parameter in xl.parameters():
        torch.nn.init.normal_(parameter)
    plan = Plan(queries, keys, causal=causal)
    q, (k, v) = draw(queries.length)[0].requires_grad_(), (x.requires_grad_() for x in draw(keys.length)[1:])
    wanted, weight = [q, k, v, *xl.parameters()], torch.randn_like(q)
    z, expected = (attend(xl.query(q, plan.qpos()), k, v, xl, plan, backend=way) for way in ("auto", "dense"))
    assert ("by_distance" in taken) == (plan.spans is not None)
    close(z, expected)
    for found, right in zip(*(torch.autograd.grad((x * weight).sum(), wanted) for x in (z, expected)), strict=True):
        close(found, right, atol=1e-10)


def test_only_one_span_s_plan_has_keys_of_the_future_hidden():
    hidden = [name for name, spans in SPANS.items() if Plan(*spans).spans is None]
    assert hidden == ["keys before and after", "keys that come later"]
    assert all(Plan(*spans, causal=False).spans for spans in SPANS.values())


def test_blocks_take_vectors_in_any_memory_order_and_an_expanded_gradient():
    xl, pos = TransformerXL(DIM, HEADS, DIM).double(), Span(0, LENGTH)
    rows = torch.randn(2, LENGTH, 3, HEADS, DIM, dtype=torch.float64, requires_grad=True)
    found, expected = (
        torch.autograd.grad(attention(*rows.permute(2, 0, 3, 1, 4), xl, pos, backend=way).sum(), rows)[0]
        for way in ("auto", "dense")
    )
    close(found, expected)


def test_autocast_rounds_no_distance(taken):
    xl = TransformerXL(64, HEADS, DIM)
    q, k, v = (x.float() for x in draw())
    expected = attention(q, k, v, xl, Span(0, LENGTH))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(attention(q, k, v, xl, Span(0, LENGTH)), expected)
    assert taken == ["by_distance", "by_distance"]


@pytest.mark.parametrize("encoding", [T5Bias(HEADS, 8, 10), Shaw(DIM, 4)])
def test_autocast_rounds_neither_near_keys_nor_their_gradients(encoding, taken):
    inputs = [x.float().requires_grad_() for x in draw()]
    wanted = [*inputs, *encoding.parameters()]

    def gradients(rounded: bool) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
            z = attention(*inputs, encoding, Span(0, LENGTH))
        return torch.autograd.grad(z.square().sum(), wanted)

    assert all(torch.equal(*pair) for pair in zip(gradients(False), gradients(True), strict=True))
    assert taken == ["near_far", "near_far"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_of_blocks_are_summed_in_float32_and_come_in_the_dtype_of_the_inputs(dtype):
    xl, (q, k, v) = TransformerXL(DIM, HEADS, DIM).to(dtype), [x.to(dtype).requires_grad_() for x in draw(200)]
    wanted, weight = [q, k, v, *xl.parameters()], torch.randn(2, HEADS, 200, DIM)
    found, exact = (
        torch.autograd.grad((attention(q, k, v, xl, Span(0, 200), backend=way) * weight).sum(), wanted)
        for way in ("auto", "dense")
    )
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == dtype
        assert (one - other).abs().max() < 8 * torch.finfo(dtype).eps * (1 + other.abs().max())


def test_blocks_are_the_largest_that_is_made():
    length, heads = 320, 2
    q, k, v, query, keys = torch.randn(5, 1, heads, length, DIM)
    inputs = (q, k, v, query, keys[0], 0, True, 1.0)
    with Sizes() as sizes:
        z, lse = by_distance._forward(*inputs)
        by_distance._backward(z, *inputs[:5], z, lse, *inputs[5:])
    assert sizes.largest == heads * 16 * (length + 16)


def test_a_second_derivative_of_blocks_is_refused():
    xl, (q, k, v) = TransformerXL(DIM, HEADS, DIM).double(), draw()
    z = attention(q.requires_grad_(), k, v, xl, Span(0, LENGTH))
    (first,) = torch.autograd.grad(z.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r'second derivative .* use backend="dense"'):
        first.square().sum().backward()


def test_what_blocks_cannot_serve_goes_another_way(taken, monkeypatch):
    xl, (q, k, v) = TransformerXL(64, HEADS, DIM).double().requires_grad_(False), draw()
    pos, real = torch.arange(LENGTH), torch.ones(2, LENGTH, dtype=torch.bool)
    for options in (dict(padding_mask=real), dict(mask=sliding_window(pos, pos, 6)), dict(dropout=0.1)):
        taken.clear()
        attention(q, k, v, xl, pos, **options)
        assert taken == ["pair_bias", "_fused"]
    taken.clear()
    attention(q, k, v, xl, 2 * pos)
    monkeypatch.setattr(kernels, "FEW", 64)
    attention(q[:, :, :9], k[:, :, :9], v[:, :, :9], xl, Span(0, 9))
    assert taken == ["pair_bias", "_fused"] * 2


@pytest.mark.parametrize("at", [
    torch.tensor([*range(20), *range(25)]), torch.arange(LENGTH).flip(0), torch.arange(LENGTH) * 2,
    torch.stack((torch.arange(LENGTH), torch.arange(LENGTH) + 3)),
])  # fmt: skip
@every
def test_positions_that_are_no_span_are_served_as_well(name, at):
    encoding, causal = make(name)
    q, k, v = draw()
    if name == "own channels" and at.ndim == 2:
        return
    found, expected = (
        attention(q, k, v, encoding, at, causal=causal, backend=backend) for backend in ("auto", "dense")
    )
    close(found, expected)


@every
def test_masks_padding_windows_steps_and_chunks_are_served_as_well(name):
    encoding, causal = make(name)
    q, k, v = draw()
    pos, real = torch.arange(LENGTH), torch.rand(2, LENGTH) < 0.7
    mask = torch.rand(2, 1, LENGTH, LENGTH) < 0.7
    for options in (dict(mask=mask), dict(padding_mask=real), dict(mask=sliding_window(pos, pos, 6))):
        found, expected = (
            attention(q, k, v, encoding, pos, causal=causal, backend=backend, **options)
            for backend in ("auto", "dense")
        )
        close(found, expected)
    for queries in (1, 7):
        at = Span(LENGTH - queries, queries), Span(0, LENGTH)
        turned = encoding.query(q[:, :, -queries:], at[0].tensor())
        found, expected = (
            attend(turned, k, v, encoding, *at, causal=causal, backend=backend) for backend in ("auto", "dense")
        )
        close(found, expected)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # torch's compiler does so itself
@each_way
def test_compiled_it_is_the_same(name):
    torch._dynamo.reset()
    encoding, causal = make(name)
    q, k, v = draw()

    def layer(q, k, v):
        return attention(q, k, v, encoding, Span(0, q.shape[2]), causal=causal)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    close(compiled(q, k, v), layer(q, k, v), atol=1e-10)
    shorter = [x[:, :, :31].contiguous() for x in (q, k, v)]
    close(compiled(*shorter), layer(*shorter), atol=1e-10)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every
def test_under_vmap_it_is_the_same(name):
    encoding, causal = make(name)
    q, k, v = (torch.stack([x, x + 1]) for x in draw())

    def layer(q, k, v):
        return attention(q, k, v, encoding, Span(0, LENGTH), causal=causal)

    close(torch.func.vmap(layer)(q, k, v), torch.stack([layer(q[n], k[n], v[n]) for n in range(2)]))


@pytest.mark.export
@each_way
def test_exported_it_is_the_same(name):
    encoding, causal = make(name)

    class One(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoding = encoding

        def forward(self, q, k, v, pos):
            return attention(q, k, v, self.encoding, pos, causal=causal)

    inputs = (*draw(), torch.arange(LENGTH))
    close(torch.export.export(One(), inputs).module()(*inputs), One()(*inputs), atol=1e-10)


def test_what_needs_the_weights_says_so_and_auto_finds_another_way(taken):
    q, k, v = draw()
    for encoding, door in ((Shaw(DIM, 4).double(), "mix"), (DistanceAware(HEADS).double(), "rescale")):
        with pytest.raises(ValueError, match=rf"cannot serve {door}"):
            attention(q, k, v, encoding, Span(0, LENGTH), backend="sdpa")
        taken.clear()
        attention(q, k, v, encoding, Span(0, LENGTH))
        assert taken == (["near_far"] if door == "mix" else ["dense"])
    taken.clear()
    attention(q, k, v, Shaw(DIM, 4).double(), Span(0, LENGTH), dropout=0.5)
    assert taken == ["dense"]
    shaw = Shaw(DIM, 4).double()
    z, weights = attention(q, k, v, shaw, Span(0, LENGTH), return_weights=True)
    close(z, attention(q, k, v, shaw, Span(0, LENGTH)))
    assert weights.shape == (2, HEADS, LENGTH, LENGTH)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch takes it itself
@pytest.mark.parametrize("encoding", [NoPE, lambda: RoPE(DIM), lambda: T5Bias(HEADS, 8, 10)])
def test_forward_derivatives_are_those_of_all_weights(encoding):
    (q, k, v), encoding = draw(), encoding().double()

    def derivative(backend: str) -> Tensor:
        layer = partial(attention, k=k, v=v, encoding=encoding, qpos=Span(0, LENGTH), backend=backend)
        return torch.func.jvp(layer, (q,), (v,))[1]

    close(derivative("auto"), derivative("dense"))


def test_an_empty_text_has_an_empty_answer():
    for name in WAYS:
        encoding, causal = make(name)
        assert attention(*draw(0), encoding, Span(0, 0), causal=causal).shape == (2, HEADS, 0, DIM)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("texts", "own"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize(("length", "reach"), [(1, 3), (70, 3), (131, 3), (128, 64), (200, 64), (391, 64), (391, 130)])
def test_a_kernel_s_near_band_is_that_of_the_formula(length, reach, texts, own, causal):
    """In blocks whose keys are views, before the first whole window and after the last one."""
    q, k, v = torch.randn(3, texts, 2, length, 8, dtype=torch.float64)
    bias = torch.randn(own, 2, 1 if own == 1 else length, 2 * reach + 1, dtype=torch.float64)
    split = Split(reach, bias)
    for found, wanted in zip(
        near_far._near_by_kernel(q, k, v, split, causal, 0.3), near_far._near(q, k, v, split, causal, 0.3), strict=True
    ):
        close(found, wanted)
