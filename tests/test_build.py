"""The extensions that build the book: what they find out by themselves, and how notebooks are executed."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
import yaml
from docutils import nodes
from docutils.utils import new_document
from nbformat.v4 import new_code_cell, new_notebook

from tests import browser

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def extension() -> ModuleType:
    return browser.extension("book")


@pytest.fixture(scope="module")
def execution() -> ModuleType:
    return browser.extension("execution")


@pytest.fixture(scope="module")
def stamp() -> ModuleType:
    return browser.extension("stamp")


@pytest.fixture
def clone(extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """git, in an empty repository that the extension takes for the book's."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_REF_NAME", "GITHUB_REF_TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    extension.git("init", "--initial-branch=trunk")
    return extension.git


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/owner/book.git", "https://github.com/owner/book"),
        ("https://github.com/owner/book", "https://github.com/owner/book"),
        ("https://token@github.com/owner/book.git", "https://github.com/owner/book"),
        ("git@github.com:owner/book.git", "https://github.com/owner/book"),
        ("ssh://git@gitlab.com/owner/book.git", "https://gitlab.com/owner/book"),
        ("https://example.org/owner/book.git", None),
        ("/srv/book.git", None),
        (None, None),
    ],
)
def test_links_follow_the_remote(
    extension: ModuleType, clone: Callable[..., str], remote: str | None, expected: str | None
) -> None:
    if remote:
        clone("remote", "add", "origin", remote)
    assert extension.repository() == (expected and (expected, "trunk"))


def test_a_workflow_knows_its_repository_and_branch(
    extension: ModuleType, clone: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/fork")
    monkeypatch.setenv("GITHUB_REF_TYPE", "branch")
    monkeypatch.setenv("GITHUB_REF_NAME", "try")
    assert extension.repository() == ("https://github.com/owner/fork", "try")


def test_launch_buttons_need_a_repository(extension: ModuleType, clone: Callable[..., str]) -> None:
    def buttons() -> dict[str, str]:
        config = SimpleNamespace(html_theme_options={"launch_buttons": {"binderhub_url": "b", "colab_url": "c"}})
        extension.link(None, config)
        return config.html_theme_options["launch_buttons"]

    assert buttons() == {}
    clone("remote", "add", "origin", "https://gitlab.com/owner/book")
    assert buttons() == {"binderhub_url": "b"}
    clone("remote", "set-url", "origin", "https://github.com/owner/book")
    assert buttons() == {"binderhub_url": "b", "colab_url": "c"}


def test_a_command_that_installs_names_the_repository_where_it_is_known(
    extension: ModuleType, clone: Callable[..., str]
) -> None:
    def told() -> str:
        document = new_document("")
        document += nodes.literal_block("", text := f'pip install "posenc @ git+{extension.PLACE}"')
        assert document.astext() == text
        extension.Addressed(document).apply()
        return document.astext()

    assert "OWNER/REPOSITORY" in told()
    clone("remote", "add", "origin", "https://github.com/owner/book")
    assert told() == 'pip install "posenc @ git+https://github.com/owner/book"'


@pytest.fixture
def tree(stamp: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """write(name, text) in an empty tree that the extension takes for the book's."""
    monkeypatch.setattr(stamp, "ROOT", tmp_path)

    def write(name: str, text: str) -> Path:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_an_edit_in_the_package_changes_the_key(stamp: ModuleType, tree: Callable[[str, str], Path]) -> None:
    keys = []
    for text in ("a = 1\n", "a = 1\n", "a = 2\n"):
        source = tree("posenc/deep/rope.py", text)
        keys.append(stamp.key())
    source.rename(source.with_name("other.py"))
    keys.append(stamp.key())
    tree("posenc/results.json", "{}")  # which chapters read
    keys.append(stamp.key())
    for weights in ("one", "two"):  # which pages show
        tree("posenc/weights.safetensors", weights)
        keys.append(stamp.key())
    assert keys[0] == keys[1]
    assert len(set(keys)) == 6


def test_the_present_cache_and_the_newest_others_are_kept(
    execution: ModuleType, stamp: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamp, "ROOT", tmp_path)
    home, present = tmp_path / ".jupyter_cache", stamp.key()
    for age, name in enumerate((*"abcdef", present)):  # a is the newest, the present one the oldest
        (home / name).mkdir(parents=True)
        os.utime(home / name, (1e9 - age, 1e9 - age))
    config = SimpleNamespace()
    execution.cache(SimpleNamespace(outdir=tmp_path / "html"), config)
    assert config.nb_execution_cache_path == str(home / present)
    others = list("abcdef")[: execution.CACHES_KEPT - 1]
    assert sorted(path.name for path in home.iterdir()) == sorted([present, *others])


def test_any_file_of_the_book_changes_the_fingerprint(stamp: ModuleType, tree: Callable[[str, str], Path]) -> None:
    seen = [stamp.fingerprint()]
    for name in ("chapters/rope.ipynb", "chapters/assets/book.css", "posenc/schemes/rope.py", "_config.yml",
                 "references.bib", "posenc/_explore/static/page.js"):  # fmt: skip
        for text in ("one", "another"):
            tree(name, text)
            seen.append(stamp.fingerprint())
    assert len(set(seen)) == len(seen)
    tree("chapters/.ipynb_checkpoints/rope.ipynb", "one")
    tree("chapters/_ext/__pycache__/book.pyc", "one")
    assert stamp.fingerprint() == seen[-1]


def test_only_a_build_that_succeeds_is_stamped(
    execution: ModuleType,
    stamp: ModuleType,
    tree: Callable[[str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "_build/html"
    out.mkdir(parents=True)
    monkeypatch.setattr(execution, "get_cache", lambda path: None)
    settings = SimpleNamespace(nb_execution_cache_path="")

    def build(warnings: int = 0, error: Exception | None = None) -> str:
        app = SimpleNamespace(
            outdir=out,
            builder=SimpleNamespace(format="html"),
            config=settings,
            env=SimpleNamespace(found_docs=set()),
            keep_going=True,
            warningiserror=False,
            _warncount=warnings,
        )
        execution.begin(app)
        tree("chapters/index.md", "edited while it is being built")
        execution.finish(app, error)
        return stamp.built(out)

    tree("chapters/index.md", "first")
    before = stamp.fingerprint()
    assert build() == before != stamp.fingerprint()
    assert build() == stamp.fingerprint()
    assert build(warnings=1) == ""
    assert build() == stamp.fingerprint()
    assert build(error=ValueError()) == ""


def test_a_build_with_faults_is_not_taken_for_done(
    extension: ModuleType, execution: ModuleType, tmp_path: Path
) -> None:
    pickle = tmp_path / "environment.pickle"
    failed = execution.NotebookError("one.ipynb")  # before a page was read
    for strict, going, warnings, error, kept in (
        (True, False, 1, None, False), (False, True, 1, None, False), (False, True, 0, None, True),
        (False, False, 1, None, True), (False, True, 0, ValueError(), False), (False, True, 0, failed, True),
    ):  # fmt: skip
        pickle.touch()
        builder = SimpleNamespace(format="text")
        app = SimpleNamespace(
            warningiserror=strict, keep_going=going, _warncount=warnings, doctreedir=tmp_path, builder=builder
        )
        extension.finish(app, error)
        assert pickle.exists() == kept


def test_the_theme_measures_no_scrolling(extension: ModuleType, tmp_path: Path) -> None:
    """It would lay out a whole chapter at once. A later version may do so in other words, and is not passed over."""
    script = tmp_path / "theme.js"
    kept = "(()=>{function I(){e.scrollWidth>e.clientWidth}z()"
    script.write_text(kept + ',"complete"===document.readyState?I():window.addEventListener("load",I)})();\n')
    for _ in range(2):
        extension.without_stops(script)
        assert script.read_text() == kept + "})();\n"
    script.write_text('window.addEventListener("load",()=>{a.scrollWidth})')
    with pytest.raises(extension.ExtensionError, match="STOPS"):
        extension.without_stops(script)
    script.write_text("nothing")
    for path in (script, tmp_path / "none.js"):
        extension.without_stops(path)


def test_mathjax_is_copied_in_the_parts_that_a_page_asks_for(extension: ModuleType) -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    asked = [f"{name}.js" for name in config["mathjax3_config"]["loader"]["load"] if not name.startswith("[")]
    assert config["mathjax_path"] == "mathjax/startup.js"
    assert {"startup.js", *asked, "output/chtml/fonts/tex.js"} == set(extension.PARTS)  # the last is asked for by chtml


def test_pages_of_what_is_gone_do_not_stay(extension: ModuleType, tmp_path: Path) -> None:
    pages = {name: tmp_path / f"{name}.html" for name in (
        "chapters/rope", "chapters/old", "_modules/index", "_modules/posenc/schemes/rope", "_modules/posenc/old",
        "search", "chapters/deployed",
    )}  # fmt: skip
    for path in (*pages.values(), tmp_path / extension.ICONS):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    docs = {"chapters/rope", "chapters/deployed"}
    env = SimpleNamespace(found_docs=docs, _viewcode_modules={"posenc.schemes.rope": ()})
    config = SimpleNamespace(root_doc="chapters/rope", html_title="Book", html_baseurl="https://example.org/book/")
    app = SimpleNamespace(
        warningiserror=True,
        keep_going=True,
        _warncount=0,
        doctreedir=tmp_path,
        outdir=tmp_path,
        env=env,
        config=config,
        builder=SimpleNamespace(format="html"),
    )
    extension.finish(app, None)
    assert {name for name, path in pages.items() if not path.exists()} == {"chapters/old", "_modules/posenc/old"}
    assert 'url=deployed.html"' in (tmp_path / "chapters/frontier.html").read_text(encoding="utf-8")  # it has moved
    assert 'href="/book/chapters/rope.html"' in (tmp_path / "404.html").read_text(encoding="utf-8")
    config.html_baseurl = ""
    extension.finish(app, None)
    assert not (tmp_path / "404.html").exists()  # without an address it would lead nowhere


def test_what_has_moved_leads_to_a_chapter(extension: ModuleType) -> None:
    for old, (new, _) in extension.MOVED.items():
        assert (browser.ROOT / f"chapters/{new}.ipynb").exists()
        assert not (browser.ROOT / f"chapters/{old}.ipynb").exists()


def test_git_that_fails_is_no_error(extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    assert extension.git("remote", "get-url", "nowhere") == ""

    def missing(*arguments: object, **options: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert extension.git("status") == ""


# ---- how notebooks are executed ------------------------------------------------------------------------------------

KEPT = """\
import os, pathlib
pathlib.Path(os.environ["POSENC_EXPLORERS"], "explore-one.pickle").write_bytes(b"one")
print(6 * 7)"""


def test_a_fold_of_code_is_named_by_what_is_in_it(extension: ModuleType) -> None:
    document = new_document("page")
    for cells in ({"cell_code_source": "a\nb"}, {"cell_code_source": "a", "cell_code_output": ""}):
        fold = extension.HideCodeCellNode(prompt_show="Show code cell source", prompt_hide="Hide code cell source")
        for name, code in cells.items():
            fold += nodes.container("", *([nodes.literal_block(code, code)] if code else []), nb_element=name)
        document += fold
    extension.FoldsNamed(document).run()
    named = [(fold["prompt_show"], fold["prompt_hide"]) for fold in document.children]
    assert named == [("Code, 2 lines",) * 2, ("Code and output, 1 line",) * 2]


def test_what_is_read_aloud_in_vain_is_taken_out(extension: ModuleType) -> None:
    """As myst-nb and Sphinx write it: should they write it otherwise, the fold of the built book says so."""
    fold = (
        '<summary aria-label="Toggle hidden content">\n<p class="collapsed admonition-title">Code, 2 lines</p>\n'
        '<p class="expanded admonition-title">Code, 2 lines</p>\n</summary>\n'
    )
    context = {"body": fold + '<h2>Angles<a class="headerlink" href="#angles" title="Link">#</a></h2>'}
    extension.plainer(None, "page", "page.html", context, None)
    assert context["body"] == (
        '<summary><p class="admonition-title">Code, 2 lines</p></summary>\n'
        '<h2>Angles<a aria-hidden="true" tabindex="-1" class="headerlink" href="#angles" title="Link">#</a></h2>'
    )


@pytest.fixture
def build(
    execution: ModuleType, stamp: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """build(stem="cell", …) executes notebooks as a build does; returns what it logs."""
    monkeypatch.setattr(stamp, "ROOT", tmp_path)
    config = SimpleNamespace(nb_execution_cache_path=str(tmp_path / "cache"), nb_execution_timeout=60)
    env = SimpleNamespace(doc2path=lambda name: str(tmp_path / name))

    def run(**cells: str) -> list[str]:
        logged: list[str] = []
        write = lambda text, *rest: logged.append(text % rest)  # noqa: E731
        monkeypatch.setattr(execution, "log", SimpleNamespace(info=write, error=write))
        for stem, source in cells.items():
            nbformat.write(new_notebook(cells=[new_code_cell(source)]), tmp_path / f"{stem}.ipynb")
        try:
            execution.execute(SimpleNamespace(config=config), env, ["index.md", *(f"{stem}.ipynb" for stem in cells)])
        except execution.NotebookError as error:
            logged.append(str(error))
        return logged

    return run


def test_a_build_executes_what_changed_and_keeps_its_explorers(
    execution: ModuleType, build: Callable[..., list[str]], tmp_path: Path
) -> None:
    told = build(one=KEPT, two="1 + 1")
    assert sorted(line.split(" in ")[0] for line in told) == ["executed one.ipynb", "executed two.ipynb"]
    assert [line.split(" in ")[0] for line in build(one=KEPT, two="1 + 2")] == ["executed two.ipynb"]
    cache = execution.get_cache(str(tmp_path / "cache"))
    record = cache.match_cache_notebook(nbformat.read(tmp_path / "one.ipynb", as_version=4))
    bundle = cache.get_cache_bundle(record.pk)
    assert bundle.nb.cells[0].outputs[0].text == "42\n"
    assert [path.as_posix() for path in bundle.artifacts.relative_paths] == ["explore-one.pickle"]


def test_a_draft_executes_what_is_named_and_goes_on_where_it_fails(
    execution: ModuleType, build: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_DRAFT", "all")
    told = build(one="1 / 0", two="1 + 1")
    assert sorted(line.split(" in ")[0].split(":")[0] for line in told) == ["executed two.ipynb", "one.ipynb"]
    monkeypatch.setenv("POSENC_DRAFT", "three")
    assert [line.split(" in ")[0] for line in build(three="3", four="4")] == ["executed three.ipynb"]


def test_a_draft_shows_other_chapters_as_they_are_stored(
    execution: ModuleType, stamp: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamp, "ROOT", tmp_path)
    (tmp_path / "chapters").mkdir()
    for stem in ("one", "two"):
        (tmp_path / f"chapters/{stem}.ipynb").touch()
    config = SimpleNamespace(nb_execution_raise_on_error=True, nb_execution_excludepatterns=[])
    execution.draft(None, config)
    assert config.nb_execution_raise_on_error and not config.nb_execution_excludepatterns
    monkeypatch.setenv("POSENC_DRAFT", "two")
    execution.draft(None, config)
    assert not config.nb_execution_raise_on_error
    assert config.nb_execution_excludepatterns == ["*/one.ipynb"]
    monkeypatch.setenv("POSENC_DRAFT", "six")
    with pytest.raises(execution.NotebookError, match=r"chapters/six\.ipynb.*such as rope"):
        execution.draft(None, config)


@pytest.mark.parametrize(("level", "location", "shown"), [
    ("WARNING", "/book/chapters/two.ipynb:12", True), ("WARNING", "/book/chapters/one.ipynb:12", False),
    ("WARNING", None, True), ("INFO", "/book/chapters/one.ipynb", True),
])  # fmt: skip
def test_a_draft_warns_of_the_pages_that_it_executes(
    execution: ModuleType, level: str, location: str | None, shown: bool
) -> None:
    record = SimpleNamespace(levelno=getattr(logging, level), location=location)
    assert execution.spoken(record, ["two"]) == shown


def test_what_sphinx_executed_itself_is_executed_again_with_its_explorers(
    execution: ModuleType, build: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert len(build(one=KEPT)) == 1
    cache = execution.get_cache(str(tmp_path / "cache"))
    cache.clear_cache()
    cache.cache_notebook_file(path=tmp_path / "one.ipynb", check_validity=False)
    assert [line.split(" in ")[0] for line in build(one=KEPT)] == ["executed one.ipynb"]
    assert build(one=KEPT) == []


def test_all_notebooks_that_fail_are_told_with_the_cell_and_the_reason(build: Callable[..., list[str]]) -> None:
    told = build(good="1 + 1", wrong="x = 1\nx / 0", dead="import os; os._exit(1)")
    assert told[-1] == "dead.ipynb, wrong.ipynb: execution failed, as told above"
    assert any(line.startswith("wrong.ipynb: this cell failed:") and "x / 0" in line and
               line.endswith("ZeroDivisionError: division by zero") for line in told)  # fmt: skip
    assert any(line.startswith("dead.ipynb: ") and "died" in line for line in told)
    again = build(good="1 + 1", wrong="x = 1\nx / 1", dead="1")
    assert sorted(line.split(" in ")[0] for line in again) == ["executed dead.ipynb", "executed wrong.ipynb"]
