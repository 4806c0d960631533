"""What a scheme costs: tokens per second and bytes, in training, in a whole pass and in decoding."""

import json
import os
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from posenc.attention import BACKENDS
from posenc.lab.config import Run
from posenc.lab.corpus import Corpus
from posenc.lab.evaluation import throughput
from posenc.lab.results import Result, provenance, put
from posenc.registry import ENCODINGS

TIMES = 8  # the training length, so that pairs of tokens count

# The C library of Linux gives large blocks back and takes them afresh, or keeps them, by a threshold that moves with
# what came before, and fresh pages cost as much as the work on them. With these in its environment it keeps them all.
REUSED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}


def cost(preset: str, corpus: Corpus, *, device: str = "cpu", rounds: int = 3, progress: bool = True) -> Result:
    """Every scheme with every backend that serves it: contenders take turns, `rounds` times, and medians are kept.

    On random tokens, as many as the preset's batch has, in sequences of 8 L. What a backend refuses is there with its
    reason, which is a finding too.
    """
    run = Run("nope", 0, preset)
    length, batch = TIMES * run.length, max(1, run.batch // TIMES)
    contenders = [(scheme, backend) for scheme in ENCODINGS for backend in BACKENDS]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {contender: [] for contender in contenders}
    bar = tqdm(total=rounds * len(contenders), desc="cost", disable=None if progress else True)
    for _ in range(rounds):
        for scheme, backend in contenders:
            model = Run(scheme, 0, preset).model(length=length, backend=backend).to(device)
            on_gpu = device.startswith("cuda")
            found[scheme, backend].append(throughput(model, length, batch, repeats=3, autocast=on_gpu))
            bar.update()
    bar.close()
    rows = [
        {"scheme": scheme, "backend": backend, **{what: _median([one[what] for one in all_]) for what in all_[0]}}
        for (scheme, backend), all_ in found.items()
    ]
    kept = all(os.environ.get(name) == value for name, value in REUSED.items())
    about = {"length": length, "batch": batch, "rounds": rounds, "memory": "reused" if kept else "as it comes"}
    return {"provenance": provenance(corpus, device), **about, "rows": rows}


def keep(found: Result, preset: str, folder: str | os.PathLike[str]) -> Path:
    """Writes what `cost` found, in place of what was there -> the path."""
    return put(Path(folder) / preset / "cost.json", found)


def read_cost(preset: str, folder: str | os.PathLike[str]) -> Result:
    """What `keep` wrote. Raises ValueError if there is nothing."""
    path = Path(folder) / preset / "cost.json"
    if not path.exists():
        raise ValueError(f"costs of preset {preset} were not measured: run python -m posenc.lab cost --preset {preset}")
    found: Result = json.loads(path.read_text())
    return found


def table(found: Result) -> str:
    """Costs as a table for a terminal: thousands of tokens per second, and MiB."""
    lines = [f"cost: {found['provenance']['device']}, {found['batch']} sequences of {found['length']} tokens", ""]
    head = ["training", "MiB", "pass", "MiB", "decoding", "MiB"]
    lines.append(f"{'':28}" + "".join(f"{name:>10}" for name in head))
    for row in found["rows"]:
        cells = []
        for what in ("training", "passes", "decoding"):
            rate, size = row[what]["tokens_per_second"], row[what]["bytes"]
            cells += ["–", "–"] if rate is None else [f"{rate / 1e3:.1f} k", f"{size / 2**20:.1f}"]
        lines.append(f"{row['scheme'] + ', ' + row['backend']:28}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines) + "\n"


def _median(entries: list[dict[str, Any]]) -> dict[str, Any]:
    if entries[0]["tokens_per_second"] is None:
        return entries[0]
    return {name: median(entry[name] for entry in entries) for name in ("tokens_per_second", "bytes")}
