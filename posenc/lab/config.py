"""What is trained, and under which budget: a preset is the same for all, a variant is what differs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from posenc.alibi import ALiBi
from posenc.encoding import Encoding
from posenc.lab.tasks import TASKS, VOCABULARY
from posenc.model import Transformer
from posenc.registry import ENCODINGS, SCHEMES
from posenc.rope import RoPE
from posenc.scaling import interpolate, ntk, yarn, yarn_attention_factor
from posenc.shaw import Shaw
from posenc.sinusoidal import frequencies

BYTES = 256
MASK = 256  # stands for a byte that is to be guessed


@dataclass(frozen=True)
class Budget:
    """What every scheme gets: the model without its encoding, how it is trained, and how far it is measured."""

    layers: int
    model_dim: int
    heads: int
    length: int
    """L, the training length, in tokens; of a task, in letters, digits or pairs, and the longest of several."""
    batch: int
    """Sequences in a step."""
    steps: int
    rate: float
    """The learning rate after the warm-up, from which it falls to a tenth along a cosine."""
    longest: int
    """How many times L is measured."""


@dataclass(frozen=True)
class Text(Budget):
    """The budget of models of text."""

    windows: int
    """Held-out texts of `longest` · L tokens that losses are measured on."""
    slid: int
    """How many of them windows slide over."""
    tuning: int
    """Steps of the short tuning at 4 L, for what goes on from another run."""


@dataclass(frozen=True)
class Task(Budget):
    """The budget of models that learn a task."""

    answers: int
    """Sequences that the accuracy at one length is measured on."""


@dataclass(frozen=True)
class Preset:
    """One budget for text and one for each task."""

    text: Text
    tasks: dict[str, Task]


def _tasks(easy: Task, **more: dict[str, Any]) -> dict[str, Task]:
    """Budgets of all tasks, with what the harder ones get instead."""
    return {task: dataclasses.replace(easy, **more.get(task, {})) for task in TASKS}


PRESETS = {
    "smoke": Preset(
        Text(2, 32, 2, length=16, batch=8, steps=12, rate=2e-3, longest=16, windows=2, slid=1, tuning=4),
        _tasks(Task(2, 32, 2, length=4, batch=8, steps=12, rate=2e-3, longest=4, answers=8)),
    ),
    "cpu": Preset(
        Text(3, 96, 4, length=128, batch=16, steps=1000, rate=4e-3, longest=16, windows=32, slid=8, tuning=50),
        _tasks(
            Task(2, 64, 4, length=8, batch=64, steps=3000, rate=3e-3, longest=4, answers=128),
            addition={"layers": 4, "length": 5, "steps": 8000, "rate": 2e-3},
            recall={"layers": 3, "steps": 5000, "rate": 1e-3},
        ),
    ),
    "gpu": Preset(
        Text(8, 512, 8, length=512, batch=64, steps=3000, rate=6e-4, longest=16, windows=32, slid=8, tuning=150),
        _tasks(
            Task(6, 256, 8, length=16, batch=512, steps=6000, rate=1e-3, longest=4, answers=512),
            addition={"steps": 20_000},
            recall={"steps": 20_000},
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A scheme, and what is done with it: what one curve of a figure stands for."""

    scheme: str
    """Its name in ENCODINGS."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of its class, or, for RoPE, a method and a factor of `posenc.scaling`."""
    zeroed: tuple[str, ...] = ()
    """Parameters of the encoding that are 0 and stay so."""
    every_layer: bool = False
    shared: bool = True
    objective: str = "text"
    """"text", the next byte; "masked", bytes that are missing; or a task."""
    memory: bool = False
    """Whether a segment attends to the one before it."""
    after: str = ""
    """The variant whose weights it starts from; it is then tuned for `tuning` steps at 4 L, or not at all."""
    tuned: bool = False


def _schemes(**changes: Any) -> dict[str, Variant]:
    """All schemes, with parameters of their own in each layer where the authors have it so."""
    return {name: Variant(name, shared=not scheme.per_layer, **changes) for name, scheme in SCHEMES.items()}


_METHODS = ("interpolate", "ntk", "yarn")
VARIANTS: dict[str, Variant] = {
    **_schemes(),
    "transformer_xl_memory": Variant("transformer_xl", shared=False, memory=True),
    **{f"shaw_k{k}": Variant("shaw", {"clip": k}, shared=False) for k in (0, 1, 2, 4, 8, 64)},
    "shaw_keys": Variant("shaw", {"values": False}, shared=False),
    "shaw_values": Variant("shaw", zeroed=("key_table",), shared=False),
    "sinusoidal_every_layer": Variant("sinusoidal", every_layer=True),
    "learned_every_layer": Variant("learned", every_layer=True),
    "learned_every_layer_independent": Variant("learned", every_layer=True, shared=False),
    "relu": Variant("distance_aware", zeroed=("w", "v"), shared=False),
    **{f"masked_{name}": Variant(name, objective="masked") for name in ("nope", "sinusoidal", "learned", "rope")},
    **{f"rope_{method}": Variant("rope", {"scaling": method}, after="rope") for method in _METHODS},
    "rope_tuned": Variant("rope", after="rope", tuned=True),
    **{f"rope_{m}_tuned": Variant("rope", {"scaling": m}, after="rope", tuned=True) for m in _METHODS},
    **{f"{task}_{name}": v for task in TASKS for name, v in _schemes(objective=task).items()},
}

EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "extrapolation": (*ENCODINGS, "transformer_xl_memory"),
    "generalisation": tuple(f"{task}_{name}" for task in TASKS for name in ENCODINGS),
    "shaw": (*(f"shaw_k{k}" for k in (0, 1, 2, 4, 8)), "shaw", "shaw_k64", "shaw_keys", "shaw_values"),
    "layers": (
        "sinusoidal", "sinusoidal_every_layer", "learned", "learned_every_layer", "learned_every_layer_independent",
    ),
    "masked": ("masked_nope", "masked_sinusoidal", "masked_learned", "masked_rope"),
    "beyond": (
        "rope", *(f"rope_{method}" for method in _METHODS),
        "rope_tuned", *(f"rope_{method}_tuned" for method in _METHODS),
    ),
    "distance": ("nope", "relu", "distance_aware", "alibi"),
}  # fmt: skip
SEEDS = 3
FACTOR = 4  # by how much experiments "beyond" the window extend it


@dataclass(frozen=True)
class Run:
    """One training: a variant, a seed and a preset. All else follows from these."""

    variant: str
    seed: int
    preset: str = "cpu"

    def __post_init__(self) -> None:
        for value, known, noun in (
            (self.variant, VARIANTS, "variant or scheme"), (self.preset, PRESETS, "preset"),
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"there is no {noun} {value!r}: use one of {', '.join(known)}")

    @property
    def name(self) -> str:
        return f"{self.variant}-{self.seed}"

    @property
    def what(self) -> Variant:
        return VARIANTS[self.variant]

    @property
    def budget(self) -> Text | Task:
        preset = PRESETS[self.preset]
        return preset.tasks.get(self.what.objective, preset.text)

    @property
    def steps(self) -> int:
        if self.what.after:
            return PRESETS[self.preset].text.tuning if self.what.tuned else 0
        return self.budget.steps

    @property
    def batch(self) -> int:
        """Sequences in a step: fewer where they are longer."""
        return self.budget.batch * self.budget.length // self.length

    @property
    def length(self) -> int:
        """The length of the sequences that are trained on."""
        return self.budget.length * (FACTOR if self.what.after else 1)

    @property
    def before(self) -> Run | None:
        """The run whose weights this one starts from."""
        return dataclasses.replace(self, variant=self.what.after) if self.what.after else None

    @property
    def config(self) -> dict[str, Any]:
        """All that decides the result, as JSON has it."""
        found: dict[str, Any] = {"seed": self.seed, **dataclasses.asdict(self.budget), **dataclasses.asdict(self.what)}
        return json.loads(json.dumps(found))

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()[:16]

    def model(self, **changes: Any) -> Transformer:
        """The model before training: with one seed, all encodings get the same other weights.

        `changes` are keywords of Transformer, such as backend="sdpa".
        """
        what, budget = self.what, self.budget
        longest = 16 * budget.length if isinstance(budget, Task) else self.length  # rows of a learned table
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            model = Transformer(
                {"text": BYTES, "masked": BYTES + 1}.get(what.objective, VOCABULARY),
                layers=budget.layers, model_dim=budget.model_dim, heads=budget.heads,
                encoding=maker(what, budget.length), every_layer=what.every_layer, shared=what.shared,
                causal=what.objective != "masked", **{"length": longest} | changes,
            )  # fmt: skip
        for encoding in model.encodings:
            for name in what.zeroed:
                torch.nn.init.zeros_(encoding.get_parameter(name)).requires_grad_(False)
        return model


def maker(what: Variant, length: int) -> Callable[..., Encoding]:
    """Makes a variant's encoding from model_dim, heads, head_dim and length; `length` here is L."""
    options = dict(what.options)
    if what.scheme == "rope" and options:
        return lambda head_dim, **sizes: scaled(head_dim, options["scaling"], length)
    if what.scheme == "shaw":
        return lambda head_dim, **sizes: Shaw(head_dim, **options)
    if what.scheme == "alibi":
        return lambda heads, **sizes: ALiBi(heads, **options)
    return ENCODINGS[what.scheme]


def scaled(head_dim: int, method: str, length: int, factor: float = FACTOR) -> RoPE:
    """RoPE for `factor` times the length that it was trained on."""
    freq: Tensor = frequencies(head_dim)
    if method == "yarn":
        return RoPE(head_dim, freq=yarn(freq, factor, length), attention_factor=yarn_attention_factor(factor))
    return RoPE(head_dim, freq={"interpolate": interpolate, "ntk": ntk}[method](freq, factor))


def runs(experiment: str, preset: str, seeds: int = SEEDS) -> list[Run]:
    """What an experiment needs, first of all one seed of everything; a run comes after the one that it starts from."""
    if experiment not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {experiment!r}: use one of {', '.join(EXPERIMENTS)}")
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}: use 1 or more, such as {SEEDS}")
    return [Run(variant, seed, preset) for seed in range(seeds) for variant in EXPERIMENTS[experiment]]
