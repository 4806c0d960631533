"""Learned tables and parameters per head: absolute rows, Shaw's labels, T5's buckets, ALiBi's slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from posenc.shaw import Shaw


def table_size(model_dim: int, length: int) -> None:
    for name, value in (("model_dim", model_dim), ("length", length)):
        if value < 1:
            raise ValueError(f"{name} is {value}: use 1 or more; a table has a row for each position, and no others")


def rows(pos: Tensor, length: int) -> None:
    """A position is a row of the table. Values are not read while a compiler traces or a CUDA graph is captured."""
    if pos.is_floating_point():
        raise ValueError(
            f"pos is {pos.dtype}, but a learned table has rows for integers only: use pos.long() if all are whole, "
            f"or an encoding that is a function of position, such as Sinusoidal"
        )
    if torch.compiler.is_compiling() or pos.is_meta or pos.numel() == 0:
        return
    if pos.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    low, high = torch.stack(pos.aminmax()).tolist()  # a GPU is waited for once; an index error there ends the process
    if high >= length:
        raise ValueError(
            f"position {high} is beyond the table's {length}: a learned table cannot extrapolate; use positions 0 to "
            f"{length - 1}, or a longer table, such as stretch_table(table, {high + 1}) and some more training"
        )
    if low < 0:
        raise ValueError(
            f"position {low} is negative, but a table's rows count from 0: give padding any position that has a row, "
            f"such as pos.clamp(min=0), and mask it"
        )


def stretched(table: Tensor, length: int) -> None:
    """Rows can be interpolated if there are any."""
    if torch.compiler.is_exporting():
        return
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError(
            f"table has shape {tuple(table.shape)}: use (L, D), one row for each position; "
            f"a table of a batch, (1, L, D), is table[0]"
        )
    if length < 1:
        raise ValueError(f"length is {length}: use the number of positions that the table shall have, 1 or more")


def whole(value: Tensor, name: str) -> None:
    """A label belongs to a whole offset."""
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ValueError(
            f"{name} is {value.dtype}, but offsets have a label each only if they are integers: "
            f"use whole positions, such as torch.arange(length) or pos.round().long()"
        )


def clip(value: int) -> None:
    if not torch.compiler.is_exporting() and value < 0:
        raise ValueError(
            f"clip is {value}, but labels run from -clip to clip: use the largest distance that is told apart, "
            f"such as 16, or 0 for none"
        )


def shaw(head_dim: int, clip_at: int, heads: int | None) -> None:
    """Tables have a row for each label and a column for each channel of a head."""
    clip(clip_at)
    if head_dim < 1:
        raise ValueError(f"head_dim is {head_dim}: use the number of channels of a head, 1 or more")
    if heads is not None and heads < 1:
        raise ValueError(f"heads is {heads}: use the number of query heads, or None if all share one table")


def labelled(encoding: Shaw, name: str, x: Tensor, qpos: Tensor, kpos: Tensor) -> None:
    """What meets a table has its channels and heads, and positions that have labels."""
    whole(qpos, "qpos")
    whole(kpos, "kpos")
    if torch.compiler.is_exporting():
        return
    if x.shape[-1] != encoding.head_dim:
        remedy = f"make it with Shaw({x.shape[-1]})" if name == "q" else "use values=False, or as many in v as in q"
        raise ValueError(f"Shaw was made for head_dim={encoding.head_dim} and {name} has {x.shape[-1]}: {remedy}")
    if encoding.heads is not None and x.shape[1] != encoding.heads:
        raise ValueError(
            f"Shaw was made for heads={encoding.heads} and {name} has {x.shape[1]}: make it with heads={x.shape[1]}, "
            f"the query heads, or without if all share one table"
        )


def label_tables(q: Tensor, key_table: Tensor, value_table: Tensor | None) -> None:
    """Tables are (2k+1, d), or (H, 2k+1, d) if heads differ."""
    shapes = [tuple(table.shape) for table in (key_table, value_table) if table is not None]
    shape = shapes[0]
    fits = len(shape) > 1 and shape[:-2] in ((), (q.shape[1],)) and shape[-2] % 2 and shape[-1] == q.shape[-1]
    if not fits or shapes[-1] != shape:
        raise ValueError(
            f"tables have shapes {' and '.join(map(str, shapes))}, and q has {q.shape[1]} heads of {q.shape[-1]}: "
            f"use (2k+1, {q.shape[-1]}) for both, or ({q.shape[1]}, 2k+1, {q.shape[-1]}) if heads differ"
        )


def offsets(value: Tensor) -> None:
    if value.dtype == torch.bool or value.is_complex():
        raise ValueError(
            f"offset is {value.dtype}, but an offset is a difference of positions: use kpos[None, :] - qpos[:, None]"
        )


def buckets(value: int, max_distance: int, bidirectional: bool) -> None:
    """Half of the buckets hold one distance each, and the others share what is left up to max_distance."""
    if torch.compiler.is_exporting():
        return
    if value < 4 or value % 2:
        raise ValueError(
            f"buckets is {value}, but they are halved, into near and far distances and before that, if bidirectional, "
            f"into past and future: use an even number, at least 4, such as 32"
        )
    exact = value // 4 if bidirectional else value // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_distance is {max_distance}, but with {value} buckets distances below {exact} have one each, and the "
            f"others begin there: use max_distance={exact + 1} or more, such as {8 * exact}, or fewer buckets"
        )


def slopes(value: Tensor | None, heads: int) -> None:
    """Slopes are one rate per head."""
    if value is not None and value.shape != (heads,):
        raise ValueError(
            f"slopes has shape {tuple(value.shape)}, but there are {heads} heads: use shape (heads,) = ({heads},), "
            f"such as alibi_slopes({heads})"
        )
