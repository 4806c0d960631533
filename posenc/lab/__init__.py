"""Evidence: every scheme is trained under one budget and measured far beyond its training length.

`python -m posenc.lab sweep --experiment extrapolation --preset epoch` trains and measures each run
that has no result yet;
`posenc.lab.read("extrapolation", "epoch")` returns the results.
"""

from typing import TYPE_CHECKING, Any

from posenc._extras import extra
from posenc._lazy import lazy

with extra("lab"):
    import filelock  # noqa: F401
    import numpy  # noqa: F401
    import safetensors  # noqa: F401
    import tqdm  # noqa: F401

if TYPE_CHECKING:
    from posenc.lab.budgets import PRESETS, Preset, Task, Text
    from posenc.lab.config import EXPERIMENTS, Run, runs
    from posenc.lab.corpus import Corpus
    from posenc.lab.results import read
    from posenc.lab.sweeps import sweep, train_and_measure
    from posenc.lab.training import train
    from posenc.lab.variants import VARIANTS, Variant
    from posenc.lab.weights import trained

__all__ = [
    "EXPERIMENTS", "PRESETS", "VARIANTS", "Corpus", "Preset", "Run", "Task", "Text", "Variant", "read", "runs", "sweep",
    "train", "train_and_measure", "trained",
]  # fmt: skip

_get, _ = lazy(
    __name__,
    {
        "posenc.lab.budgets": "PRESETS Preset Task Text",
        "posenc.lab.config": "EXPERIMENTS Run runs",
        "posenc.lab.corpus": "Corpus",
        "posenc.lab.results": "read",
        "posenc.lab.sweeps": "sweep train_and_measure",
        "posenc.lab.training": "train",
        "posenc.lab.variants": "VARIANTS Variant",
        "posenc.lab.weights": "trained",
    },
)


def __getattr__(name: str) -> Any:
    return _get(name)
