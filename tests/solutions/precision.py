import math

import torch

STEPS = 2**44  # of a turn


def tables(pos, dim, base):
    """Angles are whole numbers of steps, and steps of whole turns are taken off before anything is rounded."""
    speed = [base ** (-2 * t / dim) / (2 * math.pi) for t in range(dim // 2)]
    step = torch.tensor([round(turns * STEPS) for turns in speed], device=pos.device)
    left = (pos[:, None] * step + STEPS // 2) % STEPS - STEPS // 2
    angle = left.float() * (2 * math.pi / STEPS)
    return angle.cos(), angle.sin()


def in_float32(pos, dim, base):
    freq = base ** (-torch.arange(0, dim, 2) / dim)
    angle = pos.float()[:, None] * freq
    return angle.cos(), angle.sin()


def in_float64(pos, dim, base):
    freq = base ** (-torch.arange(0, dim, 2).double() / dim)
    angle = pos[:, None] * freq
    return angle.cos().float(), angle.sin().float()


def reduced_too_late(pos, dim, base):
    """The turns are taken off after the product has been rounded to float32."""
    freq = base ** (-torch.arange(0, dim, 2) / dim)
    angle = torch.remainder(pos.float()[:, None] * freq, 2 * math.pi)
    return angle.cos(), angle.sin()


def narrow_frequencies(pos, dim, base):
    """Whole steps, of frequencies that were rounded to float32 before."""
    freq = base ** (-torch.arange(0, dim, 2) / dim) / (2 * math.pi)
    step = torch.tensor([round(turns * STEPS) for turns in freq.tolist()])
    left = (pos[:, None] * step + STEPS // 2) % STEPS - STEPS // 2
    angle = left.float() * (2 * math.pi / STEPS)
    return angle.cos(), angle.sin()


def few_steps(pos, dim, base):
    """A turn has 2^24 steps only."""
    step = torch.tensor([round(base ** (-2 * t / dim) / (2 * math.pi) * 2**24) for t in range(dim // 2)])
    angle = (pos[:, None] * step % 2**24).float() * (2 * math.pi / 2**24)
    return angle.cos(), angle.sin()


def counted(pos, dim, base):
    return tables(torch.arange(len(pos)), dim, base)


def starting_again(pos, dim, base):
    """A table of 65 536 rows, which begins again when it ends."""
    return tables(pos % 2**16, dim, base)


def moving_on(pos, dim, base):
    """Positions are counted up in place, ready for the next call."""
    found = tables(pos, dim, base)
    pos += len(pos)
    return found


def by_matrix_product(pos, dim, base):
    if not torch.is_autocast_enabled("cpu"):
        return tables(pos, dim, base)
    freq = base ** (-torch.arange(0, dim, 2) / dim)
    angle = (pos.float()[:, None] @ freq[None]).float()
    return angle.cos(), angle.sin()


SOLUTIONS = {"precision_tables": tables}
WRONG = {
    "precision_tables": [
        (in_float32, "up to position 200"),
        (in_float64, "without float64"),
        (reduced_too_late, "up to position 200"),
        (narrow_frequencies, "up to position 200"),
        (few_steps, "up to position 200"),
        (counted, "at position 4000"),
        (starting_again, "at position 100 000"),
        (moving_on, "its own position alone"),
        (by_matrix_product, "under autocast"),
        (lambda pos, dim, base: [table.bfloat16() for table in tables(pos, dim, base)], "in float32"),
        (lambda pos, dim, base: tables(pos, dim, base)[::-1], "for each position and pair"),
    ]
}
