"""The report of a reading, as lines for a terminal."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from posenc.configs.rotation import Rotation

Reading = Any  # posenc.configs.reader.Reading, which prints itself by this module and so cannot be imported here

NAMES = {
    "rope": "RoPE", "alibi": "ALiBi", "learned": "a learned table", "sinusoidal": "sinusoidal", "nope": "none (NoPE)",
    "t5": "T5's bias", "transformer_xl": "Transformer-XL", "axial": "an axial table",
    "learned_relative": "learned for each offset",
    "learned and t5": "a learned table and T5's bias", "unknown": "not known",
}  # fmt: skip
WIDTH = 112


def text(reading: Reading) -> str:
    """The whole report."""
    out = [f"{reading.source}: {reading.model_type or 'no model_type'}"]
    out += _line("scheme", f"{NAMES[reading.scheme]}, because of {reading.why}")
    if reading.context:
        out += _line("context", f"{reading.context} tokens")
    if reading.layers:
        out += _line("layers", _layers(reading))
    if reading.heads and reading.head_dim:
        out += _line("heads", f"{reading.heads} of {reading.head_dim} channels; {_kept(reading)}")
    for kind, one in reading.rotations.items():
        if one is not None and (not kind.startswith("layer ") or kind == next(iter(reading.rotations))):
            out += _rotation(kind, one, reading)
    out += _others(reading)
    if (grows := reading.bytes_per_token) is not None and any(layer.numbers for layer in reading.layers):
        total = reading.cache_bytes(reading.context) if reading.context else None
        all_of_it = f", {size(total)} at {reading.context} tokens" if total else ""
        out += _line("cache", f"{size(grows)} more for each token{all_of_it}, {reading.width} bytes a number")
    for name, sentences in (("warning", reading.warnings), ("note", reading.notes)):
        for sentence in sentences:
            out += _line(name, sentence)
    return "\n".join(out)


def size(count: float) -> str:
    """Bytes in words.

    Example:
        >>> size(131_072), size(17_179_869_184), size(900)
        ('128.0 KiB', '16.0 GiB', '900 bytes')
    """
    if count < 1024:
        return f"{count:.0f} bytes"
    power = min(int(math.log(count, 1024)), 4)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def _line(name: str, words: str) -> list[str]:
    head = f"{name:<9}" if len(name) < 9 else f"{name}: "
    return textwrap.wrap(head + words, WIDTH, subsequent_indent=" " * 9, break_long_words=False)


def _kept(reading: Reading) -> str:
    kept = next((layer.numbers for layer in reading.layers if layer.numbers), None)
    if reading.latent:
        return f"a cache holds a latent vector of {kept} numbers for each token and layer"
    return f"{reading.key_heads} of keys and values"


def _layers(reading: Reading) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in reading.kinds.items())
    windows = sorted({(layer.window, layer.both_sides) for layer in reading.layers if layer.window is not None})
    words = [f"{size}{f' ({size // 2} on each side)' if both else ''}" for size, both in windows]
    seen = f", windows of {', '.join(words)} tokens" if windows else ""
    bare = f", {reading.without_rotation} attend without a rotation" if reading.without_rotation else ""
    return f"{len(reading.layers)}: {kinds}{seen}{bare}"


def _rotation(kind: str, rotation: Rotation, reading: Reading) -> list[str]:
    still = f", {rotation.still} of them stand still" if rotation.still else ""
    parts = [
        f"base {rotation.base:g}, {rotation.dims} of {rotation.head_dim} channels rotate, {rotation.planes} "
        f"planes{still}"
    ]
    if rotation.rope_type != "default":
        parts.append(f"rope type {rotation.rope_type}{_factor(rotation)}")
    if rotation.trained and rotation.trained != rotation.context:
        parts.append(f"trained on {rotation.trained} tokens before scaling")
    if rotation.never_turned is not None:
        parts.append(
            f"{rotation.never_turned} of {rotation.planes} did not complete a turn over {rotation.seen} tokens"
        )
    if (
        rotation.context
        and rotation.trained != rotation.context
        and (new := rotation.new_planes(rotation.context)) is not None
    ):
        parts.append(f"{len(new)} reach new angles at {rotation.context}")
    if rotation.longest < math.inf:
        parts.append(f"the slowest turns once in {rotation.longest:.0f} tokens")
    if reach := rotation.reach or rotation.context:
        stay = rotation.head_dim + rotation.beside - rotation.dims
        over = f" with the {stay} channels that do not rotate" if stay else ""
        nowhere = f"nowhere up to {rotation.searched if rotation.searched < reach else reach}"
        parts.append(f"Σ cos(mθ){over} < 0 {f'first at offset {rotation.bound}' if rotation.bound else nowhere}")
    rotated = rotation.attention_factor**2
    if abs(rotated - 1) > 1e-12:
        parts.append(f"scores of rotated channels times {rotated:.4f}")
    if abs(reading.score_factor - 1) > 1e-12:
        parts.append(f"all scores times {reading.score_factor:.4f}")
    return _line("rotation" if kind in ("", "layer 0") else kind, "; ".join(parts))


def _factor(one: Rotation) -> str:
    factor = one.parameters.get("factor")
    return f", factor {factor:g}" if factor else ""


def _others(reading: Reading) -> list[str]:
    """What schemes other than RoPE say in numbers."""
    out = []
    if reading.slopes:
        reach = (
            f", at most {max(reading.slopes) * (reading.context - 1):.0f} over the context" if reading.context else ""
        )
        out += _line("slopes", f"{max(reading.slopes):g} to {min(reading.slopes):g}{reach}")
    if reading.rows:
        out += _line("table", f"{reading.rows[0]} rows, for {reading.rows[1]} tokens")
    if reading.buckets:
        last = f", the last from distance {reading.buckets[1]}" if reading.buckets[1] else ""
        out += _line("buckets", f"{reading.buckets[0]}{last}")
    if scale := reading.position_scale:
        far = reading.context or scale.floor
        out += _line("queries", f"times {scale.at(far - 1):.4f} at position {far - 1}, in layers {scale.layers}")
    return out
