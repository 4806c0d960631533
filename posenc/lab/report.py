"""Results as tables, for a terminal and for pages: means, 95 % intervals over seeds and texts, and success rates."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

from posenc.lab import results
from posenc.lab.baselines import read_baselines
from posenc.lab.config import Run
from posenc.lab.intervals import Interval, crossed, wilson
from posenc.lab.results import Result
from posenc.pictures.table import Table

LEARNED = 0.9
"""The share of exact answers at the longest training length from which on a task counts as learned."""
ByVariant = dict[str, list[Result]]


def report(experiment: str, preset: str = "cpu", folder: str | os.PathLike[str] = results.FOLDER) -> str:
    """The results of one experiment as text.

    Args:
        experiment: A name in `EXPERIMENTS`; "start" for sizes before training, "baselines" for n-grams.
        preset: A name in `PRESETS`. Default: "cpu".
        folder: The folder with the results.

    Returns:
        Lines of text.

    Raises:
        ValueError: If there are no results.

    Example:
        >>> report("layers", "epoch").splitlines()[2]
        'Loss in nats per byte, in windows that do not overlap: mean over seeds ± their deviation'
    """
    if experiment == "start":
        return f"{sizes(preset).text()}\n"
    if experiment == "baselines":
        return f"{counted(read_baselines(preset, folder)).text()}\n"
    by_variant = results.read(experiment, preset, folder)
    about = next(iter(by_variant.values()))[0]["provenance"]
    seeds = sorted({len(of) for of in by_variant.values()})
    text = f"{about['corpus_name']} ({about['corpus']}), " if "corpus" in about else ""
    many = " to ".join(map(str, sorted({seeds[0], seeds[-1]})))
    lines = [f"{experiment}: {about['device']}, torch {about['torch']}, {text}seeds: {many}"]
    for table in tables(by_variant):
        lines += ["", table.text()]
    return "\n".join(lines) + "\n"


def tables(by_variant: ByVariant) -> list[Table]:
    """Tables of all that an experiment has measured.

    Args:
        by_variant: What `read` returns.

    Returns:
        Tables with a row for each variant. A dash marks a length that the model cannot serve. Losses are in nats per
        byte. Tasks have separate tables.
    """
    out: list[Table] = []
    for objective, trained in dict.fromkeys(_kind(of) for of in by_variant.values()):  # each has lengths of its own
        rows = {variant: of for variant, of in by_variant.items() if _kind(of) == (objective, trained)}
        if all("@" in variant for variant in rows):
            out.append(tried(rows))
        elif any("accuracy" in of[0] for of in rows.values()):
            out += _answers(objective, rows)
        elif any("nonoverlapping" in of[0] for of in rows.values()):
            out += _losses(rows)
        else:
            out.append(_curves(rows))
    return out


def _kind(of: list[Result]) -> tuple[str, int]:
    return of[0]["config"]["objective"], of[0].get("trained", 0)


def spread(values: Sequence[float | None]) -> str:
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


def ends(values: Sequence[float], form: str = ".2f") -> str:
    """The lowest and the highest of several models' values, or one number where both are written alike.

    Args:
        values: One number for each model.
        form: How a number is written. Default: ".2f".

    Returns:
        Text such as "0.95 to 0.97". A dash if there is no value.

    Example:
        >>> ends([0.97, 0.951, 0.96]), ends([0.951, 0.949]), ends([])
        ('0.95 to 0.97', '0.95', '–')
    """
    if not values:
        return "–"
    low, high = (f"{end(values):{form}}" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def listed(values: Sequence[float], form: str = ".2f") -> str:
    """The values of a few models, one by one, in words.

    Args:
        values: One number for each model.
        form: How a number is written. Default: ".2f".

    Returns:
        Text such as "0.97, 0.95 and 0.96". A dash if there is no value.

    Example:
        >>> listed([0.97, 0.951, 0.96]), listed([0.031, -0.2], "+.1f"), listed([0.5])
        ('0.97, 0.95 and 0.96', '+0.0 and -0.2', '0.50')
    """
    if not values:
        return "–"
    *first, last = (f"{value:{form}}" for value in values)
    return f"{', '.join(first)} and {last}" if first else last


# Before training


def sizes(preset: str) -> Table:
    """How large tokens and positions are before training, for schemes that add a vector to the token.

    Args:
        preset: A name in `PRESETS`.

    Returns:
        A table with the mean norm of a token's vector, that of a position's, and their ratio.

    Example:
        >>> sizes("cpu").rows[0]
        ['sinusoidal', '9.79', '6.93', '0.71']
    """
    rows = []
    for variant in ("sinusoidal", "learned", "learned_large"):
        run = Run(variant, 0, preset)
        model, pos = run.model(), torch.arange(run.length)
        with torch.no_grad():
            token = model.embedding.weight * model.config.model_dim**0.5
            place = model.encoding().embed(torch.zeros(1, run.length, model.config.model_dim), pos)
        norms = [x.norm(dim=-1).mean().item() for x in (token, place)]
        rows.append([variant, *norms, norms[1] / norms[0]])
    form = {"": "", "token": ".2f", "position": ".2f", "position / token": ".2f"}
    return Table(form, rows, caption="Mean length of the vectors at step 0")


def tried(by_variant: ByVariant) -> Table:
    """Losses of short runs by learning rate, and the best rate of each scheme."""
    best = rates(by_variant)
    known = sorted({float(variant.partition("@")[2]) for variant in by_variant})
    rows = [
        [scheme, *(_last(by_variant.get(f"{scheme}@{rate:g}")) for rate in known), f"{chosen:g}"]
        for scheme, chosen in best.items()
    ]
    steps = next(iter(by_variant.values()))[0]["config"]["steps"]
    form = {"": "", **{f"{rate:g}": ".3f" for rate in known}, "best": ""}
    return Table(form, rows, caption=f"Held-out loss after {steps} steps by learning rate, nats per byte")


def rates(by_variant: ByVariant) -> dict[str, float]:
    """The rate with the lowest loss for each variant that was tried.

    Args:
        by_variant: What `read("rates")` returns.

    Returns:
        A dict from variant to learning rate.
    """
    tries = [
        (variant.partition("@")[0], _last(of), float(variant.partition("@")[2])) for variant, of in by_variant.items()
    ]
    return {
        scheme: min((loss, rate) for name, loss, rate in tries if name == scheme and loss is not None)[1]
        for scheme in dict.fromkeys(name for name, _, _ in tries)
    }


def _last(of: list[Result] | None) -> float | None:
    """The held-out loss at the end of a short run."""
    return None if of is None else of[0]["curve"][-1]["held_out"]


def counted(result: dict[str, Any]) -> Table:
    """What counting reaches: n-grams and compressors."""
    rows = [[f"{entry['order']}-grams", entry["loss"], f"{crossed([entry['texts']])}"] for entry in result["ngrams"]]
    rows += [[f"{name} -9", loss, None] for name, loss in result["compressed"].items()]
    caption = "Nats per byte of held-out text: counts in windows of the training length, and compressors"
    return Table({"": "", "loss": ".3f", "over texts": ""}, rows, caption=caption)


# Losses


def texts(of: list[Result], table: str, share: float, kind: str = "") -> Tensor | None:
    """One number for each seed and text: a loss, or the gain from a planted string.

    Args:
        of: The results of one variant.
        table: "nonoverlapping", "sliding", "hidden" or "recalled".
        share: The length of windows, or the distance of the string, as a multiple of the training length.
        kind: "copy" or "key" for "recalled". Default: "".

    Returns:
        Numbers (seeds, texts), float64; None if the models cannot serve that length.

    Raises:
        ValueError: If it was not measured.
    """
    place, name = ("distance", "gains") if table == "recalled" else ("length", "texts")
    rows = []
    for result in of:
        asked = [entry for entry in result.get(table, []) if entry.get("kind", "") == kind]
        entry: Any = next((entry for entry in asked if entry[place] == share * result["trained"]), {})
        if "why" not in entry and name not in entry:
            known = ", ".join(f"{entry[place] / result['trained']:g}" for entry in asked) or "nothing"
            raise ValueError(
                f"{kind or table} at {share:g} times the training length was not measured: there is {known}"
            )
        rows.append(entry.get(name))
    return None if any(row is None for row in rows) else torch.tensor(rows, dtype=torch.float64)


def difference(
    of: list[Result], than: list[Result], table: str = "nonoverlapping", share: float = 1
) -> Interval | None:
    """How much higher the loss of one variant is than that of another, text by text and seed by seed.

    Args:
        of: The results of one variant.
        than: The results of the other; seeds that only one of them has are left out.
        table: "nonoverlapping", "sliding" or "hidden". Default: "nonoverlapping".
        share: The length of windows as a multiple of the training length. Default: 1.

    Returns:
        The mean difference in nats with its interval; None if one of them cannot serve the length.

    Raises:
        ValueError: If it was not measured, or they have no seed in common.
    """
    return _mean(*(texts(list(part), table, share) for part in zip(*_pairs(of, than), strict=True)))


def differences(
    of: list[Result], than: list[Result], table: str = "nonoverlapping", share: float = 1
) -> list[Interval]:
    """What `difference` says of each seed alone: the interval is over texts. For two models, which have no spread.

    Args:
        of: The results of one variant.
        than: The results of the other; seeds that only one of them has are left out.
        table: "nonoverlapping", "sliding" or "hidden". Default: "nonoverlapping".
        share: The length of windows as a multiple of the training length. Default: 1.

    Returns:
        The differences in nats with their intervals, in the order of seeds; none if a model cannot serve the length.

    Raises:
        ValueError: If it was not measured, or they have no seed in common.
    """
    means = [_mean(*(texts([model], table, share) for model in pair)) for pair in _pairs(of, than)]
    return [one for one in means if one is not None]


def _pairs(of: list[Result], than: list[Result]) -> list[tuple[Result, Result]]:
    """Models of two variants that began with the same seed."""
    first, second = ({result["config"]["seed"]: result for result in part} for part in (of, than))
    both = sorted(first.keys() & second.keys())
    if not both:
        raise ValueError("the two variants have no seed in common: train one of them with a seed of the other")
    return [(first[seed], second[seed]) for seed in both]


def change(of: list[Result], share: float, table: str = "sliding") -> Interval | None:
    """How much the loss rises from the training length to a multiple of it; None if that is refused."""
    return _mean(texts(of, table, share), texts(of, table, 1))


def breaks(result: Result, by: float = 1.0) -> tuple[int, int] | None:
    """Where in a long window the loss of one model first exceeds what it is near the end of training's length.

    Windows of twice the length say that a model has broken by then. Losses by position say where.

    Args:
        result: The result of one model of text.
        by: The excess in nats over the mean loss at positions 3/4 L to L. Default: 1.0.

    Returns:
        The first position of the group of positions whose mean loss is that high, and the one after its last; None if
        there is no such group.

    Example:
        >>> breaks(results.read("extrapolation", "epoch")["sinusoidal"][0])
        (128, 140)
    """
    trained, groups = result["trained"], result["by_position"]
    last = [group for group in groups if 3 * trained // 4 <= group["from"] and group["to"] <= trained]
    usual = sum(group["loss"] * group["tokens"] for group in last) / sum(group["tokens"] for group in last)
    later = (group for group in groups if group["from"] >= trained and group["loss"] > usual + by)
    return next(((group["from"], group["to"]) for group in later), None)


def worth(of: list[Result], share: float) -> Interval | None:
    """What keys are worth that are the training length or more back: the loss with them hidden, less the loss."""
    return _mean(texts(of, "hidden", share), texts(of, "nonoverlapping", share))


def gain(of: list[Result], share: float, kind: str = "copy") -> Interval | None:
    """How much better a planted string is predicted than a new one, in nats per byte; None if that is refused.

    Args:
        of: The results of one variant.
        share: How far back it occurred before, as a multiple of the training length.
        kind: "copy" or "key". Default: "copy".

    Raises:
        ValueError: If it was not measured.
    """
    return _mean(texts(of, "recalled", share, kind))


def gains(of: list[Result], share: float, kind: str = "copy") -> list[float] | None:
    """As `gain`, for each model by itself: some seeds learn to copy and others do not, so their mean describes nobody.

    Args:
        of: The results of one variant.
        share: How far back the string occurred before, as a multiple of the training length.
        kind: "copy" or "key". Default: "copy".

    Returns:
        One gain in nats per byte for each seed, in their order; None if that is refused.

    Raises:
        ValueError: If it was not measured.
    """
    gains_of_texts = texts(of, "recalled", share, kind)
    return None if gains_of_texts is None else gains_of_texts.mean(1).tolist()


def _mean(first: Tensor | None, second: Tensor | float | None = 0.0) -> Interval | None:
    return None if first is None or second is None else crossed(first - second)


def _losses(rows: ByVariant) -> Iterator[Table]:
    some = next(iter(rows.values()))[0]
    trained = some["trained"]
    shares = [entry["length"] / trained for entry in some["nonoverlapping"]]
    after = ": mean over seeds ± their deviation"
    for title, table, name in (
        ("Loss in nats per byte, in windows that do not overlap", "nonoverlapping", "loss"),
        ("Loss in windows that slide by a quarter", "sliding", "loss"),
        ("Loss of the same tokens as these in windows that do not overlap", "sliding", "nonoverlapping"),
    ):
        values = {
            v: zip(*([e.get(name) for e in result[table]] for result in of), strict=True) for v, of in rows.items()
        }
        lengths = [f"{share * trained:g}" for share in shares]
        yield _table(title + after, lengths, {v: [spread(seeds) for seeds in of] for v, of in values.items()})
    sure = ", with 95 % intervals"
    measured: list[tuple[str, list[float], Callable[..., Interval | list[float] | None]]] = [
        ("Rise of the loss beyond the training length L, windows that slide" + sure, shares, change),
        ("What keys are worth that are L or more back, windows that do not overlap" + sure, shares, worth),
    ]
    for kind in dict.fromkeys(entry["kind"] for entry in some.get("recalled", [])):
        places = [entry["distance"] / trained for entry in some["recalled"] if entry["kind"] == kind]
        title = f"Gain in nats per byte from a planted {kind} by its distance, for each seed"
        measured.append((title, places, functools.partial(gains, kind=kind)))
    for title, heads, entries in measured:
        cells = {}
        for variant, of in rows.items():
            try:
                cells[variant] = [_shown(entries(of, head)) for head in heads]
            except ValueError:  # not measured, as far keys of a memory
                continue
        if cells:
            yield _table(title, [f"{head:g} L" for head in heads], cells)


def _shown(interval: Interval | list[float] | None) -> str | None:
    if isinstance(interval, list):
        return " ".join(f"{value:+.2f}" for value in interval)
    return None if interval is None else f"{interval:+.2f}"


def _curves(rows: ByVariant) -> Table:
    steps = [point["step"] for point in next(iter(rows.values()))[0]["curve"]]
    steps = steps[:: max(1, len(steps) // 8)]
    cells = {v: [spread([_held_out(result, step) for result in of]) for step in steps] for v, of in rows.items()}
    return _table("Held-out loss by step: mean over seeds ± their deviation", steps, cells)


def _held_out(result: Result, step: int) -> float | None:
    return next((point["held_out"] for point in result["curve"] if point["step"] == step), None)


# Tasks


def learned(of: list[Result]) -> list[Result]:
    """Those results in which the task was learned: 90 % of the answers are exact at the longest training length."""
    return [result for result in of if _exact(result, result["config"]["length"]) >= LEARNED]


def success(of: list[Result]) -> Interval:
    """The share of seeds that learn the task."""
    return wilson(len(learned(of)), len(of))


def _exact(result: Result, length: int) -> float:
    share = next(entry["exact"] for entry in result["accuracy"] if entry["length"] == length)
    return -1.0 if share is None else share


def _answers(task: str, rows: ByVariant) -> Iterator[Table]:
    some = next(iter(rows.values()))[0]
    rates = [[v, f"{len(learned(of))} of {len(of)}", str(success(of))] for v, of in rows.items()]
    longest = some["config"]["length"]
    yield Table(["", "seeds", "share"], rates, caption=f"{task}: seeds that learn it, 90 % exact at {longest}")
    lengths = [entry["length"] for entry in some["accuracy"]]
    for title, name in (("exact answers", "exact"), ("right tokens", "tokens")):
        cells = {
            v: [spread([result["accuracy"][n][name] for result in of]) for n in range(len(lengths))]
            for v, of in rows.items()
        }
        yield _table(f"{task}: {title} by length, all seeds", lengths, cells)


def _table(caption: str, heads: Sequence[Any], cells: Mapping[str, Sequence[str | None]]) -> Table:
    return Table(["", *map(str, heads)], [[variant, *of] for variant, of in cells.items()], caption=caption)
