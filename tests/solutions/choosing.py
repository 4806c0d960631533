import math


def base(window, dim, planes, turns):
    ratio, t = window / (2 * math.pi * turns), dim // 2 - planes
    if ratio <= 1:
        return 1.0
    if t == 0:
        raise ValueError(f"the fastest plane makes {window / (2 * math.pi):.1f} turns whatever the base")
    return ratio ** (dim / (2 * t))


def one_plane(window, dim, planes, turns):
    return (window / (2 * math.pi * turns)) ** (dim / (dim - 2))


def off_by_one(window, dim, planes, turns):
    return max(1.0, window / (2 * math.pi * turns)) ** (dim / max(1, dim - 2 * planes - 2))


def a_fifth_too_large(window, dim, planes, turns):
    return max(1.0, 1.2 * base(window, dim, planes, turns))


def never_refuses(window, dim, planes, turns):
    return max(1.0, window / (2 * math.pi * turns)) ** (dim / max(1, dim - 2 * planes))


def not_clamped(window, dim, planes, turns):
    if planes == dim // 2:
        raise ValueError("no base does")
    return (window / (2 * math.pi * turns)) ** (dim / (dim - 2 * planes))


SOLUTIONS = {"choosing_base": base}
WRONG = {
    "choosing_base": [
        (one_plane, "enough planes are slow"),
        (off_by_one, "no smaller base"),
        (a_fifth_too_large, "no smaller base"),
        (not_clamped, "the base is 1"),
        (never_refuses, "refused with a ValueError"),
    ]
}
