"""Positional encodings for attention: each scheme is one short file, and all of them share one interface."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from posenc.attention import attend, attention_weights
from posenc.cache import KVCache, sliding_window
from posenc.encoding import Encoding, NoPE
from posenc.layout import convert_layout, layout_permutation
from posenc.rope import RoPE, rotate
from posenc.sinusoidal import Sinusoidal, frequencies, sinusoidal
from posenc.source import book_mode, device, glue, show

if TYPE_CHECKING:
    from posenc import plot
    from posenc.explore import Heatmap, Lines, Plane, Readout, explore, logarithmic

__version__ = "0.1.0"
__all__ = [
    "ENCODINGS", "Encoding", "Heatmap", "KVCache", "Lines", "NoPE", "Plane", "Readout", "RoPE", "Sinusoidal",
    "attend", "attention_weights", "book_mode", "convert_layout", "device", "explore", "frequencies", "glue",
    "layout_permutation", "logarithmic", "plot", "rotate", "show", "sinusoidal", "sliding_window",
]  # fmt: skip

# Every factory takes the same keywords: model_dim, heads, head_dim and length.
ENCODINGS: dict[str, Callable[..., Encoding]] = {
    "nope": lambda model_dim, heads, head_dim, length: NoPE(),
    "sinusoidal": lambda model_dim, heads, head_dim, length: Sinusoidal(model_dim),
    "rope": lambda model_dim, heads, head_dim, length: RoPE(head_dim),
}

_EXPLORE = ("explore", "Heatmap", "Lines", "Plane", "Readout", "logarithmic")


def __getattr__(name: str) -> Any:  # what draws is imported when it is first used
    if name == "plot":
        return importlib.import_module("posenc.plot")
    if name in _EXPLORE:
        return getattr(importlib.import_module("posenc.explore"), name)
    raise AttributeError(f"module 'posenc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`posenc.explore` stays the function when Python, importing the package of that name, binds it here."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.explore if name == "explore" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package
