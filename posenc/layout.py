"""The two ways to pair channels: 2t with 2t+1 ("interleaved"), or t with t + dim/2 ("half").

Neither is better, but weights trained with one compute nonsense with the other. GPT-J and Meta's
Llama interleave; GPT-NeoX, and Llama as transformers has it, take halves.
"""

import torch
from torch import Tensor

from posenc import _check


def layout_permutation(dim: int) -> Tensor:
    """P = [0, 2, 4, …, 1, 3, 5, …] carries a vector over: x_half = x_interleaved[..., P]."""
    _check.dim(dim)
    return torch.arange(dim).unflatten(0, (-1, 2)).T.flatten()  # (dim,)


def convert_layout(weight: Tensor, head_dim: int, *, to: str, rotary_dim: int | None = None) -> Tensor:
    """Carries W_q or W_k (H·d, D), or a bias (H·d,), to the other layout; scores stay the same.

    Rows are permuted head by head, the first `rotary_dim` of each if only those turn. W_v and W_o need
    nothing, since values are not rotated. Raises ValueError if the rows are no whole number of heads.
    """
    _check.layout(to, "to")
    _check.heads_of(weight, head_dim)
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    _check.rotary(head_dim, rotary_dim, 1.0)
    order = layout_permutation(rotary_dim).to(weight.device)
    if to == "interleaved":
        order = order.argsort()
    rest = torch.arange(rotary_dim, head_dim, device=weight.device)
    order = torch.cat((order, rest))
    return weight.unflatten(0, (-1, head_dim))[:, order].flatten(0, 1)
