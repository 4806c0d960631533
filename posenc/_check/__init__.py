"""Bad input is refused here, with the remedy in the message."""

from posenc._check.common import (
    embedded,
    head_count,
    made_for,
)
from posenc._check.tables import (
    buckets,
    clip,
    label_tables,
    labelled,
    offsets,
    rows,
    shaw,
    slopes,
    stretched,
    table_size,
    whole,
)
from posenc._check.transformer_xl import (
    clamped,
    distance_queries,
    shifted,
    transformer_xl,
)

__all__ = [
    "buckets", "clamped", "clip", "distance_queries", "embedded", "head_count", "label_tables", "labelled",
    "made_for", "offsets", "rows", "shaw", "shifted", "slopes", "stretched", "table_size", "transformer_xl",
    "whole",
]  # fmt: skip
