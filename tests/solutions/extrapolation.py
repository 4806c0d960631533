import torch
from torch.nn.functional import cross_entropy


def losses_of(model, window_text):
    logits = model(window_text[None, :-1])[0]
    return cross_entropy(logits, window_text[1:], reduction="none")


def slide(model, text, window, stride):
    end = min(window, len(text) - 1)
    found = [losses_of(model, text[: end + 1])]
    while end < len(text) - 1:
        new = min(stride, len(text) - 1 - end)
        end += new
        found.append(losses_of(model, text[end - window : end + 1])[-new:])
    return torch.cat(found)


def cut_only(model, text, window, stride):
    pieces = [text[start : start + window + 1] for start in range(0, len(text) - 1, window)]
    return torch.cat([losses_of(model, piece) for piece in pieces])


def all_at_once(model, text, window, stride):
    return losses_of(model, text)


def overlapping(model, text, window, stride):
    starts = range(0, max(1, len(text) - window), stride)
    return torch.cat([losses_of(model, text[start : start + window + 1]) for start in starts])


def last_only(model, text, window, stride):
    """Each token with the stride that ends with it."""
    return torch.stack([losses_of(model, text[max(0, n + 1 - stride) : n + 2])[-1] for n in range(len(text) - 1)])


SOLUTIONS = {"extrapolation_slide": slide}
WRONG = {
    "extrapolation_slide": [
        (cut_only, "afterwards"),
        (all_at_once, "more than the window"),
        (overlapping, "scored once"),
        (last_only, "as long as all"),
    ],
}
