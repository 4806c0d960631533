"""posenc.transformer_xl against loops, the paper's shift, and what it may not store."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from posenc import KVCache, NoPE, attend, attention_weights, sinusoidal
from posenc.transformer_xl import TransformerXL, _distances, anywhere, relative_shift

PASS = {"few": (2, 5), "many": (12, 12)}  # (Lq, Lk) whose products are multiplied as (x W) R, or as x (W R)


@torch.no_grad()
def oracle(xl: TransformerXL, q: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
    """(q_i + v) · W R_(i-j) / √d, one number after the other; qpos (B, Lq), kpos (B, Lk)."""
    out = torch.zeros(*q.shape[:3], kpos.shape[1], dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in out.shape)).tolist():
        distance = float(qpos[b, i] - kpos[b, j])
        if xl.clamp is not None:
            distance = max(-xl.clamp, min(xl.clamp, distance))
        half = xl.model_dim // 2
        angles = [distance / xl.base ** (2 * t / xl.model_dim) for t in range(half)]
        wave = torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)
        for c in range(xl.head_dim):
            rho = float(xl.weight[h * xl.head_dim + c].double() @ wave)
            out[b, h, i, j] += float(q[b, h, i, c] + xl.v[h, c]) * rho / math.sqrt(xl.head_dim)
    return out


def make(model_dim: int = 12, heads: int = 2, head_dim: int = 4, **options: object) -> TransformerXL:
    xl = TransformerXL(model_dim, heads, head_dim, **options).double()
    for parameter in xl.parameters():
        torch.nn.init.normal_(parameter)
    return xl


def vectors(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def batched(*pos: Tensor, batch: int = 2) -> list[Tensor]:
    return [p.expand(batch, -1) for p in pos]


def dense(xl: TransformerXL, q: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
    """The bias for raw queries, as a matrix."""
    return xl.score_bias(xl.query(q, qpos), q, qpos, kpos)


def close(found: Tensor, expected: Tensor, atol: float = 1e-11) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


# The shift


@given(queries=st.integers(1, 7), extra=st.integers(0, 6), both=st.booleans())
def test_the_shift_gathers_what_each_key_means(queries, extra, both):
    keys = queries + extra
    columns = keys + queries - 1 if both else keys
    x = torch.arange(6 * queries * columns).reshape(2, 3, queries, columns)
    found = relative_shift(x, keys if both else None)
    assert found.shape == (2, 3, queries, keys)
    for i in range(queries):
        for j in range(keys):
            distance = extra + i - j  # the last query is at the last key
            if distance >= 0 or both:
                assert torch.equal(found[..., i, j], x[..., i, keys - 1 - distance])
            else:
                assert torch.equal(found[..., i, j], x[..., i + 1, j - extra - i - 1])  # what the next row begins with


@given(queries=st.integers(1, 7), extra=st.integers(0, 6))
def test_the_shift_equals_padding_and_reshaping_where_keys_are_not_masked(queries, extra):
    keys = queries + extra
    x = vectors(2, queries, keys)
    padded = torch.cat((x.new_zeros(2, queries, 1), x), -1)
    paper = padded.view(2, keys + 1, queries)[:, 1:].reshape(2, queries, keys)
    assert torch.equal(relative_shift(x).tril(extra), paper.tril(extra))


def test_the_shift_takes_more_distances_than_it_needs_and_fewer():
    x = vectors(3, 20)
    both = relative_shift(x[:, :9], 7)
    assert torch.equal(relative_shift(x, 7)[:, :], both)
    assert torch.equal(relative_shift(x[:, :8].contiguous(), 7)[1:], both[1:])  # one future key is enough for these
    assert torch.equal(relative_shift(x[:1], 7), x[:1, :7])
    assert torch.equal(relative_shift(x.mT.contiguous().mT[:, :9], 7), both)  # any memory order


def test_the_shift_computes_nothing():
    x = vectors(4, 6)
    shifted = relative_shift(x)
    assert shifted.data_ptr() == x[0, 3:].data_ptr()
    assert shifted.stride() == (5, 1)
    assert torch.autograd.gradcheck(relative_shift, x.requires_grad_())


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 3), (2, 2)])
def test_short_shifts(shape):
    assert relative_shift(vectors(2, *shape)).shape == (2, *shape)


@pytest.mark.parametrize(
    ("shape", "keys", "said"),
    [
        ((2, 4), 5, "4 columns for 2 queries and 5 keys: use one for each distance from 4 down to 0, .* on to -1"),
        ((3, 2), None, "2 columns for 3 queries and 2 keys: use one for each distance from 1 down to 0, .* on to -2"),
        ((2, 4), 0, "4 columns for 2 queries and 0 keys"),
    ],
)
def test_shifts_without_enough_columns_are_refused(shape, keys, said):
    with pytest.raises(ValueError, match=said):
        relative_shift(vectors(*shape), keys)


# The bias


@settings(max_examples=30)
@given(
    model_dim=st.integers(1, 6).map(lambda n: 2 * n),
    heads=st.integers(1, 3),
    head_dim=st.integers(1, 4),
    positions=st.lists(st.integers(-30, 30), min_size=2, max_size=9),
    queries=st.integers(1, 8),
    clamp=st.none() | st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_the_bias_equals_loops_for_any_positions(model_dim, heads, head_dim, positions, queries, clamp, seed):
    torch.manual_seed(seed)
    xl = make(model_dim, heads, head_dim, clamp=clamp, base=100.0)
    kpos = torch.stack((torch.tensor(positions), torch.tensor(positions).flip(0) * 7))
    qpos = kpos[:, : min(queries, len(positions) - 1)] + 1
    q = vectors(2, heads, qpos.shape[1], head_dim)
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))


@pytest.mark.parametrize("scale", [1, 1000, 0.37])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_positions_in_a_row_or_far_apart_or_between_tokens_equal_loops(lengths, scale):
    xl, kpos = make(), torch.arange(lengths[1]) * scale
    kpos = kpos.double() if scale == 0.37 else kpos
    qpos, kpos = batched(kpos[-lengths[0] :], kpos)
    q = vectors(2, 2, lengths[0], 4)
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))


@pytest.mark.parametrize("count", [1, 127, 128, 129, 255, 256, 257, 700])
def test_blocks_of_any_number_of_distances_equal_loops(count):
    xl, q = make(4, 1, 2), vectors(1, 1, 1, 2)
    qpos, kpos = torch.tensor([[count - 1]]), torch.arange(count)[None]
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))
    close(dense(xl, q, qpos - count, kpos), oracle(xl, q, qpos - count, kpos))  # all keys lie in the future


@pytest.mark.parametrize("lengths", [(1, 12), *PASS.values()], ids=["step", *PASS])
@pytest.mark.parametrize(
    "order",
    [lambda x: x, lambda x: x.flip(-1), lambda x: x.roll(1, -1), lambda x: x * 2],
    ids=["rising", "falling", "rolled", "in gaps"],
)
@pytest.mark.parametrize("ahead", [0, 3, -3])
def test_positions_in_any_order_equal_loops(lengths, order, ahead):
    xl, (queries, keys) = make(), lengths
    kpos = order(torch.arange(keys))
    q, (qpos, kpos) = vectors(2, 2, queries, 4), batched(torch.arange(keys)[-queries:] + ahead, kpos)
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))
    close(dense(xl, q, qpos.flip(-1), kpos), oracle(xl, q, qpos.flip(-1), kpos))


@pytest.mark.parametrize("lengths", [(1, 12), *PASS.values()], ids=["step", *PASS])
def test_sequences_that_begin_elsewhere_equal_loops(lengths):
    xl, (queries, keys) = make(), lengths
    q, pos = vectors(2, 2, queries, 4), torch.tensor([[0], [5]])
    qpos, kpos = pos + torch.arange(keys)[-queries:], pos + torch.arange(keys)
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))
    close(dense(xl, q, qpos, kpos.flip(0)), oracle(xl, q, qpos, kpos.flip(0)))


@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_the_bias_equals_the_papers_shift_of_products_with_all_distances(lengths):
    (queries, keys), xl = lengths, make(20, 3, 5)
    q, kpos = vectors(2, 3, queries, 5), torch.arange(keys)
    rho = sinusoidal(torch.arange(keys - 1.0, -queries, -1, dtype=torch.float64), 20, layout="half") @ xl.weight.mT
    product = (q + xl.v[:, None]) @ rho.unflatten(-1, (3, 5)).permute(1, 2, 0) / math.sqrt(5)
    found = dense(xl, q, *batched(kpos[-queries:], kpos))
    close(found, relative_shift(product, keys))
    past = kpos <= kpos[-queries:, None]
    close(found.where(past, 0), relative_shift(product[..., :keys].contiguous()).where(past, 0))


def test_the_score_has_four_terms():
    xl, q, k, pos = make(10, 2, 3), vectors(1, 2, 4, 3), vectors(1, 2, 4, 3), torch.arange(4)
    rho = sinusoidal((pos[:, None] - pos).double(), 10, layout="half") @ xl.weight.mT
    rho = rho.unflatten(-1, (2, 3)).permute(2, 0, 1, 3)  # (H, Lq, Lk, d)
    terms = [
        torch.einsum("bhid, bhjd -> bhij", q, k),
        torch.einsum("bhid, hijd -> bhij", q, rho),
        torch.einsum("hd, bhjd -> bhj", xl.u, k)[:, :, None],
        torch.einsum("hd, hijd -> hij", xl.v, rho),
    ]
    found = attention_weights(xl.query(q, pos), k, xl, pos, pos, causal=False)
    close(found, (sum(terms) / math.sqrt(3)).softmax(-1))


@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_without_its_parameters_it_is_nope(lengths):
    xl = make()
    pos, (queries, keys) = torch.arange(lengths[1]), lengths
    q, k, v = vectors(2, 2, queries, 4), vectors(2, 2, keys, 4), vectors(2, 2, keys, 4)
    nope = attend(q, k, v, NoPE(), pos[-queries:], pos)

    def run() -> Tensor:
        return attend(xl.query(q, pos[-queries:]), k, v, xl, pos[-queries:], pos)

    assert (run() - nope).abs().max() > 1e-2
    with torch.no_grad():
        xl.u.zero_()
        xl.weight.zero_()
    close(run(), nope)  # without distances v does nothing
    assert xl.v.abs().max() > 0.1
    with torch.no_grad():
        xl.u.fill_(1.0)
    assert (run() - nope).abs().max() > 1e-2


@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
@pytest.mark.parametrize("spread", [1, 1000])
def test_a_shift_of_all_positions_changes_no_bit(lengths, spread):
    xl, pos = make().float(), torch.arange(lengths[1]) * spread
    q = vectors(2, 2, lengths[0], 4).float()
    here = dense(xl, q, *batched(pos[-lengths[0] :], pos))
    for shift in (1, -17, 10**9):
        assert torch.equal(dense(xl, q, *batched(pos[-lengths[0] :] + shift, pos + shift)), here)


def test_far_distances_keep_the_precision_of_float32_angles():
    xl, q, pos = make(64, 1, 8), vectors(1, 1, 1, 8), torch.arange(4096)[None]
    exact = dense(xl, q, pos[:, -1:], pos)
    found = dense(copy.deepcopy(xl).float(), q.float(), pos[:, -1:], pos)
    assert (found - exact).abs().max() < 1e-3 * exact.abs().max()
    single = xl.float()
    spread = pos[:, ::64]  # 64 keys: too far apart for a table
    assert _distances(pos[:, -1:], spread, None) is None
    assert (dense(single, q.float(), pos[:, -1:], spread) - exact[..., ::64]).abs().max() < 1e-3 * exact.abs().max()


@pytest.mark.parametrize("clamp", [0, 1, 6])
def test_distances_beyond_the_clamp_count_as_the_clamp(clamp):
    xl, pos = make(clamp=clamp), torch.arange(9)
    q = vectors(2, 2, 9, 4)
    found = dense(xl, q, *batched(pos, pos))
    for i in range(9):
        close(found[..., i, : max(0, i - clamp)], found[..., i, [max(0, i - clamp)]].expand(2, 2, max(0, i - clamp)))
        future = min(8, i + clamp)
        close(found[..., i, future:], found[..., i, [future]].expand(2, 2, 9 - future))
    free = copy.deepcopy(xl)
    free.clamp = None
    near = (pos[:, None] - pos).abs() <= clamp
    close(found.where(near, 0), dense(free, q, *batched(pos, pos)).where(near, 0))
    free.clamp = 8
    close(dense(free, q, *batched(pos, pos)), dense(make_like(free, None), q, *batched(pos, pos)))


def make_like(xl: TransformerXL, clamp: int | None) -> TransformerXL:
    other = copy.deepcopy(xl)
    other.clamp = clamp
    return other


def test_clamped_distances_may_be_as_far_as_they_like():
    xl, q = make(clamp=5), vectors(1, 2, 2, 4)
    qpos, kpos = torch.tensor([[10**12, 3]]), torch.tensor([[0, 10**12 - 2, 7]])
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))


def test_queries_of_a_segment_over_memory_and_segment_equal_those_of_the_whole():
    xl, pos = make(), torch.arange(12)
    q, k, v = vectors(3, 2, 2, 12, 4)
    q = xl.query(q, pos)
    whole = attend(q, k, v, xl, pos, pos)
    for start in range(0, 12, 4):
        part = slice(start, start + 4)
        memory = slice(0, start + 4)
        close(attend(q[:, :, part], k[:, :, memory], v[:, :, memory], xl, pos[part], pos[memory]), whole[:, :, part])
        later = pos + 10**6  # where a segment lies in the text does not matter
        found = attend(q[:, :, part], k[:, :, memory], v[:, :, memory], xl, later[part], later[memory])
        close(found, whole[:, :, part])


def test_cached_keys_know_no_position():
    xl, pos, cache = make(), torch.arange(6), KVCache()
    q, k, v = vectors(3, 2, 2, 6, 4)
    assert xl.doors == ("query", "score_bias")
    assert not xl.raw_keys
    assert not xl.causal_only
    assert xl.key(k, pos) is k
    full = attend(xl.query(q, pos), k, v, xl, pos, pos)
    for n in range(6):
        at = slice(n, n + 1)
        held = cache.extend(k[:, :, at], v[:, :, at], pos[at], xl)
        close(attend(xl.query(q[:, :, at], pos[at]), *held[:2], xl, pos[at], held[2]), full[:, :, at])
    assert torch.equal(held[0], k)


def test_queries_get_u_in_their_own_dtype():
    xl = make(6, 2, 3)
    q = vectors(1, 2, 4, 3)
    assert torch.equal(xl.query(q, torch.arange(4)), q + xl.u[None, :, None])
    assert xl.query(q.half(), torch.arange(4)).dtype == torch.float16


# What it costs


class Sizes(TorchDispatchMode):
    """Records how many numbers the results of operations have."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        self.of[name] = max([self.of.get(name, 0), *(x.numel() for x in tree_leaves(out) if isinstance(x, Tensor))])
        return out

    @property
    def largest(self) -> int:
        return max(self.of.values())


def flops(call) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_a_step_multiplies_queries_first_and_makes_one_row():
    batch, heads, dim, model_dim, length = 2, 3, 4, 24, 1024
    xl, q = make(model_dim, heads, dim), vectors(batch, heads, 1, dim)
    qpos, kpos = batched(torch.tensor([length - 1]), torch.arange(length))
    rows = batch * heads
    assert flops(lambda: xl.score_bias(q, q, qpos, kpos)) == 2 * rows * (dim * model_dim + length * model_dim // 2)
    with Sizes() as sizes:
        dense(xl, q, qpos, kpos)
    assert sizes.largest == rows * length
    assert "gather" not in sizes.of  # keys that follow each other find their distances in a row


def test_a_whole_pass_projects_each_distance_once():
    batch, heads, dim, model_dim, length = 2, 3, 4, 24, 32
    xl, q = make(model_dim, heads, dim), vectors(batch, heads, length, dim)
    pos = torch.arange(length).expand(batch, -1)
    count = 2 * length  # 63 distances, and one more for the sake of memory
    expected = 2 * count * heads * dim * model_dim + 2 * batch * heads * length * count * dim
    assert flops(lambda: xl.score_bias(q, q, pos, pos)) == expected
    with Sizes() as sizes:
        dense(xl, q, pos, pos)
    assert sizes.largest == batch * heads * length * count  # no pair has a vector
    assert "gather" not in sizes.of


def test_positions_far_apart_are_met_by_turning_queries():
    batch, heads, dim, model_dim, length = 2, 3, 4, 24, 8
    xl, q = make(model_dim, heads, dim), vectors(batch, heads, length, dim)
    pos = torch.arange(length).expand(batch, -1) * 1000
    rows = batch * heads * length
    assert flops(lambda: xl.score_bias(q, q, pos, pos)) == 2 * rows * (dim * model_dim + length * model_dim)


@pytest.mark.parametrize(("queries", "first"), [(4, True), (5, False)])
def test_the_order_that_costs_less_is_taken(queries, first):
    xl = make(24, 3, 4)  # as many as 24 · 4 / (24 - 4) = 4.8 queries, over the batch
    q, (pos,) = vectors(1, 3, queries, 4), batched(torch.arange(queries), batch=1)
    found = flops(lambda: xl.score_bias(q, q, pos, pos))
    assert found == 2 * 3 * (queries * (4 * 24 + 256 * 12) if first else 16 * 4 * (24 + queries))  # 9 distances, or 16


@pytest.mark.parametrize(("gap", "found"), [(5, range(1, -5, -1)), (6, None)])
def test_a_table_has_at_most_twice_as_many_distances_as_there_are_tokens(gap, found):
    assert _distances(torch.tensor([[1]]), torch.tensor([[0, gap]]), None) == found


def test_distances_are_known_from_whole_positions_only():
    pos = torch.arange(4)[None]
    assert _distances(pos, pos, None) == range(3, -4, -1)
    assert _distances(pos[:, 1:], pos, None) == range(3, -3, -1)
    assert _distances(pos, pos[:, 1:], None) == range(2, -4, -1)
    assert _distances(pos.float(), pos, None) is None
    assert _distances(pos, pos.double(), None) is None
    assert _distances(pos[:, :0], pos, None) is None
    assert _distances(pos, pos[:, :0], None) is None
    assert _distances(pos[:, :0], pos, 2) == range(2, -3, -1)
    assert _distances(pos * 10**9, pos, 0) == range(0, 1)


@pytest.mark.parametrize(("spread", "largest"), [(1, 20 * 3 * 128), (1000, 20 * 128 * 24)])
def test_no_sequence_or_head_has_a_copy_of_the_distances(spread, largest):
    batch, heads, length = 20, 3, 128
    xl, q = make(24, heads, 4), vectors(batch, heads, 1, 4)
    kpos = torch.arange(length).repeat(batch, 1) * spread
    with Sizes() as sizes:
        dense(xl, q, kpos[:, -1:], kpos)
    assert sizes.largest == largest


def test_positions_that_all_sequences_share_are_turned_once():
    w, pos = vectors(2, 3, 6), torch.arange(4)
    same = anywhere(w, pos[:1].repeat(3, 1), pos.repeat(3, 1), 100.0)
    for kpos, waves in ((pos[None], 4 * 3), (pos.repeat(3, 1), 3 * 4 * 3)):
        with Sizes() as sizes:
            found = anywhere(w, pos[:1].expand(3, -1), kpos, 100.0)
        assert sizes.of["sin"] == waves
        close(found, same)
    xl, q = make(), vectors(3, 2, 2, 4)
    with Sizes() as sizes:
        dense(xl, q, *batched(pos[:2] * 1000, pos * 1000, batch=3))
    assert sizes.of["sin"] == max(4, 3 * 2) * 6


# Gradients, precision, life


@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("clamp", [None, 2])
@pytest.mark.parametrize("shape", [(6, 1, 1, 2), (2, 1, 3, 4)])
def test_gradients_are_those_of_finite_differences(shape, clamp, spread):
    model_dim, heads, head_dim, length = shape[0], shape[1], shape[2], shape[3]
    xl, (pos,) = make(model_dim, heads, head_dim, clamp=clamp), batched(torch.arange(length) * spread, batch=1)

    def run(q: Tensor, *values: Tensor) -> Tensor:
        names = [name for name, _ in xl.named_parameters()]
        return torch.func.functional_call(
            Bias(xl), {f"xl.{n}": x for n, x in zip(names, values, strict=True)}, (q, pos)
        )

    q = vectors(1, heads, length, head_dim).requires_grad_()
    assert torch.autograd.gradcheck(run, (q, *(p.detach().clone().requires_grad_() for p in xl.parameters())))


class Bias(torch.nn.Module):
    def __init__(self, xl: TransformerXL) -> None:
        super().__init__()
        self.xl = xl

    def forward(self, q: Tensor, pos: Tensor) -> Tensor:
        return dense(self.xl, q, pos, pos)


@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_every_parameter_but_u_gets_its_gradient_from_the_bias(lengths, spread):
    xl, pos = make(), torch.arange(lengths[1]) * spread
    q = vectors(2, 2, lengths[0], 4)
    qpos, kpos = batched(pos[-lengths[0] :], pos)
    weight = vectors(2, 2, *lengths)
    (dense(xl, q, qpos, kpos) * weight).sum().backward()
    assert xl.weight.grad.abs().min() > 0
    assert xl.v.grad.abs().min() > 0
    close(xl.u.grad, torch.zeros(2, 4, dtype=torch.float64))  # it comes with the query, and the bias takes it out


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ],
)
@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_the_bias_is_wide_and_its_angles_are_precise(dtype, wide, lengths, spread, device):
    xl, pos = make(64, 2, 4), torch.arange(lengths[1], device=device) * spread + 3000
    xl, q = xl.to(device).to(dtype), vectors(2, 2, lengths[0], 4).to(device).to(dtype)
    qpos, kpos = batched(pos[-lengths[0] :], pos)
    q = xl.query(q, qpos)
    found = xl.score_bias(q, q, qpos, kpos)
    assert found.dtype == wide
    exact = xl.double()
    q = q.double() - exact.u[:, None]  # the query that has been rounded
    expected = dense(exact.cpu(), q.cpu(), qpos.cpu(), kpos.cpu())
    close(found.cpu().double(), expected, 1e-9 if wide == torch.float64 else 5e-3 if spread > 1 else 1e-4)


@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_under_autocast_products_are_rounded_and_angles_are_not(lengths, spread):
    xl, pos = make(64, 2, 4).float(), torch.arange(lengths[1]) * spread
    q, (qpos, kpos) = vectors(2, 2, lengths[0], 4).float(), batched(pos[-lengths[0] :] + 3000, pos)
    with torch.autocast("cpu", torch.bfloat16):
        found = dense(xl, q, qpos, kpos)
    exact = dense(xl, q, qpos, kpos)
    assert (found.float() - exact).abs().max() < 0.03 * exact.abs().max()


@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_the_default_dtype_does_not_matter(lengths, spread):
    xl, pos = make(64, 2, 4).float(), torch.arange(lengths[1]) * spread
    q, (qpos, kpos) = vectors(2, 2, lengths[0], 4).float(), batched(pos[-lengths[0] :] + 3000, pos)
    expected = dense(xl, q, qpos, kpos)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(dense(xl, q, qpos, kpos), expected)
        assert torch.equal(TransformerXL(64, 2, 4).wave, xl.wave)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("cast", [torch.bfloat16, torch.float16])
def test_casting_a_model_there_and_back_does_not_spoil_its_tables(cast):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), TransformerXL(6, 1, 2))
    xl, fresh = model[1], TransformerXL(6, 1, 2)
    assert xl.freq.tolist() == pytest.approx([1, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3)])
    steps = torch.arange(128, dtype=torch.float64) + 0.5
    exact = sinusoidal(steps, 6, layout="half").mT.unflatten(0, (2, 3))
    assert xl.wave.shape == exact.shape
    close(xl.wave.double(), exact, 1e-5)
    for dtype, precise in ((cast, torch.float32), (torch.float64, torch.float64), (torch.float32, torch.float32)):
        assert model.to(dtype) is model
        assert xl.weight.dtype == dtype
        assert xl.freq.dtype == xl.wave.dtype == precise
        close(xl.wave.double(), exact, 1e-13 if dtype == torch.float64 else 1e-5)
    assert torch.equal(xl.freq, fresh.freq)
    assert torch.equal(xl.wave, fresh.wave)
    assert set(xl.state_dict()) == {"weight", "u", "v"}
    assert dict(xl.named_buffers()).keys() == {"freq", "wave"}


def test_it_starts_as_the_authors_code_does():
    torch.manual_seed(3)
    xl = TransformerXL(300, 12, 25)
    assert (xl.clamp, xl.base) == (None, 10_000.0)
    assert xl.weight.shape == (300, 300)
    for parameter in (xl.weight, xl.u, xl.v):
        assert parameter.std().item() == pytest.approx(0.02, rel=0.1)
        assert parameter.mean().abs() < 0.005
    assert xl.u.shape == xl.v.shape == (12, 25)
    before = xl.v.clone()
    xl.reset_parameters()
    assert not torch.equal(xl.v, before)
    assert not torch.equal(xl.u, xl.v)


def test_made_on_the_meta_device_its_tables_come_with_its_memory():
    with torch.device("meta"):
        xl = TransformerXL(6, 1, 2, base=50.0)
    q, pos = torch.zeros(1, 1, 3, 2, device="meta"), torch.arange(3, device="meta")
    assert attend(xl.query(q, pos), q, q, xl, pos, pos).shape == q.shape
    xl = xl.to_empty(device="cpu")
    assert torch.equal(xl.wave, TransformerXL(6, 1, 2, base=50.0).wave)


@pytest.mark.parametrize("clamp", [None, 3])
@pytest.mark.parametrize("length", [0, 1])
def test_short_sequences(length, clamp):
    xl, pos = make(clamp=clamp), torch.arange(length)
    q, k = vectors(2, 2, length, 4), vectors(2, 2, 3, 4)
    assert attend(xl.query(q, pos), q, q, xl, pos, pos).shape == q.shape
    assert attend(xl.query(q, pos), k, k, xl, pos, torch.arange(3)).shape == q.shape


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_what_is_not_finite_stays_in_its_row(value, lengths, spread):
    xl, pos = make(), torch.arange(lengths[1]) * spread
    q = vectors(2, 2, lengths[0], 4)
    q[0, 1, 1, 2] = value
    found = dense(xl, q, *batched(pos[-lengths[0] :], pos))
    assert not found[0, 1, 1].isfinite().any()
    found[0, 1, 1] = 0
    assert found.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model_dim": 7}, "model_dim is 7, .* use a positive even number"),
        ({"heads": 0}, "heads is 0: use the number of attention heads"),
        ({"head_dim": 0}, "head_dim is 0: use the number of channels of a head"),
        ({"clamp": -1}, "clamp is -1, .* such as 1000, or None"),
        ({"base": 0}, "base is 0, .* use a positive number"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        TransformerXL(**{"model_dim": 8, "heads": 2, "head_dim": 4} | arguments)


@pytest.mark.parametrize("shape", [(1, 3, 2, 4), (1, 2, 2, 5)])
def test_queries_it_was_not_made_for_are_refused(shape):
    xl, q, pos = make(), vectors(*shape), torch.arange(2)[None]
    said = rf"heads=2 and head_dim=4, and q has {shape[1]} heads of {shape[3]} .*\(model_dim, {shape[1]}, {shape[3]}\)"
    with pytest.raises(ValueError, match=said):
        xl.query(q, pos)
    with pytest.raises(ValueError, match=said):
        xl.score_bias(q, q, pos, pos)


def test_fractions_of_positions_are_refused_with_a_clamp():
    xl, q, pos = make(clamp=4), vectors(1, 2, 2, 4), torch.arange(2)[None]
    for qpos, kpos in ((pos, pos.double()), (pos.double(), pos)):
        with pytest.raises(
            ValueError, match=r"with clamp=4 distances are looked up: use whole positions, .* clamp=None"
        ):
            xl.score_bias(q, q, qpos, kpos)


@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_all_is_made_where_queries_lie_whatever_device_is_the_default(lengths, spread):
    xl, pos = make(64, 2, 4).float(), torch.arange(lengths[1]) * spread
    q, (qpos, kpos) = vectors(2, 2, lengths[0], 4).float(), batched(pos[-lengths[0] :], pos)
    expected = dense(xl, q, qpos, kpos)
    with torch.device("meta"):
        xl = xl.double().float()  # tables are made anew
        found = dense(xl, q, qpos, kpos)
    assert xl.wave.device.type == found.device.type == "cpu"
    assert torch.equal(found, expected)
