"""Trained models for the pages of the book: their weights are in posenc-evidence, in half precision."""

import os
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from posenc._atomic import atomic
from posenc.lab import evidence
from posenc.lab.config import Run
from posenc.lab.training import restored
from posenc.transformer.model import Transformer

FOLDER = evidence.FOLDER / "weights"
TABLES = evidence.FOLDER / "tables"


def trained(variant: str, seed: int = 0, preset: str = "cpu", folder: str | os.PathLike[str] = FOLDER) -> Transformer:
    """A model that the lab has trained.

    The weights are stored in float16, which changes a logit by about a thousandth of its size.

    Args:
        variant: A name in `VARIANTS`, such as "copy_rope".
        seed: The seed. Default: 0.
        preset: A name in `PRESETS`. Default: "cpu".
        folder: The folder with the weights. Default: the one in posenc-evidence.

    Returns:
        A `Transformer` in float32 and in evaluation mode.

    Raises:
        ValueError: If there is no such run, or its weights are not stored.

    Example:
        >>> model = trained("copy_rope")
        >>> type(model.encodings[0]).__name__, model.training
        ('RoPE', False)
    """
    run = Run(variant, seed, preset)
    if not evidence.FOUND and Path(folder) == FOLDER:
        raise ValueError(f"the weights of {run.name} are not here: {evidence.remedy()}")
    return restored(run, Path(folder) / preset).eval()


def keep(run: Run, work: str | os.PathLike[str], folder: str | os.PathLike[str] = FOLDER) -> Path:
    """Stores the weights of a run from `work` where `trained` finds them, and returns their path."""
    model = restored(run, Path(work) / run.preset)
    path = Path(folder) / run.preset / f"{run.name}.safetensors"
    with atomic(path) as part:
        save_file({name: value.half().contiguous() for name, value in model.state_dict().items()}, part)
    return path


def published(name: str = "all-MiniLM-L6-v2") -> Tensor:
    """The learned position table of a published model, as its authors trained it.

    The table is stored in float16, which changes it by a ten-thousandth.

    Args:
        name: The name of the model. Default: "all-MiniLM-L6-v2", a small encoder of BERT's kind.

    Returns:
        The rows (positions, model_dim), float32.

    Raises:
        ValueError: If there is no such table, or it is not stored.

    Example:
        >>> published().shape
        torch.Size([512, 384])
    """
    if not evidence.FOUND:
        raise ValueError(f"the table of {name} is not here: {evidence.remedy()}")
    names = sorted(path.stem for path in TABLES.glob("*.safetensors"))
    if name not in names:
        raise ValueError(f"there is no table {name!r}: use one of {', '.join(names)}")
    return load_file(TABLES / f"{name}.safetensors")["positions"].float()
