"""One of the two: copies in float64, logits, and what its layers do with positions."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from posenc.audit.adapters.called import adapt
from posenc.audit.adapters.copies import Uncopied, copied, module_of
from posenc.audit.adapters.protocol import Adapter, Refused, Unfit, ask, logits_of
from posenc.audit.comparison.attention import Attention, Change, Seen, Squares, spread
from posenc.audit.comparison.maps import Map, map_of
from posenc.audit.errors import error_line
from posenc.audit.silence import quiet


@dataclass(frozen=True)
class Layer:
    """What one layer does with positions.

    Args:
        q, k: How vectors are turned.
        scale: What their product is multiplied by.
        bias: (H, L, L), what is added; -inf where a key is hidden.
        cap: The c of c·tanh(scores/c), where scores are capped; 0 if they are not.
        straight: Whether scores are the product times a number, plus the bias.
        chosen: Whether other keys are hidden in other texts, so that more than distance chooses them.
        open: How many rows from the first on see all keys up to their own, in all texts.
    """

    q: Map
    k: Map
    scale: float
    bias: Tensor
    cap: float = 0.0
    straight: bool = True
    chosen: bool = False
    open: int = 0


class Side:
    """A model as it is compared: a copy in eval mode and float64 where that runs; the caller's stays as it is.

    Args:
        model: As for `adapt`.
        name: "reference" or "candidate", for messages.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.name, self.why = name, ""
        self.before = 0
        """Rows of attention before the text, such as those of an image."""
        model = getattr(model, "_orig_mod", model)
        module = module_of(model)
        self.adapter: Adapter = self._adapter(model, module)
        self.module = self.adapter.module
        self.vocabulary = self.adapter.vocabulary
        self.marks = self.adapter.takes_mask and hasattr(getattr(self.module, "config", None), "model_type")
        """Whether a mask goes with positions: without one, transformers takes those that jump for several texts."""

    def _adapter(self, model: Any, module: nn.Module | None) -> Adapter:
        if module is None:
            return self._adapted(model)
        for dtype in (torch.float64, torch.float32):
            try:
                with quiet(io.StringIO()):
                    made = copied(model, dtype)
                    inner = module_of(made)
                    if inner is not None:
                        inner.eval()
                    adapter = adapt(made)
                    out = logits_of(ask(adapter.logits, torch.arange(8)[None] % adapter.vocabulary))
                if bool(out.isfinite().all()):
                    return adapter
            except Uncopied as error:
                self.why = str(error)
                break
            except Unfit:
                break
            except Exception:  # no float64 in this kernel
                continue
        return self._adapted(model)

    def _adapted(self, model: Any) -> Adapter:
        try:
            with quiet(io.StringIO()):
                return adapt(model)
        except ValueError as error:
            raise Unfit(f"the {self.name}: {error}") from error

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """(B, L, V) in float64; raises Unfit where the model raises."""
        if positions is not None and mask is None and self.marks:
            mask = torch.ones_like(tokens)
        try:
            with quiet(io.StringIO()):
                out = logits_of(ask(self.adapter.logits, tokens, positions, mask))
        except Refused:
            raise
        except Exception as error:
            raise Unfit(f"the {self.name} raises with tokens {tuple(tokens.shape)}: {error_line(error)}") from error
        if out.shape[:2] != tokens.shape:
            raise Unfit(
                f"the {self.name} returns {tuple(out.shape)} for tokens {tuple(tokens.shape)}: return (B, L, V)"
            )
        return out.detach().double()

    def changed(self, tokens: Tensor, positions: Tensor | None, change: Change, rows: int = 0) -> Tensor:
        """Logits with other scores, of `rows` queries and keys; 0 stands for as many as tokens."""
        with Attention(rows or tokens.shape[1], change, keep=False):
            return self.logits(tokens, positions)

    def seen(self, tokens: Tensor, positions: Tensor | None = None) -> list[Seen]:
        """What each layer does with these texts."""
        n = tokens.shape[1]
        with Attention(n) as look:
            self.logits(tokens, positions)
        if look.layers:
            return look.layers
        with Squares(n) as squares:
            self.logits(tokens, positions)
        if not squares.size:
            return []
        before = squares.size - n
        with Attention(squares.size) as look:
            self.logits(tokens, positions)
        first = [x.q[:, :, :before] for x in look.layers[:1]]
        if not all(torch.allclose(rows, rows[:1].expand_as(rows)) for rows in first):
            return []  # the first rows are tokens: what is added stands behind the text, or elsewhere
        self.before = before
        return [Seen(x.q[:, :, -n:], x.k[:, :, -n:], x.scores[:, :, -n:, -n:]) for x in look.layers]

    def able_to_count(self) -> bool:
        """Whether positions can be given."""
        return bool(self.adapter.takes_positions)


def layers_of(
    repeated: list[Seen], mixed: list[Seen], before: list[tuple[Tensor, Tensor]] | None, positions: Tensor
) -> list[Layer]:
    """What the layers of a side do.

    Args:
        repeated: Seen in texts of one token each, in which all places of a layer hold the same, but for positions.
        mixed: Seen in texts of different tokens.
        before: For each layer the unrotated queries and keys, (M, L, d); None for its own of the first place.
        positions: (L,).
    """
    out = []
    for n, (one, many) in enumerate(zip(repeated, mixed, strict=True)):
        given = before[n] if before is not None else (None, None)
        q, k = (_by_head(each, start, positions) for each, start in zip((one.q, one.k), given, strict=True))
        scale, bias, cap, straight = scores_of(many)
        see = many.scores.isfinite()
        hidden = (~see).tril().any(-1).any(1).any(0)
        rows = int(hidden.nonzero()[0]) if bool(hidden.any()) else len(hidden)
        out.append(Layer(q, k, scale, bias, cap, straight, not bool((see == see[:1]).all()), rows))
    return out


def _by_head(after: Tensor, start: Tensor | None, positions: Tensor) -> Map:
    """The map of all heads, and where there is none that of each, such as of an indexer beside other heads."""
    found = _map(after, start, positions)
    many = after.shape[1]
    if _clean(found) or many == 1 or (start is not None and start.shape[1] != many):
        return found
    each = [_map(after[:, h : h + 1], None if start is None else start[:, h : h + 1], positions) for h in range(many)]
    return replace(found, heads=tuple(each)) if all(map(_clean, each)) else found


def _clean(m: Map) -> bool:
    """Whether a rotation, or none, explains what is seen."""
    return not m.problem and (m.found is None or m.found.residual < 3e-3)


def _map(after: Tensor, start: Tensor | None, positions: Tensor) -> Map:
    """The map from the other side's first place, or from the side's own where that explains nothing."""
    before, own = _before(after, start), _vectors(after[:, :, :1].expand_as(after))
    found = map_of(before, _vectors(after), positions)
    if start is None or _clean(found):
        return found
    order = _order(before[:, 0], own[:, 0])
    known = () if order is None else tuple(order.tolist())
    if order is not None:  # what converted weights do, or a rotation that sorts channels first
        sorted_ = map_of(before, _vectors(after)[..., order], positions)
        if not sorted_.problem:
            return replace(sorted_, order=known)
    a, b = (each[:, 0].abs().sort().values for each in (before, own))
    permuted = a.shape == b.shape and bool((a - b).abs().max() < 1e-4 * a.abs().max())
    other = map_of(own, _vectors(after), positions)
    if found.found and other.found and other.found.residual > 0.3 * found.found.residual:
        return found  # rounding, and not another state
    if other.problem or (not permuted and found.mixed):
        return found
    return replace(other, own=True, permuted=permuted, order=known)


def _order(before: Tensor, after: Tensor) -> Tensor | None:
    """For each channel of vectors (M, d), which channel of the others (M, d) holds it; None where some isn't there."""
    if before.shape != after.shape:
        return None
    same = (before[:, :, None] - after[:, None]).abs().amax(0) < 1e-4 * before.abs().max()
    if bool((same.sum(0) != 1).any()) or bool((same.sum(1) != 1).any()):
        return None
    return same.long().argmax(1)


def _vectors(x: Tensor) -> Tensor:
    """(B, H, L, d) as (M, L, d)."""
    return x.flatten(0, 1).double()


def unturned_of(one: Seen) -> tuple[Tensor, Tensor]:
    """Queries and keys of the first place, (B, H, L, d)."""
    return tuple(each[:, :, :1].expand_as(each) for each in (one.q, one.k))  # type: ignore[return-value]


def _before(after: Tensor, start: Tensor | None) -> Tensor:
    """What vectors were before, (M, L, d): another side's first place, or their own."""
    own = after[:, :, :1].expand_as(after)
    if start is None or start.shape[-1] != after.shape[-1] or len(start) != len(after):
        return _vectors(own)
    if start.shape[1] != after.shape[1]:  # keys of groups, which one side repeats
        a, b = start.shape[1], after.shape[1]
        if b % a == 0:
            start = start.repeat_interleave(b // a, 1)
        elif a % b == 0:
            start = start[:, :: a // b]
        else:
            return _vectors(own)
    return _vectors(start)


def scores_of(seen: Seen) -> tuple[float, Tensor, float, bool]:
    """Scale, bias, cap, and whether these are all."""
    product = seen.q.double() @ spread(seen.k, seen.q).double().mT
    scores = seen.scores.double()
    see = scores.isfinite().all(0)
    hidden = torch.zeros(scores.shape[1:], dtype=torch.float64).masked_fill(~scores.isfinite().any(0), -torch.inf)

    def line(y: Tensor) -> tuple[float, Tensor, float]:
        a, b = product - product.mean(0), y - y.mean(0)
        ok = see.expand_as(a)
        s = float((a[ok] * b[ok]).sum() / a[ok].square().sum().clamp(min=1e-30))
        bias = (y - s * product).mean(0)
        left = float((b - s * a)[ok].abs().max() / b[ok].abs().max().clamp(min=1e-30))
        return s, torch.where(see, bias, hidden), left

    finite = scores.masked_fill(~see, 0.0)
    s, bias, left = line(finite)
    if left < 1e-3 or len(scores) < 2:
        return s, _rounded(bias), 0.0, True
    for cap in (20.0, 30.0, 50.0, 100.0, 15.0, 10.0, 5.0):
        if float(finite.abs().max()) < cap:
            s, bias, left = line(cap * torch.atanh((finite / cap).clamp(-1 + 1e-12, 1 - 1e-12)))
            if left < 1e-3:
                return s, _rounded(bias), cap, True
    return s, _rounded(bias), 0.0, False


def _rounded(bias: Tensor) -> Tensor:
    """Without what float32 leaves over of nothing."""
    size = bias[bias.isfinite()].abs().max() if bool(bias.isfinite().any()) else torch.zeros(())
    return torch.where(bias.abs() < 2e-5, torch.zeros_like(bias), bias) if float(size) < 2e-5 else bias
