"""Many runs, one after the other. Runs with results are skipped, and several processes can share the rest."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from posenc.lab import results
from posenc.lab.budgets import Task, Text
from posenc.lab.config import Run
from posenc.lab.context import hidden, recalled
from posenc.lab.corpus import Corpus, regions
from posenc.lab.evaluation import QUARTERS, extrapolation, generalisation
from posenc.lab.training import train
from posenc.transformer.model import Transformer


def sweep(
    todo: list[Run],
    corpus: Corpus,
    *,
    out: str | os.PathLike[str] = results.FOLDER,
    work: str | os.PathLike[str],
    device: str = "cpu",
    minutes: float | None = None,
    progress: bool = True,
    tell: Callable[[str], None] = lambda line: None,
) -> int:
    """Trains and measures each run that has no result yet.

    The sweep can be stopped at any time; the same call continues it. Processes that sweep at the same time take
    different runs.

    Args:
        todo: Runs of one preset, as `runs` lists them.
        corpus: The text to train on.
        out: The folder for results. Default: the one in posenc-evidence.
        work: The folder for weights and checkpoints.
        device: The device of the models. Default: "cpu".
        minutes: Begin no new run after this time. Default: no limit.
        progress: Show progress bars. Default: True.
        tell: Called after each run with a line on what it took and how much time the rest may take.

    Returns:
        The number of runs that are left.

    Raises:
        ValueError: If there are results of another corpus, configuration or design, which could not be compared.
        OSError: If the disk is full.

    Example:
        A smoke run of two schemes::

            sweep(runs("distance", "smoke", seeds=1), corpus.load(None), out="results", work="runs")
    """
    begun, work = time.monotonic(), Path(work) / todo[0].preset
    work.mkdir(parents=True, exist_ok=True)
    for run in todo:
        _fits(run, corpus, out)
    for run in todo:
        if minutes is not None and time.monotonic() - begun > 60 * minutes:
            break
        if results.path_of(run, out).exists():
            continue
        with _claimed(work / f"{run.name}.lock") as mine:
            if mine and not results.path_of(run, out).exists():
                train_and_measure(run, corpus, out=out, work=work, device=device, progress=progress)
                tell(f"{run.name}: {_minutes(took(run, out))}; {outlook(todo, out)}")
    return sum(not results.path_of(run, out).exists() for run in todo)


def outlook(todo: list[Run], out: str | os.PathLike[str] = results.FOLDER) -> str:
    """How many runs have results, and how long the others may take.

    Args:
        todo: Runs of one preset.
        out: The folder with results. Default: the one in posenc-evidence.

    Returns:
        A line of text. The time is that of one process; it follows from what the runs with results have taken in a
        step.
    """
    done = [run for run in todo if results.path_of(run, out).exists()]
    left = [run for run in todo if run not in done]
    state = f"{len(done)} of {len(todo)} runs have results"
    if not left or not done:
        return state
    paces: dict[str, list[float]] = {}  # seconds of a step, by objective and for all
    for run in done:
        for kind in (run.settings.objective, ""):
            paces.setdefault(kind, []).append(took(run, out) / max(1, run.steps))
    pace = {kind: median(of) for kind, of in paces.items()}
    seconds = sum(run.steps * pace.get(run.settings.objective, pace[""]) for run in left)
    return f"{state}, and the others may take {_minutes(seconds)} of one process"


def took(run: Run, out: str | os.PathLike[str]) -> float:
    """The seconds that a run with a result has taken, for training and measuring."""
    about = results.load(results.path_of(run, out))["provenance"]
    return float(about.get("training_seconds", 0) + about.get("measuring_seconds", 0))


def _minutes(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def train_and_measure(
    run: Run, corpus: Corpus, *, out: str | os.PathLike[str], work: Path, device: str = "cpu", progress: bool = True
) -> Path | None:
    """Trains one run, measures it, and writes its result and its weights.

    Args:
        run: The run. If it starts from another run's weights, that run comes first.
        corpus: The text to train on.
        out: The folder for results.
        work: The folder for weights and checkpoints.
        device: The device of the model. Default: "cpu".
        progress: Show a progress bar. Default: True.

    Returns:
        The file with the result; None in all but the first process of `torchrun`.

    Raises:
        ValueError: If a checkpoint is damaged or belongs to another configuration.
        OSError: If the disk is full.

    Example:
        >>> import tempfile
        >>> from posenc.lab.corpus import load
        >>> folder = Path(tempfile.mkdtemp())
        >>> run = Run("copy_nope", seed=0, preset="smoke")
        >>> train_and_measure(run, load(None), out=folder, work=folder, progress=False).name
        'copy_nope-0.json'
    """
    if run.parent is not None:
        _prepare(run.parent, corpus, out=out, work=work, device=device, progress=progress)
    model, curve, seconds = train(run, corpus, folder=work, device=device, progress=progress)
    start = time.perf_counter()
    if torch.distributed.is_initialized() and torch.distributed.get_rank():
        return None
    measured = {"curve": curve, "parameters": sum(p.numel() for p in model.parameters()), **measure(run, model, corpus)}
    if run.tried is None:
        model.save(work / f"{run.name}.safetensors")
    spent = {"training_seconds": seconds, "measuring_seconds": time.perf_counter() - start}
    path = results.write(run, measured, corpus, device, spent, out)
    (work / f"{run.name}.checkpoint").unlink(missing_ok=True)
    return path


def _prepare(run: Run, corpus: Corpus, *, out: str | os.PathLike[str], work: Path, device: str, progress: bool) -> None:
    """Makes the weights of a run, once for all processes. An existing result stays as it is."""
    weights = work / f"{run.name}.safetensors"
    with FileLock(work / f"{run.name}.lock"):
        if weights.exists():
            return
        if results.path_of(run, out).exists():
            train(run, corpus, folder=work, device=device, progress=progress)[0].save(weights)
            (work / f"{run.name}.checkpoint").unlink(missing_ok=True)
        else:
            train_and_measure(run, corpus, out=out, work=work, device=device, progress=progress)


def measure(run: Run, model: Transformer, corpus: Corpus) -> dict[str, Any]:
    """Measures a trained model: losses far beyond its training length, or answers to longer tasks."""
    measured: dict[str, Any] = {"learned": learned(model)}
    if run.tried is not None:
        return {}  # its curve is all that is asked for
    budget = run.budget
    if isinstance(budget, Task):
        measured["accuracy"] = generalisation(
            model,
            run.settings.objective,
            budget.length,
            longest=budget.longest,
            count=budget.answers,
            coupled=run.settings.coupled,
        )
    elif run.settings.objective == "text":
        measured |= extrapolation(
            model,
            corpus.held_out,
            run.window,
            memory=run.settings.memory,
            windows=budget.windows,
            slid=budget.slid,
            longest=budget.longest,
        )
        if budget.planted:
            measured |= used(run, model, corpus)
    return measured


def used(run: Run, model: Transformer, corpus: Corpus) -> dict[str, Any]:
    """Measures what a model gets out of far context: gains from planted strings, and losses with far keys hidden."""
    budget, memory = run.budget, run.settings.memory
    assert isinstance(budget, Text)
    measured: dict[str, Any] = {
        "recalled": recalled(model, corpus.held_out, run.window, memory=memory, windows=budget.windows)
    }
    if not memory:
        lengths = [run.window * 2**n for n in range(budget.longest.bit_length())]
        context = lengths[-1] - lengths[-1] // QUARTERS
        spans = regions(corpus.held_out, lengths[-1], context, budget.windows)[:, context:]  # those of `extrapolation`
        measured["hidden"] = hidden(model, spans, run.window, lengths)
    return measured


def learned(model: Transformer) -> dict[str, Any]:
    """The small parameters of encodings, such as w and v, by name, for each layer with a separate encoding."""

    def small(value: Tensor) -> bool:
        return value.numel() <= 256

    return {
        f"{n}.{name}": value.detach().float().cpu().tolist()
        for n, encoding in enumerate(model.encodings)
        for name, value in encoding.named_parameters()
        if small(value)
    }


def _fits(run: Run, corpus: Corpus, out: str | os.PathLike[str]) -> None:
    """Raises ValueError if a run has a result that could not stand beside those of this sweep."""
    path = results.path_of(run, out)
    if not path.exists():
        return
    result = results.load(path)
    if other := results.foreign(result, run):
        raise ValueError(f"{path.name} {other}: remove it, or use another folder for results with --out")
    provenance = result["provenance"]
    if provenance.get("corpus", corpus.digest) != corpus.digest:
        name = provenance.get("corpus_name", "without a name")
        raise ValueError(
            f"{path.name} was made with the corpus {name!r} ({provenance['corpus']}), and this one is "
            f"{corpus.name!r} ({corpus.digest}): use that corpus, or another folder for results with --out"
        )


@contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Whether this process may work on it. The system releases the claim even if the process is killed."""
    try:
        with FileLock(path, blocking=False):
            yield True
    except Timeout:
        yield False
