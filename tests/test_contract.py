"""What every encoding must keep, in one loop over all of them."""

import copy

import pytest
import torch
from torch import Tensor

from posenc import ENCODINGS, Encoding, KVCache, attend

BATCH, HEADS, DIM, LENGTH = 2, 4, 8, 12
MODEL = HEADS * DIM
BACKENDS = ["dense", "sdpa", "flex"]


def make(name: str) -> Encoding:
    encoding = ENCODINGS[name](model_dim=MODEL, heads=HEADS, head_dim=DIM, length=LENGTH)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def serves(name: str, backend: str) -> bool:
    refused = {"dense": set(), "sdpa": {"rescale", "mix"}, "flex": {"mix"}}
    return not refused[backend] & set(make(name).doors)


every = pytest.mark.parametrize("name", ENCODINGS)
every_with_backends = pytest.mark.parametrize(
    ("name", "backend"), [(name, backend) for name in ENCODINGS for backend in BACKENDS if serves(name, backend)]
)


class Layer(torch.nn.Module):
    """One layer of attention, with random weights."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding
        self.project = torch.nn.Linear(MODEL, 3 * MODEL)

    def heads(self, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.encoding.embed(x, pos)
        q, k, v = self.project(x).unflatten(-1, (3, HEADS, DIM)).permute(2, 0, 3, 1, 4)
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def forward(self, x: Tensor, pos: Tensor, **options: object) -> Tensor:
        return attend(*self.heads(x, pos), self.encoding, pos, pos, **options)  # (B, H, L, d)

    def step(self, x: Tensor, pos: Tensor, cache: KVCache) -> Tensor:
        q, k, v = self.heads(x, pos)
        k, v, kpos = cache.extend(k, v, pos)
        return attend(q, k, v, self.encoding, pos, kpos)


@pytest.fixture
def layer(name: str) -> Layer:
    return Layer(make(name)).double().requires_grad_(False)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(BATCH, LENGTH, MODEL, dtype=torch.float64)


def close(found: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


@every
@pytest.mark.parametrize("chunks", [[1] * LENGTH, [5, 1, 1, 4, 1], [7, 5], [LENGTH]])
@pytest.mark.parametrize("batched", [False, True])
def test_cached_decoding_equals_the_full_pass(layer, x, chunks, batched):
    pos = torch.stack((torch.arange(LENGTH), torch.arange(LENGTH))) if batched else torch.arange(LENGTH)
    full, cache, start, parts = layer(x, pos), KVCache(), 0, []
    for size in chunks:
        parts.append(layer.step(x[:, start : start + size], pos[..., start : start + size], cache))
        start += size
    close(torch.cat(parts, 2), full)
    assert len(cache) == LENGTH


@every
def test_causal_outputs_do_not_see_the_future(layer, x):
    pos = torch.arange(LENGTH)
    later = torch.cat((x[:, :7], torch.randn_like(x[:, 7:])), 1)
    close(layer(later, pos)[:, :, :7], layer(x, pos)[:, :, :7])
    assert (layer(later, pos, causal=False)[:, :, :7] - layer(x, pos, causal=False)[:, :, :7]).abs().max() > 1e-3


@every
@pytest.mark.parametrize("causal", [True, False])
def test_tokens_may_be_stored_in_any_order_if_they_keep_their_positions(layer, x, causal):
    pos, order = torch.arange(LENGTH), torch.randperm(LENGTH)
    close(layer(x[:, order], pos[order], causal=causal), layer(x, pos, causal=causal)[:, :, order])


@every_with_backends
def test_positions_of_a_batch_equal_one_by_one(layer, x, backend):
    pos = torch.stack((torch.arange(LENGTH), torch.randperm(LENGTH)))
    both = layer(x, pos, backend=backend)
    for n in range(BATCH):
        close(both[[n]], layer(x[[n]], pos[n]))


@every_with_backends
def test_padding_on_the_left_changes_nothing(layer, x, backend):
    pad = 3
    padded = torch.cat((torch.randn_like(x[:, :pad]), x[:, : LENGTH - pad]), 1)
    pos = (torch.arange(LENGTH) - pad).clamp(min=0)
    mask = (torch.arange(LENGTH) >= pad)[None, None, None, :]
    alone = layer(x[:, : LENGTH - pad], torch.arange(LENGTH - pad))
    close(layer(padded, pos, mask=mask, backend=backend)[:, :, pad:], alone)


@every
def test_sequences_with_and_without_padding_share_a_batch(layer, x):
    pad = 3
    mixed = torch.stack((torch.cat((torch.randn_like(x[0, :pad]), x[0, : LENGTH - pad])), x[1]))
    pos = torch.stack(((torch.arange(LENGTH) - pad).clamp(min=0), torch.arange(LENGTH)))
    mask = torch.stack((torch.arange(LENGTH) >= pad, torch.ones(LENGTH, dtype=torch.bool)))[:, None, None, :]
    found = layer(mixed, pos, mask=mask)
    close(found[:1, :, pad:], layer(x[:1, : LENGTH - pad], torch.arange(LENGTH - pad)))
    close(found[1:], layer(x[1:], torch.arange(LENGTH)))


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
@pytest.mark.parametrize("backend", ["sdpa", "flex"])
@pytest.mark.parametrize("causal", [True, False])
def test_backends_agree_or_refuse(name, layer, x, backend, causal):
    pos = torch.arange(LENGTH)
    if serves(name, backend):
        close(layer(x, pos, causal=causal, backend=backend), layer(x, pos, causal=causal))
    else:
        with pytest.raises(ValueError, match='use backend="dense"'):
            layer(x, pos, causal=causal, backend=backend)


@every
def test_a_gpu_computes_the_same(name, x, device):
    layer = Layer(make(name))
    expected = layer(x.float(), torch.arange(LENGTH))
    found = layer.to(device)(x.float().to(device), torch.arange(LENGTH, device=device))
    close(found.cpu(), expected, atol=1e-4)


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_close(name, x, dtype, device):
    layer = Layer(make(name)).requires_grad_(False)
    exact = copy.deepcopy(layer)(x.float(), torch.arange(LENGTH))
    found = layer.to(device).to(dtype)(x.to(device).to(dtype), torch.arange(LENGTH, device=device))
    assert found.dtype == dtype
    close(found.cpu().float(), exact, atol=0.1)


@every
def test_every_parameter_gets_a_gradient(name, x, device):
    layer = Layer(make(name)).to(device)
    inputs = x.float().to(device).requires_grad_()
    layer(inputs, torch.arange(LENGTH, device=device)).square().sum().backward()
    for tensor in (inputs, *layer.parameters()):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


@every
@pytest.mark.parametrize("length", [0, 1])
def test_short_sequences(layer, x, length):
    assert layer(x[:, :length], torch.arange(length)).shape == (BATCH, HEADS, length, DIM)


@every
def test_compiled_without_a_graph_break_it_is_the_same(layer, x):
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    pos = torch.arange(LENGTH)
    close(compiled(x, pos), layer(x, pos), atol=1e-10)


@every
def test_a_saved_encoding_is_the_same(name, x, layer):
    fresh = Layer(make(name)).double()
    fresh.load_state_dict(layer.state_dict())
    close(fresh(x, torch.arange(LENGTH)), layer(x, torch.arange(LENGTH)))
