"""What only some of posenc needs: torch is enough for encodings, attention, models and the audit."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Says what to install where a package is missing that an extra of posenc brings.

    Args:
        name: The extra in pyproject.toml.

    Raises:
        ImportError: If an import in the block fails for want of a package.

    Example:
        >>> try:
        ...     with extra("plot"):
        ...         import matplotlab
        ... except ImportError as error:
        ...     print(error)
        matplotlab is missing: run python -m pip install matplotlab, which the extra "plot" of posenc brings
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0]
        raise ImportError(
            f'{missing} is missing: run python -m pip install {missing}, which the extra "{name}" of posenc brings',
            name=error.name,
        ) from None
