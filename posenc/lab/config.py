"""Configurations of runs: a preset is the budget that all schemes share, and a variant is the difference."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding, NoPE
from posenc.lab import controls, evidence
from posenc.lab.tasks import TASKS, VOCABULARY
from posenc.schemes.alibi import ALiBi
from posenc.schemes.registry import ENCODINGS, SCHEMES
from posenc.schemes.rope import RoPE
from posenc.schemes.scaling import interpolate, llama3, ntk, yarn, yarn_attention_factor
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoidal import frequencies
from posenc.schemes.t5 import T5Bias
from posenc.transformer.model import Transformer

BYTES = 256
MASK = 256  # stands for a byte that is to be guessed
LATER = {"later": True}
"""Marks a setting that came later: at its default it is left out of `Run.config`, so earlier results stay valid."""
RATES = (1 / 4, 1 / 2, 1, 2, 4)
"""Learning rates that are tried for every scheme, as multiples of the budget's, in the experiment "rates"."""
RESULTS = evidence.FOLDER / "results"


@functools.cache
def tuned(preset: str) -> dict[str, float]:
    """By variant or scheme, the rate with the lowest loss in the experiment "rates", as `tune` has kept it."""
    path = RESULTS / preset / "tuned.json"
    rates: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    return rates


@dataclass(frozen=True)
class Budget:
    """The budget that every scheme gets: the model without its encoding, the training, and the measured lengths."""

    layers: int
    """Layers of the model."""
    model_dim: int
    """Width of the residual stream."""
    heads: int
    """Attention heads in a layer."""
    length: int
    """The training length L in tokens; of a task the longest one, in letters, digits or pairs."""
    batch: int
    """Sequences in a training step."""
    steps: int
    """Training steps."""
    rate: float
    """The learning rate after the warm-up. From there it falls to a tenth along a cosine."""
    longest: int
    """The longest measured length as a multiple of L."""


@dataclass(frozen=True)
class Text(Budget):
    """The budget of models that are trained on text."""

    windows: int
    """The number of held-out texts, of `longest` · L tokens each, on which losses are measured."""
    slid: int
    """The number of these texts that are also measured with sliding windows."""
    tuning: int
    """Steps of the short tuning at length 4 L, for runs that start from the weights of another."""
    trial: int = field(default=0, metadata=LATER)
    """Steps of a run that tries a learning rate."""
    planted: float = field(default=0.0, metadata=LATER)
    """The share of training sequences with a planted repetition."""
    fused: bool = field(default=False, metadata=LATER)
    """Whether attention runs in a fused kernel where the encoding allows it."""


@dataclass(frozen=True)
class Task(Budget):
    """The budget of models that learn a task."""

    answers: int
    """The number of sequences on which the accuracy at one length is measured."""


@dataclass(frozen=True)
class Preset:
    """The budgets of one preset, such as `PRESETS["cpu"]`.

    Example:
        >>> PRESETS["cpu"].text.length, PRESETS["cpu"].tasks["copy"].length
        (128, 8)
    """

    text: Text
    """The budget of models of text."""
    tasks: dict[str, Task]
    """The budget of each task, by name."""


def _tasks(easy: Task, **more: dict[str, Any]) -> dict[str, Task]:
    """Budgets of all tasks, with changes for the harder ones."""
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
    "epoch": Preset(
        Text(3, 96, 4, length=128, batch=16, steps=4000, rate=4e-3, longest=16, windows=64, slid=16, tuning=200,
             trial=500, planted=0.5, fused=True),
        _tasks(
            Task(2, 64, 4, length=8, batch=64, steps=3000, rate=3e-3, longest=4, answers=128),
            addition={"layers": 4, "length": 5, "steps": 8000, "rate": 2e-3},
            recall={"layers": 3, "steps": 5000, "rate": 1e-3},
        ),
    ),
    "gpu": Preset(
        Text(8, 512, 8, length=512, batch=64, steps=1500, rate=1e-3, longest=16, windows=64, slid=16, tuning=150,
             trial=100, planted=0.5, fused=True),
        _tasks(
            Task(6, 256, 8, length=16, batch=512, steps=6000, rate=1e-3, longest=4, answers=512),
            addition={"steps": 20_000},
            recall={"steps": 20_000},
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A scheme with its options: one curve of a figure.

    Example:
        >>> VARIANTS["shaw_k4"].scheme, VARIANTS["shaw_k4"].options
        ('shaw', {'clip': 4})
    """

    scheme: str
    """Its name in ENCODINGS."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of its class; for RoPE the name of a method in `posenc.schemes.scaling`."""
    zeroed: tuple[str, ...] = ()
    """Names of parameters of the encoding that are zero and are not trained."""
    every_layer: bool = False
    """Whether an additive encoding is added in every layer and not once."""
    shared: bool = True
    """Whether all layers share one encoding."""
    objective: str = "text"
    """"text" (predict the next byte), "masked" (guess missing bytes), or the name of a task."""
    memory: bool = False
    """Whether a segment attends to the previous segment."""
    after: str = ""
    """The variant from whose weights it starts, or an empty string."""
    tuned: bool = False
    """Whether it is then tuned for `tuning` steps at length 4 L."""
    stretch: float = field(default=1.0, metadata=LATER)
    """The training length as a multiple of the preset's; the number of tokens in a step stays the same."""
    epochs: int = field(default=1, metadata=LATER)
    """How many times the preset's steps it is trained for."""
    decayed: bool = field(default=False, metadata=LATER)
    """Whether weight decay reaches the parameters of the encoding too."""
    coupled: bool = field(default=False, metadata=LATER)
    """Whether digits of an addition that belong together share a position."""
    periodic: float = field(default=0.0, metadata=LATER)
    """The share of training sequences that repeat a random string, which is a strong reason to copy from far."""
    rate: float = field(default=0.0, metadata=LATER)
    """Its learning rate; 0 for the tuned one of its scheme."""
    until: float = field(default=0.0, metadata=LATER)
    """The held-out loss in nats at which training ends, for comparisons at equal loss; 0 for the whole training."""


def _schemes(**changes: Any) -> dict[str, Variant]:
    """A variant for each scheme. Layers share one encoding unless the authors give each layer separate parameters."""
    return {name: Variant(name, shared=not scheme.per_layer, **changes) for name, scheme in SCHEMES.items()}


EQUAL = 1.75
"""The held-out loss in nats at which models of the experiment "equal" stop; every scheme has models that reach it."""
_ADDING = ("sinusoidal", "shaw", "t5", "rope", "alibi")
_METHODS = ("interpolate", "ntk", "yarn", "llama3")
VARIANTS: dict[str, Variant] = {
    **_schemes(),
    "transformer_xl_memory": Variant("transformer_xl", shared=False, memory=True),
    **{f"shaw_k{k}": Variant("shaw", {"clip": k}, shared=False) for k in (0, 1, 2, 4, 8, 64)},
    "shaw_keys": Variant("shaw", {"values": False}, shared=False),
    "shaw_values": Variant("shaw", zeroed=("key_table",), shared=False),
    "nope_fast": Variant("nope", rate=0.016),  # the rate of Shaw, for a fair comparison with k = 0
    "sinusoidal_every_layer": Variant("sinusoidal", every_layer=True),
    "learned_every_layer": Variant("learned", every_layer=True),
    "learned_every_layer_independent": Variant("learned", every_layer=True, shared=False),
    "relu": Variant("distance_aware", zeroed=("w", "v"), shared=False),
    **{f"masked_{name}": Variant(name, objective="masked") for name in ("nope", "sinusoidal", "learned", "rope")},
    "masked_learned_large": Variant("learned", {"deviation": 1.0}, objective="masked", rate=8e-3),
    **{f"rope_{method}": Variant("rope", {"scaling": method}, after="rope") for method in _METHODS},
    "rope_tuned": Variant("rope", after="rope", tuned=True),
    **{f"rope_{m}_tuned": Variant("rope", {"scaling": m}, after="rope", tuned=True) for m in _METHODS},
    **{f"{task}_{name}": v for task in TASKS for name, v in _schemes(objective=task).items()},
    "t5_reach": Variant("t5", {"reach": 0.25}),
    "t5_own": Variant("t5", {"reach": 0.25}, shared=False),
    "alibi_learned": Variant("alibi", {"learned": True}, shared=False),
    "shaw_heads": Variant("shaw", {"heads": True}, shared=False),
    "unrectified": Variant("distance_aware", {"control": "unrectified"}, shared=False),
    "added": Variant("distance_aware", {"control": "added"}, shared=False),
    "rope_base_500": Variant("rope", {"base": 500.0}),
    "rope_partial": Variant("rope", {"share": 0.75}),
    "rope_nope": Variant("rope", {"every": 2}, shared=False),
    "forgetting": Variant("nope", {"control": "forgetting"}, shared=False),
    "learned_large": Variant("learned", {"deviation": 1.0}),
    "learned_decayed": Variant("learned", decayed=True),
    **{f"{name}_{length}": Variant(name, options, stretch=length / 128)
       for name, options in (("rope", {}), ("alibi", {}), ("t5", {"reach": 0.25})) for length in (64, 256)},
    **{f"{name}_use": dataclasses.replace(variant, periodic=0.9, rate=4e-3) for name, variant in _schemes().items()
       if name in ("nope", "sinusoidal", "rope", "alibi", "transformer_xl")},
    "t5_use": Variant("t5", {"reach": 0.25}, periodic=0.9, rate=4e-3),
    **{f"{name}_strings": dataclasses.replace(variant, periodic=0.9) for name, variant in _schemes().items()
       if name in ("nope", "sinusoidal", "rope", "t5", "alibi", "transformer_xl")},
    "t5_reach_strings": Variant("t5", {"reach": 0.25}, periodic=0.9),
    "rope_slow": Variant("rope", rate=1e-3),
    **{f"addition_{name}_coupled": Variant(name, shared=not SCHEMES[name].per_layer, objective="addition", coupled=True)
       for name in _ADDING},
    **{f"{name}_long": dataclasses.replace(variant, epochs=2) for name, variant in _schemes().items()
       if name in ("nope", "sinusoidal", "rope", "alibi", "transformer_xl")},
    "t5_long": Variant("t5", {"reach": 0.25}, epochs=2),
    **{f"{name}_equal": dataclasses.replace(variant, until=EQUAL) for name, variant in _schemes().items()
       if name in ("nope", "sinusoidal", "rope", "alibi", "transformer_xl")},
    "t5_equal": Variant("t5", {"reach": 0.25}, until=EQUAL),
}  # fmt: skip

_FOUR = ("nope", "t5", "alibi", "rope")
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "extrapolation": (*ENCODINGS, "t5_reach", "learned_large", "transformer_xl_memory"),
    "generalisation": tuple(f"{task}_{name}" for task in TASKS for name in ENCODINGS),
    "coupling": tuple(f"addition_{name}{end}" for name in _ADDING for end in ("", "_coupled")),
    "shaw": (*(f"shaw_k{k}" for k in (0, 1, 2, 4, 8)), "shaw", "shaw_k64", "shaw_keys", "shaw_values",
             "nope_fast"),
    "layers": (
        "sinusoidal", "sinusoidal_every_layer", "learned", "learned_every_layer", "learned_every_layer_independent",
    ),
    "masked": ("masked_nope", "masked_sinusoidal", "masked_learned", "masked_learned_large", "masked_rope"),
    "beyond": (
        "rope", *(f"rope_{method}" for method in _METHODS),
        "rope_tuned", *(f"rope_{method}_tuned" for method in _METHODS),
    ),
    "distance": ("nope", "relu", "distance_aware", "alibi"),
    "success": tuple(f"{task}_{name}" for task in ("copy", "reverse", "recall") for name in _FOUR),
    "use": tuple(f"{name}_use" for name in ("nope", "sinusoidal", "rope", "t5", "alibi", "transformer_xl")),
    "strings": tuple(f"{name}_strings" for name in
                     ("nope", "sinusoidal", "rope", "t5", "t5_reach", "alibi", "transformer_xl")),
    "slow": ("rope_slow",),
    "rates": (*ENCODINGS, "forgetting", "learned_large"),
    "controls": (
        "t5", "t5_reach", "t5_own", "alibi_learned", "shaw_keys", "shaw_heads", "relu", "unrectified", "added",
        "rope_base_500", "rope_partial", "rope_nope", "forgetting", "learned", "learned_large", "learned_decayed",
    ),
    "lengths": tuple(f"{name}_{length}" for name in ("rope", "alibi", "t5") for length in (64, 256)),
    "long": tuple(f"{name}_long" for name in ("nope", "sinusoidal", "rope", "t5", "alibi", "transformer_xl")),
    "equal": tuple(f"{name}_equal" for name in ("nope", "sinusoidal", "rope", "t5", "alibi", "transformer_xl")),
}  # fmt: skip
SEEDS = {
    "rates": 1,
    "controls": 2,
    "lengths": 2,
    "long": 1,
    "slow": 2,
    "equal": 2,
    "shaw": 2,
    "layers": 2,
    "distance": 2,
    "masked": 2,
    "success": 20,
    "coupling": 2,
}
"""The number of seeds of experiments that have another than 3."""
FACTOR = 4  # the longer window of the experiment "beyond", as a multiple of L


@dataclass(frozen=True)
class Run:
    """One training, given by a variant, a seed and a preset. Everything else follows from these three.

    Raises:
        ValueError: If there is no such variant or preset.

    Example:
        >>> run = Run("alibi", seed=0, preset="smoke")
        >>> run.name, run.steps, run.digest
        ('alibi-0', 12, 'd005d37034dae7eb')
    """

    variant: str
    """A name in `VARIANTS`."""
    seed: int
    """The seed of the weights and of the order of the text."""
    preset: str = "cpu"
    """A name in `PRESETS`."""
    tried: float | None = None
    """The learning rate that it tries, in a short training; None for a run of the whole budget."""

    def __post_init__(self) -> None:
        for value, known, noun in ((self.variant, VARIANTS, "variant or scheme"), (self.preset, PRESETS, "preset")):
            if value not in known:
                raise ValueError(f"there is no {noun} {value!r}: use one of {', '.join(known)}")

    @property
    def name(self) -> str:
        """The name of its files, such as "rope-0"; "rope@0.004-0" if it tries a learning rate."""
        return f"{self.stem}-{self.seed}"

    @property
    def stem(self) -> str:
        """Its name without the seed, such as "rope" or "rope@0.004"."""
        return self.variant if self.tried is None else f"{self.variant}@{self.tried:g}"

    @property
    def settings(self) -> Variant:
        """The scheme and its options."""
        return VARIANTS[self.variant]

    @property
    def budget(self) -> Text | Task:
        """The budget of its objective."""
        preset = PRESETS[self.preset]
        return preset.tasks.get(self.settings.objective, preset.text)

    @property
    def steps(self) -> int:
        """Training steps; 0 if the weights of another run are used as they are."""
        text = PRESETS[self.preset].text
        if self.settings.after:
            return text.tuning if self.settings.tuned else 0
        return self.budget.steps * self.settings.epochs if self.tried is None else text.trial

    @property
    def rate(self) -> float:
        """The learning rate after the warm-up: the one that it tries, the tuned one of its scheme, or the budget's."""
        known = tuned(self.preset) if isinstance(self.budget, Text) else {}
        return (
            self.tried
            or self.settings.rate
            or known.get(self.variant, known.get(self.settings.scheme, self.budget.rate))
        )

    @property
    def batch(self) -> int:
        """Sequences in a step. Longer sequences are fewer, so that the number of tokens is the same."""
        return self.budget.batch * self.budget.length // self.length

    @property
    def length(self) -> int:
        """The length of its training sequences."""
        return self.window * (FACTOR if self.settings.after else 1)

    @property
    def window(self) -> int:
        """L, of which measured lengths are multiples: its training length, or that of the run that it starts from."""
        return round(self.budget.length * self.settings.stretch)

    @property
    def parent(self) -> Run | None:
        """The run from whose weights this one starts, or None."""
        return dataclasses.replace(self, variant=self.settings.after) if self.settings.after else None

    @property
    def config(self) -> dict[str, Any]:
        """Everything that decides the result, as a dict for JSON."""
        parts = _asdict(self.budget) | _asdict(self.settings) | {"rate": self.rate}
        if self.tried is not None:
            parts["steps"] = self.steps
        return json.loads(json.dumps({"seed": self.seed} | parts))

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of `config`. A result is valid for one digest."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()[:16]

    def model(self, **changes: Any) -> Transformer:
        """The model before training. All schemes with the same seed start from the same other weights.

        Args:
            **changes: Keywords of `Transformer` that replace those of the run, such as `backend="sdpa"`.

        Returns:
            A `Transformer` in training mode, on the CPU.
        """
        settings, budget, length = self.settings, self.budget, self.window
        longest = 16 * budget.length if isinstance(budget, Task) else self.length  # rows of a learned table
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            model = Transformer(
                {"text": BYTES, "masked": BYTES + 1}.get(settings.objective, VOCABULARY),
                layers=budget.layers, model_dim=budget.model_dim, heads=budget.heads,
                encoding=maker(settings, length), every_layer=settings.every_layer, shared=settings.shared,
                causal=settings.objective != "masked", **{"length": longest} | changes,
            )  # fmt: skip
        for encoding in model.encodings:
            for name in settings.zeroed:
                torch.nn.init.zeros_(encoding.get_parameter(name)).requires_grad_(False)
        fused = not any({"rescale", "mix"} & set(model.encoding(layer).doors) for layer in range(budget.layers))
        if isinstance(budget, Text) and budget.fused and fused and "backend" not in changes:
            model.config = dataclasses.replace(model.config, backend="sdpa")
        return model


def _asdict(settings: Budget | Variant) -> dict[str, Any]:
    """Settings as a dict, without those that came later and are at their defaults."""
    known = {field.name: field for field in dataclasses.fields(settings)}
    return {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if not (known[name].metadata and value == known[name].default)
    }


def maker(settings: Variant, length: int) -> Callable[..., Encoding]:
    """A function that makes a variant's encoding from model_dim, heads, head_dim and length; `length` here is L."""
    options = dict(settings.options)
    scheme, control = settings.scheme, options.pop("control", settings.scheme)
    if control == "unrectified":
        return lambda heads, **sizes: controls.Unrectified(heads)
    if control == "added":
        return lambda heads, **sizes: controls.Added(heads)
    if control == "forgetting":
        return lambda heads, head_dim, **sizes: controls.Forgetting(heads, head_dim)
    if scheme == "rope" and "scaling" in options:
        return lambda head_dim, **sizes: scaled(head_dim, options["scaling"], length)
    if scheme == "rope" and "share" in options:
        return lambda head_dim, **sizes: controls.partial(head_dim, options["share"])
    if scheme == "rope" and "every" in options:
        layers = itertools.count()
        return lambda head_dim, **sizes: NoPE() if next(layers) % options["every"] else RoPE(head_dim)
    if scheme == "rope":
        return lambda head_dim, **sizes: RoPE(head_dim, **options)
    if scheme == "t5" and "reach" in options:
        return lambda heads, **sizes: T5Bias(heads, 16, max(9, round(options["reach"] * length)))
    if scheme == "learned" and "deviation" in options:
        return lambda model_dim, length, **sizes: controls.large(model_dim, length, options["deviation"])
    if scheme == "shaw":
        each = options.pop("heads", False)
        return lambda head_dim, heads, **sizes: Shaw(head_dim, heads=heads if each else None, **options)
    if scheme == "alibi":
        return lambda heads, **sizes: ALiBi(heads, **options)
    return ENCODINGS[scheme]


def scaled(head_dim: int, method: str, length: int, factor: float = FACTOR) -> RoPE:
    """RoPE for `factor` times its training length."""
    freq: Tensor = frequencies(head_dim)
    if method == "yarn":
        return RoPE(head_dim, freq=yarn(freq, factor, length), attention_factor=yarn_attention_factor(factor))
    if method == "llama3":
        return RoPE(head_dim, freq=llama3(freq, factor, trained=length))
    return RoPE(head_dim, freq={"interpolate": interpolate, "ntk": ntk}[method](freq, factor))


def runs(experiment: str, preset: str, seeds: int | None = None) -> list[Run]:
    """The runs of an experiment: first all variants with seed 0, then with seed 1, and so on.

    A run that starts from another run's weights comes after it.

    Args:
        experiment: A name in `EXPERIMENTS`.
        preset: A name in `PRESETS`.
        seeds: The number of seeds. Default: that of `SEEDS`, or 3.

    Returns:
        A list of `Run`.

    Raises:
        ValueError: If there is no such experiment, or `seeds` is less than 1.

    Example:
        >>> [run.name for run in runs("distance", "cpu", seeds=1)]
        ['nope-0', 'relu-0', 'distance_aware-0', 'alibi-0']
    """
    if experiment not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {experiment!r}: use one of {', '.join(EXPERIMENTS)}")
    seeds = SEEDS.get(experiment, 3) if seeds is None else seeds
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}: use 1 or more, such as 3")
    variants = EXPERIMENTS[experiment]
    if experiment == "rates":
        rates = [share * PRESETS[preset].text.rate for share in RATES]
        return [Run(variant, 0, preset, rate) for rate in rates for variant in variants]
    return [Run(variant, seed, preset) for seed in range(seeds) for variant in variants]
