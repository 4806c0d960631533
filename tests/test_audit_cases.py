"""Positional mistakes from public bug reports, rebuilt in small: each is found with its cause, each remedy passes.

The reports are named beside each class or case, by repository and number. Some questions are there because of them:
packing in two rows, chunks longer than a window, the loop of a model's own, embeddings, casts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from handmade import GPT, T5, Decoder, Llama, State, heads
from torch import Tensor, nn

from posenc import alibi_slopes, scaling
from posenc.audit import Comparison, Finding, Report, Verdict, audit, compare, read_config

FILE = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 99}


def geometric(channels: int, base: float = 1e4, width: int | None = None) -> Tensor:
    return base ** -(torch.arange(0, channels, 2, dtype=torch.float64) / (width or channels))


class Turning(Llama):
    """A Llama whose rates, layers and channels that turn are given."""

    def __init__(self, freq: Tensor | None = None, layers: int = 2, turning: list[int] | None = None) -> None:
        super().__init__(layers=layers)
        self.freq = geometric(self.d) if freq is None else freq
        self.turning, self.layer = turning or [1] * layers, 0

    def block(self, n: int, *rest: Any) -> Tensor:
        self.layer = n
        return super().block(n, *rest)

    def rates(self) -> Tensor:
        return self.freq

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        if not self.turning[self.layer]:
            return x
        angle = pos[:, None, :, None] * self.rates()
        half = angle.shape[-1]
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


# ---- padding and packing ---------------------------------------------------------------------------------------------


class CountsRows(nn.Module):
    """transformers#48028: a mask is given, positions cannot be, and the rows of padding are counted."""

    def __init__(self, counted: bool) -> None:
        super().__init__()
        self.inner, self.counted = GPT(), counted

    def forward(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        rows = torch.arange(tokens.shape[1])[None]
        return self.inner(tokens, None if self.counted else rows, attention_mask)


class Packed(Llama):
    """axolotl#1375: boundaries of documents are dropped where a batch has more than one row."""

    packs = True

    def __init__(self, any_batch: bool) -> None:
        super().__init__()
        self.any_batch = any_batch

    def step(self, tokens: Tensor, state: Any, positions: Any = None, mask: Any = None) -> tuple[Tensor, State]:
        self.documents = None
        if positions is not None and (self.any_batch or len(positions) == 1) and state is None:
            self.documents = (positions == 0).cumsum(-1)
        return super().step(tokens, state, positions, mask)

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        see = super().see(lq, lk, mask)
        if self.documents is None:
            return see
        return see & (self.documents[:, None, :, None] == self.documents[:, None, None])


class TwoWay(nn.Module):
    """An encoder with rotations, windows on both sides in some layers, and a path of its own without padding."""

    def __init__(self, windows: tuple[int, ...] = (0, 0), falls_back: bool = False, masks: bool = True) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(99, 48), nn.Linear(48, 99)
        self.qkv = nn.ModuleList(nn.Linear(48, 144) for _ in windows)
        self.norm = nn.ModuleList(nn.LayerNorm(48) for _ in windows)
        self.windows, self.falls_back, self.masks = windows, falls_back, masks

    def forward(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        n = tokens.shape[1]
        places, x = torch.arange(n), self.tokens(tokens)
        apart = places[:, None] - places
        for window, norm, qkv in zip(self.windows, self.norm, self.qkv, strict=True):
            q, k, v = (heads(part, 6) for part in qkv(norm(x)).chunk(3, -1))
            angle = places[:, None] * geometric(8, 1e4 if window else 1.6e5)
            turned = torch.polar(torch.ones_like(angle), angle)
            q, k = (torch.view_as_real(torch.complex(*y.double().chunk(2, -1)) * turned).movedim(-1, -2).flatten(-2)
                    for y in (q, k))  # fmt: skip
            see = apart.abs() <= window if window else torch.ones(n, n, dtype=torch.bool)
            if attention_mask is not None and not bool(attention_mask.all()) and self.masks:
                see = see & attention_mask.bool()[:, None, None]
            elif self.falls_back:
                see = see.tril()
            scores = (q @ k.mT / 8**0.5).masked_fill(~see, -1e9).to(v.dtype)
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.head(x)


# ---- caches and generation -------------------------------------------------------------------------------------------


class Ring(Llama):
    """executorch#20346: a ring of two windows is written whole before a chunk attends."""

    def __init__(self, window: int, cut: bool) -> None:
        super().__init__()
        self.window, self.cut = window, cut

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().step(tokens, None, positions)[0]

    def step(self, tokens: Tensor, state: Any, positions: Any = None, mask: Any = None) -> tuple[Tensor, State]:
        outs, size, done = [], self.window if self.cut else 2 * self.window, 0
        self.kept = True
        for part in tokens.split(size, 1):
            pos = None if positions is None else positions[:, done : done + part.shape[1]]
            out, state = super().step(part, state, pos)
            done += part.shape[1]
            outs.append(out)
        self.kept = False
        return torch.cat(outs, 1), state

    kept = False

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        rows, cols = torch.arange(lk - lq, lk)[:, None], torch.arange(lk)
        see = (cols <= rows) & (cols > rows - self.window)
        if self.kept:  # what the ring has lost is not there
            see = see & (cols >= lk - 2 * self.window)
        return see[None, None]


class Evicts(Llama):
    """llama.cpp#3825: rows of a full cache move down twice, and their keys are turned by the last move alone."""

    rows, drop = 12, 3

    def __init__(self, adds: bool) -> None:
        super().__init__()
        self.adds = adds

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]
        self.starts = True
        out = super().step(tokens, None)[0]
        self.starts = False
        return out

    starts = False

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        see = super().see(lq, lk, mask)
        if not self.starts:
            return see
        first, held, firsts = 0, 0, []
        for _ in range(lk):
            if held == self.rows:
                first, held = first + 2 * self.drop, held - 2 * self.drop
            held += 1
            firsts.append(first)
        return see & (torch.arange(lk) >= torch.tensor(firsts)[:, None])

    def step(self, tokens: Tensor, state: Any, positions: Any = None, mask: Any = None) -> tuple[Tensor, State]:
        outs = []
        for one in tokens.split(1, 1):
            if state is not None and state["pos"].shape[1] == self.rows:
                by = 2 * self.drop
                state = {
                    "k": [self.turn(k[:, :, by:], torch.full((1, 1), -(by if self.adds else self.drop)))
                          for k in state["k"]],
                    "v": [v[:, :, by:] for v in state["v"]],
                    "pos": state["pos"][:, by:] - by, "next": state["next"] - by,
                }  # fmt: skip
            out, state = super().step(one, state)
            outs.append(out)
        return torch.cat(outs, 1), state

    crop = reorder = None  # type: ignore[assignment]


class MovesOn(Llama):
    """mlx-lm#1806: a count that a cache advances in place is read for keys before, and for queries after."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def step(self, tokens: Tensor, state: Any, positions: Any = None, mask: Any = None) -> tuple[Tensor, State]:
        self.late = tokens.shape[1] if self.in_place else 0
        return super().step(tokens, state)

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]
        self.late = 0
        return super().step(tokens, None)[0]

    def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q, pos + self.late), self.turn(k, pos)


class SharedKeys(Turning):
    """mlx-lm#1396: a layer that has the keys of another reads the count after that one moved it on."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late = late

    def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        by = pos.shape[1] if self.late and self.layer == 1 else 0
        return self.turn(q, pos + by), self.turn(k, pos)

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]
        return super().step(tokens, None)[0]


class Early(Llama):
    """sglang#25015: a drafter is told positions that its runner has moved on already."""

    def __init__(self, early: bool, gives: bool = False) -> None:
        super().__init__(layers=1)
        self.early = early

    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        pos = super().place(tokens, state, positions, mask)
        return pos + 1 if self.early and state["next"] else pos


class EarlyByItself(Early):
    """The same without an argument for positions."""

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]
        return super().step(tokens, None)[0]

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, State]:  # type: ignore[override]
        return super().step(tokens, state)


class Loop(GPT):
    """onnxruntime#12156: the loop around a model gives its first new token a position too many."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self.late = late

    def generate(self, tokens: Tensor, max_new_tokens: int) -> Tensor:
        out, state = self.step(tokens, None)
        for _ in range(max_new_tokens):
            tokens = torch.cat((tokens, out[:, -1:].argmax(-1)), 1)
            at = torch.full((1, 1), tokens.shape[1] - 1 + self.late)
            out, state = self.step(tokens[:, -1:], state, at)
        return tokens


class Embedded(GPT):
    """transformers#15736: embeddings that are given are counted from another number than tokens are."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def forward(  # type: ignore[override]
        self, input_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        x = self.tokens(input_ids) if inputs_embeds is None else inputs_embeds
        first = 2 if inputs_embeds is None else self.first
        pos = torch.arange(first, first + x.shape[1])[None] if position_ids is None else position_ids
        self.there = x + self.table(pos)
        tokens = torch.zeros(x.shape[:2], dtype=torch.long)
        return super().step(tokens, None, pos.expand(len(x), -1))[0]

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return self.there

    step = None  # type: ignore[assignment]


# ---- rates, layers, signs, casts -------------------------------------------------------------------------------------


class Stored(Turning):
    """executorch#19627 and Bacformer#36: rates in a buffer that no checkpoint holds, and that nobody filled."""

    def __init__(self, freq: Tensor) -> None:
        super().__init__(freq)
        del self.freq
        self.register_buffer("freq", freq.float(), persistent=False)


class Kinds(Turning):
    """ferrox#39 and mlxcel#1340: two kinds of layers, of which one is scaled, each with its window."""

    def __init__(self, local: float, everywhere: float) -> None:
        super().__init__(layers=6)
        self.local, self.everywhere = local, everywhere

    def rates(self) -> Tensor:
        if self.layer == 5:
            return geometric(16, 1e6) / self.everywhere
        return geometric(16, 1e4) / self.local

    def attend(self, q: Tensor, k: Tensor, v: Tensor, see: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        if self.layer != 5:
            lq, lk = see.shape[-2:]
            see = see & (torch.arange(lk) > torch.arange(lk - lq, lk)[:, None] - 8)
        return super().attend(q, k, v, see, bias)


class Linear(T5):
    """attention-gym#86: ALiBi with the other sign."""

    def __init__(self, sign: int) -> None:
        super().__init__()
        self.sign = sign
        self.bias = nn.Embedding(1, 1)  # stays for the signature of the parent

    def block(self, n: int, x: Tensor, pos: Tensor, kpos: Tensor, see: Tensor, state: State, new: State) -> Tensor:
        y = self.norm1[n](x)
        q, k, v = (heads(each[n](y), 4) for each in (self.q, self.k, self.v))
        k, v = self.keep(n, k, v, state, new)
        apart = (pos[:, :, None] - kpos[:, None])[:, None].to(x)
        return x + self.out[n](self.attend(q / 4, k, v, see, self.sign * alibi_slopes(4).to(x)[:, None, None] * apart))


class Buckets(T5):
    """gluon-nlp#1470: relative positions as query minus key, where T5's buckets take key minus query."""

    def __init__(self, sign: int) -> None:
        super().__init__(buckets=32)
        self.sign = sign

    def bucket(self, distance: Tensor) -> Tensor:
        return super().bucket((self.sign * distance).clamp(min=0))


class Autocast(Llama):
    """x-transformers#210: under autocast, a product of positions and frequencies runs in 16 bits."""

    def __init__(self, guarded: bool) -> None:
        super().__init__()
        self.guarded = guarded
        self.register_buffer("freq", geometric(self.d).float(), persistent=False)

    def angles(self, pos: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=not self.guarded, dtype=torch.bfloat16):
            angle = pos[:, :, None].to(self.freq) @ self.freq[None, None]
        return angle.float()[:, None]

    def forward(self, tokens: Tensor, position_ids: Tensor | None = None) -> Tensor:  # type: ignore[override]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().step(tokens, None, position_ids)[0].float()

    step = None  # type: ignore[assignment]


class Neighbours(Turning):
    """Pairs of neighbours, as a conversion is for."""

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        angle = pos[:, None, :, None] * self.freq
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def converted(source: Turning, key_heads: int) -> Neighbours:
    """llama.cpp#3364: weights of halves are permuted for neighbours, those of keys by a number of heads."""
    other = Neighbours()
    other.load_state_dict(source.state_dict())
    with torch.no_grad():
        for part, count in ((other.q, 4), (other.k, key_heads)):
            for layer in part:
                w = layer.weight
                w.copy_(w.view(count, 2, w.shape[0] // count // 2, -1).transpose(1, 2).reshape(w.shape))
    return other


LLAMA3 = FILE | {
    "rope_theta": 500_000.0, "max_position_embeddings": 131072, "head_dim": 16,
    "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip
NOPE = FILE | {"model_type": "smollm3", "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0],
               "no_rope_layer_interval": 4, "rope_theta": 1e4, "max_position_embeddings": 4096}  # fmt: skip
PARTLY = FILE | {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 10000, "max_position_embeddings": 2048}
GEMMA = FILE | {"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 16, "sliding_window": 8,
                "sliding_window_pattern": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
                "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}  # fmt: skip
MODERN = {"model_type": "modernbert", "hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 3,
          "local_attention": 8, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
          "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "vocab_size": 99}  # fmt: skip
BLOOM = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2, "vocab_size": 99}
T5_FILE = {"model_type": "t5", "d_model": 64, "num_heads": 4, "num_layers": 2, "vocab_size": 99,
           "relative_attention_num_buckets": 32}  # fmt: skip
PLAIN = FILE | {"rope_theta": 1e4, "max_position_embeddings": 256}


@dataclass(frozen=True)
class Case:
    """A broken model and what the audit says of it; and the model mended, of which nothing fails."""

    broken: Callable[[], Any]
    mended: Callable[[], Any]
    row: str
    words: str
    options: dict[str, Any] = field(default_factory=dict)


def llama3(factor: float) -> Turning:
    return Turning(scaling.llama3(geometric(16, 500_000.0), factor, trained=8192))


CASES = {
    "rows of padding are counted": Case(
        lambda: CountsRows(False), lambda: CountsRows(True), "left_pad", "although its mask is given",
    ),
    "packed in one row alone": Case(
        lambda: Packed(False), lambda: Packed(True), "packed_ids",
        "beside a row whose second document begins elsewhere",
    ),
    "a chunk longer than the window": Case(
        lambda: Ring(10, False), lambda: Ring(10, True), "chunks",
        "Chunks of up to 8 tokens pass, and chunks of 12 do not",
    ),
    "moved twice, turned once": Case(
        lambda: Evicts(False), lambda: Evicts(True), "step", "Logits match up to token 12",
    ),
    # Megatron-LM#6305: an option that is not forwarded
    "the factor does not arrive": Case(
        lambda: llama3(8.0), lambda: llama3(32.0), "angles",
        "the slow ones are 4 times too fast: the factor of the scaling, 32 in the configuration, seems to be 8",
        {"configuration": LLAMA3},
    ),
    # executorch#22043: a schedule that nobody reads
    "every layer turns": Case(
        lambda: Turning(layers=4), lambda: Turning(layers=4, turning=[1, 1, 1, 0]), "schedule",
        "Layer 3 rotates, and should not", {"configuration": NOPE},
    ),
    # transformers#43756: the same list with the opposite meaning
    "the schedule is inverted": Case(
        lambda: Turning(layers=4, turning=[0, 0, 0, 1]), lambda: Turning(layers=4, turning=[1, 1, 1, 0]), "schedule",
        "the list is read the other way round", {"configuration": NOPE},
    ),
    # pie#603: a kernel for partial rotation
    "exponents over the head": Case(
        lambda: Turning(geometric(8, width=16)), lambda: Turning(geometric(8)), "angles",
        "Exponents are taken over 16 channels (the width of the head), and not over the 8 that rotate",
        {"configuration": PARTLY},
    ),
    # semantic-router#3406: a fast path that gets neither the window nor the mask
    "a fast path without the window": Case(
        lambda: TwoWay((0, 0, 0)), lambda: TwoWay((0, 4, 4)), "schedule",
        "Layers 1, 2 see 23 tokens back, and should see 4",
        {"configuration": MODERN},
    ),
    "a fast path without the mask": Case(
        lambda: TwoWay((0, 4, 4), masks=False), lambda: TwoWay((0, 4, 4)), "right_pad", "The mask has no effect",
    ),
    # transformers#42820: a flag that decides where the mask is left out
    "causal where nothing is padded": Case(
        lambda: TwoWay(falls_back=True), TwoWay, "right_pad",
        "With padding in the batch tokens see later ones, and without it they do not",
    ),
    "rates of zero": Case(
        lambda: Stored(0 * geometric(16)), lambda: Stored(geometric(16)), "angles", "Nothing turns: all angles are 0",
        {"configuration": PLAIN},
    ),
    "rates that nobody filled": Case(
        lambda: Stored(torch.tensor([7e-18, 0.31, 7e-5, 2.2, 0.0, 1.0, 3e-9, 0.5])), lambda: Stored(geometric(16)),
        "angles",
        "no falling series: 7e-18, 0.31, 7e-05, 2.2", {"configuration": PLAIN},
    ),
    "the count moves on in place": Case(
        lambda: MovesOn(True), lambda: MovesOn(False), "step",
        "token 9 has its query as at position 19, and its key is right",
    ),
    "shared keys, a late count": Case(
        lambda: SharedKeys(True), lambda: SharedKeys(False), "prefix", "the queries of layer 1 move with the length",
    ),
    "a loop that is one late": Case(lambda: Loop(1), lambda: Loop(0), "generate", "whose positions are 1 too large"),
    "the sign of ALiBi": Case(
        lambda: Linear(+1), lambda: Linear(-1), "bias", "ALiBi's slopes have the other sign: far keys are favoured",
        {"configuration": BLOOM},
    ),
    "the sign of T5's distances": Case(
        lambda: Buckets(-1), lambda: Buckets(+1), "bias", "One bucket for all distances", {"configuration": T5_FILE},
    ),
    "local layers are scaled too": Case(
        lambda: Kinds(8.0, 8.0), lambda: Kinds(1.0, 8.0), "angles",
        "In layers 0, 1, 2, 3, 4 all angles are 0.125 times what they should be: a scaling by 8",
        {"configuration": GEMMA},
    ),
    "nobody is scaled": Case(
        lambda: Kinds(1.0, 1.0), lambda: Kinds(1.0, 8.0), "angles",
        "In layer 5 all angles are 8 times what they should be: the factor of the linear scaling",
        {"configuration": GEMMA},
    ),
    "the other kind is scaled": Case(
        lambda: Kinds(8.0, 1.0), lambda: Kinds(1.0, 8.0), "angles", "Of sliding_attention layers: all angles are 0.125",
        {"configuration": GEMMA},
    ),
    "one position too early": Case(
        lambda: Early(True), lambda: Early(False), "step", "gets position 11 instead of 10 (step_place): one too many",
    ),
    "one position too early, and none can be given": Case(
        lambda: EarlyByItself(True), lambda: EarlyByItself(False), "step",
        "lies at position 11: one too many (cached_look)",
    ),
    "embeddings from another number": Case(
        lambda: Embedded(1), lambda: Embedded(2), "embeds", "Embeddings are counted from 1, and tokens from 2",
    ),
    "angles under autocast": Case(
        lambda: Autocast(False), lambda: Autocast(True), "shift", "something casts to 16 bits, such as autocast",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_model_is_found_with_its_cause(case: Case) -> None:
    torch.manual_seed(0)
    report = audit(case.broken(), only=[case.row], **case.options)
    assert case.words in report[case.row].cause, str(report)
    assert report[case.row].verdict == "fails"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_fails_of_a_model_that_was_mended(case: Case) -> None:
    torch.manual_seed(0)
    report = audit(case.mended(), **case.options)
    assert not report.failures, str(report)


def test_a_server_whose_one_pass_sees_all_is_told_from_where_it_evicts() -> None:
    class Sees(Evicts):
        def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
            return Decoder.see(self, lq, lk, mask)

    assert "Logits match up to token 12" in audit(Sees(True))["step"].cause


# ---- what a reference tells ------------------------------------------------------------------------------------------


def beside(reference: Turning, candidate: Turning) -> Comparison:
    candidate.load_state_dict(reference.state_dict(), strict=False)
    return compare(reference, candidate)


class HalfApart(Turning):
    """pie#603: pairs of a partial rotation half a head apart, and not half of what turns."""

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        order = [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]
        return super().turn(x[..., order], pos)[..., torch.tensor(order).argsort()]


def test_partners_half_a_head_apart_are_named_beside_a_reference() -> None:
    torch.manual_seed(0)
    found = beside(Turning(geometric(8)), HalfApart(geometric(8)))
    assert found.kinds == ("partial",) and "partners 8 apart" in found.differences[0].candidate
    assert beside(Turning(geometric(8)), Turning(geometric(8))).same


def test_a_conversion_keeps_its_weights_and_a_wrong_one_is_told_by_what_it_permuted() -> None:
    torch.manual_seed(0)
    source = Turning()
    right, wrong = converted(source, 2), converted(source, 4)
    assert audit(right, reference=source, only=["reference"])["reference"].verdict == "pass"
    assert audit(right, reference=source, only=["reference"], randomise=False).passed
    found = audit(wrong, reference=source, only=["reference"])["reference"]
    assert found.verdict == "fails" and "keys of layer 0 in another order of channels than its queries" in found.cause
    assert compare(source, right).same and not compare(source, wrong).positional


def test_a_reference_names_the_layer_the_sign_and_the_window() -> None:
    torch.manual_seed(0)
    layer = audit(Turning(layers=4), reference=Turning(layers=4, turning=[1, 1, 1, 0]), only=["reference"])["reference"]
    assert "Layers in layer 3: a rotation in place of no rotation (compare)" in layer.cause
    sign = audit(Linear(+1), reference=Linear(-1), only=["reference"])["reference"]
    assert "when its distances have the other sign (reference_at)" in sign.cause
    window = audit(TwoWay((0, 0)), reference=TwoWay((0, 4)), only=["reference"])["reference"]
    assert "window in layer 1: all keys in place of a window of 5 keys" in window.cause


def test_a_model_whose_configuration_changed_after_it_was_built_turns_by_the_old_one() -> None:
    """Soup#793: as a trainer does that writes a scaling into `model.config`."""
    scaled = PLAIN | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    report = audit(Turning(), configuration=scaled)
    assert "the factor of the linear scaling, 4 in the configuration, is not applied" in report["angles"].cause
    assert not audit(Turning(geometric(16) / 4), configuration=scaled).failures


def test_files_of_encoders_are_read_with_their_scheme() -> None:
    """ferritin#197: the field that says which scheme an ESM has."""
    esm = {"model_type": "esm", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 1,
           "max_position_embeddings": 1026, "vocab_size": 33}  # fmt: skip
    assert read_config(esm | {"position_embedding_type": "absolute"}).scheme == "learned"
    assert read_config(esm | {"position_embedding_type": "rotary"}).scheme == "rope"
    assert read_config(MODERN).kinds == {"full": 1, "sliding": 2}


# ---- what is not known is said ---------------------------------------------------------------------------------------


def test_what_was_not_asked_is_in_the_summary() -> None:
    report = audit(CountsRows(True))
    assert report.summary.startswith("nothing fails of what was asked; ")
    assert "not asked: positions, a cache, generation, packing" in report.summary
    slow = Report((Finding("step", "?", Verdict.TIMED_OUT), Finding("order", "?", Verdict.BLIND, 1e-7)))
    assert slow.summary == "nothing fails of what was asked; nearly blind with these weights (order); timed out: step"


def test_a_model_that_sees_no_order_says_so_and_fails_where_a_scheme_was_promised() -> None:
    blind = Turning(0 * geometric(16), layers=1)  # with more, the causal mask alone tells the order
    found = audit(blind, only=["order"])["order"]
    assert found.verdict == "property" and "no position enters" in found.cause
    found = audit(blind, only=["order"], configuration=PLAIN | {"num_hidden_layers": 1})["order"]
    assert found.verdict == "fails" and "though the scheme should be relative" in found.cause


class Ignoring:
    """An adapter that says that it takes neither, and ignores them without a word."""

    takes_positions = takes_mask = False
    vocabulary = 99

    def __init__(self) -> None:
        self.module = Llama()

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.module(tokens)


def test_an_adapter_is_believed_that_takes_neither_positions_nor_a_mask() -> None:
    report = audit(Ignoring())
    assert not report.failures
    assert {report[name].verdict for name in ("arange", "shift", "left_pad", "rows")} == {"does not apply"}


class Refusing(Llama):
    """Refuses positions in words, or raises what Python raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        if positions is not None:
            raise self.error
        return super().place(tokens, state, positions, mask)


def test_a_refusal_in_words_is_no_failure_and_one_error_is_one_row() -> None:
    report = audit(Refusing(ValueError("positions are not supported with this bias")))
    assert not report.failures
    assert "The model refuses it: positions are not supported" in report["arange"].cause
    report = audit(Refusing(KeyError("pos")))
    assert [f.name for f in report.failures if not f.follows] == ["arange"]
    assert "arange, and" in report.summary


class Scaled(GPT):
    """Branches that are scaled by a number near zero at the start, as with LayerScale."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma_1 = nn.ParameterList(nn.Parameter(torch.full((64,), 1e-5)) for _ in range(2))

    def attend(self, *given: Any) -> Tensor:
        return super().attend(*given)

    def block(self, n: int, x: Tensor, *rest: Any) -> Tensor:
        return x + self.gamma_1[n] * (super().block(n, x, *rest) - x)

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return torch.ones(1, 1, lq, lk, dtype=torch.bool)


def test_branches_that_are_switched_off_at_the_start_are_enlivened() -> None:
    assert audit(Scaled(), only=["future"], causal=True)["future"].verdict == "fails"


def test_a_vocabulary_can_be_given() -> None:
    def needs_twelve(tokens: Tensor) -> Tensor:
        if tokens.shape[1] < 12:
            raise RuntimeError("shape")
        return nn.functional.one_hot(tokens % 30, 40).float()

    assert audit(needs_twelve, only=["again"]).facts["vocabulary"] == 40
    assert audit(needs_twelve, only=["again"], vocabulary=25).facts["vocabulary"] == 25


def test_a_model_of_some_lengths_alone_is_asked_at_those() -> None:
    def grid(tokens: Tensor) -> Tensor:
        rows = tokens.unflatten(1, (-1, 6))
        return nn.functional.one_hot(rows.flatten(1), 30).float() if tokens.shape[1] % 6 == 0 else rows

    report = audit(grid)
    assert not report.failures
    assert "takes texts of some lengths alone" in report["prefix"].cause.lower() or report["prefix"].verdict != "error"


class Video(Turning):
    """lattice#1101: text goes on after the largest coordinate of a video, and time is left out of them."""

    frames, height, width = 6, 1, 2

    def __init__(self, counts_time: bool) -> None:
        super().__init__()
        self.start = max(self.frames, self.height, self.width) if counts_time else max(self.height, self.width)
        self.clip = nn.Parameter(torch.randn(1, self.frames * self.height * self.width, 64))

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return torch.cat((self.clip.expand(len(tokens), -1, -1), self.tokens(tokens)), 1)

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]
        time = torch.arange(self.frames).repeat_interleave(self.height * self.width)
        pos = torch.cat((time, self.start + torch.arange(tokens.shape[1])))[None].expand(len(tokens), -1)
        n = pos.shape[1]
        state: State = {"k": [None] * 2, "v": [None] * 2, "pos": None, "next": 0}
        new: State = {"k": [], "v": []}
        x = self.enter(tokens, pos)
        for layer in range(2):
            x = self.block(layer, x, pos, pos, self.see(n, n, None), state, new)
        return self.leave(x)[:, -tokens.shape[1] :]


def test_a_text_that_goes_on_at_another_place_behind_a_video_is_named_beside_a_reference() -> None:
    torch.manual_seed(0)
    right, wrong, same = Video(True), Video(False), Video(True)
    for other in (wrong, same):
        other.load_state_dict(right.state_dict())
    found = compare(right, wrong)
    assert found.kinds == ("offset",) and found.positional and not found.same
    assert "4 positions nearer to the 12 rows that stand before it" in found.differences[0].candidate
    assert compare(right, same).same
