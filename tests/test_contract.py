"""What every encoding must keep, in one loop over all of them: the rows of the contract's table are encodings.

A test that is marked `check("…")` is a column. `pytest tests/test_contract.py` prints the table, and the book shows it.
"""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from posenc import (
    ENCODINGS,
    ALiBi,
    Encoding,
    KVCache,
    RoPE,
    Shaw,
    T5Bias,
    TransformerXL,
    attention,
    frequencies,
    sliding_window,
)
from posenc.schemes.grid import GridRoPE, GridSinusoidal, MixedRoPE, MRoPE, mrope_positions
from posenc.schemes.scaling import yarn, yarn_attention_factor
from tests.helpers import close

BATCH, HEADS, DIM, LENGTH = 2, 4, 8, 12
MODEL = HEADS * DIM
BACKENDS = ["dense", "sdpa", "flex"]

# More than one form of a scheme is worth its own row.
YARN = yarn(frequencies(DIM), 4.0, 64, form="code")
PLACES = mrope_positions([3, (1, 2, 3), 5])  # words, an image of 2 × 3, words
VARIANTS: dict[str, Callable[[], Encoding]] = {
    "shaw, one table for each head, clip=3": lambda: Shaw(DIM, 3, heads=HEADS),
    "shaw, keys only": lambda: Shaw(DIM, 3, values=False),
    "transformer_xl, clamp=5": lambda: TransformerXL(MODEL, HEADS, DIM, clamp=5),
    "t5, bidirectional": lambda: T5Bias(HEADS, 8, 10, bidirectional=True),
    "rope, half": lambda: RoPE(DIM, layout="half"),
    "rope, partial": lambda: RoPE(DIM, rotary_dim=4),
    "rope, yarn": lambda: RoPE(DIM, freq=YARN, attention_factor=yarn_attention_factor(4.0)),
    "alibi, symmetric": lambda: ALiBi(HEADS, symmetric=True),
    "alibi, learned slopes": lambda: ALiBi(HEADS, learned=True),
    "grid, sinusoidal": lambda: GridSinusoidal(MODEL, (3, 4)),
    "grid, axial rope": lambda: GridRoPE(DIM, (3, 4)),
    "grid, mixed rope": lambda: MixedRoPE(DIM, HEADS, (3, 4)),
    "grid, m-rope": lambda: MRoPE(DIM, (2, 1, 1), coordinates=PLACES),
}
ROWS = {
    **{name: lambda name=name: ENCODINGS[name](MODEL, HEADS, DIM, LENGTH) for name in ENCODINGS},
    **VARIANTS,
}


def make(name: str) -> Encoding:
    encoding = ROWS[name]()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def serves(name: str, backend: str) -> bool:
    refused = {"dense": set(), "sdpa": {"rescale", "mix"}, "flex": {"mix"}}
    return not refused[backend] & set(make(name).doors)


check = pytest.mark.check
every = pytest.mark.parametrize("name", ROWS)
SERVED = [(name, backend) for name in ROWS for backend in BACKENDS if serves(name, backend)]
#: FlexAttention is traced anew for each call on a CPU: of the forms of a scheme, the first stands for all here, and
#: each of them is compared in "flex = dense".
every_with_backends = pytest.mark.parametrize(
    ("name", "backend"), [(name, way) for name, way in SERVED if way != "flex" or name in ENCODINGS]
)


class Layer(torch.nn.Module):
    """One layer of attention, with random weights."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding
        self.project = torch.nn.Linear(MODEL, 3 * MODEL)

    def project_heads(self, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.encoding.embed(x, pos)
        q, k, v = self.project(x).unflatten(-1, (3, HEADS, DIM)).permute(2, 0, 3, 1, 4)
        return q, k, v

    def forward(self, x: Tensor, pos: Tensor, **options: object) -> Tensor:
        q, k, v = self.project_heads(x, pos)
        if options.get("causal") is False and self.encoding.causal_only:
            options.setdefault("mask", torch.ones(1, 1, dtype=torch.bool, device=x.device))  # on purpose
        return attention(q, k, v, self.encoding, pos, embedded=True, **options)  # (B, H, L, d)

    def step(self, x: Tensor, pos: Tensor, cache: KVCache, **options: object) -> Tensor:
        return attention(*self.project_heads(x, pos), self.encoding, pos, cache=cache, embedded=True, **options)

    def decode(self, x: Tensor, pos: Tensor, cache: KVCache, chunks: list[int], real: Tensor | None = None) -> Tensor:
        start, parts = 0, []
        for size in chunks:
            part = slice(start, start + size)
            options = {} if real is None else {"padding_mask": real[:, part]}
            parts.append(self.step(x[:, part], pos[..., part], cache, **options))
            start += size
        return torch.cat(parts, 2)


@pytest.fixture
def layer(name: str) -> Layer:
    return Layer(make(name)).double().requires_grad_(False)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(BATCH, LENGTH, MODEL, dtype=torch.float64)


@check("cached = full")
@every
@pytest.mark.parametrize("batched", [False, True])
def test_decoding_token_by_token_equals_the_full_pass(layer, x, batched):
    pos = torch.arange(LENGTH)
    pos = torch.stack((pos, pos + 2 if not hasattr(layer.encoding, "length") else pos)) if batched else pos
    cache = KVCache()
    close(layer.decode(x, pos, cache, [1] * LENGTH), layer(x, pos))
    assert len(cache) == LENGTH


@check("chunked prefill")
@every
@pytest.mark.parametrize("chunks", [[5, 1, 1, 4, 1], [7, 5], [LENGTH]])
def test_a_prompt_in_chunks_equals_the_full_pass(layer, x, chunks):
    pos = torch.arange(LENGTH)
    close(layer.decode(x, pos, KVCache(), chunks), layer(x, pos))


@check("window, sinks")
@every
@pytest.mark.parametrize("chunks", [[1] * LENGTH, [5, 1, 1, 4, 1]])
@pytest.mark.parametrize("sinks", [0, 2])
def test_decoding_with_a_window_equals_the_full_pass_with_its_mask(layer, x, chunks, sinks):
    pos = torch.arange(LENGTH)
    full = layer(x, pos, mask=sliding_window(pos, pos, 4, sinks))
    close(layer.decode(x, pos, KVCache(4, sinks), chunks), full)
    assert (full - layer(x, pos)).abs().max() > 1e-3


@check("eviction")
@every
def test_keys_that_are_evicted_are_as_if_masked(layer, x):
    pos, cache, kept = torch.arange(LENGTH), KVCache(), [0, 3, 4, 7]
    layer.decode(x[:, :9], pos[:9], cache, [9])
    cache.keep(torch.tensor(kept))
    found = layer.decode(x[:, 9:], pos[9:], cache, [1, 2])
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[:, [n for n in range(9) if n not in kept]] = False
    close(found, layer(x, pos, mask=mask)[:, :, 9:])


@check("causal")
@every
def test_causal_outputs_do_not_see_the_future(layer, x):
    pos = torch.arange(LENGTH)
    later = torch.cat((x[:, :7], torch.randn_like(x[:, 7:])), 1)
    close(layer(later, pos)[:, :, :7], layer(x, pos)[:, :, :7])
    assert (layer(later, pos, causal=False)[:, :, :7] - layer(x, pos, causal=False)[:, :, :7]).abs().max() > 1e-3


@check("any order")
@every
@pytest.mark.parametrize("causal", [True, False])
def test_tokens_may_be_stored_in_any_order_if_they_keep_their_positions(layer, x, causal):
    pos, order = torch.arange(LENGTH), torch.randperm(LENGTH)
    close(layer(x[:, order], pos[order], causal=causal), layer(x, pos, causal=causal)[:, :, order])


@check("batched = single")
@every_with_backends
def test_positions_of_a_batch_equal_one_by_one(layer, x, backend):
    pos = torch.stack((torch.arange(LENGTH), torch.randperm(LENGTH)))
    both = layer(x, pos, backend=backend)
    for n in range(BATCH):
        close(both[[n]], layer(x[[n]], pos[n]))


@check("left padding")
@every_with_backends
def test_padding_on_the_left_changes_nothing(layer, x, backend):
    pad = 3
    padded = torch.cat((torch.randn_like(x[:, :pad]), x[:, : LENGTH - pad]), 1)
    pos = (torch.arange(LENGTH) - pad).clamp(min=0)
    mask = (torch.arange(LENGTH) >= pad)[None, None, None, :]
    alone = layer(x[:, : LENGTH - pad], torch.arange(LENGTH - pad))
    close(layer(padded, pos, mask=mask, backend=backend)[:, :, pad:], alone)


@check("left padding")
@every
@pytest.mark.parametrize("chunks", [[LENGTH], [4] + [1] * (LENGTH - 4), [1] * LENGTH])
def test_sequences_with_and_without_padding_share_a_batch_and_a_cache(layer, x, chunks):
    pad = 3
    mixed = torch.stack((torch.cat((torch.randn_like(x[0, :pad]), x[0, : LENGTH - pad])), x[1]))
    pos = torch.stack(((torch.arange(LENGTH) - pad).clamp(min=0), torch.arange(LENGTH)))
    real = torch.stack((torch.arange(LENGTH) >= pad, torch.ones(LENGTH, dtype=torch.bool)))
    for found in (
        layer(mixed, pos, mask=real[:, None, None, :]),
        layer(mixed, pos, padding_mask=real),
        layer.decode(mixed, pos, KVCache(), chunks, real=real),
    ):
        close(found[:1, :, pad:], layer(x[:1, : LENGTH - pad], torch.arange(LENGTH - pad)))
        close(found[1:], layer(x[1:], torch.arange(LENGTH)))


@check("packing")
@every_with_backends
def test_packing_sequences_into_one_changes_nothing(layer, x, backend):
    document = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
    pos = torch.cat([torch.arange(n) for n in (5, 4, 3)])
    mask = document[:, None] == document[None, :]
    packed = layer(x, pos, mask=mask, backend=backend)
    for n in range(3):
        inside = document == n
        close(packed[:, :, inside], layer(x[:, inside], pos[inside]))
    leaking = layer(x, pos)  # positions that start again do not keep documents apart
    assert (leaking - packed).abs().max() > 1e-3


@every
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "backend", [pytest.param("sdpa", marks=check("sdpa = dense")), pytest.param("flex", marks=check("flex = dense"))]
)
def test_backends_agree_or_refuse(name, layer, x, backend, causal, record_property):
    pos = torch.arange(LENGTH)
    if serves(name, backend):
        close(layer(x, pos, causal=causal, backend=backend), layer(x, pos, causal=causal))
    else:
        record_property("cell", "refuses")
        with pytest.raises(ValueError, match='use backend="dense"'):
            layer(x, pos, causal=causal, backend=backend)


@check("grouped heads")
@every_with_backends
def test_grouped_heads_equal_repeated_ones(name, layer, x, backend):
    pos = torch.arange(LENGTH)
    if name == "grid, mixed rope":  # its frequencies belong to the heads of the keys
        layer.encoding = MixedRoPE(DIM, HEADS // 2, (3, 4)).double().requires_grad_(False)
    q, k, v = layer.project_heads(x, pos)
    k, v = k[:, ::2], v[:, ::2]
    found = attention(q, k, v, layer.encoding, pos, backend=backend, embedded=True)
    k, v = (y.repeat_interleave(2, 1) for y in (k, v))
    close(found, attention(q, k, v, layer.encoding, pos, embedded=True))


@check("CUDA")
@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("name", "backend"), SERVED)
def test_a_gpu_computes_the_same(name, x, backend):
    layer = Layer(make(name)).requires_grad_(False)
    expected = layer(x.float(), torch.arange(LENGTH))
    found = layer.cuda()(x.float().cuda(), torch.arange(LENGTH, device="cuda"), backend=backend)
    close(found.cpu(), expected, atol=1e-4)


@every
@pytest.mark.parametrize(
    ("dtype", "atol"),
    [
        pytest.param(torch.float32, 1e-4, marks=check("float32")),
        pytest.param(torch.float16, 0.03, marks=check("float16")),
        pytest.param(torch.bfloat16, 0.15, marks=check("bfloat16")),
    ],
)
def test_less_precision_stays_close_to_float64(name, x, dtype, atol, device):
    layer = Layer(make(name)).requires_grad_(False)
    exact = copy.deepcopy(layer).double()(x, torch.arange(LENGTH))
    found = layer.to(device).to(dtype)(x.to(device).to(dtype), torch.arange(LENGTH, device=device))
    assert found.dtype == dtype
    close(found.cpu().double(), exact, atol=atol)


@check("gradients")
@every
def test_every_parameter_gets_a_gradient(name, x, device):
    layer = Layer(make(name)).to(device)
    inputs = x.float().to(device).requires_grad_()
    layer(inputs, torch.arange(LENGTH, device=device)).square().sum().backward()
    for tensor in (inputs, *layer.parameters()):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


@check("gradients")
@every
def test_gradients_are_those_of_finite_differences(name, x):
    layer, pos = Layer(make(name)).double(), torch.arange(5)
    names = [name for name, _ in layer.encoding.named_parameters(prefix="encoding")]
    values = [dict(layer.named_parameters())[name].detach().requires_grad_() for name in names]

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x, pos))

    assert torch.autograd.gradcheck(run, (x[:1, :5].requires_grad_(), *values), fast_mode=True)


@check("short")
@every
@pytest.mark.parametrize("length", [0, 1])
def test_short_sequences(layer, x, length):
    assert layer(x[:, :length], torch.arange(length)).shape == (BATCH, HEADS, length, DIM)


@check("NaN, inf")
@every
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_is_neither_hidden_nor_an_error(layer, x, value):
    x[0, 7] = value
    found = layer(x, torch.arange(LENGTH))
    assert not found[0, :, 7:].isfinite().any()
    assert found[1].isfinite().all()


@check("compile")
@every
def test_compiled_without_a_graph_break_it_is_the_same(layer, x):
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    pos = torch.arange(LENGTH)
    close(compiled(x, pos), layer(x, pos), atol=1e-10)


@check("export")
@every
def test_exported_for_any_length_it_is_the_same(layer, x):
    pos = torch.arange(LENGTH)
    length = torch.export.Dim("length", min=2, max=512)
    shapes = {"x": {1: length}, "pos": {0: length}}
    exported = torch.export.export(layer, (x, pos), dynamic_shapes=shapes).module()
    close(exported(x, pos), layer(x, pos), atol=1e-10)
    close(exported(x[:, :7], pos[:7] + 2), layer(x[:, :7], pos[:7] + 2), atol=1e-10)


@check("save, load")
@every
def test_a_saved_encoding_is_the_same(name, x, layer):
    fresh = Layer(make(name)).double()
    fresh.load_state_dict(layer.state_dict())
    close(fresh(x, torch.arange(LENGTH)), layer(x, torch.arange(LENGTH)))


@check("save, load")
@every
def test_made_without_memory_it_is_the_same_when_it_is_loaded(name, x, layer):
    with torch.device("meta"):
        fresh = Layer(ROWS[name]()).double()
    fresh = fresh.to_empty(device="cpu")
    fresh.load_state_dict(layer.state_dict())
    meant = dict(layer.named_buffers())
    lost = [buffer for buffer, value in fresh.named_buffers() if not torch.equal(value, meant[buffer])]
    assert not lost, f"{name}: name {lost} in `exact`, and compute it in reset_parameters, as ALiBi does its slopes"
    close(fresh(x, torch.arange(LENGTH)), layer(x, torch.arange(LENGTH)))
