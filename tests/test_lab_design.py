"""What a result says of its start: whatever begins otherwise than the present code does is refused by name."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

from posenc import Transformer
from posenc.lab import design, results
from posenc.lab.budgets import PRESETS
from posenc.lab.config import Run
from posenc.lab.corpus import Corpus
from posenc.lab.design import DESIGN, DESIGNS, start, unlike
from posenc.lab.results import FOLDER, foreign, load, read
from posenc.lab.sweeps import sweep

pytestmark = pytest.mark.train
TEXT = torch.arange(3000).remainder(97).to(torch.uint8)
CORPUS = Corpus("lines", TEXT, TEXT, digest="0" * 16, files=2)
OTHERS = {"plain": "epoch"}  # folders of runs that another machine repeated, with the preset that they repeat


def run_of(path: Path) -> Run:
    stem, _, seed = path.stem.rpartition("-")
    variant, _, rate = stem.partition("@")
    folder = path.parent.name
    return Run(variant, int(seed), OTHERS.get(folder, folder), float(rate) if rate else None)


@pytest.fixture
def forget():
    """Starts are computed anew, before a change of the code and after it."""
    design._start.cache_clear()
    yield
    design._start.cache_clear()


@pytest.mark.parametrize("folder", sorted({path.parent.name for path in FOLDER.glob("*/*-*.json")}))
def test_the_present_code_begins_as_every_result_that_ships_did(folder):
    told = {path.name: foreign(load(path), run_of(path)) for path in (FOLDER / folder).glob("*-*.json")}
    assert not {name: other for name, other in told.items() if other}


@pytest.mark.parametrize(
    "name", ["nope", "learned", "transformer_xl_memory", "masked_rope", "copy_t5", "addition_rope_coupled", "rope_use"]
)
def test_a_start_is_a_matter_of_the_run_alone(name, forget):
    run = Run(name, 3, "epoch")
    torch.manual_seed(0)
    before = start(run)
    design._start.cache_clear()
    torch.manual_seed(1)
    assert start(run) == before and not unlike(json.loads(json.dumps(before)), run)
    assert "weights of" in unlike(before, Run(name, 4, "epoch"))
    assert start(dataclasses.replace(run, tried=0.5)) == before


def test_runs_with_other_first_batches_are_told_apart():
    batches = {start(Run(name, 0, "epoch"))["batch"] for name in ("nope", "nope_use", "masked_nope", "copy_nope")}
    assert len(batches) == 4
    differ = unlike(start(Run("nope", 0, "epoch")), Run("nope_use", 0, "epoch"))
    assert differ == "the first batch and what is to be predicted"


def test_a_start_follows_its_preset(monkeypatch):
    run = Run("nope", 0, "smoke")
    before = start(run)["batch"]
    text = dataclasses.replace(PRESETS["smoke"].text, batch=4)
    monkeypatch.setitem(PRESETS, "smoke", dataclasses.replace(PRESETS["smoke"], text=text))
    assert start(run)["batch"] != before
    monkeypatch.undo()
    assert start(run)["batch"] == before


def test_another_initialisation_is_refused(tmp_path, monkeypatch, forget):
    run = Run("nope", 0, "smoke")
    results.write(run, {}, CORPUS, "cpu", {}, tmp_path)
    assert list(read("distance", "smoke", tmp_path)) == ["nope"]
    begun = Transformer.__init__

    def small(self, *sizes, **options):
        begun(self, *sizes, **options)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)

    monkeypatch.setattr(Transformer, "__init__", small)
    design._start.cache_clear()
    with pytest.raises(ValueError, match=r"nope-0\.json began otherwise .* weights of embedding differ: remove"):
        read("distance", "smoke", tmp_path)
    with pytest.raises(ValueError, match=r"nope-0\.json began otherwise .*--out"):
        sweep([run], CORPUS, out=tmp_path, work=tmp_path, progress=False)


def test_another_order_of_the_text_is_refused(tmp_path, monkeypatch, forget):
    results.write(Run("copy_nope", 0, "smoke"), {}, CORPUS, "cpu", {}, tmp_path)
    monkeypatch.setattr(design, "of_step", lambda seed, step: torch.Generator().manual_seed(seed))
    design._start.cache_clear()
    with pytest.raises(ValueError, match=r"copy_nope-0\.json began otherwise .*first batch"):
        read("generalisation", "smoke", tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"design": "first"}, f"design 'first'.*{DESIGNS['first']}.*{DESIGN}.*{re.escape(DESIGNS[DESIGN])}"),
        ({"design": "fourth"}, "design 'fourth', and the present"),
        ({"design": None}, "does not name its design"),
        ({"start": None}, "fingerprint, which is damaged"),
        ({"start": {"weights": [], "batch": "", "targets": 0}}, "fingerprint, which is damaged"),
        ({"digest": "0" * 16}, "another configuration"),
    ],
)
def test_a_result_of_another_design_is_refused_by_name(tmp_path, change, said):
    run = Run("nope", 0, "smoke")
    path = results.write(run, {}, CORPUS, "cpu", {}, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=rf"nope-0\.json .*{said}.*: remove it, and run the sweep again"):
        read("distance", "smoke", tmp_path)
    with pytest.raises(ValueError, match=rf"nope-0\.json .*{said}.*: remove it, or use another folder"):
        sweep([run], CORPUS, out=tmp_path, work=tmp_path, progress=False)


def test_every_design_is_described_and_presets_have_starts():
    assert DESIGN in DESIGNS
    assert all(start(Run("copy_alibi", 0, preset)) for preset in PRESETS if preset != "gpu")
