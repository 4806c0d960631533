"""One training, as functions of tensors alone: the start, a step, and an exam. Torch runs them, or a graph does."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.utils._python_dispatch import TorchDispatchMode

from posenc._attention.encoding import Encoding
from posenc._explore.training.draws import below, normal, uniform
from posenc._explore.training.tasks import LETTERS, VOCABULARY, Task, numbered
from posenc.schemes.registry import SCHEMES
from posenc.transformer.model import Transformer

WEIGHTS, TEXTS, EXAM = range(3)  # the streams of random numbers
LIMIT = 3 * math.log(VOCABULARY)
"""A loss above this is three times that of guessing: the training has diverged."""


@dataclass(frozen=True)
class Sizes:
    """How large the models, texts and exams are: small, so that a page trains two of them in some seconds."""

    layers: int = 1
    model_dim: int = 32
    heads: int = 2
    length: int = 24
    """Of the texts that a model is trained on."""
    batch: int = 16
    reach: int = 4
    """The longest text of an exam, in lengths of training; a learned table has rows for it."""
    exam: int = 32
    """The number of texts of an exam."""
    betas: tuple[float, float] = (0.9, 0.99)
    decay: float = 0.0
    """AdamW's weight decay; 0 is Adam."""

    @property
    def longest(self) -> int:
        return self.reach * self.length


def texts(task: Task, sizes: Sizes, seed: Tensor, step: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The texts of a step.

    Args:
        task: The rule.
        sizes: Of the texts.
        seed: Of the training, 0-d int64.
        step: Which step, counted from 0, 0-d int64.
        n: The number in the rule, 0-d int64.

    Returns:
        Tokens and targets, int64 (B, L), and the share of the loss that each place has, float32 (L,), of sum 1.
    """
    shape = (sizes.batch, sizes.length)
    return _drawn(task, seed, TEXTS, step * math.prod(shape), shape, torch.full((), sizes.length), n)


def exam_texts(task: Task, sizes: Sizes, seed: Tensor, length: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The texts of an exam, which no step of this seed has drawn, as `texts` has them; the rest after `length` is not
    counted."""
    return _drawn(task, seed, EXAM, torch.zeros_like(seed), (sizes.exam, sizes.longest), length, n)


def _drawn(
    task: Task, seed: Tensor, stream: int, begin: Tensor, shape: tuple[int, int], length: Tensor, n: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    index = begin + torch.arange(math.prod(shape)).view(shape)
    number = (n,) if numbered(task) else ()
    tokens, targets, counted = task(below(LETTERS, seed, stream, index), length, *number)
    share = (counted & (torch.arange(shape[1]) < length)).float()
    return tokens, targets, share / share.sum()


class Course:
    """A model and its optimiser. Its state is one tensor (3, N): weights, and Adam's two averages of gradients.

    Args:
        scheme: A name in SCHEMES; with an encoding in `options`, any name.
        sizes: Of the model.
        options: Further keywords of the model, such as `encoding`. Default: none.
        watch: What is seen of the first encoding while it learns: a function of it that returns tensors. Default: none.
    """

    def __init__(
        self,
        scheme: str,
        sizes: Sizes,
        options: Mapping[str, Any] = MappingProxyType({}),
        watch: Callable[[Encoding], tuple[Tensor, ...]] | None = None,
    ) -> None:
        self.scheme, self.sizes, self.options, self.watch = scheme, sizes, options, watch
        made = {value: _Draw(value) for value in (0.0, 1.0, 2.0)}
        models = {value: self._model(draw) for value, draw in made.items()}
        self.model = models[0.0]
        self.names = [name for name, _ in self.model.named_parameters()]
        self.shapes = [parameter.shape for parameter in self.model.parameters()]
        self.counts = [shape.numel() for shape in self.shapes]
        self._starts = [
            _start(name, made[0.0].kinds.get(zero.data_ptr()), zero.detach(), one.detach(), two.detach())
            for name, zero, one, two in zip(self.names, *(m.parameters() for m in models.values()), strict=True)
        ]

    def _model(self, draw: _Draw) -> Transformer:
        sizes, encoding = self.sizes, self.options.get("encoding", self.scheme)
        apart = not isinstance(encoding, str) or SCHEMES[encoding].per_layer
        given: dict[str, Any] = dict(
            layers=sizes.layers, model_dim=sizes.model_dim, heads=sizes.heads, encoding=encoding, length=sizes.longest,
            tied=False, shared=not apart, backend="dense",  # a fused kernel has no graph, and its gradient none either
        )  # fmt: skip
        with draw:
            return Transformer(VOCABULARY, **{**given, **self.options})

    @property
    def size(self) -> int:
        """The number of weights, N."""
        return sum(self.counts)

    def start(self, seed: Tensor) -> Tensor:
        """The state before the first step (3, N), for a seed, 0-d int64: as torch draws weights, but by `draws`."""
        index = torch.arange(self.size)
        draws = {kind: kind(seed, WEIGHTS, index).split(self.counts) for kind in {k for k, *_ in self._starts if k}}
        weights = torch.cat([
            shift + scale * draws[kind][n] if kind else shift.expand(self.counts[n])
            for n, (kind, shift, scale) in enumerate(self._starts)
        ])  # fmt: skip
        return torch.stack((weights, torch.zeros_like(weights), torch.zeros_like(weights)))

    def parameters(self, state: Tensor) -> dict[str, Tensor]:
        """The model's parameters by their names."""
        parts = state[0].split(self.counts)
        return {n: part.view(s) for n, part, s in zip(self.names, parts, self.shapes, strict=True)}

    def step(
        self, state: Tensor, tokens: Tensor, targets: Tensor, share: Tensor, step: Tensor, rate: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step of AdamW (Loshchilov & Hutter, 2019), which without decay is Adam (Kingma & Ba, 2015).

        Args:
            state: (3, N).
            tokens, targets, share: As `texts` returns them.
            step: Counted from 0, 0-d int64.
            rate: The learning rate, 0-d float32.

        Returns:
            The state after the step, and the loss before it, (1,).
        """
        gradients, loss = grad_and_value(self._loss)(self.parameters(state), tokens, targets, share)
        g = torch.cat([gradients[name].flatten() for name in self.names])
        (b1, b2), t = self.sizes.betas, (step + 1).float()
        weights, mean, square = state[0], b1 * state[1] + (1 - b1) * g, b2 * state[2] + (1 - b2) * g * g
        if self.sizes.decay:
            weights = weights * (1 - rate * self.sizes.decay)
        weights = weights - rate * (mean / (1 - b1**t)) / ((square / (1 - b2**t)).sqrt() + 1e-8)
        return torch.stack((weights, mean, square)), loss.reshape(1)

    def _loss(self, parameters: dict[str, Tensor], tokens: Tensor, targets: Tensor, share: Tensor) -> Tensor:
        return _cross_entropy(functional_call(self.model, parameters, (tokens,)), targets, share)

    def exam(self, state: Tensor, tokens: Tensor, targets: Tensor, share: Tensor) -> tuple[Tensor, ...]:
        """What a state of the model knows.

        Args:
            state: (3, N).
            tokens, targets, share: As `exam_texts` returns them.

        Returns:
            The accuracy by position, (1, R), NaN where nothing is counted; the loss, (1,); what the model writes in the
            first text, (R,), as float32; where each head looks in it, (layers · H, R, R); and what is watched.
        """
        logits, weights = functional_call(self.model, self.parameters(state), (tokens,), {"return_weights": True})
        written = logits.argmax(-1)
        right = (written == targets).float().mean(0, keepdim=True)
        counted = torch.where(share > 0, right, torch.nan)
        heads = torch.cat([layer[0] for layer in weights])
        found = counted, _cross_entropy(logits, targets, share).reshape(1), written[0].float(), heads
        return (*found, *self.watched(state))

    def watched(self, state: Tensor) -> tuple[Tensor, ...]:
        """What is watched of a state: tensors, none where nothing is."""
        if self.watch is None:
            return ()
        given = {f"model.{name}": parameter for name, parameter in self.parameters(state).items()}
        return functional_call(_Watched(self.model, self.watch), given, ())


def _cross_entropy(logits: Tensor, targets: Tensor, share: Tensor) -> Tensor:
    """The mean of −log p(target) where it is counted. A product with ones and zeros, whose gradient is one too."""
    hit = (targets[..., None] == torch.arange(VOCABULARY)).float()
    return -((logits.log_softmax(-1) * hit).sum(-1) * share).sum(-1).mean()


class _Watched(nn.Module):
    """A function of a model's encoding as a module, so that it can be called with other parameters."""

    def __init__(self, model: Transformer, watch: Callable[[Encoding], tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.model, self.watch = model, watch

    def forward(self) -> tuple[Tensor, ...]:
        return self.watch(self.model.encoding())


class _Draw(TorchDispatchMode):
    """Puts one value into all that a model draws at random, and notes what it drew."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value
        self.kinds: dict[int, Any] = {}  # by the address of the weights

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.normal_.default:
            mean, std = _two(args)
            self.kinds[args[0].data_ptr()] = normal
            return args[0].fill_(mean + std * self.value)
        if func is torch.ops.aten.uniform_.default:
            low, high = _two(args)
            self.kinds[args[0].data_ptr()] = uniform
            return args[0].fill_(low + (high - low) * self.value)
        return func(*args, **kwargs)


def _two(args: tuple[Any, ...]) -> tuple[float, float]:
    """The two numbers after the tensor, as far as they are given: mean and spread, or the ends."""
    return args[1] if len(args) > 1 else 0.0, args[2] if len(args) > 2 else 1.0


def _start(name: str, kind: Any, zero: Tensor, one: Tensor, two: Tensor) -> tuple[Any, Tensor, Tensor]:
    """How a parameter starts: shift + scale · draw, found by drawing 0, 1 and 2; a number each where all are equal."""
    shift, scale = zero.flatten(), (one - zero).flatten()
    if not torch.allclose(shift + 2 * scale, two.flatten(), atol=1e-6):
        raise ValueError(f"{name} does not start as shift + scale · draw, so no graph can start it anew for a seed")
    if scale.any() and kind is None:
        raise ValueError(f"{name} is drawn in parts: draw it at once, by normal_ or uniform_")
    shift, scale = (x[:1] if bool((x == x[0]).all()) else x for x in (shift, scale))
    return (kind if scale.any() else None), shift, scale


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Checks of values are left out, as in torch.export: make_fx alone does not say that it traces."""
    with (
        mock.patch.object(torch.compiler, "is_compiling", return_value=True),
        mock.patch.object(torch.compiler, "is_exporting", return_value=True),
    ):
        yield
