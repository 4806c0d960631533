import torch
from torch.nn.functional import pad


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


def turn(x, pos, freq):
    angle = (pos[:, None].to(freq.dtype) * freq).repeat(1, 2)
    a, b = x.to(freq.dtype).chunk(2, -1)
    turned = torch.cat((a, b), -1) * angle.cos() + torch.cat((-b, a), -1) * angle.sin()
    return turned.to(x.dtype)


def mixed(x, pos, freq):
    angle = (pos[:, None] * freq).repeat_interleave(2, -1).to(x.dtype)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()


def narrow(x, pos, freq):
    angle = (pos[:, None].to(x.dtype) * freq.to(x.dtype)).repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()


def interleaved(x, pos, freq):
    angle = (pos[:, None] * freq).repeat_interleave(2, -1)
    partner = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return (x * angle.cos() + partner * angle.sin()).to(x.dtype)


def wide(x, pos, freq):
    angle = (pos[:, None] * freq).repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()


def by_key(table):
    length = table.shape[-2]
    return table.flatten(-2)[..., length - 1 :].unfold(-1, length, 2 * length - 2)[..., :length, :]


def spilled(table):
    length = table.shape[-2]
    return pad(table[..., :length], (1, 0)).flatten(-2)[..., length:].unflatten(-1, (length, length))


def unshifted(table):
    return table[..., : table.shape[-2]]


def flat(table):
    return torch.stack([by_key(part) for part in table.flatten(0, -3)]) if table.ndim > 2 else by_key(table)


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


SOLUTIONS = {"bugs_offset": positions, "bugs_pairs": turn, "bugs_shift": by_key, "bugs_mask": may_see}
WRONG = {
    "bugs_offset": [
        (one_counter, "its own start"),
        (columns, "wherever padding stands"),
        (from_zero, "goes on from its start"),
        (padding_from_zero, "read in two pieces"),
        (below_zero, "for which a table has a row"),
    ],
    "bugs_pairs": [
        (mixed, "keeps its length"),
        (interleaved, "are a pair"),
        (narrow, "exact angles"),
        (wide, "comes back as bfloat16"),
        (lambda x, pos, freq: turn(x, -pos, freq), "counter-clockwise"),
        (lambda x, pos, freq: turn(x, pos + 1, freq), "position 0"),
        (lambda x, pos, freq: turn(x, pos.clamp(max=31), freq), "the offset alone"),
    ],
    "bugs_shift": [
        (spilled, "the distance i - j"),
        (unshifted, "the distance i - j"),
        (flat, "served alike"),
        (lambda table: by_key(table[..., :1, :].expand_as(table)), "nothing of another's"),
    ],
    "bugs_mask": [
        (rows, "one query alone"),
        (strict, "may see itself"),
        (leaks, "another document"),
        (own, "the future"),
        (stored, "in which order"),
    ],
}
