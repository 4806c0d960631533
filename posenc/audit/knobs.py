"""Fields of a configuration that nobody reads: changed, with the same weights, they change no logit.

A field that is stored and never read is a trap: a checkpoint says one base and runs with another, without an error. So
each field that speaks of positions is changed alone, the tiny model is built anew with the same weights, and its logits
are compared. Some fields sleep until a switch is turned, so an unread field is tried again with each switch turned.
"""

from __future__ import annotations

import copy
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.hf.adapter import TransformersAdapter
from posenc.audit.adapters.hf.special import READ_ELSEWHERE
from posenc.audit.adapters.hf.tiny import configuration, quiet, tiny
from posenc.audit.probe import deviation
from posenc.audit.weights import randomise
from posenc.pictures.table import Table

SPEAKS = re.compile(
    r"rope|rotary|sliding|window|alibi|relative|bucket|max_distance|theta|no_rope|attn_temperature|floor_scale"
    r"|attn_scale|attention_chunk|learned_pos|sinusoidal|position_embedding|log_scaling|rel_extent|global_attn"
)
SILENT = re.compile(  # sizes of tables and heads, which are read where weights are made
    r"max_position_embeddings|use_.*cache|.*_type|.*vocab.*|original_max.*|.*_head_dim|mrope.*|.*_init"
)
TOWERS = re.compile(r"(vision|audio|depth|image|encoder).*config|id2label|label2id")
FAR = 1 << 17
LISTS = (
    "no_rope_layers",
    "layer_rope_theta",
    "layer_types",
)  # which a class makes from other fields if they are missing
TOKENS = 40
READ, SLEEPS, TWICE, UNREAD, REFUSED = "read", "sleeps", "twice", "never read", "refused"


@dataclass(frozen=True)
class Knob:
    """One field, and what became of changing it."""

    field: str
    """Its path, with dots."""
    value: Any
    other: Any
    verdict: str
    """"read", "sleeps" until a switch is turned, "twice" there, "never read", or "refused" by the class."""
    off: float | None = None
    """How far logits change, over their root mean square; None where shapes of weights do, or the class refuses."""
    note: str = ""


def knobs(what: Any) -> list[Knob]:
    """What becomes of each field that speaks of positions.

    Args:
        what: As for `tiny`: a model type, a folder with a `config.json`, a dict or a configuration.

    Raises:
        CannotBuild: If there is no tiny model of it.

    Example:
        >>> [knob.field for knob in knobs("dbrx") if knob.verdict == "never read"]
        ['attn_config.rope_theta']
    """
    with quiet(), torch.no_grad():
        trial = _Trial(tiny(what).model)
        rows = [trial.turned(path, value) for path, value in fields(trial.fields)]
        return [trial.explained(knob, rows) if knob.verdict == UNREAD else knob for knob in rows]


def fields(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Fields that speak of positions, at any depth, with their paths.

    Example:
        >>> list(fields({"sliding_window": 8, "hidden_size": 64, "rope_parameters": {"rope_theta": 1e4}}))
        [(('sliding_window',), 8), (('rope_parameters', 'rope_theta'), 10000.0)]
    """
    for name, value in config.items():
        if name.startswith("_"):
            continue
        if isinstance(value, Mapping):
            if not TOWERS.fullmatch(name):
                yield from fields(value, (*path, name))
        elif (
            (SPEAKS.search(name) or any("rope_" in part for part in path))
            and not SILENT.fullmatch(name)
            and (isinstance(value, bool | int | float) or (isinstance(value, list) and value))
        ):
            yield (*path, name), value


def _walk(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All fields with their paths, but those of towers."""
    for name, value in config.items():
        if isinstance(value, Mapping) and not TOWERS.fullmatch(name):
            yield from _walk(value, (*path, name))
        else:
            yield (*path, name), value


def _none(value: Any) -> bool:
    """Whether a size is left out: None, or a 0 that is no False."""
    return value is None or (value == 0 and not isinstance(value, bool))


def others(value: Any) -> list[Any]:
    """Values that are far from this one, of its kind.

    Example:
        >>> others(True), others(10000.0), others(8), others(0.5)
        ([False], [500000.0, 10.0], [5, 1], [0.25, 10.0])
    """
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, list):
        return [[1 - each if each in (0, 1) else 3 * each if isinstance(each, int | float) else each for each in value]]
    if value >= 100:
        kind = type(value)
        return [kind(50 * value), kind(max(value / 1000, 1))]
    if isinstance(value, int):
        return [value - 3, 1] if value > 3 else [value - 1 if value > 1 else value + 1]
    return [0.5 * value, 20 * value] if value else [1.0]


def table(knobs: list[Knob], source: str = "") -> Table:
    """A row for each field, those first that nobody reads."""
    rows = sorted(knobs, key=lambda knob: (knob.verdict != UNREAD, knob.verdict == READ))
    return Table(
        {"field": "", "value": "", "changed to": "", "logits change": ".2g", "verdict": "", "note": ""},
        [(k.field, _short(k.value), _short(k.other), k.off, k.verdict, k.note) for k in rows],
        caption=f"Fields that speak of positions{f' in {source}' if source else ''}",
    )


def main_report(what: str | os.PathLike[str]) -> int:
    """Prints the table; 1 if a field is never read, and 0 if not."""
    rows = knobs(what)
    print(table(rows, os.fspath(what)).text(140))
    return int(any(knob.verdict == UNREAD for knob in rows))


class _Trial:
    """The same weights under one configuration after another."""

    def __init__(self, model: Any) -> None:
        self.cls, self.config_cls = type(model), type(model.config)
        self.fields = {name: value for name, value in model.config.to_dict().items() if name != "transformers_version"}
        self.weights = dict(randomise(model).named_parameters())
        self.x = 10 + torch.randperm(80, generator=torch.Generator().manual_seed(0))[None, :TOKENS]
        base = self._logits({})
        assert base is not None  # the same configuration has the same shapes
        self.base = base
        self.far = self._runs_far()

    def _runs_far(self) -> bool:
        try:
            return self._logits({}, FAR) is not None
        except Exception:  # no positions, or a table of them
            return False

    def turned(self, path: tuple[str, ...], value: Any) -> Knob:
        """One field changed, in one way after another until logits change."""
        name, knob = ".".join(path), None
        for other in others(value):
            try:
                logits = self._logits({path: other})
            except Exception as error:  # a class may check its fields in any way
                knob = knob or Knob(name, value, other, REFUSED, None, " ".join(str(error).split())[:80])
                continue
            if logits is None:
                return Knob(name, value, other, READ, None, "shapes of weights change")
            size = deviation(logits, self.base)
            if size != 0:
                return Knob(name, value, other, READ, size)
            knob = Knob(name, value, other, UNREAD, 0.0)
        assert knob is not None
        return knob

    def explained(self, knob: Knob, all_of_them: list[Knob]) -> Knob:
        """Why a field changes nothing, if a switch is off or another field of that name is read instead."""
        path = tuple(knob.field.split("."))
        why = READ_ELSEWHERE.get((self.fields.get("model_type", ""), knob.field), "") or self._absent(path)
        if why:
            return _noted(knob, SLEEPS, why)
        for twin in all_of_them:
            same = twin.field.rpartition(".")[2] == path[-1] and twin.value == knob.value
            if same and twin.field != knob.field and twin.verdict == READ:
                return _noted(knob, TWICE, f"{twin.field} is read instead")
        if self.far and self._changes({}, path, knob.other, FAR):
            return _noted(knob, SLEEPS, f"read at positions beyond {TOKENS}")
        for turn in self._turns(path, all_of_them):
            if self._changes(turn, path, knob.other):
                conditions = [f"{'.'.join(name)} is {value}" for name, value in turn.items() if value is not ...]
                conditions += [f"{'.'.join(name)} is not given" for name, value in turn.items() if value is ...]
                return _noted(knob, SLEEPS, f"read where {' and '.join(conditions)}")
        return knob

    def _absent(self, path: tuple[str, ...]) -> str:
        """Whether a field is of a kind of layers that there are none of."""
        part: Any = self.fields.get(path[0]) if path[0] == "text_config" else self.fields
        kinds = list(map(str, part.get("layer_types") or ()))
        if not kinds:
            return ""
        named = next((part for part in path if re.fullmatch(r"\w+_attention|hybrid_\w+", part)), "")
        if named and named not in kinds:
            return f"no layer is of the kind {named}"
        if "sliding" in path[-1] and not any(re.search("sliding|local|window", kind) for kind in kinds):
            return "no layer has a window"
        return ""

    def _turns(self, path: tuple[str, ...], knobs: list[Knob]) -> Iterator[dict[tuple[str, ...], Any]]:
        """Other fields that may have to change before a field is read, few at a time."""
        everything = list(_walk(self.fields))
        lists = [name for name, value in everything if isinstance(value, list) and name[-1] in LISTS]
        switches: dict[tuple[str, ...], Any] = {
            name: 4 for name, value in everything if _none(value) and SPEAKS.search(name[-1])
        }
        switches |= {tuple(knob.field.split(".")): not knob.value for knob in knobs if isinstance(knob.value, bool)}
        switches |= {
            (name,): "rope" for name in ("position_embedding_type",) if self.fields.get(name, "rope") != "rope"
        }
        numbers = {tuple(knob.field.split(".")): knob.other for knob in knobs if not isinstance(knob.value, bool)}
        dropped: list[dict[tuple[str, ...], Any]] = [{}, *({name: ...} for name in lists)]
        for less in dropped:
            for size in (0, 1, 2):
                for names in itertools.combinations([name for name in switches if name != path], size):
                    if less or names:
                        yield {**{name: switches[name] for name in names}, **less}
            for name, value in numbers.items():
                if name != path:
                    yield {name: value, **less}

    def _changes(self, turn: Mapping[tuple[str, ...], Any], path: tuple[str, ...], other: Any, far: int = 0) -> bool:
        """Whether a field changes logits where other fields are changed as well, or far out."""
        try:
            without, with_it = self._logits(turn, far), self._logits({**turn, path: other}, far)
        except Exception:  # fields that contradict each other: then this switch explains nothing
            return False
        return without is not None and (with_it is None or deviation(with_it, without) != 0)

    def _logits(self, changes: Mapping[tuple[str, ...], Any], far: int = 0) -> Tensor | None:
        """Logits with these fields; None where the same weights do not fit. `...` leaves a field out."""
        changed = copy.deepcopy(self.fields)
        for path, value in changes.items():
            at = changed
            for part in path[:-1]:
                at = at[part]
            if value is ...:
                at.pop(path[-1], None)
            else:
                at[path[-1]] = value
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = self.cls._from_config(configuration(self.config_cls, changed)).eval()
        for name, parameter in model.named_parameters():
            if name in self.weights:
                if self.weights[name].shape != parameter.shape:
                    return None
                parameter.copy_(self.weights[name])
        adapter = TransformersAdapter(model)
        if not far:
            return adapter.logits(self.x)
        return adapter.logits(self.x, torch.arange(far, far + TOKENS)[None], torch.ones_like(self.x))


def _noted(knob: Knob, verdict: str, note: str) -> Knob:
    return Knob(knob.field, knob.value, knob.other, verdict, knob.off, note)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:23] + "…"
