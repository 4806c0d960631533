import math

import torch


def masked_softmax(s, mask):
    low = torch.finfo(s.dtype).min
    s = s.masked_fill(~mask, low)
    e = (s - s.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)


def as_it_is_written(s, mask):
    e = s.exp() * mask
    return e / e.sum(-1, keepdim=True)


def largest_of_all(s, mask):
    e = (s - s.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def masked_fill(s, mask):
    return s.masked_fill(~mask, -torch.inf).softmax(-1)


def zeroed_afterwards(s, mask):
    return s.softmax(-1) * mask


def to_base_two(s, mask):
    return masked_softmax(s * math.log(2), mask)


def hidden_afterwards(s, mask):
    largest = s.masked_fill(~mask, torch.finfo(s.dtype).min).amax(-1, keepdim=True)
    e = torch.where(mask, (s - largest).exp(), 0.0)
    return e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)


SOLUTIONS = {"refresher_softmax": masked_softmax}
WRONG = {
    "refresher_softmax": [
        (as_it_is_written, "large logits"),
        (largest_of_all, "large logits"),
        (masked_fill, "everything is forbidden"),
        (zeroed_afterwards, "the others share 1"),
        (to_base_two, "the odds of two"),
        (hidden_afterwards, "gradients"),
    ],
}
