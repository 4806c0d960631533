"""Experiments, and the runs that they consist of: a variant, a seed and a preset decide a run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch

from posenc.lab import evidence
from posenc.lab.budgets import PRESETS, Budget, Task, Text
from posenc.lab.tasks import TASKS, VOCABULARY
from posenc.lab.variants import ADDING, FACTOR, METHODS, VARIANTS, Variant, maker
from posenc.schemes.registry import ENCODINGS
from posenc.transformer.model import Transformer

BYTES = 256
MASK = 256  # stands for a byte that is to be guessed
RATES = (1 / 4, 1 / 2, 1, 2, 4)
"""Learning rates that are tried for every scheme, as multiples of the budget's, in the experiment "rates"."""
RESULTS = evidence.FOLDER / "results"


@functools.cache
def tuned(preset: str) -> dict[str, float]:
    """By variant or scheme, the rate with the lowest loss in the experiment "rates", as `tune` has kept it."""
    path = RESULTS / preset / "tuned.json"
    rates: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    return rates


FOUR = ("nope", "t5", "alibi", "rope")
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "extrapolation": (*ENCODINGS, "t5_reach", "learned_large", "transformer_xl_memory"),
    "generalisation": tuple(f"{task}_{name}" for task in TASKS for name in ENCODINGS),
    "coupling": tuple(f"addition_{name}{end}" for name in ADDING for end in ("", "_coupled")),
    "shaw": (*(f"shaw_k{k}" for k in (0, 1, 2, 4, 8)), "shaw", "shaw_k64", "shaw_keys", "shaw_values",
             "nope_fast"),
    "layers": (
        "sinusoidal", "sinusoidal_every_layer", "learned", "learned_every_layer", "learned_every_layer_independent",
    ),
    "masked": ("masked_nope", "masked_sinusoidal", "masked_learned", "masked_learned_large", "masked_rope"),
    "beyond": (
        "rope", *(f"rope_{method}" for method in METHODS),
        "rope_tuned", *(f"rope_{method}_tuned" for method in METHODS),
    ),
    "distance": ("nope", "relu", "distance_aware", "alibi"),
    "success": tuple(f"{task}_{name}" for task in ("copy", "reverse", "recall") for name in FOUR),
    "use": tuple(f"{name}_use" for name in ("nope", "sinusoidal", "rope", "t5", "alibi", "transformer_xl")),
    "strings": tuple(f"{name}_strings" for name in
                     ("nope", "sinusoidal", "rope", "t5", "t5_reach", "alibi", "transformer_xl")),
    "slow": ("rope_slow",),
    "rates": (*ENCODINGS, "forgetting", "learned_large"),
    "controls": (
        "t5", "t5_reach", "t5_own", "alibi_learned", "shaw_keys", "shaw_heads", "relu", "unrectified", "added",
        "rope_base_500", "rope_partial", "rope_nope", "forgetting", "learned", "learned_large", "learned_decayed",
        "rope_places",
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
    "strings": 1,
    "equal": 2,
    "shaw": 2,
    "layers": 2,
    "distance": 2,
    "masked": 2,
    "success": 20,
    "coupling": 2,
}
"""The number of seeds of experiments that have another than 3."""


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
        options: dict[str, Any] = {"length": longest, "backend": "dense"} | changes
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            model = Transformer(
                {"text": BYTES, "masked": BYTES + 1}.get(settings.objective, VOCABULARY),
                layers=budget.layers,
                model_dim=budget.model_dim,
                heads=budget.heads,
                encoding=maker(settings, length),
                every_layer=settings.every_layer,
                shared=settings.shared,
                causal=settings.objective != "masked",
                **options,
            )
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
