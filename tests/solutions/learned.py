import torch
from torch.nn.functional import interpolate

from posenc import Learned, stretch_table


def lookup(x, pos, table):
    if ((pos < 0) | (pos >= len(table))).any():
        raise ValueError("a position has no row")
    return (x + table[pos]).to(x.dtype)


def unguarded(x, pos, table):
    return (x + table[pos]).to(x.dtype)


def by_row(x, pos, table):
    return x + table[: x.shape[1]]


def clamped(x, pos, table):
    return x + table[pos.clamp(0, len(table) - 1)]


def one_for_all(x, pos, table):
    return x + table[pos.reshape(-1)[: x.shape[1]]]


def promoted(x, pos, table):
    if ((pos < 0) | (pos >= len(table))).any():
        raise ValueError("a position has no row")
    return x + table[pos]


def resize(table, old, new, extra):
    spare, grid = table[:extra], table[extra:].view(*old, table.shape[1])
    grid = grid.permute(2, 0, 1)[None]
    grid = interpolate(grid, new, mode="bilinear", align_corners=True)[0].permute(1, 2, 0)
    return torch.cat([spare, grid.flatten(0, 1)])


def transposed(table, old, new, extra):
    grid = table[extra:].view(*old[::-1], table.shape[1]).permute(2, 1, 0)[None]
    grid = interpolate(grid, new, mode="bilinear", align_corners=True)[0].permute(1, 2, 0)
    return torch.cat([table[:extra], grid.flatten(0, 1)])


def mirrored(table, old, new, extra):
    grid = resize(table, old, new, extra)[extra:].view(*new, -1)
    return torch.cat([table[:extra], grid.flip(1).flatten(0, 1)])


def class_token_too(table, old, new, extra):
    return stretch_table(table, extra + new[0] * new[1])


def as_one_line(table, old, new, extra):
    return torch.cat([table[:extra], stretch_table(table[extra:], new[0] * new[1])])


def spare_last(table, old, new, extra):
    return resize(torch.cat([table[extra:], table[:extra]]).roll(extra, 0), old, new, extra).roll(-extra, 0)


class Seen(Learned):
    def __init__(self, model_dim, length, least=1):
        super().__init__(model_dim, length)
        self.least = least
        self.register_buffer("uses", torch.zeros(length, dtype=torch.long))

    def embed(self, x, pos):
        out = super().embed(x, pos)
        if self.training:
            self.uses += torch.bincount(pos.flatten(), minlength=self.length)
        elif (self.uses[pos] < self.least).any():
            raise ValueError(f"a row was used less than {self.least} times in training: use earlier positions")
        return out


class NotSaved(Seen):
    def __init__(self, model_dim, length, least=1):
        super().__init__(model_dim, length, least)
        self.register_buffer("uses", torch.zeros(length, dtype=torch.long), persistent=False)


class OncePerPass(Seen):
    def embed(self, x, pos):
        before = self.uses.clone()
        out = super().embed(x, pos)
        self.uses = torch.where(self.uses > before, before + 1, before)
        return out


class Highest(Learned):
    """Remembers the highest position only."""

    def __init__(self, model_dim, length, least=1):
        super().__init__(model_dim, length)
        self.register_buffer("end", torch.zeros((), dtype=torch.long))

    def embed(self, x, pos):
        if self.training:
            self.end.clamp_(min=pos.max())
        elif pos.max() > self.end:
            raise ValueError("beyond what was trained")
        return super().embed(x, pos)


class AsMany(Seen):
    """As many rows serve as were used, from the first on."""

    def embed(self, x, pos):
        if not self.training and (pos >= (self.uses > 0).sum()).any():
            raise ValueError("more rows than were used")
        return Learned.embed(self, x, pos) if not self.training else super().embed(x, pos)


class Silent(Seen):
    """Nothing is added before evaluation."""

    def embed(self, x, pos):
        out = super().embed(x, pos)
        return x if self.training else out


class Counting(Seen):
    """Counts in evaluation, too."""

    def embed(self, x, pos):
        try:
            return super().embed(x, pos)
        finally:
            if not self.training:
                self.uses += torch.bincount(pos.flatten(), minlength=self.length)


SOLUTIONS = {"learned_lookup": lookup, "learned_resize": resize, "learned_seen": Seen}
WRONG = {
    "learned_lookup": [
        (unguarded, "no row"),
        (by_row, "wherever it stands"),
        (clamped, "no row"),
        (one_for_all, "positions of their own"),
        (promoted, "dtype of x"),
    ],
    "learned_resize": [
        (class_token_too, "top to bottom"),
        (as_one_line, "top to bottom"),
        (transposed, "top to bottom"),
        (mirrored, "left to right"),
        (spare_last, "no places"),
        (lambda table, old, new, extra: table, "each place of the new grid"),
    ],
    "learned_seen": [
        (Learned, "never used"),
        (NotSaved, "saved with the weights"),
        (OncePerPass, "each time counts"),
        (Highest, "never used"),
        (Counting, "never used"),
        (AsMany, "training used serve"),
        (Silent, "a learned table"),
    ],
}
