"""posenc against other libraries, at the versions of constraints.txt: what each computes from the same numbers.

A test that is marked `conform(ours, library, theirs)` is a row of the table that the book shows. `compare` takes what
both computed and the difference that rounding explains. Where a library is wrong, `verdict` says so, and the test
shows who is right.
"""

import math

import pytest
import torch
from torch import Tensor

from posenc import KVCache, RoPE, attend, frequencies, relative_shift, rotate, sinusoidal
from posenc.schemes.alibi import ALiBi, alibi_slopes
from posenc.schemes.grid import (
    MRoPE,
    axial_frequencies,
    grid_coordinates,
    mrope_positions,
    rotate_grid,
    sinusoidal_grid,
)
from posenc.schemes.layout import layout_permutation
from posenc.schemes.scaling import (
    dynamic_ntk,
    interpolate,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk,
    p_rope,
    yarn,
    yarn_attention_factor,
)
from posenc.schemes.t5 import T5Bias, t5_bucket
from posenc.schemes.xpos import XPos

pytest.importorskip("transformers")
LENGTH, HEADS, DIM = 24, 4, 16
MODEL = HEADS * DIM
POS = torch.arange(LENGTH)


def conform(ours: str, library: str, theirs: str, verdict: str = "agree") -> pytest.MarkDecorator:
    return pytest.mark.conform(ours, library, theirs, verdict)


@pytest.fixture
def compare(record_property):
    worst = [0.0]

    def compare(found: Tensor, expected: Tensor, atol: float = 0.0) -> None:
        assert found.shape == expected.shape
        worst[0] = max(worst[0], (found.double() - expected.double()).abs().max().item())
        assert worst[0] <= atol
        record_property("difference", worst[0])

    return compare


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, DIM)).transpose(1, 2)  # (B, H, L, d)


def merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, L, D)


def causal_mask() -> Tensor:
    return torch.full((LENGTH, LENGTH), torch.finfo(torch.float32).min).triu(1)[None, None]


# ---- T5 ----


@conform("t5_bucket", "transformers", "T5Attention._relative_position_bucket")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (32, 256), (64, 256), (32, 64), (64, 512)])
def test_t5_buckets(compare, bidirectional, buckets, far):
    from transformers.models.t5.modeling_t5 import T5Attention

    offset = torch.arange(-2000, 2001)
    expected = T5Attention._relative_position_bucket(offset, bidirectional, buckets, far)
    compare(t5_bucket(offset, buckets, far, bidirectional), expected)


@conform("T5Bias, attend(scale=1.0)", "transformers", "T5Attention")
@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_of_t5(compare, causal):
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=MODEL, d_kv=DIM, num_heads=HEADS, is_decoder=causal, attn_implementation="eager")
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0, is_causal=causal).eval()
    torch.nn.init.normal_(layer.relative_attention_bias.weight)
    ours = T5Bias(HEADS, bidirectional=not causal)
    ours.load_state_dict({"table": layer.relative_attention_bias.weight})
    x = torch.randn(2, LENGTH, MODEL)
    with torch.no_grad():
        expected = layer(x, mask=causal_mask() if causal else None)[0]
        q, k, v = (heads(project(x)) for project in (layer.q, layer.k, layer.v))
        found = layer.o(merged(attend(q, k, v, ours, POS, POS, causal=causal, scale=1.0)))
    compare(found, expected, atol=1e-5)


# ---- ALiBi ----


@conform("alibi_slopes, 1 to 64 heads", "transformers", "bloom.build_alibi_tensor, mpt.build_mpt_alibi_tensor")
def test_slopes(compare):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    for n in range(1, 65):
        columns = build_alibi_tensor(torch.ones(1, 2), n, torch.float32)  # slope · j, of which j = 1 is the slope
        compare(alibi_slopes(n), columns[:, 0, 1], atol=1e-7)
        compare(alibi_slopes(n), -build_mpt_alibi_tensor(n, 2)[:, 0, 0], atol=1e-7)  # slope · (j - 1)


@conform("ALiBi, attend", "transformers", "BloomAttention")
@pytest.mark.parametrize("n", [4, 3])
def test_a_layer_of_bloom(compare, n):
    from transformers.models.bloom.configuration_bloom import BloomConfig
    from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor

    layer = BloomAttention(BloomConfig(hidden_size=n * DIM, n_head=n, hidden_dropout=0.0), layer_idx=0).eval()
    x = torch.randn(2, LENGTH, n * DIM)
    with torch.no_grad():
        alibi = build_alibi_tensor(torch.ones(2, LENGTH), n, torch.float32)
        expected = layer(x, torch.zeros_like(x), alibi, causal_mask())[0]
        q, k, v = layer.query_key_value(x).unflatten(-1, (n, 3, DIM)).permute(3, 0, 2, 1, 4)
        found = layer.dense(merged(attend(q, k, v, ALiBi(n), POS, POS)))
    compare(found, expected, atol=1e-5)


# ---- rotations ----


@conform('rotate, layout="half"', "transformers", "LlamaRotaryEmbedding, apply_rotary_pos_emb")
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_llama_rotation(compare, base):
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "default", "rope_theta": base}
    config = LlamaConfig(hidden_size=MODEL, num_attention_heads=HEADS, rope_parameters=rope)
    q, k = torch.randn(2, 2, HEADS, LENGTH, DIM)
    pos = torch.stack((POS, POS * 7 + 100))
    expected = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, pos))
    for x, y in zip((q, k), expected, strict=True):
        compare(rotate(x, pos, frequencies(DIM, base), layout="half"), y, atol=2e-4)


@conform('RoPE(layout="half"), attend, grouped heads', "transformers", "LlamaAttention")
def test_a_layer_of_llama(compare):
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=MODEL, num_attention_heads=HEADS, num_key_value_heads=2, attn_implementation="eager"
    )
    layer, rope = LlamaAttention(config, 0).eval(), RoPE(DIM, layout="half")
    x = torch.randn(2, LENGTH, MODEL)
    with torch.no_grad():
        expected = layer(x, LlamaRotaryEmbedding(config)(x, POS[None]), causal_mask())[0]
        q, k, v = (heads(project(x)) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
        z = attend(rope.query(q, POS), rope.key(k, POS), v, rope, POS, POS)
        compare(layer.o_proj(merged(z)), expected, atol=1e-5)


@conform("RoPE(rotary_dim=…), attend", "transformers", "GPTJAttention")
def test_a_layer_of_gpt_j(compare):
    from transformers.models.gptj.configuration_gptj import GPTJConfig
    from transformers.models.gptj.modeling_gptj import GPTJAttention

    config = GPTJConfig(n_embd=MODEL, n_head=HEADS, rotary_dim=8, n_positions=64, attn_pdrop=0.0, resid_pdrop=0.0)
    layer, rope = GPTJAttention(config, 0).eval(), RoPE(DIM, rotary_dim=8)
    x = torch.randn(2, LENGTH, MODEL)
    with torch.no_grad():
        expected = layer(x, attention_mask=causal_mask(), position_ids=POS.expand(2, LENGTH))[0]
        q, k, v = (heads(project(x)) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
        z = attend(rope.query(q, POS), rope.key(k, POS), v, rope, POS, POS)
        compare(layer.out_proj(merged(z)), expected, atol=1e-5)


@conform('RoPE(rotary_dim=…, layout="half")', "transformers", "GPTNeoXRotaryEmbedding, apply_rotary_pos_emb")
def test_gpt_neox_turns_a_quarter_of_the_channels(compare):
    from transformers.models.gpt_neox.configuration_gpt_neox import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
    config = GPTNeoXConfig(hidden_size=4 * 32, num_attention_heads=4, rope_parameters=rope)
    q, k = torch.randn(2, 2, 4, LENGTH, 32)
    expected = apply_rotary_pos_emb(q, k, *GPTNeoXRotaryEmbedding(config)(q, POS[None]))
    ours = RoPE(32, rotary_dim=8, layout="half")
    for x, y in zip((q, k), expected, strict=True):
        compare(ours.query(x, POS), y, atol=1e-5)


@conform("layout_permutation", "transformers", "Llama's rotation against GPT-J's")
def test_the_two_layouts_are_a_permutation_apart(compare):
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as interleaved
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as half

    x, order = torch.randn(1, LENGTH, HEADS, DIM), layout_permutation(DIM)
    sin, cos = create_sinusoidal_positions(LENGTH, DIM)[None].chunk(2, -1)
    y = interleaved(x, sin, cos).transpose(1, 2)
    z, _ = half(*2 * [x.transpose(1, 2)[..., order]], cos.tile(1, 1, 2), sin.tile(1, 1, 2))
    compare(z, y[..., order], atol=1e-6)


# ---- longer texts ----


def theirs(kind: str, dim: int = 128, base: float = 10_000.0, seq_len: int | None = None, **parameters: object):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.configuration_llama import LlamaConfig

    config = LlamaConfig(
        hidden_size=4 * dim, num_attention_heads=4, max_position_embeddings=parameters.pop("max_position", 4096),
        rope_parameters={"rope_type": kind, "rope_theta": base, **parameters},
    )  # fmt: skip
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)


@conform("interpolate", "transformers", 'ROPE_INIT_FUNCTIONS["linear"]')
def test_position_interpolation(compare):
    compare(interpolate(frequencies(128), 4.0), theirs("linear", factor=4.0)[0], atol=1e-7)


@conform("dynamic_ntk", "transformers", 'ROPE_INIT_FUNCTIONS["dynamic"]')
@pytest.mark.parametrize("length", [100, 4096, 4097, 9000, 40_000])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_dynamic_ntk(compare, length, factor):
    expected = theirs("dynamic", seq_len=length, factor=factor)[0]
    compare(dynamic_ntk(frequencies(128), length, 4096, factor), expected, atol=1e-6)


@conform('yarn(form="code"), yarn_attention_factor', "transformers", 'ROPE_INIT_FUNCTIONS["yarn"]')
@pytest.mark.parametrize("factor", [2.0, 16.0])
@pytest.mark.parametrize("dim", [64, 128])
def test_yarn(compare, factor, dim):
    freq, scale = theirs("yarn", dim, factor=factor, original_max_position_embeddings=4096)
    compare(yarn(frequencies(dim), factor, 4096, form="code"), freq, atol=1e-6)
    compare(torch.tensor(yarn_attention_factor(factor)), torch.tensor(scale), atol=1e-6)


@conform(
    'yarn(form="paper")', "transformers", 'ROPE_INIT_FUNCTIONS["yarn"]',
    "two forms",
)  # fmt: skip
def test_yarn_in_the_paper_is_not_yarn_in_the_code(record_property):
    freq, _ = theirs("yarn", factor=16.0, original_max_position_embeddings=4096)
    paper = yarn(frequencies(128), 16.0, 4096, form="paper")
    record_property("difference", (paper - freq).abs().max().item())
    assert 2.5 < (freq / paper).max() < 3.5  # up to three times as fast, for pairs in the ramp


@conform("llama3", "transformers", 'ROPE_INIT_FUNCTIONS["llama3"]')
@pytest.mark.parametrize(("dim", "factor"), [(128, 8.0), (64, 32.0)])
def test_llama3(compare, dim, factor):
    parameters = dict(factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    expected = theirs("llama3", dim, 500_000.0, **parameters)[0]
    compare(llama3(frequencies(dim, 500_000.0), factor), expected, atol=1e-7)


@conform("longrope, longrope_attention_factor", "transformers", 'ROPE_INIT_FUNCTIONS["longrope"]')
@pytest.mark.parametrize("length", [4096, 4097])
def test_longrope(compare, length):
    short, long = (1 + torch.rand(48)).tolist(), (1 + 60 * torch.rand(48)).tolist()
    parameters = dict(short_factor=short, long_factor=long, original_max_position_embeddings=4096, factor=32.0)
    freq, scale = theirs("longrope", 96, seq_len=length, max_position=131_072, **parameters)
    compare(longrope(frequencies(96), length, short, long, 4096), freq, atol=1e-6)
    compare(torch.tensor(longrope_attention_factor(32.0, 4096)), torch.tensor(scale), atol=1e-6)


@conform("p_rope", "transformers", 'ROPE_INIT_FUNCTIONS["proportional"]')
@pytest.mark.parametrize("fraction", [0.25, 0.75, 1.0])
def test_p_rope(compare, fraction):
    compare(p_rope(frequencies(128), fraction), theirs("proportional", partial_rotary_factor=fraction)[0], atol=1e-7)


ROPE_PARAMETERS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 16.0, "original_max_position_embeddings": 4096},
    "longrope": {"factor": 32.0, "original_max_position_embeddings": 4096, "short_factor": [1.0] * 64,
                 "long_factor": [1.0 + t for t in range(64)]},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192},
    "proportional": {"partial_rotary_factor": 0.25},
}  # fmt: skip


@conform("RoPE.from_config", "transformers", "ROPE_INIT_FUNCTIONS, every rope type")
@pytest.mark.parametrize("kind", ROPE_PARAMETERS)
@pytest.mark.parametrize("length", [4096, 40_000])
def test_published_configurations(compare, kind, length):
    freq, scale = theirs(kind, seq_len=length, **ROPE_PARAMETERS[kind])
    parameters = {"rope_type": kind, "rope_theta": 10_000.0, **ROPE_PARAMETERS[kind]}
    rope = RoPE.from_config({"head_dim": 128, "max_position_embeddings": 4096, "rope_parameters": parameters})
    compare(rope.freq(torch.tensor(length)) if rope.raw_keys else rope.freq, freq, atol=1e-6)
    compare(torch.tensor(rope.attention_factor), torch.tensor(scale), atol=1e-6)


# ---- rotary-embedding-torch ----


@conform('rotate, layout="interleaved"', "rotary-embedding-torch", "RotaryEmbedding.rotate_queries_or_keys")
@pytest.mark.parametrize("offset", [0, 500])
def test_rotary_embedding_torch(compare, offset):
    from rotary_embedding_torch import RotaryEmbedding

    x = torch.randn(2, HEADS, LENGTH, DIM)
    expected = RotaryEmbedding(DIM).rotate_queries_or_keys(x, offset=offset)
    compare(rotate(x, POS + offset, frequencies(DIM)), expected.detach(), atol=2e-4)


@conform("ntk", "rotary-embedding-torch", "RotaryEmbedding(theta_rescale_factor=…)")
def test_ntk_of_rotary_embedding_torch(compare):
    from rotary_embedding_torch import RotaryEmbedding

    compare(ntk(frequencies(128), 4.0), RotaryEmbedding(128, theta_rescale_factor=4.0).freqs.detach(), atol=1e-6)


@conform("XPos, scores", "rotary-embedding-torch", "RotaryEmbedding(use_xpos=True).rotate_queries_and_keys")
def test_xpos_of_rotary_embedding_torch(compare):
    from rotary_embedding_torch import RotaryEmbedding

    q, k = torch.randn(2, 1, HEADS, LENGTH, DIM)
    turned, keys = (x.detach() for x in RotaryEmbedding(DIM, use_xpos=True).rotate_queries_and_keys(q, k))
    ours = XPos(DIM)
    compare(ours.query(q, POS) @ ours.key(k, POS).mT, turned @ keys.mT, atol=1e-4)


@conform(
    "XPos, cached decoding", "rotary-embedding-torch", "RotaryEmbedding(use_xpos=True).rotate_queries_with_cached_keys",
    "wrong there",
)  # fmt: skip
def test_xpos_of_rotary_embedding_torch_forgets_where_the_new_token_is(record_property):
    from rotary_embedding_torch import RotaryEmbedding

    q, k = torch.randn(2, 1, 1, 64, DIM, dtype=torch.float64)
    rotary, ours, pos = (
        RotaryEmbedding(DIM, use_xpos=True, xpos_scale_base=64),
        XPos(DIM, scale_base=64),
        torch.arange(64),
    )
    full = (lambda pair: pair[0] @ pair[1].mT)(rotary.rotate_queries_and_keys(q, k)).detach()
    theirs = (lambda pair: pair[0] @ pair[1].mT)(rotary.rotate_queries_with_cached_keys(q[:, :, -1:], k)).detach()
    record_property("difference", (theirs - full[:, :, -1:]).abs().max().item())
    assert (theirs - full[:, :, -1:]).abs().max() > 0.1
    cache = KVCache()
    for n in range(64):
        step = slice(n, n + 1)
        keys, _, _ = cache.extend(k[:, :, step], k[:, :, step], pos[step], ours)
    torch.testing.assert_close(ours.query(q[:, :, -1:], pos[-1:]) @ keys.mT, full[:, :, -1:], rtol=0, atol=1e-5)


# ---- positional-encodings ----


@conform("sinusoidal", "positional-encodings", "PositionalEncoding1D")
@pytest.mark.parametrize("dim", [2, 10, 64])
def test_positional_encodings_1d(compare, dim):
    from positional_encodings.torch_encodings import PositionalEncoding1D

    compare(sinusoidal(POS, dim), PositionalEncoding1D(dim)(torch.zeros(1, LENGTH, dim))[0], atol=1e-5)


@conform(
    "sinusoidal, in another dtype", "positional-encodings", "PositionalEncoding1D, called again",
    "wrong there",
)  # fmt: skip
def test_positional_encodings_keep_the_first_dtype(record_property):
    from positional_encodings.torch_encodings import PositionalEncoding1D

    theirs = PositionalEncoding1D(8)
    theirs(torch.zeros(1, LENGTH, 8, dtype=torch.float16))
    found = theirs(torch.zeros(1, LENGTH, 8, dtype=torch.float64))
    assert found.dtype == torch.float16
    ours = sinusoidal(POS.double(), 8)
    assert ours.dtype == torch.float64
    record_property("difference", (found[0].double() - ours).abs().max().item())
    assert math.isclose((found[0].double() - ours).abs().max().item(), 0, abs_tol=1e-3)


# ---- Transformer-XL ----


@conform("relative_shift", "transformers", "XLNetRelativeAttention.rel_shift_bnij")
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 9), (1, 4)])
def test_the_relative_shift_of_xlnet(compare, queries, keys):
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    x = torch.randn(2, HEADS, queries, queries + keys)  # column c is for distance keys - c there
    compare(relative_shift(x[..., 1:], keys), XLNetRelativeAttention.rel_shift_bnij(x, keys))


# ---- grids ----


@conform("sinusoidal_grid", "positional-encodings", "PositionalEncoding2D, PositionalEncoding3D")
@pytest.mark.parametrize(("shape", "dim"), [((3, 5), 16), ((2, 3, 4), 24)])
def test_positional_encodings_in_two_and_three_dimensions(compare, shape, dim):
    from positional_encodings import torch_encodings

    theirs = getattr(torch_encodings, f"PositionalEncoding{len(shape)}D")(dim)
    coords = grid_coordinates(torch.arange(math.prod(shape)), shape)
    compare(sinusoidal_grid(coords, dim), theirs(torch.zeros(1, *shape, dim))[0].flatten(0, -2), atol=1e-5)


@conform("rotate_grid, axial_frequencies", "rotary-embedding-torch", "RotaryEmbedding.get_axial_freqs")
def test_axial_rotation_of_rotary_embedding_torch(compare):
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    x = torch.randn(2, HEADS, 3, 5, DIM)
    expected = apply_rotary_emb(RotaryEmbedding(DIM // 2).get_axial_freqs(3, 5), x)
    coords = grid_coordinates(torch.arange(15), (3, 5))
    found = rotate_grid(x.flatten(2, 3), coords, axial_frequencies(DIM, 2, 10_000.0))
    compare(found, expected.detach().flatten(2, 3), atol=1e-5)


@conform('MRoPE, mrope_frequencies, layout="half"', "transformers", "Qwen2VLRotaryEmbedding, apply_rotary_pos_emb")
def test_the_rotation_of_qwen2_vl(compare):
    from transformers.models.qwen2_vl import modeling_qwen2_vl as theirs
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig

    rope = {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [16, 24, 24]}
    config = Qwen2VLTextConfig(hidden_size=256, num_attention_heads=2, rope_parameters=rope)
    coords = mrope_positions([4, (2, 3, 4), 5])  # (L, 3)
    q, k = torch.randn(2, 1, 2, len(coords), 128)
    cos, sin = theirs.Qwen2VLRotaryEmbedding(config)(q, coords.T[:, None])
    expected = theirs.apply_rotary_pos_emb(q, k, cos, sin)[0]
    ours = MRoPE(128, (16, 24, 24), coordinates=coords, layout="half")
    compare(ours.query(q, torch.arange(len(coords))), expected, atol=1e-4)
