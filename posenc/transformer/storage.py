"""A model in one file: parameters as safetensors, and how to make it again."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import types
import typing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from posenc._atomic import atomic
from posenc._extras import extra
from posenc.schemes.registry import ENCODINGS

if TYPE_CHECKING:
    from posenc.transformer.model import Transformer

Model = TypeVar("Model", bound="Transformer")
Shapes = dict[str, tuple[int, ...]]


def save(model: Transformer, path: str | os.PathLike[str]) -> None:
    """Writes parameters and configuration to one safetensors file: all of it, or nothing."""
    with extra("lab"):
        from safetensors.torch import save_file

    tensors = {name: value.cpu().clone().contiguous() for name, value in model.state_dict().items()}
    metadata = {"posenc": json.dumps(asdict(model.config) | {"class": type(model.encoding()).__name__})}
    with atomic(path) as part:
        save_file(tensors, part, metadata)


def load(cls: type[Model], path: str | os.PathLike[str], **changes: Any) -> Model:
    """A model of class cls from what `save` wrote.

    Names and shapes in the file's header are compared with the configuration before anything of its size is made.

    Args:
        cls: The class of the model.
        path: The file.
        changes: Keywords of the class that take the place of what was saved, such as `backend`.

    Raises:
        ValueError: If the file is damaged, does not say how to make a model, says it in a way that no `Config` allows,
            or holds tensors that do not fit it.
        TypeError: If `changes` has a name that is no keyword of the class.
        OSError: If there is no such file.
    """
    with extra("lab"):
        from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            shapes: Shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            config = _read_config(cls, path, metadata, changes) | changes
            _check_sizes(cls, path, config, shapes)
            with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten
                model = _made(cls, path, config, bool(changes))
            _check_fit(path, {name: tuple(value.shape) for name, value in model.state_dict().items()}, shapes)
            state = {name: file.get_tensor(name) for name in shapes}
    except SafetensorError as error:
        raise _damaged(path) from error
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        value.data = value.data.to(state[name].dtype) if name in state else value.data
    model.load_state_dict(state)
    return model


def _made(cls: type[Model], path: object, config: dict[str, Any], changed: bool) -> Model:
    """A model of this configuration; what the file alone says wrong is a ValueError."""
    try:
        return cls(**config)
    except (TypeError, OverflowError, ArithmeticError, RuntimeError) as error:
        if changed and isinstance(error, TypeError):  # a keyword of the caller
            raise
        raise ValueError(f"{path} holds a configuration that makes no model: {error}; save the model anew") from error


def _damaged(path: object) -> ValueError:
    return ValueError(
        f"{path} is not a whole safetensors file: copy it again if it was cut short, or save the model anew"
    )


def _read_config(
    cls: type[Any], path: object, metadata: dict[str, str] | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """The configuration in a model's file, with an encoding that can be made again."""
    try:
        config = json.loads((metadata or {})["posenc"])
        kind = config.pop("class")
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} does not say how to make the model: use a file that Transformer.save wrote") from None
    _check_types(cls, path, config)
    if config.get("encoding") is None and "encoding" not in changes:
        raise ValueError(
            f"{path} holds a model whose encoding was not given by its name, but made as {kind}(...): "
            f"pass it again, Transformer.load(path, encoding={kind}(...))"
        )
    return config


def _options(cls: type[Any]) -> dict[str, inspect.Parameter]:
    """The keywords of the model, of which a file may give each."""
    for each in cls.__mro__:
        parameters = inspect.signature(each).parameters
        if "vocabulary" in parameters:
            return dict(parameters)
    raise ValueError(f"{cls.__name__} takes no vocabulary: load a file by a class of posenc.Transformer")


def _check_types(cls: type[Any], path: object, config: dict[str, Any]) -> None:
    """Every field is a keyword of the model, and of its type: JSON may hold anything."""
    options = _options(cls)
    if "vocabulary" not in config:
        raise ValueError(f"{path} does not say the vocabulary: use a file that Transformer.save wrote")
    for name, value in config.items():
        if name not in options:
            raise ValueError(f"{path} names {name[:60]!r}, which no model has: use a file that Transformer.save wrote")
        kind = str | None if name == "encoding" else options[name].annotation
        if not _is(value, kind):
            raise ValueError(f"{path} says that {name} is {_short(value)}, which it cannot be: save the model anew")
    if (encoding := config.get("encoding")) is not None and encoding not in ENCODINGS:
        raise ValueError(f"{path} names the encoding {_short(encoding)}: use {', '.join(ENCODINGS)}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _is(value: Any, kind: Any) -> bool:
    """Whether a value of JSON is of a field's type; numbers are finite, and true is no number."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return any(_is(value, each) for each in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is type(None):
        return value is None
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _check_sizes(cls: type[Any], path: object, config: dict[str, Any], shapes: Shapes) -> None:
    """The sizes that decide how large a model is are those of the tensors in the file."""
    full = {name: config.get(name, option.default) for name, option in _options(cls).items()}
    wanted: Shapes = {"embedding.weight": (full["vocabulary"], full["model_dim"])}
    if full["hidden"] is not None:
        wanted["blocks.0.contract.weight"] = full["model_dim"], full["hidden"]
        wanted["blocks.0.expand.weight"] = full["hidden"], full["model_dim"]
    if full["encoding"] == "learned":
        wanted["encodings.0.table"] = full["length"], full["model_dim"]
    if wrong := [name for name, shape in wanted.items() if shapes.get(name) != shape]:
        raise _unfit(path, wrong)
    blocks = {int(match[1]) for name in shapes if (match := re.match(r"blocks\.(\d{1,9})\.", name))}
    if full["layers"] != len(blocks):
        less = isinstance(full["layers"], int) and full["layers"] < len(blocks)
        odd = max(blocks) if less else len(blocks)
        raise _unfit(
            path,
            [name for name in shapes if name.startswith(f"blocks.{odd}.")] or [f"blocks.{odd}.attention_norm.weight"],
        )


def _unfit(path: object, names: list[str]) -> ValueError:
    return ValueError(
        f"{path} does not fit the model in {', '.join(names)}: pass the encoding it was saved with, and change no size"
    )


def _check_fit(path: object, wanted: Shapes, stored: Shapes) -> None:
    """What was saved is what the model has, by name and shape."""
    if wanted != stored:
        raise _unfit(path, sorted({name for name, _ in wanted.items() ^ stored.items()}))
