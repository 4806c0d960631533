"""Positional encodings for attention: each scheme is one short file, and all of them share one interface.

A name is imported when it is first used. So `posenc.configs` reads a configuration where torch is not installed, and
whoever needs one scheme does not wait for pictures and panels.
"""

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from posenc._lazy import lazy
from posenc._version import __version__ as __version__

if sys.version_info < (3, 11):  # noqa: UP036  # pip refuses an older one, and a clone on the path asks no pip
    raise ImportError("posenc needs Python 3.11 or newer, and this is " + sys.version.split()[0])

if TYPE_CHECKING:
    from posenc._attention.cache import KVCache
    from posenc._attention.call import attend, attention
    from posenc._attention.encoding import Encoding, NoPE
    from posenc._attention.masks import sliding_window
    from posenc._attention.multihead import MultiheadAttention
    from posenc._attention.plan import Plan
    from posenc._attention.scores import attention_scores, attention_weights
    from posenc._attention.spans import Span
    from posenc._explore import Panel, explore, logarithmic
    from posenc._explore.playing.panel import play
    from posenc._explore.training.panel import learn
    from posenc._properties import WISHES, compare, properties
    from posenc.pictures import plot
    from posenc.pictures.views import Clocks, Formula, Heatmap, Lines, Plane, Readout, Words
    from posenc.schemes import grid, presets, scaling
    from posenc.schemes.alibi import ALiBi, alibi, alibi_slopes
    from posenc.schemes.distance_aware import DistanceAware, dead_rows, distance_weight
    from posenc.schemes.layout import convert_layout, layout_permutation
    from posenc.schemes.learned import Learned, stretch_table
    from posenc.schemes.registry import ENCODINGS, SCHEMES, Scheme
    from posenc.schemes.rope import RoPE, rotate
    from posenc.schemes.shaw import Shaw, shaw_fused, shaw_label, shaw_naive
    from posenc.schemes.sinusoidal import Sinusoidal, frequencies, sinusoidal
    from posenc.schemes.t5 import T5Bias, t5_bucket
    from posenc.schemes.transformer_xl import TransformerXL, relative_shift
    from posenc.schemes.xpos import XPos, xpos_radius, xpos_reach
    from posenc.transformer.memory import Memory
    from posenc.transformer.model import Config, Transformer

__all__ = [
    "ENCODINGS", "SCHEMES", "WISHES", "ALiBi", "Clocks", "Config", "DistanceAware", "Encoding", "Formula", "Heatmap",
    "KVCache", "Learned", "Lines", "Memory", "MultiheadAttention", "NoPE", "Panel", "Plan", "Plane", "Readout",
    "RoPE", "Scheme", "Shaw", "Sinusoidal", "Span", "T5Bias", "Transformer", "TransformerXL", "Words", "XPos",
    "alibi", "alibi_slopes", "attend", "attention", "attention_scores", "attention_weights", "compare",
    "convert_layout", "dead_rows", "distance_weight", "explore", "frequencies", "grid", "layout_permutation", "learn",
    "logarithmic", "play", "plot", "presets", "properties", "relative_shift", "rotate", "scaling", "shaw_fused",
    "shaw_label", "shaw_naive", "sinusoidal", "sliding_window", "stretch_table", "t5_bucket", "xpos_radius",
    "xpos_reach",
]  # fmt: skip

# Where each name is at home. The imports above say the same to type checkers, and a test compares the two.
_HOMES = {
    "posenc._attention.cache": "KVCache",
    "posenc._attention.call": "attend attention",
    "posenc._attention.encoding": "Encoding NoPE",
    "posenc._attention.multihead": "MultiheadAttention",
    "posenc._attention.masks": "sliding_window",
    "posenc._attention.plan": "Plan",
    "posenc._attention.spans": "Span",
    "posenc._attention.scores": "attention_scores attention_weights",
    "posenc._explore": "Panel explore logarithmic",
    "posenc._explore.playing.panel": "play",
    "posenc._explore.training.panel": "learn",
    "posenc._properties": "WISHES compare properties",
    "posenc.pictures.views": "Clocks Formula Heatmap Lines Plane Readout Words",
    "posenc.schemes.alibi": "ALiBi alibi alibi_slopes",
    "posenc.schemes.distance_aware": "DistanceAware dead_rows distance_weight",
    "posenc.schemes.layout": "convert_layout layout_permutation",
    "posenc.schemes.learned": "Learned stretch_table",
    "posenc.schemes.registry": "ENCODINGS SCHEMES Scheme",
    "posenc.schemes.rope": "RoPE rotate",
    "posenc.schemes.shaw": "Shaw shaw_fused shaw_label shaw_naive",
    "posenc.schemes.sinusoidal": "Sinusoidal frequencies sinusoidal",
    "posenc.schemes.t5": "T5Bias t5_bucket",
    "posenc.schemes.transformer_xl": "TransformerXL relative_shift",
    "posenc.schemes.xpos": "XPos xpos_radius xpos_reach",
    "posenc.transformer.memory": "Memory",
    "posenc.transformer.model": "Config Transformer",
}
_MODULES = ("posenc.pictures.plot", "posenc.schemes.grid", "posenc.schemes.presets", "posenc.schemes.scaling")
_get, _names = lazy(__name__, _HOMES, _MODULES)


def __getattr__(name: str) -> Any:
    if name not in _names and not name.startswith("__") and name.isidentifier() and find_spec(f"posenc.{name}"):
        return importlib.import_module(f"posenc.{name}")  # a room, such as posenc.audit
    return _get(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
