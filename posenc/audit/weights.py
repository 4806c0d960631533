"""Weights at which positions matter: usual initial ones make attention nearly uniform, and the audit nearly blind."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

KEPT = re.compile(
    r"A_log|dt_|\.D$|time_|_log|router|gate\.weight$|lambda|sink|hc_|altup|recurrent_gate|input_gate|recurrent_param|"
    r"fgate|igate|inv_freq|slopes"
)
SCALES = re.compile(r"alpha|resweight|re_?zero|layer_?scale|gamma_?\d|lambda_?\d|\bls\d", re.I)
TABLES = re.compile(r"embed|wte|wpe|position|emb\.|shared\.weight|relative|rel_|pos_|bias_table", re.I)


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Draws all weights anew, in place: matrices N(0, 1/fan_in), tables N(0, 1), biases that are zero N(0, 0.01).

    Left as they are: what needs no gradient, such as a table of sines; routers, decays and gates; and vectors that are
    not zero, such as the scales of norms. Scales of branches that are near zero at the start, as in LayerScale and
    ReZero, become 1: they would switch attention off. If nothing needs a gradient, all but tables of sines is drawn.

    Args:
        model: The module.
        seed: Seed of the random numbers. Default: 0.

    Returns:
        The same module.

    Example:
        >>> from posenc.audit.weights import randomise
        >>> float(randomise(nn.Linear(100, 1000)).weight.detach().std())  # doctest: +ELLIPSIS
        0.1...
    """
    g = torch.Generator().manual_seed(seed)
    frozen = not any(p.requires_grad for p in model.parameters())
    transposed = {id(m.weight) for m in model.modules() if type(m).__name__ == "Conv1D" and hasattr(m, "weight")}
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.is_floating_point() or not p.numel() or not (p.requires_grad or (frozen and not _sines(p))):
                continue
            zero = not bool(p.any())
            if p.ndim < 2 and (_tame(p) or (zero and SCALES.search(name))) and not KEPT.search(name):
                p.fill_(1.0)
                continue
            if KEPT.search(name):
                if zero and p.ndim:
                    p.copy_(0.1 * torch.randn(p.shape, generator=g))
            elif p.ndim >= 2:
                table = id(p) in tables or TABLES.search(name)
                fan = 1 if table else p.shape[0] if id(p) in transposed else p[0].numel()
                p.copy_(torch.randn(p.shape, generator=g) / fan**0.5)
            elif p.ndim and zero:
                p.copy_(0.1 * torch.randn(p.shape, generator=g))
    return model


def _tame(p: Tensor) -> bool:
    """Whether all entries are one small number, as LayerScale's 1e-5 are."""
    first = p.reshape(-1)[0] if p.numel() else p.new_zeros(())
    return 0 < float(first.abs()) <= 0.1 and bool((p == first).all())


def _sines(p: Tensor) -> bool:
    """Whether the rows are sines and cosines: as many channels of each, so that all rows have one length."""
    if p.ndim != 2 or p.shape[1] % 2 or float(p.abs().max()) > 1.001:
        return False
    return bool(((p.double().square().sum(-1) - p.shape[1] / 2).abs() < 1e-3 * p.shape[1]).all())
