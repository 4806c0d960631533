"""posenc.transformer.model: one model for all encodings; it is the same cached, padded, packed, windowed, compiled."""

import math
from dataclasses import asdict
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu

import posenc
from posenc import ENCODINGS, ALiBi, Encoding, KVCache, NoPE, Plan, RoPE, Sinusoidal, T5Bias
from posenc.transformer.memory import Memory
from posenc.transformer.model import Step, Transformer
from tests import helpers

LAYERS, HEADS, MODEL, HIDDEN, VOCABULARY, LENGTH = 2, 2, 8, 12, 11, 9
SIZES = dict(vocabulary=VOCABULARY, layers=LAYERS, model_dim=MODEL, heads=HEADS, hidden=HIDDEN, length=40)
every = pytest.mark.parametrize("name", ENCODINGS)
close = partial(helpers.close, atol=1e-10)


def make(name: str | Encoding, **options) -> Transformer:
    """A model with weights large enough for every token to matter to every other."""
    model = Transformer(**{**SIZES, "encoding": name, **options}).double().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


def draw(batch: int = 2, length: int = LENGTH) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length))


def in_chunks(model: Transformer, tokens: Tensor, sizes: list[int], mask: Tensor | None = None) -> Tensor:
    assert sum(sizes) == tokens.shape[1]
    cache, parts, start = model.cache(), [], 0
    for size in sizes:
        part = slice(start, start + size)
        real = None if mask is None else mask[:, part]
        parts.append(model(tokens[:, part], padding_mask=real, cache=cache))
        start += size
    return torch.cat(parts, 1)


class Recorder(Encoding):
    """NoPE that notes what it was asked, and adds something at its input."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, Tensor, Tensor]] = []

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        self.asked.append(("embed", x, pos))
        return x + 10

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        self.asked.append(("query", q, pos))
        return q

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        self.asked.append(("key", k, pos))
        return k

    def doors_asked(self) -> list[str]:
        return [door for door, _, _ in self.asked]


class Raw(RoPE):
    """RoPE whose keys are kept as they were projected, and counted from the latest: scores are the same."""

    def __init__(self, head_dim: int) -> None:
        super().__init__(head_dim)
        self.raw_keys = True

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return super().query(q, pos - pos.amax(-1, keepdim=True))

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        assert (pos >= 0).all()
        return super().key(k, pos - pos.amax(-1, keepdim=True))


# What it computes


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def naive(model: Transformer, tokens: Tensor, every_layer: bool, kv_heads: int, scale: float, window=99) -> Tensor:
    """Sinusoidal, written out for one sequence, and head by head."""
    weights = dict(model.named_parameters())
    wave = posenc.sinusoidal(torch.arange(len(tokens)), MODEL)
    x = weights["embedding.weight"][tokens] * math.sqrt(MODEL) + (0 if every_layer else wave)
    for n in range(LAYERS):
        w = {name.removeprefix(f"blocks.{n}."): value for name, value in weights.items()}
        h = norm(x, w["attention_norm.weight"])
        placed = h + wave if every_layer else h
        q, k, v = placed @ w["query.weight"].T, placed @ w["key.weight"].T, h @ w["value.weight"].T
        heads, d = [], MODEL // HEADS
        for head in range(HEADS):
            mine = slice(head * d, head * d + d)
            group = slice(head * kv_heads // HEADS * d, head * kv_heads // HEADS * d + d)
            rows = []
            for i in range(len(tokens)):
                seen = range(max(0, i - window + 1), i + 1)
                score = torch.stack([q[i, mine] @ k[j, group] * scale for j in seen])
                rows.append(score.softmax(0) @ v[list(seen)][:, group])
            heads.append(torch.stack(rows))
        x = x + torch.cat(heads, -1) @ w["out.weight"].T
        x = x + gelu(norm(x, w["mlp_norm.weight"]) @ w["expand.weight"].T) @ w["contract.weight"].T
    return norm(x, weights["norm.weight"]) @ weights.get("output.weight", weights["embedding.weight"]).T


@pytest.mark.parametrize("every_layer", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, None])
@pytest.mark.parametrize("scale", [None, 0.9])
def test_it_computes_what_the_formula_says(every_layer, tied, kv_heads, scale):
    model = make("sinusoidal", every_layer=every_layer, tied=tied, kv_heads=kv_heads, scale=scale)
    tokens = draw(2, 5)
    expected = [naive(model, row, every_layer, kv_heads or HEADS, scale or (MODEL / HEADS) ** -0.5) for row in tokens]
    close(model(tokens), torch.stack(expected))


def test_a_window_shows_the_latest_keys_only():
    model, tokens = make("sinusoidal", window=3), draw(1, 7)
    close(model(tokens)[0], naive(model, tokens[0], False, HEADS, (MODEL / HEADS) ** -0.5, window=3))


def test_sinks_are_the_first_tokens_and_stay_in_sight():
    model, tokens = make("rope", layers=1, window=2, sinks=2), draw(1, 8)
    for n in range(8):
        other = tokens.where(torch.arange(8) != n, (tokens + 1) % VOCABULARY)
        changed = (model(other) - model(tokens)).abs()[0].amax(-1) > 1e-9
        assert changed.nonzero()[:, 0].tolist() == [i for i in range(8) if n <= i and (i - n < 2 or n < 2)]


def test_a_model_without_options_is_a_decoder_with_rope():
    model = Transformer(VOCABULARY)
    assert asdict(model.config) == dict(
        vocabulary=VOCABULARY, layers=4, model_dim=128, heads=4, kv_heads=None, hidden=None, encoding="rope",
        length=512, every_layer=False, shared=True, causal=True, tied=True, window=None, sinks=0, scale=None,
        dropout=0.0, attention_dropout=0.0, backend="auto",
    )  # fmt: skip
    assert len(model.blocks) == 4
    assert isinstance(model.encoding(), RoPE) and model.encoding().head_dim == 32
    assert model.output is None
    assert model.blocks[0].expand.weight.shape == (512, 128)
    assert model(draw()).shape == (2, LENGTH, VOCABULARY)


def test_layers_and_weights_have_names_that_say_what_they_are():
    names = [name for name, _ in Transformer(**SIZES, encoding="sinusoidal", tied=False).named_parameters()]
    inside = ["attention_norm", "query", "key", "value", "out", "mlp_norm", "expand", "contract"]
    blocks = [f"blocks.{n}.{name}" for n in range(LAYERS) for name in inside]
    assert names == [f"{name}.weight" for name in ["embedding", *blocks, "norm", "output"]]


# Encodings


def own(name: str) -> int:
    encoding = ENCODINGS[name](model_dim=MODEL, heads=HEADS, head_dim=MODEL // HEADS, length=40)
    return sum(parameter.numel() for parameter in encoding.parameters())


@every
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("every_layer", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_the_number_of_parameters_is_what_the_formula_says(name, tied, kv_heads, every_layer, shared):
    options = dict(tied=tied, kv_heads=kv_heads, every_layer=every_layer, shared=shared)
    model = Transformer(**SIZES, encoding=name, **options)
    kv_dim = kv_heads * MODEL // HEADS
    block = 2 * MODEL + 2 * MODEL * MODEL + 2 * MODEL * kv_dim + 2 * MODEL * HIDDEN
    rest = MODEL + VOCABULARY * MODEL * (1 if tied else 2)
    in_layers = every_layer or model.encoding().doors != ("embed",)
    copies = LAYERS if in_layers and not shared else 1
    assert sum(p.numel() for p in model.parameters()) == LAYERS * block + rest + copies * own(name)
    assert len(model.encodings) == copies


@every
def test_an_encoding_comes_by_name_by_instance_and_by_factory(name):
    asked = {}

    def factory(**sizes: int) -> Encoding:
        asked.update(sizes)
        return ENCODINGS[name](**sizes)

    torch.manual_seed(1)
    by_name = Transformer(**SIZES, encoding=name)
    torch.manual_seed(1)
    by_factory = Transformer(**SIZES, encoding=factory)
    assert asked == dict(model_dim=MODEL, heads=HEADS, head_dim=MODEL // HEADS, length=40)
    torch.manual_seed(1)
    by_instance = Transformer(**SIZES, encoding=by_name.encoding())
    assert by_instance.encoding() is by_name.encoding()
    tokens = draw()
    assert torch.equal(by_factory(tokens), by_name(tokens))
    assert torch.equal(by_instance(tokens), by_name(tokens))
    assert by_name.config.encoding == name
    assert by_factory.config.encoding is by_instance.config.encoding is None


@every
def test_the_same_seed_gives_every_encoding_the_same_other_weights(name):
    def weights(name: str) -> dict[str, Tensor]:
        torch.manual_seed(3)
        state = Transformer(**SIZES, encoding=name, shared=False).state_dict()
        return {key: value for key, value in state.items() if not key.startswith("encodings")}

    found, expected = weights(name), weights("nope")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_layers_share_an_encoding_or_have_their_own():
    class Table(NoPE):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def query(self, q: Tensor, pos: Tensor) -> Tensor:
            return q * self.weight.sum()

    table = Table()
    shared = Transformer(**SIZES, encoding=table)
    assert [shared.encoding(n) is table for n in range(LAYERS)] == [True, True]
    copied = Transformer(**SIZES, encoding=table, shared=False)
    assert copied.encoding() is copied.encoding(0) is table
    assert copied.encoding(1) is not table
    assert torch.equal(copied.encoding(1).weight, table.weight)
    made = Transformer(**SIZES, encoding=lambda **sizes: Table(), shared=False)
    assert made.encoding(0) is not made.encoding(1)
    tokens, before = draw(), copied(draw())
    for n in range(LAYERS):  # each layer reads its own
        after = copied.encoding(n).weight.data.mul_(2) is not None and copied(tokens)
        assert not torch.equal(after, before)
        before = after


def test_what_enters_once_is_there_once():
    inputs = Transformer(**SIZES, encoding=Sinusoidal(MODEL), shared=False)
    assert len(inputs.encodings) == 1
    assert len(Transformer(**SIZES, encoding=Sinusoidal(MODEL), shared=False, every_layer=True).encodings) == LAYERS
    assert len(Transformer(**SIZES, encoding=NoPE(), shared=False).encodings) == LAYERS
    assert len(Transformer(**SIZES, encoding=Recorder(), shared=False).encodings) == LAYERS


def test_an_encoding_is_asked_once_at_the_input_or_in_every_layer():
    once, tokens = Recorder(), draw()
    make(once)(tokens)
    assert once.doors_asked() == ["embed"] + ["query", "key"] * LAYERS
    repeated = Recorder()
    make(repeated, every_layer=True)(tokens)
    assert repeated.doors_asked() == ["embed", "query", "key"] * LAYERS
    for _, _, pos in once.asked + repeated.asked:
        assert torch.equal(pos, torch.arange(LENGTH))


def test_in_every_layer_position_goes_into_queries_and_keys_but_not_into_values():
    model = make(Recorder(), every_layer=True, layers=1)
    for parameter in (model.blocks[0].query.weight, model.blocks[0].key.weight):
        parameter.zero_()  # attention is uniform, so what remains of the encoding came with the values
    plain = make(NoPE(), layers=1)
    plain.load_state_dict(model.state_dict())
    tokens = draw()
    close(model(tokens), plain(tokens))


@every
@pytest.mark.parametrize(
    "options", [{}, dict(every_layer=True), dict(shared=False), dict(every_layer=True, shared=False)]
)
def test_every_parameter_gets_a_gradient(name, options):
    model = Transformer(**SIZES, encoding=name, kv_heads=1, tied=False, **options)
    cross_entropy(model(draw()).flatten(0, 1), draw().flatten()).backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.abs().sum() > 0, label


# Initial weights


def test_initial_weights_have_the_deviation_that_is_written():
    options = dict(vocabulary=300, layers=3, model_dim=64, hidden=200, heads=4, tied=False)
    model = Transformer(**options)
    assert model.embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    assert model.output.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    for block in model.blocks:
        for linear in (block.query, block.key, block.value, block.expand):
            assert linear.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
        assert block.out.weight.std().item() == pytest.approx(64**-0.5 / 6**0.5, rel=0.05)
        assert block.contract.weight.std().item() == pytest.approx(200**-0.5 / 6**0.5, rel=0.05)
        assert (block.attention_norm.weight == 1).all() and (block.mlp_norm.weight == 1).all()
    assert (model.norm.weight == 1).all()
    scaled = Transformer(**options, scale=1.0)  # T5's: head_dim is 16
    for block in scaled.blocks:
        assert block.query.weight.std().item() == pytest.approx(64**-0.5 / 16**0.5, rel=0.05)
        assert block.key.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


def test_a_scale_starts_from_the_same_scores():
    models = []
    for scale in (None, 1.0, 0.3):
        torch.manual_seed(5)
        models.append(Transformer(**SIZES, encoding="rope", scale=scale))
    tokens = draw()
    for model in models[1:]:
        close(model(tokens), models[0](tokens), atol=1e-5)
        assert model.config.scale != models[0].config.scale


def test_weights_are_drawn_anew_but_not_those_of_the_encoding():
    table = nn.Parameter(torch.full((3,), 7.0))
    encoding = NoPE()
    encoding.table = table
    model = Transformer(**SIZES, encoding=encoding, tied=False)
    torch.manual_seed(8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        if parameter is not table:
            parameter.data.fill_(3.0)
    model.reset_parameters()
    assert (table == 7).all()
    for name, value in model.state_dict().items():
        same = name.endswith("norm.weight") or name == "encodings.0.table"
        assert torch.equal(value, before[name]) == same, name


def test_a_model_may_be_built_without_memory_and_filled_later():
    torch.manual_seed(1)
    expected = Transformer(**SIZES, encoding="rope")
    with torch.device("meta"):
        model = Transformer(**SIZES, encoding="rope")
    model = model.to_empty(device="cpu")
    torch.manual_seed(1)
    model.reset_parameters()
    model.load_state_dict(expected.state_dict())
    tokens = draw()
    assert torch.equal(model(tokens), expected(tokens))


# The same tokens, cached, padded and packed


@every
@pytest.mark.parametrize("options", [
    {}, dict(window=3), dict(window=1), dict(window=3, sinks=2), dict(window=30, sinks=1),
    dict(every_layer=True, kv_heads=1), dict(every_layer=True, shared=False, window=4, sinks=1),
])  # fmt: skip
def test_cached_passes_equal_the_full_pass(name, options):
    model, tokens = make(name, **options), draw()
    full = model(tokens)
    for sizes in ([1] * LENGTH, [4, 1, 1, 3], [2, 5, 0, 2], [8, 1]):
        close(in_chunks(model, tokens, sizes), full)


@pytest.mark.parametrize("options", [{}, dict(window=3, sinks=1)])
def test_keys_that_are_kept_as_projected_are_turned_anew(options):
    rope, tokens = make("rope", **options), draw()
    raw = make(Raw(MODEL // HEADS), **options)
    raw.load_state_dict(rope.state_dict())
    mask = torch.tensor([[True] * LENGTH, [False] * 3 + [True] * (LENGTH - 3)])
    close(raw(tokens), rope(tokens), atol=1e-6)  # float32 frequencies
    close(in_chunks(raw, tokens, [4, 1, 1, 3]), raw(tokens), atol=1e-6)
    padded = in_chunks(raw, tokens, [4, 1, 1, 3], mask)
    close(padded[0], rope(tokens[:1])[0], atol=1e-6)
    close(padded[1, 3:], rope(tokens[1:, 3:])[0], atol=1e-6)


def test_a_cache_keeps_what_the_window_shows_and_no_more():
    model = make("rope", window=3, sinks=2)
    cache = model.cache()
    assert [(type(layer), layer.window, layer.sinks) for layer in cache] == [(KVCache, 3, 2)] * LAYERS
    for _ in range(LENGTH):
        model(draw(length=1), cache=cache)
    assert [layer.positions.tolist() for layer in cache] == [[0, 1, LENGTH - 3, LENGTH - 2, LENGTH - 1]] * LAYERS
    whole = make("rope")
    assert [(layer.window, layer.sinks) for layer in whole.cache()] == [(None, 0)] * LAYERS


def padded_batch() -> tuple[Tensor, Tensor, list[Tensor]]:
    """Padding on the left, on the right, on both sides, and none."""
    mask = torch.ones(4, LENGTH, dtype=torch.bool)
    mask[0, :4] = mask[1, 6:] = mask[2, :2] = mask[2, 7:] = False
    tokens = draw(4)
    return tokens, mask, [row[real] for row, real in zip(tokens, mask, strict=True)]


@every
@pytest.mark.parametrize("options", [
    {}, dict(window=3, sinks=1), dict(every_layer=True), dict(every_layer=True, shared=False, kv_heads=1),
])  # fmt: skip
def test_padding_changes_nothing(name, options):
    model = make(name, **options)
    tokens, mask, alone = padded_batch()
    found = model(tokens, padding_mask=mask)
    for row, real, sequence in zip(found, mask, alone, strict=True):
        close(row[real], model(sequence[None])[0])
    assert found.isfinite().all()
    given = model(tokens, mask.cumsum(-1) - 1, padding_mask=mask)  # the same positions, by hand
    close(given[mask], found[mask])
    without_mask = model(tokens, (mask.cumsum(-1) - 1).where(mask, -1))  # -1 is padding
    close(without_mask[mask], found[mask])


@every
@pytest.mark.parametrize("options", [
    {}, dict(window=3), dict(window=3, sinks=2), dict(window=1, sinks=1), dict(window=4, sinks=3, every_layer=True),
])  # fmt: skip
def test_padding_changes_nothing_when_decoding(name, options):
    model = make(name, **options)
    pads = [0, 1, 3, 6]
    tokens, mask = draw(4), torch.stack([torch.arange(LENGTH) >= pad for pad in pads])
    for sizes in ([1] * LENGTH, [2, 3, 1, 3], [7, 2]):
        found = in_chunks(model, tokens, sizes, mask)
        for row, sequence, pad in zip(found, tokens, pads, strict=True):
            close(row[pad:], model(sequence[None, pad:])[0])
    cache = model.cache()
    first = model(tokens[:, :7], padding_mask=mask[:, :7], cache=cache)  # later tokens are real, and need no mask
    later = torch.cat([model(tokens[:, n : n + 1], cache=cache) for n in (7, 8)], 1)
    close(torch.cat((first, later), 1)[mask], in_chunks(model, tokens, [LENGTH], mask)[mask])


def test_padding_before_the_sinks_is_held_and_no_more_than_that():
    model, cache = make("rope", window=2, sinks=1), None
    mask = torch.stack((torch.arange(LENGTH) >= 4, torch.arange(LENGTH) >= 1))
    cache = model.cache()
    for part in (slice(0, 3), slice(3, 6), slice(6, LENGTH)):
        model(draw()[:, part], padding_mask=mask[:, part], cache=cache)
    model(draw(length=1), cache=cache)
    first = [[-1, -1, -1, -1, 0, 4, 5], [-1, 0, 1, 2, 3, 7, 8]]  # 4 pads and 1 sink, then the window
    assert [layer.positions.tolist() for layer in cache] == [first] * LAYERS
    assert [(layer.sinks, layer.padding) for layer in cache] == [(1, 4)] * LAYERS
    unpadded = model.cache()
    model(draw(), padding_mask=torch.ones(2, LENGTH, dtype=torch.bool), cache=unpadded)
    assert [(layer.sinks, layer.padding) for layer in unpadded] == [(1, 0)] * LAYERS


def test_padding_on_the_right_may_be_cached_without_a_window():
    model, tokens = make("rope"), draw(1, 6)
    padded = torch.cat((tokens[:, :4], draw(1, 2)), 1)
    cache = model.cache()
    model(padded, padding_mask=(torch.arange(6) < 4)[None], cache=cache)
    close(model(tokens[:, 4:], cache=cache), model(tokens)[:, 4:])


@every
def test_a_sequence_of_padding_only_is_finite_and_disturbs_nobody(name):
    model, tokens = make(name), draw()
    mask = torch.tensor([[False] * LENGTH, [True] * LENGTH])
    found = model(tokens, padding_mask=mask)
    assert found.isfinite().all()
    close(found[1], model(tokens[1:])[0])


@every
@pytest.mark.parametrize("options", [{}, dict(window=3), dict(every_layer=True, shared=False)])
def test_packed_documents_do_not_see_each_other(name, options):
    model, tokens = make(name, **options), draw(1)
    document = torch.tensor([[0] * 4 + [1] * 2 + [2] * 3])
    pos = torch.cat([torch.arange(n) for n in (4, 2, 3)])
    mask = document[:, None, :, None] == document[:, None, None, :]
    for positions in (pos, pos[None]):
        packed = model(tokens, positions, attention_mask=mask)
        for n in range(3):
            close(packed[document == n], model(tokens[document == n][None])[0])
    assert (model(tokens, pos) - packed).abs().max() > 1e-3


def test_a_mask_of_queries_and_keys_counts_the_keys_that_are_held():
    model, tokens = make("rope"), draw()
    mask = torch.rand(2, HEADS, LENGTH, LENGTH) < 0.7
    full, cache = model(tokens, attention_mask=mask), model.cache()
    for n in range(LENGTH):
        close(model(tokens[:, n : n + 1], attention_mask=mask[:, :, n : n + 1, : n + 1], cache=cache)[:, 0], full[:, n])


def test_positions_may_begin_anywhere_and_go_on_from_there():
    model, tokens = make("rope"), draw()
    for pos in (torch.arange(LENGTH) + 700, (torch.arange(LENGTH) + 700).expand(2, -1), torch.arange(LENGTH) + 0.5):
        cache = model.cache()
        parts = (model(tokens[:, :5], pos[..., :5], cache=cache), model(tokens[:, 5:7], cache=cache))
        assert cache[0].positions[..., 5:].tolist() == pos[..., 5:7].tolist()
        close(torch.cat(parts, 1), model(tokens)[:, :7], atol=1e-4)  # float32 angles at 700
        assert cache[0].positions.dtype == pos.dtype


@every
def test_short_sequences(name):
    model = make(name)
    assert model(draw(length=0)).shape == (2, 0, VOCABULARY)
    assert model(draw(length=1)).shape == (2, 1, VOCABULARY)
    assert model(draw(batch=0)).shape == (0, LENGTH, VOCABULARY)


# Encoders


@pytest.mark.parametrize("encoding", [
    lambda: RoPE(MODEL // HEADS), lambda: T5Bias(HEADS, bidirectional=True), lambda: ALiBi(HEADS, symmetric=True),
])  # fmt: skip
@pytest.mark.parametrize("options", [{}, dict(window=3), dict(scale=1.0, shared=False)])
def test_an_encoder_sees_both_sides(encoding, options):
    model = make(encoding(), causal=False, **options)
    tokens, mask, alone = padded_batch()
    found = model(tokens, padding_mask=mask)
    for row, real, sequence in zip(found, mask, alone, strict=True):
        close(row[real], model(sequence[None])[0])
    later = tokens.clone()
    later[:, -1] = (later[:, -1] + 1) % VOCABULARY
    assert (model(later)[:, :-1] - model(tokens)[:, :-1]).abs().max() > 1e-3
    decoder = make(encoding(), **options)
    close(decoder(later)[:, :-1], decoder(tokens)[:, :-1])


@every
def test_an_encoder_refuses_what_is_made_for_the_past(name):
    model, tokens = make(name, causal=False), draw()
    if model.encoding().causal_only:
        with pytest.raises(ValueError, match="symmetric"):
            model(tokens, padding_mask=torch.ones(2, LENGTH, dtype=torch.bool))
    else:
        assert model(tokens).isfinite().all()


def test_an_encoding_of_the_past_is_refused_by_an_encoder_whatever_the_padding():
    past = NoPE()
    past.causal_only = True
    tokens, mask = draw(), torch.ones(2, LENGTH, dtype=torch.bool)
    for model, options in (
        (make(past, causal=False), {}),
        (make(past, causal=False), dict(padding_mask=mask)),
        (make(past, causal=False), dict(pos=torch.arange(LENGTH).expand(2, -1))),
        (make(past, causal=False, window=3), {}),
    ):
        with pytest.raises(ValueError, match="symmetric"):
            model(tokens, **options)
    hiding = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).tril()  # a mask that hides the future serves
    close(
        make(past, causal=False)(tokens, attention_mask=hiding) * 0,
        torch.zeros(2, LENGTH, VOCABULARY, dtype=torch.float64),
    )
    make(past)(tokens)


# As torch sees it


@every
@pytest.mark.parametrize("backend", ["sdpa", "flex"])
def test_backends_agree_or_refuse(name, backend):
    model, tokens, mask = make(name, layers=1, window=4, backend=backend), draw(), padded_batch()[1][:2]
    dense = make(name, layers=1, window=4)
    dense.load_state_dict(model.state_dict())
    refused = {"sdpa": {"rescale", "mix"}, "flex": {"mix"}}[backend] & set(model.encoding().doors)
    if refused:
        with pytest.raises(ValueError, match='use backend="dense"'):
            model(tokens)
        return
    close(model(tokens, padding_mask=mask)[mask], dense(tokens, padding_mask=mask)[mask])
    if backend == "sdpa":  # flex is slow without a compiler
        close(model(tokens), dense(tokens))
        close(in_chunks(model, tokens, [5, 1, 3]), dense(tokens))


@pytest.mark.parametrize("name", ["learned", "transformer_xl", "rope", "distance_aware"])  # all: in the contract
def test_compiled_without_a_graph_break_it_is_the_same(name):
    torch._dynamo.reset()
    model = make(name, layers=1, every_layer=name == "learned")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    tokens, mask, _ = padded_batch()
    close(compiled(tokens, padding_mask=mask), model(tokens, padding_mask=mask))


def test_compiled_without_a_mask_it_is_the_same():
    torch._dynamo.reset()
    model, tokens = make("rope"), draw()
    close(torch.compile(model, fullgraph=True, backend="aot_eager")(tokens), model(tokens))


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@every
def test_an_exported_model_is_the_same(name):
    model = make(name, layers=1)
    program = torch.export.export(model, (draw(),)).module()
    tokens = draw()
    close(program(tokens), model(tokens))


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_close(name, dtype):
    torch.manual_seed(2)
    exact = Transformer(**SIZES, encoding=name)
    torch.manual_seed(2)
    model, tokens = Transformer(**SIZES, encoding=name).to(dtype), draw()
    assert model(tokens).dtype == dtype
    close(model(tokens).float(), exact(tokens), atol=0.03)


@every
def test_nothing_is_left_on_the_cpu(name):
    with torch.device("meta"):
        model = Transformer(**SIZES, encoding=name, window=3, sinks=1).requires_grad_(False)
        tokens, mask = torch.zeros(2, LENGTH, dtype=torch.int64), torch.ones(2, LENGTH, dtype=torch.bool)
    memory, padded, cache = Memory(5), Memory(5), model.cache()
    assert model(tokens).is_meta and model(tokens, padding_mask=mask).is_meta
    for chunk in (slice(0, 5), slice(5, LENGTH)):
        assert model(tokens[:, chunk], memory=memory).is_meta
        assert model(tokens[:, chunk], padding_mask=mask[:, chunk], memory=padded).is_meta
        assert model(tokens[:, chunk], cache=cache).is_meta


@every
def test_a_gpu_computes_the_same(name, device):
    model, tokens = make(name, window=4, sinks=1).float(), draw()
    mask = torch.stack((torch.arange(LENGTH) >= 3, torch.arange(LENGTH) >= 0))
    full, padded = model(tokens), in_chunks(model, tokens, [5, 4], mask)
    model, tokens, mask = model.to(device), tokens.to(device), mask.to(device)
    close(model(tokens).cpu(), full, atol=1e-3)
    close(in_chunks(model, tokens, [5, 4], mask).cpu(), padded, atol=1e-3)
    assert model.generate(tokens, 3, padding_mask=mask).device == tokens.device


def test_dropout_is_for_training_only():
    torch.manual_seed(1)
    model, tokens = Transformer(**SIZES, dropout=0.5), draw()
    assert not torch.equal(model(tokens), model(tokens))
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.5}
    assert torch.equal(model.eval()(tokens), model(tokens))
    torch.manual_seed(1)
    assert torch.equal(Transformer(**SIZES)(tokens), model(tokens))
    block = model.train().blocks[0]
    block.dropout.p = 1.0 - 1e-9  # both branches are dropped, the stream is not
    x = torch.randn(1, 3, MODEL)
    pos = torch.arange(3)
    assert torch.equal(block(x, Step(model.config, Plan(pos)), NoPE()), x)


def test_position_is_dropped_with_the_token():
    model, tokens, entered = Transformer(**SIZES, encoding="sinusoidal", dropout=0.5), draw(), []
    model.blocks[0].register_forward_pre_hook(lambda block, given: entered.append(given[0]))
    model(tokens), model.eval()(tokens)
    dropped, whole = entered
    kept = dropped != 0
    assert 0.3 < kept.double().mean() < 0.7
    close(dropped[kept], 2 * whole[kept])


def test_it_learns_to_copy():
    torch.manual_seed(0)
    model = Transformer(8, layers=2, model_dim=32, heads=2, encoding="rope")
    generator = torch.Generator().manual_seed(0)
    word = torch.randint(1, 8, (16, 5), generator=generator)
    tokens = torch.cat((word, torch.zeros(16, 1, dtype=torch.long), word), 1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = cross_entropy(model(tokens[:, :-1])[:, 5:].flatten(0, 1), tokens[:, 6:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.02
    assert torch.equal(model.generate(tokens[:, :6], 5), tokens)


# What is refused


@pytest.mark.parametrize(("options", "remedy"), [
    (dict(vocabulary=0), "vocabulary is 0"),
    (dict(layers=0), "layers is 0"),
    (dict(model_dim=0), "model_dim is 0"),
    (dict(heads=0), "heads is 0"),
    (dict(kv_heads=0), "kv_heads is 0"),
    (dict(hidden=0), "hidden is 0"),
    (dict(length=0), "length is 0"),
    (dict(model_dim=10, heads=4), r"multiple of heads.* 8$"),
    (dict(model_dim=2, heads=4), r"multiple of heads.* 4$"),
    (dict(heads=4, kv_heads=3), r"kv_heads is 3.* 4 heads.*divides"),
    (dict(scale=0.0), r"scale is 0.0.*positive"),
    (dict(scale=math.nan), r"scale is nan.*positive"),
    (dict(dropout=1.0), "dropout is 1.0"),
    (dict(dropout=-0.1), "dropout is -0.1"),
    (dict(window=0), "window is 0"),
    (dict(sinks=-1), "sinks is -1"),
    (dict(encoding="roper"), r"encoding .*'roper'.*'nope', 'sinusoidal'"),
    (dict(encoding=lambda **sizes: 7), r"encoding .*int.*ENCODINGS"),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(options, remedy):
    with pytest.raises(ValueError, match=remedy):
        Transformer(**{**SIZES, **options})


def test_tokens_that_do_not_fit_are_refused():
    model = make("rope")
    model(torch.tensor([[0, VOCABULARY - 1]]))
    model(torch.tensor([[0, VOCABULARY - 1]], dtype=torch.int32))
    for tokens in (draw()[0], draw()[None], draw().float(), draw() > 1, draw().to(torch.uint8)):
        with pytest.raises(ValueError, match=r"int64.*tokens\[None\]"):
            model(tokens)
    with pytest.raises(ValueError, match=r"tokens .*0 to 11.* 0 to 10.*vocabulary=12"):
        model(torch.tensor([[0, VOCABULARY]]))
    with pytest.raises(ValueError, match=r"tokens .*-1 to 3.* 0 to 10"):
        model(torch.tensor([[-1, 3]]))


def test_masks_that_do_not_fit_are_refused():
    model, tokens = make("rope"), draw()
    ones = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    for mask in (ones[0], ones[None], ones, ones[None, None], torch.ones(2, LENGTH)):
        with pytest.raises(ValueError, match=r"padding_mask .* \(B, L\), .* attention_mask"):
            model(tokens, padding_mask=mask)
    for mask in (ones[0], ones, ones[None], torch.ones(1, 1, LENGTH, LENGTH)):
        with pytest.raises(ValueError, match=r"attention_mask .* \(B, H, Lq, Lk\), .* padding_mask"):
            model(tokens, attention_mask=mask)
    model(tokens, attention_mask=ones[None, None])
    with pytest.raises(ValueError, match="does not broadcast"):
        model(tokens, attention_mask=ones[None, None, :, 1:])


def test_where_there_are_as_many_sequences_as_tokens_each_mask_is_what_it_is_called():
    model, tokens = make("rope"), draw(LENGTH)
    square = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu()
    padded = model(tokens, padding_mask=square)
    for n in (0, 3, LENGTH - 1):
        close(padded[n, n:], model(tokens[n : n + 1, n:])[0])
    with pytest.raises(ValueError, match="attention_mask"):
        model(tokens, attention_mask=square)


def test_a_cache_that_does_not_fit_is_refused():
    model, tokens = make("rope", window=3), draw()
    for cache in ([], [KVCache(3)], [KVCache(3)] * 3, [KVCache()] * 2, [KVCache(3), KVCache(4)]):
        with pytest.raises(ValueError, match=r"model\.cache\(\)"):
            model(tokens, cache=cache)
    with pytest.raises(ValueError, match=r"memory .*cache"):
        model(tokens, cache=model.cache(), memory=Memory(4))
    with pytest.raises(ValueError, match="at once"):
        make("rope", causal=False)(tokens, cache=make("rope").cache())
    with pytest.raises(ValueError, match="no_grad"):
        model.requires_grad_()(tokens, cache=model.cache())
    right = (torch.arange(LENGTH) < 5).expand(2, -1)
    with pytest.raises(ValueError, match=r"pad on the left.*window=None"):
        make("rope", window=3)(tokens, padding_mask=right, cache=model.cache())
    split, cache = make("rope", window=3), model.cache()
    split(tokens[:, :5], padding_mask=right[:, :5], cache=cache)
    with pytest.raises(ValueError, match="pad on the left"):
        split(tokens[:, 5:], padding_mask=right[:, 5:], cache=cache)


@pytest.mark.parametrize(("encoding", "said"), [
    (RoPE, r"encoding is the class RoPE.*model_dim.*RoPE\(\.\.\.\).*lambda model_dim, heads, head_dim, length"),
    (lambda: RoPE(8), r"encoding is a function.*model_dim"),
    (None, r"encoding is None.*NoPE\(\) for none"),
    (64, r"encoding is 64.*ENCODINGS"),
])  # fmt: skip
def test_what_makes_no_encoding_is_named_with_the_remedy(encoding, said):
    with pytest.raises(TypeError, match=said):
        Transformer(11, layers=1, model_dim=16, heads=2, encoding=encoding)


def test_a_class_that_takes_a_model_s_sizes_may_stand_for_an_encoding():
    class Own(Encoding):
        def __init__(self, model_dim, **sizes):
            super().__init__()
            self.model_dim = model_dim

    assert Transformer(11, layers=1, model_dim=16, heads=2, encoding=Own).encoding().model_dim == 16


def test_one_cache_in_place_of_a_list_is_refused():
    with pytest.raises(TypeError, match=r"model\.cache\(\)"):
        Transformer(11, layers=1, model_dim=16, heads=2)(torch.zeros(1, 2, dtype=torch.long), cache=KVCache())
