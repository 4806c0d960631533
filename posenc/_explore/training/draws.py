"""Random numbers that a graph can draw: a function of a seed and a number, the same in torch and in a page.

A generator has a state, which a graph could not share with torch. These numbers have none: each is the image of its own
number under a keyed permutation of the integers below the prime 2³¹ − 1, made of additions and fifth powers. A fifth
power is a permutation there, since 5 does not divide 2³¹ − 2, and products of two such integers fit into int64.
"""

from __future__ import annotations

import math

from torch import Tensor

PRIME = 2**31 - 1
ROUNDS = (1_013_904_223, 1_664_525, 747_796_405, 277_803_737)  # added between the powers; any that differ would do


def digest(seed: Tensor, stream: int, index: Tensor) -> Tensor:
    """Integers from 0 to 2³¹ − 2 that look independent of each other.

    Args:
        seed: A 0-d integer tensor, 0 or more and below 2³¹ − 1.
        stream: Which of the sequences of a seed.
        index: int64, which numbers of the sequence, 0 or more and below 2³¹ − 1, of any shape.

    Returns:
        int64, in the shape of index.
    """
    x = index
    for key in (seed + ROUNDS[0], stream + ROUNDS[1], seed + ROUNDS[2], stream + ROUNDS[3]):
        x = (x + key) % PRIME
        square = x * x % PRIME
        x = square * square % PRIME * x % PRIME
    return x


def below(count: int, seed: Tensor, stream: int, index: Tensor) -> Tensor:
    """Integers from 0 to count − 1, in the shape of index."""
    return digest(seed, stream, index) % count


def uniform(seed: Tensor, stream: int, index: Tensor) -> Tensor:
    """Numbers between 0 and 1, float32, in the shape of index."""
    return (digest(seed, stream, index).float() + 0.5) / PRIME


def normal(seed: Tensor, stream: int, index: Tensor) -> Tensor:
    """Numbers of mean 0 and variance 1, float32, in the shape of index: the transform of Box and Muller (1958)."""
    radius = (-2 * uniform(seed, stream, 2 * index).log()).clamp(min=0).sqrt()
    return radius * (2 * math.pi * uniform(seed, stream, 2 * index + 1)).cos()
