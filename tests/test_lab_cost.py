"""posenc.lab.cost and posenc.lab.turns: contenders take turns, rounds are kept, and ratios are those of a round."""

import itertools
import json
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from posenc import ENCODINGS, attention
from posenc._attention.plan import Plan, Span
from posenc.lab import cost as module
from posenc.lab import turns
from posenc.lab.__main__ import main
from posenc.lab.cost import Cost, Sizes, Written, cost, keep, part_of, peak, read_cost, table
from posenc.lab.intervals import Interval, middle
from posenc.lab.turns import ratio, ratios, take_turns

SMALL = Sizes(heads=2, dim=8, lengths=(6, 12), cached=10, scored=9)


class Clock:
    """Time that passes in calls only."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, []

    def __call__(self) -> float:
        return self.now

    def call(self, name, seconds):
        def call():
            self.calls.append(name)
            self.now += seconds if isinstance(seconds, float) else next(seconds)

        return call


# Turns


def test_everybody_has_a_turn_in_every_round_and_nobody_is_always_first(tmp_path):
    clock = Clock()
    calls = {name: clock.call(name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 4.0))}
    times = take_turns(calls, 7, tmp_path / "part", {}, clock=clock, shortest=0.0, progress=False)
    assert times == {"a": [1.0] * 7, "b": [2.0] * 7, "c": [4.0] * 7}
    rounds = ["".join(clock.calls[3 + 3 * n : 6 + 3 * n]) for n in range(7)]
    assert rounds == ["abc", "bca", "cab", "abc", "bca", "cab", "abc"]


def test_a_drift_of_the_machine_leaves_ratios_alone(tmp_path):
    clock, calls = Clock(), {}
    for name, factor in (("a", 1.0), ("b", 2.0)):
        calls[name] = clock.call(name, itertools.count(factor, factor))  # slower and slower
    times = take_turns(calls, 8, tmp_path / "part", {}, clock=clock, shortest=0.0, progress=False)
    assert max(times["a"]) > 3 * min(times["a"])
    assert ratio(times, "b", "a") == Interval(2.0, 2.0, 2.0)


def test_a_short_call_is_made_often_and_the_first_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "_often", lambda call, shortest: 4)
    clock = Clock()
    call = clock.call("a", itertools.cycle([100.0, 1.0, 1.0, 1.0, 1.0]))
    times = take_turns({"a": call}, 6, tmp_path / "part", {}, clock=clock, progress=False)
    assert times == {"a": [1.0] * 6}


def test_how_often_follows_from_a_call(monkeypatch):
    now = iter([0.0, 0.005])
    monkeypatch.setattr(turns.time, "perf_counter", lambda: next(now))
    assert turns._often(lambda: None, 0.02) == 4


def test_a_measurement_goes_on_where_it_stopped(tmp_path):
    part, about, clock = tmp_path / "part", {"d": 8}, Clock()
    again = dict(clock=clock, shortest=0.0, progress=False)
    left = itertools.chain([1.0] * 6, [KeyboardInterrupt])  # one call before the rounds, five in them

    def call():
        seconds = next(left)
        if seconds is KeyboardInterrupt:
            raise KeyboardInterrupt
        clock.now += seconds

    with pytest.raises(KeyboardInterrupt):
        take_turns({"a": call}, 8, part, about, **again)
    assert json.loads(part.read_text()) == {"d": 8, "times": {"a": [1.0] * 5}}
    times = take_turns({"a": clock.call("a", 3.0)}, 8, part, about, **again)
    assert times == {"a": [1.0] * 5 + [3.0] * 3}
    assert take_turns({"a": clock.call("a", 5.0)}, 8, part, about, **again) == times  # complete already
    assert clock.calls.count("a") == 1 + 3


@pytest.mark.parametrize("other", [({"d": 9}, "a"), ({"d": 8}, "b")])
def test_rounds_of_other_conditions_or_contenders_are_dropped(tmp_path, other):
    part, clock = tmp_path / "part", Clock()
    again = dict(clock=clock, shortest=0.0, progress=False)
    take_turns({"a": clock.call("a", 1.0)}, 6, part, {"d": 8}, **again)
    about, name = other
    assert take_turns({name: clock.call(name, 2.0)}, 6, part, about, **again) == {name: [2.0] * 6}


def test_a_damaged_file_is_no_beginning(tmp_path):
    (part := tmp_path / "part").write_text("{")
    times = take_turns({"a": lambda: None}, 6, part, {}, shortest=0.0, progress=False)
    assert len(times["a"]) == 6


def test_the_minutes_end_and_six_rounds_are_enough(tmp_path, monkeypatch):
    now = itertools.count(0.0, 60.0)  # a minute between two looks at the clock
    monkeypatch.setattr(turns.time, "monotonic", lambda: next(now))
    calls, options = {"a": lambda: None}, dict(shortest=0.0, progress=False)
    assert take_turns(calls, 11, tmp_path / "part", {}, minutes=3, **options) is None
    assert len(json.loads((tmp_path / "part").read_text())["times"]["a"]) == 3
    times = take_turns(calls, 11, tmp_path / "part", {}, minutes=4, **options)
    assert len(times["a"]) == 7
    with pytest.raises(ValueError, match="rounds is 5: use 6 or more"):
        take_turns(calls, 5, tmp_path / "part", {}, **options)


def test_a_ratio_is_of_one_round():
    times = {"a": [1.0, 10.0, 2.0, 1.0, 1.0, 1.0], "b": [2.0, 20.0, 4.0, 2.0, 2.0, 3.0]}
    assert ratios(times, "b", "a") == [2.0, 2.0, 2.0, 2.0, 2.0, 3.0]
    found = ratio(times, "b", "a")
    assert (found.mean, found.low, found.high) == (2.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="'c' was not timed: there are 'a', 'b'"):
        ratio(times, "c", "a")


@pytest.mark.parametrize("count", [6, 7, 8, 9, 11, 15, 40])
def test_the_interval_of_a_median_holds_it_in_95_of_100_cases(count):
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(4000, count, generator=generator).exp().pow(9).tolist()  # far from normal
    true = float(torch.tensor(0.5).exp() ** 9)
    inside = sum((found := middle(row)).low <= true <= found.high for row in drawn) / len(drawn)
    assert inside > 0.945
    if count < 12:  # and it is no wider than it has to be
        narrower = sum(sorted(row)[middle_cut(count)] <= true <= sorted(row)[-1 - middle_cut(count)] for row in drawn)
        assert narrower / len(drawn) < 0.95
    with pytest.raises(ValueError, match="there are 5 numbers"):
        middle([1.0] * 5)


def middle_cut(count):
    """How many numbers the interval leaves out on each side, and one more would be too many."""
    return sorted(range(count)).index(int(middle(list(map(float, range(count)))).low)) + 1


# Cost


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    part = tmp_path_factory.mktemp("cost") / "cost.json.part"
    return cost("smoke", rounds=6, part=part, sizes=SMALL, shortest=0.0, progress=False)


def test_every_scheme_is_timed_in_every_way_that_it_has(result):
    names = {tuple(name.split(", ")) for name in result["times"]}
    assert not result["refused"] and all(len(rounds) == 6 and min(rounds) >= 0 for rounds in result["times"].values())
    for what in ("pass 6", "pass 12", "training 12"):
        for way, schemes in (("fused", module.ALONE), ("dense", module.ALONE), ("mask", module.BIASED)):
            assert {scheme for about, scheme, found in names if (about, found) == (what, way)} == set(schemes)
    assert ("pass 12", "alibi", "kept mask") in names
    assert {scheme for what, scheme, _ in names if what == "token 10"} == set(module.ALONE)
    assert {way for what, scheme, way in names if (what, scheme) == ("factor 9", "distance_aware")} == {
        "two special functions",
        "one tanh",
        "looked up",
    }
    assert {scheme for what, scheme, way in names if (what, way) == ("model training", "fused")} == set(ENCODINGS)
    assert all(size > 0 for size in result["bytes"].values())
    json.dumps(result, allow_nan=False)


def test_a_peer_is_nope_through_the_same_kernel(result):
    found = Cost(result)
    times = result["times"]
    for way, peer in (("fused", "fused"), ("mask", "fused"), ("dense", "dense")):
        assert found.ratios("pass 12", "alibi", way) == ratios(
            times, f"pass 12, alibi, {way}", f"pass 12, nope, {peer}"
        )
    assert found.ratio("pass 12", "nope", "dense").high == 1
    assert found.ratios("rotation 12", "rope", "new tables") == ratios(
        times, "rotation 12, rope, new tables", "rotation 12, copy, of q and k"
    )
    assert found.rounds == 6 and found.seconds("token 10", "rope") > 0
    with pytest.raises(ValueError, match="was not timed"):
        found.ratio("pass 13", "alibi")


def test_all_ways_give_the_same_numbers():
    drawn, plan = module._draw(3, SMALL, 12, "cpu", torch.float32), Plan(Span(0, 12))
    for name in module.BIASED:
        scheme = module._made(name, SMALL, 12)
        exact = attention(*drawn, scheme, plan, backend="dense")
        for way in ("fused", "mask"):
            torch.testing.assert_close(module._pass(scheme, way, drawn, plan)(), exact)
        sizes = [tuple(x.shape) for x in module._training(scheme, "mask", drawn, plan)()]
        assert sizes == [*[(1, 2, 12, 8)] * 3, *(tuple(p.shape) for p in scheme.parameters())]
    alibi = module._made("alibi", SMALL, 12)
    kept = module._read_only(alibi, drawn, plan)()
    torch.testing.assert_close(kept, attention(*drawn, alibi, plan, backend="dense"))


def test_three_ways_to_the_same_factor():
    calls = {name: call() for name, call in module._factors(SMALL, "cpu", torch.float64)}
    (_, plain), *found = calls.items()
    for _, z in found:
        torch.testing.assert_close(z, found[0][1])
        assert not torch.allclose(z, plain)
    q, k, v = module._draw(3, SMALL, 9, "cpu", torch.float64)
    w, shift = torch.linspace(-0.05, 0.05, 2), torch.linspace(-1, 1, 2)
    encoding = ENCODINGS["distance_aware"](model_dim=16, heads=2, head_dim=8, length=9)
    with torch.no_grad():
        encoding.w.copy_(w), encoding.v.copy_(shift)
    torch.testing.assert_close(found[0][1], attention(q, k, v, encoding, Plan(Span(0, 9))), rtol=1e-6, atol=1e-6)


def test_a_written_bias_has_no_other_form():
    scheme = module._made("t5", SMALL, 600)
    q = torch.zeros(1, 2, 600, 8)
    plan = Plan(Span(0, 600))
    assert scheme.split(q, plan) is not None
    assert Written(scheme).split(q, plan) is None and Written(scheme).widen(q, q, plan, 1.0) is None


def test_what_cannot_be_computed_says_why():
    def full():
        raise torch.OutOfMemoryError("CUDA out of memory\nand more")

    def refused():
        raise ValueError("cannot serve mix")

    able, why = module._able({"a": full, "b": list, "c": refused})
    assert able == {"b": list} and why == {"a": "CUDA out of memory", "c": "cannot serve mix"}


def test_it_is_kept_and_told(result, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"smoke .*run python -m posenc\.lab cost"):
        read_cost("smoke", tmp_path)
    part = part_of("smoke", tmp_path)
    part.parent.mkdir()
    part.write_text("{}")
    path = keep(result, "smoke", tmp_path)
    assert not part.exists()
    told = table(read_cost("smoke", tmp_path))
    assert told.rows[0][0] == "pass 6, nope, fused" and told.rows[0][2:4] == ["1.00", "1.00 (1.00 to 1.00)"]
    assert main(["report", "--experiment", "cost", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    assert "pass 12, alibi, kept mask" in capsys.readouterr().out
    path.write_text('{"rows": []}')
    with pytest.raises(ValueError, match=r"cost\.json has no rounds: run"):
        read_cost("smoke", tmp_path)


def test_the_command_goes_on_and_keeps(tmp_path, monkeypatch, capsys):
    for name, value in module.REUSED.items():
        monkeypatch.setenv(name, value)
    asked, given = [], [None, {"provenance": {"device": "x"}, "times": {"pass 6, nope, fused": [1.0] * 6}, "bytes": {}}]
    monkeypatch.setattr("posenc.lab.__main__.cost", lambda *a, **options: asked.append(options) or given.pop(0))
    what = ["cost", "--preset", "smoke", "--rounds", "7", "--minutes", "2", "--out", str(tmp_path), "--quiet"]
    threads = torch.get_num_threads()
    try:
        assert main([*what, "--device", "cpu"]) == 0
        assert "the same command goes on" in capsys.readouterr().out and not list(tmp_path.rglob("*.json"))
        assert main([*what, "--device", "cpu"]) == 0 and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert (tmp_path / "smoke/cost.json").exists()
    assert asked[0]["part"] == part_of("smoke", str(tmp_path))
    assert (asked[0]["rounds"], asked[0]["minutes"]) == (7, 2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="malloc's environment is that of Linux")
def test_costs_are_measured_in_memory_that_is_kept(monkeypatch):
    calls = []
    done = subprocess.CompletedProcess([], 7)
    monkeypatch.setattr(subprocess, "run", lambda command, env: calls.append((command, env)) or done)
    for name in module.REUSED:
        monkeypatch.delenv(name, raising=False)
    assert main(["cost", "--preset", "smoke", "--rounds", "6"]) == 7
    ((command, env),) = calls
    assert command[1:] == ["-m", "posenc.lab", "cost", "--preset", "smoke", "--rounds", "6"]
    assert module.REUSED.items() <= env.items()


def test_the_peak_is_of_what_is_held_at_once(device):
    def call(held: list[Tensor]) -> None:
        a = torch.empty(1_000_000, device=device)
        del a
        held.append(torch.empty(500_000, device=device))
        b = torch.empty(1_500_000, device=device)
        del b

    kept = torch.empty(3_000_000, device=device)
    found = peak(lambda: call([]), torch.device(device))
    assert 8_000_000 <= found < 8_100_000 + (4_000_000 if device == "cuda" else 0)
    del kept


def test_a_mask_is_memory_and_its_forms_are_not(result):
    found = Cost(result)
    assert found.bytes("pass 12", "alibi", "kept mask") < found.bytes("pass 12", "alibi", "mask")
    drawn, plan = module._draw(3, SMALL, 600, "cpu", torch.float32), Plan(Span(0, 600))
    for name in ("alibi", "t5"):
        scheme, matrix = module._made(name, SMALL, 600), 2 * 600 * 600 * 4
        fused, mask = (peak(module._pass(scheme, way, drawn, plan), torch.device("cpu")) for way in ("fused", "mask"))
        assert fused < matrix <= mask
