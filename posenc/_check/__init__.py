"""Bad input is refused here, with the remedy in the message."""

from posenc._check.common import (
    base,
    dim,
    embedded,
    head_count,
    layout,
    made_for,
    positions,
)
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
from posenc._check.rope import (
    fading,
    given_frequencies,
    heads_of,
    reach,
    rotary,
    rotation,
    turned,
)
from posenc._check.scaling import (
    divisors,
    factor,
    fraction,
    known,
    ordered,
    trained,
    yarn,
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
    "base", "buckets", "clamped", "clip", "coordinates", "dim", "distance_queries", "divisors", "embedded",
    "factor", "fading", "fraction", "given_frequencies", "grid_frequencies", "grid_rotation", "grid_shape",
    "head_angles", "head_count", "heads_of", "known", "known_axes", "label_tables", "labelled", "layout",
    "looked_up", "made_for", "offsets", "ordered", "place", "positions", "reach", "rotary", "rotation", "rows",
    "sections", "shares", "shaw", "shifted", "slopes", "span", "stretched", "table_size", "trained",
    "transformer_xl", "turned", "whole", "yarn",
]  # fmt: skip
