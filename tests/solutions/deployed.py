import torch


def planes(head_dim, share, base):
    freq = base ** (-torch.arange(0, head_dim, 2) / head_dim)
    rotating = torch.arange(head_dim // 2) < int(share * head_dim / 2)
    return torch.where(rotating, freq, 0.0)


def a_small_head(head_dim, share, base):
    dims = int(share * head_dim)
    freq = base ** (-torch.arange(0, dims, 2) / dims)
    return torch.cat((freq, torch.zeros((head_dim - dims) // 2)))


def slow_ones(head_dim, share, base):
    freq = planes(head_dim, 1.0, base)
    return torch.where(torch.arange(head_dim // 2) >= head_dim // 2 - int(share * head_dim / 2), freq, 0.0)


def all_of_them(head_dim, share, base):
    return planes(head_dim, 1.0, base)


def by_channel(head_dim, share, base):
    freq = base ** (-torch.arange(head_dim // 2) / head_dim)
    return torch.where(torch.arange(head_dim // 2) < int(share * head_dim / 2), freq, 0.0)


def channels(head_dim, share, base):
    return planes(head_dim, share, base).repeat_interleave(2)


SOLUTIONS = {"deployed_planes": planes}
WRONG = {
    "deployed_planes": [
        (channels, "a finite number for each plane"),
        (all_of_them, "planes rotate"),
        (slow_ones, "the slow ones"),
        (a_small_head, "as a whole"),
        (by_channel, "from 1 by base"),
    ],
}
