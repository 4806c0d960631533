"""What people wish of an encoding, and how each wish is measured."""

from __future__ import annotations

from collections.abc import Callable

from posenc._properties.apart import grid, ordered, unique
from posenc._properties.course import bounded, decays, relative, unlimited
from posenc._properties.found import Found
from posenc._properties.linear import linear
from posenc._properties.probe import Probe
from posenc._properties.unchanged import cacheable, consistent, deterministic, fixed, fused, honest

WISHES: dict[str, tuple[str, Callable[[Probe], Found]]] = {
    "unique": ("Any two positions are told apart.", unique),
    "deterministic": ("The same input gives the same output.", deterministic),
    "fixed": ("Nothing has to be learned.", fixed),
    "consistent": ("A pair means the same in a longer sequence.", consistent),
    "honest": ("Positions are those that it is given.", honest),
    "bounded": ("Nothing grows without end with positions.", bounded),
    "linear": ("A linear map takes p to p + k, whatever p.", linear),
    "relative": ("Only offsets matter.", relative),
    "decays": ("Scores fall with distance.", decays),
    "grid": ("It extends to two dimensions, axis by axis.", grid),
    "cacheable": ("Decoding with a cache changes nothing.", cacheable),
    "unlimited": ("It runs at any position.", unlimited),
    "ordered": ("Order is seen without a mask.", ordered),
    "fused": ("A fused kernel serves it.", fused),
}
"""Name of a property -> the wish in words, and how it is measured."""
