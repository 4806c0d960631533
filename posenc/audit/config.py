"""Configurations, as the audit takes them: `posenc.configs` reads them, and a table shows those of published models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from posenc import configs
from posenc.configs import *  # noqa: F403
from posenc.configs import Reading, published, read_config

if TYPE_CHECKING:
    from posenc.pictures.table import Table

__all__ = [*configs.__all__, "published_table"]


def published_table(length: int | None = None, names: Iterable[str] | None = None) -> Table:
    """Published models: base, trained length, planes that never turned, the bound, and memory, a row for each rotation.

    Args:
        length: Tokens for which new angles and memory are computed. Default: what each model promises.
        names: Which models, as `published` names them. Default: all, which takes 2 to 3 seconds.

    Returns:
        A table for terminals, notebooks and the book. Needs torch, as `posenc.pictures.table` does.
    """
    from posenc.pictures.table import Table

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
        kinds = ", ".join(f"{count} {name_of_rotation}" for name_of_rotation, count in reading.kinds.items())
        yield [name, kinds, reading.scheme, None, None, None, reading.context, None, None, None, None, *end]
    for name_of_rotation, count in used.items():
        rotation = reading.rotations[name_of_rotation]
        if rotation is None:
            continue
        far = length or reading.context
        new = rotation.new_planes(far) if far else None
        where = f"{count} {name_of_rotation.removesuffix('_attention')}".strip()
        yield [
            name, where, "rope", rotation.base, rotation.rope_type, rotation.trained, rotation.context, rotation.planes,
            rotation.never_turned, None if new is None else len(new), rotation.bound, *end,
        ]  # fmt: skip
