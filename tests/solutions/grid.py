import torch

from posenc import frequencies, rotate
from posenc.schemes.grid import axial_frequencies, mixed_frequencies, rotate_grid


def halves(x, coords):
    half = x.shape[-1] // 2
    ladder = frequencies(half, 100.0, dtype=torch.float64)
    return torch.cat([rotate(x[:, :half], coords[:, 0], ladder), rotate(x[:, half:], coords[:, 1], ladder)], -1)


def by_the_sum(x, coords):
    return rotate(x, coords.sum(-1), frequencies(x.shape[-1], 100.0, dtype=torch.float64))


def raster(x, coords):
    return rotate(x, 5 * coords[:, 0] + coords[:, 1], frequencies(x.shape[-1], 100.0, dtype=torch.float64))


def products(x, coords):
    return rotate(x, coords[:, 0] * coords[:, 1], frequencies(x.shape[-1], 100.0, dtype=torch.float64))


def turned(x, coords):
    freq = mixed_frequencies(x.shape[-1], torch.tensor([0.6], dtype=torch.float64), 100.0)[:, 0]
    return rotate_grid(x, coords, freq)


def text_base(x, coords):
    return rotate_grid(x, coords, axial_frequencies(x.shape[-1], 2, 10_000.0, dtype=torch.float64))


def mixed_layouts(x, coords):
    angle = (coords.double() @ axial_frequencies(x.shape[-1], dtype=torch.float64)).repeat_interleave(2, -1)
    middle = x.shape[-1] // 2
    return x * angle.cos() + torch.cat([-x[:, middle:], x[:, :middle]], -1) * angle.sin()


SOLUTIONS = {"grid_axial": halves}
WRONG = {
    "grid_axial": [
        (by_the_sum, "every step"),
        (raster, "every step"),
        (products, "moving all places"),
        (turned, "one half"),
        (text_base, "one step"),
        (mixed_layouts, "lengths"),
    ],
}
