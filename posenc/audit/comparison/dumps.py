"""Dumps: logits of a text, or queries and keys of each layer before and after their rotation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import torch

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.comparison.described import Found, differences_of, merged
from posenc.audit.comparison.maps import Map, named_map
from posenc.audit.comparison.result import KINDS, Comparison, Difference
from posenc.audit.comparison.sides import Side
from posenc.audit.identification import given
from posenc.audit.identification.asked import identify
from posenc.audit.identification.rotation import FoundRotation
from posenc.audit.probe import deviation

LAYER = re.compile(r"(?P<of>q|k)(?:uery|ey)?[._](?P<layer>\d+)[._](?P<when>before|after)$")
RECIPE = (
    "a dump has `tokens` and `logits`, or `positions` and q.0.before, q.0.after, k.0.before, k.0.after, q.1.before, …"
)


def opened(what: Any) -> dict[str, Any] | None:
    """The arrays of a dump by name; None if it is none."""
    if isinstance(what, str | os.PathLike):
        return dict(given.read(what))
    return dict(what) if isinstance(what, Mapping) else None


def of_rotations(reference: Any, candidate: Any, dim: int) -> Comparison:
    """Two functions that turn vectors."""
    maps = []
    for name, each in (("reference", reference), ("candidate", candidate)):
        try:
            one = identify(each, dim=dim)
        except ValueError as error:
            if name == "reference":
                raise
            return _no_rotation(str(error))
        if not isinstance(one, FoundRotation):
            raise Unfit(f"the {name} is a bias and no rotation: leave out dim")
        maps.append(named_map(one))
    return _listed(merged([_placed(f) for f in differences_of(maps[0], maps[1])]), one_layer=True)


def _placed(f: Found, layer: int = 0, of: str = "") -> Found:
    return Found(f.kind, f.reference, f.candidate, (layer,), of, f.look, True)


def _no_rotation(why: str) -> Comparison:
    kind = (
        "layout"
        if "arranged" in why
        else "direction"
        if "mirrored" in why
        else "unrotated"
        if "turns" in why
        else "other"
    )
    d = Difference(kind, "a rotation", why.split(". ")[0], (), None, why.split(". ")[-1])
    return Comparison(False, kind != "other", (d,))


def _listed(found: list[Found], one_layer: bool = False, notes: tuple[str, ...] = ()) -> Comparison:
    listed = tuple(
        Difference(
            f.kind, f.reference, f.candidate, () if one_layer else f.layers, None, f.look or KINDS[f.kind][1], f.of
        )
        for f in found
    )
    return Comparison(not listed, True, listed, notes=notes)


def of_two(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> Comparison:
    """Two dumps: of queries and keys, or of logits."""
    for name, each in (("reference", ours), ("candidate", theirs)):
        for key, value in each.items():
            x = torch.as_tensor(value)
            if x.is_floating_point() and not bool(x.double().isfinite().all()):
                raise Unfit(
                    f"{key} of the {name} has numbers that are not finite: leave padded rows out, and dump in float32"
                )
    one, other = (_by_layer(each) for each in (ours, theirs))
    if one and other:
        if one.keys() != other.keys():
            raise Unfit(
                f"the reference has {_keys(one)} and the candidate {_keys(other)}: dump the same layers of both"
            )
        found: list[Found] = []
        for (of, layer), arrays in one.items():
            part = {"q": "queries", "k": "keys"}[of]
            a = _identified(arrays, ours, f"the reference, {of}.{layer}")
            b = _identified(other[of, layer], theirs, f"the candidate, {of}.{layer}")
            if a is not None and b is not None:
                found += [_placed(f, layer, part) for f in differences_of(a, b)]
            elif a is not None or b is not None:
                words = ["a rotation" if each is not None else "no rotation" for each in (a, b)]
                found.append(Found("unrotated" if a is not None else "layers", words[0], words[1], (layer,), part))
        return _listed(merged(found))
    if "logits" in ours and "logits" in theirs:
        x, y = (torch.as_tensor(each["logits"]).double() for each in (ours, theirs))
        if x.shape != y.shape:
            raise Unfit(f"logits have shapes {tuple(x.shape)} and {tuple(y.shape)}: dump the same text with both")
        return _of_logits_alone(x, y, tolerance)
    raise Unfit(f"the dumps have {_keys(ours)} and {_keys(theirs)}: {RECIPE}")


def _of_logits_alone(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> Comparison:
    """Logits of both, and no model: the first token says whether it is positional at all."""
    a, b = (each.reshape(-1, *each.shape[-2:]) for each in (a, b))
    size, first = deviation(b, a), deviation(b[:, :1], a[:, :1])
    loose = max(tolerance, 2e-3)  # dumps are rarely in float64
    if size <= loose:
        return Comparison(True, True, (), size, size)
    if first > loose:
        why = f"another first token (off {first:.2g}), which sees itself alone"
        return Comparison(
            False, False, (Difference("other", "its logits", why, (), None, KINDS["other"][1]),), size, size
        )
    note = (
        "The first token agrees and later ones do not: positions, windows, or the cache. To name it, give the "
        "reference as a model, or dump queries and keys before and after their rotation"
    )
    rows = (b - a).abs().amax((0, 2)) / a.square().mean().sqrt()
    start = int((rows > loose).nonzero()[0])
    return Comparison(False, True, (), size, size, {"first token that differs": start}, (note,))


def of_logits(dump: dict[str, Any], side: Side, turned: bool, tolerance: float) -> Comparison:
    """A dump of logits beside a model: hypotheses are tried in the model."""
    if "logits" not in dump or "tokens" not in dump:
        raise Unfit(f"the dump has {_keys(dump)}: beside a model it takes `tokens` and `logits`")
    from posenc.audit.comparison import search

    logits, tokens = torch.as_tensor(dump["logits"]).double(), torch.as_tensor(dump["tokens"]).long()
    tokens = tokens if tokens.ndim == 2 else tokens[None]
    logits = logits if logits.ndim == 3 else logits[None]
    if not bool(logits.isfinite().all()):
        raise Unfit("logits of the dump are not finite: dump them in float32")
    if logits.shape[:2] != tokens.shape:
        raise Unfit(f"the dump has tokens {tuple(tokens.shape)} and logits {tuple(logits.shape)}: a row for each token")
    positions = dump.get("positions")
    return search.beside_dump(
        side, tokens, None if positions is None else torch.as_tensor(positions).long(), logits, turned, tolerance
    )


def _by_layer(arrays: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for name, value in arrays.items():
        if match := LAYER.search(name):
            found.setdefault((match["of"], int(match["layer"])), {})[match["when"]] = value
    return {key: each for key, each in sorted(found.items(), key=lambda kv: kv[0][::-1]) if len(each) == 2}


def _identified(arrays: dict[str, Any], whole: Mapping[str, Any], name: str) -> Map | None:
    """The map of one layer's vectors; None where nothing turns."""
    positions = next((whole[n] for n in given.POSITIONS if n in whole), None)
    if positions is None:
        x = torch.as_tensor(arrays["before"])
        positions = torch.arange(x.shape[-2])
    try:
        found = identify((arrays["before"], arrays["after"], positions))
    except ValueError as error:
        if "no channel turns" in str(error):
            return None
        raise Unfit(f"{name}: {error}") from error
    assert isinstance(found, FoundRotation)
    return named_map(found)


def _keys(arrays: Mapping[Any, Any]) -> str:
    names = [k if isinstance(k, str) else f"{k[0]}.{k[1]}" for k in arrays]
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "") or "no arrays"
