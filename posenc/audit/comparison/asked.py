"""`compare`: two implementations of one model, and in what they differ."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from posenc._version import __version__
from posenc.audit.adapters.protocol import TURN, Refused, Unfit
from posenc.audit.comparison import absolute, beside, dumps
from posenc.audit.comparison.attention import Change, spread, words
from posenc.audit.comparison.described import CHOSEN, Found, differences
from posenc.audit.comparison.maps import turned
from posenc.audit.comparison.plan import change_of
from posenc.audit.comparison.result import KINDS, Comparison, Difference
from posenc.audit.comparison.sides import Layer, Side, layers_of, unturned_of
from posenc.audit.probe import deviation

FAR = (1_000, 100_000)
FAR_LOOSE = 0.05  # float32's angles at 100,000 differ from float64's by some thousandths


@dataclass
class Text:
    """One text that both are asked about, and what their layers do in it."""

    name: str
    tokens: Tensor
    positions: Tensor | None
    tolerance: float
    reference: Tensor
    candidate: Tensor
    ours: list[Layer] = field(default_factory=list)
    theirs: list[Layer] = field(default_factory=list)

    @property
    def off(self) -> float:
        return deviation(self.candidate, self.reference)


def compare(
    reference: Any, candidate: Any, *, dim: int | None = None, weights: Mapping[str, str] | bool | None = None,
    tokens: int = 61, seed: int = 0, tolerance: float = 1e-4,
) -> Comparison:  # fmt: skip
    """Two implementations of one model: whether they are the same, and in what they differ.

    Both get the same texts. Texts of one repeated token show what each layer does to queries and keys at each position,
    since such a text holds the same at every place. What differs is then done in the reference as well, until it gives
    the candidate's logits: what stays is not positional. Neither side is changed, and each keeps its own weights.

    Args:
        reference: A module, a model of transformers, a function of tokens or an `Adapter`; a rotation
            `(x, positions) -> x'` with `dim`; or a dump: a dict, a `.npz` or a `.safetensors` with `tokens` and
            `logits`, or with `positions` and `q.0.before`, `q.0.after`, `k.0.before`, … for each layer.
        candidate: The other side, of the same kinds.
        dim: Channels of a head, where both are functions that turn vectors.
        weights: True gives a copy of the candidate the reference's weights of the same names; a dict says which name
            of the candidate has which name in the reference. Default: each keeps its own.
        tokens: Length of the texts, more than 16. A window is seen if it is shorter. Default: 61.
        seed: Of the texts. Default: 0.
        tolerance: Differences below it, over the root mean square of the logits, are rounding. Default: 1e-4.

    Returns:
        A `Comparison`: print it, or ask it for `same`, `positional` and `differences`.

    Raises:
        ValueError: If a side cannot be called, or the two have other vocabularies or numbers of layers.

    Example:
        >>> from posenc import RoPE
        >>> from posenc.audit import compare
        >>> c = compare(RoPE(64).query, RoPE(64, 500_000.0, layout="half").query, dim=64)
        >>> c.kinds
        ('layout', 'base')
    """
    begun = time.monotonic()
    if tokens <= 16:
        raise Unfit(f"tokens is {tokens}: use more than 16")
    with TURN, torch.no_grad():
        if dim is not None:
            found = dumps.of_rotations(reference, candidate, dim)
        elif any(isinstance(each, str | os.PathLike | Mapping) for each in (reference, candidate)):
            found = _with_dumps(reference, candidate, tolerance)
        else:
            found = _Models(reference, candidate, weights, tokens, seed, tolerance).compared()
    facts = {"posenc": __version__, "torch": torch.__version__, "seconds": round(time.monotonic() - begun, 2)}
    return replace(found, facts=found.facts | facts)


def _with_dumps(reference: Any, candidate: Any, tolerance: float) -> Comparison:
    """At least one side is a dump."""
    ours, theirs = (dumps.opened(each) for each in (reference, candidate))
    if ours is not None and theirs is not None:
        return dumps.of_two(ours, theirs, tolerance)
    dump, model, turned = (theirs, reference, False) if theirs is not None else (ours, candidate, True)
    assert dump is not None
    return dumps.of_logits(dump, Side(model, "candidate" if turned else "reference"), turned, tolerance)


class _Models:
    """Two models, asked in turn."""

    def __init__(
        self, reference: Any, candidate: Any, weights: Mapping[str, str] | bool | None, tokens: int, seed: int,
        tolerance: float,
    ) -> None:  # fmt: skip
        self.ours, self.theirs = Side(reference, "reference"), Side(candidate, "candidate")
        self.tolerance, self.seed = tolerance, seed
        self.notes: list[str] = []
        for side in (self.ours, self.theirs):
            if side.why:
                self.notes.append(f"The {side.name} cannot be copied ({side.why}) and is compared as it is.")
        a, b = self.ours.vocabulary, self.theirs.vocabulary
        if a != b and min(a, b) < 0.9 * max(a, b):
            raise Unfit(f"the reference has {a} tokens and the candidate {b}: give two implementations of one model")
        self.vocabulary = min(a, b)
        if weights:
            beside.shared(self.ours, self.theirs, None if weights is True else weights)
        self.n = beside.length(self.ours, self.theirs, tokens)
        self.low = min(10, self.vocabulary // 8)
        g = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(self.low, self.vocabulary, (2, self.n), generator=g)
        self.counts = self.ours.able_to_count() and self.theirs.able_to_count()

    def compared(self) -> Comparison:
        near = self._text("as they count", None, self.tolerance)
        if near.reference.shape != near.candidate.shape:
            cut = min(near.reference.shape[-1], near.candidate.shape[-1])
            near.reference, near.candidate = near.reference[..., :cut], near.candidate[..., :cut]
        for name, each in (("reference", near.reference), ("candidate", near.candidate)):
            if not bool(each.isfinite().all()):
                raise Unfit(f"the {name} gives logits that are not finite: load its weights, or use float32")
        texts, ignored = [near], None
        if self.counts:
            far, ignored = self._far()
            texts += [far] if far is not None else []
        self._look(texts)
        if not near.ours or not near.theirs:
            return self._unseen(near)
        if len(near.ours) != len(near.theirs):
            raise Unfit(
                f"the reference has {len(near.ours)} layers of attention and the candidate {len(near.theirs)}: give "
                f"two models of one depth"
            )
        told = absolute.told(self.ours, near, self.tolerance)
        found = [told] if told is not None else differences(texts[-1] if ignored is None else near, near)
        if (before := self.ours.before) and before == self.theirs.before and not found:
            found = self._after(near, before)
        if ignored is not None and not any(f.kind == "unrotated" for f in found):
            found.append(ignored)
        return self._weighed(texts, found, ignored)

    def _after(self, near: Text, before: int) -> list[Found]:
        """Whether a text lies elsewhere behind what stands before it: then distances to that are others."""
        offsets = {
            round(b.offset - a.offset, 3)
            for one, other in zip(near.ours, near.theirs, strict=True)
            for a, b in ((one.q, other.q), (one.k, other.k))
            if a.turns and b.turns and not b.own
        }
        if len(offsets) != 1 or offsets == {0.0}:
            return []
        by = offsets.pop()

        def moved(layer: int, q: Tensor, k: Tensor, scores: Tensor) -> Tensor:
            """The scores where the text lies elsewhere."""
            ours = near.ours[layer] if near.ours[layer].q.turns else near.ours[0]  # deeper ones see what stands before
            new = [each.clone() for each in (q, k)]
            for x, m in zip(new, (ours.q, ours.k), strict=True):
                z = torch.polar(torch.ones_like(m.slopes), by * m.slopes).expand(x.shape[2] - before, -1)
                x[:, :, before:] = turned(x[:, :, before:], m.pairs, z, 1.0)
            change = new[0] @ spread(new[1], q).mT - q @ spread(k, q).mT
            return scores + ours.scale * change

        out = self.ours.changed(near.tokens, None, moved, rows=before + self.n)
        left = deviation(near.candidate, out)
        if left > max(3 * near.tolerance, 0.02 * near.off):
            return []
        rows = f"the {before} rows that stand before it"
        return [
            Found("offset", f"a text whose positions go on after {rows}", f"a text {abs(by):g} positions "
                  f"{'nearer to' if by < 0 else 'farther from'} {rows}", tuple(range(len(near.ours))),
                  look="from which position a text goes on: after the largest of all axes of what stands before it",
                  certain=True, settled=True, left=left)
        ]  # fmt: skip

    def _text(self, name: str, positions: Tensor | None, tolerance: float) -> Text:
        pos = None if positions is None else positions.expand(len(self.tokens), -1)
        return Text(
            name,
            self.tokens,
            positions,
            tolerance,
            self.ours.logits(self.tokens, pos),
            self.theirs.logits(self.tokens, pos),
        )

    def _far(self) -> tuple[Text | None, Found | None]:
        """A text with far positions, and whether the candidate does not read them."""
        third = self.n // 3
        parts = [torch.arange(third), FAR[0] + torch.arange(third), FAR[1] + torch.arange(self.n - 2 * third)]
        for positions in (torch.cat(parts)[None], torch.cat((parts[0], 3 * torch.arange(third, self.n)))[None]):
            try:
                text = self._text("far", positions, FAR_LOOSE if int(positions.max()) > 50_000 else 5 * self.tolerance)
                plain = [self.ours.logits(self.tokens), self.theirs.logits(self.tokens)]
            except (Unfit, Refused):
                continue
            moved = [deviation(one, other) for one, other in zip((text.reference, text.candidate), plain, strict=True)]
            if moved[0] > 10 * self.tolerance and moved[1] < self.tolerance:
                return None, Found(
                    "ignored", "positions as they are given", "its own count, whatever is given", certain=True
                )
            if moved[1] > 10 * self.tolerance and moved[0] < self.tolerance:
                return None, Found(
                    "ignored", "its own count, whatever is given", "positions as they are given", certain=True
                )
            if max(moved) < self.tolerance:
                return None, None
            return text, None
        self.notes.append("Neither far positions nor stretched ones are taken by both: tables that end.")
        return None, None

    def _look(self, texts: list[Text]) -> None:
        """What the layers of both do in each text."""
        for text in texts:
            pos = torch.arange(self.n) if text.positions is None else text.positions[0]
            same = words(self.low, self.vocabulary, self.n)
            given = None if text.positions is None else text.positions.expand(len(same), -1)
            mixed = torch.randint(
                self.low, self.vocabulary, (4, self.n), generator=torch.Generator().manual_seed(self.seed + 1)
            )
            seen = [
                [side.seen(each, None if given is None else given[: len(each)]) for each in (same, mixed)]
                for side in (self.ours, self.theirs)
            ]
            if not seen[0][0] or not seen[1][0]:
                return
            start = [unturned_of(one) for one in seen[0][0]]
            text.ours = layers_of(seen[0][0], seen[0][1], None, pos)
            if len(seen[0][0]) != len(seen[1][0]):
                text.theirs = layers_of(seen[1][0], seen[1][1], None, pos)
                continue
            text.theirs = layers_of(seen[1][0], seen[1][1], start, pos)

    def _weighed(self, texts: list[Text], found: list[Found], ignored: Found | None) -> Comparison:
        """Differences with what each explains; and what stays, which is something else."""
        near = texts[0]
        size = max(text.off for text in texts)
        differ = any(text.off > text.tolerance for text in texts)
        kinds = tuple(dict.fromkeys(f.kind for f in found))
        left = size
        shares: dict[str, float | None] = dict.fromkeys(kinds)
        asked = [t for t in texts if t.off > t.tolerance] or texts[:1]
        rest = not kinds
        if kinds and not any(f.settled for f in found):
            stays = [self._off(t, kinds) for t in asked]
            left = max(stays)
            rest = any(s > max(3 * t.tolerance, 0.02 * t.off) for s, t in zip(stays, asked, strict=True))
            without = {k: max(self._off(t, tuple(o for o in kinds if o != k)) for t in asked) for k in kinds}
            whole = sum(max(without[k] - left, 0.0) for k in kinds)
            for k in kinds:
                shares[k] = max(without[k] - left, 0.0) / whole * (1 - min(left / size, 1.0)) if whole and size else 0.0
        elif any(f.settled for f in found):
            left = min(f.left for f in found if f.settled)
            shares = {f.kind: 1 - min(left / size, 1.0) if size else 0.0 for f in found}
        if differ and ignored is not None and not [k for k in kinds if k != "ignored"] and near.off <= self.tolerance:
            left = 0.0
        seen, small = (
            self._before_choice(near, kinds) if rest and any(f.reference == CHOSEN for f in found) else (0, 0.0)
        )
        if seen and small < 3 * self.tolerance:
            rest, left, shares = False, small, dict.fromkeys(kinds)
            self.notes.append(
                f"Up to token {seen - 1} all keys are seen, and what is listed explains all. From there on each side "
                "chooses keys by its own scores, so shares were not measured."
            )
        rest = rest and differ and left > 0
        if not differ:
            left = size
            found = [f for f in found if f.certain]
        listed = [
            Difference(f.kind, f.reference, f.candidate, f.layers, shares.get(f.kind), f.look or KINDS[f.kind][1], f.of)
            for f in found if f.kind != "offset" or differ or f.certain
        ]  # fmt: skip
        if rest:
            where = beside.stage(near.ours, near.theirs, near.reference, near.candidate, self.tolerance)
            listed.append(
                Difference("other", "something else", where, (), left / size if size else None, KINDS["other"][1])
            )
        more = beside.paths(self.ours, self.theirs, self.tokens, self.tolerance)
        listed += [Difference(f.kind, f.reference, f.candidate, (), None, f.look or KINDS[f.kind][1]) for f in more]
        facts = {
            "reference": beside.name_of(self.ours), "candidate": beside.name_of(self.theirs), "tokens": self.n,
            "layers": len(near.ours), "tolerance": self.tolerance,
            "asked": [t.name for t in texts],
        }  # fmt: skip
        same = not differ and not listed
        return Comparison(same, not rest, tuple(listed), size, left, facts, (*self.notes, *self._blind(near)))

    def _off(self, text: Text, kinds: tuple[str, ...]) -> float:
        """How far the candidate is from a reference that does what these kinds say."""
        change: Change = change_of(text.ours, text.theirs, frozenset(kinds))
        pos = None if text.positions is None else text.positions.expand(len(text.tokens), -1)
        return deviation(text.candidate, self.ours.changed(text.tokens, pos, change)[..., : text.candidate.shape[-1]])

    def _before_choice(self, near: Text, kinds: tuple[str, ...]) -> tuple[int, float]:
        """How many rows see all keys, and how far they are off where the reference does what these kinds say."""
        rows = min(layer.open for layer in (*near.ours, *near.theirs))
        if rows < 3:
            return 0, 0.0
        change = change_of(near.ours, near.theirs, frozenset(kinds) - {"window"})
        out = self.ours.changed(near.tokens, None, change)[:, :rows, : near.candidate.shape[-1]]
        return rows, deviation(near.candidate[:, :rows], out)

    def _blind(self, near: Text) -> list[str]:
        """What these texts cannot show."""
        notes = [f"Windows of {self.n} keys and more do not show in texts of {self.n} tokens: pass more tokens."]
        if not self.counts:
            notes.append(
                f"Positions cannot be given to both, so differences are those within {self.n} tokens, where "
                f"scalings of slow planes show little."
            )
        if any(not layer.straight for layer in near.ours):
            notes.append("Scores of the reference are more than a product and a bias, so shares are rough.")
        return notes

    def _unseen(self, near: Text) -> Comparison:
        """Where no attention of one side can be seen: hypotheses are tried in the other."""
        from posenc.audit.comparison import search

        return search.searched(self.ours, self.theirs, near, self.tolerance, self.notes)
