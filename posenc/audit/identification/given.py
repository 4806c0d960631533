"""What `identify` is given: shapes are recognised, a function is called, a file is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.errors import first_line

NEAR = 33
"""How many positions that follow one another a function is asked about."""

ENDS = (262_143, 20_000, 8_000, 2_000, 500, 120)
"""Where the farther texts end: the first two that the function takes."""

LATER = torch.tensor([64, 100, 257, 511, 1000, 1001, 2047, 4001, 8191, 16_000, 19_999, 32_767, 65_535, 100_000, 131_071,
                      200_000])  # fmt: skip

BEFORE = ("before", "q_before", "k_before", "x", "input", "q_in", "q_pre", "unrotated")
AFTER = ("after", "q_after", "k_after", "y", "output", "q_out", "q_post", "rotated")
POSITIONS = ("positions", "position_ids", "pos", "input_pos")
SCORES_BEFORE = ("scores_before", "logits_before")
SCORES_AFTER = ("scores_after", "logits_after")
BIAS = ("bias", "attn_bias", "attention_bias", "position_bias", "alibi", "attn_mask", "attention_mask", "mask")
KINDS = {"rotation": (BEFORE, AFTER, POSITIONS), "scores": (SCORES_BEFORE, SCORES_AFTER), "bias": (BIAS,)}
"""What a dump may hold, and which arrays that takes, by the names that they may have."""


@dataclass(frozen=True)
class Dump:
    """Vectors before and after, a row each.

    Args:
        before: (N, d), float64.
        after: (N, d), float64.
        positions: (N, A), float64: one axis for text, more for images and videos.
        grain: The coarsest dtype that holds all numbers after.
        heads: "first" or "last", in words of `identify`; "" if there is no axis of heads.
    """

    before: Tensor
    after: Tensor
    positions: Tensor
    grain: torch.dtype
    heads: str = ""

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """Different positions (P, A), and for each row the number of its position."""
        if self.positions.shape[1] == 1:
            places, at = torch.unique(self.positions[:, 0], return_inverse=True)
            return places[:, None], at
        found: tuple[Tensor, Tensor] = torch.unique(self.positions, dim=0, return_inverse=True)
        return found


def dump(before: Any, after: Any, positions: Any, heads: str | None = None) -> list[Dump]:
    """The ways to read three arrays: one, or two where the axis of tokens could be either.

    Raises:
        Unfit: If shapes do not fit, or numbers are not finite.
    """
    x, y = _numbers(before, "before"), _numbers(after, "after")
    pos = _numbers(positions, "positions")
    if x.shape != y.shape:
        raise Unfit(f"before has shape {tuple(x.shape)} and after {tuple(y.shape)}: give the same vectors, twice")
    if x.ndim < 2 or x.ndim > 4:
        raise Unfit(f"before has shape {tuple(x.shape)}: use (L, d), (B, H, L, d) or (B, L, H, d)")
    for name, each in (("before", x), ("after", y), ("positions", pos)):
        _check_finite(name, each)
    if not bool(x.any()):
        raise Unfit("before is zero everywhere, so nothing can be seen to turn: dump q or k of a real text")
    if not bool(y.any()):
        raise Unfit("after is zero everywhere: dump what the rotation returns, before any mask or cache")
    grain = coarsest(torch.as_tensor(y))
    ways = [(n, w) for n, w in _axes(x.ndim) if heads in (None, w) or not w]
    found = []
    for axis, word in ways:
        if (rows := _rows(pos.double(), x, axis)) is not None:
            a, b = (each.double().movedim(axis, -2).reshape(-1, x.shape[-1]) for each in (x, y))
            found.append(Dump(a, b, rows, grain, word))
    if not found:
        raise Unfit(
            f"positions have shape {tuple(pos.shape)}, and no axis of {tuple(x.shape)} fits them: use (L,), or (B, L) "
            f"if texts differ, or (A, B, L) for A axes"
        )
    return found


def _axes(ndim: int) -> list[tuple[int, str]]:
    return {2: [(0, "")], 3: [(1, "first"), (0, "last")], 4: [(2, "first"), (1, "last")]}[ndim]


def _rows(pos: Tensor, x: Tensor, axis: int) -> Tensor | None:
    """Positions of all rows, (N, A), if axis `axis` of x counts tokens; None if they do not fit."""
    tokens, lead = x.shape[axis], [n for a, n in enumerate(x.shape[:-1]) if a != axis]
    if pos.ndim == 1 and len(pos) == tokens:
        full = pos[:, None].expand(*lead, tokens, 1)
    elif pos.ndim == 2 and pos.shape[1] == tokens and lead and pos.shape[0] in (1, lead[0]):
        full = pos.reshape(-1, *[1] * (len(lead) - 1), tokens, 1).expand(*lead, tokens, 1)
    elif pos.ndim == 2 and pos.shape[0] == tokens and pos.shape[1] <= 4:  # (L, A)
        full = pos.expand(*lead, *pos.shape)
    elif pos.ndim == 2 and pos.shape[1] == tokens and pos.shape[0] in (1, 2, 3, 4):  # (A, L)
        full = pos.T.expand(*lead, tokens, pos.shape[0])
    elif pos.ndim == 3 and pos.shape[2] == tokens and lead and pos.shape[1] in (1, lead[0]):  # (A, B, L)
        by = pos.permute(1, 2, 0)
        full = by.reshape(by.shape[0], *[1] * (len(lead) - 1), *by.shape[1:]).expand(*lead, tokens, pos.shape[0])
    else:
        return None
    return full.reshape(-1, full.shape[-1])


def called(function: Callable[..., Any], dim: int, heads: str | None = None) -> list[Dump]:
    """A function's answers: near positions, and texts that go farther as far as it takes them.

    The first shape that it takes is used: (B, H, L, d), (B, L, H, d), then (L, d); and the first of float64 and
    float32. Three calls a text, the third with the sum of the first two, tell whether it is linear.

    Raises:
        Unfit: If it takes no shape, returns another one, or is not linear.
    """
    if dim < 2:
        raise Unfit(f"dim is {dim}: use the channels of a head, 2 or more, such as 64")
    near = torch.arange(NEAR)
    problem: Exception | None = None
    for form in [f for f in FORMS if heads in (None, f[0]) or not f[0]]:
        for dtype in (torch.float64, torch.float32):
            try:
                first = _text(function, dim, near, form, dtype)
            except Unfit:
                raise
            except Exception as error:  # a function raises anything at a shape that it does not expect
                problem = problem or error
                continue
            texts: list[Dump] = []
            for end in ENDS:
                if len(texts) == 2:
                    break
                try:
                    later = torch.cat((near, LATER[end > LATER], torch.tensor([end])))
                    texts.insert(0, _text(function, dim, later, form, dtype))
                except Unfit:
                    raise
                except Exception:  # a table that ends
                    continue
            texts.insert(0, first)
            return texts
    raise Unfit(
        f"the function cannot be called with x (L, {dim}), (B, H, L, {dim}) or (B, L, H, {dim}) and positions (L,): "
        f"{type(problem).__name__}: {first_line(problem or Exception(), 160)}; wrap it as (x, positions) -> x'"
    )


FORMS: tuple[tuple[str, bool], ...] = (
    ("first", False), ("last", False), ("", False), ("first", True), ("last", True), ("", True),
)  # fmt: skip
"""Where heads are, and whether positions have a row for each text, (B, L), in the order in which they are tried."""


def _text(function: Callable[..., Any], dim: int, pos: Tensor, form: tuple[str, bool], dtype: torch.dtype) -> Dump:
    heads, rows = form
    g = torch.Generator().manual_seed(0)
    n = len(pos)
    shape = {"first": (2, 3, n, dim), "last": (2, n, 3, dim), "": (n, dim)}[heads]
    given = pos.expand(2, n).clone() if rows and heads else pos[None] if rows else pos
    a, b, *more = torch.randn(5 if not heads else 2, *shape, generator=g, dtype=torch.float64).to(dtype)
    ins = [a, b, a + b, *more]  # without heads a position has one vector in each
    outs = []
    for x in ins:
        out = function(x.clone(), given.clone())
        if isinstance(out, tuple | list) and len(out) == 1:
            out = out[0]
        if isinstance(out, tuple | list):
            raise Unfit(f"the function returns {len(out)} values: wrap it so that it takes x and returns x' alone")
        out = torch.as_tensor(out)
        if out.shape != x.shape:
            raise ValueError(f"x has shape {tuple(x.shape)} and what comes back {tuple(out.shape)}")
        outs.append(out.detach())
    grain = coarsest(torch.cat([out.flatten() for out in outs]))
    y = [_numbers(out, "what the function returns").double() for out in outs]
    _check_finite("what the function returns", torch.stack(y))
    size = y[2].square().mean().sqrt()
    if float((y[2] - y[0] - y[1]).abs().max()) > 0.1 * float(size) and float(size) > 0:
        told = "adds something to x" if float((y[0] - y[1] - (a - b).double()).abs().max()) < 1e-3 else "is not linear"
        raise Unfit(
            f"the function {told}, and a rotation multiplies: f(x + y) differs from f(x) + f(y) by "
            f"{float((y[2] - y[0] - y[1]).abs().max() / size):.2g}. Pass the rotation of q or k alone; tables that are "
            f"added to embeddings need no identify, compare(…) finds where they differ"
        )
    axis = {"first": 2, "last": 1, "": 0}[heads]
    stack = [torch.stack(each).double().movedim(axis + 1, -2).reshape(-1, dim) for each in (ins, y)]
    count = len(stack[0]) // n
    return Dump(stack[0], stack[1], pos.double()[None, :, None].expand(count, n, 1).reshape(-1, 1), grain, heads)


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The arrays of a `.npz` or `.safetensors` file by name. Nothing in it is executed."""
    file = Path(path)
    if not file.is_file():
        raise Unfit(f"there is no file {os.fspath(path)!r}: give a .npz or .safetensors with before, after, positions")
    if file.suffix == ".npz":
        import numpy as np

        try:
            with np.load(file, allow_pickle=False) as arrays:
                return {name: torch.as_tensor(np.ascontiguousarray(arrays[name])) for name in arrays.files}
        except (ValueError, OSError, TypeError) as error:
            raise Unfit(f"{file.name} cannot be read: {first_line(error)}; save it with numpy.savez") from error
    if file.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise Unfit(
                "a .safetensors file takes safetensors, which is not installed: pip install safetensors"
            ) from error
        try:
            return dict(load_file(file))
        except Exception as error:  # the library has errors of its own
            raise Unfit(f"{file.name} cannot be read: {first_line(error)}") from error
    raise Unfit(f"{file.name} ends in {file.suffix!r}: use .npz or .safetensors")


def meant(names: Iterable[str]) -> tuple[str, list[str]]:
    """What a dump holds by the names of its arrays, one of `KINDS`, and which array is which; "" for one not found.

    Example:
        >>> meant(["q_after", "pos", "q_before"]), meant(["arr_0"])
        (('rotation', ['q_before', 'q_after', 'pos']), ('bias', ['arr_0']))
    """
    names = list(names)
    found = {
        kind: [next((name for name in known if name in names), "") for known in roles] for kind, roles in KINDS.items()
    }
    whole = next((kind for kind, roles in found.items() if all(roles)), None)
    if whole is not None:
        return whole, found[whole]
    if len(names) == 1 and not any(found["rotation"] + found["scores"]):  # one array alone is no rotation
        return "bias", names
    kind = "scores" if any(found["scores"]) else "rotation"
    return kind, found[kind]


def chosen(arrays: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """What a dump holds, and the arrays of it.

    Raises:
        Unfit: If one is missing.
    """
    kind, names = meant(arrays)
    for name, known in zip(names, KINDS[kind], strict=True):
        if not name:
            raise Unfit(
                f"the dump has {', '.join(sorted(arrays)) or 'no arrays'}: name one {known[0]!r} or {known[1]!r}"
            )
    return kind, [arrays[name] for name in names]


def coarsest(y: Tensor) -> torch.dtype:
    """The coarsest of bfloat16, float16, float32 and float64 that holds all these numbers."""
    if y.dtype in (torch.bfloat16, torch.float16):
        return y.dtype
    wide = y.double()
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        if torch.equal(wide.to(dtype).double(), wide):
            return dtype
    return torch.float64


def _numbers(value: Any, name: str) -> Tensor:
    try:
        out = torch.as_tensor(value).detach().cpu()
    except Exception as error:
        raise Unfit(f"{name} is {type(value).__name__}, and no array: {first_line(error, 80)}") from error
    if out.is_complex() or out.dtype == torch.bool:
        raise Unfit(f"{name} is {out.dtype}: use real numbers; view_as_real and flatten a complex dump")
    return out


def _check_finite(name: str, value: Tensor) -> None:
    bad = ~value.double().isfinite()
    if bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        raise Unfit(
            f"{name} has {int(bad.sum())} numbers that are not finite, the first at {where}: leave padded rows out, "
            f"and dump in float32"
        )
