"""posenc.lab.kernels: every scheme is timed in every kernel, and what cannot be timed says why."""

import pytest
import torch

from posenc.lab import kernels as module
from posenc.lab.__main__ import main
from posenc.lab.kernels import SCHEMES, keep_kernels, kernels, read_kernels, timed
from tests.conftest import needs_cuda

SMALL = {"lengths": (12,), "dims": (8,), "width": 16, "tokens": 32, "batches": (1, 2), "seconds": 1e-4}


def test_each_scheme_is_timed_in_each_kernel():
    found = kernels(device="cpu", **SMALL, progress=False)
    rows = {(row["scheme"], row["kernel"], row["length"]): row for row in found["rows"]}
    assert list(rows) == [(scheme, kernel, 12) for scheme in SCHEMES for kernel in ("dense", "sdpa", "flex")]
    assert {row["batch"] for row in rows.values()} == {2}
    for scheme in SCHEMES:
        dense = rows[scheme, "dense", 12]
        assert min(dense[what] for what in ("forward", "training", "decoding_1", "decoding_2")) > 0
        assert "why" not in dense
    refused = rows["distance_aware", "sdpa", 12]
    assert refused["forward"] is None and "rescale" in refused["why"]
    flex = rows["alibi", "flex", 12]  # no gradients on a CPU
    assert flex["forward"] > 0 and flex["training"] is None and "no gradients" in flex["why"]


def test_times_are_kept_and_shown(tmp_path, monkeypatch, capsys):
    with pytest.raises(ValueError, match=r"python -m posenc\.lab kernels"):
        read_kernels("cpu", tmp_path)
    found = kernels(device="cpu", **SMALL, progress=False)
    keep_kernels(found, "cpu", tmp_path)
    told = timed(read_kernels("cpu", tmp_path))
    assert told.columns == ["", "d", "length", "forward", "training", "decoding, texts: 1", "decoding, texts: 2"]
    assert told.rows[0][:3] == ["nope, dense", "8", "12"]
    assert main(["report", "--experiment", "kernels", "--out", str(tmp_path)]) == 0
    assert "distance_aware, sdpa" in capsys.readouterr().out
    asked = []
    monkeypatch.setattr(module, "kernels", lambda **options: asked.append(options) or found)
    what = [
        "kernels",
        "--device",
        "cpu",
        "--lengths",
        "12",
        "--seconds",
        "0.5",
        "--out",
        str(tmp_path / "new"),
        "--quiet",
    ]
    assert main(what) == 0
    assert asked == [{"device": "cpu", "lengths": (12,), "dims": (64, 128), "seconds": 0.5, "progress": False}]
    assert (tmp_path / "new/cpu/kernels.json").exists()


def test_too_little_memory_is_reported(monkeypatch):
    def full(*arguments, **options):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(module, "attention", full)
    found = kernels(device="cpu", **SMALL, progress=False)
    assert {row["why"] for row in found["rows"]} == {"the device has too little memory"}


@pytest.mark.cuda
@needs_cuda
def test_a_gpu_is_timed_in_bfloat16():
    found = kernels(device="cuda", **SMALL | {"lengths": (128,), "dims": (64,), "width": 128}, progress=False)
    assert found["dtype"] == "bfloat16"
    fused = {(row["scheme"], row["kernel"]): row for row in found["rows"]}["alibi", "flex"]
    assert fused["forward"] > 0 and fused["training"] > 0
