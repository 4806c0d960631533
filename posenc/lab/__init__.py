"""Evidence: every scheme trained under one budget, measured far beyond its training length, by one command.

`python -m posenc.lab sweep --experiment extrapolation --preset cpu` trains and measures what has no result yet;
`posenc.lab.read("extrapolation")` gives what has been found.
"""

from posenc.lab.config import EXPERIMENTS, PRESETS, VARIANTS, Preset, Run, Task, Text, Variant, runs
from posenc.lab.corpus import Corpus
from posenc.lab.results import read
from posenc.lab.sweep import perform, sweep
from posenc.lab.training import train
from posenc.lab.weights import trained

__all__ = [
    "EXPERIMENTS", "PRESETS", "VARIANTS", "Corpus", "Preset", "Run", "Task", "Text", "Variant", "perform", "read",
    "runs", "sweep", "train", "trained",
]  # fmt: skip
