"""Results as tables for a terminal: means over seeds, and their standard deviations."""

import os
from collections.abc import Callable
from statistics import mean, stdev

from posenc.lab import results
from posenc.lab.results import Result
from posenc.table import Table

Column = tuple[str, Callable[[Result], float | None]]


def report(experiment: str, preset: str = "", folder: str | os.PathLike[str] = results.FOLDER) -> str:
    """The results of one experiment as text.

    Each table has a row for each variant, with the mean over seeds and the standard deviation. A dash marks a length
    that the model cannot serve. Losses are in nats per token. Tasks have separate tables.

    Args:
        experiment: A name in `EXPERIMENTS`.
        preset: "cpu" or "gpu". Default: as in `read`.
        folder: The folder with the results.

    Returns:
        Lines of text.

    Raises:
        ValueError: If there are no results.

    Example:
        >>> report("layers", "cpu").splitlines()[2]
        'loss by length, windows that do not overlap'
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
            names, values = zip(*columns, strict=True)
            cells = [[variant, *(spread([value(r) for r in of]) for value in values)] for variant, of in rows.items()]
            lines += ["", Table(["", *names], cells, caption=title).text()]
    return "\n".join(lines) + "\n"


def spread(values: list[float | None]) -> str:
    """The mean of several seeds and their standard deviation, in words.

    Args:
        values: One number for each seed; None if the model of that seed cannot be measured.

    Returns:
        Text with three decimals, without a deviation for a single seed. A dash if there is no value, or one is None.

    Example:
        >>> spread([1.0, 2.0]), spread([1.0]), spread([1.0, None])
        ('1.500 ±0.707', '1.000', '–')
    """
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "–"
    return f"{mean(known):.3f}" + (f" ±{stdev(known):.3f}" if len(known) > 1 else "")


def _tables(result: Result) -> list[tuple[str, list[Column]]]:
    """Titles and columns for results of this kind."""
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
