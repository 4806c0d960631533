"""Contenders that take turns, round after round: how times are compared on a machine that drifts and is shared.

A round times each contender once, and what is compared are ratios within a round. Rounds are kept one by one, so that
a measurement that was stopped goes on, and so that a reader sees how much they differ.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from posenc.lab.intervals import Interval, middle
from posenc.lab.results import put

Call = Callable[[], Any]
ENOUGH = 6  # rounds: with fewer no 95 % interval of a median exists


def take_turns(
    calls: Mapping[str, Call],
    rounds: int,
    part: str | os.PathLike[str],
    about: Mapping[str, Any],
    *,
    clock: Callable[[], float] = time.perf_counter,
    shortest: float = 0.05,
    minutes: float | None = None,
    progress: bool = True,
) -> dict[str, list[float]] | None:
    """Times all calls in every round, and keeps each round as soon as it is complete.

    A round begins one contender later than the last, so that nobody is always first. A call that is shorter than
    `shortest` is made several times in a turn, after one that does not count.

    Args:
        calls: What to time, by name. Each was made before in this process, which paid for memory and compilation.
        rounds: How many rounds there should be, 6 or more.
        part: A file for the rounds so far. The same call goes on from there; whoever keeps the result removes it.
        about: What times depend on, such as sizes and versions: text and whole numbers. Rounds in the file that were
            measured under other conditions are dropped.
        clock: Gives seconds. Default: those of the wall.
        shortest: Seconds of a turn, about. Default: 0.05.
        minutes: Begin no new round after so long. Default: no limit.
        progress: Show a progress bar. Default: True.

    Returns:
        For each name its seconds, round by round. None if the minutes ended before round 6.

    Raises:
        ValueError: If fewer than six rounds are asked for.
    """
    if rounds < ENOUGH:
        raise ValueError(f"rounds is {rounds}: use {ENOUGH} or more, as the 95 % interval of a median needs")
    part, begun, names = Path(part), time.monotonic(), list(calls)
    times = _kept(part, about, names)
    done = len(times[names[0]])
    often = {name: _often(call, shortest) for name, call in calls.items()} if done < rounds else {}
    for turn in tqdm(range(done, rounds), desc="rounds", disable=None if progress else True):
        if minutes is not None and time.monotonic() - begun > 60 * minutes:
            break
        first = turn % len(names)
        found = {name: _seconds(calls[name], often[name], clock) for name in names[first:] + names[:first]}
        for name in names:
            times[name].append(found[name])
        put(part, {**about, "times": times})
    return times if len(times[names[0]]) >= ENOUGH else None


def ratio(times: Mapping[str, list[float]], name: str, peer: str) -> Interval:
    """How many times as long a contender takes as its peer, both in the same round.

    Returns:
        The median over rounds, and its 95 % interval.

    Raises:
        ValueError: If one of them was not timed.

    Example:
        >>> times = {"a": [1.0, 1.1, 1.0, 1.2, 1.0, 1.0], "b": [2.0, 2.2, 2.1, 2.4, 2.0, 1.9]}
        >>> print(ratio(times, "b", "a"))
        2.00 (1.90 to 2.10)
    """
    return middle(ratios(times, name, peer))


def ratios(times: Mapping[str, list[float]], name: str, peer: str) -> list[float]:
    """The same, round by round."""
    for each in (name, peer):
        if each not in times:
            raise ValueError(f"{each!r} was not timed: there are {', '.join(map(repr, times))}")
    return [one / other for one, other in zip(times[name], times[peer], strict=True)]


def _kept(part: Path, about: Mapping[str, Any], names: list[str]) -> dict[str, list[float]]:
    """The complete rounds of a measurement of the same kind that was stopped; none otherwise."""
    new: dict[str, list[float]] = {name: [] for name in names}
    try:
        kept = json.loads(part.read_text())
        times: dict[str, list[float]] = kept.pop("times")
    except (OSError, ValueError, KeyError, AttributeError):
        return new
    same = kept == json.loads(json.dumps(about)) and list(times) == names
    return times if same and len({len(each) for each in times.values()}) == 1 else new


def _often(call: Call, shortest: float) -> int:
    """How many calls fill a turn."""
    _wait()
    start = time.perf_counter()
    call()
    _wait()
    return max(1, round(shortest / max(time.perf_counter() - start, 1e-9)))


def _seconds(call: Call, often: int, clock: Callable[[], float]) -> float:
    """Seconds of one call."""
    if often > 1:
        call()
    _wait()
    start = clock()
    for _ in range(often):
        call()
    _wait()
    return (clock() - start) / often


def _wait() -> None:
    """A GPU computes while the program goes on."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
