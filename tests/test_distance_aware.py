"""posenc.schemes.distance_aware against the formula of the paper and loops, and properties that the chapter shows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import Encoding, attend, attention_weights
from posenc.schemes import distance_aware
from posenc.schemes.distance_aware import DistanceAware, dead_rows, distance_weight
from tests.helpers import Layer, close, heads, onnx_session

DISTANCES = st.floats(0, 1000, allow_subnormal=False)
RATES = st.floats(-5, 5, allow_subnormal=False)
SHIFTS = st.floats(-30, 30, allow_subnormal=False)


def paper(R: float, w: float, v: float) -> float:
    """As the paper prints it, with what would overflow put at its limit."""
    exponent = v - w * R
    return 0.0 if exponent > 700 else (1 + math.exp(v)) / (1 + math.exp(exponent))


def scalar(x: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(x, dtype=dtype)


def weight(R: float, w: float, v: float) -> Tensor:
    return distance_weight(scalar(R), scalar(w), scalar(v))


def made(w: list[float], v: list[float]) -> DistanceAware:
    encoding = DistanceAware(len(w)).double()
    with torch.no_grad():
        encoding.w.copy_(torch.tensor(w))
        encoding.v.copy_(torch.tensor(v))
    return encoding.requires_grad_(False)


class ReLU(Encoding):
    def rescale(self, qpos, kpos):
        return lambda s, b, h, i, j: s.relu()


# The function


@given(R=DISTANCES, w=RATES, v=SHIFTS)
def test_the_weight_equals_the_formula_of_the_paper_and_a_ratio_of_sigmoids(R, w, v):
    found = weight(R, w, v)
    bound = math.exp(min(40, math.log1p(math.exp(v))))
    expected = scalar(min(paper(R, w, v), bound))
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-300)
    ratio = torch.sigmoid(scalar(w * R - v)) / torch.sigmoid(scalar(-v))
    torch.testing.assert_close(found, ratio, rtol=1e-10, atol=1e-300)
    factored = (1 + scalar(v).exp()) * torch.sigmoid(scalar(w * R - v))
    torch.testing.assert_close(found, factored, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(w=RATES, v=st.floats(-1e4, 1e4), R=DISTANCES)
def test_the_weight_is_exactly_one_at_distance_zero_and_where_distance_has_no_weight(dtype, w, v, R):
    assert distance_weight(torch.tensor(0), scalar(w, dtype), scalar(v, dtype)) == 1
    assert distance_weight(scalar(R, dtype), scalar(0.0, dtype), scalar(v, dtype)) == 1


@given(w=RATES, v=SHIFTS)
def test_the_weight_is_monotone_and_bounded(w, v):
    found = distance_weight(torch.arange(500), scalar(w), scalar(v))
    step = found.diff() * math.copysign(1, w)
    assert (step >= -1e-12 * found[1:]).all()
    assert (found >= 0).all()
    assert (found <= (1 + math.exp(v)) * (1 + 1e-12)).all()
    assert (found >= 1 - 1e-12).all() if w >= 0 else (found <= 1 + 1e-12).all()


def test_the_limits_of_the_weight():
    far = torch.tensor(10_000)
    for v in (-3.0, 0.0, 3.0):
        torch.testing.assert_close(distance_weight(far, scalar(1.0), scalar(v)), scalar(1 + math.exp(v)))
        assert distance_weight(far, scalar(-1.0), scalar(v)) == 0
    assert distance_weight(far, scalar(1.0), DistanceAware(1).v.detach().double()[0]) == 2  # the bound at the start


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("v", [-1e4, -88.8, -40.0, 0.0, 20.0, 40.0, 88.8, 1e4])
@pytest.mark.parametrize("wR", [-1e6, -1e4, -100.0, 0.0, 100.0, 1e4, 1e6])
def test_nothing_overflows(dtype, v, wR):
    w, v = scalar(wR / 1000, dtype).requires_grad_(), scalar(v, dtype).requires_grad_()
    found = distance_weight(torch.tensor(1000), w, v)
    assert found.dtype == dtype
    assert found.isfinite() and found >= 0
    for grad in torch.autograd.grad(found, (w, v)):
        assert grad.isfinite()


def test_a_weight_is_cut_at_the_exponential_of_forty():
    found = distance_weight(torch.arange(0, 100, 10), scalar(1.0), scalar(80.0))
    expected = torch.tensor([0, 10, 20, 30, 40, 40, 40, 40, 40, 40], dtype=torch.float64).exp()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_no_step_where_the_logarithm_turns_into_a_line():
    v = torch.linspace(19, 21, 201, dtype=torch.float64)
    slope = distance_weight(torch.tensor(25), scalar(1.0), v).log().diff() / v.diff()
    assert (slope.diff() < 0).all()  # the logarithm of the bound bends smoothly
    v = torch.linspace(15, 39, 201, dtype=torch.float64)
    far = distance_weight(torch.tensor(10_000), scalar(1.0), v)
    torch.testing.assert_close(far, 1 + v.exp(), rtol=1e-13, atol=0)


def test_a_pair_takes_one_softplus_and_each_head_another(monkeypatch):
    counted, inner = [], distance_aware.softplus
    monkeypatch.setattr(distance_aware, "softplus", lambda x, **options: counted.append(x) or inner(x, **options))
    encoding, pos, index = made([-0.3, 0.2], [0.5, -1.0]), torch.arange(5)[None], torch.arange(1)[0]
    f = encoding.rescale(pos, pos)
    assert torch.equal(*counted, encoding.v)  # before flex asks for any pair
    f(scalar(1.0), *4 * [index])
    assert [x.shape for x in counted] == [(2,), ()]
    R, w, v = torch.arange(6), scalar(0.3), scalar(0.7)
    assert torch.equal(distance_weight(R, w, v, inner(v, threshold=40)), distance_weight(R, w, v))


def test_the_shift_may_be_a_number_and_shapes_broadcast():
    R = torch.arange(4)
    found = distance_weight(R, 0.5, 1.0)
    with torch.device("meta"):  # whatever device is the default, the number comes to the distances
        assert torch.equal(distance_weight(R, 0.5, 1.0), found)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor([paper(r, 0.5, 1.0) for r in range(4)]))
    w, v = torch.tensor([[-1.0], [1.0]]), torch.tensor([[0.0], [2.0]])
    both = distance_weight(R, w, v)
    assert both.shape == (2, 4)
    for n in range(2):
        assert torch.equal(both[n], distance_weight(R, w[n], v[n]))


@given(R=st.floats(0.5, 50), w=st.floats(-2, 2), v=st.floats(-4, 4))
def test_gradients_equal_differences(R, w, v):
    inputs = tuple(scalar(x).requires_grad_() for x in (R, w, v))
    assert torch.autograd.gradcheck(distance_weight, inputs, atol=1e-5, rtol=1e-3)


def test_at_rest_the_rate_has_a_gradient_and_the_shift_has_none():
    for v in (-2.0, 0.0, 1.0):
        w, shift = scalar(0.0).requires_grad_(), scalar(v).requires_grad_()
        R = torch.tensor(7)
        by_w, by_v = torch.autograd.grad(distance_weight(R, w, shift), (w, shift))
        torch.testing.assert_close(by_w, 7 * torch.sigmoid(scalar(v)))
        assert by_v == 0


class Weight(torch.nn.Module):
    def forward(self, length: int, w: Tensor, v: Tensor) -> Tensor:
        return distance_weight(torch.arange(length), w, v)


@pytest.mark.filterwarnings("ignore")  # torch's exporter warns of its own deprecations
def test_the_onnx_graph_computes_what_torch_does():
    session = onnx_session(Weight(), length=12, w=torch.tensor(0.1), v=torch.tensor(0.0))
    for length, w, v in [(5, 0.0, 3.0), (300, -0.5, 0.0), (300, 5.0, 30.0), (9, 2.0, -30.0), (300, 1.0, 100.0)]:
        found = session(length=length, w=w, v=v)
        expected = Weight()(length, torch.tensor(w), torch.tensor(v)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5)


# The encoding


@given(
    w=st.lists(st.floats(-2, 2), min_size=1, max_size=3),
    v=st.floats(-3, 3),
    length=st.integers(1, 5),
    causal=st.booleans(),
)
def test_attention_equals_loops(w, v, length, causal):
    encoding, count = made(w, [v] * len(w)), len(w)
    q, k, z = heads(length, count), heads(length, count), heads(length, count)
    pos = torch.arange(length) * 3
    expected = torch.zeros(1, count, length, 4, dtype=torch.float64)
    for h in range(count):
        for i in range(length):
            seen = range(i + 1) if causal else range(length)
            rate, shift = float(encoding.w[h]), float(encoding.v[h])
            scores = [
                max(float(q[0, h, i] @ k[0, h, j]), 0) * paper(abs(int(pos[i] - pos[j])), rate, shift) / 2 for j in seen
            ]
            total = sum(math.exp(s) for s in scores)
            for s, j in zip(scores, seen, strict=True):
                expected[0, h, i] += math.exp(s) / total * z[0, h, j]
    found = attend(q, k, z, encoding, pos, pos, causal=causal)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_scores_are_rescaled_by_head_and_distance():
    encoding = made([0.5, -0.25], [1.0, 0.0])
    qpos, kpos = torch.tensor([[5, 2], [0, 9]]), torch.tensor([[2, 2, 8], [1, 0, 4]])
    s = torch.randn(2, 2, 2, 3, dtype=torch.float64)
    b, h, i, j = (torch.arange(n) for n in (2, 2, 2, 3))
    found = encoding.rescale(qpos, kpos)(s, b[:, None, None, None], h[:, None, None], i[:, None], j)
    for b in range(2):
        for h in range(2):
            for i in range(2):
                for j in range(3):
                    distance = abs(int(qpos[b, i] - kpos[b, j]))
                    factor = paper(distance, float(encoding.w[h]), float(encoding.v[h]))
                    assert found[b, h, i, j] == pytest.approx(max(float(s[b, h, i, j]), 0) * factor, rel=1e-12)


def test_a_rate_of_zero_is_relu_attention_exactly():
    q, k, pos = heads(9), heads(9), torch.arange(9)
    found = attention_weights(q, k, made([0.0, 0.0], [3.0, -1.0]), pos, pos)
    assert torch.equal(found, attention_weights(q, k, ReLU(), pos, pos))


def test_a_positive_rate_prefers_far_keys_and_a_negative_one_near_keys():
    q = k = torch.ones(1, 2, 6, 4, dtype=torch.float64)
    found = attention_weights(q, k, made([0.5, -0.5], [0.0, 0.0]), torch.arange(6), torch.arange(6))
    last = found[0, :, -1]
    assert (last[0].diff() < 0).all() and (last[1].diff() > 0).all()


def test_without_the_relu_a_negative_score_turns_the_preference_around():
    encoding, qpos, kpos = made([-0.5], [0.0]), torch.tensor([[9]]), torch.tensor([[8, 0]])  # near keys are preferred
    index = [torch.tensor(0)] * 3
    for score, prefers in ((2.0, "near"), (-2.0, "neither")):
        s = torch.full((2,), score, dtype=torch.float64)
        near, far = encoding.rescale(qpos, kpos)(s, *index, torch.arange(2))
        assert (near > far) == (prefers == "near") and (near == far) == (prefers == "neither")
        unclipped = s * distance_weight(qpos[0] - kpos[0], scalar(-0.5), scalar(0.0))
        assert (unclipped[0] > unclipped[1]) == (score > 0)


@given(length=st.integers(1, 9), w=st.floats(-2, 2), v=st.floats(-3, 3))
def test_logits_become_zero_and_no_weight_does(length, w, v):
    q, k, pos = heads(length), heads(length), torch.arange(length)
    found = attention_weights(q, k, made([w, w], [v, v]), pos, pos, causal=False)
    assert (found > 0).all()
    causal = attention_weights(q, k, made([w, w], [v, v]), pos, pos)
    assert ((causal > 0) == torch.ones(length, length, dtype=torch.bool).tril()).all()


def test_masking_before_the_product_would_leak():
    q, k, pos = heads(4, 1), heads(4, 1), torch.arange(4)
    encoding = made([-0.5], [0.0])
    past = torch.ones(4, 4, dtype=torch.bool).tril()
    early = (q @ k.transpose(-2, -1) / 2).masked_fill(~past, -torch.inf)
    index = [torch.arange(n) for n in (1, 1, 4, 4)]
    leaking = encoding.rescale(pos[None], pos[None])(
        early, index[0][:, None, None, None], index[1][:, None, None], index[2][:, None], index[3]
    )
    assert (leaking[..., ~past] == 0).all()  # a logit as good as any
    assert leaking.softmax(-1)[0, 0, 0, 1:].sum() > 0.1
    assert attention_weights(q, k, encoding, pos, pos)[0, 0, 0].tolist() == [1, 0, 0, 0]


@given(length=st.integers(1, 8))
def test_it_cannot_tell_left_from_right(length):
    q, k, v = heads(length), heads(length), heads(length)
    encoding, pos = made([0.3, -0.7], [0.5, -0.5]), torch.arange(length)
    forward = attend(q, k, v, encoding, pos, pos, causal=False)
    backward = attend(q.flip(2), k.flip(2), v.flip(2), encoding, pos, pos, causal=False)
    close(backward, forward.flip(2))


def test_only_differences_of_positions_count():
    q, k = heads(7), heads(7)
    encoding, pos = made([0.3, -0.7], [0.5, -0.5]), torch.arange(7)
    here = attention_weights(q, k, encoding, pos, pos)
    assert torch.equal(attention_weights(q, k, encoding, pos + 10**6, pos + 10**6), here)
    stretched = attention_weights(q, k, encoding, 2 * pos, 2 * pos)
    assert (stretched - here).abs().max() > 1e-3


@pytest.mark.parametrize(("w", "v"), [(1e3, 1e4), (-1e3, 1e4), (1e3, -1e4), (1e3, 50.0), (0.0, 1e4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_parameters_give_finite_attention_and_gradients(w, v, dtype):
    encoding = made([w, w], [v, v]).to(dtype).requires_grad_()
    q = (1e3 * heads(5)).to(dtype).requires_grad_()
    k, pos = heads(5).to(dtype).requires_grad_(), torch.arange(5) * 1000
    z = attend(q, k, heads(5).to(dtype), encoding, pos, pos)
    assert z.isfinite().all()
    for grad in torch.autograd.grad(z.sum(), (q, k, *encoding.parameters())):
        assert grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_parameters_are_widened_before_they_meet_distances(dtype):
    encoding = DistanceAware(2).to(dtype).requires_grad_(False)
    pos = torch.arange(3000, 3400)
    s = torch.ones(1, 2, 400, 400)
    index = [torch.arange(n) for n in s.shape]
    found = encoding.rescale(pos[None], pos[None])(
        s, index[0][:, None, None, None], index[1][:, None, None], index[2][:, None], index[3]
    )
    assert found.dtype == torch.float32
    R = (pos[:, None] - pos).abs()
    for h in range(2):
        assert torch.equal(found[0, h], distance_weight(R, encoding.w[h].float(), encoding.v[h].float()))


def test_attention_is_differentiable_in_rate_and_shift():
    q, k = heads(5), heads(5)
    layer = Layer(DistanceAware(2).double())

    def weights(w: Tensor, v: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"encoding.w": w, "encoding.v": v}, (q, k))

    inputs = [torch.randn(2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(weights, inputs)


def test_it_begins_near_relu_attention_with_heads_that_differ():
    encoding = DistanceAware(10_000)
    assert encoding.v.tolist() == [0] * 10_000
    assert encoding.w.std().item() == pytest.approx(0.02, rel=0.05)
    assert encoding.w.mean().item() == pytest.approx(0, abs=0.001)
    torch.nn.init.ones_(encoding.w)
    torch.nn.init.ones_(encoding.v)
    encoding.reset_parameters()
    assert encoding.v.abs().max() == 0 and encoding.w.std().item() == pytest.approx(0.02, rel=0.05)


def test_two_numbers_per_head_and_one_door():
    encoding = DistanceAware(3)
    assert encoding.doors == ("rescale",)
    assert not encoding.causal_only
    assert {name: tuple(p.shape) for name, p in encoding.named_parameters()} == {"w": (3,), "v": (3,)}
    assert list(encoding.state_dict()) == ["w", "v"]


def test_parameters_made_on_the_meta_device_are_drawn_by_a_reset():
    with torch.device("meta"):
        encoding = DistanceAware(3)
    assert encoding.w.is_meta and encoding.v.is_meta
    encoding.to_empty(device="cpu").reset_parameters()
    assert encoding.v.tolist() == [0, 0, 0]
    assert 0 < encoding.w.abs().max() < 0.2


@pytest.mark.parametrize("length", [0, 1])
def test_short_sequences_have_short_rows(length):
    q, pos = heads(length), torch.arange(length)
    assert dead_rows(q, q, pos, pos).shape == (1, 2, length)


def test_what_is_no_number_comes_back():
    encoding = made([math.nan, math.inf], [0.0, math.nan])
    q, pos = heads(3), torch.tensor([0.0, math.nan, math.inf])
    assert attend(q, q, q, encoding, pos, pos, causal=False).shape == (1, 2, 3, 4)
    assert dead_rows(q * math.nan, q, pos, pos, causal=False).sum() == 0  # not a number is not ≤ 0


# Dead rows


@pytest.mark.parametrize("causal", [True, False])
@given(length=st.integers(1, 6), groups=st.sampled_from([1, 2, 4]), masked=st.booleans())
def test_dead_rows_equal_loops(causal, length, groups, masked):
    q, k = heads(length, 4, 1), heads(length + 2, 4 // groups, 1)
    qpos, kpos = torch.arange(length) + 1, torch.arange(length + 2)
    mask = torch.rand(1, 4, length, length + 2) < 0.5 if masked else None
    found = dead_rows(q, k, qpos, kpos, causal=causal, mask=mask)
    assert found.shape == (1, 4, length) and found.dtype == torch.bool
    for h in range(4):
        for i in range(length):
            scores = [
                float(q[0, h, i] @ k[0, h // groups, j])
                for j in range(length + 2)
                if (not causal or kpos[j] <= qpos[i]) and (mask is None or mask[0, h, i, j])
            ]
            assert bool(found[0, h, i]) == (len(scores) > 0 and max(scores) <= 0)


def test_a_dead_row_attends_to_all_alike_and_passes_no_gradient():
    q = torch.tensor([[[[1.0], [-1.0], [2.0]]]], dtype=torch.float64, requires_grad=True)
    k = torch.tensor([[[[3.0], [1.0], [2.0]]]], dtype=torch.float64, requires_grad=True)
    pos, encoding = torch.arange(3), made([0.4], [0.2])
    assert dead_rows(q, k, pos, pos, causal=False).tolist() == [[[False, True, False]]]
    assert dead_rows(q * 0, k, pos, pos, causal=False).all()
    weights = attention_weights(q, k, encoding, pos, pos, causal=False)
    assert weights[0, 0, 1].tolist() == pytest.approx([1 / 3] * 3)
    by_q, by_k = torch.autograd.grad(weights[0, 0, 1, 0], (q, k), retain_graph=True)
    assert not by_q.any() and not by_k.any()
    alive, _ = torch.autograd.grad(weights[0, 0, 0, 0], (q, k))
    assert alive[0, 0, 0] != 0


def test_dead_rows_are_causal_unless_said_otherwise_and_a_score_of_zero_is_dead():
    q = torch.ones(1, 1, 2, 1)
    k = torch.tensor([[[[-1.0], [1.0]]]])
    pos = torch.arange(2)
    assert dead_rows(q, k, pos, pos).tolist() == [[[True, False]]]
    assert dead_rows(q, k, pos, pos, causal=False).tolist() == [[[False, False]]]
    assert dead_rows(q, 0 * k, pos, pos).all()
    hidden = torch.tensor([[True, True], [False, False]])
    assert dead_rows(q, k, pos, pos, mask=hidden).tolist() == [[[True, False]]]
    late = dead_rows(q, k, torch.tensor([1, 1]), torch.tensor([0, 1]))
    assert late.tolist() == [[[False, False]]]


def test_a_random_query_is_dead_if_all_its_keys_lie_behind_it():
    """The sign of each score is a coin: with t keys in many dimensions about 2^-t of the queries are dead."""
    q, k = torch.randn(500, 1, 4, 64), torch.randn(500, 1, 4, 64)
    share = dead_rows(q, k, torch.arange(4), torch.arange(4)).float().mean((0, 1))
    torch.testing.assert_close(share, 0.5 ** torch.arange(1, 5), rtol=0, atol=0.06)


def test_half_precision_products_that_underflow_are_not_taken_for_dead():
    q = torch.full((1, 1, 1, 1), 2.0**-20, dtype=torch.float16)
    pos = torch.arange(1)
    assert not dead_rows(q, q, pos, pos).any()


def test_bad_input_is_refused():
    for count in (0, -1):
        with pytest.raises(ValueError, match=rf"heads is {count}: use the number of attention heads, 1 or more"):
            DistanceAware(count)
    q, pos = heads(3), torch.arange(3)
    with pytest.raises(ValueError, match=r"kpos holds 4 positions for 3 vectors"):
        dead_rows(q, q, pos, torch.arange(4))
    with pytest.raises(ValueError, match="use a bool mask"):
        dead_rows(q, q, pos, pos, mask=torch.ones(3, 3))


def test_numbers_for_w_and_v_cost_no_precision():
    R = torch.arange(5, dtype=torch.float64)
    found = distance_weight(R, 1.0, 2.0)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, (1 + math.exp(2.0)) / (1 + (2.0 - R).exp()), rtol=1e-12, atol=0)
