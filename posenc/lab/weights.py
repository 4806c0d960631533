"""Trained models that pages show: their weights lie in this folder, in half precision, and need no training."""

import os
from pathlib import Path

from safetensors.torch import save_file

from posenc._atomic import atomic
from posenc.lab.config import Run
from posenc.lab.training import restored
from posenc.model import Transformer

FOLDER = Path(__file__).parent / "weights"


def trained(variant: str, seed: int = 0, preset: str = "cpu", folder: str | os.PathLike[str] = FOLDER) -> Transformer:
    """A model of the lab as its training left it, in float32 and ready to be asked.

    Its weights were kept in float16, which moves a logit by about a thousandth of its size. Raises ValueError if
    that run does not exist, or has not been kept.
    """
    run = Run(variant, seed, preset)
    return restored(run, Path(folder) / preset).eval()


def keep(run: Run, work: str | os.PathLike[str], folder: str | os.PathLike[str] = FOLDER) -> Path:
    """Puts the weights that a run left in `work` where `trained` finds them -> their path."""
    model = restored(run, Path(work) / run.preset)
    path = Path(folder) / run.preset / f"{run.name}.safetensors"
    with atomic(path) as part:
        save_file({name: value.half().contiguous() for name, value in model.state_dict().items()}, part)
    return path
