"""The schemes of the book, by name: how each is made, its colour, and whether each layer has its own."""

from collections.abc import Callable
from dataclasses import dataclass

from posenc._attention.encoding import Encoding, NoPE
from posenc.schemes.alibi import ALiBi
from posenc.schemes.distance_aware import DistanceAware
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoidal import Sinusoidal
from posenc.schemes.t5 import T5Bias
from posenc.schemes.transformer_xl import TransformerXL
from posenc.schemes.xpos import XPos


@dataclass(frozen=True)
class Scheme:
    """What the book, the model and the lab need to know about a scheme beside its formula.

    Example:
        >>> SCHEMES["rope"].title, SCHEMES["rope"].per_layer
        ('RoPE', False)
    """

    title: str
    """Its name in figures and tables."""
    make: Callable[..., Encoding]
    """Takes the keywords model_dim, heads, head_dim and length."""
    colour: str
    """Its colour in every comparison."""
    per_layer: bool = False
    """Whether its authors give each layer parameters of its own; the lab then trains it so."""
    short: str = ""
    """Its name where a table has a narrow column for each scheme. Default: the title."""

    def __post_init__(self) -> None:
        if not self.short:
            object.__setattr__(self, "short", self.title)


SCHEMES: dict[str, Scheme] = {
    "nope": Scheme(
        "NoPE", lambda model_dim, heads, head_dim, length: NoPE(), "#808080"
    ),
    "sinusoidal": Scheme(
        "sinusoidal",
        lambda model_dim, heads, head_dim, length: Sinusoidal(model_dim),
        "#1070f0",
        short="sines",
    ),
    "learned": Scheme(
        "learned",
        lambda model_dim, heads, head_dim, length: Learned(model_dim, length),
        "#8088d8",
    ),
    "shaw": Scheme(
        "Shaw",
        lambda model_dim, heads, head_dim, length: Shaw(head_dim),
        "#00a000",
        per_layer=True,
    ),
    "transformer_xl": Scheme(
        "Transformer-XL",
        lambda model_dim, heads, head_dim, length: TransformerXL(
            model_dim, heads, head_dim
        ),
        "#707800",
        per_layer=True,
        short="T-XL",
    ),
    "t5": Scheme(
        "T5 bias",
        lambda model_dim, heads, head_dim, length: T5Bias(heads),
        "#c08018",
        short="T5",
    ),
    "rope": Scheme(
        "RoPE", lambda model_dim, heads, head_dim, length: RoPE(head_dim), "#d83000"
    ),
    "xpos": Scheme(
        "xPos", lambda model_dim, heads, head_dim, length: XPos(head_dim), "#a058a0"
    ),
    "alibi": Scheme(
        "ALiBi", lambda model_dim, heads, head_dim, length: ALiBi(heads), "#f85088"
    ),
    "distance_aware": Scheme(
        "distance-aware",
        lambda model_dim, heads, head_dim, length: DistanceAware(heads),
        "#d060e0",
        per_layer=True,
        short="dist.",
    ),
}

ENCODINGS: dict[str, Callable[..., Encoding]] = {
    name: scheme.make for name, scheme in SCHEMES.items()
}
"""Every factory takes the same keywords: `ENCODINGS["alibi"](model_dim=64, heads=4, head_dim=16, length=512)`."""
