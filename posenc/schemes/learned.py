"""Learned absolute positions: a trained vector for each, and none beyond the last (Gehring et al., 2017)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, interpolate

from posenc._attention.encoding import Encoding
from posenc._require import require_embedding, require_size


def stretch_table(table: Tensor, length: int) -> Tensor:
    """A table for more positions, or fewer: its ends stay, the rest is interpolated.

    New row p is old row p (L-1)/(length-1), linear between two rows. ViT does this
    along both axes for larger images. Cut off rows that are no positions (a class
    token's, or the first two of RoBERTa and OPT) and put them back afterwards. A model
    needs some more training with the result.

    Args:
        table: (L, D), a row for each position.
        length: Number of positions of the result, 1 or more.

    Returns:
        The stretched table, (length, D), in the dtype of table. It is computed in
        float64.

    Raises:
        ValueError: If table is no matrix with rows, or length is not positive.

    Example:
        >>> stretch_table(torch.tensor([[0.0], [4.0], [6.0]]), 5).T
        tensor([[0., 2., 4., 5., 6.]])

    References:
        Dosovitskiy et al. (2021), section 3.2.
    """
    _check_rows(table, length)
    columns = table.double().T[None]  # (1, D, L)
    rows = interpolate(columns, length, mode="linear", align_corners=True)[0].T
    return rows.contiguous().to(table.dtype)  # (length, D)


class Learned(Encoding):
    """x_i ← x_i + P[i]: whatever a position should mean is learned, each by itself.

    It is added wherever the model calls `embed`: once, before the first layer (BERT,
    GPT-2), or in every layer, with one `Learned` for all layers or one for each. A
    position that training never saw has a row of noise. A position without a row is
    refused.

    Args:
        model_dim: D, channels of the vectors.
        length: Number of positions.
        device, dtype: Of `table`, P, (length, D). It starts as N(0, 0.02²).

    Raises:
        ValueError: If a size is not positive.

    Example:
        >>> encoding = Learned(64, length=512)
        >>> encoding.embed(torch.zeros(2, 5, 64), torch.arange(5)).shape
        torch.Size([2, 5, 64])

    References:
        Gehring et al. (2017), section 3.1; Devlin et al. (2019).
    """

    def __init__(
        self,
        model_dim: int,
        length: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_size(model_dim, "model_dim", "the number of channels")
        require_size(length, "length", "the number of positions")
        self.model_dim, self.length = model_dim, length
        table = torch.empty(length, model_dim, device=device, dtype=dtype)
        self.table = nn.Parameter(table)
        self.reset_parameters()

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, L, D), integer pos (L,) or (B, L) -> x + P[pos], in x's dtype.

        Raises ValueError if a position has no row. Values are not read while a compiler
        traces or a CUDA graph is captured; then torch's own check of indices applies.
        """
        require_embedding(x, pos, self.model_dim)
        _check_row(pos, self.length)
        return (x + embedding(pos.long(), self.table)).to(x.dtype)  # rounded once

    def reset_parameters(self) -> None:
        """Draws the table again."""
        nn.init.normal_(self.table, std=0.02)

    def extra_repr(self) -> str:
        return f"model_dim={self.model_dim}, length={self.length}"


# Checks of input


def _check_row(pos: Tensor, length: int) -> None:
    """A position is the index of a row."""
    if pos.is_floating_point():
        raise ValueError(
            f"pos is {pos.dtype}, but a learned table has rows for integers only: use pos.long() if all "
            f"are whole, or an encoding that is a function of position, such as Sinusoidal"
        )
    if torch.compiler.is_compiling() or pos.is_meta or pos.numel() == 0:
        return
    if pos.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    low, high = torch.stack(
        pos.aminmax()
    ).tolist()  # on a GPU a wrong index would end the process
    if high >= length:
        raise ValueError(
            f"position {high} is beyond the table's {length}: a learned table cannot extrapolate; "
            f"use positions 0 to {length - 1}, or a longer table, such as "
            f"stretch_table(table, {high + 1}) and some more training"
        )
    if low < 0:
        raise ValueError(
            f"position {low} is negative, but a table's rows count from 0: give padding any position "
            f"that has a row, such as pos.clamp(min=0), and mask it"
        )


def _check_rows(table: Tensor, length: int) -> None:
    """Rows can be interpolated if there are any."""
    if torch.compiler.is_exporting():
        return
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError(
            f"table has shape {tuple(table.shape)}: use (L, D), one row for each position; "
            f"a table of a batch, (1, L, D), is table[0]"
        )
    require_size(length, "length", "the number of positions that the table shall have")
