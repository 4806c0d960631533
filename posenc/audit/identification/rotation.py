"""What a rotation is, as `identify` tells it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

WHO = {
    "interleaved": (
        "GPT-J, Meta's Llama, GLM and DeepSeek; llama.cpp calls it NORM, flash-attn interleaved=True, vLLM "
        "is_neox_style=False, MLX traditional=True",
        "Modular's porting guide calls it NeoX style, and Apple's coreai-torch Hugging Face style: both are the other",
    ),
    "half": (
        "GPT-NeoX, and Llama in transformers (rotate_half); llama.cpp calls it NEOX, flash-attn interleaved=False, "
        "vLLM is_neox_style=True, MLX traditional=False",
        "Modular's porting guide calls it GPT-J style, which is the other",
    ),
}
"""Who has a layout and what they call it, and who has the names the other way round."""

WIDTH = 88
"""Of the lines that are printed, in characters."""


@dataclass(frozen=True)
class FoundRotation:
    """A rotation that was recognised.

    Example:
        >>> from posenc import RoPE
        >>> from posenc.audit import identify
        >>> found = identify(RoPE(64, 500_000.0).query, dim=64)
        >>> found.layout, found.base, found.scaling
        ('interleaved', 500000.0, 'none')
    """

    dim: int
    """Channels of a head."""
    layout: str
    """ "interleaved", "half" or "other"; who calls it what is in `aliases`."""
    pairs: tuple[tuple[int, int], ...]
    """Channels that turn together, fastest first."""
    rotary_dim: int
    """Channels over which the frequencies are spread."""
    frequencies: tuple[float, ...]
    """Of each pair, in radians per position, without its sign."""
    base: float | None
    """b of b^(-2t/rotary_dim), before scaling; None where it cannot be told."""
    scaling: str
    """ "none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope", "proportional" or "unknown"."""
    factor: float | None
    """By how much the scaling divides frequencies; None where that cannot be told."""
    offset: float
    """What is added to positions."""
    direction: int
    """1 if (1, 0) turns towards (0, 1), as in all published models; -1 the other way; 0 where planes differ."""
    amplitude: float
    """What rotated channels are multiplied by, as YaRN's and LongRoPE's attention factor does."""
    rounding: str
    """The precision of angles or tables, "float64", "float32", "float16", "bfloat16" or "unknown"."""
    rounded: str
    """What is rounded to it, "frequencies", "positions", "angles", "tables" or "values"; "" where nothing is."""
    residual: float
    """What stays unexplained, as root mean square over that of the vectors."""
    trained: int | None = None
    """The length in training that YaRN's or Llama 3's ramp implies."""
    growth: float = 0.0
    """By how much the logarithm of lengths grows per position, in the fastest plane, which is 0 but for xPos."""
    axes: tuple[int, ...] = ()
    """Which axis of positions turns each plane, where there are several."""
    heads: str = ""
    """ "first" for (B, H, L, d), "last" for (B, L, H, d); "" where there is no such axis."""
    words: str = ""
    """How the channels of a pair lie, where `layout` is "other"."""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Between which values numbers lie."""
    alternatives: tuple[str, ...] = ()
    """Other scalings with the same frequencies."""
    notes: tuple[str, ...] = ()
    """What is not identifiable, and what is unusual."""

    @property
    def aliases(self) -> str:
        """Who has this layout, and under which names."""
        return WHO.get(self.layout, ("", ""))[0]

    @property
    def start(self) -> int:
        """The first channel that turns."""
        return min(i for i, _ in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """All fields, of plain types, for JSON. Infinities become None.

        Returns:
            A dict by the names of the fields.
        """
        out: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name == "intervals":
                value = {k: [None if math.isinf(e) else e for e in v] for k, v in value.items()}
            elif isinstance(value, tuple):
                value = [list(each) if isinstance(each, tuple) else each for each in value]
            out[name] = value
        return {"scheme": "rotation", **out, "aliases": self.aliases}

    def __str__(self) -> str:
        return paragraphs(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is printed, before it is broken into lines."""
        return tuple(sentence(p) for p in (self._channels(), self._rates(), self._rest(), *self.notes) if p)

    def _channels(self) -> str:
        some = [f"({i}, {j})" for i, j in self.pairs[:3]]
        pairs = ", ".join(some) + (f", … ({self.pairs[-1][0]}, {self.pairs[-1][1]})" if len(self.pairs) > 3 else "")
        turning = 2 * len(self.pairs)
        still = self.dim - turning
        rest = f" {turning} of {self.dim} channels turn, {still} pass." if still else f" All {self.dim} channels turn."
        if self.layout == "other" or len(self.pairs) == 1:
            return f"Channels {pairs} turn together: {self.words}.{rest}"
        who, wrong = WHO[self.layout]
        return f'Channels {pairs} turn together: "{self.layout}" ({who}). Names differ: {wrong}.{rest}'

    def _rates(self) -> str:
        base = "Base unknown" if self.base is None else f"Base {_number(self.base)}"
        if self.base is not None and "base" in self.intervals:
            base += _between(self.intervals["base"])
        said = {
            "none": "no scaling",
            "proportional": f"p-RoPE (proportional): {len(self.pairs)} of {self.rotary_dim // 2} planes turn, with the "
            f"frequencies of a whole head",
            "unknown": "a scaling that has no name here",
        }.get(self.scaling, f"{NAMES.get(self.scaling, self.scaling)} scaling")
        if self.factor is not None and self.scaling not in ("none", "unknown") and self.factor != 1:
            said += f", factor {_number(self.factor)}{_between(self.intervals.get('factor'))}"
        elif self.scaling == "none" and math.isinf(self.intervals.get("factor", (1, 1))[1]):
            said += " in the planes that are seen"
        if self.trained:
            said += f", length in training {self.trained:,}{_between(self.intervals.get('trained'))}"
        if self.alternatives:
            said += f" (or {'; or '.join(self.alternatives)}: the frequencies are the same)"
        ends = f"from {self.frequencies[0]:.4g} to {self.frequencies[-1]:.4g} radians per position"
        return f"{base}, {said}; {self.rotary_dim} channels share the frequencies, {ends}."

    def _rest(self) -> str:
        said = {
            1: "",
            -1: "They turn the other way than in published models: a sine has another sign",
            0: "Some planes turn one way and some the other",
        }[self.direction]
        parts = [said] if said else []
        if self.offset:
            parts.append(f"Positions are counted from {self.offset:.6g}: {self.offset:+.6g} is added")
        if abs(self.amplitude - 1) > 1e-4:
            parts.append(f"Rotated channels are multiplied by {self.amplitude:.5g}{_amplitude(self)}")
        place = f" ({self.rounded})" if self.rounded else ""
        parts.append(f"Rounding: {self.rounding}{place}; {self.residual:.1g} of the vectors stays unexplained")
        return ". ".join(parts) + "."

    def __repr__(self) -> str:
        fields = ("layout", "rotary_dim", "base", "scaling", "factor", "offset", "direction", "amplitude", "rounding")
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in fields)})"


NAMES = {"linear": "linear", "ntk": "NTK-aware", "dynamic": "dynamic NTK", "yarn": "YaRN", "llama3": "Llama 3's",
         "longrope": "LongRoPE"}  # fmt: skip


def _amplitude(r: FoundRotation) -> str:
    """What the amplitude is, where a rule gives it."""
    if r.scaling == "yarn" and r.factor and abs(r.amplitude - (0.1 * math.log(r.factor) + 1)) < 2e-3:
        return ", YaRN's 0.1 ln s + 1"
    if r.scaling == "longrope":
        return ", as LongRoPE does"
    return ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.7g}"


def _between(interval: tuple[float, float] | None) -> str:
    """An interval in words, if it is wider than what a reader would take for exact."""
    if interval is None or interval[1] / max(interval[0], 1e-300) < 1.002:
        return ""
    end = "any larger number" if math.isinf(interval[1]) else f"{interval[1]:,.6g}"
    return f" (from {interval[0]:,.6g} to {end})"


def paragraphs(parts: Iterable[str]) -> str:
    """Each part as a paragraph of lines; an empty one is left out."""
    return "\n".join(textwrap.fill(sentence(p), WIDTH, subsequent_indent="  ") for p in parts if p)


def sentence(part: str) -> str:
    """With a capital, and a full stop where no mark ends it."""
    return part[:1].upper() + part[1:] + ("" if part.endswith((".", "?")) else ".")
