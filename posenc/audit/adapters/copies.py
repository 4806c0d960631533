"""Copies of a model that share nothing with it, so that the caller's stays as it is."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.audit.errors import first_line

LARGE = 10_000_000  # parameters from which on memory matters more than a moment


class Uncopied(Exception):
    """There is no copy that could be changed without changing the model; the message says why."""


def module_of(model: Any) -> nn.Module | None:
    """The module whose weights a model has: itself, an adapter's, or that of a method; None for a function."""
    if isinstance(model, nn.Module):
        return model
    owner = getattr(model, "module" if hasattr(model, "logits") else "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def copied(model: Any, dtype: torch.dtype | None = None) -> Any:
    """A copy of a module, of a method of one, or of an adapter.

    Args:
        model: Anything that has a module.
        dtype: The dtype of the copy's floating-point weights. They are cast one by one, so that there is never a second
            copy. Default: the dtypes that they have.

    Raises:
        Uncopied: If it cannot be copied, or the copy has a part or a tensor of the original.
    """
    module = module_of(model)
    assert module is not None
    if sum(p.numel() for p in module.parameters()) > LARGE:
        gc.collect()  # earlier copies, which modules that know one another keep
    cast: dict[int, Any] = {} if dtype is None else {id(p): q for p, q in _cast(module, dtype)}
    try:
        copy_of_model = copy.deepcopy(model, cast)
        if (
            copy_of_model is not model and hasattr(copy_of_model, "logits") and module_of(copy_of_model) is module
        ):  # it has it from its class
            copy_of_model.module = copy.deepcopy(module, cast)
    except (Exception, SystemExit) as error:  # locks, handles, tensors with a history: a module may hold anything
        raise Uncopied(first_line(error, 60) or type(error).__name__) from error
    new = module_of(copy_of_model)
    assert new is not None
    if (shared := _shared(module, new)) is not None:
        raise Uncopied(f"a copy shares {shared} with the original")
    return copy_of_model if dtype is None else _to(copy_of_model, dtype)


def _cast(module: nn.Module, dtype: torch.dtype) -> Iterator[tuple[nn.Parameter, nn.Parameter]]:
    for p in module.parameters():
        if type(p) is nn.Parameter and p.is_floating_point() and p.dtype != dtype:
            yield p, nn.Parameter(p.detach().to(dtype), p.requires_grad)


def _to(model: Any, dtype: torch.dtype) -> Any:
    """What was not cast one by one: buffers, and parameters of a class of their own."""
    module = module_of(model)
    assert module is not None
    module.to(dtype)
    return model


def _shared(module: nn.Module, other: nn.Module) -> str | None:
    """A part or a tensor that both have, by its name in the copy."""
    parts, stored = {id(each) for each in module.modules()}, {_address(each) for _, each in _tensors(module)} - {0}
    for name, part in other.named_modules():
        if id(part) in parts:
            return f"the module {name}" if name else "the module itself"
    return next((name for name, each in _tensors(other) if _address(each) in stored), None)


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _address(tensor: Tensor) -> int:
    """Where a tensor's numbers are; 0 if it has none, or does not say."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse ones, and classes that wrap others
        return 0
