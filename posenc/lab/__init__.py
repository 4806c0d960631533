"""Evidence: every scheme is trained under one budget and measured far beyond its training length.

`python -m posenc.lab sweep --experiment extrapolation --preset epoch` trains and measures each run
that has no result yet;
`posenc.lab.read("extrapolation", "epoch")` returns the results.
"""

from posenc.lab.config import EXPERIMENTS, PRESETS, VARIANTS, Preset, Run, Task, Text, Variant, runs
from posenc.lab.corpus import Corpus
from posenc.lab.results import read
from posenc.lab.sweep import sweep, train_and_measure
from posenc.lab.training import train
from posenc.lab.weights import trained

__all__ = [
    "EXPERIMENTS", "PRESETS", "VARIANTS", "Corpus", "Preset", "Run", "Task", "Text", "Variant", "read", "runs", "sweep",
    "train", "train_and_measure", "trained",
]  # fmt: skip
