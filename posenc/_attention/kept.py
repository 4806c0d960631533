"""What steps of decoding would compute again and again: made ahead, and kept in the cache of a layer."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

Made = TypeVar("Made")
MOST = 64  # of each kind; layers that share a plan may differ


class Kept:
    """Tables that follow from parameters and positions, each for as long as its parameters are what they were."""

    def __init__(self) -> None:
        self._made: dict[str, list[tuple[tuple[Any, ...], Any]]] = {}

    def get(
        self,
        name: str,
        state: tuple[Any, ...],
        fits: Callable[[Made], bool],
        make: Callable[[], Made],
    ) -> Made:
        """What was made of this state, if it fits; otherwise it is made, and takes the place of what did not.

        Args:
            name: What kind of thing it is.
            state: All that it depends on. Tensors are compared as objects, and by how often they were written to.
            fits: Whether one that was made serves this time.
            make: Makes one that does.
        """
        state, others = with_counts(state), []
        for at, made in self._made.get(name, ()):
            if not alike(at, state):
                others.append((at, made))
            elif fits(made):
                found: Made = made
                return found
        current = [(at, made) for at, made in others if _is_current(at)]
        found = make()
        self._made[name] = [*current[1 - MOST :], (state, found)]
        return found


def may_keep(x: Tensor) -> bool:
    """Whether what is computed of x may outlive the call: it is no part of a graph, a trace or a transform."""
    return not (
        torch.is_grad_enabled()
        or torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._is_tracing()
        or (x.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def in_transform(x: Tensor) -> bool:
    """Whether a transform of torch.func is at work, such as vmap or jvp."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is not None
    )


def with_counts(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """A state with how often each tensor of it was written to."""
    return state + tuple(count(x) for x in state if isinstance(x, Tensor))


def alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two states are the same tensors, and equal numbers."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if a is not b and (isinstance(a, Tensor) or isinstance(b, Tensor) or a != b):
            return False
    return True


def count(x: Tensor) -> int:
    """How often a tensor was written to in place, where torch counts that."""
    return 0 if torch.compiler.is_compiling() or x.is_inference() else x._version


def _is_current(state: tuple[Any, ...]) -> bool:
    """Whether no tensor of a state was written to since."""
    counts = tuple(count(x) for x in state if isinstance(x, Tensor))
    return not counts or state[-len(counts) :] == counts
