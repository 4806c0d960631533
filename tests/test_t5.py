"""posenc.schemes.t5 against integer arithmetic and loops, and the properties that the chapter shows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from posenc import NoPE, attend, attention, attention_weights
from posenc._attention.scores import batched, pair_bias
from posenc.schemes.alibi import ALiBi
from posenc.schemes.t5 import T5Bias, t5_bucket
from tests.helpers import Layer, biases, close, heads, onnx_session

MODES = pytest.mark.parametrize("bidirectional", [False, True])
DTYPES = [
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
]
CAUSAL_STARTS = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
BOTH_STARTS = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]


def oracle(offset: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Whole numbers only: (n/e)^steps ≥ (max_distance/e)^t says that n has reached the t-th shared bucket."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if offset > 0 else 0
        n = abs(offset)
    else:
        n = max(-offset, 0)
    e = buckets // 2
    steps = buckets - e
    if n < e:
        return first + n
    t = 0
    while t + 1 < steps and n**steps * e ** (t + 1) >= max_distance ** (t + 1) * e**steps:
        t += 1
    return first + e + t


def bucket(offset: int, *settings: object, **named: object) -> int:
    return int(t5_bucket(torch.tensor(offset), *settings, **named))


def randomised(bias: T5Bias) -> T5Bias:
    torch.nn.init.normal_(bias.table)
    return bias


# Buckets


@MODES
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 256), (64, 256), (32, 64), (64, 512), (4, 3)])
def test_buckets_of_popular_models_equal_integer_arithmetic_at_every_offset(buckets, max_distance, bidirectional):
    offset = torch.arange(-max_distance - 20, max_distance + 21)
    found = t5_bucket(offset, buckets, max_distance, bidirectional)
    assert found.dtype == torch.int64
    assert found.tolist() == [oracle(r, buckets, max_distance, bidirectional) for r in offset.tolist()]


@example(buckets=146, max_distance=905, bidirectional=True, offset=-347)  # falls short of bucket 62 by 4e-10
@example(buckets=84, max_distance=6891, bidirectional=False, offset=-6103)
@example(buckets=42, max_distance=1006, bidirectional=True, offset=-435)  # clears bucket 19 by 1e-11
@example(buckets=40, max_distance=640, bidirectional=False, offset=-80)  # equal, and float64 puts it below
@example(buckets=10, max_distance=160, bidirectional=False, offset=-20)
@example(buckets=256, max_distance=8192, bidirectional=False, offset=-8191)
@example(buckets=32, max_distance=17, bidirectional=False, offset=-17)
@given(
    buckets=st.integers(2, 128).map(lambda n: 2 * n),
    max_distance=st.integers(129, 8192),
    bidirectional=st.booleans(),
    offset=st.integers(-9000, 9000),
)
def test_any_bucket_equals_integer_arithmetic(buckets, max_distance, bidirectional, offset):
    assert bucket(offset, buckets, max_distance, bidirectional) == oracle(offset, buckets, max_distance, bidirectional)


@given(
    buckets=st.integers(2, 128).map(lambda n: 2 * n), max_distance=st.integers(129, 8192), bidirectional=st.booleans()
)
def test_powers_that_meet_a_boundary_fall_on_its_far_side(buckets, max_distance, bidirectional):
    exact = buckets // 4 if bidirectional else buckets // 2
    last = (buckets // 2 if bidirectional else buckets) - 1
    shared = [bucket(-n, buckets, max_distance, bidirectional) for n in (exact - 1, exact, max_distance)]
    assert shared == [exact - 1, exact, last]


def test_the_official_buckets_begin_where_t5_has_them():
    causal, both = t5_bucket(-torch.arange(200)), t5_bucket(-torch.arange(200), bidirectional=True)
    assert [causal.tolist().index(n) for n in range(32)] == CAUSAL_STARTS
    assert [both.tolist().index(n) for n in range(16)] == BOTH_STARTS
    ahead = t5_bucket(torch.arange(1, 200), bidirectional=True)
    assert torch.equal(ahead, both[1:] + 16)
    assert 16 not in torch.cat((both, ahead))
    assert torch.equal(t5_bucket(torch.arange(200)), torch.zeros(200, dtype=torch.int64))


def test_defaults_are_those_of_a_t5_decoder():
    offset = torch.arange(-300, 300)
    assert torch.equal(t5_bucket(offset), t5_bucket(offset, 32, 128, False))
    assert T5Bias(3).table.shape == (32, 3)
    assert (T5Bias(3).buckets, T5Bias(3).max_distance, T5Bias(3).bidirectional) == (32, 128, False)


@given(buckets=st.integers(2, 64).map(lambda n: 2 * n), max_distance=st.integers(65, 1000), bidirectional=st.booleans())
def test_buckets_rise_with_distance_and_stay_in_the_table(buckets, max_distance, bidirectional):
    half = buckets // 2 if bidirectional else buckets
    for side in (-1, 1):
        found = t5_bucket(side * torch.arange(1, 1200), buckets, max_distance, bidirectional)
        assert (found.diff() >= 0).all()
        first = half if bidirectional and side == 1 else 0
        assert first <= found.min() <= found.max() < first + half
    assert bucket(-max_distance, buckets, max_distance, bidirectional) == half - 1


@MODES
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype_of_offsets_has_the_same_buckets(dtype, bidirectional, device):
    offset = torch.arange(-128, 128)
    found = t5_bucket(offset.to(dtype).to(device), bidirectional=bidirectional)
    assert found.dtype == torch.int64
    assert torch.equal(found.cpu(), t5_bucket(offset, bidirectional=bidirectional))


def test_buckets_ignore_the_default_dtype():
    expected = t5_bucket(-torch.arange(200))
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(t5_bucket(-torch.arange(200)), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("far", [2**31 - 1, 2**53 + 1, 2**63 - 1])
def test_offsets_far_beyond_the_last_bucket_are_in_it(far):
    assert [bucket(r) for r in (-far - 1, -far, far)] == [31, 31, 0]
    assert [bucket(r, bidirectional=True) for r in (-far - 1, -far, far)] == [15, 15, 31]


def test_offsets_between_positions_are_cut_towards_the_query():
    offset = torch.tensor([-18.9, -1.5, -0.9, -0.1, 0.0, 0.1, 0.9, 1.0, 1.5, 12.5])
    assert torch.equal(t5_bucket(offset), t5_bucket(offset.trunc().long()))
    found = t5_bucket(offset, bidirectional=True)
    assert torch.equal(found, t5_bucket(offset.trunc().long(), bidirectional=True))
    assert found.tolist() == [10, 1, 0, 0, 0, 0, 0, 17, 17, 25]


def test_offsets_that_are_no_numbers_have_some_bucket():
    broken = torch.tensor([math.nan, math.inf, -math.inf])
    assert t5_bucket(broken).tolist() == [0, 0, 31]
    assert t5_bucket(broken, bidirectional=True).tolist() == [0, 31, 15]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 0)])
def test_buckets_have_the_shape_of_the_offsets(shape):
    assert t5_bucket(torch.zeros(shape, dtype=torch.int64)).shape == shape


def test_half_precision_logarithms_would_move_buckets():
    n = torch.arange(1, 128)
    low = 8 + ((n / 8).bfloat16().log() / math.log(16) * 8).floor().long()
    moved = (low.clamp(max=15) != t5_bucket(-n, bidirectional=True)) & (n >= 8)
    assert {16, 32, 90} <= set(n[moved].tolist())


@MODES
def test_buckets_compile_without_a_graph_break(bidirectional):
    torch._dynamo.reset()
    compiled = torch.compile(t5_bucket, fullgraph=True, backend="aot_eager")
    for offset in (torch.arange(-200, 200), torch.randint(-300, 300, (3, 7))):
        expected = t5_bucket(offset, 32, 128, bidirectional)
        assert torch.equal(compiled(offset, 32, 128, bidirectional), expected)


class Buckets(torch.nn.Module):
    def forward(self, length: int, buckets: int, max_distance: int) -> Tensor:
        pos = torch.arange(length)
        offset = pos[None, :] - pos[:, None]
        return torch.stack([t5_bucket(offset, buckets, max_distance, both) for both in (False, True)])


@pytest.mark.filterwarnings("ignore")  # torch's exporter warns of its own deprecations
def test_one_onnx_graph_serves_every_setting_and_is_exact():
    session = onnx_session(Buckets(), length=12, buckets=32, max_distance=128)
    for length, buckets, max_distance in [(200, 32, 128), (400, 146, 905), (100, 40, 640), (30, 8, 20), (5, 4, 3)]:
        values = {"length": length, "buckets": buckets, "max_distance": max_distance}
        assert np.array_equal(session(**values), Buckets()(**values).numpy()), values


# The encoding


@MODES
def test_the_bias_is_the_entry_of_the_bucket_and_the_head(bidirectional):
    encoding = randomised(T5Bias(2, 8, 20, bidirectional)).double()
    qpos, kpos = torch.tensor([[3, 0, 40], [7, 7, 100]]), torch.tensor([[0, 5, 39, 2], [1, 7, 400, 90]])
    found = biases(encoding, qpos, kpos)
    assert found.shape == (2, 2, 3, 4)
    for b in range(2):
        for h in range(2):
            for i in range(3):
                for j in range(4):
                    offset = int(kpos[b, j] - qpos[b, i])
                    assert found[b, h, i, j] == encoding.table[oracle(offset, 8, 20, bidirectional), h]


@MODES
def test_the_bias_is_the_same_along_diagonals_and_wherever_the_sequence_begins(bidirectional):
    encoding, pos = randomised(T5Bias(2, bidirectional=bidirectional)), torch.arange(300)
    found = biases(encoding, pos, pos)
    assert torch.equal(found[..., 1:, 1:], found[..., :-1, :-1])
    assert torch.equal(biases(encoding, pos + 10**6, pos + 10**6), found)
    order = torch.randperm(300)
    assert torch.equal(biases(encoding, pos[order], pos[order]), found[..., order, :][..., order])


@MODES
def test_attention_equals_loops(bidirectional):
    encoding = randomised(T5Bias(2, 4, 3, bidirectional)).double()
    q, k, v = heads(4), heads(4), heads(4)
    table, pos = encoding.table.detach(), torch.tensor([0, 1, 2, 9])
    expected = torch.zeros(1, 2, 4, 4, dtype=torch.float64)
    for h in range(2):
        for i in range(4):
            seen = range(4) if bidirectional else range(i + 1)
            scores = [
                float(q[0, h, i] @ k[0, h, j]) / 2 + float(table[oracle(int(pos[j] - pos[i]), 4, 3, bidirectional), h])
                for j in seen
            ]
            total = sum(math.exp(s) for s in scores)
            for s, j in zip(scores, seen, strict=True):
                expected[0, h, i] += math.exp(s) / total * v[0, h, j]
    found = attend(q, k, v, encoding, pos, pos, causal=not bidirectional)
    close(found, expected)


@MODES
def test_a_new_encoding_is_nope_until_it_learns(bidirectional):
    encoding, pos = T5Bias(2, bidirectional=bidirectional), torch.arange(9)
    q, k = heads(9), heads(9)
    assert torch.equal(encoding.table, torch.zeros(32, 2))
    assert torch.equal(attention_weights(q, k, encoding, pos, pos), attention_weights(q, k, NoPE(), pos, pos))
    attention_weights(q, k, encoding, pos, pos)[..., 0].sum().backward()
    assert encoding.table.grad.abs().sum() > 0
    randomised(encoding).reset_parameters()
    assert torch.equal(encoding.table, torch.zeros(32, 2))


def test_one_number_in_every_bucket_is_nope():
    encoding, pos = T5Bias(2).double(), torch.arange(9)
    torch.nn.init.constant_(encoding.table, 3.5)
    q, k = heads(9), heads(9)
    expected = attention_weights(q, k, NoPE(), pos, pos)
    close(attention_weights(q, k, encoding, pos, pos), expected)


@MODES
def test_alibi_is_a_table_of_t5_as_far_as_offsets_have_buckets_of_their_own(bidirectional):
    alibi = ALiBi(2, symmetric=bidirectional).double()
    encoding = T5Bias(2, bidirectional=bidirectional).double()
    exact = 8 if bidirectional else 16
    with torch.no_grad():
        for distance in range(exact):
            encoding.table[distance] = -alibi.slope * distance
            if bidirectional and distance:
                encoding.table[16 + distance] = -alibi.slope * distance
    q, k = heads(exact), heads(exact)
    pos = torch.arange(exact)
    same = [attention_weights(q, k, e, pos, pos, causal=not bidirectional) for e in (encoding, alibi)]
    close(*same)
    further = torch.arange(exact + 4)
    gap = biases(encoding, further, further)[..., -1, 0] - biases(alibi, further, further)[..., -1, 0]
    assert gap.abs().min() > 0.01


def test_it_serves_cross_attention_though_t5_has_none_there():
    encoding = randomised(T5Bias(2, bidirectional=True)).double()
    qpos, kpos = torch.arange(3), torch.arange(50)
    z = attend(heads(3), heads(50), heads(50), encoding, qpos, kpos, causal=False)
    assert z.shape == (1, 2, 3, 4)
    assert torch.equal(biases(encoding, qpos, kpos), biases(encoding, kpos, kpos)[..., :3, :])


def test_left_and_right_differ_where_both_are_seen():
    encoding, pos = randomised(T5Bias(1, bidirectional=True)), torch.arange(5)
    found = biases(encoding, pos, pos, 1)[0, 0]
    assert (found - found.T).abs()[~torch.eye(5, dtype=torch.bool)].min() > 0


def test_keys_of_the_future_are_refused_unless_they_have_buckets():
    q, pos = heads(3), torch.arange(3)
    assert T5Bias(2).causal_only
    assert not T5Bias(2, bidirectional=True).causal_only
    with pytest.raises(ValueError, match="make its symmetric or bidirectional form"):
        attend(q, q, q, T5Bias(2), pos, pos, causal=False)
    attend(q, q, q, T5Bias(2, bidirectional=True), pos, pos, causal=False)


def test_scores_of_t5_are_not_scaled():
    encoding, pos = randomised(T5Bias(1)).double(), torch.arange(4)
    q, k = heads(4, 1), heads(4, 1)
    score = q @ k.transpose(-2, -1) + biases(encoding, pos, pos, 1)
    score = score.masked_fill(~torch.ones(4, 4, dtype=torch.bool).tril(), -torch.inf)
    found = attention_weights(q, k, encoding, pos, pos, scale=1.0)
    close(found, score.softmax(-1))


@MODES
def test_positions_may_be_floats(bidirectional):
    encoding = randomised(T5Bias(2, bidirectional=bidirectional))
    pos = torch.tensor([0.0, 0.5, 3.25, 40.0, 300.0])
    found = biases(encoding, pos, pos, dtype=torch.float32)
    label = t5_bucket(pos[None, :] - pos[:, None], bidirectional=bidirectional)
    assert torch.equal(found[0], encoding.table[label].permute(2, 0, 1))
    broken = torch.tensor([0.0, math.nan, math.inf])
    assert biases(encoding, broken, broken).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_keeps_every_bucket(dtype):
    encoding, pos = randomised(T5Bias(2)).to(dtype), torch.arange(4000, 4400)
    found = biases(encoding, pos, pos, dtype=dtype)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    label = t5_bucket(pos[None, :] - pos[:, None])
    assert torch.equal(found[0], encoding.table.to(found.dtype)[label].permute(2, 0, 1))


def test_the_bias_lies_where_the_table_does_whatever_device_is_the_default():
    encoding, q = randomised(T5Bias(2)), torch.zeros(1, 2, 1, 4)
    qpos, kpos, first = torch.tensor([[3]]), torch.tensor([[1]]), torch.tensor(0)
    with torch.device("meta"):
        f = encoding.score_bias(q, q, qpos, kpos)
    assert f(first, first + 1, first, first) == encoding.table[2, 1]


def test_a_bucket_gets_the_gradients_of_all_its_offsets():
    encoding, pos = T5Bias(3, 8, 20).double(), torch.arange(30)
    biases(encoding, pos, pos, 3).sum().backward()
    counts = torch.bincount(t5_bucket(pos[None, :] - pos[:, None], 8, 20).flatten(), minlength=8)
    assert torch.equal(encoding.table.grad, counts[:, None].expand(8, 3).double())


def test_attention_is_differentiable_in_the_table():
    layer = Layer(T5Bias(2, 4, 3, bidirectional=True).double())
    q, k = heads(6), heads(6)

    def weights(table: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"encoding.table": table}, (q, k), {"causal": False})

    assert torch.autograd.gradcheck(weights, torch.randn(4, 2, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_texts_with_the_same_positions_share_one_bias(backend):
    encoding, (q, k, v, weight) = randomised(T5Bias(2).double()), torch.randn(4, 3, 2, 5, 8, dtype=torch.float64)
    for pos, texts in ((torch.arange(5), 1), (torch.arange(5) * torch.tensor([[1], [20], [300]]), 3)):
        bias = pair_bias(encoding, q, k, *batched(q, pos, pos))
        assert bias.shape == (texts, 2, 5, 5)  # its gradient goes through as many numbers
        z = [attention(q, k, v, encoding, at, backend=backend) for at in (pos, pos.expand(3, -1).contiguous())]
        assert torch.equal(*z)
        close(*(torch.autograd.grad((x * weight).sum(), encoding.table)[0] for x in z))


def test_layers_may_share_one_table():
    shared = T5Bias(2)
    stack = torch.nn.ModuleList([Layer(shared), Layer(shared)])
    assert sum(p.numel() for p in stack.parameters()) == 32 * 2


def test_only_the_bias_door_is_open():
    encoding = T5Bias(2)
    assert encoding.doors == ("score_bias",)
    assert [name for name, _ in encoding.named_parameters()] == ["table"]
    assert list(encoding.state_dict()) == ["table"]


def test_a_table_made_on_the_meta_device_is_zero_after_a_reset():
    with torch.device("meta"):
        encoding = T5Bias(2)
    assert encoding.table.is_meta
    encoding.to_empty(device="cpu").reset_parameters()
    assert torch.equal(encoding.table, torch.zeros(32, 2))


@pytest.mark.parametrize("buckets", [-4, 0, 1, 2, 3, 5, 33])
@MODES
def test_buckets_without_halves_are_refused(buckets, bidirectional):
    for call in (
        lambda: t5_bucket(torch.arange(3), buckets, 128, bidirectional),
        lambda: T5Bias(2, buckets, 128, bidirectional),
    ):
        with pytest.raises(ValueError, match=rf"buckets is {buckets}, .* use an even number, at least 4, such as 32"):
            call()


@pytest.mark.parametrize(
    ("buckets", "max_distance", "bidirectional", "least"),
    [(32, 16, False, 17), (32, 8, True, 9), (6, 1, True, 2), (6, 3, False, 4), (4, -1, False, 3)],
)
def test_distances_that_leave_nothing_to_share_are_refused(buckets, max_distance, bidirectional, least):
    for call in (
        lambda n: t5_bucket(torch.arange(-9, 9), buckets, n, bidirectional),
        lambda n: T5Bias(2, buckets, n, bidirectional),
    ):
        remedy = rf"use max_distance={least} or more, such as {8 * (least - 1)}, or fewer buckets"
        with pytest.raises(ValueError, match=rf"max_distance is {max_distance}, .* below {least - 1} .* {remedy}"):
            call(max_distance)
        call(least)


def test_other_bad_input_is_refused():
    for dtype in (torch.bool, torch.complex64):
        with pytest.raises(ValueError, match=r"offset is torch\..*: use kpos\[None, :\] - qpos\[:, None\]"):
            t5_bucket(torch.zeros(3, dtype=dtype))
    for count in (0, -1):
        with pytest.raises(ValueError, match=rf"heads is {count}: use the number of attention heads, 1 or more"):
            T5Bias(count)
    q, pos = heads(3, 4), torch.arange(3)
    with pytest.raises(ValueError, match=r"T5Bias was made for 2 heads and q has 4: make it with T5Bias\(4\)"):
        attend(q, q, q, T5Bias(2), pos, pos)
