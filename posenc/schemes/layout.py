"""Two ways to pair channels: 2t with 2t+1 ("interleaved"), or t with t + dim/2 ("half").

Both are equally good, but weights trained with one layout give nonsense in the other.
GPT-J and Meta's Llama interleave. GPT-NeoX takes halves, and so does Llama in
transformers.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc._require import require_even, require_layout, require_rotary_dim

Layout = Literal["interleaved", "half"]
"""How channels are paired: 2t with 2t+1, or t with t + dim/2."""


def layout_permutation(dim: int) -> Tensor:
    """P = [0, 2, 4, …, 1, 3, 5, …] converts a vector: x_half = x_interleaved[..., P].

    Args:
        dim: Number of channels, positive and even.

    Returns:
        The indices, (dim,), int64. `P.argsort()` leads back.

    Raises:
        ValueError: If dim is odd or not positive.

    Example:
        >>> layout_permutation(8).tolist()
        [0, 2, 4, 6, 1, 3, 5, 7]
    """
    require_even(dim)
    return torch.arange(dim).unflatten(0, (-1, 2)).T.flatten()  # (dim,)


def convert_layout(
    weight: Tensor,
    head_dim: int,
    *,
    to: Layout,
    rotary_dim: int | None = None,
) -> Tensor:
    """Carries W_q or W_k to the other layout, so that scores stay the same.

    Rows are permuted within each head. W_v and W_o stay as they are, because values are
    not rotated.

    Args:
        weight: W_q or W_k as nn.Linear holds it, (H·d, D), or its bias, (H·d,).
        head_dim: Channels of a head, d.
        to: The layout wanted, "half" or "interleaved". The weight must be in the other
            one: this cannot be checked.
        rotary_dim: Rotated channels at the front of each head; default: all of them.

    Returns:
        The permuted weight, with the shape, dtype and device of `weight`.

    Raises:
        ValueError: If the rows are not a whole number of heads, or rotary_dim does not
            fit.

    Example:
        >>> w_q = torch.arange(8.0)  # the bias of one head of 8 channels
        >>> convert_layout(w_q, 8, to="half").int().tolist()
        [0, 2, 4, 6, 1, 3, 5, 7]
    """
    require_layout(to, "to")
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    require_rotary_dim(rotary_dim, head_dim)
    _check_whole_heads(weight, head_dim)
    order = layout_permutation(rotary_dim).to(weight.device)
    if to == "interleaved":
        order = order.argsort()
    rest = torch.arange(rotary_dim, head_dim, device=weight.device)
    order = torch.cat((order, rest))
    return weight.unflatten(0, (-1, head_dim))[:, order].flatten(0, 1)


def _check_whole_heads(weight: Tensor, head_dim: int) -> None:
    """The rows of a projection belong to its heads, one head after the other."""
    if weight.ndim not in (1, 2) or weight.shape[0] % head_dim:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, but its first dimension must be a multiple of {head_dim}: "
            f"pass W_q or W_k as nn.Linear holds it, (heads · head_dim, model_dim), or its bias"
        )
