"""From which files the book was built. As a program: does the built book need to be built again?"""

import hashlib
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def key() -> str:
    """One short word for all that a notebook's outputs depend on apart from the notebook itself."""
    digest = hashlib.sha256()
    kinds, homes = ("*.py", "*.json", "*.safetensors"), (ROOT / "posenc", ROOT / "evidence")
    files = [path for kind in kinds for home in homes for path in home.rglob(kind)]
    for path in sorted(files):  # programs, and the results and weights that chapters read
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    for name in ("torch", "numpy", "onnx-ir", "onnxscript", "matplotlib", "ipython"):
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    return digest.hexdigest()[:16]


def fingerprint() -> str:
    """One word for all files that the book is built from, what builds it, and the package and libraries as in `key`."""
    digest = hashlib.sha256(key().encode())
    for name in ("jupyter-book", "sphinx", "myst-nb", "sphinx-book-theme"):
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    files = [path for path in (ROOT / "chapters").rglob("*") if path.is_file() and not _scratch(path)]
    files += (ROOT / "posenc/_explore/static").glob("*")  # the front end, which pages carry
    files += [ROOT / name for name in ("_config.yml", "_toc.yml", "references.bib", "package-lock.json")]
    for path in sorted(path for path in files if path.exists()):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _scratch(path: Path) -> bool:
    return any(part == "__pycache__" or part.startswith(".") for part in path.relative_to(ROOT).parts)


def built(out: Path) -> str:
    """The fingerprint of the files that the book in `out` was built from; empty if its build did not succeed."""
    stamp = file(out)
    return stamp.read_text(encoding="utf-8") if stamp.exists() else ""


def file(out: Path) -> Path:
    """Where the stamp of the book in `out` lies."""
    return out.parent / "built-from"


if __name__ == "__main__":
    out = ROOT / "_build/html"
    sys.exit(not (out / "index.html").exists() or built(out) != fingerprint())
