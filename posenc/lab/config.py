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

from posenc import ENCODINGS
from posenc.alibi import ALiBi
from posenc.encoding import Encoding
from posenc.lab.tasks import TASKS, VOCABULARY
from posenc.model import Transformer
from posenc.rope import RoPE
from posenc.scaling import interpolate, ntk, yarn, yarn_attention_factor
from posenc.shaw import Shaw
from posenc.sinusoidal import frequencies

BYTES = 256
MASK = 256  # stands for a byte that is to be guessed


@dataclass(frozen=True)
class Preset:
    """A budget: the model without its encoding, how it is trained, and on how much it is measured."""

    layers: int
    model_dim: int
    heads: int
    length: int
    """L, the training length, in tokens."""
    batch: int
    """Sequences in a step."""
    steps: int
    rate: float
    """The learning rate after the warm-up, from which it falls to a tenth along a cosine."""
    windows: int
    """Held-out texts of `longest` · L tokens that losses are measured on."""
    slid: int
    """How many of them windows slide over."""
    longest: int = 16
    tuning: int = 0
    """Steps of the short tuning at 4 L, for what goes on from another run."""
    task_length: int = 16
    task_batch: int = 64
    task_steps: int = 0
    answers: int = 128
    """Sequences that the accuracy at one length is measured on."""


PRESETS = {
    "smoke": Preset(2, 32, 2, 16, 8, 12, 2e-3, 2, 1, tuning=4, task_length=4, task_batch=8, task_steps=12, answers=8),
    "cpu": Preset(3, 96, 4, 128, 16, 1000, 4e-3, 32, 8, tuning=50, task_steps=1000),
    "gpu": Preset(8, 512, 8, 512, 64, 3000, 6e-4, 32, 8, tuning=150, task_batch=512, task_steps=6000, answers=512),
}


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
    """All of ENCODINGS, with tables of their own in each layer where the authors have it so."""
    own = ("shaw", "transformer_xl", "distance_aware")
    return {name: Variant(name, shared=name not in own, **changes) for name in ENCODINGS}


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
    def budget(self) -> Preset:
        return PRESETS[self.preset]

    @property
    def is_task(self) -> bool:
        return self.what.objective in TASKS

    @property
    def steps(self) -> int:
        if self.what.after:
            return self.budget.tuning if self.what.tuned else 0
        return self.budget.task_steps if self.is_task else self.budget.steps

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
        longest = 16 * budget.task_length if self.is_task else self.length  # a table of all positions that are trained
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
