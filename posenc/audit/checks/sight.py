"""What does a token see: nothing ahead, the order of the past, how far back?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posenc.audit.adapters.protocol import Refused
from posenc.audit.checks import Outcome, check
from posenc.audit.comparison.attention import Attention, lies
from posenc.audit.probe import Probe, per_place


@check("a later token changes: do earlier logits stay the same?")
def future(p: Probe) -> Outcome:
    """Tokens change at several places: a change near the end alone has missed a model that sees ahead."""
    worst, ahead, behind = 0.0, [], []
    for at in _places(p.n):
        changed = p.x.clone()
        changed[:, at] = p.other(p.x)
        out = p.logits(changed)
        size = p.off(out[:, :at], p.full[:, :at])
        worst = size if size != size else max(worst, size)
        moved = per_place(out, p.full) > p.tolerance
        before, after = moved[:at], moved[at + 1 :]
        ahead.append((at, int(before.sum()), at - int(before.nonzero()[0]) if before.any() else 0))
        behind.append((at, int(after.sum()), int(after.nonzero()[-1]) + 1 if after.any() else 0))
    return Outcome(worst, details={"ahead": ahead, "behind": behind})


@check("the text is cut short: do earlier logits stay the same?")
def prefix(p: Probe) -> float:
    n = p.n // 2 - 1
    return p.off(p.logits(p.x[:, :n]), p.full[:, :n])


@check("whether queries or keys move with the length of the text", partner=True)
def prefix_look(p: Probe) -> Outcome:
    """In a text of one repeated token, whose places differ by position alone: the first layer that differs."""
    longer, n = 4, p.n - 4
    text = torch.full((1, p.n), (p.low + p.adapter.vocabulary) // 2, device=p.device)
    with Attention(p.n) as whole:
        p.logits(text)
    with Attention(n) as short:
        p.logits(text[:, :n])
    for layer, (a, b) in enumerate(zip(whole.layers, short.layers, strict=False)):
        places = [lies(x[:, :, longer], y, longer) for x, y in ((a.q, b.q), (a.k, b.k))]
        moved = [place is not None and place != longer for place in places]
        if any(moved):
            by = abs(next(place for place, wrong in zip(places, moved, strict=True) if wrong) - longer)  # type: ignore[operator]
            of = "queries" if moved[0] else "keys"
            return Outcome(None, details={"layer": layer, "of": of, "both": all(moved), "by": by, "longer": longer})
    return Outcome(None)


@check("two earlier tokens change places: do the last logits change?")
def order(p: Probe) -> float:
    p.other(p.x)
    sizes = []
    for a, b in ((p.n // 8, 3 * p.n // 8), (p.n - 4, p.n - 3)):  # far back, and within every window
        swapped = p.x.clone()
        swapped[:, [a, b]] = swapped[:, [b, a]]
        sizes.append(p.off(p.logits(swapped)[:, -1], p.full[:, -1]))
    return max(sizes)


@check("an earlier token changes: do the last logits change?", partner=True)
def reach_near(p: Probe) -> float:
    changed = p.x.clone()
    changed[:, p.n - 4] = p.other(p.x)
    return p.off(p.logits(changed)[:, -1], p.full[:, -1])


@check("two later tokens change places: do the first logits change?")
def order_ahead(p: Probe) -> Outcome:
    """Later tokens see one another's order themselves, so layers are looked into as well, where attention is in torch:
    in a text of one token, do scores depend on how far a key lies back, and not on how far it lies ahead?
    """
    p.other(p.x)
    sizes = []
    for a, b in ((5 * p.n // 8, 7 * p.n // 8), (2, 3)):
        swapped = p.x.clone()
        swapped[:, [a, b]] = swapped[:, [b, a]]
        sizes.append(p.off(p.logits(swapped)[:, 0], p.full[:, 0]))
    with Attention(p.n) as look:
        p.logits(torch.full_like(p.x, (p.low + p.adapter.vocabulary) // 2))
    blind = [layer for layer, seen in enumerate(look.layers) if _blind_ahead(seen.scores)]
    return Outcome(max(sizes), details={"blind": blind})


def _blind_ahead(scores: Tensor) -> bool:
    """Whether scores (B, H, L, L) of earlier keys differ by distance, and those of later ones do not."""
    at = scores.shape[-1] // 2
    past, later = (
        float((each - each[..., :1]).nan_to_num(0.0, 0.0, 0.0).abs().max())
        for each in (scores[..., at, :at], scores[..., at, at + 1 :])
    )
    return later < 1e-6 * past


@check("how many later tokens does the first one affect?")
def reach(p: Probe) -> Outcome:
    moved = _moved(p, 0)
    far = int(moved.nonzero().max()) if moved.any() else -1
    return Outcome(None, details={"far": far, "room": p.room})


@check("how many earlier tokens does the last one affect?")
def reach_ahead(p: Probe) -> Outcome:
    """Of an encoder: how far tokens look ahead, through all layers."""
    moved = _moved(p, p.room - 1)
    far = p.room - 1 - int(moved.nonzero().min()) if moved.any() else -1
    return Outcome(None, details={"far": far, "room": p.room})


def _moved(p: Probe, at: int) -> Tensor:
    """Which logits of a long text change with one token of it."""
    x = p.text(p.room, seed=9)
    changed = x.clone()
    changed[:, at] = p.other(x)
    return per_place(p.logits(changed), p.logits(x)) > (1e-9 if p.full.dtype == torch.float64 else 1e-5)


@check("does the loss of the last token reach the tokens before it?", more=True)
def gradient(p: Probe) -> Outcome:
    """The smallest gradient of eight places before the last, where changing the token changes the last logits."""
    embedding = _embedding(p)
    kept: list[Tensor] = []

    def hook(module: nn.Module, args: object, out: Tensor) -> Tensor:
        kept.append(out.detach().requires_grad_())
        return kept[-1].clone()  # which a model may change in place

    handle = embedding.register_forward_hook(hook)
    try:
        with torch.enable_grad():
            loss = p.logits(p.x)[:, -1].square().sum()
    finally:
        handle.remove()
    # Of this output alone: gradients of all weights would be a second model in memory
    grad = torch.autograd.grad(loss, kept[0], allow_unused=True)[0] if kept else None
    size = torch.zeros(p.n) if grad is None else grad.reshape(-1, grad.shape[-1])[-p.n :].norm(dim=-1).cpu()
    finite = bool(size.isfinite().all())
    lost: list[int] = []
    unseen: list[int] = []
    for at in range(max(0, p.n - 8), p.n):
        if size[at] > 0:
            continue
        changed = p.x.clone()
        changed[:, at] = p.other(p.x)
        (lost if p.off(p.logits(changed)[:, -1], p.full[:, -1]) > p.tolerance else unseen).append(at)
    return Outcome(float(len(lost)) if finite else float("nan"), details={"lost": lost, "unseen": unseen})


def _places(n: int) -> list[int]:
    return sorted({max(1, n // 8), max(1, 3 * n // 8), n - 3, n - 1})


def _embedding(p: Probe) -> nn.Embedding:
    part = getattr(p.adapter, "part", p.adapter.module)
    modules = [] if part is None else list(part.modules())
    tables = [m for m in modules if isinstance(m, nn.Embedding) and m.num_embeddings >= p.adapter.vocabulary]
    if not tables:
        raise Refused("has no embedding whose gradient can be measured")
    return min(tables, key=lambda m: m.num_embeddings)
