"""Names that are imported when they are first used."""

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any


def lazy(package: str, homes: dict[str, str], modules: Iterable[str] = ()) -> tuple[Callable[[str], Any], list[str]]:
    """The `__getattr__` of a package whose names are imported when they are first used, and those names.

    Args:
        package: The package's `__name__`.
        homes: Names, separated by spaces, by the module in which they are at home.
        modules: Modules that the package shows as its own, by their last name.

    Example:
        >>> import sys
        >>> get, names = lazy("posenc.pictures", {"posenc.pictures.table": "Table"})
        >>> names, get("Table").__name__
        (['Table'], 'Table')
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    whole = {module.rpartition(".")[2]: module for module in modules}

    def get(name: str) -> Any:
        if name in whole:
            value = importlib.import_module(whole[name])
        elif name in home:
            value = getattr(importlib.import_module(home[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get, sorted([*home, *whole])
