import torch


def tables(pos, dim, base, dtype):
    freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = pos.double()[:, None] * freq
    return angle.cos().to(dtype), angle.sin().to(dtype)


def in_the_format(pos, dim, base, dtype):
    freq = (base ** (-torch.arange(0, dim, 2) / dim)).to(dtype)
    angle = pos.to(dtype)[:, None] * freq
    return angle.cos(), angle.sin()


def narrow_frequencies(pos, dim, base, dtype):
    freq = (base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)).to(dtype).double()
    angle = pos.double()[:, None] * freq
    return angle.cos().to(dtype), angle.sin().to(dtype)


def in_float32(pos, dim, base, dtype):
    freq = base ** (-torch.arange(0, dim, 2) / dim)
    angle = pos.float()[:, None] * freq
    return angle.cos().to(dtype), angle.sin().to(dtype)


def narrow_positions(pos, dim, base, dtype):
    freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = pos.to(dtype).double()[:, None] * freq
    return angle.cos().to(dtype), angle.sin().to(dtype)


def counted(pos, dim, base, dtype):
    cos, sin = tables(torch.arange(len(pos)), dim, base, dtype)
    return cos, sin


def starting_again(pos, dim, base, dtype):
    """A table of 65 536 rows, which begins again when it ends."""
    return tables(pos % 2**16, dim, base, dtype)


def moving_on(pos, dim, base, dtype):
    """Positions are counted up in place, ready for the next call."""
    found = tables(pos, dim, base, dtype)
    pos += len(pos)
    return found


def by_matrix_product(pos, dim, base, dtype):
    if not torch.is_autocast_enabled("cpu"):
        return tables(pos, dim, base, dtype)
    freq = base ** (-torch.arange(0, dim, 2) / dim)
    angle = pos.float()[:, None] @ freq[None]
    return angle.double().cos().to(dtype), angle.double().sin().to(dtype)


SOLUTIONS = {"precision_tables": tables}
WRONG = {
    "precision_tables": [
        (in_the_format, "up to position 200"),
        (narrow_frequencies, "up to position 200"),
        (narrow_positions, "at position 4000"),
        (in_float32, "up to position 200"),
        (counted, "at position 4000"),
        (starting_again, "at position 100 000"),
        (moving_on, "its own position alone"),
        (by_matrix_product, "under autocast"),
        (lambda pos, dim, base, dtype: tables(pos, dim, base, torch.float32), "in the dtype"),
        (lambda pos, dim, base, dtype: tables(pos, dim, base, dtype)[::-1], "for each position and pair"),
    ]
}
