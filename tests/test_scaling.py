"""posenc.schemes.scaling against loops, and what each scheme promises: which hands slow down, and by how much."""

import inspect
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import RoPE, attend, frequencies, rotate
from posenc.schemes.scaling import (
    dynamic_ntk,
    interpolate,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk,
    p_rope,
    yarn,
    yarn_attention_factor,
)

DIMS = st.integers(2, 64).map(lambda n: 2 * n)
BASES = st.floats(100, 1e7)
FACTORS = st.floats(1, 64)
LENGTHS = st.integers(64, 131_072)


def exact(dim: int, base: float = 10_000.0) -> Tensor:
    return frequencies(dim, base, dtype=torch.float64)


def close(found: Tensor, expected: list[float] | Tensor, rtol: float = 1e-9) -> None:
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=found.dtype), rtol=rtol, atol=0)


# Position interpolation


@given(dim=DIMS, base=BASES, factor=FACTORS)
def test_interpolation_divides_frequencies_and_so_positions(dim, base, factor):
    freq = exact(dim, base)
    close(interpolate(freq, factor), [w / factor for w in freq.tolist()])
    x, pos = torch.randn(3, dim, dtype=torch.float64), torch.tensor([0.0, 5.0, 1000.0], dtype=torch.float64)
    torch.testing.assert_close(rotate(x, pos, interpolate(freq, factor)), rotate(x, pos / factor, freq))


# NTK


@given(dim=DIMS, base=BASES, factor=FACTORS)
def test_ntk_multiplies_the_base(dim, base, factor):
    found = ntk(exact(dim, base), factor)
    assert found[0] == 1
    if dim == 2:
        return
    larger = base * factor ** (dim / (dim - 2))
    close(found, [larger ** (-2 * t / dim) for t in range(dim // 2)])
    close(found[-1], exact(dim, base)[-1] / factor)


def test_ntk_keeps_the_first_and_divides_the_last():
    ratio = ntk(exact(128), 8.0) / exact(128)
    assert ratio[0] == 1
    close(ratio[-1], torch.tensor(1 / 8))
    assert (ratio.diff() < 0).all()
    assert ntk(torch.tensor([0.5]), 8.0).tolist() == [0.5]  # one pair is the first
    assert ntk(torch.tensor([0.5, 0.25]), 8.0).tolist() == [0.5, 0.25 / 8]


def test_ntk_takes_one_factor_for_each_sequence():
    both = ntk(exact(8), torch.tensor([2.0, 8.0]))
    assert both.shape == (2, 4) and both.dtype == torch.float64
    for n, factor in enumerate((2.0, 8.0)):
        close(both[n], ntk(exact(8), factor))


# Dynamic NTK


@given(dim=DIMS, base=BASES, length=st.integers(1, 10**6), trained=LENGTHS, alpha=st.floats(1, 16))
def test_dynamic_ntk_grows_the_factor_with_the_text(dim, base, length, trained, alpha):
    factor = max(1.0, alpha * max(length, trained) / trained - (alpha - 1))  # 1 but for rounding
    for given_as in (length, torch.tensor(length)):
        found = dynamic_ntk(exact(dim, base), given_as, trained, alpha)
        close(found, ntk(exact(dim, base), factor))


def test_dynamic_ntk_of_the_paper_is_the_extension_itself():
    assert inspect.signature(dynamic_ntk).parameters["factor"].default == 1.0
    for length, factor in ((1, 1.0), (4096, 1.0), (8192, 2.0), (40_960, 10.0)):
        close(dynamic_ntk(exact(64), length, 4096), ntk(exact(64), factor))
    assert torch.equal(dynamic_ntk(exact(64), 4096, 4096, 8.0), exact(64))


def test_dynamic_ntk_takes_the_length_of_each_sequence(device):
    found = dynamic_ntk(frequencies(8), torch.tensor([10, 200, 400], device=device), 100)
    assert found.shape == (3, 4) and found.device.type == device
    for n, factor in enumerate((1.0, 2.0, 4.0)):
        torch.testing.assert_close(found[n].cpu(), ntk(frequencies(8), factor))


def dynamic(trained: int) -> RoPE:
    return RoPE(8, freq=lambda length: dynamic_ntk(exact(8), length, trained))


def test_a_rope_that_grows_with_the_text():
    rope, x = dynamic(4), torch.randn(2, 3, 10, 8, dtype=torch.float64)
    assert rope.raw_keys
    pos = torch.arange(10)
    torch.testing.assert_close(rope.query(x, pos), rotate(x, pos, ntk(exact(8), 2.5)))
    short = rope.query(x[:, :, :4], pos[:4])
    torch.testing.assert_close(short, RoPE(8, freq=exact(8)).query(x[:, :, :4], pos[:4]))
    assert rope.query(x[:, :, :0], pos[:0]).shape == (2, 3, 0, 8)


def layers(x: Tensor, weights: Tensor, rope: RoPE) -> list[Tensor]:
    """What each of several layers of attention puts out, all tokens at once."""
    pos, outs = torch.arange(x.shape[2]), []
    for w_q, w_k, w_v in weights:
        x = x + attend(rope.query(x @ w_q, pos), rope.key(x @ w_k, pos), x @ w_v, rope, pos, pos)
        outs.append(x)
    return outs


def test_raw_keys_save_one_layer_but_not_two():
    """Token by token with raw keys: layer 1 ends as a full pass would, and layer 2 has met older tokens otherwise."""
    rope, weights = dynamic(4), torch.randn(2, 3, 8, 8, dtype=torch.float64) / 8**0.5
    x = torch.randn(1, 2, 12, 8, dtype=torch.float64)
    inputs: list[list[Tensor]] = [[], []]  # what every token brought to each layer, when it came
    for t in range(12):
        token, now, past = x[:, :, t : t + 1], torch.tensor([t]), torch.arange(t + 1)
        for n, (w_q, w_k, w_v) in enumerate(weights):
            inputs[n].append(token)
            seen = torch.cat(inputs[n], 2)
            keys, values = rope.key(seen @ w_k, past), seen @ w_v
            token = token + attend(rope.query(token @ w_q, now), keys, values, rope, now, past)
            if n == 0:
                first = token
    one, two = (out[:, :, -1:] for out in layers(x, weights, rope))
    torch.testing.assert_close(first, one, rtol=0, atol=1e-12)
    assert (token - two).abs().max() > 1e-3


# YaRN


@given(dim=DIMS, base=BASES, factor=FACTORS, trained=LENGTHS, fast=st.floats(2, 64), slow=st.floats(0.1, 1.9))
def test_yarn_of_the_paper_ramps_over_turns(dim, base, factor, trained, fast, slow):
    expected = []
    for w in exact(dim, base).tolist():
        turns = trained / (2 * math.pi / w)
        share = min(max((turns - slow) / (fast - slow), 0.0), 1.0)
        expected.append((1 - share) * w / factor + share * w)
    close(yarn(exact(dim, base), factor, trained, beta_fast=fast, beta_slow=slow), expected)


def by_index(dim: int, base: float, factor: float, trained: float, fast: float, slow: float, truncate: bool) -> list:
    def index(turns: float) -> float:
        return dim * math.log(trained / (2 * math.pi * turns)) / (2 * math.log(base))

    start, stop = index(fast), index(slow)
    if truncate:
        start, stop = math.floor(start), math.ceil(stop)
    start, stop = max(start, 0), min(stop, dim - 1)
    if start == stop:
        stop += 0.001
    found = []
    for t in range(dim // 2):
        w, divided = base ** (-2 * t / dim), min(max((t - start) / (stop - start), 0.0), 1.0)
        found.append((1 - divided) * w + divided * w / factor)
    return found


@pytest.mark.parametrize("truncate", [True, False])
@given(dim=DIMS, base=BASES, factor=FACTORS, trained=LENGTHS, fast=st.floats(2, 64), slow=st.floats(0.1, 1.9))
def test_yarn_of_the_code_ramps_over_the_index(truncate, dim, base, factor, trained, fast, slow):
    found = yarn(exact(dim, base), factor, trained, form="code", beta_fast=fast, beta_slow=slow, truncate=truncate)
    close(found, by_index(dim, base, factor, trained, fast, slow, truncate), rtol=1e-6)


def test_the_code_form_is_exact_where_models_use_it():
    """From float32 frequencies the rounded ends of the ramp come out as from the base."""
    for dim, base, factor, trained in (
        (128, 1e4, 16, 4096),
        (128, 1e4, 32, 4096),
        (64, 1e4, 40, 4096),
        (64, 1.5e5, 32, 4096),
    ):
        for truncate in (True, False):
            found = yarn(frequencies(dim, base), factor, trained, form="code", truncate=truncate)
            close(found, by_index(dim, base, factor, trained, 32, 1, truncate), rtol=2e-5)
    for truncate in (True, False):  # as Kimi K2 has it, and with ends that meet
        equal = yarn(frequencies(64, 5e4), 32.0, 4096, form="code", beta_fast=1.0, beta_slow=1.0, truncate=truncate)
        close(equal, by_index(64, 5e4, 32.0, 4096, 1, 1, truncate), rtol=1e-5)


def test_where_the_ends_of_the_ramp_meet_it_is_a_step():
    """All pairs but the first are divided, where even the first makes hardly more than a turn."""
    found = yarn(exact(8), 4.0, 2 * math.pi, form="code", beta_fast=32.0, beta_slow=1.0)
    close(found / exact(8), [1, 1 / 4, 1 / 4, 1 / 4])


def test_the_ramp_ends_at_the_last_channel_where_all_pairs_turn_often():
    """So the authors have it, although pairs end at half of that: here the ramp would go on to 17."""
    found, freq = yarn(exact(8, 10.0), 4.0, 1e5, form="code", beta_fast=1e4), exact(8, 10.0)
    close(found / freq, [1 - t / 7 + t / 7 / 4 for t in range(4)])
    close(found, by_index(8, 10.0, 4.0, 1e5, 1e4, 1.0, True))


def test_the_defaults_of_yarn():
    defaults = {name: p.default for name, p in inspect.signature(yarn).parameters.items()}
    assert [defaults[n] for n in ("form", "beta_fast", "beta_slow", "truncate")] == ["paper", 32.0, 1.0, True]
    freq = exact(128)
    close(yarn(freq, 16.0, 4096), yarn(freq, 16.0, 4096, form="paper", beta_fast=32.0, beta_slow=1.0))


def test_the_two_forms_of_yarn_differ_by_up_to_three_and_agree_at_the_ends():
    freq = exact(128)
    paper, code = yarn(freq, 16.0, 4096), yarn(freq, 16.0, 4096, form="code")
    differ = ((paper / code - 1).abs() > 1e-9).nonzero().flatten()
    assert (int(differ[0]), int(differ[-1])) == (21, 45)  # the ramp of the code lies between 20 and 46
    assert 3.0 < (code / paper).max() < 3.1
    for form in (paper, code):
        assert torch.equal(form[:20], freq[:20])
        close(form[46:], freq[46:] / 16)


def test_yarn_of_factor_1_changes_nothing():
    for form in ("paper", "code"):
        close(yarn(exact(64), 1.0, 4096, form=form), exact(64))
    assert yarn_attention_factor(1.0) == 1.0


def test_the_attention_factor_of_yarn():
    assert math.isclose(yarn_attention_factor(16.0), 1 + 0.1 * math.log(16))
    assert math.isclose(yarn_attention_factor(16.0) ** 2, 1.6314, rel_tol=1e-4)
    assert math.isclose(yarn_attention_factor(40.0, 0.707), 1 + 0.0707 * math.log(40))
    factor = torch.tensor(16.0, dtype=torch.float64, requires_grad=True)
    found = yarn_attention_factor(factor)
    assert math.isclose(found.item(), yarn_attention_factor(16.0))
    assert math.isclose(float(torch.autograd.grad(found, factor)[0]), 0.1 / 16)


# Llama 3


def test_the_counts_of_llama_3_1():
    """Of 64 pairs 29 stay, 6 lie on the ramp, and 29 are divided by 8."""
    freq = exact(128, 500_000.0)
    ratio = llama3(freq) / freq
    stay, divided = ratio == 1, (ratio - 1 / 8).abs() < 1e-12
    assert (int(stay.sum()), int((~stay & ~divided).sum()), int(divided.sum())) == (29, 6, 29)
    assert (ratio.diff() <= 1e-12).all()


@given(dim=DIMS, base=BASES, factor=FACTORS, trained=LENGTHS, low=st.floats(0.5, 2), width=st.floats(0.5, 8))
def test_llama_3_keeps_short_waves_and_stretches_long_ones(dim, base, factor, trained, low, width):
    high, expected = low + width, []
    for w in exact(dim, base).tolist():
        wavelength = 2 * math.pi / w
        if wavelength < trained / high:
            expected.append(w)
        elif wavelength > trained / low:
            expected.append(w / factor)
        else:
            smooth = (trained / wavelength - low) / (high - low)
            expected.append((1 - smooth) * w / factor + smooth * w)
    close(llama3(exact(dim, base), factor, low, high, trained), expected)


def test_the_defaults_of_llama_3():
    freq = exact(128, 500_000.0)
    close(llama3(freq), llama3(freq, 8.0, 1.0, 4.0, 8192))
    close(llama3(freq), yarn(freq, 8.0, 8192, beta_fast=4.0, beta_slow=1.0))


# LongRoPE

SHORT, LONG = (1.0, 1.5, 2.0, 2.5), (1.0, 4.0, 16.0, 32.0)


@pytest.mark.parametrize("kind", [list, tuple, torch.tensor])
def test_longrope_switches_its_divisors_beyond_the_trained_length(kind):
    scheme = partial(longrope, exact(8), short=kind(SHORT), long=kind(LONG), trained=100)
    for length, divisors in ((1, SHORT), (100, SHORT), (101, LONG), (10**6, LONG)):
        expected = [w / d for w, d in zip(exact(8).tolist(), divisors, strict=True)]
        for given_as in (length, torch.tensor(length)):
            assert scheme(given_as).shape == (4,)
            close(scheme(given_as), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_longrope_divides_in_the_precision_of_frequencies(dtype):
    freq, fine = frequencies(8, dtype=dtype), [1.1, 1.2, 1.3, 1.4]
    for given_as in (fine, torch.tensor(fine, dtype=torch.float64)):
        for found in (longrope(freq, 1, given_as, LONG, 100), longrope(freq, 101, SHORT, given_as, 100)):
            assert found.dtype == dtype
            assert torch.equal(found, freq / torch.tensor(fine, dtype=dtype))


def test_longrope_takes_the_length_of_each_sequence(device):
    freq = longrope(frequencies(8), torch.tensor([100, 101], device=device), SHORT, LONG, 100)
    assert freq.shape == (2, 4) and freq.dtype == torch.float32 and freq.device.type == device
    for n, divisors in enumerate((SHORT, LONG)):
        torch.testing.assert_close(freq[n].cpu(), frequencies(8) / torch.tensor(divisors))


def test_longrope_is_a_scheme_for_rope():
    rope = RoPE(8, freq=partial(longrope, frequencies(8), short=SHORT, long=LONG, trained=4))
    assert rope.raw_keys
    x = torch.randn(1, 2, 5, 8)
    torch.testing.assert_close(
        rope.query(x, torch.arange(5)), rotate(x, torch.arange(5), frequencies(8) / torch.tensor(LONG))
    )
    torch.testing.assert_close(
        rope.query(x[:, :, :4], torch.arange(4)),
        rotate(x[:, :, :4], torch.arange(4), frequencies(8) / torch.tensor(SHORT)),
    )


def test_the_attention_factor_of_longrope():
    assert math.isclose(longrope_attention_factor(32.0, 4096), math.sqrt(1 + math.log(32) / math.log(4096)))
    assert longrope_attention_factor(1.0, 4096) == 1.0
    factor = torch.tensor(32.0, dtype=torch.float64, requires_grad=True)
    found = longrope_attention_factor(factor, 4096)
    assert math.isclose(found.item(), longrope_attention_factor(32.0, 4096))
    assert torch.autograd.grad(found, factor)[0] > 0


# p-RoPE


@given(pairs=st.integers(1, 64), fraction=st.floats(0, 1))
def test_p_rope_stops_the_slowest(pairs, fraction):
    freq = exact(2 * pairs)
    kept = math.floor(fraction * pairs)
    expected = torch.tensor([w if t < kept else 0.0 for t, w in enumerate(freq.tolist())], dtype=torch.float64)
    assert torch.equal(p_rope(freq, fraction), expected)
    assert torch.equal(p_rope(freq, torch.tensor(fraction, dtype=torch.float64)), expected)


def test_p_rope_is_not_a_partial_rotation():
    whole, part = p_rope(frequencies(8), 0.5), RoPE(8, rotary_dim=4).freq
    assert whole.tolist()[2:] == [0, 0] and torch.equal(whole[:2], frequencies(8)[:2])
    assert not torch.allclose(whole[:2], part)
    assert torch.equal(p_rope(frequencies(8), 1.0), frequencies(8))
    x = torch.randn(1, 1, 3, 8)
    found = RoPE(8, freq=p_rope(frequencies(8), 0.5)).query(x, torch.arange(3))
    assert torch.equal(found[..., 4:], x[..., 4:])


# All of them

SCHEMES = {
    "interpolate": lambda freq, n: interpolate(freq, n),
    "ntk": lambda freq, n: ntk(freq, n),
    "dynamic_ntk": lambda freq, n: dynamic_ntk(freq, 500, 100, n),
    "yarn, paper": lambda freq, n: yarn(freq, n, 100 * n, beta_fast=8 * n, beta_slow=n / 4),
    "yarn, code": lambda freq, n: yarn(freq, n, 100.0, form="code", truncate=False),
    "llama3": lambda freq, n: llama3(freq, n, n / 4, 2 * n, 50 * n),
    "longrope": lambda freq, n: longrope(freq, 500, torch.stack((n, n)), torch.stack((n, 3 * n)), 100),
    "p_rope": lambda freq, n: p_rope(freq, n / 8),
}
every = pytest.mark.parametrize("name", SCHEMES)


@every
def test_gradients_reach_frequencies_and_numbers(name):
    freq = torch.tensor([1.0, 0.09], dtype=torch.float64, requires_grad=True)
    number = torch.tensor(3.7, dtype=torch.float64, requires_grad=name != "p_rope")  # how many stop is a whole number
    assert torch.autograd.gradcheck(SCHEMES[name], (freq, number))


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_frequencies_keep_their_dtype_device_and_the_caller_keeps_his(name, dtype, device):
    freq = frequencies(4, dtype=dtype).to(device)
    before = freq.clone()
    found = SCHEMES[name](freq, torch.tensor(4.0, dtype=dtype, device=device))
    assert found.shape == freq.shape and found.dtype == dtype and found.device.type == device
    assert (found <= freq).all() and torch.equal(freq, before)


@every
def test_frequencies_stay_where_they_are_whatever_device_is_the_default(name):
    freq, number = frequencies(4), torch.tensor(4.0)
    expected = SCHEMES[name](freq, number)
    with torch.device("meta"):
        found = SCHEMES[name](freq, number)
    assert torch.equal(found, expected)


def test_numbers_and_lists_come_to_the_frequencies_whatever_device_is_the_default():
    freq = frequencies(8)
    expected = ntk(freq, 8.0), longrope(freq, 500, SHORT, LONG, 100)
    with torch.device("meta"):
        found = ntk(freq, 8.0), longrope(freq, 500, SHORT, LONG, 100)
    assert all(map(torch.equal, found, expected))


@every
def test_shapes_come_out_where_there_are_no_values(name):
    found = SCHEMES[name](frequencies(4).to("meta"), torch.tensor(4.0).to("meta"))
    assert found.is_meta and found.shape == (2,) and found.dtype == torch.float32


def test_frequencies_go_where_the_length_lives():
    length = torch.tensor([10, 200], device="meta")
    for found in (dynamic_ntk(frequencies(8), length, 100), longrope(frequencies(8), length, SHORT, LONG, 100)):
        assert found.is_meta and found.shape == (2, 4)


class Scheme(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, freq: Tensor, number: Tensor) -> Tensor:
        return SCHEMES[self.name](freq, number)


@every
def test_compiled_and_exported_with_a_number_that_changes(name):
    torch._dynamo.reset()
    args = frequencies(4), torch.tensor(4.0)
    program = torch.export.export(Scheme(name), args).module()
    compiled = torch.compile(Scheme(name), fullgraph=True, backend="aot_eager")
    for number in (torch.tensor(4.0), torch.tensor(6.5)):
        expected = SCHEMES[name](frequencies(4), number)
        torch.testing.assert_close(program(frequencies(4), number), expected)
        torch.testing.assert_close(compiled(frequencies(4), number), expected)


@pytest.mark.parametrize(
    "scheme",
    [
        lambda length: dynamic_ntk(frequencies(8, device=length.device), length, 4),
        partial(longrope, frequencies(8), short=SHORT, long=LONG, trained=4),
    ],
)
def test_a_rope_with_a_dynamic_scheme_compiles(scheme):
    torch._dynamo.reset()
    rope = RoPE(8, freq=scheme)
    compiled = torch.compile(rope.query, fullgraph=True, backend="eager")
    for pos in (torch.arange(3), torch.arange(9), torch.arange(9).expand(2, -1)):
        x = torch.randn(2, 2, pos.shape[-1], 8)
        torch.testing.assert_close(compiled(x, pos), rope.query(x, pos))


@every
def test_numbers_that_are_none_come_out_again(name):
    assert SCHEMES[name](torch.full((2,), torch.nan), torch.tensor(8.0)).isnan().all()


# Bad input

FREQ = frequencies(8)


@pytest.mark.parametrize("bad", [0.5, 0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "call",
    [
        lambda n: interpolate(FREQ, n),
        lambda n: ntk(FREQ, n),
        lambda n: dynamic_ntk(FREQ, 10, 100, n),
        lambda n: yarn(FREQ, n, 100),
        lambda n: yarn(FREQ, n, 100, form="code"),
        lambda n: llama3(FREQ, n),
        lambda n: yarn_attention_factor(n),
        lambda n: longrope_attention_factor(n, 4096),
    ],
)
def test_factors_below_1_are_refused(call, bad):
    with pytest.raises(ValueError, match=f"factor is {bad}, .*1 or more"):
        call(bad)
    call(1.0)


@pytest.mark.parametrize("bad", [0, -5, math.nan, math.inf])
@pytest.mark.parametrize(
    "call",
    [
        lambda n: dynamic_ntk(FREQ, 10, n),
        lambda n: yarn(FREQ, 2.0, n),
        lambda n: yarn(FREQ, 2.0, n, form="code"),
        lambda n: llama3(FREQ, trained=n),
        lambda n: longrope(FREQ, 10, SHORT, LONG, n),
        lambda n: longrope_attention_factor(2.0, n),
    ],
)
def test_trained_lengths_that_are_none_are_refused(call, bad):
    with pytest.raises(ValueError, match=f"trained is {bad}, .*tokens"):
        call(bad)
    call(2)


def test_a_trained_length_has_a_logarithm():
    with pytest.raises(ValueError, match=r"trained is 1, .*more than 1"):
        longrope_attention_factor(2.0, 1)


@pytest.mark.parametrize(("slow", "fast"), [(2.0, 1.0), (32.0, 1.0)])
def test_bounds_in_the_wrong_order_are_refused(slow, fast):
    for form in ("paper", "code"):
        with pytest.raises(ValueError, match="beta_slow < beta_fast"):
            yarn(FREQ, 2.0, 100, form=form, beta_fast=fast, beta_slow=slow)
    with pytest.raises(ValueError, match="low < high"):
        llama3(FREQ, low=slow, high=fast)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bounds_that_are_no_turns_are_refused(bad):
    for form in ("paper", "code"):
        with pytest.raises(ValueError, match=f"beta_fast is {bad}, .*positive"):
            yarn(FREQ, 2.0, 100, form=form, beta_fast=bad)
        with pytest.raises(ValueError, match=f"beta_slow is {bad} .*positive"):
            yarn(FREQ, 2.0, 100, form=form, beta_slow=bad)
        with pytest.raises(ValueError, match=r"beta_slow .*positive"):
            yarn(FREQ, 2.0, 100, form=form, beta_fast=bad, beta_slow=bad)


def test_equal_bounds_are_a_step_in_the_code_only():
    with pytest.raises(ValueError, match="beta_slow < beta_fast"):
        yarn(FREQ, 2.0, 100, beta_fast=1.0)
    with pytest.raises(ValueError, match="low < high"):
        llama3(FREQ, low=4.0)
    assert yarn(FREQ, 2.0, 100, form="code", beta_fast=1.0).isfinite().all()


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"form is 'hf': .*code"):
        yarn(FREQ, 2.0, 100, form="hf")
    with pytest.raises(ValueError, match=r"freq .*form=\"paper\""):
        yarn(FREQ[:1], 2.0, 100, form="code")
    with pytest.raises(ValueError, match=r"short .*one divisor"):
        longrope(FREQ, 10, SHORT[:3], LONG, 100)
    with pytest.raises(ValueError, match=r"long .*one divisor"):
        longrope(FREQ, 10, SHORT, (*LONG, 1.0), 100)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"fraction is {bad}, .*0 to 1"):
            p_rope(FREQ, bad)
