"""Bad input is refused here, with the remedy in the message.

Nothing is checked while `torch.export` traces: there a size may be a symbol, and a comparison would freeze it.
"""

from posenc._check.attention import attention, closed, direction, matrix, no_cpu_gradient
from posenc._check.cache import cached, kept, window
from posenc._check.common import base, dim, embedded, head_count, layout, made_for, positions
from posenc._check.grid import (
    coordinates,
    grid_frequencies,
    grid_rotation,
    grid_shape,
    head_angles,
    known_axes,
    looked_up,
    place,
    sections,
    shares,
    span,
)
from posenc._check.model import (
    damaged,
    encoding_name,
    fits,
    generation,
    left_padded,
    made,
    memory_length,
    model_input,
    sampling,
    saved,
    sizes,
)
from posenc._check.rope import fading, given_frequencies, heads_of, reach, rotary, rotation, turned
from posenc._check.scaling import divisors, factor, fraction, known, ordered, trained, yarn
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
    "attention", "base", "buckets", "cached", "clamped", "clip", "closed", "coordinates", "damaged", "dim",
    "direction", "distance_queries", "divisors", "embedded", "encoding_name", "factor", "fading", "fits",
    "fraction", "generation", "given_frequencies", "grid_frequencies", "grid_rotation", "grid_shape",
    "head_angles", "head_count", "heads_of", "kept", "known", "known_axes", "label_tables",
    "labelled", "layout", "left_padded", "looked_up", "made", "made_for", "matrix", "memory_length",
    "model_input", "no_cpu_gradient", "offsets", "ordered", "place", "positions", "reach",
    "rotary", "rotation", "rows", "sampling", "saved", "sections", "shares", "shaw", "shifted",
    "sizes", "slopes", "span", "stretched", "table_size", "trained", "transformer_xl", "turned", "whole",
    "window", "yarn",
]  # fmt: skip
