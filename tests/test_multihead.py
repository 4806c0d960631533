"""posenc.MultiheadAttention is torch's layer with positions; bias and score_mod serve torch's own functions."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from posenc import (
    ENCODINGS,
    ALiBi,
    DistanceAware,
    KVCache,
    MultiheadAttention,
    NoPE,
    Plan,
    RoPE,
    Shaw,
    Span,
    T5Bias,
    TransformerXL,
    attention,
)
from tests.helpers import close

WIDTH, HEADS, LENGTH, BATCH = 16, 4, 6, 3
IN_HEADS = [name for name in ENCODINGS if name not in ("sinusoidal", "learned")]


def layers(**options) -> tuple[MultiheadAttention, nn.MultiheadAttention]:
    ours = MultiheadAttention(WIDTH, HEADS, encoding=NoPE(), causal=False, **options).double()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, **options).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_without_positions_it_is_torch_s_layer(bias, batch_first, cross):
    ours, theirs = layers(bias=bias, batch_first=batch_first)
    assert {name: x.shape for name, x in ours.state_dict().items()} == {
        name: x.shape for name, x in theirs.state_dict().items()
    }
    x = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    memory = torch.randn(BATCH, 5, WIDTH, dtype=torch.float64) if cross else x
    hidden = torch.rand(BATCH * HEADS, LENGTH, memory.shape[1]) < 0.3
    hidden[..., 0] = False
    padding = torch.arange(memory.shape[1]) >= torch.tensor([[4], [5], [2]])
    x, memory = (y if batch_first else y.transpose(0, 1) for y in (x, memory))
    memory = memory if cross else x
    for options in (
        {}, dict(attn_mask=hidden), dict(attn_mask=hidden[0]), dict(key_padding_mask=padding),
        dict(attn_mask=hidden, key_padding_mask=padding), dict(average_attn_weights=False), dict(need_weights=False),
    ):  # fmt: skip
        found, expected = (layer(x, memory, 2 * memory, **options) for layer in (ours, theirs))
        close(found[0], expected[0])
        if expected[1] is None:
            assert found[1] is None
        else:
            close(found[1], expected[1])
    one = x[0] if batch_first else x[:, 0]
    for found, expected in zip(ours(one), theirs(one, one, one), strict=True):
        close(found, expected)


def test_the_same_seed_draws_the_same_weights():
    made = []
    for make in (
        lambda: MultiheadAttention(WIDTH, HEADS, encoding=RoPE(4)),
        lambda: nn.MultiheadAttention(WIDTH, HEADS),
    ):
        torch.manual_seed(0)
        made.append(make().state_dict())
    assert made[0].keys() == made[1].keys()
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


@pytest.mark.parametrize("name", IN_HEADS)
def test_an_encoding_enters_as_it_does_in_attention(name):
    encoding = ENCODINGS[name](model_dim=WIDTH, heads=HEADS, head_dim=4, length=LENGTH).double()
    layer = MultiheadAttention(WIDTH, HEADS, encoding=encoding, batch_first=True).double().requires_grad_(False)
    x = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    q, k, v = (x @ layer.in_proj_weight.T).unflatten(-1, (3, HEADS, 4)).permute(2, 0, 3, 1, 4)
    expected = layer.out_proj(attention(q, k, v, encoding, torch.arange(LENGTH)).transpose(1, 2).flatten(2))
    for options in ({}, dict(need_weights=False), dict(pos=Span(0, LENGTH)), dict(pos=Plan(Span(0, LENGTH)))):
        close(layer(x, **options)[0], expected)
    cache = KVCache()
    steps = [layer(x[:, t : t + 1], cache=cache)[0] for t in range(LENGTH)]
    close(torch.cat(steps, 1), expected)


def test_dropout_drops_in_training_alone():
    layer = MultiheadAttention(WIDTH, HEADS, dropout=0.5, encoding=NoPE(), batch_first=True)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    close(layer(x)[0], layer(x)[0])


def test_what_does_not_fit_a_layer_is_refused():
    for arguments in ((15, 4), (16, 0), (0, 1)):
        with pytest.raises(ValueError, match="divides"):
            MultiheadAttention(*arguments, encoding=NoPE())
    with pytest.raises(TypeError, match="encoding is 'rope'"):
        MultiheadAttention(WIDTH, HEADS, encoding="rope")
    with pytest.raises(ValueError, match=r"embed.*NoPE\(\) here"):
        MultiheadAttention(WIDTH, HEADS, encoding=ENCODINGS["sinusoidal"](WIDTH, HEADS, 4, LENGTH))
    layer, x = layers(batch_first=True)[0], torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"attn_mask is torch\.float32: use bool, True for what is hidden"):
        layer(x, attn_mask=torch.zeros(LENGTH, LENGTH))
    with pytest.raises(ValueError, match=r"key_padding_mask is torch\.float64"):
        layer(x, key_padding_mask=x[..., 0])
    with pytest.raises(ValueError, match=r"attn_mask .*\(12, L, S\)"):
        layer(x, attn_mask=torch.zeros(5, LENGTH, LENGTH, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"query has shape \(3, 6, 15\)"):
        layer(x[..., 1:])
    with pytest.raises(ValueError, match="beside a plan"):
        layer(x, pos=Plan(Span(0, LENGTH)), kpos=Span(0, LENGTH))
    cache = KVCache()
    with torch.no_grad():
        layer(x, cache=cache)
        cache.keep(torch.tensor([0, 2]))
        with pytest.raises(ValueError, match="pass pos"):
            layer(x, cache=cache)


# For torch's own functions


BIASES = {
    "alibi": lambda: ALiBi(HEADS), "alibi, symmetric": lambda: ALiBi(HEADS, symmetric=True),
    "t5": lambda: T5Bias(HEADS), "shaw": lambda: Shaw(8, 3, values=False),
    "transformer_xl": lambda: TransformerXL(WIDTH, HEADS, 8), "distance_aware": lambda: DistanceAware(HEADS),
}  # fmt: skip
CONTENT = ("shaw", "transformer_xl")


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("positions", ["span", "batched"])
def test_biases_serve_torch_s_functions(name, positions):
    encoding = BIASES[name]().double()
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)
    encoding.requires_grad_(False)
    q, k, v = torch.randn(3, 2, HEADS, LENGTH, 8, dtype=torch.float64)
    pos = torch.stack((torch.arange(LENGTH), torch.arange(LENGTH) * 2))
    at, here = (Span(0, LENGTH), torch.arange(LENGTH)) if positions == "span" else (pos, pos)
    expected = attention(q, k, v, encoding, here, backend="dense")
    q = encoding.query(q, here)
    given = dict(q=q, k=k) if name in CONTENT else {}
    past = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    blocks = create_block_mask(lambda b, h, i, j: j <= i, None, None, LENGTH, LENGTH, device="cpu")
    mod = encoding.score_mod(at, **given)
    close(flex_attention(q, k, v, score_mod=mod, block_mask=blocks), expected)
    if name == "distance_aware":
        with pytest.raises(ValueError, match="adds nothing to scores: it enters by rescale"):
            encoding.bias(at)
        return
    bias = encoding.bias(at, **given, dtype=torch.float64)
    assert bias.shape == (2 if given or positions == "batched" else 1, HEADS, LENGTH, LENGTH)
    close(scaled_dot_product_attention(q, k, v, attn_mask=bias.where(past, -torch.inf)), expected)
    row = encoding.bias(Span(LENGTH - 1, 1), Span(0, LENGTH), **({"q": q[:, :, -1:], "k": k} if given else {}))
    if positions == "span":
        close(row.double(), bias[:, :, -1:], atol=1e-6)


@pytest.mark.parametrize("name", CONTENT)
def test_a_bias_of_contents_asks_for_them(name):
    encoding = BIASES[name]()
    for call in (encoding.bias, encoding.score_mod):
        with pytest.raises(ValueError, match=r"depends on queries: pass q=encoding\.query\(q, pos\)"):
            call(Span(0, 3))


def test_a_bias_knows_its_heads_dtype_and_module():
    assert ALiBi(HEADS).bias(Span(0, 3)).dtype == torch.float32
    assert ALiBi(HEADS).bias(Span(0, 3), dtype=torch.bfloat16).dtype == torch.bfloat16
    assert copy.deepcopy(T5Bias(HEADS)).bias(torch.arange(3), torch.arange(5)).shape == (1, HEADS, 3, 5)
    with pytest.raises(ValueError, match="RoPE adds nothing to scores: it enters by query, key"):
        RoPE(4).bias(Span(0, 3))
