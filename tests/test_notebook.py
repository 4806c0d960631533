"""posenc.book.notebook: show, device and book_mode."""

import ast
import functools
import importlib
import inspect
import linecache
import xml.etree.ElementTree as ET

import pytest
import torch

import posenc.book.notebook
from posenc import SCHEMES, NoPE, RoPE, rotate
from posenc.book.notebook import show
from posenc.book.source import shorten


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


def text(*objects, **options) -> str:
    return show(*objects, **options).text


def test_the_full_text_is_the_source():
    assert repr(show(rotate, full=True)) == inspect.getsource(rotate).rstrip()
    assert repr(show(RoPE, full=True)).startswith("class RoPE(Encoding):")
    assert repr(show(NoPE, full=True)).startswith("class Encoding(nn.Module):")
    assert repr(show(rotate, RoPE, full=True)) == f"{show(rotate, full=True)!r}\n\n\n{show(RoPE, full=True)!r}"


def test_several_objects_stand_two_lines_apart():
    assert text(rotate, RoPE) == f"{text(rotate)}\n\n\n{text(RoPE)}"


def test_methods_are_shown_without_their_indentation():
    assert text(RoPE.query).startswith("def query(self")
    assert text(RoPE(8).query).startswith("def query(self")
    assert text(Outer.Inner) == "class Inner:\n    def method(self):\n        return 1"
    assert text(decorated) == "@functools.cache\ndef decorated(x):\n    return x"


def test_what_a_reader_wrote_in_a_notebook_is_shown():
    cell = (
        "def double(x):\n    return 2 * x\n\n\n"
        "class Mine:\n    '''Words.'''\n\n    size = 3\n\n    def embed(self, x):\n        return x\n"
    )
    namespace = notebook(cell)
    assert repr(show(namespace["double"])) == "def double(x):\n    return 2 * x"
    assert repr(show(namespace["Mine"])) == cell[cell.index("class Mine") :].rstrip()


def test_a_long_class_of_a_notebook_is_shortened():
    cell = "class Mine:\n    '''Words.\n\n    More.\n    '''\n\n    def embed(self, x):\n        return x\n"
    shown = show(notebook(cell, "<cell 3>")["Mine"])
    assert shown.text == "class Mine:\n    '''Words.'''\n\n    def embed(self, x):\n        return x"
    assert shown.full == cell.rstrip()
    assert repr(shown).splitlines()[-1].startswith("# Shortened.")
    assert "__main__" in repr(shown) or "this notebook" in repr(shown)


# Shorter sources

LONG = '''
def scores(q, k, pos):
    """Scores of all pairs, and a first paragraph that is so long that one line of 88 characters cannot hold all of it.

    Args:
        q: Queries.
    """
    # One comment.

    _check.positions(pos)
    require_even(q.shape[-1])
    if pos.ndim > 1:
        _check_batch(q, k)
    if not q.numel():
        _check.whole(q)
    elif k.numel():
        return first_of_the_functions(q, k)[0] + second_of_the_functions(k, q)[0] + third(q, k)  # rare
    return q @ k.mT  # fmt: skip
'''


def test_checks_long_docstrings_and_long_lines_go():
    shown, left_out = shorten(LONG)
    assert left_out
    assert shown == (
        "def scores(q, k, pos):\n"
        '    """Scores of all pairs, and a first paragraph that is so long that one line of 88\n'
        '    characters cannot hold all of it."""\n'
        "    # One comment.\n"
        "\n"
        "    if not q.numel():\n"
        "        pass\n"
        "    elif k.numel():\n"
        "        # rare\n"
        "        return first_of_the_functions(q, k)[0] + second_of_the_functions(k, q)[0] \\\n"
        "            + third(q, k)\n"
        "    return q @ k.mT"
    )
    assert "check" not in shown and "require" not in shown and "Args" not in shown and "fmt" not in shown
    assert "# One comment." in shown and "# rare" in shown
    assert max(map(len, shown.splitlines())) <= 88
    ast.parse(shown)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("def f(x):\n    _check_x(x)", "def f(x):\n    pass"),
        ("def f(x):\n    if x:\n        _check_x(x)\n    return x", "def f(x):\n    return x"),
        (
            "if x:\n    require_a(x)\nelse:\n    y = 2",
            "if x:\n    pass\nelse:\n    y = 2",
        ),
        ("for x in y:\n    posenc._check.a(x)", "for x in y:\n    pass"),
        ("x = _check.matrix(y)  # kept", "x = _check.matrix(y)  # kept"),
        ("my_check(x)", "my_check(x)"),
        ("class A:\n    '''One.\n\n    Two.'''", "class A:\n    '''One.'''"),
        ("def f():\n    r'''One\n    two.\n\n    Three.\n    '''", "def f():\n    r'''One\n    two.'''"),
        ("x = 1  # noqa: E501", "x = 1"),
    ],
)
def test_what_is_left_out(source, wanted):
    assert shorten(source)[0] == wanted


@pytest.mark.parametrize(
    "line",
    [
        "result = function_with_a_name(" + ", ".join(f"argument_{n}" for n in range(12)) + ")",
        "def function_with_a_name(" + ", ".join(f"argument_{n}: int = {n}" for n in range(12)) + "): pass",
        "total = " + " + ".join(f"summand_{n}" for n in range(12)),
        "told = f'with {a} and {b[\"c\"]} in a sentence that does not end before the line does, of {len(it)} words'",
        "told = f'" + "word " * 12 + "{the_first if a_condition else the_second + the_third} more'",
        "raise ValueError('a message that is very long and says what to do, in many words: do this, and not that')",
        "if " + " and ".join(f"condition_{n}" for n in range(12)) + ": x = 1",
        "x = [value for value in some_function_with_a_name(argument, another) if value is not None and value > 100]",
    ],
)
def test_long_lines_are_broken_and_mean_the_same(line):
    assert len(line) > 88
    for source in (line, f"def f():\n    {line}"):
        shown, left_out = shorten(source)
        assert max(map(len, shown.splitlines())) <= 88
        assert ast.dump(ast.parse(shown)) == ast.dump(ast.parse(source))
        assert not left_out


def bare(tree: ast.AST) -> str:
    """A program without its docstrings."""
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return ast.dump(tree)


OTHERS = ["_attention.call", "_attention.cache", "schemes.scaling", "lab.evaluation", "_properties"]


@pytest.mark.parametrize("name", [*sorted(SCHEMES), *OTHERS])
def test_sources_of_the_package_are_shown_in_88_columns_and_stay_valid(name):
    home = type(SCHEMES[name].make(model_dim=8, heads=2, head_dim=4, length=8)).__module__ if name in SCHEMES else None
    module = importlib.import_module(home or f"posenc.{name}")
    for item in vars(module).values():
        here = getattr(item, "__module__", "") == module.__name__
        if here and (inspect.isfunction(item) or inspect.isclass(item)) and "check" not in item.__name__:
            shown, whole = show(item), text(item, full=True)
            assert max(map(len, repr(shown).splitlines())) <= 88
            tree = ast.parse(repr(shown))
            if "check" not in whole and "require" not in whole:
                assert bare(tree) == bare(ast.parse(whole))


@pytest.mark.parametrize("item", [3, "rotate", len, int, RoPE(8)])
def test_what_has_no_source_is_refused(item):
    with pytest.raises(ValueError, match=r"source.*pass .*show\(posenc\.RoPE\)"):
        show(item)


def test_a_class_whose_cell_is_gone_is_refused():
    with pytest.raises(ValueError, match="pass a function"):
        show(notebook("class Bare:\n    size = 3\n", "<cell 2>")["Bare"])


def test_text_outside_the_book_and_html_in_it(monkeypatch):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    source = show(rotate, RoPE)
    assert not posenc.book.notebook.book_mode()
    assert source._repr_mimebundle_() == {"text/plain": repr(source)}
    assert repr(source).splitlines()[-1].startswith("# Shortened. The full source is in posenc.schemes.rope;")
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert posenc.book.notebook.book_mode()
    bundle = source._repr_mimebundle_()
    assert bundle["text/plain"] == repr(source)
    assert bundle["text/html"].startswith('<div class="highlight-python notranslate"><div class="highlight"><pre>')
    assert '<span class="k">def</span>' in bundle["text/html"]
    assert "-&gt;" in bundle["text/html"]
    page = ET.fromstring(f"<body>{bundle['text/html']}</body>")
    assert page.find("details/summary").text == "Full source: posenc.schemes.rope"
    short, whole = ("".join(box.itertext()).strip() for box in page.iter("pre"))
    assert (short, whole) == (source.text, text(rotate, RoPE, full=True))
    assert "<details" not in show(rotate, full=True)._repr_mimebundle_()["text/html"]


def test_device_is_a_gpu_if_there_is_one(monkeypatch):
    monkeypatch.delenv("POSENC_DEVICE", raising=False)
    assert posenc.book.notebook.device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_the_environment_decides_on_the_device(monkeypatch):
    monkeypatch.setenv("POSENC_DEVICE", "cpu")
    assert posenc.book.notebook.device() == torch.device("cpu")
    monkeypatch.setenv("POSENC_DEVICE", "warp")
    with pytest.raises(ValueError, match=r"POSENC_DEVICE .*'warp'.*use cpu"):
        posenc.book.notebook.device()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("POSENC_DEVICE", "cuda")
    with pytest.raises(ValueError, match=r"no GPU.*use cpu"):
        posenc.book.notebook.device()


def test_a_sentence_names_what_was_found_and_nothing_else():
    posenc.book.notebook.named({"shaw", "alibi"}, "alibi", "shaw")
    posenc.book.notebook.named([])
    with pytest.raises(AssertionError, match=r"^found, but not named: rope, xpos\. .*this call.*sentence"):
        posenc.book.notebook.named(["rope", "shaw", "xpos"], "shaw")
    with pytest.raises(AssertionError, match=r"^found, but not named: rope; named, but not found: t5\."):
        posenc.book.notebook.named(["rope", "shaw"], "t5", "shaw")


def test_glue_names_a_value_in_the_book_only(monkeypatch):
    kept = []
    monkeypatch.setattr("myst_nb.glue", lambda name, value, display: kept.append((name, value, display)))
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    posenc.book.notebook.glue("answer", 42)
    assert kept == []
    monkeypatch.setenv("POSENC_BOOK", "1")
    posenc.book.notebook.glue("answer", 42)
    assert kept == [("answer", 42, False)]
