"""The audit of one model: a copy of it, weights at which positions matter, all tests, and what they mean."""

from __future__ import annotations

import difflib
import importlib
import io
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from posenc._version import __version__
from posenc.audit.adapters.called import adapt, in_halves, names_of, of_transformers
from posenc.audit.adapters.copies import Uncopied, copied, module_of
from posenc.audit.adapters.protocol import TURN, Adapter, Unfit, endings
from posenc.audit.causes import comparable, judge
from posenc.audit.causes.sight import UNSEEN, encoder
from posenc.audit.checks import CHECKS, measure
from posenc.audit.checks.schedule import Layered, layers_of
from posenc.audit.config import Reading, read_config
from posenc.audit.errors import error_line
from posenc.audit.images.asked import image_audit
from posenc.audit.images.behind import NAME as PLACES
from posenc.audit.images.behind import places
from posenc.audit.images.pictures import takes_images
from posenc.audit.images.told import NAME as AXES
from posenc.audit.images.told import Told, is_told
from posenc.audit.images.told import axes as image_axes
from posenc.audit.measures import Measures
from posenc.audit.probe import ENDS, Probe
from posenc.audit.report import Report
from posenc.audit.reproduction import reproduction
from posenc.audit.silence import quiet
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
    model: Any,
    *,
    only: Iterable[str] | None = None,
    more: bool = False,
    reference: Any = None,
    tokens: int = 24,
    seed: int = 0,
    tolerance: float = 1e-3,
    randomise: bool | str = "auto",
    seconds: float = 8.0,
    progress: Callable[[str, int, int], None] | None = None,
    configuration: Any = None,
    causal: bool | None = None,
    vocabulary: int | None = None,
    grid: Iterable[int] | None = None,
) -> Report:
    """Asks a model the questions that find positional bugs.

    The model itself stays as it is: a copy gets new weights, at which positions matter, and float64 where that runs.
    Audits in several threads wait for one another, since output, warnings and the random seed are the process's.

    An encoder-decoder of transformers is asked in halves: its decoder, with a source that stays the same, and its
    encoder, whose tests are called "encoder.right_pad" and so on.

    Args:
        model: As for `adapt`: a module, a model of transformers, a function of tokens, or an `Adapter`.
        only: Names of tests, with "encoder." before them for that half alone. Default: all. If the model's answers
            cannot be compared, `again` is reported as well.
        more: Whether to run tests that take longer or are rarely needed, too. Default: False.
        reference: A model or function that should give the same logits, and gets the same new weights if it has
            parameters of the same names; or the angles by which pairs of channels should turn from one position to the
            next. Both keep their own weights where no new ones are drawn, and after a conversion, whose weights are the
            same numbers in another order.
        tokens: Length of the text, 8 or more. It is shorter where the model raises an error. Default: 24.
        seed: Seed of texts and weights. Default: 0.
        tolerance: Changes below it, over the root mean square of the logits, are rounding. Default: 1e-3.
        randomise: True draws new weights, False keeps the model's own, and "auto" draws unless there are more than
            100 million parameters. Default: "auto".
        seconds: How long one test may take. Default: 8.0.
        progress: Called before each test with its name, its number from 0, and how many there are.
        configuration: What the model should be: a dict, a path or a `Reading`, as `read_config` takes and returns them.
            An image model refuses it. Default: for a model of transformers the angles, windows and rotating layers of
            its `config`.
        causal: True for a decoder, whose tokens see only what lies before them, and False for an encoder. Default: what
            the model's configuration says, or its attribute `causal`; where nobody says it, whether a later token
            changes earlier logits decides.
        vocabulary: How many different tokens there are. Default: what the model itself tells.
        grid: Of a model that takes images, rows and columns of patches, such as (4, 6): its tests are called
            "image.rows" and so on. A language model of transformers with M-RoPE is asked about texts behind an image of
            this grid, and behind a video where there are three numbers, frames first; so is any other model that is
            told positions (3, B, L), whose picture has one token for each of the grid. Default: no image.

    Returns:
        The report.

    Raises:
        ValueError: If the model cannot be called, returns no logits, needs an image and no grid is given, takes images
            alone and gets a configuration, or there is no test of a name.

    Example:
        >>> from posenc import Transformer
        >>> from posenc.audit import audit
        >>> audit(Transformer(50, layers=1, model_dim=32), only=["future", "shift"]).passed
        True
    """
    if tokens < 8:
        raise ValueError(f"tokens is {tokens}: use 8 or more")
    options = {"tokens": tokens, "seed": seed, "tolerance": tolerance, "seconds": seconds}
    only = [only] if isinstance(only, str) else None if only is None else list(only)
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    rest = (more, configuration, reference, causal, randomise, progress, options, vocabulary)
    with TURN:
        try:
            with endings() as ended:
                if grid is None:
                    _no_image(model)
                    report = _whole(model, only, *rest)
                elif _reads(model) or is_told(model):
                    report = _behind(model, tuple(int(each) for each in grid), only, *rest)
                else:
                    if configuration is not None:
                        raise Unfit(
                            f"configuration says how a text's positions are made, and {_name(model)} is asked about "
                            "images alone: leave it out, or give a reference, which it is compared with"
                        )
                    report = image_audit(
                        model, grid, only=only, reference=reference, seed=seed, tolerance=tolerance,
                        randomise=_new_weights(module_of(model), randomise),
                    )  # fmt: skip
            if ended and report.passed:
                raise Unfit(f"{ended[0]} in one of its calls, so this audit shows nothing")
            return report
        except SystemExit as error:  # in code of the model that no test asked for, such as how it is copied
            raise Unfit(f"the model ends the program ({error_line(error)}): remove that call") from error


def _no_image(model: Any) -> None:
    """Raises where a model needs an image and there is none."""
    if callable(model) and not hasattr(model, "logits") and (name := takes_images(model)):
        raise Unfit(
            f"{_name(model)} takes images (`{name}`): say how many rows and columns of patches yours have, as in "
            "audit(model, grid=(4, 6))"
        )


def _reads(model: Any) -> bool:
    """Whether a model takes tokens, and images beside them."""
    return of_transformers(model) and "input_ids" in names_of(model.forward)


def _new_weights(module: nn.Module | None, randomise: bool | str) -> bool:
    """Whether weights are drawn anew; "auto" keeps those of large models."""
    size = 0 if module is None else sum(p.numel() for p in module.parameters())
    return randomise is True or (randomise == "auto" and size <= LARGE)


def _behind(
    model: Any,
    grid: tuple[int, ...],
    only: list[str] | None,
    more: bool,
    configuration: Any,
    reference: Any,
    causal: bool | None,
    randomise: bool | str,
    progress: Callable[[str, int, int], None] | None,
    options: dict[str, Any],
    vocabulary: int | None,
) -> Report:
    """The report of a language model about texts behind a picture, and about its positions there."""
    beside = None if reference is None else _before(reference, grid, vocabulary)
    adapter = _before(model, grid, vocabulary)
    rows: dict[str, Callable[[], Finding]] = {
        PLACES: lambda: places(adapter, torch.arange(8)[None] % adapter.vocabulary)
    }
    if isinstance(adapter, Told):
        rows[AXES] = lambda: _axes(adapter, beside, randomise, options)
    asked = [name for name in only or [] if name not in rows]
    found = [row() for name, row in rows.items() if only is None or name in only]
    if only is not None and not asked:
        return Report(tuple(found), {"model": _name(model), "grid": _words(grid)})
    told = _config_of(model) if configuration is None else configuration
    report = _whole(
        adapter, asked or None, more, told, beside, causal, randomise, progress, options, adapter.vocabulary
    )
    size = f"{_words(grid)} {'tokens' if isinstance(adapter, Told) else 'patches'}"
    note = f"Texts stand behind {'an image' if len(grid) == 2 else 'a video'} of {size}."
    facts = report.facts | {"model": _name(model), "grid": _words(grid)}
    return Report((*found, *report.findings), facts, (note, *report.notes))


def _before(model: Any, grid: tuple[int, ...], vocabulary: int | None) -> Any:
    """An adapter that puts a picture before each text."""
    try:
        own = model if module_of(model) is None else copied(model)
    except Uncopied:  # the report says so
        own = model
    if of_transformers(model):
        return importlib.import_module("posenc.audit.adapters.hf.behind").Behind(own, grid)
    return Told(own, grid, vocabulary)


def _axes(adapter: Told, reference: Told | None, randomise: bool | str, options: Mapping[str, Any]) -> Finding:
    """The row about each axis, asked of a copy with new weights, and beside a reference with the same."""
    source = Source(adapter)
    if _new_weights(adapter.module, randomise):
        source.seed = options["seed"]
    other = None if reference is None else Source(reference)
    if _unlike(source, other):
        source.seed = other = None
    with quiet(io.StringIO()):
        probe = _probe(source, [], **options)
        beside: Any = None if other is None else _with_weights(other, probe)
    return image_axes(probe.adapter, probe.x, options["tolerance"], beside)  # type: ignore[arg-type]


def _words(grid: tuple[int, ...]) -> str:
    return " by ".join(map(str, grid))


def _whole(
    model: Any,
    only: list[str] | None,
    more: bool,
    configuration: Any,
    reference: Any,
    causal: bool | None,
    randomise: bool | str,
    progress: Callable[[str, int, int], None] | None,
    options: dict[str, Any],
    vocabulary: int | None,
) -> Report:
    """One report of all parts of a model."""
    parts, notes = _parts(model)
    others = _parts(reference)[0] if not isinstance(reference, torch.Tensor | list | tuple | None) else {}
    with quiet(io.StringIO()):
        should = {
            part: expected(
                (_config_of(model) if configuration is None else configuration) if not part else None,
                others.get(part) if others else reference,
                causal if len(parts) == 1 else None,
            )
            for part in parts
        }
        sources = {part: Source(each, vocabulary=vocabulary) for part, each in parts.items()}
    asked = {part: _of_part(only, part, parts) for part in parts}
    names = {part: [] if only and not asked[part] else chosen(asked[part], more, should[part]) for part in parts}
    reports = {
        part: _report(sources[part], names[part], should[part], randomise, _within(progress, part, names), options)
        for part in parts
        if names[part]
    }
    first = next(iter(reports.values()))
    findings = [_of(part, finding) for part, report in reports.items() for finding in report]
    notes += [f"{part.capitalize()}: {note}" if part else note for part, each in reports.items() for note in each.notes]
    seconds = round(sum(report.facts["seconds"] for report in reports.values()), 2)
    return Report(
        tuple(findings), first.facts | {"model": _name(model), "seconds": seconds}, tuple(dict.fromkeys(notes))
    )


def _parts(model: Any) -> tuple[dict[str, Any], list[str]]:
    """What is asked, by name: a model as it is under "", and the encoder of an encoder-decoder beside its decoder."""
    if not in_halves(model):
        pictured = _reads(model) and "image_grid_thw" in names_of(model.forward)
        return {"": model}, ["Asked without an image: grid=(4, 6) asks texts behind one."] if pictured else []
    parts, why = importlib.import_module("posenc.audit.adapters.hf.halves").halves(model)
    return parts, [why] if why else []


def _config_of(model: Any) -> Reading | None:
    """What the configuration of a model of transformers says of angles and layers.

    What a shift does is for the tests to say, since a configuration leaves much of its scheme to the class.
    """
    model = getattr(model, "_orig_mod", model)
    if not of_transformers(model):
        return None
    try:
        return replace(read_config(model.config), scheme="unknown")
    except (ValueError, TypeError):  # a field that cannot be read is the business of `read_config`
        return None


def _of_part(only: list[str] | None, part: str, parts: Mapping[str, Any]) -> list[str] | None:
    """The tests of one part that are asked for: a name without that of a part is asked of all."""
    if only is None or len(parts) == 1:
        return only
    mine = [name.removeprefix(f"{part}.") if part else name for name in only]
    return [name for name in mine if name.partition(".")[0] not in parts or "." not in name]


def _of(part: str, finding: Finding) -> Finding:
    return replace(finding, name=f"{part}.{finding.name}") if part else finding


def _within(
    progress: Callable[[str, int, int], None] | None, part: str, names: Mapping[str, list[str]]
) -> Callable[[str, int, int], None] | None:
    """Progress of one part, counted among the tests of all."""
    if progress is None or len(names) == 1:
        return progress
    before = sum(len(each) for other, each in names.items() if list(names).index(other) < list(names).index(part))
    of = sum(map(len, names.values()))
    return lambda name, n, _: progress(f"{part}.{name}" if part else name, before + n, of)


def _report(
    source: Source,
    names: list[str],
    should: Expected,
    randomise: bool | str,
    progress: Callable[[str, int, int], None] | None,
    options: dict[str, Any],
) -> Report:
    """The report of tests by name."""
    begun = time.monotonic()
    notes: list[str] = []
    with quiet(io.StringIO()):
        if _new_weights(source.module, randomise):
            source.seed = options["seed"]
        if source.seed is not None and (why := _unlike(source, should.reference)):
            source.seed = None
            notes.append(f"The reference {why}, so weights stay as they are.")
    notes += source.notes()
    probe = _probe(source, notes, **options)
    if source.drawn:
        probe = _livelier(probe, **options)
    probe.angles, probe.layers, probe.rotations = should.angles, should.layers, should.rotations
    probe.reading = should.reading
    if should.reference is not None:
        with quiet(io.StringIO()):
            probe.reference = (
                _with_weights(should.reference, probe) if source.drawn else _as_it_is(should.reference, probe)
            )
            if source.drawn and _reordered(source, should.reference):
                probe.originals = _originals(source, should.reference, options)
                notes.append(
                    "Weights of the same names hold the same numbers in another order, as after a conversion: the "
                    "reference and the model are compared with the weights that they have."
                )
    scheme = should.scheme or getattr(probe.adapter, "scheme", None)
    measures = Measures(probe, expects=scheme, reach=should.reach, causal=should.causal)
    if any(layer.back not in (-1, None) for layer in should.layers) and not should.both_sides and encoder(measures):
        # Windows that were read as those of a causal model are other windows
        measures.reach = None
        probe.layers = tuple(replace(each, back=-1, ahead=-1) for each in should.layers)
    findings: list[Finding] = []
    for n, name in enumerate(names):
        if progress is not None:
            progress(name, n, len(names))
        findings.append(_shown(judge(name, measures), measures, source.drawn))
    if "again" not in names and not comparable(measures):
        findings.insert(0, judge("again", measures))  # why the others say nothing
    if measures.printed:
        notes.append(f"The model printed {measures.printed} lines, which are left out.")
    if measures.in_single:
        notes.append(f"In float32, since float64 does not run there: {', '.join(measures.in_single)}.")
    module = probe.adapter.module
    facts = {
        "model": _name(source.given),
        "parameters": sum(p.numel() for p in module.parameters()) if module is not None else None,
        "vocabulary": probe.adapter.vocabulary,
        "dtype": str(probe.full.dtype).removeprefix("torch."),
        "device": str(probe.device),
        "weights": "drawn anew" if source.drawn else "as they are",
        "tokens": probe.n,
        "seed": options["seed"],
        "tolerance": options["tolerance"],
        "seconds": round(time.monotonic() - begun, 2),
        "posenc": __version__,
        "torch": torch.__version__,
    }
    return Report(tuple(findings), facts, tuple(notes))


def _shown(finding: Finding, m: Measures, drawn: bool) -> Finding:
    """A finding with the places that differ and, where it fails, a script that shows it."""
    if finding.passed:
        return finding
    places = m[finding.name].places
    return replace(finding, places=places, reproduction=reproduction(finding.name, m.probe, drawn) if places else "")


@dataclass(frozen=True)
class Expected:
    """What somebody says the model should be."""

    scheme: str | None = None
    """ "relative", "absolute" or "none"."""
    angles: list[list[float]] = field(default_factory=list)
    rotations: list[Any] = field(default_factory=list)
    """The rotations that the angles are of."""
    reading: Reading | None = None
    """What the configuration says."""
    reach: int | None = None
    """How far a token acts through all windows, if all layers have one."""
    reference: Source | None = None
    layers: tuple[Layered, ...] = ()
    """Layers that attend, in order; empty where nobody says which there are."""
    causal: bool | None = None
    both_sides: bool = False
    """Whether windows reach as far ahead as back."""

    @property
    def biased(self) -> bool:
        """Whether the configuration names a bias of the distance."""
        return self.reading is not None and bool(self.reading.slopes or self.reading.buckets)


def expected(configuration: Any, reference: Any, causal: bool | None = None) -> Expected:
    """Reads a configuration, and makes an adapter of a reference; a reference may also be angles, one for each pair."""
    scheme, angles, reach, other, both = None, [], None, None, False
    layers: tuple[Layered, ...] = ()
    rotations: list[Any] = []
    read: Reading | None = None
    if configuration is not None:
        reading = configuration if isinstance(configuration, Reading) else read_config(configuration)
        scheme, read = SCHEMES.get(reading.scheme), reading
        frequencies = reading.at(24).frequencies
        turning = {layer.rotation for layer in reading.layers} & set(frequencies)  # a set may be given for no layer
        used = [kind for kind in frequencies if kind in turning or not turning]
        angles, rotations = [list(frequencies[kind]) for kind in used], [reading.rotations[kind] for kind in used]
        backs = [layer.back for layer in reading.layers if layer.kind not in ("linear", "mlp")]
        if backs and None not in backs and len(backs) == len(reading.layers):
            reach = sum(back for back in backs if back is not None)
        layers, both = layers_of(reading), any(layer.both_sides for layer in reading.layers)
    if isinstance(reference, torch.Tensor) or (
        isinstance(reference, list | tuple) and reference and all(isinstance(each, int | float) for each in reference)
    ):
        angles = [[float(each) for each in reference]]
        layers = tuple(replace(each, rates=()) for each in layers)  # what is given counts, whatever a file says
    elif reference is not None:
        other = Source(reference)
    return Expected(scheme, angles, rotations, read, reach, other, layers, causal, both)


def chosen(only: Iterable[str] | None, more: bool, should: Expected | None = None) -> list[str]:
    """The names of the tests that are asked for, in the order of the report."""
    rows = {name: check for name, check in CHECKS.items() if not check.partner}
    if only is None:
        should = should or Expected()
        needs = {"reference": "reference", "angles": "angles", "schedule": "layers", "bias": "biased"}
        left_out = [name for name, of in needs.items() if not getattr(should, of)]
        return [name for name, check in rows.items() if (more or not check.more) and name not in left_out]
    only = [only] if isinstance(only, str) else list(only)
    if not only:
        raise ValueError("only names no test: name one or more, or leave it out to run all")
    for name in only:
        if name not in rows:
            near = difflib.get_close_matches(name, rows, n=2) or list(rows)
            raise ValueError(f"there is no test {name!r}: use {', '.join(near)}")
    return [name for name in rows if name in only]


class Source:
    """Makes adapters of a model: each of a new copy, or of the model itself where it cannot be copied.

    Args:
        model: As for `audit`.
        seed: Seed of new weights. Default: None, which keeps the model's own.
        vocabulary: How many different tokens there are. Default: what the model itself tells.
    """

    def __init__(self, model: Any, seed: int | None = None, vocabulary: int | None = None) -> None:
        self.given, self.vocabulary = model, vocabulary
        self.model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        self.module = module_of(self.model)
        self.seed = seed
        self.why = ""
        """Why the model cannot be copied."""
        self._first: Any = None
        if self.module is not None:
            try:
                self._first = copied(self.model)
            except Uncopied as error:
                self.why = str(error)

    @property
    def copies(self) -> bool:
        """Whether adapters are of copies."""
        return self.module is not None and not self.why

    @property
    def drawn(self) -> bool:
        """Whether weights are drawn anew."""
        return self.copies and self.seed is not None and self.size > 0

    @property
    def size(self) -> int:
        """How many parameters it has."""
        return 0 if self.module is None else sum(p.numel() for p in self.module.parameters())

    def adapter(self) -> Adapter:
        """Of a copy in eval mode, with new weights if there is a seed; of the model itself if it cannot be copied."""
        if not self.copies:
            return adapt(self.model, vocabulary=self.vocabulary)
        model, self._first = self._first if self._first is not None else copied(self.model), None
        module = module_of(model)
        assert self.module is not None and module is not None
        if self.module.training:
            module.eval()
        adapter = adapt(model, vocabulary=self.vocabulary)
        if self.drawn:
            draw(module, self.seed or 0)
        return adapter

    def notes(self) -> list[str]:
        """What a reader of the report has to know of it."""
        if self.module is None:
            return ["The model is a function, so its weights and their precision stay as they are."]
        if self.why:
            return [f"The model cannot be copied ({self.why}), so it is audited as it is."]
        notes = []
        if self.module.training and any(isinstance(m, nn.Dropout) and m.p for m in self.module.modules()):
            notes.append("The model was in training mode, with dropout; the audit used a copy in eval mode.")
        if self.size and not self.drawn:
            notes.append(
                "Weights are the model's own. Nearly uniform attention, as after initialisation, hides bugs; see "
                "`order`."
            )
        return notes


def _probe(source: Source, notes: list[str], **options: Any) -> Probe:
    """A probe in the first of float64 and float32 in which logits are finite; in its own dtype if it is no copy.

    There is one copy at a time: in float64, a large model's is twice as large as the model.
    """
    problem: Exception | None = None
    for dtype in (torch.float64, torch.float32) if source.copies else (None,):
        with quiet(io.StringIO()):
            adapter = source.adapter()
        remarks: list[str] = []
        try:
            if dtype is not None and adapter.module is not None:
                adapter.module.to(dtype)
            probe = _fitting(adapter, remarks, **options)
            if bool(probe.full.isfinite().all()) or dtype != torch.float64:
                if dtype == torch.float32:
                    remarks.append("In float32, since float64 does not run or gives logits that are not finite.")
                notes += remarks
                return probe
            del probe
        except Unfit:
            raise
        except Exception as error:  # no float64 on this device, or in this kernel
            problem = error.with_traceback(None)  # which would keep the copy
        del adapter
    raise Unfit(
        f"the model cannot be called with {options['tokens']} tokens: {error_line(problem or Exception())}"
    ) from problem


def _livelier(probe: Probe, **options: Any) -> Probe:
    """A probe with smaller embeddings as long as the order of tokens hardly matters, so that attention counts for more.

    Where no norm follows the embedding, attention counts for less, and the embedding is enlarged again.
    """
    tables = [m for m in probe.adapter.module.modules() if isinstance(m, nn.Embedding)]  # type: ignore[union-attr]
    before = 0.0
    for _ in range(3):
        with quiet(io.StringIO()):
            seen = measure("order", probe).off
        if seen is None or not UNSEEN < seen < LIVELY:
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


def _unlike(source: Source, reference: Source | None) -> str:
    """Why a reference cannot get the model's new weights; "" if it can, or there is none."""
    if reference is None:
        return ""
    if not _same_names(source, reference):
        return "has no parameters of the same names"
    return f"cannot be copied ({reference.why})" if reference.why else ""


def _same_names(first: Source | Adapter, other: Source) -> bool:
    """Whether both have parameters, and the same ones by name and shape."""
    if first.module is None or other.module is None:
        return False
    ours, theirs = ({name: p.shape for name, p in m.named_parameters()} for m in (first.module, other.module))
    return bool(ours) and ours == theirs


def _with_weights(reference: Source, probe: Probe) -> Adapter:
    """The reference with the weights of the model, in its dtype; as it is if its parameters are others."""
    adapter = reference.adapter()
    if not reference.copies or not _same_names(probe.adapter, reference):
        return adapter
    assert adapter.module is not None and probe.adapter.module is not None
    adapter.module.eval().to(probe.device, probe.full.dtype)
    ours = dict(probe.adapter.module.named_parameters())
    with torch.no_grad():
        for name, each in adapter.module.named_parameters():
            each.copy_(ours[name])
    return adapter


def _as_it_is(reference: Source, probe: Probe) -> Adapter:
    """The reference with weights of its own, in the model's dtype where it is a copy."""
    adapter = reference.adapter()
    if reference.copies and adapter.module is not None:
        adapter.module.eval().to(probe.device, probe.full.dtype)
    return adapter


def _reordered(source: Source, reference: Source) -> bool:
    """Whether weights of the same names have the same values, and some in another order, as after a conversion."""
    assert source.module is not None and reference.module is not None
    ours = dict(source.module.named_parameters())
    pairs = [(p.detach().cpu(), ours[name].detach().cpu()) for name, p in reference.module.named_parameters()]
    if all(torch.equal(a, b) for a, b in pairs):
        return False
    return all(torch.equal(a.flatten().sort().values, b.flatten().sort().values) for a, b in pairs)


def _originals(source: Source, reference: Source, options: Mapping[str, Any]) -> tuple[Adapter, Adapter] | None:
    """Model and reference with the weights that they have, in one precision; None where that does not run."""
    try:
        plain = Source(source.given, vocabulary=source.vocabulary)
        probe = _probe(plain, [], **options)
        return probe.adapter, _as_it_is(reference, probe)
    except Exception:  # then drawn weights decide alone
        return None


def _fitting(adapter: Adapter, notes: list[str], *, tokens: int, **options: Any) -> Probe:
    """A probe whose text is made shorter as long as the model raises an error."""
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
            notes.append(f"A text of {tokens} tokens raises an error, so this one has {n}.")
        return probe
    assert problem is not None
    raise problem


def _name(model: Any) -> str:
    if isinstance(model, nn.Module):
        return type(model).__name__
    return getattr(model, "__name__", type(getattr(model, "module", None) or model).__name__)
