import torch

from posenc import frequencies, rotate
from posenc.grid import axial_frequencies, mixed_frequencies, mrope_positions, rotate_grid


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


def advancing(by):
    """M-RoPE's boxes, where the next span begins `by(span)` later."""

    def positions(spans):
        parts, start = [], 0
        for span in spans:
            alone = mrope_positions([span])
            parts.append(alone + start)
            start += span if isinstance(span, int) else by(*span)
        return torch.cat(parts)

    return positions


def swapped(spans):
    return mrope_positions([s if isinstance(s, int) else (s[0], s[2], s[1]) for s in spans])


def still_time(spans):
    found = mrope_positions(spans)
    start = 0
    for span in spans:
        size = span if isinstance(span, int) else span[0] * span[1] * span[2]
        if not isinstance(span, int):
            found[start : start + size, 0] = 0
        start += size
    return found


def numbered(spans):
    size = sum(s if isinstance(s, int) else s[0] * s[1] * s[2] for s in spans)
    return torch.arange(size)[:, None].expand(-1, 3)


def each_axis(spans):
    """Each axis goes on after its own largest coordinate."""
    parts, start = [], torch.zeros(3, dtype=torch.long)
    for span in spans:
        parts.append(mrope_positions([span]) + start)
        start = parts[-1].amax(0) + 1
    return torch.cat(parts)


def rows_from_zero(spans):
    """Rows and columns of an image count from 0, wherever it stands."""
    parts = list(mrope_positions(spans).split([s if isinstance(s, int) else s[0] * s[1] * s[2] for s in spans]))
    for span, part in zip(spans, parts, strict=True):
        if not isinstance(span, int):
            part[:, 1:] -= part[0, 1:].clone()
    return torch.cat(parts)


SOLUTIONS = {"grid_axial": halves, "grid_positions": mrope_positions}
WRONG = {
    "grid_axial": [
        (by_the_sum, "every step"),
        (raster, "every step"),
        (products, "moving all places"),
        (turned, "one half"),
        (text_base, "one step"),
        (mixed_layouts, "lengths"),
    ],
    "grid_positions": [
        (advancing(lambda t, h, w: max(h, w)), "one after the largest"),
        (advancing(lambda t, h, w: max(t, h, w) - 1), "one after the largest"),
        (advancing(lambda t, h, w: t * h * w), "one after the largest"),
        (swapped, "read like a page"),
        (still_time, "read like a page"),
        (numbered, "read like a page"),
        (lambda spans: mrope_positions(spans) + 1, "text alone"),
        (each_axis, "three equal coordinates"),
        (rows_from_zero, "lies on the diagonal"),
    ],
}
