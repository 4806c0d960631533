"""Explorers that a build keeps, so that tests compare its pages with torch without executing the notebooks again."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from posenc._explore.explorer import Explorer

FOLDER = "POSENC_EXPLORERS"  # the environment variable that names the folder; nothing is kept without it


def keep(explorer: Explorer, identity: str) -> None:
    """Store the explorer, with all that its function uses of the notebook, under the id of its element."""
    if FOLDER in os.environ:
        import cloudpickle  # pickle itself stores a notebook's functions by their name only

        Path(os.environ[FOLDER], f"{identity}.pickle").write_bytes(cloudpickle.dumps(explorer))


def kept(folder: Path) -> dict[str, Explorer]:
    """The explorers of a folder by the id of their element. Unpickling runs code: read only what your build wrote."""
    return {path.stem: pickle.loads(path.read_bytes()) for path in sorted(folder.glob("*.pickle"))}
