"""Biases that are a function of the offset: a row of numbers holds a matrix of them, and a cache keeps the row."""

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._attention.kept import in_transform, may_keep
from posenc._attention.plan import Plan


def offset_matrix(encoding: Encoding, q: Tensor, plan: Plan) -> Tensor | None:
    """b_ij of all pairs from one number for each offset, (1, H, Lq, Lk); None where there is no such form.

    Args:
        encoding: Whose `offset_bias` is asked.
        q: (B, H, Lq, d), after `query`.
        plan: Where queries and keys lie. Only spans are served.
    """
    if torch.compiler.is_compiling() or in_transform(q) or plan.spans is None:
        return None
    queries, keys = plan.spans
    row = _row(
        encoding, q, keys.start - queries.end + 1, keys.end - queries.start, plan
    )
    if row is None or queries.length == 1:
        return row if row is None else row[None, :, None]
    return row.unfold(-1, keys.length, 1).flip(-2)[
        None
    ]  # the first window is the last query's


def _row(
    encoding: Encoding, q: Tensor, start: int, stop: int, plan: Plan
) -> Tensor | None:
    """The biases of offsets from start to stop - 1, (H, n), from a row that is kept where one may be."""
    state = encoding.offset_state() if plan.kept is not None and may_keep(q) else None
    reach = 1 - start  # a row that is kept ends with offset 0
    if plan.kept is None or state is None or stop > 1 or reach >= 2 * (stop - start):
        return encoding.offset_bias(q, torch.arange(start, stop, device=q.device))
    room = 1 << reach.bit_length()  # for as many tokens again
    row = plan.kept.get(
        "biases",
        (*state, q.dtype, q.device),
        lambda row: row is None or row.shape[-1] >= reach,
        lambda: encoding.offset_bias(q, torch.arange(1 - room, 1, device=q.device)),
    )
    if row is None:
        return None
    size = row.shape[-1]
    return row[:, size - reach : size - 1 + stop]
