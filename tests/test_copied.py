"""The functions to copy of the rotary chapters: complete by themselves, equal to libraries, clear about bad input."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import nbformat
import normalise
import pytest
import torch


def copied(chapter: str, name: str) -> Callable[..., Any]:
    """A function of a chapter, run with torch and math alone: that is what a reader pastes."""
    notebook = nbformat.read(normalise.CHAPTERS / f"{chapter}.ipynb", as_version=4)
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and f"def {name}(" in cell.source:
            nodes = (node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef))
            found += [node for node in nodes if node.name == name]
    assert len(found) == 1, f"{chapter} defines {name} {len(found)} times"
    scope: dict[str, Any] = {"torch": torch, "math": math}
    exec(compile(ast.Module([found[0]], []), f"{chapter}.{name}", "exec"), scope)
    return scope[name]


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("base", "dim", "factor", "trained"),
    [
        (10_000.0, 128, 16.0, 4096),
        (10_000.0, 128, 4.0, 32_768),
        (1_000_000.0, 128, 4.0, 32_768),
        (150_000.0, 64, 32.0, 4096),
        (10_000.0, 24, 4.0, 128),
        (10_000.0, 64, 40.0, 4096),
    ],
)
def test_yarn_to_copy_is_that_of_transformers(
    base: float, dim: int, factor: float, trained: int, truncate: bool
) -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"rope_type": "yarn", "rope_theta": base, "factor": factor, "truncate": truncate}
    parameters["original_max_position_embeddings"] = trained
    config = LlamaConfig(
        hidden_size=dim,
        num_attention_heads=1,
        head_dim=dim,
        rope_parameters=parameters,
        max_position_embeddings=int(trained * factor),
    )
    freq, scale = ROPE_INIT_FUNCTIONS["yarn"](config, None)
    ours, ours_scale = copied("scaling", "longer")(base, dim, factor, trained, truncate=truncate)
    torch.testing.assert_close(ours.float(), freq, rtol=2e-5, atol=0)
    assert ours_scale == pytest.approx(scale)


def test_the_rule_of_llama_3_to_copy_is_that_of_transformers() -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0}
    parameters |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    config = LlamaConfig(
        hidden_size=128, num_attention_heads=1, head_dim=128, rope_parameters=parameters, max_position_embeddings=65_536
    )
    freq, scale = ROPE_INIT_FUNCTIONS["llama3"](config, None)
    torch.testing.assert_close(copied("scaling", "by_turns")(500_000, 128, 8, 8192).float(), freq, rtol=2e-5, atol=0)
    assert scale == 1


@pytest.mark.parametrize(
    ("name", "arguments", "remedy"),
    [
        ("longer", (10_000, 127, 4, 4096), "even d"),
        ("longer", (10_000, 128, 0.25, 4096), "s of 1 or more"),
        ("longer", (10_000, 128, 4, 4), "trained length"),
        ("longer", (10_000, 128, 4, 4096, 1, 32), "trained length"),
        ("by_turns", (500_000, 127, 8, 8192), "even d"),
        ("by_turns", (500_000, 128, 0.5, 8192), "s of 1 or more"),
        ("by_turns", (500_000, 128, 8, 8192, 1, 4), "slow below fast"),
    ],
)
def test_longer_texts_say_what_is_wrong(name: str, arguments: tuple[float, ...], remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        copied("scaling", name)(*arguments)


def test_a_rotation_to_copy_turns_as_posenc_does_and_says_what_is_wrong() -> None:
    from posenc import RoPE

    apply_rope = copied("rope", "apply_rope")
    x, pos = torch.randn(2, 3, 9, 16), torch.arange(18).view(2, 9) + 70
    for layout in ("interleaved", "half"):
        theirs = RoPE(16, layout=layout).query(x, pos)  # type: ignore[arg-type]
        torch.testing.assert_close(apply_rope(x, pos, half=layout == "half"), theirs, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="even number of channels"):
        apply_rope(torch.randn(1, 1, 9, 15), torch.arange(9))
    for wrong in (torch.arange(1), torch.arange(8)):
        with pytest.raises(ValueError, match="one position for each token"):
            apply_rope(x, wrong)


def test_tables_to_copy_are_float32_and_of_integers() -> None:
    rope_tables = copied("precision", "rope_tables")
    pos = torch.tensor([3, 1000, 100_000])
    cos, sin = rope_tables(pos, 64)
    exact = pos.double()[:, None] * 10_000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    assert cos.dtype == sin.dtype == torch.float32  # FlashInfer refuses others
    torch.testing.assert_close(cos.double(), exact.cos(), rtol=0, atol=1e-7)
    torch.testing.assert_close(sin.double(), exact.sin(), rtol=0, atol=1e-7)
    with pytest.raises(ValueError, match="even dim"):
        rope_tables(pos, 63)
    with pytest.raises(ValueError, match="divide the frequencies"):
        rope_tables(pos / 4, 64)


def test_a_grid_rotation_to_copy_turns_as_posenc_does_and_says_what_is_wrong() -> None:
    from posenc.schemes.grid import GridRoPE, grid_coordinates

    apply_rope_2d = copied("grid", "apply_rope_2d")
    x, pos = torch.randn(2, 3, 15, 16), torch.arange(15)
    place = grid_coordinates(pos, (3, 5))
    torch.testing.assert_close(apply_rope_2d(x, place), GridRoPE(16, (3, 5)).query(x, pos), rtol=1e-4, atol=1e-5)
    for wrong, places in ((torch.randn(1, 1, 15, 18), place), (x, place[:14]), (x, place[:, :1])):
        with pytest.raises(ValueError, match="a row and a column for each patch"):
            apply_rope_2d(wrong, places)


@pytest.mark.parametrize(
    ("sections", "dim", "turns"), [((16, 24, 24), 128, False), ((24, 20, 20), 128, True), ((11, 11, 10), 64, True)]
)
def test_mrope_to_copy_turns_as_posenc_does(sections: tuple[int, int, int], dim: int, turns: bool) -> None:
    from posenc.schemes.grid import MRoPE, mrope_positions

    place = mrope_positions([3, (2, 3, 4), 2])
    x, pos = torch.randn(1, 2, len(place), dim), torch.arange(len(place))
    made = MRoPE(dim, sections, 1e6, interleaved=turns, layout="half", coordinates=place)
    ours = copied("video", "apply_mrope")(x, place, sections, 1e6, turns)
    torch.testing.assert_close(ours, made.query(x, pos), rtol=1e-4, atol=1e-5)


def test_mrope_to_copy_says_what_is_wrong() -> None:
    apply_mrope, x, place = copied("video", "apply_mrope"), torch.randn(1, 1, 9, 128), torch.zeros(9, 3).long()
    for sections in ((16, 24, 20), (16, 24, 28)):
        with pytest.raises(ValueError, match="half of the channels"):
            apply_mrope(x, place, sections)
    with pytest.raises(ValueError, match="half of the channels"):  # in turn, 40 rows find 21 pairs
        apply_mrope(x, place, (4, 40, 20), alternate=True)
    for wrong in (place[:8], place[:, :2]):
        with pytest.raises(ValueError, match="three coordinates"):
            apply_mrope(x, wrong)


def test_an_image_of_patches_has_the_tokens_and_the_next_position_of_transformers() -> None:
    """`image_grid_thw` counts patches, and the language model's tokens are merged from 2 by 2 of them."""
    pytest.importorskip("transformers")
    from transformers import Qwen2VLConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    from posenc.schemes.grid import mrope_positions

    model = torch.nn.Module()  # no weights: positions need the configuration alone
    model.config = Qwen2VLConfig()  # type: ignore[assignment]
    model.get_vision_position_ids = Qwen2VLModel.get_vision_position_ids.__get__(model)  # type: ignore[assignment]
    types = torch.tensor([[0] * 5 + [1] * 6 + [0] * 2])
    grid = torch.tensor([[1, 4, 6]])
    found, delta = Qwen2VLModel.get_rope_index(model, types, mm_token_type_ids=types, image_grid_thw=grid)
    side = model.config.vision_config.spatial_merge_size  # type: ignore[union-attr]
    assert side == 2
    ours = mrope_positions([5, (1, 4 // side, 6 // side), 2])
    assert torch.equal(found[:, 0].T, ours)
    assert ours[-2].tolist() == [8, 8, 8] and int(delta) == -3
    assert mrope_positions([5, (1, 4, 6), 1])[-1].tolist() == [11, 11, 11]  # patches taken for tokens


def test_a_layout_to_copy_refuses_what_is_no_head() -> None:
    change_layout, weight = copied("layouts", "change_layout"), torch.randn(64, 8)
    assert torch.equal(change_layout(change_layout(weight, 16), 16, to_half=False), weight)
    part = change_layout(weight, 16, rotary_dim=8)
    assert torch.equal(part.view(4, 16, 8)[:, 8:], weight.view(4, 16, 8)[:, 8:])
    for head_dim, rotary_dim in ((16, 7), (16, 32), (24, None)):
        with pytest.raises(ValueError, match="even rotary_dim of head_dim at most"):
            change_layout(weight, head_dim, rotary_dim=rotary_dim)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_frequencies_by_layer_to_copy_are_those_of_transformers(share: float) -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.glm.modeling_glm import GlmRotaryEmbedding

    frequencies_of, sizes = copied("deployed", "frequencies_of"), {"hidden_size": 128, "num_attention_heads": 1}
    parameters = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": share}
    config = LlamaConfig(**sizes, head_dim=128, rope_parameters=parameters)
    freq, _ = ROPE_INIT_FUNCTIONS["proportional"](config, None)
    torch.testing.assert_close(frequencies_of("all", 128, {"all": parameters}), freq, rtol=2e-6, atol=0)
    config.rope_parameters = parameters | {"rope_type": "default"}
    freq, _ = GlmRotaryEmbedding.compute_default_rope_parameters(config)  # of the channels that rotate
    ours = frequencies_of("all", 128, {"all": config.rope_parameters})
    torch.testing.assert_close(ours[: len(freq)], freq, rtol=2e-6, atol=0)
    assert len(freq) == share * 64 and not ours[len(freq) :].any()
    assert not frequencies_of("none", 128, {"all": parameters}).any()


def test_forgetting_attention_to_copy_multiplies_weights_by_the_gates_on_the_way() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4, dtype=torch.float64)
    logit = torch.randn(1, 2, 5, dtype=torch.float64)
    found = copied("proposed", "forgetting_attention")(q, k, v, logit)
    gate, score = logit.sigmoid(), (q @ k.mT / 2).exp()
    for h in range(2):
        for i in range(5):
            kept = [score[0, h, i, j] * math.prod(gate[0, h, j + 1 : i + 1].tolist()) for j in range(i + 1)]
            wanted = sum(weight * v[0, h, j] for j, weight in enumerate(kept)) / sum(kept)
            torch.testing.assert_close(found[0, h, i], wanted, atol=1e-5, rtol=1e-5)
