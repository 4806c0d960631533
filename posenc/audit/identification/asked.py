"""`identify`: what rotation, bias or window is this?"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit, type_name
from posenc.audit.identification import biases, given, pairs, phases, roundings, scalings
from posenc.audit.identification.biases import FoundBias
from posenc.audit.identification.given import Dump
from posenc.audit.identification.rotation import FoundRotation

Found = FoundRotation | FoundBias


def identify(what: Any, dim: int | None = None, *, heads: str | None = None) -> Found:
    """What rotation, bias or window is this?

    Rotations are told from vectors before and after. The partner of a channel is the one that explains it; the angle of
    a pair against the position is a line, whose slope is the frequency; frequencies tell base and scaling. A bias is a
    function of distance: a line for ALiBi, steps for T5, and an end for a window.

    Args:
        what: A function `(x, positions) -> x'` with its `dim`; or `(before, after, positions)`; or a dict, a `.npz` or
            a `.safetensors` with arrays of these names. Vectors are (L, d), (B, H, L, d) or (B, L, H, d), positions
            (L,), (B, L), or (A, B, L) for A axes. For a bias, a tensor (H, L, L) or (L, L), boolean or with -inf where
            keys are hidden; scores before and after it, a pair (before, after) of tensors (H, Lq, Lk), whose queries
            are the last of the keys; a file or a dict with `bias`, or with `scores_before` and `scores_after`; a
            function `(q_positions, k_positions)` of it; a score function of flex attention,
            `(score, b, h, q_idx, kv_idx)`; or an encoding of posenc.
        dim: Channels of a head, which a function of vectors needs.
        heads: "first" for (B, H, L, d), "last" for (B, L, H, d). Default: recognised.

    Returns:
        A `FoundRotation` or a `FoundBias`: print it. What cannot be told is in `notes` and `intervals`.

    Raises:
        ValueError: If nothing turns, it is no rotation, or positions are too few; the message says what to give.

    Example:
        >>> from posenc import frequencies, rotate
        >>> from posenc.audit import identify
        >>> def apply_rope(x, positions):
        ...     return rotate(x, positions, frequencies(64, 500_000.0), layout="half")
        >>> r = identify(apply_rope, dim=64)
        >>> r.layout, r.base, r.rotary_dim, r.scaling, r.rounding
        ('half', 500000.0, 64, 'none', 'float32')
    """
    if heads not in (None, "first", "last"):
        raise Unfit(f'heads is {heads!r}: use "first" for (B, H, L, d), "last" for (B, L, H, d), or leave it out')
    with torch.no_grad():
        return _asked(what, dim, heads)


def _asked(what: Any, dim: int | None, heads: str | None) -> Found:
    if isinstance(what, str | os.PathLike):
        what = given.read(what)
    if isinstance(what, Mapping):
        kind, found = given.chosen(what)
        return of_arrays(kind, found, heads)
    if isinstance(what, tuple | list) and len(what) == 2:
        return of_arrays("scores", list(what), heads)
    if isinstance(what, tuple | list) and len(what) == 3:
        return of_arrays("rotation", list(what), heads)
    if isinstance(what, Tensor) or hasattr(what, "__array__"):
        return of_arrays("bias", [what], heads)
    if not callable(what) and not hasattr(what, "score_bias"):
        raise Unfit(
            f"{type_name(what)} is no rotation: give a function (x, positions) with dim=…, (before, after, positions), "
            f"or a .npz or .safetensors with these"
        )
    if (bias := biases.bias_called(what)) is not None:
        return bias
    if hasattr(what, "query") and hasattr(what, "key") and not isinstance(what, type):  # an encoding of posenc
        dim = dim or getattr(what, "head_dim", None)
        what = what.query
    if dim is None:
        raise Unfit("a function takes dim as well, the channels of a head: identify(function, dim=64)")
    return _of_texts(given.called(what, dim, heads))


def of_arrays(kind: str, arrays: list[Any], heads: str | None = None) -> Found:
    """What a dump is, of a kind in `given.KINDS`, whose arrays are in that order."""
    if kind == "rotation":
        before, after, positions = arrays
        return _clearest(given.dump(before, after, positions, heads))
    return matrix_of(kind, arrays).found()


def matrix_of(kind: str, arrays: list[Any]) -> biases.Matrix:
    """The bias of scores before and after, or of one matrix."""
    return biases.matrix_of(arrays[0]) if kind == "bias" else biases.matrix_between(arrays[0], arrays[1])


def _clearest(dumps: list[Dump]) -> FoundRotation:
    """The reading of a dump that leaves least unexplained; where the axis of tokens could be either, both are tried."""
    found: list[FoundRotation] = []
    problem: Exception | None = None
    for each in dumps:
        try:
            found.append(rotation_of(each))
        except ValueError as error:
            problem = problem or error
    if not found:
        assert problem is not None
        raise problem
    found.sort(key=lambda r: r.residual)
    if (
        len(found) > 1
        and found[1].residual < 3 * found[0].residual + 1e-12
        and found[0].frequencies != found[1].frequencies
    ):
        raise Unfit('tokens could be either axis: say heads="first" for (B, H, L, d) or heads="last" for (B, L, H, d)')
    return found[0]


def _of_texts(texts: list[Dump]) -> FoundRotation:
    """Of a function's answers: those near, and those in longer texts, whose angles may be others."""
    seen = pairs.pairs_of(texts[0])
    near = rotation_of(texts[0], seen)
    if len(texts) == 1:
        return replace(
            near,
            notes=(
                *near.notes,
                f"It answers at positions up to {given.NEAR - 1}, and raises in a text that ends at {given.ENDS[-1]}.",
            ),
        )
    try:
        last = rotation_of(texts[-1], seen)
    except Unfit:
        last = None
    if last is not None and _same(near, last, texts[0]):
        return _closer(near, last)
    lengths = [int(text.positions.max()) + 1 for text in texts[1:]]
    farther = []
    for each in texts[1:]:
        try:
            farther.append(rotation_of(each, seen))
        except Unfit:
            return replace(
                near, notes=(*near.notes, "Far out the angles are no line: rounding, or a table that is cut.")
            )
    return _by_length(near, farther, lengths)


def _same(near: FoundRotation, far: FoundRotation, text: Dump) -> bool:
    """Whether two texts turn alike: as far as the shorter one can tell."""
    n = min(len(near.frequencies), len(far.frequencies))
    off = max(abs(a - b) for a, b in zip(near.frequencies[:n], far.frequencies[:n], strict=True))
    return off * float(text.positions.max()) < 20 * max(near.residual, 1e-6)


def _closer(near: FoundRotation, far: FoundRotation) -> FoundRotation:
    """The long text sees slow planes; rounding and residual are those of the short one where they differ."""
    if far.residual > 100 * near.residual + 1e-6 and far.rounding == "unknown":
        return replace(near, notes=(*near.notes, f"Far out {far.residual:.1g} stays unexplained."))
    coarse = {"bfloat16": 3, "float16": 2, "float32": 1, "float64": 0, "unknown": -1}
    closer = near if coarse[near.rounding] >= coarse[far.rounding] else far
    return replace(far, rounding=closer.rounding, rounded=closer.rounded, residual=near.residual)


def _by_length(near: FoundRotation, farther: list[FoundRotation], lengths: list[int]) -> FoundRotation:
    """Frequencies that change with the length: dynamic NTK or LongRoPE."""
    plain = near.scaling == "none" and near.base is not None and len(near.frequencies) > 1
    if plain and all(each.scaling in ("none", "ntk") for each in farther):
        return _dynamic(near, farther, lengths)
    far = farther[-1]
    grow = [a / b for a, b in zip(near.frequencies, far.frequencies, strict=False)]
    bound = min(r.intervals.get("base", (1, math.inf))[1] for r in (near, far))
    note = (
        f"Frequencies change with the length of the text, by {min(grow):.4g} to {max(grow):.4g} times: two lists "
        f"of divisors, of which only the ratio can be told where no list is known"
    )
    if plain:
        return replace(near, scaling="longrope", factor=None, notes=(note,))
    return replace(
        near, scaling="longrope", base=None, factor=None, intervals={"base": (1.0, bound)}, notes=(*near.notes, note)
    )


def _dynamic(near: FoundRotation, farther: list[FoundRotation], lengths: list[int]) -> FoundRotation:
    """Dynamic NTK: the last plane is divided by factor · (length / trained - 1) + 1, a line."""
    d, first = near.rotary_dim, farther[-1]
    notes = [
        f"Frequencies change with the length of the text: in one of {lengths[-1]:,} tokens the base is "
        f"{(first.frequencies[0] / first.frequencies[-1]) ** (d / (d - 2)):,.5g}"
    ]
    stretch = [near.frequencies[-1] / each.frequencies[-1] for each in farther]
    if len(stretch) < 2 or stretch[0] < 1.001:
        notes.append("One of these texts is longer than in training, so factor and length in training trade off")
        return replace(
            near, scaling="dynamic", factor=None, notes=(*near.notes, *notes),
            intervals=near.intervals | {"factor": (1.0, math.inf)},
        )  # fmt: skip
    rate = (stretch[1] - stretch[0]) / (lengths[1] - lengths[0])
    factor = 1 - (stretch[0] - rate * lengths[0])
    factor = scalings.nice(factor, factor * (1 - 2e-3) - 1e-3, factor * (1 + 2e-3) + 1e-3)
    trained = scalings.usual_length(factor / rate * 0.995, factor / rate * 1.005)
    return replace(near, scaling="dynamic", factor=factor, trained=trained, notes=(*near.notes, *notes))


def rotation_of(dump: Dump, seen: pairs.Pairs | None = None) -> FoundRotation:
    """The rotation of vectors before and after; with pairs that are known already, these are taken.

    Raises:
        Unfit: If there is none, or what was given cannot tell it.
    """
    return rotation_and_lines(dump, seen)[0]


def rotation_and_lines(dump: Dump, seen: pairs.Pairs | None = None) -> tuple[FoundRotation, pairs.Pairs, phases.Phases]:
    """The rotation, all pairs of its pattern, and their lines."""
    seen = pairs.pairs_of(dump) if seen is None else seen
    lines = phases.phases_of(dump, seen)
    if lines.step > 1 and math.isfinite(lines.step) and seen.layout != "other":
        lines = replace(lines, slopes=phases.unfolded(lines))
    found = _told(dump, seen, lines)
    if found.residual > 0.3:
        raise Unfit(phases.OUT_OF_PLACE)
    return found, seen, lines


def _told(dump: Dump, seen: pairs.Pairs, lines: phases.Phases) -> FoundRotation:
    d = dump.before.shape[1]
    notes: list[str] = []
    size = lines.slopes.abs()
    visible = size > 3 * lines.spread
    if not bool(visible.any()):
        raise Unfit(
            "channels turn by the same angle at every position: positions are not read, or all rows have one position"
        )
    signs = lines.slopes[visible].sign()
    direction = int(signs[0]) if bool((signs == signs[0]).all()) else 0
    order = torch.arange(len(size))
    one_axis = len(set(lines.axis[visible].tolist())) == 1
    if seen.layout == "other":
        order = size.argsort(descending=True, stable=True)
    elif one_axis and _rises(size, visible):
        order = order.flip(0)
        notes.append("The slowest pair comes first: published models have the fastest first")
    size, spread = size[order], lines.spread[order]
    chosen = tuple(seen.pairs[n] for n in order.tolist())
    offset, miss = phases.offset_of(lines)
    quiet = float(lines.noise[visible].median())
    far = dump.positions.abs().mean(0)[lines.axis]
    if bool((lines.start.abs() <= 2 * (lines.spread * far + lines.noise) + 1e-12)[visible].all()):
        offset, miss = 0.0, 0.0  # within what far positions leave open
    if miss > max(30 * quiet, 1e-3):
        notes.append("At position 0 the planes stand at angles that no single offset explains: phases of their own?")
        offset = 0.0
    elif abs(offset) <= max(1e-4, 3 * float((lines.spread / lines.slopes.abs())[visible].min())):
        offset = 0.0
    amplitude, growth = _lengths(lines, visible, quiet, notes)
    chosen, rotary, named = _scaled(d, seen, chosen, size, spread, visible[order], amplitude, lines, order, notes)
    count = len(chosen)
    if named.kind == "yarn" and named.factor and abs(amplitude - (0.1 * math.log(named.factor) + 1)) < max(quiet, 1e-6):
        amplitude = 0.1 * math.log(named.factor) + 1
    ideal = size.clone() if named.ideal is None else torch.cat((named.ideal[: len(size)], size[len(named.ideal) :]))
    ideal[count:] = 0
    back = torch.empty_like(ideal)
    back[order] = ideal
    signed = back * torch.where(visible, lines.slopes.sign(), torch.full_like(back, float(direction or 1)))
    size = size[:count]
    residual = _residual(dump, seen, lines)
    rounding, rounded = "unknown", ""
    if not bool(lines.growth.any()) and not (miss > max(30 * quiet, 1e-3)):
        rounding, rounded = roundings.rounding_of(dump, seen.pairs, signed, lines.axis, offset, amplitude, residual)
    if math.isfinite(lines.step) and lines.step > 1:
        notes.append(
            f"Positions are {lines.step:g} apart, so angles per position are known up to 2π/{lines.step:g} only"
        )
    return FoundRotation(
        dim=d, layout=seen.layout, pairs=chosen, rotary_dim=rotary, frequencies=tuple(size.tolist()), base=named.base,
        scaling=named.kind, factor=named.factor, offset=float(offset), direction=direction, amplitude=amplitude,
        rounding=rounding, rounded=rounded, residual=residual, trained=named.trained, growth=growth,
        axes=tuple(lines.axis[order].tolist())[:count] if dump.positions.shape[1] > 1 else (), heads=dump.heads,
        words=seen.words, intervals=named.intervals, alternatives=named.alternatives,
        notes=tuple(dict.fromkeys([*notes, *named.notes])),
    )  # fmt: skip


def _rises(size: Tensor, visible: Tensor) -> bool:
    """Whether frequencies rise from plane to plane."""
    f = size[visible]
    return len(f) > 1 and bool((f[1:] > f[:-1]).all())


def _lengths(lines: phases.Phases, visible: Tensor, quiet: float, notes: list[str]) -> tuple[float, float]:
    """What rotated channels are multiplied by, and by how much that grows per position."""
    gains = lines.gain[visible]
    amplitude, growth = float(gains.median()), 0.0
    if bool(lines.growth.any()):
        growth = float(lines.growth[visible][0])
        notes.append("Lengths change with the position, plane by plane: xPos; keys have the inverse")
    elif float((gains - amplitude).abs().max()) > 0.02 * amplitude:
        notes.append("Planes are multiplied by different numbers: a norm or a gain lies between before and after?")
    return (1.0 if abs(amplitude - 1) < max(1e-6, quiet) else amplitude), growth


def _scaled(
    d: int, seen: pairs.Pairs, chosen: tuple[tuple[int, int], ...], size: Tensor, spread: Tensor, visible: Tensor,
    amplitude: float, lines: phases.Phases, order: Tensor, notes: list[str],
) -> tuple[tuple[tuple[int, int], ...], int, scalings.Scaling]:  # fmt: skip
    """The pairs that turn, the channels that share the frequencies, and what explains these."""
    noisy = float(lines.noise[lines.slopes.abs() > 3 * lines.spread].median()) > 1e-4
    used = lines.axis[order][visible].unique().tolist()
    if len(used) > 1:
        named = _by_axis(size, spread, visible, lines.axis[order], amplitude, noisy, notes)
        return chosen, 2 * len(chosen), named
    last = int(visible.nonzero().max()) + 1
    if seen.layout == "other":
        return chosen[:last], 2 * last, _explained(*_sorted(size[:last], spread[:last]), 2 * last, amplitude, noisy)
    planes = len(chosen)
    if last == planes:
        return chosen, 2 * planes, _explained(size, spread, 2 * planes, amplitude, noisy)
    step = float(size[last - 1] / size[0]) ** (1 / (last - 1)) if last > 1 else 0.0
    hidden = float(size[last - 1]) * step < 5 * float(spread[last])  # whether the next plane could be seen to turn
    if seen.layout == "half":
        if hidden:
            return chosen, 2 * planes, _explained(size, spread, 2 * planes, amplitude, noisy)
        named = _explained(size[:last], spread[:last], 2 * planes, amplitude, noisy)
        notes.append(f"Partners are {planes} channels apart, and {planes - last} slower planes stand still")
        if named.kind in ("none", "linear", "ntk"):
            named = replace(named, kind="proportional", factor=1.0 if named.kind != "linear" else named.factor)
        return chosen[:last], 2 * planes, named
    if hidden:
        widths = [w for w in range(2 * planes, 2 * last - 1, -2) if w == 2 * planes or d % w == 0]
        read = [(w, _explained(size[: w // 2], spread[: w // 2], w, amplitude, noisy)) for w in widths]
        width, named = next(
            (r for r in read if r[1].base and scalings.digits(r[1].base) <= 2 and r[1].base <= 2e7), read[0]
        )
        notes.append(
            f"Channels from {chosen[last - 1][1] + 1} on may turn, too slowly to be seen between these positions: "
            f"rotary_dim is {2 * last} or more, and the base goes with it"
        )
        named = replace(named, intervals=named.intervals | {"rotary_dim": (float(2 * last), float(2 * planes))})
        return chosen[: width // 2], width, named
    named = _explained(size[:last], spread[:last], 2 * last, amplitude, noisy)
    if named.base and named.kind == "none":
        power = planes / last
        whole = named.base**power
        if scalings.digits(float(f"{whole:.5e}")) <= 2 < scalings.digits(named.base):
            low, high = (e**power for e in named.intervals["base"])
            named = replace(
                named, base=scalings.nice(whole, low, high), kind="proportional", intervals={"base": (low, high)}
            )
            return chosen[:last], 2 * planes, named
        notes.append(
            f"The same frequencies come from p-RoPE over all {2 * planes} channels with base {whole:,.6g}: with "
            f"neighbours as partners the two cannot be told apart"
        )
    return chosen[:last], 2 * last, named


def _by_axis(
    size: Tensor, spread: Tensor, visible: Tensor, axis: Tensor, amplitude: float, noisy: bool, notes: list[str]
) -> scalings.Scaling:
    """What explains frequencies that several axes share out, or of which each has its own."""
    whole = _explained(size, spread, 2 * len(size), amplitude, noisy)
    if whole.base is not None:
        counts = ", ".join(str(int(((axis == a) & visible).sum())) for a in range(int(axis.max()) + 1))
        notes.append(f"One list of frequencies, shared out among the axes, as in M-RoPE: {counts} planes")
        return whole
    read, said = [], []
    for a in axis[visible].unique().tolist():
        mine = (axis == a) & visible
        n = int(mine.sum())
        read.append(_explained(*_sorted(size[mine], spread[mine]), 2 * n, amplitude, noisy))
        said.append(f"axis {a} turns {n} planes" + (f", base {read[-1].base:,.6g}" if read[-1].base else ""))
    notes.append("; ".join(said))
    if all((one.kind, one.base, one.factor) == (read[0].kind, read[0].base, read[0].factor) for one in read):
        return replace(read[0], ideal=None)
    return scalings.Scaling("unknown", None, None, None)


def _sorted(size: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    order = size.argsort(descending=True)
    return size[order], spread[order]


def _explained(size: Tensor, spread: Tensor, dims: int, amplitude: float, noisy: bool) -> scalings.Scaling:
    """The family of frequencies, also where they, or the angles, are rounded to 16 bits."""
    found = scalings.explained(size, spread, dims, amplitude)
    if found.kind not in ("unknown", "yarn", "llama3") or len(size) < 3:
        return found
    if noisy:  # rounding of angles is no white noise, and slopes are a little off
        for floor in (3e-4, 1e-3, 4e-3):
            coarse = scalings.explained(size, spread, dims, amplitude, floor)
            if coarse.kind in ("none", "linear") or (
                coarse.kind != "unknown" and floor < 4e-3 and (coarse.factor or 0) > 1.2
            ):
                return coarse
    if found.kind != "unknown":
        return found
    for floor, dtype in ((6e-4, torch.float16), (4.5e-3, torch.bfloat16)):
        coarse = scalings.explained(size, spread, dims, amplitude, floor)
        if coarse.ideal is None:
            continue
        rounded = coarse.ideal[: len(size)].to(dtype).double()
        if float(((size - rounded).abs() <= 3 * spread + 2e-6 * size).double().mean()) > 0.9:
            note = f"Frequencies are rounded to {str(dtype).removeprefix('torch.')}"
            return replace(coarse, notes=(*coarse.notes, note))
    return found


def _residual(dump: Dump, seen: pairs.Pairs, lines: phases.Phases) -> float:
    """What the fitted lines leave unexplained."""
    i, j = (torch.tensor(each) for each in zip(*seen.pairs, strict=True))
    x, y = torch.complex(dump.before[:, i], dump.before[:, j]), torch.complex(dump.after[:, i], dump.after[:, j])
    p = dump.positions[:, lines.axis]
    z = torch.polar(lines.gain * (lines.growth * p).exp(), p * lines.slopes + lines.start)
    return float(((y - z * x).abs().square().mean() / y.abs().square().mean().clamp(min=1e-30)).sqrt())
