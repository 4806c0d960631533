import torch

from posenc import frequencies, sinusoidal


def codes(pos, dim):
    angle = pos[:, None] * 10_000 ** (-torch.arange(0, dim, 2, device=pos.device) / dim)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


def unpaired(pos, dim):
    channel = torch.arange(dim)
    angle = pos[:, None] * 10_000 ** (-2 * channel / dim)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos())


def sines_twice(pos, dim):
    angle = pos[:, None] * frequencies(dim)
    return torch.stack([angle.sin(), angle.sin()], -1).flatten(-2)


def halves(pos, dim):
    return sinusoidal(pos, dim, layout="half")


def rows(pos, dim):
    return sinusoidal(torch.arange(len(pos)), dim)


def half_the_exponent(pos, dim):
    angle = pos[:, None] * 10_000 ** (-torch.arange(dim // 2) / dim)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


def march(start, theta, length):
    cos, sin = theta.cos(), theta.sin()
    rows = [start]
    for _ in range(length - 1):
        s, c = rows[-1][0::2], rows[-1][1::2]
        rows.append(torch.stack([cos * s + sin * c, cos * c - sin * s], -1).flatten())
    return torch.stack(rows)


def euler(start, theta, length):
    rows = [start]
    for _ in range(length - 1):
        s, c = rows[-1][0::2], rows[-1][1::2]
        rows.append(torch.stack([s + theta * c, c - theta * s], -1).flatten())
    return torch.stack(rows)


def backwards(start, theta, length):
    return march(start, -theta, length)


def from_zero(start, theta, length):
    return sinusoidal(torch.arange(length), 2 * len(theta))


def not_marched(start, theta, length):
    angle = torch.atan2(start[0::2], start[1::2]) + torch.arange(length)[:, None] * theta
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


def starts(count):
    return torch.randint(200, (count,), generator=torch.Generator().manual_seed(0)).tolist()


SOLUTIONS = {"sinusoidal_encoding": codes, "sinusoidal_march": march, "sinusoidal_starts": starts}
WRONG = {
    "sinusoidal_encoding": [
        (unpaired, "unit circle"),
        (sines_twice, "position 0"),
        (halves, "position 0"),
        (rows, "its own position"),
        (half_the_exponent, "pair t rotates"),
    ],
    "sinusoidal_march": [
        (euler, "its length"),
        (backwards, "its own frequency"),
        (from_zero, "the first is the start"),
        (not_marched, "one sine and one cosine"),
        (lambda start, theta, length: start.expand(length, -1), "its own frequency"),
    ],
    "sinusoidal_starts": [
        (lambda count: [0] * count, "64 to 127"),
        (lambda count: torch.randint(1000, (count,)), "no window"),
        (lambda count: starts(count - 1), "200 windows"),
        (lambda count: [0, 100] * (count // 2), "64 to 127"),
        (lambda count: [336] * count, "queries 3 to 63"),
        (lambda count: ([0, 32, 64] * count)[:count], "400 to 463"),
    ],
}
