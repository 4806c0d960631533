import torch


def slopes(heads):
    power = 2 ** (heads.bit_length() - 1)
    first = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    rest = [2 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return torch.tensor(first + rest[0::2][: heads - power], dtype=torch.float64)


def one_formula(heads):
    return 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)


def from_zero(heads):
    return 2.0 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)


def summary(heads):
    return 2.0 ** -torch.arange(1, heads + 1, dtype=torch.float64)


SOLUTIONS = {"alibi_slopes": slopes}
WRONG = {
    "alibi_slopes": [
        (one_formula, "for other numbers"),
        (from_zero, "the last slope"),
        (summary, "the last slope"),
        (lambda heads: torch.full((heads,), 0.5), "no two are equal"),
    ]
}
