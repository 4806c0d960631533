"""The adapter of `posenc.Transformer`: positions are `pos`, real tokens `padding_mask`, the state is its caches."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused


class Own:
    """Asks a `posenc.Transformer`; it offers no reordering of its cache.

    Args:
        model: The model.
    """

    takes_positions = takes_mask = True

    def __init__(self, model: Any) -> None:
        self.module = model
        self.vocabulary: int = model.config.vocabulary
        self.causal: bool = model.config.causal
        doors = model.encoding().doors
        self.scheme = "absolute" if "embed" in doors else "relative" if doors else "none"
        self.step = self._step if self.causal else None

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        real = None if mask is None else mask.bool()
        return self.module(tokens, positions, padding_mask=real)

    def _step(
        self, tokens: Tensor, state: Any, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        state = self.module.cache() if state is None else state
        real = None if mask is None else mask[:, -tokens.shape[1] :].bool()
        return self.module(tokens, positions, padding_mask=real, cache=state), state

    def crop(self, state: Any, n: int) -> Any:
        """A copy of the caches without the last n tokens; refused where a window has dropped some already."""
        state = copy.deepcopy(state)
        for cache in state:
            if cache.seen > len(cache):
                raise Refused("its window has dropped tokens, which cannot be restored")
            cache.keep(torch.arange(len(cache) - n))
        return state
