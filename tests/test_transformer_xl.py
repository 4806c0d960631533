"""posenc.schemes.transformer_xl against loops, the paper's shift, and what it may not store."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from posenc import NoPE, Plan, attend, attention_weights, sinusoidal
from posenc.schemes.transformer_xl import BLOCK, TransformerXL, relative_shift
from tests import helpers
from tests.helpers import Sizes

PASS = {"few": (2, 5), "many": (12, 12)}  # (Lq, Lk) of a step, whose keys share sines, and of a whole pass


def close(found: Tensor, expected: Tensor, atol: float = 1e-11) -> None:
    helpers.close(found, expected, atol)


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
    xl, kpos = make(base=50.0), torch.arange(lengths[1]) * scale
    kpos = kpos.double() if scale == 0.37 else kpos
    qpos, kpos = batched(kpos[-lengths[0] :], kpos)
    q = vectors(2, 2, lengths[0], 4)
    close(dense(xl, q, qpos, kpos), oracle(xl, q, qpos, kpos))


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
    spread = pos[:, ::64]  # 64 keys in gaps, so without blocks
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


def test_queries_get_u_in_their_own_dtype():
    xl = make(6, 2, 3)
    q = vectors(1, 2, 4, 3)
    assert torch.equal(xl.query(q, torch.arange(4)), q + xl.u[None, :, None])
    assert xl.query(q.half(), torch.arange(4)).dtype == torch.float16


def test_it_opens_two_doors_and_its_keys_know_no_position():
    xl, k = make(), vectors(2, 2, 6, 4)
    assert xl.doors == ("query", "score_bias")
    assert not xl.raw_keys
    assert not xl.causal_only
    assert xl.key(k, torch.arange(6)) is k


# A step


@pytest.mark.parametrize("count", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1])
@pytest.mark.parametrize("queries", [1, 8, 9])
def test_a_step_over_any_number_of_keys_equals_the_paper(count, queries):
    xl, q = make(4, 1, 2, base=50.0), vectors(1, 1, queries, 2)
    for ahead in (0, -count, 3):  # at the last keys, before all keys, behind them
        qpos = torch.arange(queries) + count - queries + ahead
        kpos = torch.arange(count)
        rho = sinusoidal((qpos[:, None] - kpos).double(), 4, 50.0, layout="half") @ xl.weight.mT
        expected = torch.einsum("bhid, ijd -> bhij", q + xl.v[:, None], rho) / 2**0.5
        close(dense(xl, q, qpos[None], kpos[None]), expected)


def test_a_step_makes_a_row_and_the_sines_of_one_block():
    batch, heads, dim, model_dim, length = 2, 3, 4, 24, 8 * BLOCK
    xl, q = make(model_dim, heads, dim), vectors(batch, heads, 1, dim)
    qpos, kpos = batched(torch.tensor([length - 1]), torch.arange(length))
    rows = batch * heads
    assert flops(lambda: xl.score_bias(q, q, qpos, kpos)) == 2 * rows * (dim + length) * model_dim
    with Sizes() as sizes:
        dense(xl, q, qpos, kpos)
    assert sizes.largest == max(rows * length, BLOCK * model_dim)
    assert sizes.of["sin"] == BLOCK * model_dim // 2


# What it costs


def flops(call) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_a_pass_multiplies_turned_queries_with_one_wave_for_each_key():
    batch, heads, dim, model_dim, length = 2, 3, 4, 24, 32
    xl, q = make(model_dim, heads, dim), vectors(batch, heads, length, dim)
    rows = batch * heads * length
    for pos in (torch.arange(length), torch.arange(length) * 1000):
        pos = pos.expand(batch, -1)
        assert flops(lambda pos=pos: xl.score_bias(q, q, pos, pos)) == 2 * rows * (dim + length) * model_dim
        with Sizes() as sizes:
            dense(xl, q, pos, pos)
        assert sizes.largest == rows * max(length, model_dim)  # no pair has a vector
        assert sizes.of["sin"] == batch * length * model_dim // 2  # of the queries; keys share theirs


def test_no_sequence_or_head_has_a_copy_of_the_waves():
    batch, heads, length = 20, 3, 128
    xl, q = make(24, heads, 4), vectors(batch, heads, 1, 4)
    for kpos, count in ((torch.arange(length).expand(batch, -1), 1), (torch.arange(length).repeat(batch, 1), batch)):
        with Sizes() as sizes:
            dense(xl, q, 2 * kpos[:, -1:], 2 * kpos if count > 1 else (2 * kpos[:1]).expand(batch, -1))
        assert sizes.largest == max(count * length * 24, batch * heads * length)


# For fused kernels


def widened(xl: TransformerXL, q: Tensor, k: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor, **options) -> Tensor:
    q, k = xl.widen(xl.query(q, qpos), k, Plan(qpos, kpos), xl.head_dim**-0.5)
    return scaled_dot_product_attention(q, k, v, scale=xl.head_dim**-0.5, enable_gqa=True, **options)


@pytest.mark.parametrize("grouped", [1, 2, 4])
@pytest.mark.parametrize("spread", [1, 1000, 0.37])
@pytest.mark.parametrize("causal", [True, False])
def test_widened_vectors_give_the_same_attention_without_a_bias(grouped, spread, causal):
    xl = make(12, 4, 3, base=50.0)
    q, k, v = vectors(2, 4, 9, 3), vectors(2, grouped, 9, 3), vectors(2, grouped, 9, 5)
    pos = torch.arange(9, dtype=torch.float64 if spread == 0.37 else None) * spread + 70
    for at in (pos, torch.stack((pos, pos + 5 * spread))):
        expected = attend(xl.query(q, at), k, v, xl, at, at, causal=causal)
        close(widened(xl, q, k, v, at, at, is_causal=causal), expected)


def test_widened_queries_may_lie_anywhere_and_attend_through_a_mask():
    xl, qpos, kpos = make(), torch.tensor([[7, 2, 40], [0, 3, 3]]), torch.tensor([0, 5, 2, 9, 1])
    q, k, v = vectors(2, 2, 3, 4), vectors(2, 2, 5, 4), vectors(2, 2, 5, 4)
    expected = attend(xl.query(q, qpos), k, v, xl, qpos, kpos)
    mask = (kpos <= qpos[:, :, None])[:, None]
    close(widened(xl, q, k, v, qpos, kpos, attn_mask=mask), expected)
    close(widened(xl, q[:1], k[:1], v[:1], qpos[0], kpos[None], attn_mask=mask[:1]), expected[:1])


def test_widened_vectors_have_the_gradients_of_the_bias():
    xl, pos = make(), torch.arange(6)
    inputs = [vectors(2, 2, 6, 4).requires_grad_() for _ in range(3)]
    q, k, v = inputs
    found = widened(xl, q, k, v, pos, pos, is_causal=True)
    expected = attend(xl.query(q, pos), k, v, xl, pos, pos)
    wanted = [*inputs, *xl.parameters()]
    for pair in zip(*(torch.autograd.grad(z.square().sum(), wanted) for z in (found, expected)), strict=True):
        close(*pair)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_widened_vectors_have_the_dtype_of_what_they_widen_and_precise_angles(dtype):
    xl, pos = make(24, 2, 4).to(dtype), torch.arange(2990, 3000)
    q, k = vectors(1, 2, 10, 4).to(dtype), vectors(1, 2, 10, 4).to(dtype)
    q, plan, scale = xl.query(q, pos), Plan(pos), 4**-0.5
    found = xl.widen(q, k, plan, scale)
    assert [x.shape[-1] for x in found] == [28, 28]
    assert [x.dtype for x in found] == [dtype, dtype]
    exact = copy.deepcopy(xl).double().widen(q.double(), k.double(), plan, scale)
    for ours, theirs in zip(found, exact, strict=True):
        assert (ours.double() - theirs).abs().max() < 4 * torch.finfo(dtype).eps * theirs.abs().max()


def test_the_scale_multiplies_contents_alone():
    xl, pos = make(), torch.arange(6)
    q, k, v = (vectors(2, 2, 6, 4) for _ in range(3))
    wide = xl.widen(xl.query(q, pos), k, Plan(pos), 0.3)
    found = scaled_dot_product_attention(*wide, v, scale=0.3, is_causal=True)
    close(found, attend(xl.query(q, pos), k, v, xl, pos, scale=0.3, backend="dense"))


def test_what_cannot_be_widened():
    q, plan = vectors(1, 2, 3, 4), Plan(torch.arange(3))
    assert make(clamp=5).widen(q, q, plan, 0.5) is None  # a clamped distance is no product of two rotations
    with pytest.raises(ValueError, match="heads=2 and head_dim=4"):
        make().widen(q[:, :1], q, plan, 0.5)


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
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("clamp", [None, 3])
def test_the_bias_is_made_where_queries_lie_whatever_device_is_the_default(clamp):
    xl, q, (pos,) = make(clamp=clamp), vectors(2, 2, 6, 4), batched(torch.arange(6))
    expected = dense(xl, q, pos, pos)
    with torch.device("meta"):
        found = dense(xl, q, pos, pos)
    close(found, expected)


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
    said = rf"heads=2 and head_dim=4, .* TransformerXL\(model_dim, {shape[1]}, {shape[3]}\)"
    with pytest.raises(ValueError, match=said):
        xl.query(q, pos)
    with pytest.raises(ValueError, match=said):
        xl.score_bias(q, q, pos, pos)


def test_fractions_of_positions_are_refused_with_a_clamp():
    xl, q, pos = make(clamp=4), vectors(1, 2, 2, 4), torch.arange(2)[None]
    for qpos, kpos in ((pos, pos.double()), (pos.double(), pos)):
        with pytest.raises(ValueError, match=r"qpos is .* and kpos .* use integer positions, .* clamp=None"):
            xl.score_bias(q, q, qpos, kpos)


@pytest.mark.parametrize("spread", [1, 1000])
@pytest.mark.parametrize("lengths", PASS.values(), ids=PASS)
def test_all_is_made_where_queries_lie_whatever_device_is_the_default(lengths, spread):
    xl, pos = make(64, 2, 4).float(), torch.arange(lengths[1]) * spread
    q, (qpos, kpos) = vectors(2, 2, lengths[0], 4).float(), batched(pos[-lengths[0] :], pos)
    expected = dense(xl, q, qpos, kpos)
    with torch.device("meta"):
        found = dense(xl, q, qpos, kpos)
    assert found.device.type == "cpu"
    assert torch.equal(found, expected)
