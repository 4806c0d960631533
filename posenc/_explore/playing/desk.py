"""What a kernel and a page share of a panel in which models read: the models, and what the front end is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from posenc._explore.controls import Choice, Slider
from posenc._explore.explorer import identity, shown
from posenc._explore.playing.breaks import BREAKS, kind
from posenc._explore.playing.reader import BYTES, SCALINGS, TRAINED, Reader, settings
from posenc._require import kind as described
from posenc.pictures.views import Heatmap, Lines
from posenc.schemes.registry import SCHEMES
from posenc.transformer.model import Transformer

REACH = 16  # the longest text that is read, in lengths of training


class Desk:
    """The models of a panel, the texts to begin with, and what the front end is told of them."""

    def __init__(
        self, models: Mapping[str, Transformer], texts: Mapping[str, str], length: int, read: int | None,
        title: str, name: str, caption: str,
    ) -> None:  # fmt: skip
        _check(models, texts, length)
        self.readers = {scheme: Reader(model, length) for scheme, model in models.items()}
        shapes = {tuple(reader.start()[0].shape) for reader in self.readers.values()}
        if len(shapes) > 1:
            raise ValueError("the models differ in their layers, heads or channels: give models of one size")
        self.shape = shapes.pop()
        self.texts, self.length = dict(texts), length
        self.title, self.name, self.caption = title, name, caption
        most = REACH * length
        self.read = Slider("count", 4 * length if read is None else read, 16, most, 16, integer=True)
        self.read.check(self.read.start)

    @property
    def identity(self) -> str:
        return identity("play", self.name)

    @property
    def first(self) -> tuple[str, str]:
        """The two models that read side by side at the start."""
        names = list(self.readers)
        return names[0], names[min(1, len(names) - 1)]

    @property
    def heads(self) -> list[str]:
        """The names of all heads, layer by layer."""
        config = next(iter(self.readers.values())).model.config
        return [f"layer {n + 1}, head {h + 1}" for n in range(config.layers) for h in range(config.heads)]

    def controls(self) -> list[dict[str, Any]]:
        names, texts, breaks = [title_of(scheme) for scheme in self.readers], list(self.texts), list(BREAKS)
        made: list[tuple[Choice | Slider, str]] = [
            (_choice("text", texts), "begin with"),
            (self.read, "bytes to read"),
            (_choice("a", names), "one model"),
            (_choice("b", names), "the other"),
            (_choice("broken", breaks), "what is broken"),
            (Slider("base", TRAINED["base"], 100.0, 1e6, 1 / 40, integer=False, log=True), "RoPE’s base"),
            (_choice("scaling", list(SCALINGS)), "RoPE’s scaling"),
            (Slider("factor", TRAINED["factor"], 1.0, float(REACH), 0.5, integer=False), "scaling factor"),
            (Slider("slope", TRAINED["slope"], 0.01, 100.0, 1 / 40, integer=False, log=True), "ALiBi’s slopes ×"),
            (_choice("ink", ["surprise", "attention to predict a letter"]), "colour by"),
            (_choice("head", self.heads), "attention of"),
            (Slider("temperature", 0.0, 0.0, 1.5, 0.05, integer=False), "temperature"),
        ]
        return [{**control.spec(), "label": label, "unit": ""} for control, label in made]

    def spec(self) -> dict[str, Any]:
        """All that the front end needs to know, as JSON: nothing in it is ever read as markup."""
        return {
            "kind": "play",
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "models": [
                {
                    "name": scheme,
                    "title": title_of(scheme),
                    "colour": _colour(scheme, number),
                    "kind": kind(reader.model.encoding()),
                    "rows": reader.rows,
                    "knobs": list(reader.knobs),
                }
                for number, (scheme, reader) in enumerate(self.readers.items())
            ],
            "texts": [{"label": label, "text": text} for label, text in self.texts.items()],
            "breaks": [{"label": label, "expect": expect} for label, expect in BREAKS.items()],
            "length": self.length,
            "most": REACH * self.length,
            "shape": list(self.shape),
            "controls": self.controls(),
            "starts": {
                "text": 0, "count": int(self.read.start), "a": 0, "b": min(1, len(self.readers) - 1), "broken": 0,
                "ink": 0, "head": 0, "temperature": 0.0,
                **{name: TRAINED[name] for name in ("base", "scaling", "factor", "slope")},
            },
            "trained": TRAINED,
            "views": {key: shown(view, lambda: (0.0, 1.0)) for key, view in self.views().items()},
        }  # fmt: skip

    def views(self) -> dict[str, Lines | Heatmap]:
        """The pictures: two of lines, and one map, of which each model has its own."""
        names = [title_of(scheme) for scheme in self.first]
        colours = [_colour(scheme, number) for number, scheme in enumerate(self.first)]
        return {
            "loss": Lines(
                x="byte", y="bits", labels=names, colours=colours, landmarks={"trained up to here": float(self.length)},
                title="Surprise, the mean of 32 bytes",
            ),
            "profile": Lines(
                x="bytes back", y="weight", labels=names, colours=colours, log_x=True, log_y=True, limits=(1e-6, 1.0),
                title="Where the head looks, by distance",
            ),
            "map": Heatmap(  # of the logarithms of weights
                x="key", y="query", limits=(-4.0, 0.0), pick=("before", ""), title="Where a query looks",
            ),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"play with {', '.join(title_of(scheme) for scheme in self.readers)}"


class States:
    """What the models of a kernel have read, by slot, as the front end asks: `Reading` in its types."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._held: dict[str, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def read(self, piece: Mapping[str, Any]) -> list[Tensor]:
        """Bits and weights of a piece of text: the fields are those of `Piece` in the front end's types."""
        reader = self.desk.readers[piece["model"]]
        past = reader.start() if piece["fresh"] else self._held[piece["slot"]]
        given = (torch.tensor(piece[name], dtype=torch.long) for name in ("tokens", "pos"))
        bits, weights, *held = reader(*given, *past, torch.tensor(piece["head"]), *settings(**piece["settings"]))
        self._held[piece["slot"]] = (held[0], held[1])
        return [bits, weights]


def _choice(name: str, labels: list[str]) -> Choice:
    return Choice(name, labels[0], tuple(labels), tuple(labels))


def title_of(scheme: str) -> str:
    return SCHEMES[scheme].title if scheme in SCHEMES else scheme


def _colour(scheme: str, number: int) -> str:
    return SCHEMES[scheme].colour if scheme in SCHEMES else list(SCHEMES.values())[number % len(SCHEMES)].colour


def _check(models: Any, texts: Any, length: int) -> None:
    """Models are decoders of bytes, and there is a text to begin with."""
    if not isinstance(models, Mapping) or not models:
        raise ValueError("there is no model: give a dict of models by their schemes, such as trained models of the lab")
    for name, model in models.items():
        if not isinstance(model, Transformer):
            raise TypeError(f"the model of {name!r} is {described(model)}: use a Transformer")
        config = model.config
        if config.vocabulary != BYTES or not config.causal:
            raise ValueError(
                f"the model of {name!r} has {config.vocabulary} tokens and causal={config.causal}: use a decoder of "
                f"{BYTES} bytes"
            )
        if config.every_layer or config.window is not None:
            raise ValueError(
                f"the model of {name!r} adds its encoding in every layer, or has a window: neither is served here"
            )
    if not isinstance(texts, Mapping) or not texts or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("there is no text to begin with: give a dict of texts by their titles")
    if length < 1:
        raise ValueError(f"length is {length}: use that of the texts that the models were trained on, 1 or more")
