"""What every form has to say: the rope parameters of each kind of layer, complete, as transformers 5 has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.configs.fields import BASE, SHARE, Fields, load
from posenc.configs.parameters import READ, bases_by_layer, reads_rotary_dim, sets
from posenc.configs.reader import Reading, filled, read_config
from posenc.configs.rotation import ALLOWED, NEEDED, Rotation

ROPE = ("rope_parameters", "rope_scaling", *BASE, *SHARE)
"""Fields that say how a model rotates, beside those that only some classes have."""


@dataclass(frozen=True)
class Wanted:
    """A configuration as every form needs it.

    Args:
        fields: The fields of the part that reads text.
        reading: What they say.
        kinds: The rope parameters by kind of layer, by "" for all; None for a kind that does not rotate.
    """

    fields: Fields
    reading: Reading
    kinds: Mapping[str, dict[str, Any] | None]

    @property
    def model_type(self) -> str:
        return self.fields.model_type

    @property
    def context(self) -> int | None:
        return self.reading.context

    def rotation(self, kind: str) -> Rotation:
        found = self.reading.rotations[kind]
        assert found is not None
        return found

    @property
    def turning(self) -> list[Rotation]:
        """The rotations of the kinds that rotate."""
        return [each for each in self.reading.rotations.values() if each is not None]

    @property
    def old_fields(self) -> list[str]:
        """Fields of the file that say how it rotates and that rope parameters replace."""
        by_layer = [field for field, _ in (bases_by_layer(self.fields) or {}).values()]
        return [name for name in dict.fromkeys([*ROPE, *by_layer]) if self.fields.all.get(name) is not None]


def wanted(config: Any) -> Wanted:
    """A configuration as every form needs it.

    Args:
        config: As `read_config` takes it.

    Raises:
        FileNotFoundError, ValueError, TypeError: As `read_config`, and if the model does not rotate.
    """
    reading = read_config(config)
    if reading.scheme != "rope" or not reading.rotations:
        reading.rotation()  # raises, and says what the file lacks or which scheme it has
    fields, _ = filled(load(config))
    raw = sets(fields)
    kinds = {
        kind: None if rotation is None else complete(fields, raw.get(kind) or {}, rotation)
        for kind, rotation in reading.rotations.items()
    }
    return Wanted(fields, reading, kinds)


def complete(fields: Fields, raw: Mapping[str, Any], rotation: Rotation) -> dict[str, Any]:
    """All rope parameters of one kind of layer, with what a reader would have filled in.

    Args:
        fields: The fields of the part that reads text.
        raw: The parameters as the file has them.
        rotation: What they say.
    """
    name, read = rotation.rope_type, rotation.parameters
    out: dict[str, Any] = {"rope_type": name, "rope_theta": rotation.base}
    for key in sorted({*NEEDED[name], *ALLOWED[name]} - {"max_position_embeddings"}):
        if read.get(key) is not None:
            out[key] = list(read[key]) if isinstance(read[key], tuple) else _as_number(key, read[key])
    if name == "proportional":
        out["partial_rotary_factor"] = read["partial_rotary_factor"]
    elif rotation.dims != rotation.head_dim and not (fields.get("rotary_dim") is not None and reads_rotary_dim(fields)):
        out["partial_rotary_factor"] = share(rotation.dims, rotation.head_dim)
    for key in ("mrope_section", "mrope_interleaved"):
        if read.get(key) is not None:
            out[key] = read[key]
    kept = {key: value for key, value in raw.items() if key not in READ and _harmless(value)}
    return {**kept, **out}


def share(dims: int, head_dim: int) -> float:
    """A share of a head that gives the channels again, whoever rounds down.

    Example:
        >>> share(64, 192), int(192 * share(64, 192))
        (0.3333333333333333, 64)
    """
    exact = dims / head_dim
    return exact if int(head_dim * exact) == dims else (dims + 0.5) / head_dim


def _as_number(key: str, value: Any) -> Any:
    """Factors with a point, as transformers 4 asks for, and lengths without."""
    whole = isinstance(value, bool) or key == "original_max_position_embeddings" or not isinstance(value, int)
    return value if whole else float(value)


def _harmless(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)
