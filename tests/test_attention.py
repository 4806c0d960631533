"""posenc.attention against loops, and its backends against one another."""

import itertools
import math
import sys
import warnings

import pytest
import torch
from torch import Tensor

from posenc import ALiBi, DistanceAware, Encoding, NoPE, RoPE, Shaw, T5Bias, attend, attention_weights
from tests.helpers import close

BACKENDS = ["dense", "sdpa", "flex"]
MODULE = sys.modules["posenc._attention.kernels"]
POS12 = torch.arange(12)


class Slope(Encoding):
    """A bias that reads positions: -slope[h] · (i - j)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.arange(1.0, heads + 1, dtype=torch.float64) / 8, requires_grad=False)

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: -self.slope[h] * (qpos[b, i] - kpos[b, j])


class Matrix(Slope):
    """The same, as a matrix for all sequences."""

    def score_bias(self, q, k, qpos, kpos):
        return -self.slope[: q.shape[1], None, None] * (qpos[:, None, :, None] - kpos[:, None, None])


class Content(Encoding):
    """A bias that reads the content of query and key."""

    def score_bias(self, q, k, qpos, kpos):
        first, second = q[..., 0], k[..., 1]  # here, for flex of torch 2.9 takes no constant among the indices
        return lambda b, h, i, j: first[b, h, i] * second[b, h, j]


class Rescaled(Slope):
    """A bias, then a function of the score and the distance."""

    def rescale(self, qpos, kpos):
        return lambda s, b, h, i, j: s.clamp(min=0) * (1 + (qpos[b, i] - kpos[b, j]).abs())


class Mixed(Rescaled):
    """All three doors of attention."""

    def mix(self, weights, v, qpos, kpos):
        distance = (qpos[:, :, None] - kpos[:, None, :]).to(v.dtype)
        return weights @ v + (weights * distance[:, None]).sum(-1, keepdim=True)


ENCODINGS = {
    "nope": NoPE,
    "slope": lambda: Slope(4),
    "matrix": lambda: Matrix(4),
    "content": Content,
    "rescaled": lambda: Rescaled(4),
}
ALL = {**ENCODINGS, "mixed": lambda: Mixed(4)}


def oracle(q, k, v, encoding, qpos, kpos, causal=True, mask=None, scale=None) -> tuple[Tensor, Tensor]:
    """Weights and outputs, one number at a time."""
    batch, heads, queries, dim = q.shape
    keys, groups = k.shape[2], q.shape[1] // k.shape[1]
    qpos, kpos = qpos.expand(batch, queries), kpos.expand(batch, keys)
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask
    mask = mask.expand(batch, heads, queries, keys)
    weights = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    z = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = {}
                for j in range(keys):
                    distance = (qpos[b, i] - kpos[b, j]).item()
                    if not mask[b, h, i, j] or (causal and distance < 0):
                        continue
                    kj = k[b, h // groups, j]
                    s = sum(x * y for x, y in zip(q[b, h, i].tolist(), kj.tolist(), strict=True))
                    s *= 1 / math.sqrt(dim) if scale is None else scale
                    if isinstance(encoding, Slope):
                        s += -encoding.slope[h].item() * distance
                    if isinstance(encoding, Content):
                        s += (q[b, h, i, 0] * kj[1]).item()
                    if isinstance(encoding, Rescaled):
                        s = max(s, 0.0) * (1 + abs(distance))
                    seen[j] = s
                if not seen:
                    continue
                top = max(seen.values())
                total = sum(math.exp(s - top) for s in seen.values())
                for j, s in seen.items():
                    a = weights[b, h, i, j] = math.exp(s - top) / total
                    z[b, h, i] += a * v[b, h // groups, j]
                    if isinstance(encoding, Mixed):
                        z[b, h, i] += a * (qpos[b, i] - kpos[b, j]).item()
    return weights, z


def tensors(queries=4, keys=5, heads=4, grouped=2, dtype=torch.float64, device="cpu", batch=2, dim=6, dim_v=3):
    make = torch.Generator().manual_seed(1)
    shapes = (batch, heads, queries, dim), (batch, grouped, keys, dim), (batch, grouped, keys, dim_v)
    return tuple(torch.randn(s, dtype=torch.float64, generator=make).to(dtype).to(device) for s in shapes)


MASKS = {
    "none": None,
    "padding": torch.tensor([[True] * 5, [False, False, True, True, True]])[:, None, None, :],
    "full": torch.rand(2, 4, 4, 5, generator=torch.Generator().manual_seed(2)) > 0.5,
    "two": torch.rand(4, 5, generator=torch.Generator().manual_seed(3)) > 0.4,
}
POSITIONS = {
    "shared": (torch.arange(1, 5), torch.arange(5)),
    "batched": (torch.tensor([[1, 2, 3, 4], [9, 5, 0, 7]]), torch.tensor([[0, 1, 2, 3, 4], [4, 3, 9, 9, 1]])),
}


CASES = [  # mask, positions, causal
    ("none", "shared", True), ("none", "batched", False), ("padding", "batched", True), ("full", "shared", False),
    ("full", "batched", True), ("two", "shared", True),
]  # fmt: skip
SERVED = [
    (name, backend)
    for name in ALL
    for backend in BACKENDS
    if backend == "dense" or name not in ("mixed", "rescaled") or (name, backend) == ("rescaled", "flex")
]


@pytest.mark.parametrize(("name", "backend"), SERVED)
@pytest.mark.parametrize(("mask", "positions", "causal"), CASES)
def test_attention_equals_loops(name, backend, mask, positions, causal):
    encoding = ALL[name]()
    q, k, v = tensors()
    qpos, kpos = POSITIONS[positions]
    weights, z = oracle(q, k, v, encoding, qpos, kpos, causal, MASKS[mask])
    found = attend(q, k, v, encoding, qpos, kpos, causal=causal, mask=MASKS[mask], backend=backend)
    torch.testing.assert_close(found, z, rtol=0, atol=1e-12)
    if backend == "dense":
        found = attention_weights(q, k, encoding, qpos, kpos, causal=causal, mask=MASKS[mask])
        torch.testing.assert_close(found, weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grouped", [1, 2, 4])
def test_scale_and_grouped_heads(backend, grouped, device):
    q, k, v = tensors(grouped=grouped, dtype=torch.float32, dim=16, dim_v=16)  # a GPU's flex wants 16
    qpos, kpos = POSITIONS["shared"]
    _, z = oracle(q, k, v, NoPE(), qpos, kpos, scale=1.0)
    on = [x.to(device) for x in (q, k, v, qpos, kpos)]
    found = attend(*on[:3], NoPE(), *on[3:], scale=1.0, backend=backend)
    torch.testing.assert_close(found.cpu().double(), z, rtol=0, atol=1e-4)


def test_grouped_heads_share_neighbouring_keys():
    q, k, v = tensors(heads=4, grouped=2)
    pos = POSITIONS["shared"]
    whole = attend(q, k, v, NoPE(), *pos)
    for h in range(4):
        one = attend(q[:, [h]], k[:, [h // 2]], v[:, [h // 2]], NoPE(), *pos)
        torch.testing.assert_close(whole[:, [h]], one)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_whole_triangle(backend, device):
    """As many queries as keys at the same rising positions, which sdpa may call causal."""
    q, k, v = tensors(queries=5, dtype=torch.float32, dim=16, dim_v=16)
    on = [x.to(device) for x in (q, k, v)]
    for pos in (torch.arange(5), torch.arange(5) * 3 - 4, torch.tensor([[0, 1, 2, 3, 4], [2, 3, 5, 7, 11]])):
        _, z = oracle(q, k, v, NoPE(), pos, pos)
        where = pos.to(device)
        for kpos in (where, where.clone()):
            found = attend(*on, NoPE(), where, kpos, backend=backend)
            torch.testing.assert_close(found.cpu().double(), z, rtol=0, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pos", [[4, 3, 2, 1, 0], [0, 1, 1, 2, 2], [0, 1, 2, 0, 1]])
def test_the_same_positions_that_do_not_rise_are_no_triangle(backend, pos):
    q, k, v = tensors(queries=5)
    pos = torch.tensor(pos)
    _, z = oracle(q, k, v, NoPE(), pos, pos)
    torch.testing.assert_close(attend(q, k, v, NoPE(), pos, pos, backend=backend), z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cached_step_sees_every_key(backend):
    """torch's is_causal would show a single query the first key only."""
    q, k, v = tensors(queries=1)
    z = attend(q, k, v, NoPE(), torch.tensor([4]), torch.arange(5), backend=backend)
    _, expected = oracle(q, k, v, NoPE(), torch.tensor([4]), torch.arange(5))
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_may_differ_from_head_to_head(backend, device):
    q, k, v = (x.to(device) for x in tensors(queries=128, keys=128, dim=16, dim_v=16, dtype=torch.float32))
    mask = torch.zeros(2, 4, 128, 128, dtype=torch.bool, device=device)
    mask[0, 0] = True
    mask[1, 1:3, :, ::2] = True
    pos = torch.arange(128, device=device)
    found = attend(q, k, v, NoPE(), pos, pos, causal=False, mask=mask, backend=backend)
    dense = attend(*(x.double() for x in (q, k, v)), NoPE(), pos, pos, causal=False, mask=mask)
    torch.testing.assert_close(found.double(), dense, rtol=0, atol=1e-2)
    assert ((found != 0).any(-1) == mask.any(-1)).all()


@pytest.mark.parametrize("make", [lambda: ALiBi(2, learned=True), lambda: T5Bias(2), lambda: DistanceAware(2),
                                  lambda: Shaw(8, clip=3), lambda: Shaw(8, clip=3, heads=2)])  # fmt: skip
def test_texts_with_the_same_positions_get_what_they_get_with_their_own(make):
    encoding, (q, k, v, weight) = make().double(), torch.randn(4, 3, 2, 5, 8, dtype=torch.float64)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    for pos in (torch.arange(5), torch.arange(5) * torch.tensor([[1], [2], [300]])):
        z = [attend(q, k, v, encoding, *2 * [at]) for at in (pos, pos.expand(3, -1).contiguous())]
        one = [attend(q[n : n + 1], k[n : n + 1], v[n : n + 1], encoding, *2 * [pos.expand(3, -1)[n]]) for n in (0, 2)]
        close(z[0], z[1])
        close(z[0][[0, 2]], torch.cat(one))
        found = (torch.autograd.grad((x * weight).sum(), list(encoding.parameters()), retain_graph=True) for x in z)
        for grads in zip(*found, strict=True):
            close(*grads)


def test_rows_of_weights_sum_to_one_or_zero():
    q, k, _ = tensors()
    weights = attention_weights(q, k, NoPE(), *POSITIONS["batched"], mask=MASKS["full"])
    sums = weights.sum(-1)
    may = MASKS["full"] & (POSITIONS["batched"][1][:, None, None, :] <= POSITIONS["batched"][0][:, None, :, None])
    torch.testing.assert_close(sums, may.any(-1).double())
    assert 0 < (sums == 0).sum() < sums.numel()


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("name", ["nope", "slope"])
def test_a_row_that_sees_nothing_is_zero_and_its_gradient_finite(backend, name, device):
    q, k, v = (x.requires_grad_() for x in tensors(dtype=torch.float32, device=device))
    encoding = ENCODINGS[name]().float().to(device).requires_grad_()
    mask = torch.ones(4, 5, dtype=torch.bool, device=device)
    mask[2] = False
    pos = [p.to(device) for p in POSITIONS["shared"]]
    z = attend(q, k, v, encoding, *pos, mask=mask, backend=backend)
    z.sum().backward()
    assert (z[:, :, 2] == 0).all()
    assert (q.grad[:, :, 2] == 0).all()
    for x in (q, k, v, *encoding.parameters()):
        assert x.grad.isfinite().all()
        assert x.grad.abs().sum() > 0


def test_a_row_may_see_nothing_where_numbers_are_not_known_in_advance():
    q, k, v = tensors(dtype=torch.float32)
    sees, blind = torch.ones(4, 5, dtype=torch.bool), torch.zeros(4, 5, dtype=torch.bool)

    def layer(q, k, v, mask):
        return attend(q, k, v, NoPE(), torch.arange(4), torch.arange(5), causal=False, mask=mask)

    each = torch.func.vmap(layer, in_dims=(None, None, None, 0))(q, k, v, torch.stack((sees, blind)))
    assert (each[1] == 0).all()
    torch.testing.assert_close(each[0], layer(q, k, v, sees))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, and warns of every check of a shape
        traced = torch.jit.trace(layer, (q, k, v, sees), check_trace=False)
    assert (traced(q, k, v, blind) == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_whose_bias_shuts_out_all_it_may_see_is_zero(backend):
    class Window(Encoding):
        def score_bias(self, q, k, qpos, kpos):
            return lambda b, h, i, j: torch.where(qpos[b, i] - kpos[b, j] < 3, 0.0, -torch.inf)

    q, k, v = (x.requires_grad_(backend != "flex") for x in tensors(dtype=torch.float32))
    qpos = torch.tensor([0, 2, 5, 9])  # 9 is 3 or more from every key
    z = attend(q, k, v, Window(), qpos, torch.arange(5), backend=backend)
    assert (z[:, :, 3] == 0).all()
    assert (z[:, :, :3] != 0).all()
    if backend != "flex":
        z.sum().backward()
        for x in (q, k, v):
            assert x.grad.isfinite().all()


def test_a_large_score_beside_a_masked_one_does_not_leak():
    q, k, v = torch.full((1, 1, 1, 1), 1e19), torch.tensor([[[[-1e19], [1e19]]]]), torch.tensor([[[[1.0], [2.0]]]])
    for backend in BACKENDS:
        z = attend(q, k, v, NoPE(), torch.tensor([0]), torch.arange(2), backend=backend)
        assert z.item() == 1.0


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_dense_attention(name):
    q, k, v = (x.requires_grad_() for x in tensors(queries=2, keys=3, batch=1, heads=2, grouped=1, dim=2, dim_v=2))
    encoding = ALL[name]()
    qpos, kpos = torch.arange(1, 3), torch.arange(3)
    assert torch.autograd.gradcheck(lambda *a: attend(*a, encoding, qpos, kpos), (q, k, v))


@pytest.mark.parametrize("name", ["nope", "slope", "content"])
def test_sdpa_has_the_gradients_of_dense(name, device):
    encoding = ENCODINGS[name]().to(device).requires_grad_()
    pos = [p.to(device) for p in POSITIONS["batched"]]
    found = []
    for backend in ("dense", "sdpa"):
        inputs = [x.requires_grad_() for x in tensors(device=device)]
        z = attend(*inputs, encoding, *pos, backend=backend)
        found.append(torch.autograd.grad(z.square().sum(), [*inputs, *encoding.parameters()]))
    for dense, sdpa in zip(*found, strict=True):
        torch.testing.assert_close(dense, sdpa)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["nope", "slope"])
def test_half_precision(dtype, backend, name, device):
    encoding = ENCODINGS[name]().float().to(device)
    inputs = tensors(dtype=dtype, device=device, dim=16, dim_v=16)
    pos = [p.to(device) for p in POSITIONS["shared"]]
    z = attend(*inputs, encoding, *pos, backend=backend)
    assert z.dtype == dtype
    assert attention_weights(*inputs[:2], encoding, *pos).dtype == torch.float32
    exact = attend(*(x.double() for x in inputs), encoding.double(), *pos)
    torch.testing.assert_close(z.double(), exact, rtol=0, atol=2e-2)


def test_scores_of_half_precision_are_summed_in_float32():
    q = torch.full((1, 1, 1, 64), 40.0, dtype=torch.float16)  # 40 · 40 · 64 = 102 400, beyond float16
    z = attend(q, q, q, NoPE(), torch.zeros(1), torch.zeros(1), scale=1.0)
    assert torch.equal(z, q)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 3), (1, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_short_sequences(backend, queries, keys, masked):
    q, k, v = tensors(queries, keys)
    mask = torch.ones(queries, keys, dtype=torch.bool) if masked else None
    z = attend(q, k, v, RoPE(6), torch.arange(queries), torch.arange(keys), mask=mask, backend=backend)
    assert z.shape == (2, 4, queries, 3)
    if (queries, keys) == (1, 1):
        torch.testing.assert_close(z, v.repeat_interleave(2, dim=1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_without_any_key_are_refused(backend):
    q, k, v = tensors(3, 0)
    with pytest.raises(ValueError, match=r"3 queries .*extend"):
        attend(q, k, v, NoPE(), torch.arange(3), torch.arange(0), backend=backend)


def test_backends_refuse_what_they_cannot_serve():
    q, k, v = tensors()
    pos = POSITIONS["shared"]
    for name, backend, door in (
        ("rescaled", "sdpa", "rescale"),
        ("mixed", "flex", "mix"),
        ("mixed", "sdpa", "rescale"),
    ):
        with pytest.raises(ValueError, match=rf'"{backend}" .*{door}.*backend="dense"'):
            attend(q, k, v, ALL[name](), *pos, backend=backend)
    with pytest.raises(ValueError, match=r"backend .*'flash'.*'dense', 'sdpa'"):
        attend(q, k, v, NoPE(), *pos, backend="flash")


def test_a_block_that_one_head_hides_is_looked_at_for_the_others(device, monkeypatch):
    """A mask (H, Lq, Lk) has heads too. A CPU looks at all blocks anyhow, so their list is compared as well."""
    from torch.nn.attention import flex_attention

    made, create = [], flex_attention.create_block_mask
    monkeypatch.setattr(flex_attention, "create_block_mask", lambda *a, **o: made.append(create(*a, **o)) or made[-1])
    q, k, v = tensors(4, 256, 2, 2, torch.float32, device, dim=16, dim_v=16)
    mask = torch.ones(2, 4, 256, dtype=torch.bool, device=device)
    mask[0, :, :128] = False
    pos = torch.arange(252, 256, device=device), torch.arange(256, device=device)
    found, expected = (attend(q, k, v, NoPE(), *pos, mask=mask, backend=backend) for backend in ("flex", "dense"))
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-2 if device == "cuda" else 1e-5)
    assert [row[0] for row in made[0].to_dense()[0].tolist()] == [[0, 1], [1, 1]]


def test_flex_refuses_gradients_on_a_cpu():
    q, k, v = tensors()
    pos = POSITIONS["shared"]
    remedy = r'no gradients on a CPU: use backend="dense" or "sdpa", or torch\.no_grad\(\)'
    with pytest.raises(ValueError, match=remedy):
        attend(q.requires_grad_(), k, v, NoPE(), *pos, backend="flex")
    with pytest.raises(ValueError, match=remedy):
        attend(q.detach(), k, v, Slope(4).requires_grad_(), *pos, backend="flex")
    with torch.no_grad():
        found = attend(q, k, v, Slope(4).requires_grad_(), *pos, backend="flex")
        torch.testing.assert_close(found, attend(q, k, v, Slope(4), *pos))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_flex_has_gradients_on_a_gpu():
    pos = torch.arange(64, device="cuda")
    shape = {"queries": 64, "keys": 64, "dim": 32, "dim_v": 32, "dtype": torch.float32, "device": "cuda"}
    found = []
    for backend in ("dense", "flex"):
        inputs = [x.requires_grad_() for x in tensors(**shape)]
        encoding = Slope(4).float().cuda()
        z = attend(*inputs, encoding, pos, pos, backend=backend)
        found.append(torch.autograd.grad(z.square().sum(), inputs))
    for dense, flex in zip(*found, strict=True):
        torch.testing.assert_close(dense, flex, rtol=0, atol=2e-2)


@pytest.mark.parametrize(
    ("make", "programs"),
    [
        (lambda n: NoPE(), 1),
        (lambda n: ALiBi(4), 1),
        (lambda n: T5Bias(4, 8, 10), 1),
        (lambda n: DistanceAware(4), 1),
        (lambda n: T5Bias(4, 8, 10 + n), 3),  # torch cannot compile a kernel for a reach that it does not know
    ],
)
def test_layers_share_the_program_that_flex_compiles(make, programs, monkeypatch):
    from torch._dynamo.testing import CompileCounter
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(flex_attention, fullgraph=True, backend=counter)
    monkeypatch.setattr(MODULE, "_flex_kernel", lambda device_type: compiled)
    q, k, v = tensors(12, 12, dtype=torch.float32, dim=16, dim_v=16)
    with torch.no_grad():
        for n in range(3):
            encoding = make(n)
            found, expected = (attend(q, k, v, encoding, POS12, POS12, backend=name) for name in ("flex", "dense"))
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert counter.frame_count == programs


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_flex_keeps_its_kernel_for_many_programs_and_small_heads_on_a_gpu():
    pos = torch.arange(64, device="cuda")
    for batch, dim, reach in itertools.product((1, 2), (8, 32), (10, 20, 30)):
        shape = {"queries": 64, "keys": 64, "dim": dim, "dim_v": dim, "dtype": torch.float32, "device": "cuda"}
        q, k, v = tensors(**shape, batch=batch)
        for encoding in (NoPE(), ALiBi(4).cuda(), T5Bias(4, 8, reach).cuda()):
            with torch.no_grad():
                flex, dense = (attend(q, k, v, encoding, pos, pos, backend=backend) for backend in ("flex", "dense"))
            torch.testing.assert_close(flex, dense, rtol=0, atol=2e-2)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_in_decoding_no_kernel_plans_for_each_length(monkeypatch):
    planning = []
    kernel = MODULE.scaled_dot_product_attention
    seen = torch.backends.cuda.cudnn_sdp_enabled
    monkeypatch.setattr(
        MODULE, "scaled_dot_product_attention", lambda *a, **o: planning.append(seen()) or kernel(*a, **o)
    )
    q, k, v = tensors(queries=1, keys=64, dim=32, dim_v=32, dtype=torch.bfloat16, device="cuda")
    pos = torch.arange(64, device="cuda")
    attend(q, k, v, ALiBi(4).cuda(), pos[-1:], pos, backend="sdpa")
    assert planning == [False] and seen()


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_compiled_without_a_graph_break_it_is_the_same(backend):
    torch._dynamo.reset()
    rope = RoPE(6)

    def layer(q, k, v, qpos, kpos, mask):
        return attend(rope.query(q, qpos), rope.key(k, kpos), v, rope, qpos, kpos, mask=mask, backend=backend)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    q, k, v = tensors(dtype=torch.float32)
    for positions in POSITIONS.values():
        args = q, k, v, *positions, MASKS["two"]
        torch.testing.assert_close(compiled(*args), layer(*args))


def test_bad_input_is_refused():
    q, k, v = tensors()
    qpos, kpos = POSITIONS["shared"]
    cases = [
        ({"mask": torch.zeros(4, 5)}, r"mask .*float32.*bool"),
        (
            {"mask": torch.ones(2, 5, dtype=torch.bool)},
            r"\(B, Lk\).*mask\[:, None, None, :\]",
        ),
        ({"mask": torch.ones(1, 1, 1, 1, 1, dtype=torch.bool)}, r"broadcast .*\(2, 4, 4, 5\)"),
        ({"q": q[0]}, r"q .*\(4, 4, 6\).*q\[:, None\]"),
        ({"k": k[:1]}, r"2, 1 and 2.*expand"),
        ({"q": q[:, :3]}, r"3, 2 and 2 heads.*divides"),
        ({"v": v[:, :1]}, r"4, 2 and 1 heads"),
        ({"k": k[:, :0], "v": v[:, :0]}, r"4, 0 and 0 heads"),
        ({"k": k[..., :4]}, r"same d in q and k"),
        ({"v": v[:, :, :4]}, r"value for each key"),
        ({"qpos": kpos}, r"qpos .*5.* 4 .*torch\.arange\(4\)"),
        ({"kpos": qpos}, r"kpos .*4.* 5 .*torch\.arange\(5\)"),
        ({"kpos": kpos.expand(3, 5)}, r"kpos .* 3 .* 2"),
        ({"kpos": torch.ones(5, dtype=torch.bool)}, r"kpos .*bool.*torch\.arange"),
        ({"qpos": torch.tensor(3)}, r"qpos .*\(\).*\(L,\)"),
    ]
    for change, message in cases:
        arguments = {"q": q, "k": k, "v": v, "encoding": NoPE(), "qpos": qpos, "kpos": kpos} | change
        for backend in BACKENDS:
            with pytest.raises(ValueError, match=message):
                attend(**arguments, backend=backend)
        if "v" not in change:
            arguments.pop("v")
            with pytest.raises(ValueError, match=message.replace("2, 1 and 2", "2, 1 and 1")):
                attention_weights(**arguments)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 5), (1, 2, 4, 4, 5)])
def test_a_bias_of_another_shape_is_refused(backend, shape):
    class Odd(Encoding):
        def score_bias(self, q, k, qpos, kpos):
            return torch.zeros(shape)

    said = rf"score_bias .*\({shape[0]}, .* broadcast .*\(2, 4, 4, 5\)"
    with pytest.raises(ValueError, match=said):
        attend(*tensors(dtype=torch.float32), Odd(), torch.arange(1, 5), torch.arange(5), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bias_may_broadcast_or_be_a_number(backend):
    class Rows(Encoding):
        def score_bias(self, q, k, qpos, kpos):
            return kpos[:, None, None].to(q.dtype) / 4 if backend == "flex" else kpos[0].to(q.dtype) / 4

    class Number(Encoding):
        def score_bias(self, q, k, qpos, kpos):
            return lambda b, h, i, j: 1.5 + 0 * b

    class Keys(Encoding):
        def score_bias(self, q, k, qpos, kpos):
            return lambda b, h, i, j: kpos[b, j].to(q.dtype) / 4

    inputs, pos = tensors(dtype=torch.float32), (torch.arange(1, 5), torch.arange(5))
    for one, other in ((Rows(), Keys()), (Number(), NoPE())):
        torch.testing.assert_close(
            attend(*inputs, one, *pos, backend=backend), attend(*inputs, other, *pos, backend=backend)
        )
