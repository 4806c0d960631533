"""Reading a configuration: what a model's config.json says of positions, without building the model.

Standard library only. What is not in the file is not guessed: where the class of a model type fills in a default, the
reading says so in a note.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from posenc.configs import scheme as schemes
from posenc.configs import tables
from posenc.configs.conflicts import conflicts
from posenc.configs.fields import MOST_TOKENS, Fields, load, number
from posenc.configs.layers import Layer, head_size, key_heads, layers
from posenc.configs.parameters import base, own, place, rotations, share
from posenc.configs.remarks import UNKNOWN, Remark, merged, patch, plain, shown
from posenc.configs.rotation import Rotation, mscale
from posenc.configs.scheme import PositionScale
from posenc.configs.text import text

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


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

    Example:
        >>> read_config({"alibi": True, "n_head": 8, "n_layer": 1, "hidden_size": 64}).at(1024).cache_bytes
        262144
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
        layout: How the class pairs channels that rotate, "half" or "interleaved"; "half" if the class is not known.
        latent: Whether a cache holds one latent vector for all heads (MLA).
        warnings: Fields that contradict each other or that nobody reads, one sentence each, with the remedy: strings
            whose `remedies` are JSON merge patches for the file.
        notes: What else one should know: defaults that were filled in, and what is not known. They have remedies, too.

    Example:
        >>> read_config({"model_type": "llama", "num_hidden_layers": 2}).kinds
        {'full': 2}
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
    layout: str
    warnings: tuple[Remark, ...]
    notes: tuple[Remark, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """How many layers there are of each kind, in the order in which they appear."""
        return dict(Counter(layer.kind for layer in self.layers))

    @property
    def without_rotation(self) -> int:
        """Layers that attend without a rotation although others of the model rotate."""
        attending = [layer for layer in self.layers if layer.kind not in ("linear", "mlp")]
        return sum(layer.rotation is None for layer in attending) if self.scheme == "rope" else 0

    def rotation(self, kind: str | None = None, *, layer: int | None = None) -> Rotation:
        """The rotation of one kind of layer, or of one layer.

        Args:
            kind: The kind, as `rotations` or the layers' own names call it. It may be left out where all layers that
                attend rotate alike.
            layer: The number of a layer, from 0, in place of a kind.

        Returns:
            The `Rotation`.

        Raises:
            ValueError: If the model or these layers do not rotate, if there is no such kind or layer, or if layers
                differ and none is named; the message says which kinds there are.

        Example:
            >>> gemma = read_config({"head_dim": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4})
            >>> gemma.rotation("sliding_attention").base
            10000.0
        """
        if self.scheme != "rope":
            raise ValueError(_no_rotation(self))
        if not self.rotations:
            raise ValueError(f"{self.source} does not say how many channels a head has: {HEAD_REMEDY}")
        if layer is not None:
            return self._of_layer(layer)
        if kind is not None:
            return self._of_kind(kind)
        used = {one.rotation for one in self.layers if one.kind not in ("linear", "mlp", "cross")}
        keys = used or {key if one is not None else None for key, one in self.rotations.items()}
        if len(keys) > 1:
            raise ValueError(f"layer_type is {kind}, and {self.source} has {_kinds(self)}: {_choose(self)}")
        rotation = self.rotations[key] if (key := next(iter(keys))) is not None else None
        if rotation is None:
            raise ValueError(f"no layer of {self.source} rotates: use NoPE()")
        return rotation

    def _of_layer(self, layer: int) -> Rotation:
        if not self.layers:
            raise ValueError(f"{self.source} does not say how many layers there are: add num_hidden_layers")
        if not 0 <= layer < len(self.layers):
            last = len(self.layers) - 1
            raise ValueError(f"layer is {layer}, but {self.source} has layers 0 to {last}: use one of them")
        own_layer = self.layers[layer]
        rotation = self.rotations[own_layer.rotation] if own_layer.rotation is not None else None
        if rotation is None:
            raise ValueError(f"layer {layer}, {own_layer.name!r}, does not rotate: use NoPE() for it")
        return rotation

    def _of_kind(self, kind: str) -> Rotation:
        keys = {one.rotation for one in self.layers if one.name == kind}
        if not keys and kind and kind in self.rotations:
            keys = {kind}
        if len(keys) > 1:
            raise ValueError(f"layers of type {kind!r} differ, for {self.source} has {_kinds(self)}: {_choose(self)}")
        if not keys:
            raise ValueError(f"layer_type is {plain(kind)!r}, and {self.source} has {_kinds(self)}: {_choose(self)}")
        rotation = self.rotations[key] if (key := next(iter(keys))) is not None else None
        if rotation is None:
            raise ValueError(f"layers of type {kind!r} do not rotate: use NoPE() for them")
        return rotation

    def logit_factor(self, kind: str | None = None) -> float:
        """What scores of rotated channels are multiplied by beside 1/√d, in layers of this kind.

        Args:
            kind: A key of `rotations`. Default: the first that rotates.

        Returns:
            The factor, 1.0 in most models.
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
        """What a cache of keys and values takes in a text of `length` tokens, for one sequence.

        States of recurrent layers do not grow with the text and are not counted.

        Args:
            length: Tokens.

        Returns:
            Bytes, or None if what a layer keeps is not known.
        """
        total = 0
        for layer in self.layers:
            if layer.numbers is None:
                return None
            total += layer.numbers * min(length, layer.window or length)
        return self.width * total if self.layers else None

    def at(self, length: int) -> At:
        """Frequencies, new angles and memory in a text of `length` tokens.

        Args:
            length: Tokens.

        Returns:
            An `At`.

        Raises:
            ValueError: If the length is not positive.
        """
        if length < 1:
            raise ValueError(f"length is {length}, but it is a number of tokens: use 1 or more")
        turning = {kind: rotation for kind, rotation in self.rotations.items() if rotation is not None}
        scale = self.position_scale.at(length - 1) if self.position_scale else 1.0
        return At(
            length,
            {kind: rotation.at(length) for kind, rotation in turning.items()},
            {kind: rotation.new_planes(length) for kind, rotation in turning.items()},
            scale,
            self.cache_bytes(length),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as numbers, strings, lists and dicts, for JSON.

        Returns:
            A new dict.
        """
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
            "layers": [asdict(layer) for layer in self.layers],
            "kinds": self.kinds,
            "without_rotation": self.without_rotation,
            "rotations": {kind: each and _rotation_dict(each) for kind, each in self.rotations.items()},
            "score_factor": self.score_factor,
            "position_scale": self.position_scale and asdict(self.position_scale),
            "layout": self.layout,
            "slopes": self.slopes and list(self.slopes),
            "rows": self.rows and list(self.rows),
            "buckets": self.buckets and list(self.buckets),
            "bytes_per_token": self.bytes_per_token,
            "cache_bytes": self.cache_bytes(context) if context else None,
            "warnings": [str(each) for each in self.warnings],
            "notes": [str(each) for each in self.notes],
            "remedies": {
                each.name: list(map(dict, each.remedies)) for each in (*self.warnings, *self.notes) if each.remedies
            },
        }

    def __str__(self) -> str:
        return text(self)

    __repr__ = __str__


HEAD_REMEDY = "add head_dim, or hidden_size and num_attention_heads"


def _no_rotation(reading: Reading) -> str:
    if reading.scheme == "unknown":
        return (
            f"rope_theta is missing, which rope_type 'default' needs ({reading.why}): add rope_theta (10000.0 for most "
            f"models) to {reading.source}"
        )
    return f"{reading.source} describes no rotation: its scheme is {reading.scheme!r}, because of {reading.why}"


def _attending(reading: Reading) -> dict[str, list[Layer]]:
    """The layers that attend within a text, by the name of their kind."""
    groups: dict[str, list[Layer]] = {}
    for one in reading.layers:
        if one.kind not in ("linear", "mlp", "cross"):
            groups.setdefault(one.name, []).append(one)
    return groups


def _alike(reading: Reading) -> bool:
    """Whether there is one rotation, and all layers that attend have it."""
    layers = [one for some in _attending(reading).values() for one in some]
    return [*reading.rotations] == [""] and all(one.rotation is not None for one in layers)


def _kinds(reading: Reading) -> str:
    """Which kinds of layers there are, and whether they rotate."""
    if _alike(reading):
        return "one rotation for all layers"
    parts = [f"{kind!r}{'' if rotation else ', which does not rotate'}" for kind, rotation in reading.rotations.items()]
    if layers := _attending(reading):
        parts = []
        for name, members in layers.items():
            turning = sum(member.rotation is not None for member in members)
            rest = "" if turning == len(members) else f", of which {turning or 'none'} rotate"
            parts.append(f"{len(members)} {name!r}{rest}")
    return f"rotations by kind of layer ({'; '.join(parts[:8])})"


def _choose(reading: Reading) -> str:
    """How to name the layers that are meant."""
    if _alike(reading):
        return "leave it out"
    layers = _attending(reading)
    numbers = f"layer=0 to {len(reading.layers) - 1}" if layers else ""
    turning = {name: {member.rotation for member in members} for name, members in layers.items()}
    if layers and any(len(keys) > 1 for keys in turning.values()):
        return f"pass {numbers}"
    kinds = [name for name, keys in turning.items() if keys != {None}] or [
        kind for kind, member in reading.rotations.items() if member is not None and not kind.startswith("layer ")
    ]
    named = f"layer_type={' or '.join(map(repr, kinds[:8]))}" if kinds else ""
    return "pass " + (" or ".join(filter(None, (named, numbers))) or "layer=…, and add num_hidden_layers")


def read_config(config: Any, *, trained: int | None = None) -> Reading:
    """What a configuration says of positions.

    Args:
        config: A path of a config.json or of the folder that holds it, a dict, or an object with `to_dict()` or with
            the fields as attributes, such as a configuration of transformers. Nothing in the folder is executed.
        trained: The length of texts before any scaling, in tokens, where you know it and the file does not say it.

    Returns:
        A reading, which prints as a report.

    Raises:
        FileNotFoundError: If there is no such file, or no config.json in the folder.
        ValueError: If the file is not JSON, or a field about positions is not what it should be. Also beyond 100,000
            layers, 65,536 channels or heads, or a billion tokens, which would take all memory. Where the remedy is a
            change of the file, the error is an `Unreadable` and has it as `remedies`.
        TypeError: If the argument is none of these.

    Example:
        >>> reading = read_config({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        ...                        "num_hidden_layers": 32, "max_position_embeddings": 4096})
        >>> reading.scheme, reading.rotations[""].base, reading.bytes_per_token
        ('rope', 10000.0, 524288)
    """
    if trained is not None and not 1 <= trained <= MOST_TOKENS:
        raise ValueError(f"trained is {trained}, but it is a length in tokens: use 1 to {MOST_TOKENS}")
    fields, notes = filled(load(config))
    name, why = schemes.scheme(fields)
    turning = _rotations(fields, trained, notes) if name == "rope" else {}
    layers_read = layers(fields, turning)
    turning = _with_reach(turning, layers_read)
    if name == "rope" and not turning:
        notes.append(
            Remark(
                "no-head-size",
                f"the number of channels of a head is missing, so frequencies are unknown: {HEAD_REMEDY}.",
                patch(fields.where("head_dim")),
                merged(patch(fields.where("hidden_size")), patch(fields.where("num_attention_heads"))),
            )
        )
    if not layers_read and fields.count() is not None:
        notes.append(
            Remark(
                "no-kinds-said",
                "the kind of each layer is missing, so memory is unknown: add layer_types.",
                patch(fields.where("layer_types")),
            )
        )
    elif not layers_read:
        notes.append(
            Remark(
                "no-layers",
                "the number of layers is missing, so memory is unknown: add num_hidden_layers.",
                patch(fields.where("num_hidden_layers")),
            )
        )
    elif any(layer.numbers is None for layer in layers_read):
        notes.append(
            Remark("no-memory", "what some layers keep for a token is not fixed or is missing, so memory is unknown.")
        )
    heads = fields.heads()
    return Reading(
        source=fields.source,
        model_type=plain(fields.model_type, 80),
        scheme=name,
        why=plain(why),
        context=fields.context(),
        heads=heads,
        key_heads=key_heads(fields, "any"),
        head_dim=head_size(fields, "any"),
        layers=layers_read,
        rotations=turning,
        score_factor=_score_factor(fields, turning),
        position_scale=schemes.position_scale(fields),
        slopes=schemes.slopes(heads) if name == "alibi" and heads else None,
        rows=schemes.rows(fields, name),
        buckets=schemes.buckets(fields),
        width=_width(fields),
        latent=fields.get("kv_lora_rank") is not None,
        layout=_layout(fields),
        warnings=tuple(conflicts(fields, name, layers_read, turning, trained)),
        notes=tuple(notes),
    )


def filled(fields: Fields) -> tuple[Fields, list[Remark]]:
    """The fields with what a class is known to fill in, and notes about that and about the model type."""
    notes, model_type = [], fields.model_type
    if fields.part:
        notes.append(Remark("part", f"read from {fields.part}, the part that reads text."))
    if not model_type:
        notes.append(
            Remark(
                "no-type",
                "there is no model_type, so the defaults of its class are unknown.",
                patch(fields.where("model_type")),
            )
        )
    elif model_type not in tables.TYPES_OF_5_23:
        notes.append(
            Remark(
                "other-type",
                f"model_type {plain(model_type, 80)!r} is not among the language models of transformers "
                f"{tables.TRANSFORMERS}: read by its fields alone.",
            )
        )
    added: dict[str, Any] = {
        name: value for name, value in tables.KNOWN_PARTS.get(model_type, {}).items() if fields.get(name) is None
    }
    if added:
        values = ", ".join(f"{name} {value}" for name, value in added.items())
        notes.append(Remark("filled", f"not in the file, so the class of {model_type} decides: {values}."))
    if model_type in tables.DEFAULTS and not own(fields):
        added["rope_parameters"] = tables.DEFAULTS[model_type]
        notes.append(
            Remark("rope-filled", f"no rope parameters in the file, so those of the class of {model_type} are used.")
        )
    if added:
        fields = Fields({**fields.all, **added}, fields.source, fields.outer, fields.part)
    return fields, notes


def _rotations(fields: Fields, trained: int | None, notes: list[Remark]) -> dict[str, Rotation | None]:
    by_name: dict[str, Rotation | None] = {}
    seen: set[int] = set()
    for kind, parameters, rotation in rotations(fields, trained):
        by_name[kind] = rotation
        if rotation is None or id(rotation) in seen:
            continue
        seen.add(id(rotation))
        known = fields.model_type in tables.TYPES_OF_5_23 or fields.model_type in tables.BESIDE_WEIGHTS
        default = "as its class has it" if known else "as most models have it"
        theta, where = base(fields, parameters)
        if not where:
            notes.append(
                Remark(
                    "no-base-said",
                    f"the base is not in the file: {theta:g}, {default}.",
                    patch(fields.where("rope_theta"), theta if known else UNKNOWN),
                )
            )
        part, where = share(fields, parameters, rotation.head_dim)
        if not where and part != 1 and fields.get("qk_rope_head_dim") is None:
            notes.append(
                Remark(
                    "no-share-said",
                    f"the share of a head that rotates is not in the file: {part:g}, {default}.",
                    patch(fields.where("partial_rotary_factor"), part),
                )
            )
        if rotation.rope_type == "linear" and rotation.trained is None:
            notes.append(
                Remark(
                    "linear-length",
                    "rope_type 'linear' does not give the trained length: pass trained=… to learn which angles are "
                    "new.",
                )
            )
        if rotation.parameters.get("mrope_section") is not None:
            notes.append(
                Remark(
                    "m-rope",
                    "mrope_section divides the planes among time, rows and columns, whose positions are the same in "
                    "text: for images and video use posenc.schemes.grid.MRoPE.",
                )
            )
    notes[:] = dict.fromkeys(notes)
    return by_name


def _with_reach(turning: Mapping[str, Rotation | None], layers: tuple[Layer, ...]) -> dict[str, Rotation | None]:
    """Each rotation with the longest offset of its layers, if all of them have a window."""
    backs: dict[str, list[int | None]] = {}
    for layer in layers:
        if layer.rotation is not None:
            backs.setdefault(layer.rotation, []).append(layer.back)
    reach = {kind: 1 + max(each or 0 for each in some) for kind, some in backs.items() if None not in some}
    return {kind: replace(one, reach=reach[kind]) if one and kind in reach else one for kind, one in turning.items()}


def _score_factor(fields: Fields, turning: Mapping[str, Rotation | None]) -> float:
    """DeepSeek multiplies all scores by the square of the factor of `mscale_all_dim`; few other classes read it."""
    if fields.model_type not in tables.SCORES_TIMES_MSCALE:
        return 1.0
    weight = number(own(fields).get("mscale_all_dim"), place(fields, "", "mscale_all_dim"), fields.source)
    scaled = next((each for each in turning.values() if each is not None), None)
    if not weight or scaled is None or scaled.rope_type == "default":
        return 1.0
    return mscale(scaled.parameters.get("factor", 1.0), weight) ** 2


def _layout(fields: Fields) -> str:
    """How the code of this model type pairs channels."""
    own, outer = fields.get("rope_interleave"), fields.outer.get("model_type")
    if own is None:
        kinds = {fields.model_type, fields.model_type.removesuffix("_text"), outer if isinstance(outer, str) else ""}
        own = bool(kinds & (tables.INTERLEAVED | tables.INTERLEAVED_BESIDE_WEIGHTS))
    return "interleaved" if own else "half"


def _width(fields: Fields) -> int:
    """Bytes of a number, by the dtype of the file."""
    dtype = fields.get("torch_dtype", "dtype") or fields.outer.get("torch_dtype") or fields.outer.get("dtype")
    return BYTES.get((dtype if isinstance(dtype, str) else shown(dtype)).removeprefix("torch."), 2)


def _rotation_dict(rotation: Rotation) -> dict[str, Any]:
    return {
        "head_dim": rotation.head_dim,
        "dims": rotation.dims,
        "base": rotation.base,
        "rope_type": rotation.rope_type,
        "parameters": {
            key: list(value) if isinstance(value, tuple) else value for key, value in rotation.parameters.items()
        },
        "trained": rotation.trained,
        "reach": rotation.reach,
        "planes": rotation.planes,
        "still": rotation.still,
        "never_turned": rotation.never_turned,
        "new_planes": rotation.new_planes(rotation.context) if rotation.context else None,
        "longest": rotation.longest if rotation.longest < math.inf else None,
        "bound": rotation.bound,
        "attention_factor": rotation.attention_factor,
        "frequencies": list(rotation.frequencies),
    }
