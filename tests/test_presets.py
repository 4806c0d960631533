"""posenc.schemes.presets: published models by name, with the numbers that were read at their sources."""

import copy
import hashlib
import math
import pickle

import pytest
import torch
from torch import Tensor

from posenc import RoPE, frequencies, rotate
from posenc.schemes.presets import PHI_3_5_LONG, PHI_3_5_SHORT, PHI_4_LONG, PRESETS, Preset, preset

every = pytest.mark.parametrize("name", PRESETS)

# head_dim, base, rotary_dim, layout: of every preset, once more, as a table
TABLE = {
    "gpt-j-6b": (256, 1e4, 64, "interleaved"),
    "gpt-neox-20b": (96, 1e4, 24, "half"),
    "pythia-6.9b": (128, 1e4, 32, "half"),
    "llama-2-7b": (128, 1e4, 128, "half"),
    "codellama-7b": (128, 1e6, 128, "half"),
    "yarn-llama-2-7b-64k": (128, 1e4, 128, "half"),
    "yarn-llama-2-7b-128k": (128, 1e4, 128, "half"),
    "llama-3-8b": (128, 5e5, 128, "half"),
    "llama-3.1-8b": (128, 5e5, 128, "half"),
    "llama-3.1-70b": (128, 5e5, 128, "half"),
    "llama-3.1-405b": (128, 5e5, 128, "half"),
    "llama-3.2-1b": (64, 5e5, 64, "half"),
    "llama-3.2-3b": (128, 5e5, 128, "half"),
    "mistral-7b-v0.1": (128, 1e4, 128, "half"),
    "mixtral-8x7b-v0.1": (128, 1e6, 128, "half"),
    "qwen2.5-7b": (128, 1e6, 128, "half"),
    "qwen3-8b": (128, 1e6, 128, "half"),
    "gemma-2-9b": (256, 1e4, 256, "half"),
    "gemma-2-27b": (128, 1e4, 128, "half"),
    "gemma-3-1b-local": (256, 1e4, 256, "half"),
    "gemma-3-1b-global": (256, 1e6, 256, "half"),
    "gemma-3-27b-local": (128, 1e4, 128, "half"),
    "gemma-3-27b-global": (128, 1e6, 128, "half"),
    "gemma-4-local": (256, 1e4, 256, "half"),
    "gemma-4-global": (512, 1e6, 512, "half"),
    "phi-2": (80, 1e4, 32, "half"),
    "phi-3.5-mini": (96, 1e4, 96, "half"),
    "phi-4-mini": (128, 1e4, 96, "half"),
    "deepseek-v3": (64, 1e4, 64, "interleaved"),
    "gpt-oss-20b": (64, 1.5e5, 64, "half"),
}
FACTORS = {
    "yarn-llama-2-7b-64k": 1 + 0.1 * math.log(16),
    "yarn-llama-2-7b-128k": 1 + 0.1 * math.log(32),
    "gpt-oss-20b": 1 + 0.1 * math.log(32),
    "phi-3.5-mini": math.sqrt(1 + math.log(32) / math.log(4096)),
    "phi-4-mini": math.sqrt(1 + math.log(32) / math.log(4096)),
}


def at(rope: RoPE, length: int) -> Tensor:
    return rope.freq(torch.tensor(length)) if callable(rope.freq) else rope.freq


def ratio(name: str, length: int = 1) -> Tensor:
    """By how much each frequency differs from that of the base."""
    _, base, rotary_dim, _ = TABLE[name]
    return at(preset(name), length).double() / frequencies(rotary_dim, base, dtype=torch.float64)


def test_the_table_has_them_all():
    assert set(TABLE) == set(PRESETS)


@every
def test_a_preset_is_a_rope_with_the_numbers_of_its_model(name):
    rope = preset(name)
    head_dim, base, rotary_dim, layout = TABLE[name]
    assert type(rope) is RoPE
    assert (rope.head_dim, rope.rotary_dim, rope.layout) == (head_dim, rotary_dim, layout)
    assert math.isclose(rope.attention_factor, FACTORS.get(name, 1.0))
    assert rope.raw_keys == name.startswith(("phi-3", "phi-4"))
    freq = at(rope, 1)
    assert freq.shape == (rotary_dim // 2,) and freq.dtype == torch.float32
    assert freq[0] == (1 / 8 if name == "gemma-3-27b-global" else 1) and (freq.diff() <= 0).all()
    if PRESETS[name].rope_scaling is None:
        assert torch.equal(rope.freq, frequencies(rotary_dim, base)) and rope.base == base
    else:
        assert rope.base is None
    x, pos = torch.randn(1, 2, 5, head_dim), torch.arange(5)
    turned = rotate(x[..., :rotary_dim], pos, freq, layout=layout, scale=rope.attention_factor)
    torch.testing.assert_close(rope.query(x, pos), torch.cat((turned, x[..., rotary_dim:]), -1))


@every
def test_a_preset_says_where_it_was_read(name):
    assert "/" in PRESETS[name].source or "transformers, " in PRESETS[name].source
    assert name == name.lower()


def test_what_a_preset_is_unless_it_says_otherwise():
    plain = Preset("here")
    assert (plain.head_dim, plain.base, plain.rotary_dim, plain.layout) == (128, 10_000.0, None, "half")
    assert (plain.rope_scaling, plain.note) == (None, "")


@pytest.mark.parametrize(
    ("name", "stay", "divided", "by"),
    [
        ("llama-3.1-8b", 29, 29, 8),
        ("llama-3.1-70b", 29, 29, 8),
        ("llama-3.1-405b", 29, 29, 8),
        ("llama-3.2-1b", 15, 14, 32),
        ("llama-3.2-3b", 29, 29, 32),
        ("yarn-llama-2-7b-64k", 21, 18, 16),
        ("yarn-llama-2-7b-128k", 21, 18, 32),
        ("deepseek-v3", 11, 9, 40),
        ("gemma-3-27b-global", 0, 64, 8),
        ("gpt-oss-20b", 9, 14, 32),
    ],
)
def test_how_many_pairs_stay_and_how_many_are_divided(name, stay, divided, by):
    found = ratio(name)
    assert int(((found - 1).abs() < 1e-6).sum()) == stay
    assert int(((found * by - 1).abs() < 1e-6).sum()) == divided


def test_gpt_oss_does_not_round_the_ends_of_its_ramp():
    """They lie at 8.09 and 17.40, where rounding would make 8 and 18."""
    found = ratio("gpt-oss-20b")
    shares = (1 - found) / (1 - 1 / 32)
    assert math.isclose(float(shares[9]), (9 - 8.0928) / (17.3980 - 8.0928), rel_tol=1e-3)


def test_gemma_4_stops_three_quarters_of_its_pairs():
    found = ratio("gemma-4-global")
    assert found.count_nonzero() == 64 and len(found) == 256
    torch.testing.assert_close(found[:64], torch.ones(64, dtype=torch.float64), rtol=1e-6, atol=0)


def test_the_divisors_of_phi_change_beyond_4096():
    for name, short, long in (("phi-3.5-mini", PHI_3_5_SHORT, PHI_3_5_LONG), ("phi-4-mini", (1.0,) * 48, PHI_4_LONG)):
        for length, divisors in ((1, short), (4096, short), (4097, long)):
            expected = 1 / torch.tensor(divisors, dtype=torch.float64)
            torch.testing.assert_close(ratio(name, length), expected, rtol=1e-6, atol=0)
        assert len(short) == len(long) == 48
        assert sorted(short) == list(short) and sorted(long) == list(long)


@pytest.mark.parametrize(
    ("divisors", "digest"),
    [(PHI_3_5_SHORT, "6992f694e4d11a71"), (PHI_3_5_LONG, "b04fb6156a53fd38"), (PHI_4_LONG, "6678ff9e2dcba283")],
    ids=["3.5-short", "3.5-long", "4-long"],
)
def test_each_divisor_of_phi_is_the_one_that_was_read(divisors, digest):
    """The sum of a table hardly tells two digits that were swapped; a digest of all of it does."""
    assert hashlib.sha256(" ".join(map(repr, divisors)).encode()).hexdigest().startswith(digest)


def test_what_only_attention_can_do_is_said():
    assert "attend(scale=yarn_attention_factor(40) ** 2 / 192**0.5)" in PRESETS["deepseek-v3"].note
    assert PRESETS["gemma-3-1b-local"].note == PRESETS["gemma-4-local"].note == "in layers with a sliding window"
    assert PRESETS["gemma-3-1b-global"].note == PRESETS["gemma-4-global"].note == "in layers without a window"


@every
def test_a_preset_survives_copying_pickling_and_the_meta_device(name):
    rope = preset(name)
    x, pos = torch.randn(1, 1, 3, rope.head_dim), torch.arange(3)
    with torch.device("meta"):
        made = preset(name).to_empty(device="cpu")
    for same in (copy.deepcopy(rope), pickle.loads(pickle.dumps(rope)), made, preset(name).to(torch.bfloat16)):
        assert torch.equal(same.query(x, pos), rope.query(x, pos))
        assert not same.state_dict()


def test_a_name_that_is_not_known_is_answered_with_those_near_it():
    with pytest.raises(ValueError, match=r"'Llama-3\.1-8B': use 'llama-3\.1-8b', "):
        preset("Llama-3.1-8B")
    with pytest.raises(ValueError, match="use 'gpt-oss-20b'"):
        preset("gpt-oss-120b")
    with pytest.raises(ValueError, match=r"use 'codellama-7b', 'deepseek-v3', .* 'yarn-llama-2-7b-64k'"):
        preset("xyzzy")
