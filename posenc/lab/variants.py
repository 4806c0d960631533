"""Variants: the schemes with their options, each a curve of a figure, and what makes their encodings."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from posenc._attention.encoding import Encoding, NoPE
from posenc.lab import controls
from posenc.lab.budgets import LATER
from posenc.lab.tasks import TASKS
from posenc.schemes.alibi import ALiBi
from posenc.schemes.registry import ENCODINGS, SCHEMES
from posenc.schemes.rope import RoPE
from posenc.schemes.scaling import interpolate, llama3, ntk, yarn, yarn_attention_factor
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoidal import frequencies
from posenc.schemes.t5 import T5Bias

FACTOR = 4  # the longer window of the experiment "beyond", as a multiple of L
METHODS = ("interpolate", "ntk", "yarn", "llama3")
"""Ways to serve longer texts than RoPE was trained on, in the experiment "beyond"."""
ADDING = ("sinusoidal", "shaw", "t5", "rope", "alibi")
"""Schemes of the experiment "coupling"."""
EQUAL = 1.75
"""The held-out loss in nats at which models of the experiment "equal" stop; every scheme has models that reach it."""


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
    **{f"rope_{method}": Variant("rope", {"scaling": method}, after="rope") for method in METHODS},
    "rope_tuned": Variant("rope", after="rope", tuned=True),
    **{f"rope_{m}_tuned": Variant("rope", {"scaling": m}, after="rope", tuned=True) for m in METHODS},
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
    "rope_places": Variant("rope", {"control": "places"}, shared=False),
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
       for name in ADDING},
    **{f"{name}_long": dataclasses.replace(variant, epochs=2) for name, variant in _schemes().items()
       if name in ("nope", "sinusoidal", "rope", "alibi", "transformer_xl")},
    "t5_long": Variant("t5", {"reach": 0.25}, epochs=2),
    **{f"{name}_equal": dataclasses.replace(variant, until=EQUAL) for name, variant in _schemes().items()
       if name in ("nope", "sinusoidal", "rope", "alibi", "transformer_xl")},
    "t5_equal": Variant("t5", {"reach": 0.25}, until=EQUAL),
}  # fmt: skip


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
    if control == "places":  # RoPE in the first third of the layers, as the authors have it
        layers = itertools.count()
        return lambda model_dim, heads, head_dim, **sizes: (
            controls.Repositioned(heads, head_dim, model_dim // 8) if next(layers) else RoPE(head_dim)
        )
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
