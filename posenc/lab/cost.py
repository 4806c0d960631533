"""The cost of each scheme: tokens per second and bytes, in training, in a whole pass and in decoding."""

import json
import os
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from posenc._attention.kernels import BACKENDS
from posenc.lab.config import Run
from posenc.lab.corpus import Corpus
from posenc.lab.evaluation import throughput
from posenc.lab.results import Result, provenance, put
from posenc.pictures.table import Table
from posenc.schemes.registry import ENCODINGS

TIMES = 8  # the training length, so that pairs of tokens count

# The C library of Linux may return large blocks to the system and ask for them again. The threshold depends on earlier
# allocations, and fresh pages cost as much as the work on them. With these variables it keeps all blocks.
REUSED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}


def cost(preset: str, corpus: Corpus, *, device: str = "cpu", rounds: int = 3, progress: bool = True) -> Result:
    """Measures speed and memory of every scheme with every backend.

    All pairs take turns, `rounds` times, and medians are kept. The tokens are random, as many as the preset's batch
    has, in sequences eight times as long as in training.

    Args:
        preset: "smoke", "cpu" or "gpu".
        corpus: The corpus, which is only named in the provenance.
        device: The device of the models. Default: "cpu".
        rounds: Measurements of each pair. Default: 3.
        progress: Show a progress bar. Default: True.

    Returns:
        A dict as in `cost.json` with `provenance`, `length`, `batch`, `rounds`, `memory` and `rows`. If a backend
        cannot serve a scheme, its row has the reason.
    """
    run = Run("nope", 0, preset)
    length, batch = TIMES * run.length, max(1, run.batch // TIMES)
    contenders = [(scheme, backend) for scheme in ENCODINGS for backend in BACKENDS]
    measured: dict[tuple[str, str], list[dict[str, Any]]] = {contender: [] for contender in contenders}
    bar = tqdm(total=rounds * len(contenders), desc="cost", disable=None if progress else True)
    for _ in range(rounds):
        for scheme, backend in contenders:
            model = Run(scheme, 0, preset).model(length=length, backend=backend).to(device)
            on_gpu = device.startswith("cuda")
            measured[scheme, backend].append(throughput(model, length, batch, repeats=3, autocast=on_gpu))
            bar.update()
    bar.close()
    rows = [
        {"scheme": scheme, "backend": backend, **{what: _median([one[what] for one in all_]) for what in all_[0]}}
        for (scheme, backend), all_ in measured.items()
    ]
    kept = all(os.environ.get(name) == value for name, value in REUSED.items())
    about = {"length": length, "batch": batch, "rounds": rounds, "memory": "reused" if kept else "as it comes"}
    return {"provenance": provenance(corpus, device), **about, "rows": rows}


def keep(result: Result, preset: str, folder: str | os.PathLike[str]) -> Path:
    """Writes the result of `cost` to `cost.json` and returns its path."""
    return put(Path(folder) / preset / "cost.json", result)


def read_cost(preset: str, folder: str | os.PathLike[str]) -> Result:
    """Reads the result that `keep` wrote. Raises ValueError if there is none."""
    path = Path(folder) / preset / "cost.json"
    if not path.exists():
        raise ValueError(f"costs of preset {preset} were not measured: run python -m posenc.lab cost --preset {preset}")
    result: Result = json.loads(path.read_text())
    return result


def table(result: Result) -> Table:
    """Costs of all schemes and backends.

    Args:
        result: The result of `cost` or `read_cost`.

    Returns:
        A table with thousands of tokens per second and the peak of memory in MiB, for training, a whole pass and
        decoding. A dash marks a backend that cannot serve the scheme.

    Example:
        >>> from posenc.lab.results import FOLDER
        >>> table(read_cost("cpu", FOLDER)).columns
        ['', 'training', 'MiB', 'pass', 'MiB', 'decoding', 'MiB']
    """
    about = f"{result['provenance']['device']}, {result['batch']} sequences of {result['length']} tokens"
    rows = []
    for row in result["rows"]:
        costs = [row[what] for what in ("training", "passes", "decoding")]
        pairs = ((_scaled(each["tokens_per_second"], 1e3), _scaled(each.get("bytes"), 2**20)) for each in costs)
        numbers = [x if x is None else f"{x:.1f}" for pair in pairs for x in pair]
        rows.append([f"{row['scheme']}, {row['backend']}", *numbers])
    columns = ["", "training", "MiB", "pass", "MiB", "decoding", "MiB"]
    return Table(columns, rows, caption=f"cost: {about}; thousands of tokens per second, and MiB")


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _median(entries: list[dict[str, Any]]) -> dict[str, Any]:
    if entries[0]["tokens_per_second"] is None:
        return entries[0]
    return {name: median(entry[name] for entry in entries) for name in ("tokens_per_second", "bytes")}
