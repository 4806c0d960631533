"""A model in one file: parameters as safetensors, and how to make it again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from posenc._atomic import atomic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc.model import Transformer

Model = TypeVar("Model", bound="Transformer")


def save(model: Transformer, path: str | os.PathLike[str]) -> None:
    """Writes parameters and configuration to one safetensors file: all of it, or nothing."""
    from safetensors.torch import save_file

    tensors = {name: value.cpu().clone().contiguous() for name, value in model.state_dict().items()}
    metadata = {"posenc": json.dumps(asdict(model.config) | {"class": type(model.encoding()).__name__})}
    with atomic(path) as part:
        save_file(tensors, part, metadata)


def load(cls: type[Model], path: str | os.PathLike[str], **changes: Any) -> Model:
    """A model of class cls from what `save` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata, state = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _damaged(path) from error
    config = _read_config(path, metadata, changes) | changes
    with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten
        model = cls(**config)
    _check_fit(path, model.state_dict(), state)
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        value.data = value.data.to(state[name].dtype) if name in state else value.data
    model.load_state_dict(state)
    return model


def _damaged(path: object) -> ValueError:
    return ValueError(
        f"{path} is not a whole safetensors file: copy it again if it was cut short, or save the model anew"
    )


def _read_config(path: object, metadata: dict[str, str] | None, changes: Iterable[str]) -> dict[str, Any]:
    """The configuration in a model's file, with an encoding that can be made again."""
    try:
        config = json.loads((metadata or {})["posenc"])
        kind = config.pop("class")
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ValueError(f"{path} does not say how to make the model: use a file that Transformer.save wrote") from None
    if config.get("encoding") is None and "encoding" not in changes:
        raise ValueError(
            f"{path} holds a model whose encoding was not given by its name, but made as {kind}(...): "
            f"pass it again, Transformer.load(path, encoding={kind}(...))"
        )
    return config


def _check_fit(path: object, wanted: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """What was saved is what the model has, by name and shape."""
    shapes = [{name: tuple(value.shape) for name, value in state.items()} for state in (wanted, found)]
    if shapes[0] != shapes[1]:
        names = sorted({name for name, _ in shapes[0].items() ^ shapes[1].items()})
        raise ValueError(
            f"{path} does not fit the model in {', '.join(names)}: pass the encoding it was saved with, and change "
            f"no size"
        )
