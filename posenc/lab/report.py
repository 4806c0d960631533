"""What has been found, as tables for a terminal: means over seeds, and their spread."""

import os
from collections.abc import Callable
from statistics import mean, stdev

from posenc.lab import results
from posenc.lab.results import Result

Column = tuple[str, Callable[[Result], float | None]]


def report(experiment: str, preset: str = "", folder: str | os.PathLike[str] = results.FOLDER) -> str:
    """The tables of one experiment: a row for each variant, means over seeds with their standard deviation.

    A dash is a length that the model cannot serve. Losses are in nats per token. Each task has tables of its own.
    Raises ValueError if there are no results.
    """
    found = results.read(experiment, preset, folder)
    some = next(iter(found.values()))[0]
    about = some["provenance"]
    seeds = sorted({len(of) for of in found.values()})
    lines = [
        f"{experiment}: {about['device']}, torch {about['torch']}, {about['corpus_name']} ({about['corpus']}), "
        f"seeds: {' to '.join(map(str, sorted({seeds[0], seeds[-1]})))}"
    ]
    kinds = dict.fromkeys(of[0]["config"]["objective"] for of in found.values())  # each has lengths of its own
    for kind in kinds:
        rows = {variant: of for variant, of in found.items() if of[0]["config"]["objective"] == kind}
        for title, columns in _tables(next(iter(rows.values()))[0]):
            lines += ["", title, _row("", [name for name, _ in columns])]
            for variant, of in rows.items():
                lines.append(_row(variant, [spread([value(result) for result in of]) for _, value in columns]))
    return "\n".join(lines) + "\n"


def spread(values: list[float | None]) -> str:
    """Mean ± standard deviation of seeds, or a dash if any of them has no value."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "–"
    return f"{mean(known):.3f}" + (f" ±{stdev(known):.3f}" if len(known) > 1 else "")


def _tables(result: Result) -> list[tuple[str, list[Column]]]:
    """Titles and columns that results of this kind have."""
    if "accuracy" in result:
        asked, task = range(len(result["accuracy"])), result["config"]["objective"]
        return [
            (f"{task}: exact answers by length", [_at("accuracy", n, "exact", result) for n in asked]),
            (f"{task}: right tokens by length", [_at("accuracy", n, "tokens", result) for n in asked]),
        ]
    if "nonoverlapping" not in result:
        points = result["curve"][:: max(1, len(result["curve"]) // 8)]
        return [("held-out loss by step", [(str(p["step"]), _point(p["step"])) for p in points])]
    lengths = range(len(result["nonoverlapping"]))
    return [
        ("loss by length, windows that do not overlap", [_at("nonoverlapping", n, "loss", result) for n in lengths]),
        ("loss by length, windows that slide by a quarter", [_at("sliding", n, "loss", result) for n in lengths]),
        ("the same tokens as these, cut", [_at("sliding", n, "nonoverlapping", result) for n in lengths]),
    ]  # fmt: skip


def _at(table: str, n: int, name: str, result: Result) -> Column:
    """Entry n of a table, under its length."""
    return str(result[table][n]["length"]), lambda of: of[table][n].get(name)


def _point(step: int) -> Callable[[Result], float | None]:
    return lambda result: next((p["held_out"] for p in result["curve"] if p["step"] == step), None)


def _row(name: str, cells: list[str]) -> str:
    return f"{name:32}" + "".join(f"{cell:>14}" for cell in cells)
