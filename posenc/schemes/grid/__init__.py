"""Two and three dimensions: a place has coordinates, and a matrix says how fast each of them turns each pair."""

from posenc.schemes.grid.mixed import MixedRoPE, mixed_frequencies
from posenc.schemes.grid.mrope import MRoPE, mrope_frequencies, mrope_positions
from posenc.schemes.grid.place import Grid, grid_coordinates
from posenc.schemes.grid.rope import GridRoPE, axial_frequencies, rotate_grid
from posenc.schemes.grid.sinusoidal import GridSinusoidal, sinusoidal_grid

__all__ = [  # noqa: RUF022  the API's page has this order
    "Grid", "grid_coordinates", "sinusoidal_grid", "GridSinusoidal", "axial_frequencies", "rotate_grid", "GridRoPE",
    "mixed_frequencies", "MixedRoPE", "mrope_positions", "mrope_frequencies", "MRoPE",
]  # fmt: skip
