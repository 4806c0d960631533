"""posenc.sinusoidal against loops, and the properties that the chapter proves."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Sinusoidal, frequencies, layout_permutation, sinusoidal

DIMS = st.integers(1, 24).map(lambda n: 2 * n)
BASES = st.floats(1.5, 1e6)


def oracle(pos: list[float], dim: int, base: float) -> torch.Tensor:
    table = torch.zeros(len(pos), dim, dtype=torch.float64)
    for row, p in enumerate(pos):
        for t in range(dim // 2):
            angle = p / base ** (2 * t / dim)
            table[row, 2 * t] = math.sin(angle)
            table[row, 2 * t + 1] = math.cos(angle)
    return table


@given(dim=DIMS, base=BASES)
def test_frequencies_equal_the_formula(dim, base):
    expected = torch.tensor([base ** (-2 * t / dim) for t in range(dim // 2)], dtype=torch.float64)
    torch.testing.assert_close(frequencies(dim, base, dtype=torch.float64), expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(frequencies(dim, base), expected.float(), rtol=1e-6, atol=0)


def test_frequencies_fall_from_one_by_a_constant_ratio():
    freq = frequencies(64, dtype=torch.float64)
    assert freq[0] == 1
    torch.testing.assert_close(freq[1:] / freq[:-1], torch.full((31,), 10_000 ** (-2 / 64), dtype=torch.float64))


def test_frequencies_ignore_the_default_dtype():
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(frequencies(8), torch.tensor([1.0, 0.1, 0.01, 0.001], dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)


def test_base_as_a_tensor_gives_the_same_and_a_gradient():
    base = torch.tensor(500.0, dtype=torch.float64, requires_grad=True)
    freq = frequencies(8, base, dtype=torch.float64)
    torch.testing.assert_close(freq, frequencies(8, 500.0, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda b: frequencies(8, b, dtype=torch.float64), base)


def test_frequencies_lie_where_they_are_asked_for_or_else_where_the_base_does():
    base = torch.tensor(500.0)
    assert frequencies(8, device=torch.device("meta")).is_meta
    assert frequencies(8, base.to("meta")).is_meta
    assert frequencies(8, base, device=torch.device("meta")).is_meta
    assert sinusoidal(torch.arange(3).to("meta"), 8).is_meta
    with torch.device("meta"):
        assert not frequencies(8, base).is_meta


@given(pos=st.lists(st.integers(-4096, 4096), min_size=1, max_size=5), dim=DIMS, base=BASES)
def test_sinusoidal_equals_loops(pos, dim, base):
    exact = sinusoidal(torch.tensor(pos, dtype=torch.float64), dim, base)
    torch.testing.assert_close(exact, oracle(pos, dim, base), rtol=0, atol=1e-10)
    found = sinusoidal(torch.tensor(pos), dim, base)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-6 + 2e-7 * max(map(abs, pos)))


def test_half_layout_holds_all_sines_first():
    pos = torch.arange(7)
    half = sinusoidal(pos, 12, layout="half")
    assert torch.equal(half, sinusoidal(pos, 12)[:, layout_permutation(12)])
    assert torch.equal(half[0], torch.tensor([0.0] * 6 + [1.0] * 6))


@given(p=st.integers(-1000, 1000), k=st.integers(-1000, 1000), dim=DIMS)
def test_a_shift_is_a_matrix_that_does_not_depend_on_the_position(p, k, dim):
    shift = torch.zeros(dim, dim, dtype=torch.float64)
    for t, w in enumerate(frequencies(dim, dtype=torch.float64).tolist()):
        c, s = math.cos(k * w), math.sin(k * w)
        shift[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    here, there = sinusoidal(torch.tensor([p, p + k], dtype=torch.float64), dim)
    torch.testing.assert_close(shift @ here, there, rtol=0, atol=1e-11)


@given(length=st.integers(2, 40), dim=DIMS, start=st.integers(-100, 100), base=BASES)
def test_gram_matrix_depends_on_the_offset_only(length, dim, start, base):
    pe = sinusoidal(torch.arange(start, start + length, dtype=torch.float64), dim, base)
    gram = pe @ pe.T
    torch.testing.assert_close(gram[1:, 1:], gram[:-1, :-1], rtol=0, atol=1e-10)
    cosines = torch.cos(torch.arange(length)[:, None] * frequencies(dim, base, dtype=torch.float64)).sum(-1)
    torch.testing.assert_close(gram[0], cosines, rtol=0, atol=1e-10)
    torch.testing.assert_close(gram.diagonal(), torch.full((length,), dim / 2, dtype=torch.float64))


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_positions_of_a_batch_equal_one_by_one(layout, device):
    pos = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 1000]], device=device)
    both = sinusoidal(pos, 8, layout=layout)
    assert both.shape == (2, 4, 8)
    for n in range(2):
        assert torch.equal(both[n], sinusoidal(pos[n], 8, layout=layout))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64])
def test_positions_may_be_integers_or_floats(dtype):
    pos = torch.arange(9).to(dtype)
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert sinusoidal(pos, 8).dtype == expected
    torch.testing.assert_close(sinusoidal(pos, 8).float(), sinusoidal(torch.arange(9), 8))


def test_positions_between_two_tokens_have_an_encoding():
    torch.testing.assert_close(sinusoidal(torch.tensor([0.5]), 2)[0], torch.tensor([math.sin(0.5), math.cos(0.5)]))


def test_gradients_reach_position_and_base():
    pos = torch.tensor([0.5, 3.0], dtype=torch.float64, requires_grad=True)
    base = torch.tensor(100.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, b: sinusoidal(p, 6, b), (pos, base))


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_embed_adds_the_table(layout, device):
    x, encoding = torch.randn(2, 5, 8, device=device), Sinusoidal(8, 100.0, layout=layout)
    pos = torch.arange(5, device=device)
    torch.testing.assert_close(encoding.embed(x, pos), x + sinusoidal(pos, 8, 100.0, layout=layout))
    shifted = torch.stack((pos, pos + 3))
    torch.testing.assert_close(encoding.embed(x, shifted), x + sinusoidal(shifted, 8, 100.0, layout=layout))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_sum_and_not_the_angle(dtype, device):
    pos = torch.tensor([4093], device=device)  # bfloat16 holds 4096, and float16 no angle to better than 1
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), Sinusoidal(8)).to(device).to(dtype)
    found = module[1].embed(torch.zeros(1, 1, 8, device=device, dtype=dtype), pos)
    assert found.dtype == dtype
    exact = sinusoidal(pos.double(), 8).to(dtype)[None]
    torch.testing.assert_close(found, exact, rtol=0, atol=4e-3)


@pytest.mark.parametrize("dim", [-2, 0, 1, 7])
def test_dimensions_that_make_no_pairs_are_refused(dim):
    for call in (lambda: sinusoidal(torch.arange(3), dim), lambda: frequencies(dim)):
        with pytest.raises(ValueError, match=rf"dim is {dim}, .*even .*\d"):
            call()
    with pytest.raises(ValueError, match=f"model_dim is {dim}, .*even"):
        Sinusoidal(dim)


@pytest.mark.parametrize("base", [0, -1.0, float("nan")])
def test_bases_without_powers_are_refused(base):
    for call in (
        lambda: sinusoidal(torch.arange(3), 8, base),
        lambda: frequencies(8, base),
        lambda: Sinusoidal(8, base),
    ):
        with pytest.raises(ValueError, match=r"base is .*positive"):
            call()


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"layout is 'split': .*half"):
        sinusoidal(torch.arange(3), 8, layout="split")
    with pytest.raises(ValueError, match="layout"):
        Sinusoidal(8, layout="split")
    with pytest.raises(ValueError, match=r"pos .*torch\.tensor\(\[p\]\)"):
        sinusoidal(torch.tensor(3), 8)
    with pytest.raises(ValueError, match=r"pos is torch\.bool, .*torch\.arange"):
        sinusoidal(torch.tensor([True]), 8)
    embed = Sinusoidal(8).embed
    with pytest.raises(ValueError, match="model_dim=6"):
        embed(torch.zeros(1, 3, 6), torch.arange(3))
    with pytest.raises(ValueError, match=r"pos holds 4 .*torch\.arange\(3\)"):
        embed(torch.zeros(1, 3, 8), torch.arange(4))
    with pytest.raises(ValueError, match=r"pos .*3 sequences .*\(2, L\)"):
        embed(torch.zeros(2, 4, 8), torch.arange(4).expand(3, 4))
    with pytest.raises(ValueError, match=r"pos .*single sequence: .*\(4,\)"):
        embed(torch.zeros(4, 8), torch.arange(4)[None])


def test_a_sinusoid_prints_what_it_is_made_of_and_takes_the_keywords_of_modules():
    made = Sinusoidal(8, 500.0, layout="half", device="cpu", dtype=torch.bfloat16)
    assert repr(made) == "Sinusoidal(model_dim=8, base=500.0, layout='half')"
    assert torch.equal(
        made.embed(torch.zeros(3, 8), torch.arange(3)), sinusoidal(torch.arange(3), 8, 500.0, layout="half")
    )
