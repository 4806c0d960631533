"""Text as bytes, on any machine and without a download: the source of Python 3.11's library, or a folder.

Bytes need no tokeniser, so a loss in nats per token means the same for all. Whole modules are held out, and paragraphs
that also occur in the training text are removed from them: memorising the training text does not help.
"""

import functools
import hashlib
import lzma
import os
import platform
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from posenc._atomic import atomic
from posenc.lab import evidence

SHIPPED = evidence.FOLDER / "text"
PARTS = ("train", "held_out")
HELD_OUT = 0.1  # of all bytes
REPEATED = 200  # bytes from which on a paragraph is text only once: licences, and what modules copy from one another
TESTS = {"test", "tests", "idle_test"}
TABLES = {"encodings", "msilib", "pydoc_data", "stringprep.py", "locale.py", "html/entities.py", "re/_casefix.py"}


@dataclass(frozen=True)
class Corpus:
    """A text to train on, and held-out text of the same kind. Files are joined by one zero byte.

    Example:
        >>> text = torch.frombuffer(bytearray(b"to be or not to be"), dtype=torch.uint8)
        >>> Corpus("a line", text[:12], text[12:], digest="0" * 16, files=1).held_out.shape
        torch.Size([6])
    """

    name: str
    """Its name in results."""
    train: Tensor
    """The training text, (N,) uint8."""
    held_out: Tensor
    """The held-out text, (M,) uint8: about a tenth of all bytes, from modules that are not in `train`."""
    digest: str
    """The first 16 hexadecimal digits of a SHA-256 of both texts."""
    files: int
    """The number of files."""


def load(path: str | os.PathLike[str] | None) -> Corpus:
    """The text in a folder; or, if `path` is None, the text of posenc-evidence, the same on every machine.

    "installed" is the text of all Python packages here.
    """
    if path is None:
        return shipped()
    return installed() if path == "installed" else folder(path)


@functools.cache
def shipped() -> Corpus:
    """The source of Python 3.11.7's standard library, 9.7 MB, as `python_library` found it there.

    Raises:
        ValueError: If its files are missing or damaged.

    Example:
        >>> text = shipped()
        >>> text.name, text.digest, len(text.train)
        ('Python 3.11.7 standard library', 'be556b5c54991c3f', 8722113)
    """
    try:
        parts = [lzma.decompress((SHIPPED / f"{part}.xz").read_bytes()) for part in PARTS]
    except (OSError, lzma.LZMAError) as error:
        raise ValueError(f"the text in {SHIPPED} is missing or damaged: {evidence.remedy()} ({error})") from error
    return _joined("Python 3.11.7 standard library", parts)


def store(corpus: Corpus, place: str | os.PathLike[str]) -> None:
    """Writes the two texts of a corpus, compressed, as those in this package were written."""
    for part in PARTS:
        with atomic(Path(place) / f"{part}.xz") as path:
            path.write_bytes(lzma.compress(getattr(corpus, part).numpy().tobytes(), preset=9 | lzma.PRESET_EXTREME))


def python_library() -> Corpus:
    """The source of the running Python's standard library, some 9 MB, and nothing that was installed besides.

    Left out are tests and what no one wrote as prose or program: character tables (`encodings`, `stringprep`,
    `html.entities`, `re._casefix`, `locale`), `msilib`'s schemas, and `pydoc_data`, the manual as one string.
    Modules are held out whole: a package, or a file at the top. Which ones follows from their names' hashes.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files: list[tuple[str, bytes]] = []
    for name, path in _files(root, lambda name: name.split("/")[0].removesuffix(".py") in sys.stdlib_module_names):
        parents = {part.as_posix() for part in Path(name).parents} | {name}
        if name.endswith(".py") and not parents & TABLES and not TESTS & set(name.split("/")):
            files.append((name, path.read_bytes()))
    if not files:
        raise ValueError(f"this Python has no source of its library in {root}: give a folder of text instead")
    return _corpus(f"Python {platform.python_version()} standard library", files)


def installed() -> Corpus:
    """The source of all Python packages that are installed here, for models that would soon know the library by heart.

    Left out are tests. Packages are held out whole.
    """
    root = Path(sysconfig.get_path("purelib"))
    named = _files(root, lambda name: not TESTS & set(name.split("/")))
    files = [(name, path.read_bytes()) for name, path in named if name.endswith(".py")]
    if not files:
        raise ValueError(f"there are no packages with source in {root}: give a folder of text instead")
    return _corpus("Python packages", files)


def folder(path: str | os.PathLike[str]) -> Corpus:
    """All text below a folder: what is UTF-8 without a zero byte. Hidden files and links are left out.

    Held out are whole entries of the folder, which follow from their names' hashes, or, if entries are too
    large for that, single files. Raises ValueError if there are not two files of text.
    """
    root = Path(path)
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder: a corpus is a folder with files of text")
    files = [(name, file.read_bytes()) for name, file in _files(root, lambda name: True)]
    if not files:
        raise ValueError(f"there are no files below {root}: put text in it, or choose another folder")
    return _corpus(root.resolve().name or "folder", files)


def batch(text: Tensor, length: int, count: int, generator: torch.Generator) -> Tensor:
    """Windows that begin at random places of a text.

    Args:
        text: Text (N,), uint8.
        length: Tokens of a window, without the token after the last one.
        count: The number of windows.
        generator: Draws the places.

    Returns:
        Token ids (count, length + 1), int64, which are `length` tokens and the one that follows.

    Raises:
        ValueError: If the text is not longer than `length`, or a number is less than 1.
    """
    if length < 1 or count < 1:
        raise ValueError(f"{count} windows of {length} bytes: take a length and a count of at least 1")
    if len(text) <= length:
        raise ValueError(f"windows of {length} + 1 bytes do not fit in {len(text)}: shorten them, or take more text")
    start = torch.randint(len(text) - length, (count, 1), generator=generator, device=generator.device)
    return text[start.to(text.device) + torch.arange(length + 1, device=text.device)].long()


def regions(text: Tensor, span: int, context: int, count: int) -> Tensor:
    """Windows at evenly spaced places of a text. No two windows share a token that is to be predicted.

    Args:
        text: Text (N,), uint8.
        span: Tokens of a window that are to be predicted: the last ones.
        context: Tokens before these.
        count: The number of windows.

    Returns:
        Token ids (count, context + span + 1), int64.

    Raises:
        ValueError: If the text is too short, or a number is too small.
    """
    if span < 1 or context < 0 or count < 1:
        raise ValueError(f"{count} spans of {span} after {context} bytes: take at least one of one, after 0 or more")
    if len(text) < (needed := context + count * span + 1):
        raise ValueError(
            f"{count} spans of {span} bytes after {context} need {needed} bytes of text, and there are {len(text)}: "
            "ask for fewer or shorter ones, or take more text"
        )
    size = context + span + 1
    start = torch.arange(count, device=text.device) * (len(text) - size) // max(count - 1, 1)
    return text[start[:, None] + torch.arange(size, device=text.device)].long()


def _files(root: Path, wanted: Callable[[str], bool]) -> list[tuple[str, Path]]:
    """Regular files below root with their names, such as json/decoder.py, sorted in the same way on any machine."""
    paths: dict[str, Path] = {}
    for base, folders, files in os.walk(root):
        path = {n: Path(base, n) for n in (*folders, *files) if not n.startswith(".") and n != "__pycache__"}
        name = {n: p.relative_to(root).as_posix() for n, p in path.items()}
        folders[:] = [n for n in folders if n in name and wanted(name[n])]
        paths |= {name[n]: path[n] for n in files if n in name and wanted(name[n])}
    return [(name, p) for name, p in sorted(paths.items()) if p.is_file() and not p.is_symlink()]


def _corpus(name: str, files: list[tuple[str, bytes]]) -> Corpus:
    """A corpus of those files that are text, without repeated paragraphs, in two parts."""
    texts: dict[str, bytes] = {}
    whole: set[bytes] = set()
    paragraphs: set[bytes] = set()
    for file, data in files:
        data = data.replace(b"\r\n", b"\n")
        if not _is_text(data) or data in whole:
            continue
        new = _unrepeated(data, paragraphs)
        if new.strip() and new not in whole:
            texts[file] = new
        whole |= {data, new}
    if len(texts) < 2:
        raise ValueError(
            f"{name} has {len(texts)} files of text (in UTF-8, each different), and a corpus needs 2, one of them to "
            "be held out: add files, or divide the one"
        )
    held = _held_out(texts)
    parts = [b"\0".join(data for file, data in texts.items() if (file in held) == side) for side in (False, True)]
    return _joined(name, parts)


def _joined(name: str, parts: list[bytes]) -> Corpus:
    """A corpus of two texts, each of files that are joined by one zero byte."""
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    train, held_out = (torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in parts)
    return Corpus(name, train, held_out, digest, sum(part.count(0) + 1 for part in parts))


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _unrepeated(data: bytes, seen: set[bytes]) -> bytes:
    """Without the long paragraphs that were seen before, in this file or in others."""
    kept = []
    for paragraph in data.split(b"\n\n"):
        known = (key := paragraph.strip()) in seen
        if len(key) >= REPEATED:
            seen.add(key)
        if not known:
            kept.append(paragraph)
    return b"\n\n".join(kept)


def _held_out(texts: dict[str, bytes]) -> set[str]:
    """Modules, or, if these leave less than half of what is wanted, files, or the smallest file that is too large."""
    held = _fitting(texts, lambda file: file.split("/")[0].removesuffix(".py"))
    enough = HELD_OUT / 2 * sum(map(len, texts.values()))
    if sum(len(texts[file]) for file in held) < enough:
        held = _fitting(texts, lambda file: file)
        rest = sorted(texts.keys() - held, key=lambda file: (len(texts[file]), file))
        if sum(len(texts[file]) for file in held) < enough and len(rest) > 1:
            held.add(rest[0])
    return held


def _fitting(texts: dict[str, bytes], unit: Callable[[str], str]) -> set[str]:
    """Units, in the order of their names' hashes, as far as they fit in the share that is held out; their files."""
    sizes: dict[str, int] = {}
    for file, data in texts.items():
        sizes[unit(file)] = sizes.get(unit(file), 0) + len(data)
    room, held = HELD_OUT * sum(sizes.values()), set()
    for name in sorted(sizes, key=lambda name: hashlib.sha256(os.fsencode(name)).digest()):
        if sizes[name] <= room:
            held.add(name)
            room -= sizes[name]
    return {file for file in texts if unit(file) in held}
