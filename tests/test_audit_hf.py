"""The audit of models of transformers: tiny models, planted mistakes, findings shown again, generation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers")

from transformers import DynamicCache  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402

from posenc.audit import Verdict, audit  # noqa: E402
from posenc.audit.hf import findings, tiny as small  # noqa: E402
from posenc.audit.hf.adapter import TransformersAdapter  # noqa: E402
from posenc.audit.hf.rules import RULES, WINDOW, rule  # noqa: E402
from posenc.audit.hf.tiny import CannotBuild, Shape, load, read, shrunk, tiny  # noqa: E402

OURS = pytest.mark.skipif(transformers.__version__ != findings.VERSION, reason="findings are of another version")

ROTATE = modeling_llama.apply_rotary_pos_emb
ANGLES = modeling_llama.LlamaRotaryEmbedding.forward
FORWARD = modeling_llama.LlamaModel.forward
MASK = modeling_llama.create_causal_mask
UPDATE, CROP, REORDER = DynamicCache.update, DynamicCache.crop, DynamicCache.reorder_cache


@pytest.fixture(scope="module")
def llama() -> Any:
    return tiny("llama").model


# ---- planted mistakes ------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: dict[str, tuple[Plant, str]] = {}
"""By name: what plants it, and a test that has to find it."""


def planted(name: str, found_by: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        PLANTED[name] = plant, found_by
        return plant

    return register


def angles(patch: pytest.MonkeyPatch, change: Callable[[Any, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    patch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", change)


def rotation(patch: pytest.MonkeyPatch, change: Callable[..., tuple[Tensor, Tensor]]) -> None:
    patch.setattr(modeling_llama, "apply_rotary_pos_emb", change)


def calls(patch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    """`change` gets tokens, mask, positions, cache and the rest, and returns the first three as they should be."""

    def forward(self: Any, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None,
                past_key_values: Any = None, **rest: Any) -> Any:  # fmt: skip
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        mask, positions = change(input_ids, attention_mask, position_ids, past)
        return FORWARD(self, input_ids, mask, positions, past_key_values, **rest)

    patch.setattr(modeling_llama.LlamaModel, "forward", forward)


def whole(n: int, keys: int, last: int) -> Tensor:
    """Each of n queries sees all keys up to number `last`, counted from its own row."""
    return torch.ones(n, keys, dtype=torch.bool).tril(last)


def masks(patch: pytest.MonkeyPatch, change: Callable[[Tensor, int], Tensor]) -> None:
    """`change` gets the causal mask, True where a token is seen, and how many tokens are past."""

    def mask(config: Any, inputs_embeds: Tensor, attention_mask: Any = None, past_key_values: Any = None,
             position_ids: Any = None, **rest: Any) -> Any:  # fmt: skip
        if attention_mask is not None and attention_mask.ndim == 4:  # made by generate, for a static cache
            return attention_mask
        n, past = inputs_embeds.shape[1], 0 if past_key_values is None else int(past_key_values.get_seq_length())
        keys = (
            n if past_key_values is None else past_key_values.get_mask_sizes(n, 0)[0]
        )  # of a static cache: its length
        seen = whole(n, keys, past)[None, None].expand(len(inputs_embeds), 1, -1, -1)
        if attention_mask is not None:
            short = keys - attention_mask.shape[1]
            seen = seen & torch.nn.functional.pad(attention_mask, (0, max(short, 0)))[:, None, None, :keys].bool()
        elif past_key_values is None and position_ids is not None:
            document = (position_ids[:, 1:] != position_ids[:, :-1] + 1).cumsum(-1)
            document = torch.nn.functional.pad(document, (1, 0))
            seen = seen & (document[:, None, :, None] == document[:, None, None, :])
        # A row of padding sees itself, so that no row is empty
        return change(seen, past) | (whole(n, keys, past) & ~whole(n, keys, past - 1))

    patch.setattr(modeling_llama, "create_causal_mask", mask)


@planted("angles in bfloat16", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    def rounded(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        half = (position_ids[..., None].bfloat16() * self.inv_freq.bfloat16()).to(x.dtype)
        return torch.cat((half, half), -1).cos(), torch.cat((half, half), -1).sin()

    angles(patch, rounded)


@planted("a sine for a cosine", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    angles(patch, lambda self, x, position_ids: (ANGLES(self, x, position_ids)[1],) * 2)


@planted("two conventions of pairs", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    def interleaved(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = (position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)).repeat_interleave(2, -1)
        return angle.cos(), angle.sin()

    angles(patch, interleaved)


@planted("positions doubled", "angles")
def _(patch: pytest.MonkeyPatch) -> None:
    angles(patch, lambda self, x, position_ids: ANGLES(self, x, 2 * position_ids))


@planted("a base of another configuration", "angles")
def _(patch: pytest.MonkeyPatch) -> None:
    def other(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        half = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype) ** 1.5
        return torch.cat((half, half), -1).cos(), torch.cat((half, half), -1).sin()

    angles(patch, other)


@planted("a table that is never short again", "fresh")
def _(patch: pytest.MonkeyPatch) -> None:
    def longest(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        self.longest = max(getattr(self, "longest", 0), int(position_ids.max()))
        cos, sin = ANGLES(self, x, position_ids)
        return cos / (1 + self.longest / 64), sin

    angles(patch, longest)


@planted("no rotation at all", "stretch")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: (q, k))


@planted("queries alone are rotated", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: (ROTATE(q, k, cos, sin)[0], k))


@planted("the rotation turns backwards for keys", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: (ROTATE(q, k, cos, sin)[0], ROTATE(q, k, cos, -sin)[1]))


@planted("keys are scaled over the batch", "neighbours")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: ROTATE(q, k / k.square().mean().sqrt(), cos, sin))


@planted("cached calls begin at 0 again", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    calls(patch, lambda x, mask, positions, past: (
        mask, torch.arange(x.shape[1])[None] if positions is None else positions))  # fmt: skip


@planted("positions are rows of memory", "stretch")
def _(patch: pytest.MonkeyPatch) -> None:
    calls(patch, lambda x, mask, positions, past: (mask, torch.arange(x.shape[1])[None] + past))


@planted("one too many when cached", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    def more(x: Tensor, mask: Any, positions: Any, past: int) -> tuple[Any, Any]:
        positions = torch.arange(x.shape[1])[None] + past if positions is None else positions
        return mask, positions + (past > 0)

    calls(patch, more)


@planted("the mask is dropped", "left_pad")
def _(patch: pytest.MonkeyPatch) -> None:
    calls(patch, lambda x, mask, positions, past: (None, positions))


@planted("a cosine that grows with the length", "prefix")
def _(patch: pytest.MonkeyPatch) -> None:
    def grown(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = ANGLES(self, x, position_ids)
        return cos * (1 + x.shape[1] / 100), sin

    angles(patch, grown)


@planted("the diagonal is one off", "future")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen | (whole(*seen.shape[-2:], past + 1) & ~whole(*seen.shape[-2:], past)))


@planted("a chunk's diagonal lies at row 0", "chunks")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen & whole(*seen.shape[-2:], 0) if seen.shape[-2] > 1 else seen)


@planted("a window in the cached path alone", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen & ~whole(*seen.shape[-2:], past - 8) if past else seen)


@planted("one row's mask serves all rows", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen[:1].expand_as(seen))


@planted("documents are not told apart", "packed_ids")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(modeling_llama, "create_causal_mask", lambda **given: MASK(**{**given, "position_ids": None}))


@planted("keys are turned again at each step", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    def update(self: Any, keys: Tensor, values: Tensor, layer: int, *rest: Any, **named: Any) -> Any:
        keys, values = UPDATE(self, keys, values, layer, *rest, **named)
        return torch.cat((keys[:, :, :-1].roll(1, -1), keys[:, :, -1:]), 2) if keys.shape[2] > 1 else keys, values

    patch.setattr(DynamicCache, "update", update)


@planted("values stay when beams change places", "reorder")
def _(patch: pytest.MonkeyPatch) -> None:
    def reorder(self: Any, order: Tensor) -> None:
        kept = [layer.values for layer in self.layers]
        REORDER(self, order)
        for layer, values in zip(self.layers, kept, strict=True):
            layer.values = values

    patch.setattr(DynamicCache, "reorder_cache", reorder)


@planted("two tokens are taken back and not three", "crop")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DynamicCache, "crop", lambda self, n: CROP(self, n + 1))


@planted("noise in eval mode", "again")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: ROTATE(q, k + 0.1 * torch.randn_like(k), cos, sin))


@planted("one row's positions serve all rows", "reorder")
def _(patch: pytest.MonkeyPatch) -> None:
    """A relative scheme does not see that a row moves as a whole; it does when rows change places meanwhile."""
    calls(patch, lambda x, mask, positions, past: (
        mask, positions if positions is None else positions[:1].expand_as(positions)))  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str, llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, found_by = PLANTED[name]
    plant(monkeypatch)
    report = audit(llama, configuration=llama.config.to_dict())
    assert found_by in {finding.name for finding in report.failures}, report


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "qwen3", "bert", "bloom"])
def test_in_the_right_program_nothing_is_found(kind: str) -> None:
    report = audit(tiny(kind).model, more=True)
    assert report.passed, report


def test_the_mask_in_which_mistakes_are_planted_is_right(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    masks(monkeypatch, lambda seen, past: seen)
    report = audit(llama, more=True)
    assert report.passed, report
