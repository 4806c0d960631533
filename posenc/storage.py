"""A model in one file: parameters as safetensors, and how to make it again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from posenc import _check
from posenc._atomic import atomic

if TYPE_CHECKING:
    from posenc.model import Transformer

Model = TypeVar("Model", bound="Transformer")


def save(model: Transformer, path: str | os.PathLike[str]) -> None:
    """Writes parameters and configuration to one safetensors file: all of it, or nothing."""
    from safetensors.torch import save_file

    tensors = {name: value.cpu().clone().contiguous() for name, value in model.state_dict().items()}
    metadata = {"posenc": json.dumps(model.config | {"class": type(model.encoding()).__name__})}
    with atomic(path) as part:
        save_file(tensors, part, metadata)


def load(cls: type[Model], path: str | os.PathLike[str], **changes: Any) -> Model:
    """A model of class cls from what `save` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata, state = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _check.damaged(path) from error
    config = _check.saved(path, metadata, changes) | changes
    with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten
        model = cls(**config)
    _check.fits(path, model.state_dict(), state)
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        value.data = value.data.to(state[name].dtype) if name in state else value.data
    model.load_state_dict(state)
    return model
