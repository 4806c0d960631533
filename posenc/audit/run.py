"""The audit of one model: a copy of it, weights at which positions matter, all tests, and what they mean."""

from __future__ import annotations

import copy
import difflib
import io
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from posenc._version import __version__
from posenc.audit.adapter import Adapter, Unfit, first_line, said
from posenc.audit.called import adapt
from posenc.audit.causes import judge
from posenc.audit.checks import CHECKS, measure
from posenc.audit.config import Reading, read_config
from posenc.audit.measures import Measures, quiet
from posenc.audit.probe import ENDS, Probe
from posenc.audit.report import Report
from posenc.audit.verdict import Finding
from posenc.audit.weights import randomise as draw

SCHEMES = {
    **dict.fromkeys(("rope", "alibi", "t5", "shaw", "transformer_xl", "xpos", "distance_aware"), "relative"),
    **dict.fromkeys(("learned", "sinusoidal"), "absolute"),
    "nope": "none",
}
"""What a shift of all positions does to logits, by the scheme of a configuration."""

LIVELY = 0.05  # how far the order of two tokens should move the last logits, over their root mean square
LARGE = 100_000_000  # parameters from which on a copy with new weights is made only if it is asked for


def audit(
    model: Any, *, only: Iterable[str] | None = None, more: bool = False, reference: Any = None, tokens: int = 24,
    seed: int = 0, tolerance: float = 1e-3, randomise: bool | str = "auto", seconds: float = 8.0,
    progress: Callable[[str, int, int], None] | None = None, configuration: Any = None,
) -> Report:  # fmt: skip
    """Asks a model the questions that find positional bugs.

    The model itself stays as it is: a copy gets new weights, at which positions matter, and float64 where that runs.

    Args:
        model: as for `adapt`: a module, a model of transformers, a function of tokens, or an `Adapter`.
        only: names of tests; all unless given.
        more: whether to run those that take longer or are rarely needed, too (False).
        reference: a model or function that should give the same logits, and gets the same weights if it has parameters
            of the same names; or the angles by which pairs of channels should turn from one position to the next.
        tokens: length of the text, 8 or more; shorter where the model raises (24).
        seed: of texts and weights (0).
        tolerance: changes below it, over the root mean square of the logits, are rounding (1e-3).
        randomise: True draws new weights, False keeps the model's own, and "auto" draws unless there are more than
            100 million parameters.
        seconds: how long one test may take (8.0).
        progress: called before each test with its name, its number from 0, and how many there are.
        configuration: what the model should be: a dict, a path or a `Reading`, as `read_config` takes and returns them.

    Returns:
        The report.

    Raises:
        ValueError: if the model cannot be called, returns no logits, or there is no test of a name.

    Example:
        >>> from posenc import Transformer
        >>> from posenc.audit import audit
        >>> audit(Transformer(50, layers=1, model_dim=32), only=["future", "shift"]).passed
        True
    """
    begun = time.monotonic()
    if tokens < 8:
        raise ValueError(f"tokens is {tokens}: use 8 or more")
    should = expected(configuration, reference)
    names = chosen(only, more, should)
    notes: list[str] = []
    with quiet(io.StringIO()):
        given = adapt(model)
        if should.reference is not None and randomise is not False and _shared(given, should.reference) is None:
            randomise = False
            notes.append("The reference has no parameters of the same names, so weights stay as they are.")
        adapter, changed = _prepared(given, randomise, seed, notes)
    options = {"tokens": tokens, "seed": seed, "tolerance": tolerance, "seconds": seconds}
    probe = _probe(adapter, given, notes, **options)
    if changed:
        probe = _livelier(probe, notes, **options)
    probe.angles = should.angles
    if should.reference is not None:
        probe.reference = _with_weights(should.reference, probe)
    measures = Measures(
        probe, expects=should.scheme or getattr(probe.adapter, "scheme", None), reach=should.reach
    )  # fmt: skip
    findings: list[Finding] = []
    for n, name in enumerate(names):
        if progress is not None:
            progress(name, n, len(names))
        findings.append(judge(name, measures))
    if measures.printed:
        notes.append(f"The model printed {measures.printed} lines, which are left out.")
    if measures.in_single:
        notes.append(f"In float32, since float64 does not run there: {', '.join(measures.in_single)}.")
    module = probe.adapter.module
    facts = {
        "model": _name(model),
        "parameters": sum(p.numel() for p in module.parameters()) if module is not None else None,
        "vocabulary": probe.adapter.vocabulary,
        "dtype": str(probe.full.dtype).removeprefix("torch."),
        "device": str(probe.device),
        "weights": "drawn anew" if changed else "as they are",
        "tokens": probe.n,
        "seed": seed,
        "tolerance": tolerance,
        "seconds": round(time.monotonic() - begun, 2),
        "posenc": __version__,
        "torch": torch.__version__,
    }
    return Report(tuple(findings), facts, tuple(notes))


@dataclass(frozen=True)
class Expected:
    """What somebody says the model should be."""

    scheme: str | None = None
    """ "relative", "absolute" or "none"."""
    angles: list[list[float]] = field(default_factory=list)
    reach: int | None = None
    """How far a token acts through all windows, if all layers have one."""
    reference: Adapter | None = None


def expected(configuration: Any, reference: Any) -> Expected:
    """Reads a configuration, and makes an adapter of a reference; a reference may also be angles, one for each pair."""
    scheme, angles, reach, other = None, [], None, None
    if configuration is not None:
        reading = configuration if isinstance(configuration, Reading) else read_config(configuration)
        scheme = SCHEMES.get(reading.scheme)
        frequencies = reading.at(24).frequencies
        turning = {layer.rotation for layer in reading.layers} & set(frequencies)  # a set may be given for no layer
        angles = [list(each) for kind, each in frequencies.items() if kind in turning or not turning]
        backs = [layer.back for layer in reading.layers if layer.kind not in ("linear", "mlp")]
        if backs and None not in backs and len(backs) == len(reading.layers):
            reach = sum(back for back in backs if back is not None)
    if isinstance(reference, torch.Tensor) or (
        isinstance(reference, list | tuple) and reference and all(isinstance(each, int | float) for each in reference)
    ):
        angles = [[float(each) for each in reference]]
    elif reference is not None:
        other = adapt(reference)
    return Expected(scheme, angles, reach, other)


def chosen(only: Iterable[str] | None, more: bool, should: Expected | None = None) -> list[str]:
    """The names of the tests that are asked for, in the order of the report."""
    rows = {name: each for name, each in CHECKS.items() if not each.partner}
    if only is None:
        should = should or Expected()
        left_out = [*["reference"] * (should.reference is None), *["angles"] * (not should.angles)]
        return [name for name, each in rows.items() if (more or not each.more) and name not in left_out]
    only = [only] if isinstance(only, str) else list(only)
    for name in only:
        if name not in rows:
            near = difflib.get_close_matches(name, rows, n=2) or list(rows)
            raise ValueError(f"there is no test {name!r}: use {', '.join(near)}")
    return [name for name in rows if name in only]


def _prepared(given: Adapter, randomise: bool | str, seed: int, notes: list[str]) -> tuple[Adapter, bool]:
    """A copy in eval mode, with new weights if they are wanted."""
    module = given.module
    if module is None:
        notes.append("A function: its weights are as they are, in their own precision.")
        return given, False
    size = sum(p.numel() for p in module.parameters())
    try:
        adapter = copy.deepcopy(given)
    except Exception as error:  # locks, handles, tensors with a history: a module may hold anything
        notes.append(f"The model cannot be copied ({first_line(error, 60)}): it is audited as it is.")
        return given, False
    if adapter.module is module:  # an attribute of the adapter's class
        adapter.module = copy.deepcopy(module)
    assert adapter.module is not None
    if module.training:
        adapter.module.eval()
        if any(isinstance(m, nn.Dropout) and m.p for m in module.modules()):
            notes.append("The model was in training mode, with dropout; the audit used a copy in eval mode.")
    wanted = randomise is True or (randomise == "auto" and size <= LARGE)
    if wanted and size:
        draw(adapter.module, seed)
    elif size:
        notes.append(
            "Weights are the model's own: with nearly uniform attention, as after initialisation, bugs stay hidden; "
            "see `order`."
        )
    return adapter, wanted and size > 0


def _probe(adapter: Adapter, given: Adapter, notes: list[str], **options: Any) -> Probe:
    """With the first of float64 and float32 in which logits are finite; in the model's own dtype if it is no copy."""
    problem: Exception | None = None
    copied = adapter.module is not None and adapter is not given
    for dtype in (torch.float64, torch.float32) if copied else (None,):
        try:
            cast = copy.deepcopy(adapter) if dtype == torch.float64 else adapter
            if dtype is not None and cast.module is not None:
                cast.module.to(dtype)
            probe = _fitting(cast, notes, **options)
        except Unfit:
            raise
        except Exception as error:  # no float64 on this device, or in this kernel
            problem = error
            continue
        if bool(probe.full.isfinite().all()) or dtype != torch.float64:
            if dtype == torch.float32:
                notes.append("In float32, since float64 does not run or is not finite.")
            return probe
    raise Unfit(
        f"the model cannot be called with {options['tokens']} tokens: {said(problem or Exception())}"
    ) from problem


def _livelier(probe: Probe, notes: list[str], **options: Any) -> Probe:
    """With smaller tables of tokens, as long as the order of tokens is hardly seen: attention then counts for more.

    Without a norm after the table it counts for less, and the tables become what they were.
    """
    tables = [m for m in probe.adapter.module.modules() if isinstance(m, nn.Embedding)]  # type: ignore[union-attr]
    before = 0.0
    for _ in range(3):
        with quiet(io.StringIO()):
            seen = measure("order", probe).off
        if seen is None or not 0 < seen < LIVELY:
            break
        factor = 0.25 if seen > before else 4.0
        with torch.no_grad():
            for weight in {id(m.weight): m.weight for m in tables if m.weight.requires_grad}.values():
                weight.mul_(factor)
        probe = _fitting(probe.adapter, [], **options | {"tokens": probe.n})
        if factor > 1:
            break
        before = seen
    return probe


def _shared(given: Adapter, reference: Adapter) -> dict[str, nn.Parameter] | None:
    """The reference's parameters, if they are those of the model by name and shape."""
    if given.module is None or reference.module is None:
        return None
    ours, theirs = (dict(each.named_parameters()) for each in (given.module, reference.module))
    same = {name: each.shape for name, each in ours.items()} == {name: each.shape for name, each in theirs.items()}
    return theirs if same and ours else None


def _with_weights(reference: Adapter, probe: Probe) -> Adapter:
    """A copy of the reference with the weights of the model, in its dtype; itself if its parameters are others."""
    if _shared(probe.adapter, reference) is None:
        return reference
    reference = copy.deepcopy(reference)
    assert reference.module is not None and probe.adapter.module is not None
    reference.module.eval().to(probe.device, probe.full.dtype)
    ours = dict(probe.adapter.module.named_parameters())
    with torch.no_grad():
        for name, each in reference.module.named_parameters():
            each.copy_(ours[name])
    return reference


def _fitting(adapter: Adapter, notes: list[str], *, tokens: int, **options: Any) -> Probe:
    """With the text made shorter as long as the model raises."""
    problem: Exception | None = None
    for n in (tokens, *(n for n in (16, 12, 8) if n < tokens)):
        try:
            with quiet(io.StringIO()):
                probe = Probe(adapter, tokens=n, **options)
        except Unfit:
            raise
        except ENDS as error:
            problem = problem or error
            continue
        if n < tokens:
            notes.append(f"{tokens} tokens raise, so the text has {n}.")
        return probe
    assert problem is not None
    raise problem


def _name(model: Any) -> str:
    if isinstance(model, nn.Module):
        return type(model).__name__
    return getattr(model, "__name__", type(getattr(model, "module", None) or model).__name__)
