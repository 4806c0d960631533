"""posenc.alibi against loops and the formulas of published models, and the properties that the chapter shows."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import NoPE, attend, attention_weights
from posenc._attention.scores import batched, pair_bias
from posenc.schemes.alibi import ALiBi, alibi, alibi_slopes
from tests.helpers import biases, close, heads, onnx_session

HEADS = st.integers(1, 130)
BOTH = pytest.mark.parametrize("symmetric", [False, True])


def power_below(heads: int) -> int:
    power = 1
    while 2 * power <= heads:
        power *= 2
    return power


def paper(heads: int) -> list[float]:
    """Section 3: a geometric sequence that starts at 2^(-8/n) and has that same ratio, for any n."""
    return [2 ** (-8 * h / heads) for h in range(1, heads + 1)]


def authors_code(heads: int) -> list[float]:
    """The paper's for a power of two; else those of the power below, and every other term of the next."""
    power = power_below(heads)
    if heads == power:
        return paper(heads)
    return paper(power) + paper(2 * power)[::2][: heads - power]


def bloom(heads: int) -> list[float]:
    """Powers of a first slope, and odd powers of its root for the heads that are left."""
    power = power_below(heads)
    first = 2 ** -(2 ** -(math.log2(power) - 3))
    root = 2 ** -(2 ** -(math.log2(2 * power) - 3))
    left = min(power, heads - power)
    return [first**n for n in range(1, power + 1)] + [root**n for n in range(1, 2 * left, 2)]


def mpt(heads: int) -> list[float]:
    """Slopes of the power above, the even ones before the odd ones, as many as there are heads."""
    power = 2 ** math.ceil(math.log2(heads))
    slopes = [1 / 2 ** (h * 8 / power) for h in range(1, power + 1)]
    return slopes if power == heads else (slopes[1::2] + slopes[::2])[:heads]


# Slopes


@given(count=HEADS)
def test_slopes_equal_the_recursion_of_the_authors_code_to_the_last_bit(count):
    found = alibi_slopes(count)
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.tensor(authors_code(count), dtype=torch.float32))
    exact = torch.tensor(authors_code(count), dtype=torch.float64)
    torch.testing.assert_close(alibi_slopes(count, dtype=torch.float64), exact, rtol=1e-15, atol=0)


@given(count=HEADS)
def test_paper_and_code_have_the_same_slopes_for_powers_of_two_only(count):
    same = torch.allclose(alibi_slopes(count), torch.tensor(paper(count)))
    assert same == (count == power_below(count))
    encoding = ALiBi(count, slopes=torch.tensor(paper(count)))
    assert torch.equal(encoding.slope, torch.tensor(paper(count)))


@pytest.mark.parametrize("model", [bloom, mpt])
def test_slopes_are_those_of_published_models(model):
    for count in range(1, 65):
        expected = torch.tensor(model(count), dtype=torch.float32)
        torch.testing.assert_close(alibi_slopes(count), expected, rtol=1e-6, atol=0)


def test_the_slopes_that_papers_print():
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(1).tolist() == [2.0**-8]
    assert alibi_slopes(2).tolist() == [2.0**-4, 2.0**-8]
    exponents = -alibi_slopes(12, dtype=torch.float64).log2()
    expected = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5], dtype=torch.float64)
    torch.testing.assert_close(exponents, expected, rtol=0, atol=1e-14)
    assert not torch.allclose(alibi_slopes(12), 2 ** (-8 * torch.arange(1, 13) / 12), rtol=0.1)


@given(count=HEADS)
def test_slopes_are_distinct_and_end_at_two_to_the_minus_eight(count):
    slopes = alibi_slopes(count)
    assert slopes.unique().numel() == count
    assert slopes.min() == 2**-8 and slopes.max() < 1
    power = power_below(count)
    assert (slopes[:power].diff() < 0).all() and (slopes[power:].diff() < 0).all()


def test_slopes_ignore_the_default_dtype():
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(alibi_slopes(12), torch.tensor(authors_code(12), dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)


def test_slopes_are_made_where_they_are_wanted(device):
    slopes = alibi_slopes(12, device=device)
    assert slopes.device.type == device
    torch.testing.assert_close(slopes.cpu(), alibi_slopes(12))
    assert alibi_slopes(3, device="meta").is_meta
    assert alibi_slopes(3, dtype=torch.bfloat16).dtype == torch.bfloat16


# The function


@given(
    distance=st.integers(-(2**24), 2**24),
    slope=st.floats(-2, 2, allow_subnormal=False),
    symmetric=st.booleans(),
)
def test_distance_costs_slope_logits_per_position(distance, slope, symmetric):
    found = alibi(torch.tensor(-distance), torch.tensor(slope, dtype=torch.float64), symmetric=symmetric)
    assert found == -slope * (abs(distance) if symmetric else distance)


def test_the_slope_may_be_a_number_and_the_future_is_rewarded_by_default():
    offset = torch.tensor([-2, 0, 3])
    assert alibi(offset, 0.5).tolist() == [-1, 0, 1.5]
    assert alibi(offset, 0.5, symmetric=True).tolist() == [-1, 0, -1.5]
    assert alibi(offset, torch.tensor([[1.0], [2.0]])).tolist() == [[-2, 0, 3], [-4, 0, 6]]


def test_gradients_reach_slope_and_offset():
    offset = torch.tensor([-3.0, -0.5, 2.0], dtype=torch.float64, requires_grad=True)
    slope = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    for symmetric in (False, True):
        assert torch.autograd.gradcheck(lambda o, m, s=symmetric: alibi(o, m, symmetric=s), (offset, slope))


class Bias(torch.nn.Module):
    def forward(self, length: int, heads: int, slope: Tensor) -> Tensor:
        pos = torch.arange(length)
        offset = pos[None, :] - pos[:, None]
        return alibi(offset, alibi_slopes(heads)[:, None, None]) + alibi(offset, slope, symmetric=True)


@pytest.mark.filterwarnings("ignore")  # torch's exporter warns of its own deprecations
def test_one_onnx_graph_serves_any_number_of_heads():
    session = onnx_session(Bias(), length=12, heads=8, slope=torch.tensor(0.5))
    for length, count, slope in [(5, 1, 0.0), (9, 8, 0.25), (4, 12, 1.0), (3, 63, 0.5), (3, 64, 0.5), (2, 71, 2.0)]:
        found = session(length=length, heads=count, slope=slope)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, Bias()(length, count, torch.tensor(slope)).numpy(), rtol=1e-6)


# The encoding


@BOTH
@pytest.mark.parametrize("count", [1, 2, 3])
def test_attention_equals_loops(symmetric, count):
    q, k, v = heads(4, count), heads(4, count), heads(4, count)
    pos = torch.tensor([0, 1, 5, 6])
    expected = torch.zeros(1, count, 4, 4, dtype=torch.float64)
    for h in range(count):
        slope = float(alibi_slopes(count)[h])
        for i in range(4):
            seen = range(4) if symmetric else range(i + 1)
            scores = [float(q[0, h, i] @ k[0, h, j]) / 2 - slope * abs(int(pos[i] - pos[j])) for j in seen]
            total = sum(math.exp(s) for s in scores)
            for s, j in zip(scores, seen, strict=True):
                expected[0, h, i] += math.exp(s) / total * v[0, h, j]
    found = attend(q, k, v, ALiBi(count, symmetric=symmetric), pos, pos, causal=not symmetric)
    close(found, expected)


def test_the_bias_is_not_divided_by_the_root_of_the_dimension():
    pos = torch.arange(3)
    found = biases(ALiBi(8), pos, pos, 8)
    assert found[0, 0].tolist() == [[0, 0.5, 1], [-0.5, 0, 0.5], [-1, -0.5, 0]]
    assert found[0, 7, 2].tolist() == [-2 / 256, -1 / 256, 0]
    assert torch.equal(biases(ALiBi(8, symmetric=True), pos, pos, 8), -found.abs())


@BOTH
def test_the_bias_is_the_same_along_diagonals_and_wherever_the_sequence_begins(symmetric):
    encoding, pos = ALiBi(2, symmetric=symmetric), torch.arange(40)
    found = biases(encoding, pos, pos)
    assert torch.equal(found[..., 1:, 1:], found[..., :-1, :-1])
    assert torch.equal(biases(encoding, pos + 10**9, pos + 10**9), found)
    batched = torch.stack((pos, pos.flip(0)))
    both = biases(encoding, batched, batched)
    assert torch.equal(both[1], found[0].flip(-1, -2)) and torch.equal(both[0], found[0])


@given(count=HEADS, length=st.integers(1, 8))
def test_the_column_form_is_the_same_after_a_causal_softmax(count, length):
    """m (j - i) and m j differ by a number per row, which a softmax does not see, if arithmetic is exact."""
    q, k = heads(length, count), heads(length, count)
    pos = torch.arange(length)
    score = q @ k.transpose(-2, -1) / 2 + alibi_slopes(count)[:, None, None].double() * pos
    column = score.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
    close(attention_weights(q, k, ALiBi(count), pos, pos), column)


def test_the_column_form_fails_in_bfloat16_and_the_relative_form_does_not():
    length, slope = 2048, 0.5
    pos = torch.arange(length)
    exact = alibi(pos - pos[-1], torch.tensor(slope, dtype=torch.float64))  # for the last query
    column = (slope * pos).bfloat16().double()
    relative = biases(ALiBi(8).bfloat16(), pos[-1:], pos, 8, torch.bfloat16)[0, 0, 0]
    assert relative.dtype == torch.float32
    assert torch.equal(relative.double(), exact)
    error = (column - column[-1] - exact)[-32:].abs().max()
    assert error == 2.5  # logits, among the 32 nearest keys
    assert column[-32:].unique().numel() == 5
    assert relative.bfloat16()[-32:].unique().numel() == 32
    shift = (column.softmax(0) - exact.softmax(0)).abs().sum() / 2
    assert 0.25 < shift < 0.26  # of the attention goes elsewhere


@given(length=st.integers(1, 9), count=st.integers(1, 5))
def test_the_symmetric_form_cannot_tell_left_from_right(length, count):
    q, k, v = heads(length, count), heads(length, count), heads(length, count)
    encoding, pos = ALiBi(count, symmetric=True), torch.arange(length)
    forward = attend(q, k, v, encoding, pos, pos, causal=False)
    backward = attend(q.flip(2), k.flip(2), v.flip(2), encoding, pos, pos, causal=False)
    close(backward, forward.flip(2))


def test_slopes_of_zero_are_nope_and_steep_ones_look_at_the_last_token_only():
    q, k, pos = heads(6), heads(6), torch.arange(6)
    flat = attention_weights(q, k, ALiBi(2, slopes=torch.zeros(2)), pos, pos)
    assert torch.equal(flat, attention_weights(q, k, NoPE(), pos, pos))
    steep = attention_weights(q, k, ALiBi(2, slopes=torch.full((2,), 1e4)), pos, pos)
    torch.testing.assert_close(steep, torch.eye(6, dtype=torch.float64).expand(1, 2, 6, 6))


def test_near_keys_differ_at_any_position_and_far_ones_up_to_2_to_the_24():
    late = torch.tensor([10**12, 10**12 + 1])
    assert biases(ALiBi(8), late[1:], late, 8, torch.float32)[0, 0, 0].tolist() == [-0.5, 0]
    far = torch.tensor([0, 1])
    found = biases(ALiBi(8), torch.tensor([2**24]), far, 8, torch.float32)[0, 0, 0]
    assert found.tolist() == [-(2**23), -(2**23) + 0.5]
    assert biases(ALiBi(8), torch.tensor([2**24 + 1]), far, 8, torch.float32)[0, 0, 0].unique().numel() == 1


def test_keys_of_the_future_are_refused_unless_distance_is_symmetric():
    q, pos = heads(3), torch.arange(3)
    assert ALiBi(2).causal_only
    assert not ALiBi(2, symmetric=True).causal_only
    with pytest.raises(ValueError, match="make its symmetric or bidirectional form"):
        attend(q, q, q, ALiBi(2), pos, pos, causal=False)
    attend(q, q, q, ALiBi(2, symmetric=True), pos, pos, causal=False)


@pytest.mark.parametrize("cast", [torch.bfloat16, torch.float16, torch.float64])
def test_casting_a_model_keeps_the_slopes(cast):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), ALiBi(12))
    model.to(cast)
    assert model[0].weight.dtype == cast
    assert model[1].slope.dtype == torch.float32
    assert torch.equal(model[1].slope, alibi_slopes(12))
    pos = torch.arange(5)
    found = biases(model[1], pos, pos, 12, cast)
    assert found.dtype == torch.promote_types(cast, torch.float32)
    assert torch.equal(found.float(), biases(ALiBi(12), pos, pos, 12, torch.float32))


def test_texts_with_the_same_positions_share_one_bias():
    q = torch.randn(3, 2, 5, 8)
    for pos, texts in ((torch.arange(5), 1), (torch.arange(5) * torch.tensor([[1], [2], [3]]), 3)):
        bias = pair_bias(ALiBi(2), q, q, *batched(q, pos, pos))
        assert bias.shape == (texts, 2, 5, 5)


def test_slopes_are_a_buffer_that_is_not_saved():
    encoding = ALiBi(4)
    assert encoding.doors == ("score_bias",)
    assert encoding.exact == ("slope",)
    assert not list(encoding.parameters()) and not encoding.state_dict()
    assert [name for name, _ in encoding.named_buffers()] == ["slope"]


def test_learned_slopes_are_parameters_that_begin_where_the_others_are():
    encoding = ALiBi(4, learned=True)
    assert torch.equal(encoding.slope, alibi_slopes(4))
    assert [name for name, _ in encoding.named_parameters()] == ["slope"]
    assert list(encoding.state_dict()) == ["slope"]
    assert encoding.exact == ()
    pos = torch.arange(5)
    biases(encoding, pos, pos, 4).sum().backward()
    assert encoding.slope.grad.tolist() == [0] * 4  # what the past costs, the future is paid
    symmetric = ALiBi(4, symmetric=True, learned=True)
    biases(symmetric, pos, pos, 4).sum().backward()
    assert symmetric.slope.grad.tolist() == [-40.0] * 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_learned_slopes_are_cast_and_their_products_are_not(dtype):
    encoding, pos = ALiBi(12, learned=True).to(dtype), torch.arange(300)
    assert encoding.slope.dtype == dtype
    found = biases(encoding, pos, pos, 12, dtype)
    wide = torch.promote_types(dtype, torch.float32)
    assert found.dtype == wide
    offset = (pos[None, :] - pos[:, None]).to(wide)
    assert torch.equal(found[0], encoding.slope.to(wide)[:, None, None] * offset)


def test_given_slopes_replace_the_default():
    slopes = torch.tensor([0.75, 0.0])
    pos = torch.arange(3)
    encoding = ALiBi(2, slopes=slopes)
    assert torch.equal(encoding.slope, slopes)
    assert biases(encoding, pos[-1:], pos)[0, :, 0].tolist() == [[-1.5, -0.75, 0], [0, 0, 0]]
    learned = ALiBi(2, learned=True, slopes=slopes)
    with torch.no_grad():
        learned.slope.add_(1)
    assert slopes.tolist() == [0.75, 0.0]  # the parameter is a copy
    learned.reset_parameters()
    assert learned.slope.tolist() == [1.75, 1.0]  # nobody knows any more what was given


def test_slopes_are_made_in_at_least_float32_unless_they_are_learned():
    given = torch.tensor([0.75, 1 / 3], dtype=torch.float64)
    assert ALiBi(2, dtype=torch.float64).slope.dtype == torch.float64
    assert ALiBi(2, dtype=torch.bfloat16).slope.dtype == torch.float32
    assert ALiBi(2, learned=True, dtype=torch.bfloat16).slope.dtype == torch.bfloat16
    assert torch.equal(ALiBi(2, slopes=given).slope, given)
    assert torch.equal(ALiBi(2, slopes=given, dtype=torch.float16).slope, given.float())
    assert ALiBi(2, slopes=given, learned=True, dtype=torch.float16, device="meta").slope.is_meta


def test_learned_slopes_can_be_reset():
    encoding = copy.deepcopy(ALiBi(4, learned=True))
    torch.nn.init.zeros_(encoding.slope)
    encoding.reset_parameters()
    assert torch.equal(encoding.slope, alibi_slopes(4))
    assert isinstance(encoding.slope, torch.nn.Parameter) and encoding.slope.requires_grad


def test_a_model_built_on_the_meta_device_gets_its_slopes_with_its_memory():
    with torch.device("meta"):
        model = torch.nn.Sequential(ALiBi(12), ALiBi(12, learned=True))
    assert model[0].slope.is_meta and model[1].slope.is_meta
    model.to_empty(device="cpu")
    assert torch.equal(model[0].slope, alibi_slopes(12))
    model[1].reset_parameters()
    assert torch.equal(model[1].slope, alibi_slopes(12))


def test_given_slopes_are_marked_where_their_values_are_lost():
    encoding = ALiBi(2, slopes=torch.tensor([0.75, 0.5])).to("meta").to_empty(device="cpu")
    assert encoding.slope.isnan().all()


@BOTH
def test_attention_is_differentiable_in_the_slopes(symmetric):
    q, k, pos = heads(5), heads(5), torch.arange(5)

    def weights(slopes: Tensor) -> Tensor:
        encoding = ALiBi(2, symmetric=symmetric, slopes=slopes)
        return attention_weights(q, k, encoding, pos, pos, causal=not symmetric)

    assert torch.autograd.gradcheck(weights, torch.tensor([0.5, 0.1], dtype=torch.float64, requires_grad=True))


def test_given_slopes_move_to_the_device_that_is_asked_for():
    assert ALiBi(2, slopes=torch.ones(2), device="meta").slope.is_meta


def test_positions_may_be_floats():
    found = biases(ALiBi(1), torch.tensor([1.5]), torch.tensor([0.25, 1.5]), 1)
    assert found.flatten().tolist() == [-1.25 / 256, 0]
    broken = torch.tensor([math.nan, math.inf])
    assert biases(ALiBi(1), broken, broken, 1).shape == (1, 1, 2, 2)


def test_bad_input_is_refused():
    for count in (0, -1):
        for call in (alibi_slopes, ALiBi, lambda n: ALiBi(n, slopes=torch.ones(0))):
            with pytest.raises(ValueError, match=rf"heads is {count}: use the number of attention heads, 1 or more"):
                call(count)
    for shape in ((3,), (1, 2), ()):
        with pytest.raises(ValueError, match=r"use shape \(heads,\) = \(2,\), such as alibi_slopes\(2\)"):
            ALiBi(2, slopes=torch.ones(shape))
    q, pos = heads(3, 4), torch.arange(3)
    with pytest.raises(ValueError, match=r"ALiBi was made for 2 heads and q has 4: make it with ALiBi\(4\)"):
        attend(q, q, q, ALiBi(2), pos, pos)
