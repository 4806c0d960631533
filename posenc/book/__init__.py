"""What only a page of the book needs: the source of what it shows, numbers for its sentences, and a device."""

from typing import TYPE_CHECKING, Any

from posenc._lazy import lazy

if TYPE_CHECKING:
    from posenc.book.notebook import book_mode, device, glue, named, show
    from posenc.book.numbers import evidence

__all__ = ["book_mode", "device", "evidence", "glue", "named", "show"]

_get, _ = lazy(
    __name__, {"posenc.book.notebook": "book_mode device glue named show", "posenc.book.numbers": "evidence"}
)


def __getattr__(name: str) -> Any:
    return _get(name)
