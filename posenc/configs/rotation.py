"""The rotation of one kind of layer: its frequencies with the scaling of transformers, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Frequencies = tuple[float, ...]
FULL_TURN = 2 * math.pi
CLOSE = 1 + 1e-9  # two angles that differ only by rounding are the same
MOST_COSINES = 5_000_000  # about a second


@dataclass(frozen=True)
class Rotation:
    """How queries and keys of one kind of layer rotate.

    Args:
        kind: The layers that it is for, as the configuration calls them; "" for all.
        head_dim: Channels of a head.
        dims: Channels of a head that rotate, two for each plane.
        base: `rope_theta`.
        rope_type: One of transformers' rope types.
        parameters: What the rope type reads, by name.
        trained: The length of texts before the scaling, in tokens, or None if the configuration does not say.
        context: The length that the configuration promises, in tokens, or None.
        reach: The largest offset between a query and a key in these layers plus one, or None without a window.
        assumed: Fields that neither the file nor a class that is known gives, so that most models' values were taken.
        beside: Channels of a head beyond `head_dim` that no rotation touches, as in a head with a key of its own for
            positions.

    Example:
        >>> Rotation("", 128, 128, 500_000.0, trained=8192).never_turned
        29
    """

    kind: str
    head_dim: int
    dims: int
    base: float
    rope_type: str = "default"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    trained: int | None = None
    context: int | None = None
    reach: int | None = None
    assumed: tuple[str, ...] = ()
    beside: int = 0

    @cached_property
    def plain(self) -> Frequencies:
        """Frequencies before scaling, in radians per position, fastest first."""
        return plain(self.dims, self.base)

    def at(self, length: int | None = None) -> Frequencies:
        """Frequencies in a text of `length` tokens.

        Args:
            length: Tokens. Default: as many as in training.

        Returns:
            In radians per position, fastest first.
        """
        return SCALINGS[self.rope_type](self.plain, self.parameters, length)

    @cached_property
    def frequencies(self) -> Frequencies:
        """Frequencies in a text of the length that the configuration promises."""
        return self.at(self.context)

    @property
    def planes(self) -> int:
        """Pairs of channels, each with its frequency."""
        return (self.dims + 1) // 2

    @cached_property
    def still(self) -> int:
        """Planes that do not rotate at all, as those of rope type "proportional"."""
        return sum(each == 0 for each in self.frequencies)

    @property
    def seen(self) -> int | None:
        """Offsets that training has shown to these layers: the trained length, or the window if it is shorter."""
        return least(self.trained, self.reach)

    @cached_property
    def never_turned(self) -> int | None:
        """Planes that rotate and did not complete one turn over the offsets of training, before any scaling."""
        if self.seen is None:
            return None
        now = self.at(None) if self.rope_type == "proportional" else self.plain
        return sum(0 < each * self.seen * CLOSE < FULL_TURN for each in now)

    @cached_property
    def longest(self) -> float:
        """Positions that the slowest rotating plane needs for a turn; infinity if none rotates."""
        turning = [each for each in self.frequencies if each > 0]
        return FULL_TURN / min(turning) if turning else math.inf

    def new_planes(self, length: int) -> list[int] | None:
        """Planes whose angles, in a text of `length` tokens, go beyond all that training has shown.

        A plane that completed a turn in training has shown all its angles. Another one has shown those up to
        θ · L, with the trained length L and the frequency θ before scaling.

        Args:
            length: Tokens.

        Returns:
            Numbers of planes, fastest first; None if the trained length is not known.
        """
        if self.seen is None:
            return None
        offsets = least(length, self.reach) or length
        return [
            plane
            for plane, (was, now) in enumerate(zip(self.plain, self.at(length), strict=True))
            if was * self.seen < FULL_TURN and now * offsets > was * self.seen * CLOSE
        ]

    @property
    def bound(self) -> int | None:
        """The first offset m with Σ cos(mθ) < 0, searched up to the context or window; None if there is none so far.

        At that offset, on average over contents, a key that resembles the query scores below a random one. The sum is
        over all pairs of channels in a head: one that does not rotate counts as θ = 0, and each that rotates counts
        with the square of the `attention_factor`.

        References:
            Men et al. (2024), arXiv 2405.14591, for heads in which all channels rotate.
        """
        return self._search[0]

    @property
    def searched(self) -> int:
        """The offset up to which `bound` was searched: the context or window, or less where that takes too long."""
        return self._search[1]

    @cached_property
    def _search(self) -> tuple[int | None, int]:
        limit = least(self.context or self.trained, self.reach) or 0
        level = (self.head_dim + self.beside - self.dims) / 2 / self.attention_factor**2
        return search(self.frequencies, limit, level)

    @cached_property
    def attention_factor(self) -> float:
        """What cosines and sines are multiplied by, so that the scores of rotated channels grow by its square."""
        return attention_factor(self.rope_type, self.parameters)


def least(*values: int | None) -> int | None:
    """The least of the values that are known."""
    known = [value for value in values if value is not None]
    return min(known) if known else None


def plain(dims: int, base: float) -> Frequencies:
    """base^(-2i/dims) for each plane i, in radians per position. An odd number of channels is rounded up.

    Example:
        >>> [round(each, 4) for each in plain(8, 10_000.0)]
        [1.0, 0.1, 0.01, 0.001]
    """
    return tuple(base ** (-2 * plane / dims) for plane in range((dims + 1) // 2))


def first_negative(frequencies: Sequence[float], limit: int, level: float = 0.0) -> int | None:
    """The first m from 1 to `limit` with level + Σ cos(mθ) < 0, or None.

    Args:
        frequencies: The θ of each plane, in radians per position.
        limit: The last offset that is tried.
        level: What pairs of channels that do not rotate add to the sum at every offset.

    Example:
        >>> first_negative(plain(128, 10_000.0), 4096)
        1707
    """
    return search(frequencies, limit, level, most=10**12)[0]


def search(
    frequencies: Sequence[float], limit: int, level: float = 0.0, most: int | None = None
) -> tuple[int | None, int]:
    """The first m from 1 to `limit` with level + Σ cos(mθ) < 0, or None, and the offset up to which it was looked for.

    The sum falls by Σθ at most from one position to the next, so positions that it cannot reach zero in are skipped.
    So is a doubling of m in which slow planes, with mθ < π, outweigh all others at their least.

    Args:
        frequencies: The θ of each plane, in radians per position.
        limit: The last m that is asked for.
        level: What pairs of channels that do not rotate add to the sum at every offset. Default: 0.0.
        most: Cosines after which the search stops. Default: `MOST_COSINES`.

    Example:
        >>> search(plain(128, 10_000.0), 1706)
        (None, 1706)
    """
    steepest, m, cosines = sum(frequencies), 1, 0
    if level >= len(frequencies):
        return None, limit
    while m <= limit:
        total = level + sum(map(math.cos, [m * frequency for frequency in frequencies]))
        if total < 0:
            return m, m
        cosines += len(frequencies)
        if cosines > (MOST_COSINES if most is None else most):
            return None, m
        far = min(2 * m, limit)
        slow = [math.cos(far * frequency) for frequency in frequencies if far * frequency < math.pi]
        if level + sum(slow) > len(frequencies) - len(slow):
            m = far + 1
            continue
        m += max(1, int(total / steepest)) if steepest else limit
    return None, limit


# The rope types of transformers: from plain frequencies, rope parameters and a length to the frequencies that apply


def _default(freq: Frequencies, _: Mapping[str, Any], __: int | None) -> Frequencies:
    return freq


def _linear(freq: Frequencies, parameters: Mapping[str, Any], _: int | None) -> Frequencies:
    return tuple(each / parameters["factor"] for each in freq)


def _dynamic(freq: Frequencies, parameters: Mapping[str, Any], length: int | None) -> Frequencies:
    trained, factor, planes = parameters["max_position_embeddings"], parameters["factor"], len(freq)
    stretch = factor * max(length or trained, trained) / trained - (factor - 1)
    return tuple(each / stretch ** (plane / max(planes - 1, 1)) for plane, each in enumerate(freq))


def _yarn(freq: Frequencies, parameters: Mapping[str, Any], _: int | None) -> Frequencies:
    factor, dims, base = parameters["factor"], 2 * len(freq), parameters["rope_theta"]
    trained = parameters["original_max_position_embeddings"]
    low, high = (
        dims * math.log(trained / (turns * FULL_TURN)) / (2 * math.log(base))
        for turns in (parameters.get("beta_fast") or 32, parameters.get("beta_slow") or 1)  # 0 counts as missing
    )
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    high += 0.001 if low == high else 0
    ramp = [min(max((plane - low) / (high - low), 0), 1) for plane in range(len(freq))]
    return tuple(each / factor * share + each * (1 - share) for each, share in zip(freq, ramp, strict=True))


def _longrope(freq: Frequencies, parameters: Mapping[str, Any], length: int | None) -> Frequencies:
    beyond = (length or 0) > parameters["original_max_position_embeddings"]
    divisors = parameters["long_factor" if beyond else "short_factor"]
    return tuple(each / divisor for each, divisor in zip(freq, divisors, strict=True))


def _llama3(freq: Frequencies, parameters: Mapping[str, Any], _: int | None) -> Frequencies:
    factor, trained = parameters["factor"], parameters["original_max_position_embeddings"]
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]

    def scaled(frequency: float) -> float:
        turns = trained * frequency / FULL_TURN
        if turns < low:
            return frequency / factor
        if turns > high or low == high:
            return frequency
        share = (turns - low) / (high - low)
        return (1 - share) * frequency / factor + share * frequency

    return tuple(map(scaled, freq))


def _proportional(freq: Frequencies, parameters: Mapping[str, Any], _: int | None) -> Frequencies:
    turning = int(parameters.get("partial_rotary_factor", 1.0) * len(freq))
    factor = parameters.get("factor", 1.0)
    return tuple(each / factor if plane < turning else 0.0 for plane, each in enumerate(freq))


SCALINGS: dict[str, Callable[[Frequencies, Mapping[str, Any], int | None], Frequencies]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}

NEEDED = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor", "original_max_position_embeddings"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "proportional": (),
}
"""What a rope type cannot do without."""

ALLOWED = {
    "default": set(),
    "linear": set(),
    "dynamic": set(),
    "llama3": set(),
    "proportional": {"factor"},
    "yarn": {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"},
    "longrope": {"attention_factor", "factor"},
}
"""What else it reads."""

ANYWHERE = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"}
"""What rope parameters of any type may hold."""


def mscale(factor: float, weight: float = 1.0) -> float:
    """YaRN's 0.1 · weight · ln s + 1, and 1 for a factor of 1 or less."""
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def attention_factor(rope_type: str, parameters: Mapping[str, Any]) -> float:
    """What cosines and sines are multiplied by.

    Example:
        >>> round(attention_factor("yarn", {"factor": 16.0}), 4)
        1.2773
    """
    if rope_type not in ("yarn", "longrope"):
        return 1.0
    if parameters.get("attention_factor") is not None:
        return float(parameters["attention_factor"])
    factor = parameters["factor"]
    if rope_type == "longrope":
        trained = parameters["original_max_position_embeddings"]
        return math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    above, below = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return mscale(factor, above) / mscale(factor, below) if above and below else mscale(factor)
