"""A language model behind an image or a video: the same picture stands before each text that is asked about.

Its tokens are counted along three axes, time, rows and columns (M-RoPE), and text goes on after the largest of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc.audit.adapters.hf.adapter import State, TransformersAdapter
from posenc.audit.adapters.pictured import BEFORE, behind
from posenc.audit.adapters.protocol import Refused, Unfit, logits_of


@dataclass
class Kept(State):
    """A cache, and the mask of what it holds."""

    marks: Tensor | None = None


class Behind(TransformersAdapter):
    """A model of transformers with M-RoPE, asked about texts behind a picture.

    Args:
        model: A model that takes `image_grid_thw`.
        grid: Rows and columns of patches, (h, w), or a video's frames, rows and columns, (t, h, w).

    Raises:
        ValueError: If the grid cannot be merged as the model does it, or the model takes no picture by a grid.
    """

    def __init__(self, model: Any, grid: tuple[int, ...]) -> None:
        super().__init__(model)
        config = model.config
        self.grid = grid if len(grid) == 3 else (1, *grid)
        vision = getattr(config, "vision_config", None)
        self.merge = int(getattr(vision, "spatial_merge_size", 1) or 1)
        self.kind = "video" if len(grid) == 3 else "image"
        t, h, w = self.grid
        if min(self.grid) < 1 or h % self.merge or w % self.merge:
            raise Unfit(
                f"grid is {tuple(grid)}: use rows and columns in multiples of {self.merge}, since {self.merge} by "
                f"{self.merge} patches are one token"
            )
        if f"{self.kind}_grid_thw" not in self.names:
            raise Unfit(
                f"{type(model).__name__} takes no {self.kind}_grid_thw, so no {self.kind} can be put before texts"
            )
        patch = getattr(vision, "patch_size", None)
        if not isinstance(patch, int):
            raise Unfit(f"vision_config.patch_size is {patch!r}: a picture is made of squares, by one whole number")
        token = getattr(config, f"{self.kind}_token_id", None)
        if not isinstance(token, int):
            raise Unfit(f"the configuration has no {self.kind}_token_id: add the token that stands for the {self.kind}")
        self.token, self.size = token, (t, h // self.merge, w // self.merge)
        around = [getattr(config, f"vision_{end}_token_id", None) for end in ("start", "end")]
        start, end = ([each] if isinstance(each, int) and each < self._tokens() else [] for each in around)
        text = torch.arange(BEFORE) + min(10, self.vocabulary // 8)
        image = torch.full((t * self.size[1] * self.size[2],), token)
        self.before = torch.cat(
            (text, torch.tensor([*start], dtype=torch.long), image, torch.tensor(end, dtype=torch.long))
        )
        """Tokens before each text."""
        self.first = BEFORE + len(start)
        """The row of the picture's first token."""
        self.takes_positions, self.packs, self.scheme = False, False, None
        self.pads = ""
        frames = int(getattr(vision, "temporal_patch_size", 1) or 1)
        channels = int(getattr(vision, "in_channels", 0) or getattr(vision, "num_channels", 3))
        g = torch.Generator().manual_seed(1)
        self.pixels = torch.randn(t * h * w, channels * frames * patch**2, generator=g)

    def _tokens(self) -> int:
        return int(self.module.get_input_embeddings().num_embeddings)

    @property
    def pads_right(self) -> bool:
        return False

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        full, marks, rows = behind(self.before, tokens, mask)
        out = logits_of(self._call(full, positions, None if mask is None else marks, use_cache=False))
        return out.gather(1, rows[..., None].expand(-1, -1, out.shape[-1]))

    def logits_alone(self, tokens: Tensor) -> Tensor:
        """Logits of texts without the picture."""
        return logits_of(self._call(tokens, None, None, use_cache=False))

    def logits_of_embeddings(
        self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        raise Refused("a picture stands before the text, and its place is told by tokens")

    def logits_by_default(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        full, _, rows = behind(self.before, tokens, None)
        out = logits_of(self._call(full, positions, None, use_cache=None))
        return out.gather(1, rows[..., None].expand(-1, -1, out.shape[-1]))

    def step(
        self, tokens: Tensor, state: State | None, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        if not isinstance(state, Kept):
            full, marks, rows = behind(self.before, tokens, mask)
            out, new = super().step(full, None, positions, None if mask is None else marks)
            out = out.gather(1, rows[..., None].expand(-1, -1, out.shape[-1]))
        else:
            assert state.marks is not None
            marks = torch.cat((state.marks, torch.ones_like(tokens)), 1)
            out, new = super().step(tokens, state, positions, None if mask is None else marks)
        return out, Kept(new.name, new.cache, new.length, marks)

    def crop(self, state: State, n: int) -> State:
        new = super().crop(state, n)
        assert isinstance(state, Kept) and state.marks is not None
        return Kept(new.name, new.cache, new.length, state.marks[:, :-n])

    def generate(self, tokens: Tensor, forced: Tensor | None = None, **how: Any) -> tuple[Tensor, Tensor | None]:
        if how.get("past") is not None:
            raise Refused("goes on behind a picture from the whole text alone")
        if forced is None:
            raise Refused("tokens that are chosen freely may be those of a picture")
        full, marks, rows = behind(self.before, tokens, how.get("mask"))
        out, logits = super().generate(full, forced, **{**how, "mask": marks})
        rows = torch.cat((rows, torch.arange(full.shape[1], out.shape[1], device=rows.device).expand(len(out), -1)), 1)
        return out.gather(1, rows), logits

    def variants(self) -> dict[str, TransformersAdapter]:
        return {}

    def coordinates(self, tokens: Tensor) -> Tensor:
        """The positions that the model makes of a text (1, L) and what stands before it, (3, P + L).

        Raises:
            Refused: If its rotation is not told positions of three axes.
        """
        kept: list[Tensor] = []

        def look(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            given = named.get("position_ids", args[1] if len(args) > 1 else None)
            if isinstance(given, Tensor) and given.ndim == 3 and len(given) in (3, 4):
                kept.append(given[-3:, 0].detach().cpu())

        parts = [m for m in self.model.modules() if "Rotary" in type(m).__name__]
        handles = [m.register_forward_pre_hook(look, with_kwargs=True) for m in parts]
        try:
            self.logits(tokens)
        finally:
            for handle in handles:
                handle.remove()
        kept = [each for each in kept if each.shape[1] == len(self.before) + tokens.shape[1]]
        if not kept:
            raise Refused("its rotation is told no positions of three axes")
        return kept[0]

    def _beside(self, tokens: Tensor) -> dict[str, Any]:
        """The picture, where its tokens are in the text."""
        here = tokens == self.token
        if not bool(here.any()):
            return {}
        like = next(p for p in self.model.parameters() if p.is_floating_point())
        b = len(tokens)
        grid = torch.tensor([self.grid], device=tokens.device).expand(b, -1)
        name = "pixel_values" if self.kind == "image" else "pixel_values_videos"
        given: dict[str, Any] = {name: self.pixels.to(like).repeat(b, 1), f"{self.kind}_grid_thw": grid}
        if "mm_token_type_ids" in self.names:
            given["mm_token_type_ids"] = here.long() * (1 if self.kind == "image" else 2)
        return given
