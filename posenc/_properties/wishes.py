"""Fourteen wishes for an encoding, and the measure of each."""

from __future__ import annotations

from collections.abc import Callable

from posenc._properties.distance import bounded, decays, relative, unlimited
from posenc._properties.invariance import cacheable, consistent, deterministic, fixed, fused, honest
from posenc._properties.linearity import linear
from posenc._properties.probe import Probe
from posenc._properties.result import Measurement
from posenc._properties.separation import grid, ordered, unique

WISHES: dict[str, tuple[str, Callable[[Probe], Measurement]]] = {
    "unique": ("Any two positions can be distinguished.", unique),
    "deterministic": ("The same input gives the same output.", deterministic),
    "fixed": ("Nothing has to be learned.", fixed),
    "consistent": ("A pair means the same in a longer sequence.", consistent),
    "honest": ("Positions are those that it is given.", honest),
    "bounded": ("Nothing grows without end with positions.", bounded),
    "linear": ("A linear map takes p to p + Δ, whatever p.", linear),
    "relative": ("Only offsets matter.", relative),
    "decays": ("Scores fall with distance.", decays),
    "grid": ("It extends to two dimensions, axis by axis.", grid),
    "cacheable": ("Decoding with a cache changes nothing.", cacheable),
    "unlimited": ("It runs at any position.", unlimited),
    "ordered": ("Order is seen without a mask.", ordered),
    "fused": ("An interface to fused kernels accepts it.", fused),
}
"""From the name of a property to the wish in words and the function that measures it."""
