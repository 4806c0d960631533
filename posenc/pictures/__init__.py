"""Pictures and tables: what they show is said in `views`, and `plot` and `table` draw it."""

from typing import TYPE_CHECKING, Any

from posenc._lazy import lazy

if TYPE_CHECKING:
    from posenc.pictures.table import Table

__all__ = ["Table"]

_get, _ = lazy(__name__, {"posenc.pictures.table": "Table"})


def __getattr__(name: str) -> Any:
    return _get(name)
