import torch


def positions(n, longest, generator):
    return torch.randperm(longest, generator=generator)[:n].sort().values


def with_replacement(n, longest, generator):
    return torch.randint(longest, (n,), generator=generator).sort().values


def unsorted(n, longest, generator):
    return torch.randperm(longest, generator=generator)[:n]


def window(n, longest, generator):
    start = torch.randint(longest - n + 1, (), generator=generator)
    return start + torch.arange(n)


def evenly(n, longest, generator):
    return torch.arange(n) * longest // n


def one_too_many(n, longest, generator):
    return torch.randperm(longest + 1, generator=generator)[:n].sort().values


def never_the_last(n, longest, generator):
    return torch.randperm(longest - 1, generator=generator)[:n].sort().values


def later_half_twice_as_likely(n, longest, generator):
    likely = 1.0 + (torch.arange(longest) >= longest // 2)
    return likely.multinomial(n, generator=generator).sort().values


def own_generator(n, longest, generator):
    return torch.randperm(longest)[:n].sort().values


SOLUTIONS = {"generalisation_positions": positions}
WRONG = {
    "generalisation_positions": [
        (with_replacement, "no two are the same"),
        (unsorted, "they rise"),
        (window, "as likely as any other"),
        (evenly, "as likely as any other"),
        (one_too_many, "from 0 to longest - 1"),
        (never_the_last, "all that there are"),
        (later_half_twice_as_likely, "as likely as any other"),
        (own_generator, "the generator alone"),
    ],
}
