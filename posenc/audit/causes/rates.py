"""Why pairs of channels turn at other rates than a configuration says, plane by plane."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from posenc.audit.causes.judgement import FAILS, Judgement
from posenc.audit.identification.scalings import Scaling, explained

SAME = 1e-3  # ratios that are closer than this are one

FILLED = (
    "how the frequencies are made, and buffers that no checkpoint holds (persistent=False): they are filled anew when "
    "a model is loaded"
)


def of_rates(raw: Sequence[float], wanted: Sequence[float], rotation: Any = None) -> Judgement:
    """What is wrong with the angles by which pairs turn from one position to the next.

    Args:
        raw: As they lie in the model.
        wanted: As they should be.
        rotation: The `posenc.configs.Rotation` that says so; None where angles alone were given.

    Example:
        >>> of_rates([0.4, 0.04], [0.1, 0.01]).cause
        'All angles are 4 times what they should be.'
    """
    rates, want = sorted(raw, reverse=True), sorted(wanted, reverse=True)
    if max(map(abs, rates), default=0.0) < 1e-15:
        return Judgement(FAILS, "Nothing turns: all angles are 0.", FILLED)
    if any(b >= a for a, b in itertools.pairwise(raw)):
        some = ", ".join(f"{each:.2g}" for each in raw[:4]) + (", …" if len(raw) > 4 else "")
        return Judgement(FAILS, f"The frequencies are no falling series: {some}. Was a buffer never filled?", FILLED)
    if len(rates) != len(want):
        return Judgement(
            FAILS, f"{len(rates)} pairs of channels rotate, but {len(want)} should.", "the rotary part of a head"
        )
    ratios = [a / b for a, b in zip(rates, want, strict=True)]
    if max(ratios) - min(ratios) < SAME * ratios[0]:
        return _all(ratios[0], rotation)
    fast = next((n for n, ratio in enumerate(ratios) if abs(ratio - 1) > SAME), len(ratios))
    if (even := _geometric(rates, want, rotation)) is not None:
        return even
    if fast and abs(ratios[-1] - ratios[-2]) < SAME * ratios[-1]:
        return _slow(ratios[-1], rotation)
    if fast > 1:
        first, last = ratios[fast], ratios[-1]
        return Judgement(
            FAILS,
            f"The {fast} fastest planes agree, and the ratio of the slow ones changes from plane to plane, from "
            f"{first:.3g} to {last:.3g}: the form of the scaling, and not its factor alone.{_named(rates, want)}",
            "which scaling is applied, and the length and the bounds of its ramp",
        )
    return Judgement(
        FAILS,
        f"From the fastest pair to the slowest, angles are {ratios[0]:.3g} to {ratios[-1]:.3g} times what they should "
        f"be.{_named(rates, want)}",
        "where base, scaling and the number of channels are read",
    )


def _all(ratio: float, rotation: Any) -> Judgement:
    """All planes are off by one factor."""
    said = f"All angles are {ratio:.3g} times what they should be"
    factor = _factor(rotation)
    if factor is not None and abs(ratio - factor) < SAME * factor:
        said += f": the factor of the {rotation.rope_type} scaling, {factor:g} in the configuration, is not applied"
    elif factor is not None and rotation.rope_type == "linear":
        said += f": the factor of the scaling, {factor:g} in the configuration, seems to be {factor / ratio:.4g}"
    elif factor is None and rotation is not None and ratio < 1:
        said += f": a scaling by {1 / ratio:.4g}, which the configuration does not have for these layers"
    return Judgement(FAILS, f"{said}.", "positions, or a factor of the frequencies")


def _slow(ratio: float, rotation: Any) -> Judgement:
    """Fast planes agree, and slow ones are off by one factor."""
    times, way = (ratio, "fast") if ratio > 1 else (1 / ratio, "slow")
    said = f"The fast planes agree, and the slow ones are {times:.4g} times too {way}"
    factor = _factor(rotation)
    if factor is not None and abs(ratio - factor) < SAME * factor:
        said += f": the {rotation.rope_type} scaling by {factor:g} of the configuration is not applied"
    elif factor is not None:
        said += f": the factor of the scaling, {factor:g} in the configuration, seems to be {factor / ratio:.4g}"
    elif rotation is not None and ratio < 1:
        said += f": a scaling of slow planes by {times:.4g}, which the configuration does not have"
    return Judgement(FAILS, f"{said}.", "where the factor of the scaling is read, and whether it reaches the model")


def _geometric(rates: list[float], want: list[float], rotation: Any) -> Judgement | None:
    """Two geometric series: another base, or exponents over another width."""
    got, should = _explained(rates), _explained(want)
    if got is None or should is None or got.kind != "none" or should.kind != "none":
        return None
    if not got.base or not should.base or min(got.base, should.base) <= 1:
        return None
    dims = 2 * len(rates)
    width = dims * math.log(should.base) / math.log(got.base)
    if abs(width - round(width)) < SAME * width and round(width) % 2 == 0 and round(width) != dims:
        head = " (the width of the head)" if rotation is not None and round(width) == rotation.head_dim else ""
        return Judgement(
            FAILS,
            f"Exponents are taken over {round(width)} channels{head}, and not over the {dims} that rotate.",
            "what the index of a pair is divided by: the number of channels that rotate",
        )
    return Judgement(FAILS, f"The base is {got.base:,.6g}, and not {should.base:,.6g}.", "where the base is read from")


def _explained(rates: Sequence[float]) -> Scaling | None:
    freq = torch.tensor(rates, dtype=torch.float64)
    if len(rates) < 2 or not bool((freq > 0).all()):
        return None
    return explained(freq, 1e-6 * freq, 2 * len(rates))


def _named(rates: Sequence[float], want: Sequence[float]) -> str:
    """Which scalings both are, where they have names."""
    said = []
    for found in map(_explained, (rates, want)):
        if found is None or found.kind == "unknown" or found.base is None:
            return ""
        factor = f" by {found.factor:.4g}" if found.factor and found.kind != "none" else ""
        said.append(f"base {found.base:,.6g}, {'no' if found.kind == 'none' else found.kind} scaling{factor}")
    return f" They are those of {said[0]}; the configuration's are those of {said[1]}."


def _factor(rotation: Any) -> float | None:
    """The factor of a scaling, where there is one."""
    factor = None if rotation is None else rotation.parameters.get("factor")
    return float(factor) if isinstance(factor, int | float) and rotation.rope_type != "default" else None
