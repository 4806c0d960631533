"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STALE = 3600  # seconds after which what a killed process has left behind is removed


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path on the same disk, which takes the place of `path` when the block ends.

    The file is on the disk before it is renamed, so a crash leaves the old file or the new one. If the block raises,
    the temporary file is removed and the old file stays. Missing folders are made. A link stays, and the file that it
    leads to is replaced; a file keeps its mode and owner. What is there and is no file, such as /dev/null, a terminal
    or a pipe, is written to directly.

    Args:
        path: The file to write.

    Raises:
        IsADirectoryError: If it is a folder.
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
    before = _found(path)
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if before is not None and (not stat.S_ISREG(before.st_mode) or _is_descriptor(path)):
        yield path
        return
    path = Path(os.path.realpath(path))  # of a link, what it leads to
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
    # A folder of its own, made anew and for this user alone: nobody else can have put a link where the file goes
    room = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent))
    part = room / path.name
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if before is not None:
            _like(part, before)
        part.replace(path)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _found(path: Path) -> os.stat_result | None:
    """What is there, at the end of all links; None if there is nothing."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_descriptor(path: Path) -> bool:
    """Whether it names an open file, as /dev/stdout does, which somebody else goes on writing to."""
    return path.is_symlink() and path.absolute().parts[1:2] in (("dev",), ("proc",))


def _like(part: Path, before: os.stat_result) -> None:
    """Gives a file the owner, as far as that is allowed, and the mode of the one that it replaces."""
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(part, before.st_uid, before.st_gid)
    part.chmod(stat.S_IMODE(before.st_mode))


def _remove_stale(path: Path) -> None:
    """Removes what processes that were killed while they wrote this file have left behind."""
    with os.scandir(path.parent) as entries:
        for entry in entries:
            mine = entry.name.startswith(f".{path.name[:100]}.") and entry.name.endswith(".part")
            with contextlib.suppress(OSError):  # another process was faster
                if mine and entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime < time.time() - STALE:
                    shutil.rmtree(entry.path, ignore_errors=True)
