"""Positional encodings for attention: each scheme is one short file, and all of them share one interface."""

import importlib
from typing import TYPE_CHECKING, Any

from posenc import grid, presets, scaling
from posenc._properties import WISHES, compare, properties
from posenc._version import __version__ as __version__
from posenc.alibi import ALiBi, alibi, alibi_slopes
from posenc.attention import Masks, attend, attention, attention_scores, attention_weights
from posenc.cache import KVCache, sliding_window
from posenc.distance_aware import DistanceAware, dead_rows, distance_weight
from posenc.encoding import Encoding, NoPE
from posenc.layout import convert_layout, layout_permutation
from posenc.learned import Learned, stretch_table
from posenc.memory import Memory
from posenc.model import Config, Transformer
from posenc.registry import ENCODINGS, SCHEMES, Scheme
from posenc.rope import RoPE, rotate
from posenc.shaw import Shaw, shaw_fused, shaw_label, shaw_naive
from posenc.sinusoidal import Sinusoidal, frequencies, sinusoidal
from posenc.t5 import T5Bias, t5_bucket
from posenc.transformer_xl import TransformerXL, relative_shift
from posenc.views import Formula, Heatmap, Lines, Plane, Readout
from posenc.xpos import XPos, xpos_radius, xpos_reach

if TYPE_CHECKING:
    from posenc import plot
    from posenc._explore import Panel, explore, logarithmic

__all__ = [
    "ENCODINGS", "SCHEMES", "WISHES", "ALiBi", "Config", "DistanceAware", "Encoding", "Formula", "Heatmap",
    "KVCache", "Learned", "Lines", "Masks", "Memory", "NoPE", "Panel", "Plane", "Readout", "RoPE", "Scheme", "Shaw",
    "Sinusoidal", "T5Bias", "Transformer", "TransformerXL", "XPos", "alibi", "alibi_slopes", "attend",
    "attention", "attention_scores", "attention_weights", "compare", "convert_layout", "dead_rows",
    "distance_weight", "explore", "frequencies", "grid", "layout_permutation", "logarithmic", "plot", "presets",
    "properties", "relative_shift", "rotate", "scaling", "shaw_fused", "shaw_label", "shaw_naive", "sinusoidal",
    "sliding_window", "stretch_table", "t5_bucket", "xpos_radius", "xpos_reach",
]  # fmt: skip

# Matplotlib and the widgets take as long to import as everything else here, so they wait until they are used.
_LAZY = {"explore": "posenc._explore", "logarithmic": "posenc._explore", "Panel": "posenc._explore"}


def __getattr__(name: str) -> Any:
    if name == "plot":
        return importlib.import_module("posenc.plot")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'posenc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
