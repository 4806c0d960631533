"""An image model as the audit sees it: a grid of patches goes in, and what attention does with each comes out."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc.audit.adapters.called import names_of
from posenc.audit.adapters.protocol import Unfit, ask, device_of, type_name
from posenc.audit.comparison.attention import Attention, Seen, Squares, spread
from posenc.audit.errors import error_line
from posenc.audit.silence import quiet

PATCHES = (1, 2, 4, 8, 14, 16, 32)  # pixels of a side, tried where nobody tells
CHANNELS = (3, 1)
PIXELS = ("pixel_values", "pixels", "images", "image", "img", "pixel_values_videos")
"""Names of an argument that is an image."""
EXTRA = 16  # rows beside the patches, at most: a class token, registers


@dataclass(frozen=True)
class Layer:
    """What a layer of attention does with the patches of an image, in raster order.

    Args:
        q: (H, h·w, d), as they meet the keys.
        k: (H, h·w, d).
        scores: (H, h·w, h·w), what the softmax gets; -inf where a key is hidden.
    """

    q: Tensor
    k: Tensor
    scores: Tensor


class Pictures:
    """A model that takes images.

    Args:
        model: A module, or a function of an image (1, C, H, W).
        module: Where its weights are; None for a function of which nothing is known.
        grid: Rows and columns of patches that it is tried with.

    Raises:
        ValueError: If it takes no image of that grid.
    """

    def __init__(self, model: Any, module: nn.Module | None, grid: tuple[int, int]) -> None:
        self.model, self.module = model, module
        self.names = names_of(model.forward if isinstance(model, nn.Module) else model)
        config = getattr(module, "config", None)
        self.listed = next((name for name in ("grid_thw", "image_grid_thw") if name in self.names), None)
        """The argument that says rows and columns, where patches go in as a list."""
        self.merge = int(getattr(config, "spatial_merge_size", 1) or 1) if self.listed else 1
        self.shapes = "spatial_shapes" in self.names
        """Whether patches go in as rows with their grid and a mask, as in SigLIP 2."""
        first = next((m for m in (module or nn.Module()).modules() if isinstance(m, nn.Conv2d | nn.Conv3d)), None)
        told = getattr(config, "patch_size", None) or (first.stride[-1] if first is not None else None)
        told = told[0] if isinstance(told, tuple | list) else told
        self.frames = int(getattr(config, "temporal_patch_size", 1) or 1) if self.listed else 1
        channels = getattr(config, "num_channels", None) or getattr(config, "in_channels", None)
        channels = channels or (first.in_channels if first is not None else None)
        self.native = _native(config, told)
        """Rows and columns of the table, where the configuration tells them."""
        self.patch, self.channels = self._fitting(grid, told, channels)

    def _fitting(self, grid: tuple[int, int], patch: int | None, channels: int | None) -> tuple[int, int]:
        """Pixels of a patch's side, and channels, with which attention has a row for each patch."""
        problem: Exception | None = None
        for size in (patch,) if patch else PATCHES:
            for count in (channels,) if channels else CHANNELS:
                self.patch, self.channels = int(size), int(count)
                try:
                    if self.rows(*grid):
                        return self.patch, self.channels
                except Exception as error:  # a model may raise anything at an image of another kind
                    problem = problem or error
        h, w = grid
        if problem is None:
            raise Unfit(
                f"no attention with a row for each of {h} by {w} patches can be seen: attention has to be matmul and "
                f"softmax, or scaled_dot_product_attention, over the whole image"
            )
        raise Unfit(
            f"the model cannot be called with an image of {h} by {w} patches: {error_line(problem)}"
        ) from problem

    def call(self, patches: Tensor) -> Tensor:
        """The first tensor of features that comes back of patches (h, w, C·p·p)."""
        like = next((p for p in (self.module or nn.Module()).parameters() if p.is_floating_point()), None)
        patches = patches.to(device_of(self.module), like.dtype if like is not None else torch.float32)
        with quiet(io.StringIO()):
            return _features(ask(self.model, *self._given(patches), **self._more(patches))).detach()

    def _given(self, patches: Tensor) -> tuple[Tensor, ...]:
        h, w, _ = patches.shape
        if self.shapes:
            return (patches.flatten(0, 1)[None],)
        if self.listed:
            m = self.merge
            blocks = patches.unflatten(0, (-1, m)).unflatten(2, (-1, m)).transpose(1, 2)  # (h/m, w/m, m, m, …)
            return (blocks.flatten(0, 3).repeat(1, self.frames),)
        image = patches.unflatten(2, (self.channels, self.patch, self.patch))
        return (image.permute(2, 0, 3, 1, 4).reshape(1, self.channels, h * self.patch, w * self.patch),)

    def _more(self, patches: Tensor) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if self.listed:
            more[self.listed] = torch.tensor([[1, *patches.shape[:2]]], device=patches.device)
        if self.shapes:
            more["spatial_shapes"] = torch.tensor([patches.shape[:2]], device=patches.device)
            more["pixel_attention_mask"] = patches.new_ones(1, patches.shape[0] * patches.shape[1], dtype=torch.long)
        if "interpolate_pos_encoding" in self.names:
            more["interpolate_pos_encoding"] = True
        return more

    def drawn(self, h: int, w: int, seed: int = 0) -> Tensor:
        """Random patches, (h, w, C·p·p)."""
        g = torch.Generator().manual_seed(seed)
        return torch.randn(h, w, self.channels * self.patch**2, generator=g, dtype=torch.float64)

    def rows(self, h: int, w: int) -> int:
        """How many rows attention has with an image of h by w patches; 0 where none can be seen."""
        with Squares(h * w - 1) as squares:
            self.call(self.drawn(h, w))
        return squares.size if squares.size <= h * w + EXTRA else 0

    def layers(self, h: int, w: int) -> list[Layer]:
        """What attention does with an image that is one patch everywhere, so that places differ by position alone.

        Raises:
            Unfit: If attention has no row for each patch.
        """
        n = self.rows(h, w)
        if not n:
            raise Unfit(f"attention has no row for each of {h} by {w} patches")
        at = self._places(h, w, n)
        seen = self._seen(self.drawn(1, 1, 1).expand(h, w, -1), n)
        return [
            Layer(each.q[0][:, at].double(), spread(each.k, each.q)[0][:, at].double(),
                  each.scores[0][:, at][:, :, at].double())
            for each in seen
        ]  # fmt: skip

    def _seen(self, patches: Tensor, n: int) -> list[Seen]:
        with Attention(n) as look:
            self.call(patches)
        return look.layers

    def _places(self, h: int, w: int, n: int) -> Tensor:
        """For each patch its row of attention: patches are changed, and the first queries tell where they are.

        Patch number i changes in the calls that i + 1 names in binary, so few calls tell all.
        """
        base, other = self.drawn(h, w), self.drawn(h, w, 2)
        number = 1 + torch.arange(h * w).reshape(h, w)
        before = self._seen(base, n)[0].q[0]
        found = torch.zeros(n, dtype=torch.long, device=before.device)
        for bit in range(int(number.max()).bit_length()):
            chosen = (number >> bit & 1).bool()
            after = self._seen(torch.where(chosen[..., None], other, base), n)[0].q[0]
            found += ((after - before).abs().amax((0, 2)) > 1e-9 * before.abs().max()).long() << bit
        at = {int(name) - 1: row for row, name in enumerate(found.tolist()) if name}
        if sorted(at) != list(range(h * w)):
            raise Unfit("a patch changes several rows of the first layer, so none of them is its own")
        return torch.tensor([at[i] for i in range(h * w)], device=before.device)


def takes_images(model: Any) -> str:
    """The name of an argument without which a model cannot be called and that is an image; "" if there is none."""
    model = getattr(model, "_orig_mod", model)
    names = names_of(model.forward if isinstance(model, nn.Module) else model)
    first = names[0] if names else ""
    return first if first in PIXELS or (first == "hidden_states" and "grid_thw" in names) else ""


def _features(out: Any) -> Tensor:
    """The first tensor in what a model returned."""
    value = getattr(out, "last_hidden_state", out)
    value = value if value is not None else out
    if isinstance(value, dict):
        value = next(iter(value.values()))
    while isinstance(value, tuple | list) and value:
        value = value[0]
    if not isinstance(value, Tensor):
        raise Unfit(f"the model returns {type_name(value)}: return features, a tensor")
    return value


def _native(config: Any, patch: Any) -> tuple[int, int] | None:
    """Rows and columns of patches in an image as the configuration has it."""
    if isinstance(many := getattr(config, "num_patches", None), int) and math.isqrt(many) ** 2 == many:
        return math.isqrt(many), math.isqrt(many)
    size = getattr(config, "image_size", None)
    sides = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if not patch or not all(isinstance(side, int) for side in sides) or len(sides) != 2:
        return None
    h, w = (side // patch for side in sides)
    return (h, w) if 1 < h <= 32 and 1 < w <= 32 else None
