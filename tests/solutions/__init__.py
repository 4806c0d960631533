"""Solutions of the exercises that readers can check, and mistakes with the property that each breaks, by chapter."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

SOLUTIONS: dict[str, Callable[..., Any]] = {}
WRONG: dict[str, list[tuple[Callable[..., Any], str]]] = {}
for _module in pkgutil.iter_modules(__path__):
    _found = importlib.import_module(f"{__name__}.{_module.name}")
    SOLUTIONS |= _found.SOLUTIONS
    WRONG |= _found.WRONG
