"""posenc.lab.corpus: text is the same everywhere, and what is held out was not trained on."""

import dataclasses
import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc.lab import corpus
from posenc.lab.corpus import HELD_OUT, REPEATED, Corpus, batch, folder, load, python_library, regions


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return root


def parts(found: Corpus) -> tuple[list[str], list[str]]:
    """The files in train and in held_out."""
    train, held_out = (bytes(part.tolist()).decode().split("\0") for part in (found.train, found.held_out))
    return train, held_out


def program(name: str, size: int = 100) -> str:
    """A text of this size that no other name has."""
    return (f"{name}: " + hashlib.sha256(name.encode()).hexdigest() * (1 + size // 64))[:size]


def several(count: int = 40, size: int = 100) -> dict[str, str]:
    return {f"m{n}.py": program(f"m{n}", size) for n in range(count)}


# Folders


def test_a_tenth_is_held_out_and_all_the_rest_is_trained_on(tmp_path):
    files = several()
    found = folder(put(tmp_path / "texts", files))
    train, held_out = parts(found)
    assert sorted(train + held_out) == sorted(files.values())
    assert len(held_out) == 4  # of 40 that are equally long
    assert found.name == "texts" and found.files == 40
    assert found.train.dtype == found.held_out.dtype == torch.uint8


def test_names_decide_what_is_held_out_and_not_what_else_lies_there(tmp_path):
    files = several()
    _, held_out = parts(folder(put(tmp_path, files)))
    order = sorted(files, key=lambda name: hashlib.sha256(name.removesuffix(".py").encode()).digest())
    assert held_out == [files[name] for name in sorted(order[:4])]


def test_the_digest_is_pinned(tmp_path):
    assert folder(put(tmp_path, several())).digest == "6efacb73a60fc6ee"


@pytest.mark.parametrize("where", ["m3.py", "m4.py", "m5.py"])
def test_every_byte_is_in_the_digest(tmp_path, where):
    before = folder(put(tmp_path, several())).digest
    assert folder(put(tmp_path, {where: program("another")})).digest != before


def test_a_byte_that_moves_from_one_part_to_the_other_is_in_the_digest(monkeypatch):
    texts = [(f"{c}.txt", c.encode() * 9) for c in "abc"]
    digests = set()
    for held in ({"a.txt"}, {"c.txt"}, {"b.txt", "c.txt"}):
        monkeypatch.setattr(corpus, "_held_out", lambda texts, held=held: held)
        digests.add(corpus._corpus("letters", texts).digest)
    assert len(digests) == 3


def test_the_order_in_which_the_system_lists_files_does_not_matter(tmp_path, monkeypatch):
    put(tmp_path, {f"{part}/{name}": text + part for part in "ba" for name, text in several(9).items()})
    before, walk = folder(tmp_path), os.walk

    def backwards(root):
        for base, folders, files in walk(root):
            folders.reverse()
            yield base, folders, files[::-1]

    monkeypatch.setattr(os, "walk", backwards)
    after = folder(tmp_path)
    assert torch.equal(before.train, after.train) and before.digest == after.digest


def test_entries_of_the_folder_are_held_out_whole(tmp_path):
    files = {f"{part}{n}/{name}": program(f"{part}{n}/{name}") for n in range(20) for part in "ab" for name in "xyz"}
    train, held_out = parts(folder(put(tmp_path, files)))
    entries = [{text.split("/")[0] for text in side} for side in (train, held_out)]
    assert len(entries[0]) == 36 and len(entries[1]) == 4 and not entries[0] & entries[1]


def test_a_package_and_a_file_of_its_name_are_one_module(tmp_path):
    files = several(60) | {f"m{n}/more.py": program(f"m{n}/more") for n in range(60)}
    train, held_out = parts(folder(put(tmp_path, files)))
    modules = [{text.split(":")[0].split("/")[0] for text in side} for side in (train, held_out)]
    assert len(modules[1]) == 6 and not modules[0] & modules[1]


@pytest.mark.parametrize("beside", [{}, {"README": "read me"}])
def test_files_are_held_out_where_one_entry_is_nearly_all(tmp_path, beside):
    found = folder(put(tmp_path, {f"src/{name}": text for name, text in several().items()} | beside))
    assert len(found.held_out) >= HELD_OUT / 2 * len(found.train)
    assert len(parts(found)[1]) in (4, 5)


def test_of_few_files_the_smallest_is_held_out(tmp_path):
    sizes = {"a": 500, "b": 300, "c": 400, "d": 10}
    found = folder(put(tmp_path, {name: program(name, size) for name, size in sizes.items()}))
    assert sorted(map(len, parts(found)[1])) == [10, 300]


@pytest.mark.parametrize("size", [12, 1_200])
def test_one_of_two_files_is_held_out(tmp_path, size):
    two = folder(put(tmp_path, {"a": "short text", "b": "x" * size}))
    assert parts(two) == (["x" * size], ["short text"])


names = st.text("abcdef", min_size=1, max_size=2)
trees = st.dictionaries(
    st.one_of(names.map("{}.py".format), st.tuples(names, names).map("/".join)),
    st.text("xyz\n", max_size=300),
    min_size=2,
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(trees)
def test_no_file_is_in_both_parts_and_both_have_some(files):
    with tempfile.TemporaryDirectory() as root:
        put(Path(root), files)
        kinds = {text for text in files.values() if text.strip()}
        if len(kinds) < 2:
            with pytest.raises(ValueError, match="needs 2"):
                folder(root)
            return
        found = folder(root)
        train, held_out = parts(found)
        assert not set(train) & set(held_out)
        assert len(train) + len(held_out) == found.files == len(set(train + held_out))
        assert all(text.strip() for text in train + held_out)
        if max(map(len, files.values())) < REPEATED:
            assert set(train + held_out) == kinds
        assert found.digest == folder(root).digest


# What is text, and new


def test_what_is_no_text_is_left_out(tmp_path):
    files = several(20)
    before = folder(put(tmp_path, files)).digest
    put(tmp_path, {"picture.png": b"\x89PNG\xff", "zero": b"a\0b", "empty": b"", "blank": b" \n\n"})
    put(tmp_path, {".git/config": "hidden", ".hidden": "hidden", "__pycache__/m.py": "compiled"})
    (tmp_path / "link.py").symlink_to(tmp_path / "m1.py")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    assert folder(tmp_path).digest == before


def test_other_alphabets_are_text(tmp_path):
    found = folder(put(tmp_path, {"a": "Ἐν ἀρχῇ", "b": "太初有道"}))
    assert {*parts(found)[0], *parts(found)[1]} == {"Ἐν ἀρχῇ", "太初有道"}


def test_a_file_that_is_there_twice_counts_once_and_line_ends_do_not_tell_files_apart(tmp_path):
    long = "\n\n".join(program(c, REPEATED + 50) for c in "abc") + "\n\nend\n"
    found = folder(put(tmp_path, several(5) | {"n1": long, "n2": long, "n3": long.replace("\n", "\r\n")}))
    train, held_out = parts(found)
    assert (train + held_out).count(long) == 1 and found.files == 6


def test_what_is_left_of_a_file_without_repeated_paragraphs_counts_once(tmp_path):
    a, b, c = (program(letter, REPEATED) for letter in "abc")
    files = {"1": f"{a}\n\n{b}\n\nx", "2": f"{a}\n\nx", "3": f"{b}\n\nx", "4": f"{a}\n\n{c}\n\ny"}
    train, held_out = parts(folder(put(tmp_path, files | {"5": files["4"]})))
    assert sorted(train + held_out) == sorted([files["1"], "x", f"{c}\n\ny"])


def test_a_long_paragraph_that_is_repeated_counts_once_and_a_short_one_stays(tmp_path):
    licence, note = program("licence", REPEATED), program("note", REPEATED - 1)
    files = {f"m{n}.py": f"{licence}\n\n{note}\n\n{program(str(n))}\n" for n in range(30)}
    train, held_out = parts(folder(put(tmp_path, files)))
    shorter = {text.removeprefix(f"{licence}\n\n") for name, text in files.items() if name != "m0.py"}
    assert {*train, *held_out} == {files["m0.py"], *shorter}


# Python's library


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.setattr("sysconfig.get_path", lambda name: {"stdlib": str(tmp_path)}[name])
    monkeypatch.setattr(sys, "stdlib_module_names", frozenset({"os", "json", "html", "encodings", "abc", "unittest"}))
    return tmp_path


def test_the_library_is_what_python_calls_so_without_tests_and_tables(library):
    wanted = {"os.py": "os", "abc.py": "abc", "json/__init__.py": "json", "json/test.py": "a module",
              "unittest/case.py": "case", "html/parser.py": "parser"}  # fmt: skip
    other = ["json/tests/test_json.py", "unittest/test/case.py", "encodings/cp1252.py", "html/entities.py",
             "site-packages/json/__init__.py", "dist-packages/os.py", "torch/os.py", "other.py", "json/os.txt",
             "json/__pycache__/decoder.py"]  # fmt: skip
    put(library, {name: program(text) for name, text in wanted.items()} | {name: program(name) for name in other})
    train, held_out = parts(python_library())
    assert sorted(train + held_out) == sorted(map(program, wanted.values()))


def test_a_python_without_source_says_what_else_to_do(library):
    put(library, {"os.pyc": b"\0"})
    with pytest.raises(ValueError, match="folder of text"):
        python_library()


def test_the_library_of_this_python():
    found = python_library()
    version = ".".join(map(str, sys.version_info[:2]))
    assert found.name.startswith(f"Python {version}.") and found.name.endswith(" standard library")
    assert len(found.train) + len(found.held_out) > 5_000_000 and found.files > 300
    assert 0.09 < len(found.held_out) / (len(found.train) + len(found.held_out)) < 0.11
    train, held_out = parts(found)
    assert not set(train) & set(held_out)
    assert len(train) + len(held_out) == found.files
    paragraphs = [{p.strip() for text in side for p in text.split("\n\n")} for side in (train, held_out)]
    assert not any(len(p.encode()) >= REPEATED for p in paragraphs[0] & paragraphs[1])
    again = python_library()
    assert again.digest == found.digest and torch.equal(again.train, found.train)


# The text of this package


def test_the_text_that_comes_along_is_the_library_that_it_names():
    found = load(None)
    assert (found.name, found.digest) == ("Python 3.11.7 standard library", "be556b5c54991c3f")
    if platform.python_version() == "3.11.7":
        own = python_library()
        assert own == dataclasses.replace(found, train=own.train, held_out=own.held_out)
        assert torch.equal(own.train, found.train) and torch.equal(own.held_out, found.held_out)
    assert b"PYTHON SOFTWARE FOUNDATION LICENSE" in (corpus.SHIPPED / "LICENSE").read_bytes()


def test_a_text_is_stored_and_read_again(tmp_path, monkeypatch):
    put(tmp_path / "text", {f"m{n}.py": program(f"m{n}") for n in range(20)})
    written = folder(tmp_path / "text")
    monkeypatch.setattr(corpus, "SHIPPED", tmp_path)
    corpus.store(written, tmp_path)
    found = corpus.shipped.__wrapped__()
    assert found.digest == written.digest and torch.equal(found.held_out, written.held_out)
    assert found.files == written.files
    (tmp_path / "train.xz").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="install"):
        corpus.shipped.__wrapped__()


# Windows


def naive_regions(text: list[int], span: int, context: int, count: int) -> list[list[int]]:
    size = context + span + 1
    starts = [n * (len(text) - size) // max(1, count - 1) for n in range(count)]
    return [text[start : start + size] for start in starts]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 50))
def test_regions_are_spread_over_the_text_and_no_token_is_scored_twice(span, context, count, more):
    text = torch.arange(context + count * span + 1 + more, dtype=torch.uint8)  # each byte says where it is
    found = regions(text, span, context, count)
    assert found.shape == (count, context + span + 1) and found.dtype == torch.int64
    assert found.tolist() == naive_regions(text.tolist(), span, context, count)
    scored = found[:, context + 1 :].flatten().tolist()
    assert len(set(scored)) == len(scored) == count * span
    assert found[0, 0] == 0 and (count == 1 or found[-1, -1] == len(text) - 1)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 60), st.integers(0, 99))
def test_windows_are_pieces_of_the_text(length, count, more, seed):
    text = torch.arange(length + more, dtype=torch.uint8)
    found = batch(text, length, count, torch.Generator().manual_seed(seed))
    assert found.shape == (count, length + 1) and found.dtype == torch.int64
    assert (found.diff(dim=1) == 1).all()
    assert torch.equal(found, batch(text, length, count, torch.Generator().manual_seed(seed)))


def test_windows_begin_anywhere_and_as_often():
    text: Tensor = torch.arange(14, dtype=torch.uint8)
    often = batch(text, 4, 10_000, torch.Generator().manual_seed(0))[:, 0].unique(return_counts=True)
    assert often[0].tolist() == list(range(10))  # the last is 9 … 13
    assert (often[1] - 1000).abs().max() < 150


# Bad input


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        load(tmp_path / "nowhere")
    put(tmp_path, {"file": "text"})
    with pytest.raises(ValueError, match="file is not a folder"):
        load(str(tmp_path / "file"))


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "deeper" / "still").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"no files .*put text"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("files", "count"),
    [({"a": b"\xff"}, 0), ({"a": "one"}, 1), ({"a": "one", "b": "one"}, 1), ({"a": "one", "b": b"\0"}, 1)],
)
def test_too_few_texts_are_refused(tmp_path, files, count):
    with pytest.raises(ValueError, match=f"{count} files .* 2.*add files"):
        load(put(tmp_path, files))


def test_a_text_that_is_too_short_is_refused():
    generator, text = torch.Generator(), torch.zeros(10, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"10 \+ 1 .* 10: shorten"):
        batch(text, 10, 1, generator)
    batch(text, 9, 1, generator)
    with pytest.raises(ValueError, match=r"3 spans .* 11 .* 10.*fewer"):
        regions(text, 3, 1, 3)
    regions(text, 3, 0, 3)


@pytest.mark.parametrize(("length", "count"), [(0, 1), (-1, 1), (1, 0)])
def test_windows_of_nothing_are_refused(length, count):
    with pytest.raises(ValueError, match="at least 1"):
        batch(torch.zeros(9, dtype=torch.uint8), length, count, torch.Generator())


@pytest.mark.parametrize(("span", "context", "count"), [(0, 1, 1), (1, -1, 1), (1, 0, 0)])
def test_regions_of_nothing_are_refused(span, context, count):
    with pytest.raises(ValueError, match="at least one"):
        regions(torch.zeros(9, dtype=torch.uint8), span, context, count)


def test_packages_that_are_installed_are_a_corpus(tmp_path, monkeypatch):
    for name in ("one/a.py", "one/tests/b.py", "two/c.py", "two/data.txt", "three.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n" * 10)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    found = corpus.load("installed")
    assert found.files == 3
    text = bytes(found.train.tolist()) + bytes(found.held_out.tolist())
    assert b"tests" not in text and b"data" not in text and b"three.py" in text
    for path in tmp_path.rglob("*.py"):
        path.unlink()
    with pytest.raises(ValueError, match=r"no packages .* folder of text"):
        corpus.load("installed")
