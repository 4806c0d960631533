"""posenc.lab.context: a model that looks back as far as it needs gains from what is planted, and no other does."""

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from posenc import Transformer
from posenc.lab.context import BEYOND, INSIDE, hidden, recalled
from posenc.lab.evaluation import nonoverlapping
from posenc.lab.planted import KINDS

L = 64


class Matcher(nn.Module):
    """Predicts what followed the last three bytes where they stood before, up to `reach` bytes back."""

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach, self.sure = reach, nn.Parameter(torch.tensor(20.0))
        self.encodings = [type("", (), {"raw_keys": True})()]  # all of a text in one call

    def forward(self, tokens, pos=None, memory=None):
        logits = torch.zeros(*tokens.shape, 256)
        for row, text in enumerate(tokens.tolist()):
            for at in range(3, len(text)):
                for back in range(1, min(self.reach, at - 3) + 1):
                    if text[at - back - 2 : at - back + 1] == text[at - 2 : at + 1]:
                        logits[row, at] = self.sure * one_hot(torch.tensor(text[at - back + 1]), 256)
                        break
        return logits


def text():
    """Bytes of which no three in a row occur twice, or hardly."""
    return torch.randint(0, 256, (5000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_who_sees_the_first_string_gains_and_nobody_else():
    found = recalled(Matcher(reach=100), text(), L, windows=4)
    assert [entry["kind"] for entry in found] == [kind for kind in KINDS for _ in (*INSIDE, *BEYOND)]
    for entry in found:
        gains, chances = torch.tensor(entry["gains"]), torch.tensor(entry["chances"])
        assert len(gains) == len(chances) == 4
        if entry["distance"] < 100:  # a matcher is wrong where the other key stands, so it gains more than ln 256
            assert (gains > 5).all() and (chances > 0.99).all()
        else:
            assert (gains.abs() < 1e-6).all() and (chances < 1e-9).all()
    assert {entry["distance"] for entry in found} == {12, 32, 40, 64, 128, 256, 1024}


def test_a_window_too_short_for_two_strings_is_refused():
    with pytest.raises(ValueError, match=r"trained is 32.* 36 or more"):
        recalled(Matcher(reach=100), text(), 32)


def test_a_length_without_positions_is_reported():
    model = Transformer(256, layers=1, model_dim=16, heads=2, encoding="learned", length=L)
    found = recalled(model, text(), L, windows=2)
    assert [entry["gains"] is None for entry in found] == 2 * [False, False, False, True, True, True, True]
    assert all("table" in entry["why"] for entry in found if entry["gains"] is None)


def test_far_keys_are_hidden_for_as_long_as_it_takes():
    model = Transformer(256, layers=1, model_dim=16, heads=2, encoding="rope")
    nn.init.normal_(model.embedding.weight)
    spans = text()[: 2 * (4 * L + 1)].view(2, -1).long()
    found = hidden(model, spans, L, [L, 4 * L])
    assert model.config.window is None
    seen = [sum(entry["texts"]) / 2 for entry in found]
    assert abs(seen[0] - nonoverlapping(model, spans, L)) < 1e-5
    assert abs(seen[1] - nonoverlapping(model, spans, 4 * L)) > 1e-3
    windowed = Transformer(256, layers=1, model_dim=16, heads=2, encoding="rope", window=L)
    windowed.load_state_dict(model.state_dict())
    assert abs(seen[1] - nonoverlapping(windowed, spans, 4 * L)) < 1e-5
