"""How the benches measure: contenders take turns, and medians are compared."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any]


Clock = Callable[[], float]


def timed(call: Call, after: Call = lambda: None, clock: Clock = time.perf_counter) -> float:
    start = clock()
    call()
    after()
    return clock() - start


def measure_all(
    calls: Mapping[str, Call], rounds: int, after: Call = lambda: None, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each, sorted; nobody is always first, and each warms up what it itself has left."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            timed(calls[name], after, clock)
            times[name].append(timed(calls[name], after, clock))
    return {name: sorted(t) for name, t in times.items()}


def measure(
    calls: Mapping[str, Call], rounds: int, after: Call = lambda: None, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each."""
    return {name: statistics.median(t) for name, t in measure_all(calls, rounds, after, clock).items()}


def own_clock(threads: int) -> Clock:
    """Seconds of the processor, where there is one thread: what else the machine does then costs nothing."""
    return time.thread_time if threads == 1 else time.perf_counter
