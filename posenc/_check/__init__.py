"""Bad input is refused here, with the remedy in the message.

Nothing is checked while `torch.export` traces: there a size may be a symbol, and a comparison would freeze it.
"""

from posenc._check.common import embedded, head_count, made_for, positions
from posenc._check.properties import has_memory, one_of, returned, unmeasured, untouched
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
from posenc._check.transformer_xl import clamped, distance_queries, shifted, transformer_xl

__all__ = [
    "buckets", "clamped", "clip", "distance_queries", "embedded",
   
    "has_memory", "head_count", "label_tables", "labelled",
    "made_for", "offsets", "one_of", "positions", "returned",
    "rows", "shaw", "shifted", "slopes", "stretched",
    "table_size", "transformer_xl", "unmeasured", "untouched", "whole",
]  # fmt: skip
