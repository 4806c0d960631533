"""The position table of a published model, which a chapter opens."""

from __future__ import annotations

import pytest
import torch

from posenc.lab import evidence
from posenc.lab.weights import published


def test_the_table_is_the_models() -> None:
    """Rows that stick out of it are where texts begin and where they were cut: 128 and 512 tokens."""
    table = published()
    assert table.shape == (512, 384) and table.dtype == torch.float32
    length = table.norm(dim=1)
    assert length.topk(4).indices.sort().values.tolist() == [0, 127, 510, 511]
    assert length[0] == pytest.approx(2.3618, rel=1e-3) and length.median() == pytest.approx(0.4784, rel=1e-3)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="all-MiniLM-L6-v2"):
        published("gpt-17")


def test_without_the_evidence_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "FOUND", None)
    with pytest.raises(ValueError, match="posenc-evidence"):
        published()
