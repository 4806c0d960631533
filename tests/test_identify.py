"""`identify` names rotations, biases and windows that it has never seen, and says what it cannot tell."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc import ALiBi, RoPE, T5Bias, XPos, alibi_slopes, frequencies, rotate, t5_bucket
from posenc.audit import identify
from posenc.audit.identification.biases import FoundBias
from posenc.audit.identification.rotation import FoundRotation
from posenc.configs import Rotation, published, read_config
from posenc.schemes.scaling import dynamic_ntk, interpolate, llama3, longrope, ntk, yarn

F64 = torch.float64
POS = torch.arange(24) + 3


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def freq(dims: int, base: float = 10_000.0) -> Tensor:
    return base ** -(torch.arange(0, dims, 2, dtype=F64) / dims)


def pairs_of(layout: str, planes: int, dim: int) -> tuple[Tensor, Tensor]:
    t = torch.arange(planes)
    if layout == "interleaved":
        return 2 * t, 2 * t + 1
    return t, t + (dim // 2 if layout == "proportional" else planes)


def turn(
    x: Tensor, pos: Tensor, f: Tensor, layout: str = "half", *, scale: float = 1.0, sign: int = 1,
    angles: torch.dtype = F64, tables: torch.dtype = F64, start: int = 0,
) -> Tensor:  # fmt: skip
    """The formula, pair by pair: an oracle that shares nothing with the package."""
    i, j = (start + each for each in pairs_of(layout, len(f), x.shape[-1]))
    a = (sign * pos.double()[:, None] * f).to(angles).double()
    c, s = (scale * a.cos()).to(tables).double(), (scale * a.sin()).to(tables).double()
    y = x.clone()
    y[..., i], y[..., j] = x[..., i] * c - x[..., j] * s, x[..., j] * c + x[..., i] * s
    return y


def found(
    f: Tensor, pos: Tensor = POS, shape: tuple[int, ...] = (24, 64), told: Tensor | None = None, **how: Any
) -> Any:
    x = draw(*shape)
    return identify((x, turn(x, pos, f, **how), POS if told is None else told))


# ---- published rotations


def rebuilt(rotation: Rotation, layout: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """The rotation of a configuration, as a function that knows no name."""

    def apply_rope(x: Tensor, positions: Tensor) -> Tensor:
        f = torch.tensor(rotation.at(int(positions.max()) + 1))  # float32
        turned = rotate(x[..., : rotation.dims], positions, f, layout=layout, scale=rotation.attention_factor)
        return torch.cat((turned, x[..., rotation.dims :]), -1)

    return apply_rope


def published_rotations() -> list[Any]:
    seen: dict[Any, Any] = {}
    for name, entry in published().items():
        reading = read_config(entry["config"])
        for kind, one in reading.rotations.items():
            if one is not None:
                what = (
                    one.head_dim,
                    one.dims,
                    one.base,
                    one.rope_type,
                    str(sorted(one.parameters.items())),
                    reading.layout,
                )
                seen.setdefault(what, pytest.param(one, reading.layout, id=f"{name} {kind}".strip()))
    return list(seen.values())


@pytest.mark.parametrize(("rotation", "layout"), published_rotations())
def test_published_rotations_are_recognised_from_a_function(rotation: Rotation, layout: str) -> None:
    r = identify(rebuilt(rotation, layout), dim=rotation.head_dim)
    assert isinstance(r, FoundRotation)
    assert (r.layout, r.rotary_dim, r.rounding) == (layout, rotation.dims, "float32")
    named = [r.scaling, *(other.split(",")[0] for other in r.alternatives)]  # a step may be Llama 3's or YaRN's
    assert rotation.rope_type.replace("default", "none") in named and len(named) <= 2
    assert len(named) == 1 or {
        rotation.parameters.get("low_freq_factor", 0) - rotation.parameters.get("high_freq_factor", 0),
        rotation.parameters.get("beta_fast", 0) - rotation.parameters.get("beta_slow", 0),
    } == {0}
    assert math.isclose(r.amplitude, rotation.attention_factor, rel_tol=1e-5)
    low, high = r.intervals.get("base", (r.base, r.base))
    assert low * (1 - 1e-9) <= rotation.base <= high * (1 + 1e-9)
    if rotation.rope_type != "longrope":  # whose divisors hide the base where the short ones are not 1
        assert r.base == rotation.base
        assert r.factor == rotation.parameters.get("factor", 1.0)
        assert r.trained == rotation.parameters.get("original_max_position_embeddings")
    assert r.direction == 1 and r.offset == 0
    assert f"{rotation.head_dim} channels turn" in str(r).replace(
        "\n  ", " "
    ) or f"of {rotation.head_dim} channels" in str(r).replace("\n  ", " ")


# ---- dumps


@pytest.mark.parametrize("data", [F64, torch.float32])
@pytest.mark.parametrize("shape", [(24, 64), (4, 24, 64), (2, 4, 24, 64)])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_dump_tells_layout_and_base(data: torch.dtype, shape: tuple[int, ...], layout: str) -> None:
    x = draw(*shape).to(data)
    y = turn(x.double(), POS, freq(64, 500_000.0), layout).to(data)
    r = identify((x, y, POS))
    assert (r.layout, r.base, r.scaling, r.rotary_dim) == (layout, 500_000.0, "none", 64)
    assert r.pairs == tuple(zip(*(each.tolist() for each in pairs_of(layout, 32, 64)), strict=True))
    assert r.rounding == str(data).removeprefix("torch.")
    if x.ndim > 2:
        last = identify((x.transpose(-3, -2), y.transpose(-3, -2), POS))
        assert (last.base, last.heads, r.heads) == (500_000.0, "last", "first")


SCALED = {
    "linear": (freq(64) / 8, {}, ("linear", 10_000.0, 8.0)),
    "a base and a factor that nobody has": (freq(64, 7777.0) / 3.5, {}, ("linear", 7777.0, 3.5)),
    "doubled positions": (2 * freq(64), {}, ("linear", 10_000.0, 0.5)),
    "yarn, as its code has it": (yarn(freq(64), 4.0, 4096, form="code"), {"scale": 1.1386294}, ("yarn", 10_000.0, 4.0)),
    "yarn, as its paper has it": (yarn(freq(64), 4.0, 4096), {}, ("yarn", 10_000.0, 4.0)),
    "llama 3": (llama3(freq(64, 500_000.0), 8.0), {}, ("llama3", 500_000.0, 8.0)),
    "ntk": (ntk(freq(64), 8.0), {}, ("ntk", 10_000.0, 8.0)),
    "proportional": (freq(64)[:8], {"layout": "proportional"}, ("proportional", 10_000.0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_a_dump_tells_the_scaling(name: str) -> None:
    f, how, wanted = SCALED[name]
    r = found(f, **how)
    assert (r.scaling, r.base, r.factor) == wanted
    if wanted[0] in ("yarn", "llama3"):
        assert r.trained == {"yarn": 4096, "llama3": 8192}[wanted[0]]
    if wanted[0] == "ntk":
        assert "another base" in str(r)


def test_direction_offset_amplitude_and_place_are_told() -> None:
    assert found(freq(64), sign=-1).direction == -1
    assert "other way" in str(found(freq(64), sign=-1))
    assert found(freq(64), POS + 1).offset == 1
    assert found(freq(64), POS - 2).offset == -2
    assert abs(found(freq(64), POS + 2.5).offset - 2.5) < 1e-6
    assert abs(found(freq(64), scale=1.25).amplitude - 1.25) < 1e-9
    partial = found(freq(32), layout="interleaved", start=32)
    assert (partial.start, partial.rotary_dim, partial.base) == (32, 32, 10_000.0)
    half = found(freq(32))
    assert (half.layout, half.rotary_dim, half.pairs[0], len(half.pairs)) == ("half", 32, (0, 16), 16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("what", ["angles", "tables", "frequencies", "positions"])
def test_what_is_rounded_to_16_bits_is_named(what: str, dtype: torch.dtype) -> None:
    far = 3000 if dtype == torch.float16 else 250
    pos = torch.arange(24) + (far if what == "positions" else 3)
    f, x = freq(64), draw(2, 4, 24, 64)
    how = {what: dtype} if what in ("angles", "tables") else {}
    y = turn(
        x,
        pos.to(dtype).double() if what == "positions" else pos,
        f.to(dtype).double() if what == "frequencies" else f,
        **how,
    )
    r = identify((x, y, pos))
    assert (r.rounding, r.rounded, r.base) == (str(dtype).removeprefix("torch."), what, 10_000.0)


def test_a_dump_in_16_bits_tells_what_can_be_seen() -> None:
    x = draw(2, 4, 24, 64).bfloat16()
    y = turn(x.double(), POS, freq(64, 500_000.0)).bfloat16()
    r = identify((x, y, POS))
    assert (r.layout, r.base, r.rotary_dim, r.scaling, r.rounding) == ("half", 500_000.0, 64, "none", "bfloat16")
    assert r.intervals["base"][1] > r.intervals["base"][0]
    assert r.intervals["factor"][1] == math.inf and "cannot be excluded" in str(r)


def test_planes_that_hardly_turn_leave_the_rotary_part_open() -> None:
    x = draw(2, 4, 24, 64).bfloat16()
    r = identify((x, turn(x.double(), POS, freq(64, 500_000.0), "interleaved").bfloat16(), POS))
    low, high = r.intervals["rotary_dim"]
    assert low < 64 == high and "too slowly to be seen" in str(r)


# ---- properties


@settings(max_examples=40, deadline=None)
@given(
    st.floats(50.0, 2e7), st.sampled_from([1.0, 1.5, 2.0, 4.0, 8.0, 37.0]), st.sampled_from([8, 16, 20, 32, 48, 64]),
    st.sampled_from(["half", "interleaved"]), st.sampled_from([1, -1]), st.integers(-8, 8), st.floats(0.5, 2.0),
    st.integers(0, 9),
)  # fmt: skip
def test_any_setting_is_recognised(
    base: float, factor: float, dims: int, layout: str, sign: int, offset: int, scale: float, seed: int
) -> None:
    x = draw(3, 24, 64, seed=seed)
    r = identify((x, turn(x, POS + offset, freq(dims, base) / factor, layout, sign=sign, scale=scale), POS))
    assert (r.layout, r.rotary_dim, r.direction) == (layout, dims, sign)
    assert abs(r.offset - offset) < 1e-4 and abs(r.amplitude - scale) < 1e-6
    low, high = r.intervals["base"]
    if r.scaling in ("none", "linear"):
        assert low * (1 - 1e-6) <= base <= high * (1 + 1e-6)
        assert math.isclose(r.factor, factor, rel_tol=1e-5)
    else:
        assert r.scaling in ("ntk", "proportional")  # the same frequencies
    again, rates = x.clone(), torch.tensor(r.frequencies, dtype=F64)
    for (i, j), o in zip(r.pairs, (r.direction * (POS[:, None] + r.offset) * rates).T, strict=True):
        again[..., i] = r.amplitude * (x[..., i] * o.cos() - x[..., j] * o.sin())
        again[..., j] = r.amplitude * (x[..., j] * o.cos() + x[..., i] * o.sin())
    want = turn(x, POS + offset, freq(dims, base) / factor, layout, sign=sign, scale=scale)
    assert float((again - want).abs().max()) < 1e-3


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from([10_000.0, 500_000.0, 1e6]),
    st.sampled_from([2.0, 4.0, 8.0, 16.0, 32.0]),
    st.sampled_from([4096, 8192, 32768]),
)
def test_scalings_of_slow_planes_are_told_apart(base: float, factor: float, trained: int) -> None:
    pos = torch.arange(200)
    x = draw(200, 128)
    for kind, f in (
        ("yarn", yarn(freq(128, base), factor, trained, form="code")),
        ("llama3", llama3(freq(128, base), factor, trained=trained)),
    ):
        r = identify((x, turn(x, pos, f), pos))
        assert (r.scaling, r.base) == (kind, base)
        low, high = r.intervals["factor"]
        assert low <= factor <= high and r.intervals["trained"][0] <= trained <= r.intervals["trained"][1]


# ---- functions


def test_the_shape_that_a_function_takes_is_found() -> None:
    f = freq(64)

    def last(x: Tensor, positions: Tensor) -> Tensor:
        angle = torch.cat((positions[:, None] * f, positions[:, None] * f), -1)[None, :, None]
        return x * angle.cos() + torch.cat((-x[..., 32:], x[..., :32]), -1) * angle.sin()

    def first(x: Tensor, positions: Tensor) -> Tensor:
        return last(x.transpose(1, 2), positions).transpose(1, 2)

    def rows(x: Tensor, positions: Tensor) -> Tensor:
        assert positions.ndim == 2 and x.ndim == 4
        return rotate(x, positions, f)

    assert identify(last, dim=64).heads == "last"
    assert identify(first, dim=64).heads == "first"
    assert identify(rows, dim=64).layout == "interleaved"
    assert identify(lambda x, positions: rotate(x, positions, f) if x.ndim == 2 else 1 / 0, dim=64).heads == ""
    single = identify(lambda x, p: rotate(x.float(), p, f.float()), dim=64)
    assert single.rounding == "float32" and single.base == 10_000.0


def test_a_table_that_ends_is_enough() -> None:
    table = torch.polar(torch.ones(64, 32, dtype=F64), torch.arange(64)[:, None] * freq(64))
    r = identify(
        lambda x, p: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * table[p]).flatten(-2), dim=64
    )
    assert (r.layout, r.base) == ("interleaved", 10_000.0) and "raises" in str(r)


def test_frequencies_that_change_with_the_length() -> None:
    r = identify(lambda x, p: rotate(x, p, dynamic_ntk(freq(64), int(p.max()) + 1, 4096, 2.0)), dim=64)
    assert (r.scaling, r.base, r.factor, r.trained) == ("dynamic", 10_000.0, 2.0, 4096)
    lists = {"short": [1.0] * 32, "long": torch.linspace(1, 20, 32).tolist(), "trained": 4096}
    r = identify(lambda x, p: rotate(x, p, longrope(freq(64), int(p.max()) + 1, **lists)), dim=64)  # type: ignore[arg-type]
    assert (r.scaling, r.base, r.factor) == ("longrope", 10_000.0, None)


def test_encodings_of_the_package_are_taken_as_they_are() -> None:
    r = identify(RoPE(64, 1e6, rotary_dim=32, layout="half"))
    assert (r.layout, r.base, r.rotary_dim) == ("half", 1e6, 32)
    x = identify(XPos(64))
    assert x.growth != 0 and "xPos" in str(x)


def test_axes_are_told() -> None:
    at = torch.stack((torch.arange(60) // 20, torch.arange(60) // 5 % 4, torch.arange(60) % 5))
    x = draw(4, 60, 64)
    axis = torch.tensor([0] * 4 + [1] * 6 + [2] * 6)
    angle, f = at[axis].T.double(), freq(32, 1e6)
    y = x.clone()
    c, s = (angle * f).cos(), (angle * f).sin()
    y[..., :16], y[..., 16:32] = x[..., :16] * c - x[..., 16:32] * s, x[..., 16:32] * c + x[..., :16] * s
    r = identify((x, y, at))
    assert r.axes == tuple(axis.tolist()) and r.base == 1e6 and "4, 6, 6 planes" in str(r)


# ---- files


def test_files_are_read_and_say_what_they_miss(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    x = draw(24, 64).float()
    y = turn(x.double(), POS, freq(64)).float()
    np.savez(tmp_path / "q.npz", before=x.numpy(), after=y.numpy(), positions=POS.numpy())
    assert identify(tmp_path / "q.npz").base == 10_000.0
    assert identify({"q_before": x, "q_after": y, "position_ids": POS}).base == 10_000.0
    np.savez(tmp_path / "less.npz", before=x.numpy(), after=y.numpy())
    for name, said in (("less.npz", "positions"), ("none.npz", "no file"), ("q.npz.txt", "no file")):
        with pytest.raises(ValueError, match=said):
            identify(tmp_path / name)
    (tmp_path / "bad.npz").write_bytes(b"PK nonsense")
    (tmp_path / "q.txt").write_text("1 2 3")
    for name in ("bad.npz", "q.txt"):
        with pytest.raises(ValueError, match=r"cannot be read|use \.npz"):
            identify(tmp_path / name)


def test_safetensors_in_bfloat16_are_read(tmp_path: Path) -> None:
    saved = pytest.importorskip("safetensors.torch")
    x = draw(2, 4, 24, 64).bfloat16()
    y = turn(x.double(), POS, freq(64, 500_000.0)).bfloat16()
    saved.save_file({"before": x, "after": y, "positions": POS}, tmp_path / "q.safetensors")
    r = identify(str(tmp_path / "q.safetensors"))
    assert r.base == 500_000.0 and json.loads(json.dumps(r.to_dict()))["layout"] == "half"


# ---- what is no rotation, and what is too little


def mixed(x: Tensor, positions: Tensor) -> Tensor:
    angle = (positions[:, None] * freq(64)).repeat_interleave(2, -1)
    return x * angle.cos() + torch.cat((-x[..., 32:], x[..., :32]), -1) * angle.sin()


def mirrored(x: Tensor, positions: Tensor) -> Tensor:
    c, s = (positions[:, None] * freq(64)).cos(), (positions[:, None] * freq(64)).sin()
    return torch.cat((x[..., :32] * c + x[..., 32:] * s, x[..., :32] * s - x[..., 32:] * c), -1)


X = draw(24, 64)
Y = turn(X, POS, freq(64))
WRONG = {
    "NaN": ((X.index_fill(0, torch.tensor([3]), math.nan), Y, POS), "not finite, the first at .3, 0."),
    "zeros": ((0 * X, Y, POS), "zero everywhere"),
    "nothing turns": ((X, X, POS), "no channel turns"),
    "a factor": ((X, 1.2 * X, POS), "times a factor"),
    "two positions": ((X[:2], Y[:2], POS[:2]), "2 different positions"),
    "one position": ((X, Y, 0 * POS), "different positions"),
    "other heads": ((X, draw(24, 64, seed=5), POS), "this is no rotation"),
    "other widths": ((X, Y[:, :32], POS), "same vectors, twice"),
    "too few positions": ((X, Y, POS[:20]), "no axis of"),
    "shuffled rows": ((X, Y, POS[torch.randperm(24, generator=torch.Generator().manual_seed(0))]), "not in proportion"),
    "a mixture of layouts": (mixed, "arranged for one layout and partners for the other"),
    "a mirror": (mirrored, "mirrored and not turned"),
    "a sum": (lambda x, p: x + p[:, None], "adds something"),
    "a nonlinear one": (lambda x, p: x.relu(), "not linear"),
    "two values": (lambda x, p: (x, x), "returns 2 values"),
    "another shape": (lambda x, p: x[..., :3], "cannot be called"),
    "not a function": (3, "int is no rotation"),
    "an unknown shape": ((draw(1, 2, 3, 4, 5), draw(1, 2, 3, 4, 5), POS), "use .L, d."),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_named_is_told_with_a_remedy(name: str) -> None:
    what, said = WRONG[name]
    with pytest.raises(ValueError, match=said):
        identify(what, dim=64)


def test_dim_and_heads_are_asked_for() -> None:
    with pytest.raises(ValueError, match="dim"):
        identify(lambda x, p: x)
    with pytest.raises(ValueError, match="heads"):
        identify((X, Y, POS), heads="middle")
    x = draw(24, 24, 64)
    assert identify((x, turn(x, POS, freq(64)), POS)).heads == "first"


def test_one_plane_has_no_base() -> None:
    r = identify((X[:, :2], turn(X[:, :2], POS, freq(2)), POS))
    assert r.base is None and r.intervals["base"][1] == math.inf and "takes two" in str(r)


def test_the_interleaved_layout_does_not_tell_partial_from_proportional() -> None:
    f = freq(64)[:8]  # p-RoPE: the base over the whole head is round
    r = found(f, layout="interleaved")
    assert (r.scaling, r.base, r.rotary_dim, len(r.pairs)) in (("none", 10.0, 16, 8), ("proportional", 10_000.0, 64, 8))
    assert "p-RoPE" in str(r)


def test_what_is_printed_names_the_layout_by_its_channels_first() -> None:
    said = str(identify(RoPE(64)))
    assert said.startswith('Channels (0, 1), (2, 3), (4, 5), … (62, 63) turn together: "interleaved" (GPT-J')
    assert "NeoX style" in said and "Base 10,000, no scaling" in said
    assert repr(identify(RoPE(64))).startswith("FoundRotation(layout='interleaved'")


# ---- biases


@pytest.mark.parametrize("heads", [1, 8, 12])
@pytest.mark.parametrize("symmetric", [False, True])
def test_alibi(heads: int, symmetric: bool) -> None:
    r = identify(ALiBi(heads, symmetric=symmetric))
    assert isinstance(r, FoundBias) and (r.kind, r.sign) == ("alibi", 1)
    torch.testing.assert_close(torch.tensor(r.slopes), alibi_slopes(heads))
    assert r.rule == "the authors' rule" and bool(r.symmetric) == symmetric


def test_alibi_of_matrices_masks_and_other_signs() -> None:
    n, slopes = 24, alibi_slopes(8)
    hidden = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)
    by_key = torch.arange(n)[None, None] * slopes[:, None, None] + hidden  # as BLOOM adds it: a number a query more
    r = identify(by_key)
    assert (r.kind, r.sign, r.ahead, r.back) == ("alibi", 1, 0, None)
    torch.testing.assert_close(torch.tensor(r.slopes), slopes)
    turned = identify(-by_key.masked_fill(hidden != 0, 0.0).expand(8, n, n) + hidden)
    assert turned.sign == -1 and "FAR" in str(turned)
    flex = identify(lambda score, b, h, q, k: score - (q - k) * slopes[h])
    assert flex.kind == "alibi" and flex.heads == 8
    shard = identify(ALiBi(4, slopes=alibi_slopes(16)[4:8]))
    assert shard.rule == "those of heads 4 to 7 of 16"


@pytest.mark.parametrize(
    ("buckets", "reach", "both"), [(32, 128, False), (32, 128, True), (16, 64, True), (64, 256, False)]
)
def test_t5(buckets: int, reach: int, both: bool) -> None:
    bias = T5Bias(3, buckets, reach, both)
    torch.nn.init.normal_(bias.table, generator=torch.Generator().manual_seed(0))
    r = identify(bias)
    assert (r.kind, r.buckets, r.reach, r.symmetric) == ("t5", buckets, reach, both)
    low, high = r.intervals["reach"]
    assert low <= reach <= high
    table = torch.tensor(r.table)
    unused = buckets // 2 if both else None  # the first bucket of the future
    rows = [n for n in range(buckets) if n != unused]
    torch.testing.assert_close(table[rows], (bias.table - bias.table[0]).detach()[rows], atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [F64, torch.float32, torch.float16, torch.bfloat16])
def test_scores_before_and_after_tell_what_was_added(dtype: torch.dtype) -> None:
    n, slopes = 40, alibi_slopes(4, dtype=F64)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    before = 3 * draw(2, 4, n, n)
    after = (before - slopes[:, None, None] * (i - j)).masked_fill(j > i, -math.inf)
    r = identify((before.to(dtype), after.to(dtype)))
    assert (r.kind, r.sign, r.ahead, r.back, r.rule) == ("alibi", 1, 0, None, "the authors' rule")
    torch.testing.assert_close(torch.tensor(r.slopes, dtype=F64), slopes, rtol=5e-2, atol=1e-3)
    assert ("Rounding to" in str(r)) == (dtype in (torch.float16, torch.bfloat16))
    late = identify({"scores_before": before[0, :, -9:].to(dtype), "scores_after": after[0, :, -9:].to(dtype)})
    assert late.kind == "alibi" and late.sign == 1


def test_scores_of_t5_and_those_that_tell_nothing() -> None:
    n = 150
    gap = torch.arange(n) - torch.arange(n)[:, None]
    steps = draw(32, 3)[t5_bucket(gap, bidirectional=True)].permute(2, 0, 1)
    before = 3 * draw(3, n, n)
    r = identify((before.half(), (before + steps).half()))
    assert (r.kind, r.buckets, r.reach, r.symmetric) == ("t5", 32, 128, True)
    assert identify((before.float(), (before.float() + 1) - 1)).kind == "none"
    assert "scores with q·k in them" in str(identify(before + steps))
    with pytest.raises(ValueError, match="in bfloat16 the same distance differs by"):
        identify((before.bfloat16(), (before + steps / 200).bfloat16()))
    with pytest.raises(ValueError, match="scores_after"):
        identify({"scores_before": before})
    with pytest.raises(ValueError, match="0 and 1 in int64"):
        identify(torch.ones(9, 9, dtype=torch.long).tril())


@pytest.mark.parametrize(("back", "ahead"), [(7, 0), (4, 4), (3, 1), (None, 0), (None, None), (0, 0)])
def test_windows(back: int | None, ahead: int | None) -> None:
    def seen(q: Tensor, k: Tensor) -> Tensor:
        gap = k[None] - q[:, None]
        return (gap >= -(9999 if back is None else back)) & (gap <= (9999 if ahead is None else ahead))

    for r in (identify(seen), identify(seen(torch.arange(40), torch.arange(40)))):
        assert (r.kind, r.back, r.ahead) == ("none", back, ahead)
        assert r.width == (None if back is None or ahead is None else back + ahead + 1)


def test_chunks_and_masks_that_are_no_band() -> None:
    r = identify(lambda b, h, q, k: (q // 8 == k // 8) & (k <= q))
    assert (r.chunk, r.ahead) == (8, 0) and "Chunks of 8" in str(r)
    padded = torch.ones(24, 24, dtype=torch.bool).tril() & (torch.arange(24) != 3)
    assert "more than the distance" in str(identify(padded))
    learned = identify(draw(2, 24, 24))
    assert learned.kind == "unknown"
    cubes = identify(lambda q, k: ((k[None] - q[:, None]).double() ** 3)[None])
    assert cubes.kind == "distance"
    with pytest.raises(ValueError, match="NaN"):
        identify(torch.full((4, 4), math.nan))
    with pytest.raises(ValueError, match="no bias"):
        identify(torch.zeros(3))


def test_slow_functions_of_scaling_hold_for_few_planes() -> None:
    r = found(interpolate(freq(8), 4.0))
    assert (r.scaling, r.factor, r.base) == ("linear", 4.0, 10_000.0)
    assert found(frequencies(4, dtype=F64)).base == 10_000.0
