"""tools/editions.py: books of releases lie beside the newest, newest first, and nothing lies outside."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from editions import FIRST, LINK, add, main


@pytest.fixture
def html(tmp_path: Path) -> Path:
    page = tmp_path / "html" / FIRST
    page.parent.mkdir(parents=True)
    page.write_text("<main><article><h1>The newest</h1></article></main>", encoding="utf-8")
    return tmp_path / "html"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "releases").mkdir()
    return tmp_path / "releases"


def pack(folder: Path, tag: str, *, name: str = FIRST) -> None:
    with zipfile.ZipFile(folder / f"{tag}.zip", "w") as pages:
        pages.writestr(name, f"<article>{tag}</article>")


def test_each_release_has_a_folder_and_the_newest_is_first(html: Path, folder: Path) -> None:
    for tag in ("v0.9.0", "v0.10.0", "v0.2.0"):
        pack(folder, tag)
    assert add(html, folder) == ["v0.10.0", "v0.9.0", "v0.2.0"]
    page = (html / "editions.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]+)"', page)
    assert links == [FIRST, *(f"{tag}/{FIRST}" for tag in ("v0.10.0", "v0.9.0", "v0.2.0"))]
    assert all((html / link).exists() for link in links)
    assert add(html, folder) and (html / FIRST).read_text(encoding="utf-8").count(LINK) == 1
    assert (html / FIRST).parent.joinpath("../editions.html").resolve() == (html / "editions.html").resolve()


def test_without_a_release_nothing_changes(html: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (html / FIRST).read_text(encoding="utf-8")
    assert main([str(html), str(folder)]) == 0
    assert "none yet" in capsys.readouterr().out
    assert (html / FIRST).read_text(encoding="utf-8") == before and not (html / "editions.html").exists()


@pytest.mark.parametrize(
    ("tag", "name", "said"),
    [
        ("latest", FIRST, "named by a tag"),
        ("v0.2.0", f"html/{FIRST}", "not the folder"),
    ],
)
def test_what_is_no_book_of_a_release_is_said(tag: str, name: str, said: str, html: Path, folder: Path) -> None:
    pack(folder, tag, name=name)
    with pytest.raises(ValueError, match=said):
        add(html, folder)


def test_no_file_lies_outside(html: Path, folder: Path) -> None:
    pack(folder, "v0.2.0")
    with zipfile.ZipFile(folder / "v0.2.0.zip", "a") as pages:
        pages.writestr("../../escaped.html", "out")
    with pytest.raises(ValueError, match="outside"):
        add(html, folder)
    assert not (html.parent / "escaped.html").exists() and not (html / "v0.2.0").exists()


def test_a_book_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path)]) == 1
    assert "build the book first" in capsys.readouterr().err
