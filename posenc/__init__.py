"""Positional encodings for attention: each scheme is one short file, and all of them share one interface.

A name is imported when it is first used. So `posenc.configs` reads a configuration where torch is not installed, and
whoever needs one scheme does not wait for pictures and panels.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from posenc._version import __version__ as __version__

if TYPE_CHECKING:
    from posenc import grid, plot, presets, scaling
    from posenc._explore import Panel, explore, logarithmic
    from posenc._properties import WISHES, compare, properties
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

__all__ = [
    "ENCODINGS", "SCHEMES", "WISHES", "ALiBi", "Config", "DistanceAware", "Encoding", "Formula", "Heatmap",
    "KVCache", "Learned", "Lines", "Masks", "Memory", "NoPE", "Panel", "Plane", "Readout", "RoPE", "Scheme", "Shaw",
    "Sinusoidal", "T5Bias", "Transformer", "TransformerXL", "XPos", "alibi", "alibi_slopes", "attend",
    "attention", "attention_scores", "attention_weights", "compare", "convert_layout", "dead_rows",
    "distance_weight", "explore", "frequencies", "grid", "layout_permutation", "logarithmic", "plot", "presets",
    "properties", "relative_shift", "rotate", "scaling", "shaw_fused", "shaw_label", "shaw_naive", "sinusoidal",
    "sliding_window", "stretch_table", "t5_bucket", "xpos_radius", "xpos_reach",
]  # fmt: skip

# Where each name is at home. The imports above say the same to type checkers, and a test compares the two.
_HOME = {
    name: module
    for module, names in {
        "_explore": "Panel explore logarithmic",
        "_properties": "WISHES compare properties",
        "alibi": "ALiBi alibi alibi_slopes",
        "attention": "Masks attend attention attention_scores attention_weights",
        "cache": "KVCache sliding_window",
        "distance_aware": "DistanceAware dead_rows distance_weight",
        "encoding": "Encoding NoPE",
        "layout": "convert_layout layout_permutation",
        "learned": "Learned stretch_table",
        "memory": "Memory",
        "model": "Config Transformer",
        "registry": "ENCODINGS SCHEMES Scheme",
        "rope": "RoPE rotate",
        "shaw": "Shaw shaw_fused shaw_label shaw_naive",
        "sinusoidal": "Sinusoidal frequencies sinusoidal",
        "t5": "T5Bias t5_bucket",
        "transformer_xl": "TransformerXL relative_shift",
        "views": "Formula Heatmap Lines Plane Readout",
        "xpos": "XPos xpos_radius xpos_reach",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"posenc.{_HOME[name]}"), name)
        setattr(sys.modules[__name__], name, value)
        return value
    if not name.startswith("__") and name.isidentifier() and find_spec(f"posenc.{name}"):
        return importlib.import_module(f"posenc.{name}")
    raise AttributeError(f"module 'posenc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package itself, in which `attention`, `alibi` and `sinusoidal` are always the functions.

    Files of the same names hold them, and whoever imports such a file makes Python bind the file to the name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _HOME:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
