"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path in the same folder, which takes the place of `path` when the block ends.

    The file is on the disk before it is renamed, so a crash leaves the old file or the new one. If the block raises,
    the temporary file is removed and the old file stays. Missing folders are made.

    Args:
        path: The file to write.

    Raises:
        OSError: If the folder cannot be made or the file cannot be written, for example because the disk is full.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "new" / "note.txt"
        >>> with atomic(path) as part:
        ...     _ = part.write_text("all of it")
        >>> path.read_text()
        'all of it'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
