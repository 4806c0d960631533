"""posenc.notebook: show, device and book_mode."""

import functools
import inspect
import linecache

import pytest
import torch

import posenc.notebook
from posenc import NoPE, RoPE, rotate
from posenc.notebook import show


class Outer:
    class Inner:
        def method(self):
            return 1


@functools.cache
def decorated(x):
    return x


def notebook(code: str, name: str = "<cell 1>") -> dict:
    """What a notebook does with a cell: its lines are known to linecache, its module is no file."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    namespace = {"__name__": "__main__"}
    exec(compile(code, name, "exec"), namespace)
    return namespace


def test_the_text_is_the_source():
    assert repr(show(rotate)) == inspect.getsource(rotate).rstrip()
    assert repr(show(RoPE)).startswith("class RoPE(Encoding):")
    assert repr(show(NoPE)).startswith("class Encoding(nn.Module):")


def test_several_objects_stand_two_lines_apart():
    assert repr(show(rotate, RoPE)) == f"{show(rotate)!r}\n\n\n{show(RoPE)!r}"


def test_methods_are_shown_without_their_indentation():
    assert repr(show(RoPE.query)).startswith("def query(self")
    assert repr(show(RoPE(8).query)).startswith("def query(self")
    assert repr(show(Outer.Inner)) == "class Inner:\n    def method(self):\n        return 1"
    assert repr(show(decorated)) == "@functools.cache\ndef decorated(x):\n    return x"


def test_what_a_reader_wrote_in_a_notebook_is_shown():
    cell = (
        "def double(x):\n    return 2 * x\n\n\n"
        "class Mine:\n    '''Words.'''\n\n    size = 3\n\n    def embed(self, x):\n        return x\n"
    )
    namespace = notebook(cell)
    assert repr(show(namespace["double"])) == "def double(x):\n    return 2 * x"
    assert repr(show(namespace["Mine"])) == cell[cell.index("class Mine") :].rstrip()


@pytest.mark.parametrize("item", [3, "rotate", len, int, RoPE(8)])
def test_what_has_no_source_is_refused(item):
    with pytest.raises(
        ValueError, match=r"no Python source.*: pass a function or a class, such as show\(posenc\.RoPE\)"
    ):
        show(item)


def test_a_class_whose_cell_is_gone_is_refused():
    with pytest.raises(ValueError, match=r"pass a function or a class"):
        show(notebook("class Bare:\n    size = 3\n", "<cell 2>")["Bare"])


def test_text_outside_the_book_and_html_in_it(monkeypatch):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    source = show(rotate)
    assert not posenc.notebook.book_mode()
    assert source._repr_mimebundle_() == {"text/plain": repr(source)}
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert posenc.notebook.book_mode()
    bundle = source._repr_mimebundle_()
    assert bundle["text/plain"] == repr(source)
    assert bundle["text/html"].startswith('<div class="highlight-python notranslate"><div class="highlight"><pre>')
    assert '<span class="k">def</span>' in bundle["text/html"]
    assert "-&gt;" in bundle["text/html"]


def test_device_is_a_gpu_if_there_is_one(monkeypatch):
    monkeypatch.delenv("POSENC_DEVICE", raising=False)
    assert posenc.notebook.device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_the_environment_decides_on_the_device(monkeypatch):
    monkeypatch.setenv("POSENC_DEVICE", "cpu")
    assert posenc.notebook.device() == torch.device("cpu")
    monkeypatch.setenv("POSENC_DEVICE", "warp")
    with pytest.raises(ValueError, match=r"POSENC_DEVICE is 'warp', .*: use cpu, cuda or cuda:1"):
        posenc.notebook.device()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("POSENC_DEVICE", "cuda")
    with pytest.raises(ValueError, match=r"torch sees no GPU here: unset it, or use cpu"):
        posenc.notebook.device()


def test_glue_names_a_value_in_the_book_only(monkeypatch):
    kept = []
    monkeypatch.setattr("myst_nb.glue", lambda name, value, display: kept.append((name, value, display)))
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    posenc.notebook.glue("answer", 42)
    assert kept == []
    monkeypatch.setenv("POSENC_BOOK", "1")
    posenc.notebook.glue("answer", 42)
    assert kept == [("answer", 42, False)]
