"""posenc.schemes.xpos against loops: what turns also fades, and a fixed centre keeps cached keys right."""

import inspect
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import RoPE, attend, frequencies, rotate
from posenc.schemes.xpos import XPos, xpos_radius, xpos_reach

LAYOUTS = ["interleaved", "half"]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def zeta(t: int, dim: int, gamma: float = 0.4) -> float:
    return (2 * t / dim + gamma) / (1 + gamma)


def exact(encoding: XPos) -> XPos:
    """With frequencies in float64, for identities."""
    encoding.freq = frequencies(encoding.head_dim, encoding.base, dtype=torch.float64)
    return encoding


@given(
    pos=st.lists(st.integers(-5000, 5000), min_size=1, max_size=4),
    pairs=st.integers(1, 8),
    gamma=st.floats(0.1, 10),
    scale_base=st.floats(128, 2048),
    centre=st.integers(-1000, 1000),
)
def test_a_radius_is_a_power_of_its_pair(pos, pairs, gamma, scale_base, centre):
    found = xpos_radius(torch.tensor(pos), 2 * pairs, gamma, scale_base, centre, dtype=torch.float64)
    expected = [[zeta(t, 2 * pairs, gamma) ** ((p - centre) / scale_base) for t in range(pairs)] for p in pos]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


def test_the_defaults_are_those_of_the_published_code():
    given_by = {name: p.default for name, p in inspect.signature(xpos_radius).parameters.items()}
    assert [given_by[name] for name in ("gamma", "scale_base", "centre", "dtype")] == [0.4, 512.0, 0, torch.float32]
    found = xpos_radius(torch.tensor([0, 512, -512]), 4)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor([[1, 1], [2 / 7, 9 / 14], [7 / 2, 14 / 9]]))
    xpos = XPos(8)
    assert (xpos.gamma, xpos.scale_base, xpos.centre) == (0.4, 512.0, 0)
    assert (xpos.base, xpos.layout, xpos.head_dim, xpos.rotary_dim) == (10_000.0, "interleaved", 8, 8)
    assert torch.equal(xpos.freq, frequencies(8))


def test_radii_lie_where_positions_do():
    found = xpos_radius(torch.arange(3).to("meta"), 8)
    assert found.is_meta and found.shape == (3, 4)


def test_positions_of_a_batch_have_radii_of_their_own():
    pos = torch.tensor([[0, 1, 2], [7, 3, 100]])
    both = xpos_radius(pos, 8)
    assert both.shape == (2, 3, 4)
    assert torch.equal(both[1], xpos_radius(pos[1], 8))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float32, torch.float64])
def test_positions_of_any_kind_may_lie_before_the_centre(dtype):
    found = xpos_radius(torch.tensor([0, 3, 100], dtype=dtype), 8, centre=50)
    torch.testing.assert_close(found, xpos_radius(torch.tensor([-50, -47, 50]), 8))


def test_far_from_zero_integers_are_subtracted_exactly():
    far = torch.tensor([10**9 + 1, 10**9 + 7])
    torch.testing.assert_close(xpos_radius(far, 8, centre=10**9), xpos_radius(torch.tensor([1, 7]), 8))


def test_gradients_reach_the_numbers_of_a_radius():
    numbers = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in (0.4, 512.0, 10.0)]
    assert torch.autograd.gradcheck(
        lambda *n: xpos_radius(torch.tensor([0, 30, 100]), 6, *n, dtype=torch.float64), numbers
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    i=st.integers(0, 2000),
    j=st.integers(0, 2000),
    centre=st.integers(-500, 2500),
    pairs=st.integers(1, 6),
    gamma=st.floats(0.1, 2),
    scale_base=st.floats(128, 1024),
)
def test_a_score_turns_with_the_offset_and_fades(layout, i, j, centre, pairs, gamma, scale_base):
    dim = 2 * pairs
    xpos = exact(XPos(dim, 500.0, layout=layout, gamma=gamma, scale_base=scale_base, centre=centre))
    q, k = torch.randn(2, 1, 1, 1, dim, dtype=torch.float64)
    found = float((xpos.query(q, torch.tensor([i])) * xpos.key(k, torch.tensor([j]))).sum())
    expected = 0.0
    for t in range(pairs):
        a, b = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + pairs)
        (q0, q1), (k0, k1) = ([float(x[..., c]) for c in (a, b)] for x in (q, k))
        angle = (j - i) * 500.0 ** (-2 * t / dim)
        c, s = math.cos(angle), math.sin(angle)
        turned = q0 * (c * k0 - s * k1) + q1 * (s * k0 + c * k1)
        expected += zeta(t, dim, gamma) ** ((i - j) / scale_base) * turned
    size = float(q.norm() * k.norm()) * max(1.0, zeta(0, dim, gamma) ** ((i - j) / scale_base))
    assert abs(found - expected) < 1e-8 * size


def test_at_the_centre_it_is_rope():
    q, pos = torch.randn(1, 2, 1, 8), torch.tensor([77])
    xpos, rope = XPos(8, centre=77), RoPE(8)
    assert torch.equal(xpos.query(q, pos), rope.query(q, pos))
    assert torch.equal(xpos.key(q, pos), rope.key(q, pos))


def test_queries_shrink_and_keys_grow():
    x, pos = torch.randn(1, 2, 3, 8), torch.tensor([100, 200, 3000])
    xpos, turned = XPos(8), rotate(x, pos, frequencies(8))
    radius = xpos_radius(pos, 8).repeat_interleave(2, -1)
    assert (radius < 1).all()
    torch.testing.assert_close(xpos.query(x, pos), turned * radius)
    torch.testing.assert_close(xpos.key(x, pos), turned / radius)


def test_only_queries_and_keys_see_positions_and_the_future_must_be_hidden():
    assert XPos(8).doors == ("query", "key")
    assert XPos.causal_only is True
    assert not XPos(8).raw_keys
    q, k = torch.ones(2, 1, 1, 1, 8)
    past, future = (
        (XPos(8).query(q, torch.tensor([0])) * XPos(8).key(k, torch.tensor([p]))).sum().abs() for p in (-5000, 5000)
    )
    assert past < 8 < 1e3 < future


# A centre that moves


def decode(xpos: XPos, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Token by token, with keys kept as they were turned when they came."""
    keys, rows = [], []
    for t in range(q.shape[2]):
        now = torch.tensor([t])
        keys.append(xpos.key(k[:, :, t : t + 1], now))
        query = xpos.query(q[:, :, t : t + 1], now)
        rows.append(attend(query, torch.cat(keys, 2), v[:, :, : t + 1], xpos, now, torch.arange(t + 1)))
    return torch.cat(rows, 2)


@pytest.mark.parametrize("centre", [0, 20, -300])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cached_decoding_equals_the_full_pass_whatever_the_centre(layout, centre):
    q, k, v = torch.randn(3, 1, 2, 40, 8, dtype=torch.float64)
    pos = torch.arange(40)
    xpos = exact(XPos(8, layout=layout, scale_base=8.0, centre=centre))
    full = attend(xpos.query(q, pos), xpos.key(k, pos), v, xpos, pos, pos)
    torch.testing.assert_close(decode(xpos, q, k, v), full, rtol=0, atol=1e-10)
    elsewhere = exact(XPos(8, layout=layout, scale_base=8.0))
    torch.testing.assert_close(decode(elsewhere, q, k, v), full, rtol=0, atol=1e-10)


def test_a_centre_in_the_middle_of_the_current_length_spoils_the_cache():
    """As torchscale has it: right for a whole sequence, wrong for keys that were cached when it was shorter."""

    class Following(XPos):
        def __init__(self) -> None:
            super().__init__(8, scale_base=8.0)

        def key(self, k: Tensor, pos: Tensor) -> Tensor:
            self.centre = (int(pos.max()) + 1) // 2  # every call brings the sequence up to date
            return super().key(k, pos)

    q, k, v = torch.randn(3, 1, 2, 40, 8, dtype=torch.float64)
    pos, fixed, following = torch.arange(40), exact(XPos(8, scale_base=8.0)), exact(Following())
    expected = attend(fixed.query(q, pos), fixed.key(k, pos), v, fixed, pos, pos)
    keys = following.key(k, pos)
    whole = attend(following.query(q, pos), keys, v, following, pos, pos)
    torch.testing.assert_close(whole, expected, rtol=0, atol=1e-10)
    assert (decode(following, q, k, v) - expected).abs().max() > 0.1


# What a dtype can hold


def test_the_reach_is_where_radii_stop_being_normal_numbers():
    assert [round(xpos_reach(dtype)) for dtype in DTYPES] == [3966, 35694, 35694, 289519]
    assert math.isclose(xpos_reach(torch.float32, 1.0, 100.0), 12_600.0)  # 100 · log2(2^126)
    for dtype in DTYPES:
        limit = int(xpos_reach(dtype))
        inside = xpos_radius(torch.tensor([limit, -limit]), 64, dtype=torch.float64)
        assert inside[0].min() >= torch.finfo(dtype).tiny and inside[1].max() <= torch.finfo(dtype).max
        assert xpos_radius(torch.tensor([limit + 2]), 64, dtype=torch.float64).min() < torch.finfo(dtype).tiny


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("centre", [0, 1000])
def test_within_reach_all_is_finite_and_beyond_it_is_refused(dtype, centre):
    xpos, x = XPos(8, centre=centre), torch.ones(1, 1, 2, 8, dtype=dtype)
    limit = int(xpos_reach(dtype))
    for door in (xpos.query, xpos.key):
        found = door(x, torch.tensor([centre - limit, centre + limit]))
        assert found.dtype == dtype and found.isfinite().all() and (found.abs().amax(-1) > 0).all()
        for far in (centre - limit - 1, centre + limit + 1):
            with pytest.raises(ValueError, match=rf"{limit + 1:g} from centre={centre}, .*{dtype}: use"):
                door(x, torch.tensor([centre, far]))


def test_the_reach_is_that_of_the_numbers_given():
    x = torch.ones(1, 1, 1, 8, dtype=torch.float16)
    XPos(8, scale_base=1024.0).key(x, torch.tensor([5000]))
    XPos(8, gamma=1.0).key(x, torch.tensor([5000]))
    with pytest.raises(ValueError, match="scale_base"):
        XPos(8).key(x, torch.tensor([5000]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_result_once(dtype, device):
    xpos, pos = XPos(8).to(device), torch.tensor([0, 300, 3900], device=device)
    x = torch.randn(1, 2, 3, 8, device=device).to(dtype)
    for door in (xpos.query, xpos.key):
        assert torch.equal(door(x, pos), door(x.float(), pos).to(dtype))


# What modules go through


def test_it_moves_casts_and_saves_like_rope():
    xpos = XPos(8, gamma=0.5, centre=3).to(torch.bfloat16)
    assert xpos.freq.dtype == torch.float32 and not xpos.state_dict()
    with torch.device("meta"):
        made = XPos(8, 500.0)
    assert torch.equal(made.to_empty(device="cpu").freq, frequencies(8, 500.0))


def test_positions_without_values_are_not_looked_at():
    pos = torch.arange(3, device="meta")
    assert XPos(8, device="meta").query(torch.zeros(1, 1, 3, 8, device="meta"), pos).is_meta


def test_compiled_it_looks_at_no_position():
    torch._dynamo.reset()
    compiled = torch.compile(XPos(8).key, fullgraph=True, backend="aot_eager")
    assert not compiled(torch.ones(2, 3, 5, 8), torch.arange(5) + 10**6).isfinite().all()


def test_bad_input_is_refused():
    for bad in (0.0, -1.0, math.nan, math.inf):
        for make in (XPos, lambda dim, **kw: xpos_radius(torch.arange(3), dim, **kw)):
            with pytest.raises(ValueError, match=rf"gamma is {bad}, .*positive.* 0\.4$"):
                make(8, gamma=bad)
            with pytest.raises(ValueError, match=rf"scale_base is {bad}, .*positive.* 512\.0$"):
                make(8, scale_base=bad)
        with pytest.raises(ValueError, match=rf"gamma is {bad}"):
            xpos_reach(torch.float32, bad)
        with pytest.raises(ValueError, match=rf"scale_base is {bad}"):
            xpos_reach(torch.float32, 0.4, bad)
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=f"centre is {bad}"):
            XPos(8, centre=bad)
    with pytest.raises(ValueError, match=r"dim is 7, .*even"):
        xpos_radius(torch.arange(3), 7)
    with pytest.raises(ValueError, match=r"head_dim is 7, .*even"):
        XPos(7)
    with pytest.raises(ValueError, match="layout is 'neox': use"):
        XPos(8, layout="neox")
    with pytest.raises(ValueError, match=r"base is 0, .*positive"):
        XPos(8, 0)
    for wrong in (torch.tensor(3), torch.zeros(1, 1, 3)):
        with pytest.raises(ValueError, match=r"pos .*\(L,\)"):
            xpos_radius(wrong, 8)
    for door in (XPos(8).query, XPos(8).key):
        with pytest.raises(ValueError, match="pos holds 4"):
            door(torch.zeros(1, 1, 3, 8), torch.arange(4))
        with pytest.raises(ValueError, match="head_dim=4"):
            door(torch.zeros(1, 1, 3, 4), torch.arange(3))


def test_it_prints_what_it_is_made_of_and_takes_the_keywords_of_modules():
    xpos = XPos(8, gamma=0.5, centre=3, device="meta", dtype=torch.bfloat16)
    assert repr(xpos) == ("XPos(head_dim=8, base=10000.0, layout='interleaved', gamma=0.5, scale_base=512.0, centre=3)")
    assert xpos.freq.is_meta and xpos.freq.dtype == torch.float32
