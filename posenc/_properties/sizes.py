"""The sizes with which an encoding runs, how far it runs, and on which backends."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._attention.kernels import BACKENDS
from posenc._attention.pairs import pair_index
from posenc._properties.checks import raise_unmeasurable, require_tensor, require_unchanged, require_values
from posenc._properties.differences import change_of
from posenc._properties.probe import FURTHEST, Probe, repeated
from posenc._properties.result import first_line, number, raised

NOT_FINITE = "gives numbers that are not finite"


def probe_for(encoding: Encoding, given: dict[str, int | None]) -> Probe:
    """The first probe that runs, with sizes as given, as the encoding has them, or usual; in float64 if possible."""
    require_values(encoding)
    source = copy.deepcopy(encoding).cpu().requires_grad_(False)
    errors: list[tuple[str, str]] = []
    for sizes in _candidates(encoding, given):
        for dtype in (torch.float64, torch.float32):
            probe = Probe(copy.deepcopy(source).to(dtype), *sizes, dtype)
            try:
                pos = torch.arange(3).clamp(max=max(0, sizes[3] - 1))
                _doors(probe.fresh(), pos)
                probe.layer(probe.tokens(3)[None], pos)
            except Exception as error:
                errors.append((probe.sizes(), raised(error)))
                continue
            probe.original = encoding
            probe.nonfinite = first_nonfinite(probe.fresh())
            _reach(probe)
            _randomise(probe)
            probe.backend_outputs = _backends(probe.fresh())
            return probe
    raise_unmeasurable(type(encoding).__name__, errors)


def _doors(probe: Probe, pos: Tensor) -> None:
    """Two sequences of three tokens: every door returns a tensor, of the shape that attention needs."""
    encoding, heads, d = probe.encoding, probe.heads, probe.head_dim
    x, q = probe.tokens(6).unflatten(0, (2, 3)), probe.random(2, heads, 3, d)
    at, square, before = pos.expand(2, -1), (2, heads, 3, 3), (x.clone(), q.clone())
    if "embed" in encoding.doors:
        require_tensor(encoding, "embed", encoding.embed(x, pos), tuple(x.shape), "as it was given (B, L, D)")
    turned = encoding.query(q, pos), encoding.key(q, pos)
    fits = all(isinstance(x, Tensor) and x.shape[:-1] == q.shape[:-1] for x in turned)
    shape = turned[0].shape if fits and turned[0].shape == turned[1].shape else q.shape  # both may have more channels
    for door, vectors in zip(("query", "key"), turned, strict=True):
        require_tensor(encoding, door, vectors, tuple(shape), "as it was given (B, H, L, d)")
    require_unchanged(encoding, (x, q), before)
    if encoding.score_bias is not None:
        bias = encoding.score_bias(*turned, at, at)
        bias = bias(*pair_index(q, q)) if callable(bias) else bias
        if bias is None:
            require_tensor(
                encoding, "score_bias", bias, square, "or what broadcasts to it, or a function f(b, h, i, j)"
            )
    if encoding.rescale is not None:
        scores = encoding.rescale(at, at)(probe.random(*square), *pair_index(q, q))
        require_tensor(encoding, "rescale", scores, square, "a score for each, (B, H, Lq, Lk)")
    if encoding.mix is not None:
        mixed = encoding.mix(probe.random(*square).softmax(-1), q, at, at)
        require_tensor(encoding, "mix", mixed, tuple(q.shape), "a vector for each query, (B, H, Lq, d)")


def first_nonfinite(probe: Probe) -> str:
    """The first door that gives a number which is not finite, at one of the first positions, and where."""
    pos = torch.arange(min(probe.length, 64))
    try:
        with_position = probe.encoding.embed(repeated(probe.tokens(1), pos), pos)
        q, k, v = probe.project(with_position)
        vectors = {"embed": with_position, "query": probe.encoding.query(q, pos), "key": probe.encoding.key(k, pos)}
        for door, x in vectors.items():
            if not x.isfinite().all():
                place = (~x.isfinite()).nonzero()[0]
                return f"{door} gives {x[tuple(place)]:g} at position {pos[place[-2]]}"
        score = probe.scores(vectors["query"], vectors["key"], pos, pos)
        if probe.encoding.causal_only:
            score = score.tril()
        if not score.isfinite().all():
            *_, i, j = place = (~score.isfinite()).nonzero()[0]
            return f"the score of query {i} and key {j} is {score[tuple(place)]:g}"
        value = probe.values(v, pos[:1], pos)
        if not value.isfinite().all():
            return f"mix gives numbers that are not finite for key {(~value.isfinite()).nonzero()[0, 0]}"
    except Exception:  # the measures will meet the same error and report it
        return ""
    return ""


def _candidates(encoding: Encoding, given: dict[str, int | None]) -> Iterator[tuple[int, int, int, int]]:
    """Sizes to try, (model_dim, heads, head_dim, length), the most usual first."""
    known = {name: value if value is not None else _attribute(encoding, name) for name, value in given.items()}
    model_dim, heads, head_dim = known["model_dim"], known["heads"], known["head_dim"]
    if not heads and model_dim and head_dim and model_dim % head_dim == 0:
        heads = model_dim // head_dim
    for count in [heads] if heads else [4, 8, 2, 1, 12, 16]:
        usual = [16, 64, 32, 128, 8]
        if model_dim:
            usual = [model_dim // count] if model_dim % count == 0 else []
        for size in [head_dim] if head_dim else usual:
            yield model_dim or count * size, count, size, known["length"] or 512


def _attribute(encoding: Encoding, name: str) -> int | None:
    for module in encoding.modules():
        value = getattr(module, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _reach(probe: Probe) -> None:
    """Finds the last position that the encoding serves, up to FURTHEST, and what happens at the next one."""
    fresh = probe.fresh()
    low, high, tried = 0, None, {}
    for end in (*sorted({probe.length - 1, probe.length, 2 * probe.length}), FURTHEST):
        tried[end] = _problem(fresh, end)
        if tried[end]:
            high = end
            break
        low = end
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        tried[middle] = _problem(fresh, middle)
        low, high = (low, middle) if tried[middle] else (middle, high)
    probe.last_position = min(low, FURTHEST)
    probe.beyond_last = tried[high] if high is not None else ""
    probe.length = min(probe.length, probe.last_position + 1)


def _problem(probe: Probe, end: int) -> str:
    """What goes wrong with tokens at 0 and `end`, or nothing."""
    try:
        out = probe.layer(probe.tokens(2)[None], torch.tensor([0, end]))
    except Exception as error:
        return raised(error)
    return "" if out.isfinite().all() else NOT_FINITE


def _randomise(probe: Probe) -> None:
    """Parameters that are all zero may hide a scheme: if position has no effect, they get random numbers."""
    zero = {name: x for name, x in probe.encoding.named_parameters() if x.numel() and not x.any()}
    n = min(probe.length, 64)
    x, pos, past = probe.tokens(n)[None], torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril()
    if not zero:
        return
    try:
        moved, unmoved = (probe.fresh().layer(x, at, causal=False, mask=past) for at in (pos, torch.zeros_like(pos)))
    except Exception:
        return
    if float(change_of(moved, unmoved).max()) <= probe.tolerance:
        for seed, (name, parameter) in enumerate(zero.items()):
            parameter.copy_(0.1 * probe.random(*parameter.shape, seed=100 + seed))
            probe.randomised.append(name)


def _backends(probe: Probe) -> dict[str, Tensor | str]:
    """The output of each backend of `attend`, or the reason why the backend cannot serve the encoding."""
    n = min(16, probe.length)
    x, pos = probe.random(1, n, probe.model_dim, seed=12), torch.arange(n)
    outputs: dict[str, Tensor | str] = {}
    for backend in BACKENDS:
        try:
            out = probe.layer(x, pos, backend=backend)
        except Exception as error:
            outputs[backend] = first_line(error)
            continue
        dense = outputs.get("dense", out)
        change = float(change_of(out, dense).max()) if isinstance(dense, Tensor) else math.nan
        served = backend == "dense" or change <= probe.tolerance
        outputs[backend] = (
            out if served else f'backend "{backend}" differs from dense by {number(change)} of the spread'
        )
    return outputs
