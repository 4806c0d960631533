import torch


def positions(real, start):
    return (start[:, None] + real.cumsum(-1) - 1).clamp(min=0)


def columns(real, start):
    return start[:, None] + torch.arange(real.shape[1])


def one_counter(real, start):
    return start.max() + torch.arange(real.shape[1]).expand(real.shape)


def below_zero(real, start):
    return start[:, None] + real.cumsum(-1) - 1


def from_zero(real, start):
    return (real.cumsum(-1) - 1).clamp(min=0)


def padding_from_zero(real, start):
    """Where there is padding, nothing goes on."""
    found = positions(real, 0 * start)
    return found + start[:, None] if real.all() else found


def may_see(qpos, kpos, qdoc, kdoc):
    return (kpos <= qpos[:, None]) & (kdoc == qdoc[:, None])


def rows(qpos, kpos, qdoc, kdoc):
    return torch.ones(len(qpos), len(kpos), dtype=torch.bool).tril() & (kdoc == qdoc[:, None])


def strict(qpos, kpos, qdoc, kdoc):
    return (kpos < qpos[:, None]) & (kdoc == qdoc[:, None])


def leaks(qpos, kpos, qdoc, kdoc):
    return kpos <= qpos[:, None]


def own(qpos, kpos, qdoc, kdoc):
    return kdoc == qdoc[:, None]


def stored(qpos, kpos, qdoc, kdoc):
    row = torch.arange(len(kpos))
    past = row <= row[-len(qpos) :, None] if len(qpos) == len(kpos) else kpos <= qpos[:, None]
    return past & (kdoc == qdoc[:, None])


SOLUTIONS = {"bugs_offset": positions, "bugs_mask": may_see}
WRONG = {
    "bugs_offset": [
        (one_counter, "its own start"),
        (columns, "wherever padding stands"),
        (from_zero, "goes on from its start"),
        (padding_from_zero, "read in two pieces"),
        (below_zero, "for which a table has a row"),
    ],
    "bugs_mask": [
        (rows, "one query alone"),
        (strict, "may see itself"),
        (leaks, "another document"),
        (own, "the future"),
        (stored, "in which order"),
    ],
}
