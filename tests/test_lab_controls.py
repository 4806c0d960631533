"""posenc.lab.controls: each differs from its scheme in the one thing that its name says."""

import dataclasses
import math

import pytest
import torch

from posenc import ALiBi, DistanceAware, NoPE, RoPE, attention_scores
from posenc.lab import config, results, tasks
from posenc.lab.budgets import PRESETS
from posenc.lab.config import EXPERIMENTS, Run, runs
from posenc.lab.controls import Added, Forgetting, Repositioned, Unrectified, partial
from posenc.lab.corpus import Corpus
from posenc.lab.sweeps import train_and_measure
from posenc.lab.variants import VARIANTS
from posenc.schemes.distance_aware import distance_weight
from posenc.schemes.t5 import T5Bias

POS = torch.arange(7)


@pytest.fixture
def vectors():
    return torch.randn(2, 1, 4, 7, 8, dtype=torch.float64)


def logits(encoding, q, k):
    return attention_scores(q, k, encoding.to(torch.float64), POS, POS)[0]


@pytest.mark.parametrize("control", [Unrectified, Added])
def test_distance_weighs_or_adds(control, vectors):
    encoding = control(4).to(torch.float64)
    torch.nn.init.normal_(encoding.w)
    torch.nn.init.normal_(encoding.v)
    plain, found = logits(NoPE(), *vectors), logits(encoding, *vectors)
    for h in range(4):
        for i in range(7):
            for j in range(i + 1):
                weight = distance_weight(torch.tensor(float(i - j)), encoding.w[h], encoding.v[h])
                score = plain[h, i, j]
                wanted = score * weight if control is Unrectified else score.clamp(min=0) + encoding.a[h] * weight
                assert torch.isclose(found[h, i, j], wanted)


def test_gates_multiply_weights(vectors):
    encoding = Forgetting(4, 8).to(torch.float64)
    torch.nn.init.normal_(encoding.gate)
    q, k = vectors
    gates = ((k[0] * encoding.gate[:, None]).sum(-1) + encoding.shift[:, None]).sigmoid()
    plain, found = logits(NoPE(), q, k), logits(encoding, q, k)
    for h in range(4):
        for i in range(7):
            for j in range(i + 1):
                forgotten = math.prod(gates[h, j + 1 : i + 1].tolist())
                assert torch.isclose(found[h, i, j], plain[h, i, j] + math.log(forgotten))


def test_equal_gates_are_alibi(vectors):
    forgetting = Forgetting(4, 8).to(torch.float64)
    slopes = -forgetting.shift.sigmoid().log().detach()
    torch.testing.assert_close(logits(forgetting, *vectors), logits(ALiBi(4, slopes=slopes), *vectors))


def test_a_net_says_where_a_token_stands(vectors):
    encoding, (q, k) = Repositioned(4, 8, 3).to(torch.float64), vectors
    found, freq = logits(encoding, q, k), RoPE(8).freq.double()
    for h in range(4):
        gate, content = k[0, h] @ encoding.gate[h], k[0, h] @ encoding.content[h]
        place = (gate * gate.sigmoid() * content) @ encoding.place[h, :, 0]  # the token's, a real number
        for i in range(7):
            for j in range(i + 1):
                angle = (place[i] - place[j]) * freq
                a, b = (torch.view_as_complex(x[0, h, n].view(4, 2)) for x, n in ((q, i), (k, j)))
                wanted = (a * b.conj() * torch.polar(torch.ones(4, dtype=torch.float64), angle)).real.sum() / 8**0.5
                assert torch.isclose(found[h, i, j], wanted)


def test_places_that_count_are_rope(vectors, monkeypatch):
    monkeypatch.setattr(Repositioned, "places", lambda self, k: POS.to(k.dtype)[:, None].expand(*k.shape[:3], 1))
    rope, (q, k) = RoPE(8).to(torch.float64), vectors
    found = logits(Repositioned(4, 8, 3), q, k)
    torch.testing.assert_close(found, logits(NoPE(), rope.query(q, POS), rope.key(k, POS)), atol=1e-6, rtol=1e-6)


def test_a_net_keeps_its_places_in_a_cache(vectors):
    """The query finds its own key wherever that is stored, and places do not move with the sequence."""
    encoding, (q, k) = Repositioned(4, 8, 3).to(torch.float64), vectors
    order = torch.randperm(7)
    found = encoding.score_bias(q[..., -1:, :], k[..., order, :], POS[-1:][None] + 90, POS[order][None] + 90)
    torch.testing.assert_close(found, encoding.score_bias(q, k, POS[None], POS[None])[..., -1:, order])


def test_the_slow_planes_of_p_rope_rest():
    freq = partial(16, 0.75).freq
    assert torch.equal(freq[:6], RoPE(16).freq[:6]) and (freq[6:] == 0).all()


def kinds(variant, preset="epoch"):
    return [type(encoding) for encoding in Run(variant, 0, preset).model().encodings]


def test_variants_are_what_they_are_called():
    assert kinds("rope_nope") == kinds("rope_nope") == [RoPE, NoPE, RoPE]
    assert kinds("rope_places") == kinds("rope_places") == [RoPE, Repositioned, Repositioned]
    assert kinds("unrectified") == [Unrectified] * 3 and kinds("distance_aware") == [DistanceAware] * 3
    model = Run("t5_reach", 0, "epoch").model()
    assert isinstance(model.encoding(), T5Bias) and model.encoding().max_distance == 32
    assert Run("t5_256", 0, "epoch").model().encoding().max_distance == 64
    assert Run("rope_base_500", 0, "epoch").model().encoding().base == 500
    assert Run("learned_large", 0, "epoch").model().encoding().table.std().item() == pytest.approx(1, rel=0.05)
    assert Run("shaw_heads", 0, "epoch").model().encoding().key_table.shape == (4, 33, 24)
    assert Run("alibi_learned", 0, "epoch").model().encoding().slope.requires_grad


def test_a_longer_window_has_fewer_sequences_and_a_longer_training_more_steps():
    run = Run("rope", 0, "epoch")
    assert [Run(f"rope_{n}", 0, "epoch").batch * n for n in (64, 256)] == [run.batch * 128] * 2
    assert Run("rope_long", 0, "epoch").steps == 2 * run.steps


def test_coupled_positions_reach_training_and_measuring(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(tasks, "coupled", lambda length: asked.append(length) or torch.arange(3 * length + 6))
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(97, 123, (500,), dtype=torch.uint8, generator=generator)
    corpus = Corpus("letters", text, text, digest="0" * 16, files=2)
    for variant in ("addition_rope", "addition_rope_coupled"):
        train_and_measure(Run(variant, 0, "smoke"), corpus, out=tmp_path, work=tmp_path, progress=False)
        assert bool(asked) == variant.endswith("coupled")
    assert max(asked) == 16 and set(asked) >= {1, 2, 3, 4}


def test_rates_are_tried_in_short_runs():
    tried = runs("rates", "epoch")
    assert len(tried) == 5 * len(EXPERIMENTS["rates"]) == len({run.name for run in tried})
    assert {run.rate for run in tried} == {1e-3, 2e-3, 4e-3, 8e-3, 16e-3}
    assert {run.rate for run in runs("rates", "gpu")} == {2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3}
    assert {run.steps for run in tried} == {500}
    assert len({run.digest for run in tried}) == len(tried)


def test_every_variant_of_an_experiment_exists():
    assert set().union(*EXPERIMENTS.values()) <= set(VARIANTS)


def test_a_variant_has_its_own_rate_or_that_of_its_scheme(monkeypatch):
    monkeypatch.setattr(config, "tuned", {"epoch": {"nope": 1e-3, "forgetting": 8e-3}}.get)
    assert [Run(name, 0, "epoch").rate for name in ("nope", "forgetting", "nope_long", "rope")] == [
        1e-3,
        8e-3,
        1e-3,
        4e-3,
    ]
    assert Run("copy_nope", 0, "epoch").rate == 3e-3
    assert Run("nope_use", 0, "epoch").rate == Run("nope_use", 0, "epoch").config["rate"] == 4e-3


@pytest.mark.parametrize("variant", ["rope", "copy_t5", "addition_alibi"])
def test_settings_that_came_later_leave_earlier_results_valid(variant):
    run = Run(variant, 0, "cpu")
    assert results.load(results.path_of(run))["digest"] == run.digest
    assert not {"planted", "stretch", "epochs", "trial", "fused", "decayed", "until", "coupled", "periodic"} & set(
        run.config
    )


@pytest.mark.parametrize(
    "variant", ["rope", "transformer_xl_memory", "forgetting", "distance_aware", "alibi_64", "rope_use"]
)
def test_a_planted_run_is_measured_for_what_it_uses(variant, tmp_path, monkeypatch):
    text = dataclasses.replace(
        PRESETS["smoke"].text, length=72, planted=0.5, fused=True, steps=3, trial=2, longest=2, windows=2
    )
    monkeypatch.setitem(PRESETS, "smoke", dataclasses.replace(PRESETS["smoke"], text=text))
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randint(97, 123, (size,), dtype=torch.uint8, generator=generator) for size in (4000, 4000)]
    corpus, run = Corpus("letters", *parts, digest="0" * 16, files=2), Run(variant, 0, "smoke")
    train_and_measure(run, corpus, out=tmp_path, work=tmp_path, progress=False)
    found = results.load(results.path_of(run, tmp_path))
    lengths = [run.window, 2 * run.window]
    assert [entry["length"] for entry in found["nonoverlapping"]] == lengths
    assert [len(entry["texts"]) for entry in found["nonoverlapping"]] == [2, 2]
    assert all(len(entry["gains"]) == 2 for entry in found["recalled"])
    if variant != "transformer_xl_memory":
        first, last = found["hidden"]
        assert first["texts"] == pytest.approx(found["nonoverlapping"][0]["texts"], abs=1e-4)
        assert [len(entry["texts"]) for entry in (first, last)] == [2, 2]
    tried = Run(variant, 0, "smoke", 1e-3)
    train_and_measure(tried, corpus, out=tmp_path, work=tmp_path, progress=False)
    assert "nonoverlapping" not in results.load(results.path_of(tried, tmp_path))
