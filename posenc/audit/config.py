"""Reading a configuration: what a model's config.json says of positions, without building the model.

Standard library only. What is not in the file is not guessed: where the class of a model type fills in a default, the
reading says so in a note.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.audit import tables
from posenc.audit.reading import scheme as schemes
from posenc.audit.reading.conflicts import conflicts
from posenc.audit.reading.fields import CONTEXT, HEADS, Fields, load
from posenc.audit.reading.layers import Layer, head_size, key_heads, layers
from posenc.audit.reading.rope import base, own, rotation, sets, share
from posenc.audit.reading.rotation import Rotation, mscale
from posenc.audit.reading.scheme import PositionScale
from posenc.audit.reading.text import text

if TYPE_CHECKING:
    from posenc.table import Table

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
PUBLISHED = Path(__file__).parent / "published.json"


@dataclass(frozen=True)
class At:
    """A model in a text of one length.

    Args:
        length: Tokens.
        frequencies: By kind of layer, in radians per position; those of "dynamic" and "longrope" depend on the length.
        new_planes: By kind of layer, the planes that reach angles which training has not shown; None if the
            configuration does not say how long texts in training were.
        query_scale: What the last query is multiplied by, where that depends on its position.
        cache_bytes: What a cache of keys and values takes, in bytes, or None if that is not known.
    """

    length: int
    frequencies: Mapping[str, tuple[float, ...]]
    new_planes: Mapping[str, list[int] | None]
    query_scale: float
    cache_bytes: int | None


@dataclass(frozen=True, repr=False)
class Reading:
    """What a configuration says of positions, shown as a report.

    Args:
        source: Where it was read.
        model_type: As the file says, or "".
        scheme: The stem of the scheme's file in `posenc`, such as "rope" or "alibi"; "learned_relative", "axial",
            "learned and t5" or "unknown" where it has none.
        why: The field that said so.
        context: The length that it promises, in tokens, or None.
        heads, key_heads, head_dim: Query heads, heads of keys and values, and channels of a head, or None.
        layers: All layers.
        rotations: The rotation by kind of layer, by "" for all; None for a kind that does not rotate.
        score_factor: What all scores are multiplied by beside 1/√d (DeepSeek's `mscale_all_dim`).
        position_scale: How queries grow with their position, or None.
        slopes: ALiBi's, one for each head, or None.
        rows: The rows of a table of positions, and how many tokens can use it, or None.
        buckets: Of T5's bias, and the distance of the last one, or None.
        width: Bytes of a number in the cache, by the dtype of the file; 2 if it has none.
        latent: Whether a cache holds one latent vector for all heads (MLA).
        warnings: Fields that contradict each other or that nobody reads, one sentence each, with the remedy.
        notes: What else one should know: defaults that were filled in, and what is not known.
    """

    source: str
    model_type: str
    scheme: str
    why: str
    context: int | None
    heads: int | None
    key_heads: int | None
    head_dim: int | None
    layers: tuple[Layer, ...]
    rotations: Mapping[str, Rotation | None]
    score_factor: float
    position_scale: PositionScale | None
    slopes: tuple[float, ...] | None
    rows: tuple[int, int] | None
    buckets: tuple[int, int | None] | None
    width: int
    latent: bool
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """How many layers there are of each kind, in the order in which they appear."""
        return dict(Counter(layer.kind for layer in self.layers))

    @property
    def without_rotation(self) -> int:
        """Layers that attend without a rotation although others of the model rotate."""
        attending = [layer for layer in self.layers if layer.kind not in ("linear", "mlp")]
        return sum(layer.rotation is None for layer in attending) if self.scheme == "rope" else 0

    def logit_factor(self, kind: str | None = None) -> float:
        """What scores of rotated channels are multiplied by beside 1/√d, in layers of this kind.

        Args:
            kind: A key of `rotations`; by default the first that rotates.
        """
        turning = [each for each in self.rotations.values() if each is not None]
        one = self.rotations[kind] if kind is not None else next(iter(turning), None)
        return self.score_factor * (one.attention_factor**2 if one is not None else 1.0)

    @property
    def bytes_per_token(self) -> int | None:
        """Bytes by which a cache grows with each token once all windows are full; None if that is not known."""
        growing = [layer.numbers for layer in self.layers if layer.window is None]
        return None if not self.layers or None in growing else self.width * sum(each or 0 for each in growing)

    def cache_bytes(self, length: int) -> int | None:
        """What a cache of keys and values takes in a text of `length` tokens, for one sequence, in bytes.

        States of recurrent layers do not grow with the text and are not counted.
        """
        total = 0
        for layer in self.layers:
            if layer.numbers is None:
                return None
            total += layer.numbers * min(length, layer.window or length)
        return self.width * total if self.layers else None

    def at(self, length: int) -> At:
        """Frequencies, new angles and memory in a text of `length` tokens.

        Raises:
            ValueError: If the length is not positive.
        """
        if length < 1:
            raise ValueError(f"length is {length}, but it is a number of tokens: use 1 or more")
        turning = {kind: each for kind, each in self.rotations.items() if each is not None}
        scale = self.position_scale.at(length - 1) if self.position_scale else 1.0
        return At(
            length,
            {kind: each.at(length) for kind, each in turning.items()},
            {kind: each.new_planes(length) for kind, each in turning.items()},
            scale,
            self.cache_bytes(length),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as numbers, strings, lists and dicts, for JSON."""
        context = self.context
        return {
            "source": self.source,
            "model_type": self.model_type,
            "scheme": self.scheme,
            "why": self.why,
            "context": context,
            "heads": self.heads,
            "key_heads": self.key_heads,
            "head_dim": self.head_dim,
            "layers": [vars(layer) for layer in self.layers],
            "kinds": self.kinds,
            "without_rotation": self.without_rotation,
            "rotations": {kind: each and _rotation_dict(each) for kind, each in self.rotations.items()},
            "score_factor": self.score_factor,
            "position_scale": self.position_scale and vars(self.position_scale),
            "slopes": self.slopes and list(self.slopes),
            "rows": self.rows and list(self.rows),
            "buckets": self.buckets and list(self.buckets),
            "bytes_per_token": self.bytes_per_token,
            "cache_bytes": self.cache_bytes(context) if context else None,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return text(self)

    __repr__ = __str__


def read_config(config: Any, *, trained: int | None = None) -> Reading:
    """What a configuration says of positions.

    Args:
        config: A path of a config.json or of the folder that holds it, a dict, or an object with `to_dict()`, such as a
            configuration of transformers. Nothing in the folder is executed.
        trained: The length of texts before any scaling, in tokens, where you know it and the file does not say it.

    Returns:
        A reading, which prints as a report.

    Raises:
        FileNotFoundError: If there is no such file, or no config.json in the folder.
        ValueError: If the file is not JSON, or a field about positions is not what it should be.
        TypeError: If the argument is none of these.

    Example:
        >>> reading = read_config({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        ...                        "num_hidden_layers": 32, "max_position_embeddings": 4096})
        >>> reading.scheme, reading.rotations[""].base, reading.bytes_per_token
        ('rope', 10000.0, 524288)
    """
    if trained is not None and trained < 1:
        raise ValueError(f"trained is {trained}, but it is a length in tokens: use 1 or more")
    fields, notes = _filled(load(config))
    name, why = schemes.scheme(fields)
    turning = _rotations(fields, trained, notes) if name == "rope" else {}
    found = layers(fields, turning)
    turning = {kind: each and _with_reach(each, kind, found) for kind, each in turning.items()}
    if name == "rope" and not turning:
        notes.append(
            "how many channels a head has is not said, so no frequencies: add head_dim, or hidden_size and "
            "num_attention_heads."
        )
    if not found:
        notes.append("how many layers there are is not said, so no memory: add num_hidden_layers.")
    elif any(layer.numbers is None for layer in found):
        notes.append("what some layers keep for a token is not a fixed number or not said, so no memory.")
    heads = fields.whole(*HEADS)
    return Reading(
        source=fields.source,
        model_type=fields.model_type,
        scheme=name,
        why=why,
        context=fields.whole(*CONTEXT),
        heads=heads,
        key_heads=key_heads(fields, "any"),
        head_dim=head_size(fields, "any"),
        layers=found,
        rotations=turning,
        score_factor=_score_factor(fields, turning),
        position_scale=schemes.position_scale(fields),
        slopes=schemes.slopes(heads) if name == "alibi" and heads else None,
        rows=schemes.rows(fields, name),
        buckets=schemes.buckets(fields),
        width=_width(fields),
        latent=fields.get("kv_lora_rank") is not None,
        warnings=tuple(conflicts(fields, name, found, turning)),
        notes=tuple(notes),
    )


def _filled(fields: Fields) -> tuple[Fields, list[str]]:
    """The fields with the sizes that a class is known to fill in, and notes about that and about the model type."""
    notes = []
    if fields.part:
        notes.append(f"read from {fields.part}, the part that reads text.")
    if not fields.model_type:
        notes.append("there is no model_type, so defaults of its class are not known.")
    elif fields.model_type not in tables.TYPES_OF_5_23:
        notes.append(
            f"model_type {fields.model_type!r} is not among the causal language models of transformers "
            f"{tables.TRANSFORMERS}: read by its fields alone."
        )
    filled = {
        name: value for name, value in tables.KNOWN_PARTS.get(fields.model_type, {}).items() if fields.get(name) is None
    }
    if filled:
        said = ", ".join(f"{name} {value}" for name, value in filled.items())
        notes.append(f"not in the file, so as the class of {fields.model_type} has it: {said}.")
        fields = Fields({**fields.all, **filled}, fields.source, fields.outer, fields.part)
    return fields, notes


def _rotations(fields: Fields, trained: int | None, notes: list[str]) -> dict[str, Rotation | None]:
    found: dict[str, Rotation | None] = {}
    for kind, parameters in sets(fields).items():
        if parameters is None:
            found[kind] = None
            continue
        one = rotation(fields, kind, parameters, kind != "" and not kind.startswith("layer "), trained)
        if one is None:
            return {}
        found[kind] = one
        theta, where = base(fields, parameters)
        default = "as the class has it" if fields.model_type in tables.TYPES_OF_5_23 else "as most models have it"
        if not where:
            notes.append(f"the base is not in the file: {theta:g}, {default}.")
        part, where = share(fields, parameters, one.head_dim)
        if not where and part != 1 and fields.get("qk_rope_head_dim") is None:
            notes.append(f"the share of a head that rotates is not in the file: {part:g}, {default}.")
        if one.rope_type == "linear" and one.trained is None:
            notes.append(
                "rope_type 'linear' does not say how long texts were before: pass trained=… to know new angles."
            )
    notes[:] = dict.fromkeys(notes)
    return found


def _with_reach(one: Rotation, kind: str, found: tuple[Layer, ...]) -> Rotation:
    """The rotation with the longest offset of its layers, if all of them have a window."""
    windows = [layer.window for layer in found if layer.rotation == kind]
    return replace(one, reach=max(each or 0 for each in windows)) if windows and None not in windows else one


def _score_factor(fields: Fields, turning: Mapping[str, Rotation | None]) -> float:
    """DeepSeek multiplies all scores by the square of the factor of `mscale_all_dim`; few other classes read it."""
    if fields.model_type not in tables.SCORES_TIMES_MSCALE:
        return 1.0
    weight, scaled = (
        own(fields).get("mscale_all_dim"),
        next((each for each in turning.values() if each is not None), None),
    )
    if not weight or scaled is None or scaled.rope_type == "default":
        return 1.0
    return mscale(scaled.parameters["factor"], weight) ** 2


def _width(fields: Fields) -> int:
    """Bytes of a number, by the dtype of the file."""
    found = fields.get("torch_dtype", "dtype") or fields.outer.get("torch_dtype") or fields.outer.get("dtype")
    return BYTES.get(str(found).removeprefix("torch."), 2)


def _rotation_dict(one: Rotation) -> dict[str, Any]:
    return {
        "head_dim": one.head_dim,
        "dims": one.dims,
        "base": one.base,
        "rope_type": one.rope_type,
        "parameters": {
            key: list(value) if isinstance(value, tuple) else value for key, value in one.parameters.items()
        },
        "trained": one.trained,
        "reach": one.reach,
        "planes": one.planes,
        "still": one.still,
        "never_turned": one.never_turned,
        "new_planes": one.new_planes(one.context) if one.context else None,
        "longest": one.longest if one.longest < math.inf else None,
        "bound": one.bound,
        "attention_factor": one.attention_factor,
        "frequencies": list(one.frequencies),
    }


def main_report(path: str | Path) -> str:
    """The report of a folder or a config.json, for `python -m posenc.audit FOLDER --config`.

    Raises:
        OSError, ValueError: As `read_config`, one sentence each.
    """
    return str(read_config(path))


@cache
def _published() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return found


def published() -> dict[str, dict[str, Any]]:
    """The positional fields of published configurations, by the name of the model on the Hugging Face Hub.

    Returns:
        For each model "source", where its config.json was read, and "config", the fields. Other fields are left out.

    Example:
        >>> print(read_config(published()["meta-llama/Meta-Llama-3.1-8B"]["config"]).rotations[""].never_turned)
        29
    """
    return {name: dict(one) for name, one in _published().items()}


def published_table(length: int | None = None, names: Iterable[str] | None = None) -> Table:
    """Published models: base, trained length, planes that never turned, the bound, and memory, a row for each rotation.

    Args:
        length: Tokens for which new angles and memory are computed; by default what each model promises.
        names: Which models, as `published` names them; by default all, which takes 2 to 3 seconds.

    Returns:
        A table for terminals, notebooks and the book. Needs torch, as `posenc.table` does.
    """
    from posenc.table import Table

    columns = {
        "model": "", "layers": "", "scheme": "", "base": "g", "rope type": "", "trained": "d", "context": "d",
        "planes": "d", "never turned": "d", "new": "d", "Σ cos < 0 at": "d", "KiB a token": ".1f", "GiB": ".1f",
    }  # fmt: skip
    models = published()
    chosen = list(models) if names is None else list(names)
    rows = [row for name in chosen for row in _rows(name, read_config(models[name]["config"]), length)]
    note = (
        "As transformers 5.23 reads the files: DBRX's says 500000, in a field that it does not read. Where no scaling "
        "says otherwise, the trained length is the promised one."
    )
    return Table(columns, rows, caption="Positions in published configurations", note=note)


def _rows(name: str, reading: Reading, length: int | None) -> Iterator[list[Any]]:
    grows, total = reading.bytes_per_token, reading.cache_bytes(length or reading.context or 1)
    end = [grows and grows / 1024, total / 1024**3 if total and (length or reading.context) else None]
    used = dict(Counter(layer.rotation for layer in reading.layers if layer.rotation is not None))
    if not used:
        kinds = ", ".join(f"{count} {kind}" for kind, count in reading.kinds.items())
        yield [name, kinds, reading.scheme, None, None, None, reading.context, None, None, None, None, *end]
    for kind, count in used.items():
        one = reading.rotations[kind]
        if one is None:
            continue
        far = length or reading.context
        new = one.new_planes(far) if far else None
        where = f"{count} {kind.removesuffix('_attention')}".strip()
        yield [
            name, where, "rope", one.base, one.rope_type, one.trained, one.context, one.planes, one.never_turned,
            None if new is None else len(new), one.bound, *end,
        ]  # fmt: skip


__all__ = [
    "At",
    "Layer",
    "PositionScale",
    "Reading",
    "Rotation",
    "main_report",
    "published",
    "published_table",
    "read_config",
]
