"""Results: one small JSON file for each run, with its configuration, its design and provenance."""

import dataclasses
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from posenc._atomic import atomic
from posenc._version import __version__
from posenc.lab import evidence
from posenc.lab.budgets import Task
from posenc.lab.config import RESULTS, Run, runs
from posenc.lab.corpus import Corpus
from posenc.lab.design import DESIGN, DESIGNS, start, unlike

FOLDER = RESULTS
Result = dict[str, Any]


def read(experiment: str, preset: str = "cpu", folder: str | os.PathLike[str] = FOLDER) -> dict[str, list[Result]]:
    """Reads the results of an experiment.

    Results of different presets, budgets, corpora or designs are never mixed: what the present code would not start in
    the same way is refused by name.

    Args:
        experiment: A name in `EXPERIMENTS`.
        preset: "cpu", "epoch" or "gpu". Default: "cpu".
        folder: The folder with the results. Default: the one in posenc-evidence.

    Returns:
        A dict from the name of a variant to the results of its seeds in order; in "rates", from a name such as
        "rope@0.004". Variants without results are missing.

    Raises:
        ValueError: If there is no such experiment, there are no results, or they do not fit together.

    Example:
        >>> results = read("distance", "epoch")
        >>> list(results), results["alibi"][0]["nonoverlapping"][0]["length"]
        (['nope', 'relu', 'distance_aware', 'alibi'], 128)
    """
    asked = runs(experiment, preset, seeds=1)
    by_variant: dict[str, list[Result]] = {}
    for run in asked:
        places = (Path(folder) / preset).glob(f"{run.stem}-*.json")
        paths = sorted(places, key=_seed)
        results = [load(path) for path in paths]
        for path, result in zip(paths, results, strict=True):
            if other := foreign(result, dataclasses.replace(run, seed=result["config"]["seed"])):
                raise ValueError(f"{path.name} {other}: remove it, and run the sweep again")
        if results:
            by_variant[run.stem] = results
    if not by_variant:
        raise ValueError(
            f"there are no results of {experiment} with preset {preset}: run python -m posenc.lab sweep --experiment "
            f"{experiment} --preset {preset}" + ("" if evidence.FOUND else f", or {evidence.remedy()}")
        )
    about = [result["provenance"] for results in by_variant.values() for result in results]
    corpora = {of["corpus"] for of in about if "corpus" in of}  # tasks read no text
    if len(corpora) > 1:
        raise ValueError(f"these results are of different corpora ({', '.join(sorted(corpora))}): remove one kind")
    return by_variant


def foreign(result: Result, run: Run) -> str:
    """Why a result is not one of the present code and configuration; an empty string if it is.

    Args:
        result: What `load` returns.
        run: The run that it should be of.

    Returns:
        The end of a sentence that begins with the name of the file.
    """
    if result["digest"] != run.digest:
        return "was made with another configuration"
    design = result.get("design")
    if design is None:
        return "does not name its design, so it may have begun otherwise than the present code does"
    if design != DESIGN:
        about = f" ({DESIGNS[design]})" if design in DESIGNS else ""
        return f"is of the design {design!r}{about}, and the present one is {DESIGN!r} ({DESIGNS[DESIGN]})"
    if differ := unlike(result.get("start"), run):
        return f"began otherwise than the present code does: {differ} differ"
    return ""


def load(path: Path) -> Result:
    """Reads one result. Raises ValueError if the file is damaged."""
    try:
        result: Result = json.loads(path.read_text())
        result["digest"], result["config"]["seed"], result["provenance"]["commit"]
        if "corpus" in result["provenance"]:
            result["provenance"].setdefault("corpus_name", "without a name")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path.name} is damaged: remove it, and run the sweep again") from error
    return result


def path_of(run: Run, folder: str | os.PathLike[str] = FOLDER) -> Path:
    """The file that holds the result of a run."""
    return Path(folder) / run.preset / f"{run.name}.json"


def write(
    run: Run, measured: Result, corpus: Corpus, device: str, took: dict[str, float], folder: str | os.PathLike[str]
) -> Path:
    """Writes the measurements of a run with its configuration, the fingerprint of its start and its provenance.

    Returns:
        The file. A task reads no text, so its result names no corpus.
    """
    text = None if isinstance(run.budget, Task) else corpus
    result = {
        "variant": run.variant,
        "digest": run.digest,
        "config": run.config,
        "design": DESIGN,
        "start": start(run),
        "provenance": provenance(text, device) | {name: round(seconds, 1) for name, seconds in took.items()},
        **measured,
    }
    return put(path_of(run, folder), result)


def put(path: Path, result: Result) -> Path:
    """Writes a result, all of it or nothing, and returns the file."""
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in _rounded(result).items())
    with atomic(path) as part:
        part.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def provenance(corpus: Corpus | None, device: str) -> dict[str, Any]:
    """Corpus, if there is one, code, machine and versions, on which numbers depend besides the configuration."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.machine()} CPU"
    about = {} if corpus is None else {"corpus": corpus.digest, "corpus_name": corpus.name}
    return about | {
        "commit": commit(),
        "device": name,
        "threads": torch.get_num_threads(),
        "posenc": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def commit() -> str:
    """The commit of the code, with a + if files have changed since; empty if there is no repository."""
    here = Path(__file__).parent
    try:
        run = [
            subprocess.run(["git", *args], cwd=here, capture_output=True, text=True, check=True).stdout.strip()
            for args in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no", ".."])
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return run[0] + ("+" if run[1] else "")


def _seed(path: Path) -> int:
    """The seed at the end of a result's name. Raises ValueError if there is none."""
    seed = path.stem.rpartition("-")[2]
    if not (seed.isascii() and seed.isdigit()):
        raise ValueError(f"{path.name} is no result, whose name ends in a seed: move it out of {path.parent}")
    return int(seed)


def _rounded(x: Any) -> Any:
    """Floats with five digits, which is more than the precision of any measurement."""
    if isinstance(x, float):
        return float(f"{x:.5g}")
    if isinstance(x, dict):
        return {key: _rounded(value) for key, value in x.items()}
    return [_rounded(value) for value in x] if isinstance(x, list | tuple) else x
