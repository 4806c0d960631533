"""Learned absolute positions: a trained vector for each, and none beyond the last (Gehring et al., 2017)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, interpolate

from posenc import _check
from posenc.encoding import Encoding


def stretch_table(table: Tensor, length: int) -> Tensor:
    """A table for more positions, or fewer: its ends stay its ends, and rows between are interpolated.

    table (L, D) -> (length, D): row p is old row p (L-1)/(length-1), linear between two of them. ViT does so,
    along both axes, for larger images. Cut off rows that are no positions (a class token's, the first two of
    RoBERTa and OPT) and put them back afterwards. A model needs some training with the result.
    Raises ValueError if length is not positive. Dosovitskiy et al. (2021), section 3.2.
    """
    _check.stretched(table, length)
    rows = interpolate(table.double().T[None], length, mode="linear", align_corners=True)[0].T.contiguous()
    return rows.to(table.dtype)  # (length, D)


class Learned(Encoding):
    """x_i ← x_i + P[i]: whatever a position should mean is learned, for each by itself.

    Added wherever the model calls `embed`: once, before the first layer (BERT, GPT-2), or in every layer, with
    one `Learned` for all or one for each. `table` is P, (length, model_dim), and starts as N(0, 0.02²).
    A position that training never saw has a row of noise; one without a row is refused.
    """

    def __init__(self, model_dim: int, length: int) -> None:
        super().__init__()
        _check.table_size(model_dim, length)
        self.model_dim, self.length = model_dim, length
        self.table = nn.Parameter(torch.empty(length, model_dim))
        self.reset_parameters()

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, L, D), integer pos (L,) or (B, L) -> (B, L, D) in x's dtype.

        Raises ValueError if a position has no row. Compiled, exported or while a CUDA graph is captured,
        no values are read: then torch's own index check applies.
        """
        _check.embedded(x, pos, self.model_dim)
        _check.rows(pos, self.length)
        return (x + embedding(pos.long(), self.table)).to(x.dtype)  # the sum is rounded, once

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.02)
