import math

import torch

from posenc import rotate
from posenc.schemes.scaling import interpolate, ntk, yarn


def rule(freq, factor, trained):
    turns = trained * freq / (2 * math.pi)
    share = (turns.log() / math.log(8)).clamp(0, 1)  # 0 at one turn, 1 at 8
    return freq * factor ** (share - 1)


def whatever_the_factor(freq, factor, trained):
    return rule(freq, 4.0, trained)


def out_of_order(freq, factor, trained):
    """From 8 turns on all is kept, below it all stand at the slowest speed that is allowed."""
    turns = trained * freq / (2 * math.pi)
    return torch.where(turns >= 8, freq, freq.min() / factor)


def a_fifth_too_far(freq, factor, trained):
    """Slow planes reach 1.2 times the phase that they were trained to."""
    new = rule(freq, factor, trained)
    return torch.where(trained * freq < 2 * math.pi, 1.2 * new, new)


def freshen(keys, pos, old, new):
    return rotate(keys, pos, new - old)


def on_top(keys, pos, old, new):
    return rotate(keys, pos, new)


def other_way(keys, pos, old, new):
    return rotate(keys, pos, old - new)


def stretched(keys, pos, old, new):
    return keys * (new / old).repeat_interleave(2)


def if_it_is_worth_it(keys, pos, old, new):
    """A small change is left alone, and many small ones are large."""
    return keys if (new - old).abs().max() < 0.01 else freshen(keys, pos, old, new)


def last_only(keys, pos, old, new):
    return torch.cat([keys[..., :-1, :], rotate(keys, pos, new - old)[..., -1:, :]], -2)


SOLUTIONS = {"scaling_rule": rule, "scaling_freshen": freshen}
WRONG = {
    "scaling_rule": [
        (lambda freq, factor, trained: interpolate(freq, factor), "8 turns or more"),
        (lambda freq, factor, trained: ntk(freq, factor), "8 turns or more"),
        (lambda freq, factor, trained: yarn(freq, factor, trained), "8 turns or more"),
        (lambda freq, factor, trained: freq, "no new phase"),
        (whatever_the_factor, "no new phase"),
        (a_fifth_too_far, "no new phase"),
        (lambda freq, factor, trained: rule(freq, 2 * factor, trained), "factor 1 changes nothing"),
        (lambda freq, factor, trained: torch.where(trained * freq >= 50, freq, 0.0), "slower stays slower"),
        (out_of_order, "slower stays slower"),
    ],
    "scaling_freshen": [
        (lambda keys, pos, old, new: keys, "after one repair"),
        (on_top, "same frequencies"),
        (other_way, "after one repair"),
        (stretched, "length"),
        (last_only, "after one repair"),
        (if_it_is_worth_it, "at every step"),
    ],
}
