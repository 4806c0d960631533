"""How the benches measure: contenders take turns, and medians are compared."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any]


def timed(call: Call, after: Call = lambda: None) -> float:
    start = time.perf_counter()
    call()
    after()
    return time.perf_counter() - start


def turns(calls: Mapping[str, Call], rounds: int, after: Call = lambda: None) -> dict[str, list[float]]:
    """Seconds of each; nobody is always first, and each warms up what it itself has left."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            timed(calls[name], after)
            times[name].append(timed(calls[name], after))
    return times


def measure(calls: Mapping[str, Call], rounds: int, after: Call = lambda: None) -> dict[str, float]:
    """Median seconds of each, which take turns."""
    return {name: statistics.median(t) for name, t in turns(calls, rounds, after).items()}
