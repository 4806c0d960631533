"""posenc.lab's runs: the same result after any interruption, and with any number of processes."""

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from posenc import Transformer
from posenc.lab import (
    EXPERIMENTS,
    PRESETS,
    VARIANTS,
    Corpus,
    Preset,
    Run,
    config,
    results,
    runs,
    sweep,
    train,
    trained,
    training,
    weights,
)
from posenc.lab import corpus as lab_corpus
from posenc.lab.__main__ import main
from posenc.lab.corpus import batch as draw
from posenc.lab.evaluation import accuracy as lab_accuracy
from posenc.lab.evaluation import cut_losses
from posenc.lab.objectives import loss, masked
from posenc.lab.report import rates, report, spread
from posenc.lab.sweeps import outlook
from posenc.lab.tasks import TASKS
from posenc.lab.training import BATCHES
from posenc.schemes.registry import SCHEMES

LINES = ["def f(x):\n    return x + 1\n", "for i in range(10):\n    print(i)\n", "import os\n", "x = [1, 2, 3]\n"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    generator = torch.Generator().manual_seed(0)

    def text(lines: int) -> torch.Tensor:
        drawn = torch.randint(len(LINES), (lines,), generator=generator).tolist()
        return torch.tensor(list("".join(LINES[n] for n in drawn).encode()), dtype=torch.uint8)

    return Corpus("lines", text(400), text(200), "0123456789abcdef", 2)


@pytest.fixture(autouse=True)
def one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out losses are most of the time of a run, and the question of few tests: those of one batch do."""
    monkeypatch.setattr(training, "BATCHES", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of text, for the command line."""
    for n in range(12):
        (tmp_path / "text" / f"part{n}").mkdir(parents=True)
        (tmp_path / "text" / f"part{n}" / "a.txt").write_text(
            f"# {n}\n" + "".join(LINES[(n * i) % 4] for i in range(60))
        )
    return tmp_path


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# What is run


def test_every_run_can_be_made():
    for preset in PRESETS:
        for experiment in EXPERIMENTS:
            for run in runs(experiment, preset, 1):
                assert json.loads(json.dumps(run.config)) == run.config
    for variant, what in VARIANTS.items():
        model = Run(variant, 0, "smoke").model()
        assert sum(p.numel() for p in model.parameters()) > 0
        for encoding in model.encodings:
            for name in what.zeroed:
                assert not encoding.get_parameter(name).any()
                assert not encoding.get_parameter(name).requires_grad


def test_a_step_of_the_tuning_sees_as_many_tokens_as_one_before_it():
    for preset in PRESETS:
        for run in runs("beyond", preset, 1):
            assert run.batch * run.length == run.budget.batch * run.budget.length
        assert {run.length for run in runs("beyond", preset, 1)} == {run.budget.length, 4 * run.budget.length}


def test_one_seed_gives_all_schemes_the_same_other_weights_and_the_same_text(corpus):
    states = [Run(name, 3, "smoke").model().state_dict() for name in EXPERIMENTS["extrapolation"]]
    for name, value in states[0].items():
        assert all(torch.equal(state[name], value) for state in states)
    other = Run("nope", 4, "smoke").model().state_dict()
    assert not torch.equal(other["embedding.weight"], states[0]["embedding.weight"])


def test_the_seed_decides_and_nothing_else_does(corpus, tmp_path):
    state = torch.random.get_rng_state()
    one, _, _ = train(Run("rope", 0, "smoke"), corpus, folder=tmp_path / "a", progress=False)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(7)
    two, curve, seconds = train(Run("rope", 0, "smoke"), corpus, folder=tmp_path / "b", progress=False)
    assert same(one.state_dict(), two.state_dict())
    three, _, _ = train(Run("rope", 1, "smoke"), corpus, folder=tmp_path / "c", progress=False)
    assert not same(one.state_dict(), three.state_dict())
    assert [point["step"] for point in curve] == list(range(1, 13))
    assert curve[-1]["held_out"] < curve[0]["held_out"] - 0.3
    assert seconds > 0


def test_every_step_of_every_seed_draws_its_own_batch(corpus, tmp_path, monkeypatch):
    drawn: dict[str, list[int]] = {"train": [], "held_out": []}

    def noted(model, run, text, generator, part):
        drawn["train" if text is corpus.train else "held_out"].append(generator.initial_seed())
        return sum(parameter.sum() for parameter in model.parameters())

    monkeypatch.setattr(training, "loss", noted)
    monkeypatch.setattr(training, "BATCHES", BATCHES)
    for seed in range(3):
        train(Run("nope", seed, "smoke"), corpus, folder=tmp_path, progress=False)
    steps = PRESETS["smoke"].text.steps
    assert len(drawn["train"]) == len(set(drawn["train"])) == 3 * steps
    assert len(set(drawn["held_out"])) == BATCHES > 1  # the same for all points and runs
    assert not set(drawn["train"]) & set(drawn["held_out"])


def test_the_held_out_loss_is_that_of_held_out_text(corpus, tmp_path, monkeypatch):
    longer(monkeypatch, rate=1e-2)
    noise = torch.randint(256, (4000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    other = dataclasses.replace(corpus, held_out=noise)
    _, curve, _ = train(Run("rope", 0, "smoke"), other, folder=tmp_path, progress=False)
    assert curve[-1]["train"] < 4.5
    assert curve[-1]["held_out"] > 5.5  # chance is ln 256 = 5.5


def longer(monkeypatch: pytest.MonkeyPatch, **changes: float) -> None:
    """Another budget for the preset that tests use."""
    of = PRESETS["smoke"]
    tasks = {task: dataclasses.replace(budget, **changes) for task, budget in of.tasks.items()}
    monkeypatch.setitem(PRESETS, "smoke", Preset(dataclasses.replace(of.text, **changes), tasks))


@pytest.mark.parametrize("variant", ["transformer_xl_memory", "masked_rope", "copy_t5", "shaw_values", "relu"])
def test_every_objective_learns(variant, corpus, tmp_path, monkeypatch):
    longer(monkeypatch, steps=60, rate=5e-3)
    monkeypatch.setattr(training, "POINTS", 12)  # held-out losses are most of the time, and not the question here
    model, curve, _ = train(Run(variant, 0, "smoke"), corpus, folder=tmp_path, progress=False)
    assert curve[-1]["train"] < curve[0]["train"] - 0.4
    for encoding in model.encodings:
        assert not any(encoding.get_parameter(name).any() for name in VARIANTS[variant].zeroed)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("variant", ["rope", "masked_rope", "copy_nope", "transformer_xl_memory"])
def test_parts_of_a_batch_have_the_mean_loss_of_the_whole(variant, parts, corpus):
    run = Run(variant, 0, "smoke")
    model = run.model()
    parts = 2 if run.settings.memory else parts

    def of(part: slice) -> torch.Tensor:
        return loss(model, run, corpus.train, torch.Generator().manual_seed(5), part)

    shares = torch.stack([of(slice(n, None, parts)) for n in range(parts)])
    torch.testing.assert_close(shares.mean(), of(slice(None)))
    assert shares.std() > 0


def test_memory_makes_the_loss_of_later_segments_that_of_one_long_text(corpus):
    run = Run("transformer_xl_memory", 0, "smoke")
    model = run.model()
    length, batch = run.length, run.batch
    tokens = draw(corpus.train, 4 * length, batch // 4, torch.Generator().manual_seed(5))
    window = torch.arange(4 * length)
    near = window[:, None] // length - window // length <= 1  # a segment sees the one before it
    logits = model(tokens[:, :-1], attention_mask=near[None, None])
    whole = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    found = loss(model, run, corpus.train, torch.Generator().manual_seed(5), slice(None))
    torch.testing.assert_close(found, whole)


def test_masked_bytes_are_15_in_100_and_of_three_kinds(corpus):
    seen, tokens, hidden = masked(corpus.train, 40, 500, torch.Generator().manual_seed(0))
    assert hidden.sum(-1).unique().tolist() == [6]
    assert torch.equal(seen[~hidden], tokens[~hidden])
    shown, there = seen[hidden], tokens[hidden]
    assert (shown == config.MASK).float().mean().item() == pytest.approx(0.8, abs=0.03)
    assert (shown == there).float().mean().item() == pytest.approx(0.1, abs=0.03)
    assert shown.max() <= config.MASK


def test_a_small_model_learns_on_a_page(corpus):
    def losses(seed: int) -> tuple[float, torch.Tensor]:
        torch.manual_seed(0)
        model = Transformer(256, layers=1, model_dim=32, heads=2, length=16)
        fitted = training.fit(model, corpus.train, steps=60, length=16, count=8, seed=seed)
        assert fitted is model
        assert not model.training
        tokens = draw(corpus.held_out, 16, 32, torch.Generator().manual_seed(1))
        logits, wanted = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
        loss_ = torch.nn.functional.cross_entropy(logits, wanted).item()
        return loss_, model.embedding.weight.detach()

    (loss_, weight), (_, again), (_, other) = losses(0), losses(0), losses(1)
    assert loss_ < 4.0  # chance is ln 256 = 5.5
    assert torch.equal(weight, again)
    assert not torch.equal(weight, other)


def test_the_rate_rises_then_falls_to_a_tenth():
    rates = [training.rate(step, 100, 2.0) for step in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[9] == rates[10] == 2.0
    assert rates == sorted(rates[:10]) + sorted(rates[10:], reverse=True)
    assert rates[55] == pytest.approx(1.1)
    assert rates[-1] == pytest.approx(0.2, rel=0.01)


def test_what_goes_on_from_another_run_has_its_weights(corpus, tmp_path, monkeypatch):
    asked, rate = [], training.rate

    def noted(step: int, steps: int, highest: float) -> float:
        asked.append((steps, highest))
        return rate(step, steps, highest)

    monkeypatch.setattr(training, "rate", noted)
    out = tmp_path / "out"
    todo = [Run(name, 0, "smoke") for name in ("rope", "rope_yarn", "rope_yarn_tuned")]
    with pytest.raises(ValueError, match=r"rope-0 .*train it"):
        train(todo[1], corpus, folder=tmp_path, progress=False)
    assert sweep(todo, corpus, out=out, work=tmp_path, progress=False) == 0
    raw, untuned, tuned = (load_file(tmp_path / "smoke" / f"{run.name}.safetensors") for run in todo)
    assert same(raw, untuned)
    assert not same(raw, tuned)
    curves = [json.loads((out / "smoke" / f"{run.name}.json").read_text())["curve"] for run in todo]
    assert [curve[-1]["step"] if curve else 0 for curve in curves] == [12, 0, 4]
    full = PRESETS["smoke"].text.rate
    assert set(asked) == {(12, full), (4, full / 4)}


def test_a_task_names_no_corpus_and_fits_any(corpus, tmp_path):
    run, out = Run("copy_nope", 0, "smoke"), tmp_path / "out"
    sweep([run], corpus, out=out, work=tmp_path, progress=False)
    assert "corpus" not in results.load(results.path_of(run, out))["provenance"]
    other = Corpus("another", corpus.train, corpus.held_out, "f" * 16, 2)
    assert sweep([run], other, out=out, work=tmp_path, progress=False) == 0
    assert list(results.read("generalisation", "smoke", out)) == ["copy_nope"]


def test_training_can_end_at_a_loss(corpus, tmp_path, monkeypatch):
    whole = train(Run("rope", 0, "smoke"), corpus, folder=tmp_path / "whole", progress=False)[1]
    target = whole[4]["held_out"]
    reached = next(point["step"] for point in whole if point["held_out"] <= target)
    monkeypatch.setitem(VARIANTS, "rope", dataclasses.replace(VARIANTS["rope"], until=target))
    run = Run("rope", 0, "smoke")
    curve = train(run, corpus, folder=tmp_path, progress=False)[1]
    assert curve == whole[: len(curve)]
    assert curve[-1]["step"] == reached < 12
    assert train(run, corpus, folder=tmp_path, progress=False)[1] == curve  # from the checkpoint: nothing is left to do


def test_a_result_stays_when_only_its_weights_are_needed_again(corpus, tmp_path):
    out, work = tmp_path / "out", tmp_path / "work"
    sweep([Run("rope", 0, "smoke")], corpus, out=out, work=work, progress=False)
    path, weights = results.path_of(Run("rope", 0, "smoke"), out), work / "smoke/rope-0.safetensors"
    kept, before = path.read_text(), load_file(weights)
    weights.unlink()
    assert sweep([Run("rope_ntk", 0, "smoke")], corpus, out=out, work=work, progress=False) == 0
    assert path.read_text() == kept
    assert same(load_file(weights), before)


@pytest.mark.pages
def test_jobs_share_a_sweep(folder, capfd):
    places = ["--corpus", str(folder / "text"), "--out", str(folder / "out"), "--work", str(folder / "work")]
    sweep_it = ["sweep", "--experiment", "distance", "--preset", "smoke", "--seeds", "1", "--device", "cpu", "--quiet"]
    assert main([*sweep_it, *places, "--jobs", "2"]) == 0
    many = len(EXPERIMENTS["distance"])
    assert f"{many} of {many} runs have results\n" in capfd.readouterr().out
    assert len(list((folder / "out/smoke").glob("*.json"))) == many


# Interruptions


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory) -> Callable[[str], tuple[dict[str, torch.Tensor], list[dict[str, float]]]]:
    """The weights and the curve of a run that nothing interrupts."""

    @cache
    def of(variant: str) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
        run, folder = Run(variant, 0, "smoke"), tmp_path_factory.mktemp("whole")
        model, curve, _ = train(run, corpus, folder=folder, progress=False)
        return model.state_dict(), curve

    return of


@pytest.mark.parametrize("variant", ["learned", "transformer_xl_memory", "masked_rope", "recall_shaw"])
@pytest.mark.parametrize("when", [1, 5, 11])
def test_an_interrupted_run_ends_with_the_same_weights(variant, when, corpus, whole, tmp_path, monkeypatch):
    run, (kept, curve), calls = Run(variant, 0, "smoke"), whole(variant), 0

    def stop(*args: object) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > (1 + training.BATCHES) * when + 1:
            raise KeyboardInterrupt
        return loss(*args)

    monkeypatch.setattr(training, "loss", stop)
    with pytest.raises(KeyboardInterrupt):
        train(run, corpus, folder=tmp_path, progress=False)
    monkeypatch.setattr(training, "loss", loss)
    again, found, _ = train(run, corpus, folder=tmp_path, progress=False)
    assert same(again.state_dict(), kept)
    assert found == curve


def test_an_interrupted_measurement_does_not_lose_the_training(corpus, tmp_path, monkeypatch):
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    of, todo, out = sys.modules["posenc.lab.sweeps"], [Run("nope", 0, "smoke")], tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(of, "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            sweep(todo, corpus, out=out, work=tmp_path, progress=False)
    monkeypatch.setattr(training, "loss", lambda *args: pytest.fail("it is trained twice"))
    assert sweep(todo, corpus, out=out, work=tmp_path, progress=False) == 0
    assert results.load(results.path_of(todo[0], out))["curve"][-1]["step"] == 12


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "posenc.lab", *map(str, arguments)]


def test_a_killed_process_loses_nothing(folder, capsys):
    places = ["--corpus", folder / "text", "--out", folder / "out", "--preset", "smoke", "--device", "cpu"]
    train_it = command("train", "--scheme", "alibi", *places, "--work", folder / "killed")
    checkpoint = folder / "killed/smoke/alibi-0.checkpoint"
    process = subprocess.Popen(train_it, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert main(train_it[3:]) == 0  # here, since a process takes seconds to begin
    assert not checkpoint.exists()
    (folder / "out/smoke/alibi-0.json").unlink()
    capsys.readouterr()
    whole = command("train", "--scheme", "alibi", *places, "--work", folder / "whole", "--quiet")
    assert main(whole[3:]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.startswith("alibi-0: ")
    assert same(*(load_file(folder / work / "smoke/alibi-0.safetensors") for work in ("killed", "whole")))


@pytest.mark.pages
def test_two_processes_train_what_one_does(folder, monkeypatch):
    monkeypatch.setattr(training, "BATCHES", BATCHES)  # as in processes of their own
    places = ["--corpus", folder / "text", "--out", folder / "out", "--preset", "smoke", "--device", "cpu", "--quiet"]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    both = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port),
        *command("train", "--scheme", "learned", *places, "--work", folder / "two")[1:],
    ]  # fmt: skip
    subprocess.run(both, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    (folder / "out/smoke/learned-0.json").rename(folder / "two.json")
    assert main(command("train", "--scheme", "learned", *places, "--work", folder / "one")[3:]) == 0
    one, two = (load_file(folder / work / "smoke/learned-0.safetensors") for work in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=2e-4)
    curves = [
        json.loads(path.read_text())["curve"] for path in (folder / "two.json", folder / "out/smoke/learned-0.json")
    ]
    for a, b in zip(*curves, strict=True):
        assert a == pytest.approx(b, rel=2e-3)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"", lambda data: b"no checkpoint" * 99])
def test_a_damaged_checkpoint_is_named_with_the_remedy(damage, corpus, tmp_path):
    run = Run("nope", 0, "smoke")
    train(run, corpus, folder=tmp_path, progress=False)
    path = tmp_path / "nope-0.checkpoint"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"nope-0 is damaged .*remove .*nope-0\.checkpoint"):
        train(run, corpus, folder=tmp_path, progress=False)


@pytest.mark.parametrize(
    "change",
    [
        *[lambda state, key=key: state.pop(key) for key in ("model", "optimizer", "step", "curve", "seconds")],
        lambda state: state.update(model=3),
        lambda state: state["model"].pop("embedding.weight"),
        lambda state: state["model"].update({"embedding.weight": torch.zeros(3, 4)}),
        lambda state: state.update(optimizer={"state": {}, "param_groups": []}),
        lambda state: state.update(step="7"),
        lambda state: state.update(step=-1),
        lambda state: state.update(curve=None),
    ],
)
def test_a_checkpoint_that_lacks_a_part_is_named_with_the_remedy(change, corpus, tmp_path):
    run, path = Run("nope", 0, "smoke"), tmp_path / "nope-0.checkpoint"
    model = run.model()
    optimizer = training._adamw(model, run)
    state = training._restore(path, run, corpus, model, optimizer)
    state |= {"step": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path)
    assert training._restore(path, run, corpus, model, optimizer)["step"] == 3
    change(state)
    torch.save(state, path)
    with pytest.raises(ValueError, match=r"nope-0 is damaged .*remove .*nope-0\.checkpoint"):
        training._restore(path, run, corpus, model, optimizer)


def test_a_checkpoint_of_another_text_or_budget_is_refused(corpus, tmp_path, monkeypatch):
    run = Run("nope", 0, "smoke")
    train(run, corpus, folder=tmp_path, progress=False)
    said = "another configuration or corpus.*remove"
    other = Corpus("other", corpus.train, corpus.held_out, "f" * 16, 2)
    with pytest.raises(ValueError, match=said):
        train(run, other, folder=tmp_path, progress=False)
    longer(monkeypatch, steps=20)
    with pytest.raises(ValueError, match=said):
        train(run, corpus, folder=tmp_path, progress=False)


def test_checkpoints_that_take_long_are_written_less_often(corpus, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(training, "_write", lambda path, state: written.append(state["step"]))
    train(Run("nope", 0, "smoke"), corpus, folder=tmp_path, progress=False)
    assert written == list(range(1, 13))
    written.clear()
    monkeypatch.setattr(training, "QUICK", 0.0)  # every one takes long
    monkeypatch.setattr(training, "SHARE", 1e-9)
    train(Run("nope", 0, "smoke"), corpus, folder=tmp_path, progress=False)
    assert written == [1, 12]  # the last is always kept


def test_a_full_disk_leaves_the_checkpoint_before(corpus, whole, tmp_path, monkeypatch):
    kept, _ = whole("nope")
    run, save, calls = Run("nope", 0, "smoke"), torch.save, []

    def full(state: object, file: object) -> None:
        calls.append(state)
        if len(calls) == 4:
            file.write(b"half")
            raise OSError(28, "No space left on device")
        save(state, file)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match=r"step 4 .*No space left.*free .*space"):
        train(run, corpus, folder=tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["nope-0.checkpoint"]
    assert torch.load(tmp_path / "nope-0.checkpoint", weights_only=True)["step"] == 3
    again, _, _ = train(run, corpus, folder=tmp_path, progress=False)
    assert same(again.state_dict(), kept)


@pytest.mark.parametrize(
    ("variant", "processes", "said"),
    [("nope", 3, r"8 sequences .* 3 processes.*divides 8"), ("transformer_xl_memory", 4, r"2 sequences .* 4")],
)
def test_a_batch_that_cannot_be_shared_is_refused(variant, processes, said, corpus, tmp_path, monkeypatch):
    for name, value in (("is_initialized", True), ("get_rank", 0), ("get_world_size", processes)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    with pytest.raises(ValueError, match=said):
        train(Run(variant, 0, "smoke"), corpus, folder=tmp_path, progress=False)


# Sweeps and results


def test_the_smoke_sweep_trains_and_reports_every_scheme(folder, capsys):
    """On the standard library, as a reader would."""
    places = ["--preset", "smoke", "--out", str(folder)]
    assert (
        main(["sweep", "--experiment", "extrapolation", "--seeds", "1", *places, "--work", str(folder), "--quiet"]) == 0
    )
    runs_ = len(EXPERIMENTS["extrapolation"])
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == f"{runs_} of {runs_} runs have results"
    assert [line.split(":")[0] for line in told[:-1]] == [f"{name}-0" for name in EXPERIMENTS["extrapolation"]]
    assert main(["report", "--experiment", "extrapolation", *places]) == 0
    told = capsys.readouterr().out
    assert "standard library" in told
    cut, slid = told.split("Loss in ")[1:]
    for variant in EXPERIMENTS["extrapolation"]:
        for part in (cut, slid.split("\n\n")[0]):
            (row,) = [line.split()[1:] for line in part.splitlines() if line.split()[:1] == [variant]]
            assert len(row) == 5
            if variant.startswith("learned"):
                assert float(row[0]) < 6
                assert row[1:] == ["–"] * 4
            else:
                assert all(4 < float(cell) < 6 for cell in row)
    why = results.read("extrapolation", "smoke", folder)["learned"][0]["nonoverlapping"][1]["why"]
    assert why.startswith("position 31 is beyond")


def test_a_report_has_means_and_their_spread(corpus, tmp_path):
    todo, out = [Run("copy_nope", 0, "smoke"), Run("copy_nope", 1, "smoke")], tmp_path / "out"
    sweep(todo, corpus, out=out, work=tmp_path, progress=False)
    told = report("generalisation", "smoke", out).splitlines()
    assert "seeds: 2" in told[0]
    assert told[2].startswith("copy: seeds that learn it")
    told = told[told.index("copy: exact answers by length, all seeds") :]
    exact = [
        [entry["exact"] for entry in json.loads(results.path_of(run, out).read_text())["accuracy"]] for run in todo
    ]
    assert told[-1].split()[0] == "copy_nope"
    assert len(told[-2].split()) == len(exact[0]) == 16
    assert told[2].split()[1:] == " ".join(spread(list(pair)) for pair in zip(*exact, strict=True)).split()
    assert spread([1.0, 2.0]) == "1.500 ±0.707"
    assert spread([1.0]) == "1.000"
    assert spread([1.0, None]) == spread([]) == "–"
    sweep([Run("masked_rope", 0, "smoke")], corpus, out=out, work=tmp_path, progress=False)
    assert report("masked", "smoke", out).splitlines()[-1].split()[0] == "masked_rope"


@pytest.mark.parametrize(("variant", "encodings"), [("learned", 0.0), ("learned_decayed", 0.1), ("shaw", 0.0)])
def test_weight_decay_reaches_the_matrices_of_the_model_and_encodings_only_where_it_is_asked_for(variant, encodings):
    run = Run(variant, 0, "smoke")
    model = run.model()
    decay = {
        id(p): group["weight_decay"] for group in training._adamw(model, run).param_groups for p in group["params"]
    }
    for name, parameter in model.named_parameters():
        wanted = encodings if name.startswith("encodings.") else 0.1 if parameter.ndim > 1 else 0.0
        assert decay.pop(id(parameter)) == wanted, name
    assert not decay


def test_a_report_has_each_task_under_its_own_lengths():
    told, kept = report("generalisation", "cpu"), results.read("generalisation", "cpu")
    for task in TASKS:
        title = f"{task}: exact answers by length, all seeds\n"
        heads, *rows = told.split(title)[1].split("\n\n")[0].splitlines()
        found = kept[f"{task}_nope"]
        assert [int(n) for n in heads.split()] == [entry["length"] for entry in found[0]["accuracy"]]
        assert [row.split()[0] for row in rows] == [f"{task}_{scheme}" for scheme in SCHEMES]
        last = spread([result["accuracy"][-1]["exact"] for result in found])
        assert rows[0].endswith(f" {last}")


def test_a_sweep_goes_on_where_results_end(corpus, tmp_path):
    todo, out = runs("distance", "smoke", 1), tmp_path / "out"
    assert sweep(todo, corpus, out=out, work=tmp_path, minutes=0, progress=False) in (3, 4)
    assert sweep(todo, corpus, out=out, work=tmp_path, progress=False) == 0
    paths = sorted((out / "smoke").iterdir())
    assert [path.name for path in paths] == ["alibi-0.json", "distance_aware-0.json", "nope-0.json", "relu-0.json"]
    times = [path.stat().st_mtime_ns for path in paths]
    assert sweep(todo, corpus, out=out, work=tmp_path, progress=False) == 0
    assert [path.stat().st_mtime_ns for path in paths] == times
    found = results.read("distance", "smoke", out)
    assert list(found) == ["nope", "relu", "distance_aware", "alibi"]
    result = found["relu"][0]
    assert result["learned"]["0.w"] == [0.0, 0.0]
    assert result["provenance"]["corpus"] == corpus.digest
    assert result["provenance"]["torch"] == torch.__version__
    assert min(result["provenance"][part] for part in ("training_seconds", "measuring_seconds")) >= 0
    assert result["config"] == todo[1].config
    assert result["curve"][-1]["step"] == 12
    assert sum(path.stat().st_size for path in paths) < 4 * 20_000


def test_the_outlook_follows_from_what_a_step_has_taken(corpus, tmp_path):
    todo = [Run(name, 0, "smoke") for name in ("nope", "rope", "copy_rope", "rope_yarn")]
    assert outlook(todo, tmp_path) == "0 of 4 runs have results"
    for run, seconds in zip(todo[:3], (1200.0, 1800.0, 36000.0), strict=True):
        took = {"training_seconds": seconds - 60, "measuring_seconds": 60.0}
        results.write(run, {}, corpus, "cpu", took, tmp_path)
    more = [*todo[:3], Run("nope", 1, "smoke"), Run("rope_tuned", 0, "smoke")]
    # 12 steps of text and 4 of tuning, at 125 s a step
    assert outlook(more, tmp_path) == "3 of 5 runs have results, and the others may take 33 min of one process"
    more = [*todo[:3], Run("copy_nope", 0, "smoke")]
    assert outlook(more, tmp_path).endswith("may take 10 h 0 min of one process")
    assert outlook(todo[:3], tmp_path) == "3 of 3 runs have results"


def test_the_best_rates_are_kept_and_then_used(corpus, tmp_path, monkeypatch, capsys):
    for rate, held_out in ((5e-4, 2.0), (1e-3, 1.0)):
        found = {"curve": [{"step": 1, "train": 3.0, "held_out": held_out}]}
        results.write(Run("rope", 0, "smoke", rate), found, corpus, "cpu", {}, tmp_path)
    assert main(["tune", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    assert "tuned.json" in capsys.readouterr().out
    monkeypatch.setattr(config, "RESULTS", tmp_path)
    config.tuned.cache_clear()
    try:
        assert [Run(name, 0, "smoke").rate for name in ("rope", "rope_long", "nope")] == [1e-3, 1e-3, 2e-3]
    finally:
        config.tuned.cache_clear()


@pytest.mark.parametrize("path", sorted(results.FOLDER.glob("*/tuned.json")), ids=lambda path: path.parent.name)
def test_rates_in_use_are_those_that_were_best(path):
    assert json.loads(path.read_text()) == rates(results.read("rates", path.parent.name))


def test_a_run_that_another_process_has_is_left_to_it(corpus, tmp_path):
    from filelock import FileLock

    todo = [Run("nope", 0, "smoke"), Run("alibi", 0, "smoke")]
    (tmp_path / "smoke").mkdir()
    with FileLock(tmp_path / "smoke/nope-0.lock"):
        assert sweep(todo, corpus, out=tmp_path / "out", work=tmp_path, progress=False) == 1
    assert [path.name for path in (tmp_path / "out/smoke").iterdir()] == ["alibi-0.json"]


def test_results_that_do_not_fit_together_are_refused(corpus, tmp_path):
    todo, out = [Run("nope", 0, "smoke"), Run("alibi", 0, "smoke")], tmp_path / "out"
    with pytest.raises(ValueError, match=r"distance .*run python -m posenc\.lab sweep --experiment distance"):
        results.read("distance", "smoke", out)
    sweep(todo, corpus, out=out, work=tmp_path, progress=False)
    path = out / "smoke/nope-0.json"
    good = path.read_text()
    other = Corpus("another", corpus.train, corpus.held_out, "f" * 16, 2)
    with pytest.raises(ValueError, match=r"corpus 'lines' .*--out"):
        sweep(todo, other, out=out, work=tmp_path, progress=False)
    path.write_text(good.replace(corpus.digest, "f" * 16))
    with pytest.raises(ValueError, match=r"different corpora.*remove"):
        results.read("distance", "smoke", out)
    path.write_text(good.replace('"steps": 12', '"steps": 13').replace(todo[0].digest, "0" * 16))
    with pytest.raises(ValueError, match=r"nope-0\.json .*another configuration.*remove"):
        results.read("distance", "smoke", out)
    path.write_text(good[:200])
    with pytest.raises(ValueError, match=r"nope-0\.json is damaged.*sweep"):
        results.read("distance", "smoke", out)
    with pytest.raises(ValueError, match=r"'distant'.* extrapolation"):
        results.read("distant", "smoke", out)


def test_results_come_in_the_order_of_their_seeds(corpus, tmp_path):
    for seed in (10, 0, 2):
        results.write(Run("nope", seed, "smoke"), {}, corpus, "cpu", {"training_seconds": 1.0}, tmp_path)
    found = results.read("distance", "smoke", tmp_path)
    assert [result["config"]["seed"] for result in found["nope"]] == [0, 2, 10]


def test_a_file_that_is_no_result_is_named(corpus, tmp_path):
    path = results.write(Run("nope", 0, "smoke"), {}, corpus, "cpu", {}, tmp_path)
    for name in ("nope-x.json", "nope-.json", "nope-²2.json"):
        other = path.with_name(name)
        other.write_text(path.read_text())
        with pytest.raises(ValueError, match=rf"{name} is no result, whose name ends in a seed: move it"):
            results.read("distance", "smoke", tmp_path)
        other.unlink()
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"nope-0\.json is damaged"):
        results.read("distance", "smoke", tmp_path)


def test_a_corpus_without_a_name_is_said_to_have_none(corpus, tmp_path):
    run = Run("nope", 0, "smoke")
    path = results.write(run, {}, corpus, "cpu", {}, tmp_path)
    result = json.loads(path.read_text())
    del result["provenance"]["corpus_name"]
    path.write_text(json.dumps(result))
    found = results.read("distance", "smoke", tmp_path)["nope"][0]["provenance"]
    assert found["corpus_name"] == "without a name" and found["corpus"] == corpus.digest
    other = Corpus("another", corpus.train, corpus.held_out, "f" * 16, 2)
    with pytest.raises(ValueError, match=r"without a name.*another"):
        sweep([run], other, out=tmp_path, work=tmp_path, progress=False)


def test_code_that_was_changed_marks_the_commit_and_results_do_not(tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    tasks, result, other = (
        tmp_path / name for name in ("posenc/lab/tasks.py", "evidence/posenc_evidence/results/a.json", "notes")
    )
    monkeypatch.setattr(results, "__file__", str(tasks))
    tasks.parent.mkdir(parents=True)
    result.parent.mkdir(parents=True)
    assert results.commit() == ""
    for path in (tasks, result, other):
        path.write_text("1\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    clean = results.commit()
    assert re.fullmatch("[0-9a-f]{12}", clean)
    for path in (result, other):
        path.write_text("2\n")
    assert results.commit() == clean
    tasks.write_text("2\n")
    assert results.commit() == clean + "+"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--scheme", "ropes"], "'ropes'.* nope, "),
        (["evaluate", "--scheme", "rope", "--preset", "smoke", "--work", "{}"], "rope-0 .*train it"),
        (["sweep", "--experiment", "shaw", "--corpus", "{}/nowhere"], "nowhere"),
        (["sweep", "--experiment", "shaw", "--seeds", "0"], "seeds is 0"),
        (["report", "--experiment", "shaw", "--preset", "smoke", "--out", "{}"], "results of shaw"),
    ],
)
def test_the_command_line_names_the_remedy(arguments, said, tmp_path, capsys):
    assert main([argument.format(tmp_path) for argument in arguments]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_an_unknown_preset_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        main(["sweep", "--experiment", "shaw", "--preset", "huge"])
    assert "invalid choice: 'huge'" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"'huge'.* smoke, cpu, epoch, gpu"):
        Run("rope", 0, "huge")


def test_tasks_have_a_run_for_every_scheme():
    assert {Run(name, 0).settings.objective for name in EXPERIMENTS["generalisation"]} == set(TASKS)


def have_results() -> list[tuple[str, str]]:
    """The presets and experiments that have been run."""
    found = []
    for preset in ("cpu", "epoch", "gpu"):
        stems = {path.stem.rpartition("-")[0] for path in (results.FOLDER / preset).glob("*-*.json")}
        found += [(preset, each) for each in EXPERIMENTS if stems & {run.stem for run in runs(each, preset, seeds=1)}]
    return found


@pytest.mark.parametrize(("preset", "experiment"), have_results())
def test_what_is_kept_fits_the_present_configuration_and_says_where_it_comes_from(experiment, preset):
    todo = {run.stem: run for run in runs(experiment, preset, seeds=1)}
    for variant, of in results.read(experiment, preset).items():
        seeds = [result["config"]["seed"] for result in of]
        assert seeds == list(range(len(seeds))), variant
        for result in of:
            about = result["provenance"]
            assert re.fullmatch("[0-9a-f]{12}", about["commit"])  # nothing had been changed since
            assert about["device"]
            assert about["date"]
            path = results.path_of(dataclasses.replace(todo[variant], seed=result["config"]["seed"]))
            assert path.stat().st_size < 48_000
            assert "/" not in about.get("corpus_name", "")
            assert json.dumps(result).count("NaN") == 0


# Weights that pages show


def test_weights_that_are_kept_give_the_model_back(tmp_path, folder, capsys):
    work, out, kept = (tmp_path / name for name in ("work", "out", "kept"))
    what = ["--scheme", "copy_t5", "--preset", "smoke", "--work", str(work)]
    with pytest.raises(ValueError, match="copy_t5-0"):
        trained("copy_t5", preset="smoke", folder=kept)
    assert main(["keep", *what, "--out", str(kept)]) == 2
    assert "train it first" in capsys.readouterr().err
    assert main(["train", *what, "--out", str(out), "--corpus", str(folder / "text"), "--quiet"]) == 0
    assert main(["keep", *what, "--out", str(kept)]) == 0
    assert [path.name for path in (kept / "smoke").iterdir()] == ["copy_t5-0.safetensors"]
    model, run = trained("copy_t5", preset="smoke", folder=kept), Run("copy_t5", 0, "smoke")
    tokens = torch.arange(10)[None]
    assert not model.training and model.embedding.weight.dtype == torch.float32
    torch.testing.assert_close(model(tokens), training.restored(run, work / "smoke")(tokens), atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("path", sorted(weights.FOLDER.glob("*/*.safetensors")), ids=lambda path: path.stem)
def test_weights_of_the_book_are_small_and_do_what_their_results_say(path):
    assert path.stat().st_size <= 1_500_000
    variant, _, seed = path.stem.rpartition("-")
    run = Run(variant, int(seed), path.parent.name)
    result = results.load(results.path_of(run))
    model = trained(variant, int(seed), path.parent.name)
    if "accuracy" not in result:  # of text: two held-out texts, in windows of L and of 2 L
        longest = result["nonoverlapping"][-1]["length"]
        texts = lab_corpus.regions(lab_corpus.load(None).held_out, longest, 3 * longest // 4, result["windows"])[:2]
        for entry in result["nonoverlapping"][:2]:
            if entry["loss"] is not None:
                found = cut_losses(model, texts[:, 3 * longest // 4 :], entry["length"]).mean(1)
                assert found.tolist() == pytest.approx(entry["texts"][:2], abs=0.005)
        return
    for entry in (result["accuracy"][3], result["accuracy"][7]):  # at the longest that was trained, and twice that
        if entry["exact"] is not None:
            generator = torch.Generator().manual_seed(entry["length"])
            found = lab_accuracy(model, VARIANTS[variant].objective, entry["length"], entry["count"], generator)
            assert found["exact"] == pytest.approx(entry["exact"], abs=0.02)
            assert found["tokens"] == pytest.approx(entry["tokens"], abs=0.01)
