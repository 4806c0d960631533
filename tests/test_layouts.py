"""What the chapter on layouts says of other programs: flags, orders of rows, and who converts which way."""

import pytest
import torch
from torch import Tensor

from posenc import convert_layout, frequencies, rotate

X, POS = torch.randn(1, 20, 2, 64, generator=torch.Generator().manual_seed(0)), torch.arange(20)  # (B, L, H, d)


def turned(layout: str) -> Tensor:
    return rotate(X.transpose(1, 2), POS, frequencies(64), layout=layout).transpose(1, 2)


@pytest.mark.parametrize(("interleaved", "layout"), [(0, "half"), (1, "interleaved")])
def test_interleaved_of_onnx_pairs_neighbours(interleaved: int, layout: str) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    names, floats = ["X", "cos", "sin"], onnx.TensorProto.FLOAT
    node = onnx.helper.make_node("RotaryEmbedding", names, ["Y"], interleaved=interleaved)
    inputs = [onnx.helper.make_tensor_value_info(name, floats, None) for name in names]
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.helper.make_tensor_value_info("Y", floats, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
    angle = (POS[:, None] * frequencies(64))[None]
    feed = {"X": X.transpose(1, 2).numpy(), "cos": angle.cos().numpy(), "sin": angle.sin().numpy()}
    (found,) = ReferenceEvaluator(model).run(None, feed)
    assert torch.allclose(torch.from_numpy(found).transpose(1, 2), turned(layout), atol=1e-5)


def test_rope_interleave_of_deepseek_reads_weights_of_neighbours() -> None:
    """The same logits from converted weights without the flag: the last rows of each query head and of the key."""
    pytest.importorskip("transformers")
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    sizes = dict(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        q_lora_rank=12, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=8, first_k_dense_replace=1,
        intermediate_size=32, moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2,
        n_group=1, topk_group=1, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    default = DeepseekV3ForCausalLM(DeepseekV3Config(**sizes)).double().eval().requires_grad_(False)
    for weight in default.parameters():
        weight.copy_(torch.randn_like(weight) / max(weight.shape[-1] ** 0.5, 1))
    assert default.config.rope_interleave
    half = DeepseekV3ForCausalLM(DeepseekV3Config(**sizes, rope_interleave=False)).double().eval()
    half.load_state_dict(default.state_dict())
    tokens = torch.randint(50, (1, 20), generator=torch.Generator().manual_seed(1))
    right = default(tokens).logits
    assert not torch.allclose(half(tokens).logits, right)
    attention = half.model.layers[0].self_attn
    with torch.no_grad():
        query = attention.q_b_proj.weight.view(2, 24, -1)
        query[:, 16:] = convert_layout(query[:, 16:].flatten(0, 1), 8, to="half").view(2, 8, -1)
        key = attention.kv_a_proj_with_mqa.weight
        key[24:] = convert_layout(key[24:], 8, to="half")
    assert torch.allclose(half(tokens).logits, right)


def test_gpt_neox_keeps_query_key_and_value_of_a_head_together() -> None:
    pytest.importorskip("transformers")
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention

    config = GPTNeoXConfig(hidden_size=32, num_attention_heads=4, attn_implementation="eager")
    attention = GPTNeoXAttention(config, 0).requires_grad_(False)
    rows = attention.query_key_value.weight.view(4, 3, 8, 32)
    x, still = torch.randn(1, 5, 32), (torch.ones(1, 5, 8), torch.zeros(1, 5, 8))
    attention.query_key_value.bias.zero_()
    _, weights = attention(x, None, position_embeddings=still)
    q, k = (x @ rows[:, n].flatten(0, 1).T for n in (0, 1))
    q, k = (y.unflatten(-1, (4, 8)).transpose(1, 2) for y in (q, k))
    assert torch.allclose(weights, (q @ k.mT / 8**0.5).softmax(-1), atol=1e-5)


def test_falcon_keeps_the_queries_of_a_group_with_their_key_and_value() -> None:
    pytest.importorskip("transformers")
    from transformers import FalconConfig
    from transformers.models.falcon.modeling_falcon import FalconAttention

    config = FalconConfig(hidden_size=32, num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True)
    attention = FalconAttention(config, 0)
    slots = torch.arange(8).repeat_interleave(8)  # which block of 8 rows a channel comes from
    q, k, v = attention._split_heads(slots[None, None].expand(1, 1, -1))
    assert [x[0, 0, :, 0].tolist() for x in (q, k, v)] == [[0, 1, 4, 5], [2, 2, 6, 6], [3, 3, 7, 7]]


def test_phi_3_keeps_all_queries_then_all_keys_then_all_values() -> None:
    pytest.importorskip("transformers")
    from transformers import Phi3Config
    from transformers.models.phi3.modeling_phi3 import Phi3Attention

    config = Phi3Config(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager")
    attention = Phi3Attention(config, 0).requires_grad_(False)
    q, k, _ = attention.qkv_proj.weight.split([32, 16, 16])
    x, still = torch.randn(1, 5, 32), (torch.ones(1, 5, 8), torch.zeros(1, 5, 8))
    _, weights = attention(x, still, None)
    q, k = ((x @ rows.T).unflatten(-1, (-1, 8)).transpose(1, 2) for rows in (q, k))
    scores = q @ k.repeat_interleave(2, 1).mT / 8**0.5
    assert torch.allclose(weights, scores.softmax(-1), atol=1e-5)


def test_what_llama_cpp_has_permuted_is_permuted_back_when_transformers_reads_it() -> None:
    pytest.importorskip("transformers")
    from transformers import modeling_gguf_pytorch_utils as gguf

    processor = next(
        kind for kind in vars(gguf).values() if isinstance(kind, type) and hasattr(kind, "_reverse_permute_weights")
    )
    weight = torch.randn(32, 10)
    back = processor._reverse_permute_weights(None, weight.numpy(), 4, 2)
    assert torch.equal(torch.from_numpy(back), convert_layout(weight, 16, to="half"))
