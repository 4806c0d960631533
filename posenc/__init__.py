"""Positional encodings for attention: each scheme is one short file, and all of them share one interface."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from posenc.alibi import ALiBi, alibi, alibi_slopes
from posenc.attention import attend, attention_weights
from posenc.cache import KVCache, sliding_window
from posenc.distance_aware import DistanceAware, dead_rows, distance_weight
from posenc.encoding import Encoding, NoPE
from posenc.layout import convert_layout, layout_permutation
from posenc.learned import Learned, stretch_table
from posenc.rope import RoPE, rotate
from posenc.shaw import Shaw, shaw_label, shaw_naive
from posenc.sinusoidal import Sinusoidal, frequencies, sinusoidal
from posenc.source import book_mode, device, glue, show
from posenc.t5 import T5Bias, t5_bucket
from posenc.transformer_xl import TransformerXL, relative_shift
from posenc.xpos import XPos, xpos_radius, xpos_reach

if TYPE_CHECKING:
    from posenc import grid, model, plot, presets, scaling
    from posenc.explore import Heatmap, Lines, Plane, Readout, explore, logarithmic
    from posenc.memory import Memory
    from posenc.model import Transformer
    from posenc.properties import properties

__version__ = "0.1.0"
__all__ = [
    "ENCODINGS", "ALiBi", "DistanceAware", "Encoding", "Heatmap", "KVCache", "Learned", "Lines", "Memory", "NoPE",
    "Plane", "Readout", "RoPE", "Shaw", "Sinusoidal", "T5Bias", "Transformer", "TransformerXL", "XPos", "alibi",
    "alibi_slopes", "attend", "attention_weights", "book_mode", "convert_layout", "dead_rows", "device",
    "distance_weight", "explore", "frequencies", "glue", "grid", "layout_permutation", "logarithmic", "model", "plot",
    "presets", "properties", "relative_shift", "rotate", "scaling", "shaw_label", "shaw_naive", "show", "sinusoidal",
    "sliding_window", "stretch_table", "t5_bucket", "xpos_radius", "xpos_reach",
]  # fmt: skip

# Every factory takes the same keywords: model_dim, heads, head_dim and length.
ENCODINGS: dict[str, Callable[..., Encoding]] = {
    "nope": lambda model_dim, heads, head_dim, length: NoPE(),
    "sinusoidal": lambda model_dim, heads, head_dim, length: Sinusoidal(model_dim),
    "learned": lambda model_dim, heads, head_dim, length: Learned(model_dim, length),
    "shaw": lambda model_dim, heads, head_dim, length: Shaw(head_dim),
    "transformer_xl": lambda model_dim, heads, head_dim, length: TransformerXL(model_dim, heads, head_dim),
    "t5": lambda model_dim, heads, head_dim, length: T5Bias(heads),
    "rope": lambda model_dim, heads, head_dim, length: RoPE(head_dim),
    "xpos": lambda model_dim, heads, head_dim, length: XPos(head_dim),
    "alibi": lambda model_dim, heads, head_dim, length: ALiBi(heads),
    "distance_aware": lambda model_dim, heads, head_dim, length: DistanceAware(heads),
}

# What few readers need at once is imported when it is first used.
_LATER = {
    **dict.fromkeys(("explore", "Heatmap", "Lines", "Plane", "Readout", "logarithmic"), "posenc.explore"),
    "Memory": "posenc.memory",
    "Transformer": "posenc.model",
    "properties": "posenc.properties",
}
_MODULES = ("grid", "model", "plot", "presets", "scaling")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"posenc.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'posenc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`explore` and `properties` stay functions when Python, importing the packages of these names, binds them here."""

    def __setattr__(self, name: str, value: Any) -> None:
        function = name in ("explore", "properties") and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if function else value)


sys.modules[__name__].__class__ = _Package
