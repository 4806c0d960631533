import torch
from torch.nn.functional import pad

from posenc import Shaw, T5Bias


def label(offset, clip):
    return offset.clamp(-clip, clip) + clip


def wrapped(offset, clip):
    return offset % (2 * clip + 1)


def unsigned(offset, clip):
    return offset.abs().clamp(max=clip)


def negative(offset, clip):
    return offset.clamp(-clip, clip)


def reversed_(offset, clip):
    return (-offset).clamp(-clip, clip) + clip


def zeroed(offset, clip):
    return torch.where(offset.abs() <= clip, offset + clip, 0)


def one_by_one(offset, clip):
    return torch.tensor([max(-clip, min(clip, int(r))) + clip for r in offset])


def skew(x):
    L = x.shape[-1]
    padded = pad(x, (1, 0))  # (..., L, L + 1)
    return padded.flatten(-2)[..., L:].unflatten(-1, (L, L))


def padded_right(x):
    L = x.shape[-1]
    return pad(x, (0, 1)).flatten(-2)[..., :-L].unflatten(-1, (L, L))


def flipped(x):
    return x.flip(-1)


def rows_of_keys(x):
    i, j = torch.arange(x.shape[-1])[:, None], torch.arange(x.shape[-1])
    return x[..., j, (x.shape[-1] - 1 + j - i).clamp(max=x.shape[-1] - 1)]


def all_at_once(x):
    L = x.shape[-1]
    return pad(x, (1, 0)).flatten()[L:].reshape(-1)[: x.numel()].view(x.shape)


def as_shaw(bias, L, d):
    rows = bias(torch.arange(1 - L, L))
    shaw = Shaw(d, L - 1, heads=len(rows), values=False).double().requires_grad_(False)
    shaw.key_table.zero_()[..., 0] = d**0.5 * rows
    return shaw


def random_table(bias, L, d):
    return Shaw(d, L - 1, heads=len(bias(torch.arange(1))), values=False)


def unscaled(bias, L, d):
    shaw = as_shaw(bias, L, d)
    shaw.key_table /= d**0.5
    return shaw


def cut(bias, L, d):
    """Logits of more than 3 are cut, which the drawn buckets do not reach and lines do."""
    return as_shaw(lambda offset: bias(offset).clamp(-3, 3), L, d)


def turned_around(bias, L, d):
    return as_shaw(lambda offset: bias(-offset), L, d)


def with_noise(bias, L, d):
    shaw = as_shaw(bias, L, d)
    shaw.key_table[..., 1:].normal_()
    return shaw


def with_values(bias, L, d):
    return Shaw(d, L - 1, heads=len(bias(torch.arange(1))))


SOLUTIONS = {"shaw_labels": label, "shaw_skew": skew, "shaw_t5": as_shaw}
WRONG = {
    "shaw_labels": [
        (wrapped, "up to clip apart"),
        (unsigned, "up to clip apart"),
        (negative, "from 0 to 2"),
        (reversed_, "up to clip apart"),
        (zeroed, "on their side"),
        (one_by_one, "any shape"),
    ],
    "shaw_skew": [
        (lambda x: x, "diagonal"),
        (padded_right, "diagonal"),
        (flipped, "diagonal"),
        (rows_of_keys, "that of query i and the offset"),
        (all_at_once, "as if it were alone"),
        (lambda x: x.diagonal(0, -2, -1), "shape stays"),
    ],
    "shaw_t5": [
        (random_table, "T5's buckets"),
        (unscaled, "T5's buckets"),
        (turned_around, "T5's buckets"),
        (cut, "ALiBi's lines"),
        (with_noise, "contents count"),
        (with_values, "keys only"),
        (lambda bias, L, d: T5Bias(2), "keys only"),
    ],
}
