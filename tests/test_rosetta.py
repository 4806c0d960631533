"""The Rosetta table: every name in code is one of posenc's or one that a library has, at the versions tested with."""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

import posenc
from posenc import scaling
from posenc.configs import read_config

pytest.importorskip("transformers")
ROOT = Path(__file__).resolve().parents[1]

#: Where a library's name is found: in a module's text.
LIBRARIES = (
    "transformers.modeling_rope_utils", "transformers.models.bert.configuration_bert",
    "transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2",
    "transformers.models.smollm3.configuration_smollm3",
    "transformers.models.gpt2.configuration_gpt2", "transformers.models.gptj.configuration_gptj",
    "transformers.models.gptj.modeling_gptj", "transformers.models.llama.configuration_llama",
    "transformers.models.llama.modeling_llama", "transformers.models.t5.configuration_t5",
    "transformers.models.t5.modeling_t5", "transformers.models.xlnet.configuration_xlnet",
    "transformers.models.xlnet.modeling_xlnet", "transformers.models.mpt.configuration_mpt",
    "transformers.models.gpt_neox.modeling_gpt_neox",
    "transformers.models.wav2vec2_bert.configuration_wav2vec2_bert",
    "transformers.models.wav2vec2_bert.modeling_wav2vec2_bert", "transformers.models.gpt_neox.configuration_gpt_neox",
    "transformers.configuration_utils", "transformers.generation.utils",
    "rotary_embedding_torch.rotary_embedding_torch",
)  # fmt: skip

#: Names of libraries that are not installed for the tests: they were read elsewhere.
ELSEWHERE = {
    "dim", "seq_len", "block_size", "rotary_ndims", "rotary_pct", "max_relative_position", "r_net.weight",
    "alibi_slopes", "input_pos", "clamp_len",
    "--rotary-base", "--rotary-percent", "--rotary-interleaved", "--rotary-seq-len-interpolation-factor",
    "rope.freq_base", "rope.dimension_count", "rope.scaling.type", ".factor", ".original_context_length",
    "is_neox_style", "rope_gpt_neox", "rope_gptj", "interleaved", "interleaved=True", "rotary_embedding_dim",
    "freqs_cis",
}  # fmt: skip
#: Names that the installed version has no more, and the page says so.
GONE = {"cache_position": "before 5"}


def rows() -> list[tuple[str, str]]:
    """Each name in code, with the head of its column."""
    found, head = [], []
    for line in (ROOT / "chapters/rosetta.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            head = []
        elif not head:
            head = cells
        else:
            for cell, column in zip(cells, head, strict=True):
                cell = re.sub(r"\{[a-z:]+\}`[^`]+`", "", cell)  # citations and links
                found += [(name, column) for name in re.findall(r"`([^`]+)`", cell)]
    return [(name, column) for name, column in found if not name.startswith('"') and not name.endswith("=")]


def names_of(source: str) -> set[str]:
    """Every name, attribute, argument and key of a program, but no word of its messages and comments."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.-]+", text):
                found.add(text)
    return found


@pytest.fixture(scope="module")
def libraries() -> set[str]:
    return set().union(*(names_of(inspect.getsource(importlib.import_module(name))) for name in LIBRARIES))


@pytest.fixture(scope="module")
def ours() -> str:
    files = sorted((ROOT / "posenc").rglob("*.py"))
    return "\n".join(path.read_text() for path in files)


@pytest.mark.parametrize(("name", "column"), rows())
def test_a_name_exists(name: str, column: str, libraries: set[str], ours: str) -> None:
    words = re.findall(r"[A-Za-z_]\w*", name)
    if column == "in code here":
        assert all(re.search(rf"\b{word}\b", ours) for word in words), f"posenc has no {name}"
        called = re.fullmatch(r"(\w+)\(.*\)", name)
        if called and called[1] != "Memory":
            assert hasattr(posenc, called[1]) or hasattr(scaling, called[1])
    elif column not in ("here", "") and name not in ELSEWHERE | GONE.keys():
        assert name in libraries, f"no library tested with has {name}: add it to ELSEWHERE if the authors' code has it"


@pytest.mark.parametrize(("name", "until"), GONE.items())
def test_a_name_that_is_gone_is_said_to_be(name: str, until: str) -> None:
    sources = (ast.parse(inspect.getsource(importlib.import_module(module))) for module in LIBRARIES)
    assert name not in {node.arg for source in sources for node in ast.walk(source) if isinstance(node, ast.arg)}
    assert re.search(rf"`{name}` \([^)]*{until}\)", (ROOT / "chapters/rosetta.md").read_text())


def test_messages_and_comments_are_no_names() -> None:
    source = 'def f(a, *, b=1):  # c\n    raise ValueError("d is gone: use e")\n\ng.h(i=["j"])'
    assert names_of(source) == {"f", "a", "b", "ValueError", "g", "h", "i", "j"}


def test_there_are_names() -> None:
    assert len(rows()) > 80


def files() -> list[dict[str, object]]:
    page = (ROOT / "chapters/rosetta.md").read_text()
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)]


def test_the_annotated_configurations_mean_what_the_page_says() -> None:
    qwen, released, of_now = map(read_config, files())
    turn = qwen.rotations[""]
    assert (turn.parameters["rope_type"], turn.base, turn.trained, turn.context) == ("yarn", 1e6, 32_768, 131_072)
    assert not turn.new_planes(turn.context) and abs(turn.attention_factor - 1.1386) < 1e-4
    assert not qwen.warnings
    for one in (released, of_now):
        assert set(one.rotations) == {"full_attention", "sliding_attention"}
        assert one.rotations["full_attention"].base == 1e6
        assert one.rotations["full_attention"].parameters["factor"] == 8
        assert one.rotations["sliding_attention"].base == 1e4
        assert one.rotations["full_attention"].frequencies[0] == 1 / 8


def test_without_the_trained_length_the_extended_file_drives_planes_beyond_their_angles() -> None:
    lacking = files()[0]
    del lacking["rope_parameters"]["original_max_position_embeddings"]  # type: ignore[attr-defined]
    assert "original_max_position_embeddings is missing" in read_config(lacking).warnings[0]
