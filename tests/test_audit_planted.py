"""Mistakes that people make, planted in models by hand: each is found, by the test and for the cause that name it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from handmade import GPT, T5, Decoder, Llama, State
from torch import Tensor, nn

from posenc.audit import Report, audit
from posenc.audit.checks import CHECKS


class ByBatchRow(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return torch.arange(len(tokens))[:, None].expand_as(tokens) if positions is None else positions


class OffByOneWhenCached(Llama):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        pos = super().place(tokens, state, positions, mask)
        return pos + 1 if state["next"] and positions is None else pos


class OffByOneAlways(GPT):
    """Without an argument for positions, so that a whole pass cannot be asked for other ones in `step`."""

    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, positions, mask) + (1 if state["next"] else 0)


class RestartsWhenCached(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return (
            torch.arange(tokens.shape[1])[None]
            if positions is None and mask is None
            else super().place(tokens, state, positions, mask)
        )


class RoundedAngles(Llama):
    def angles(self, pos: Tensor) -> Tensor:
        freq = self.base ** -(torch.arange(0, self.d, 2, dtype=torch.float64) / self.d)
        return (pos[:, None, :, None].bfloat16() * freq.bfloat16()).double()


class RoundedByCast(Llama):
    """Frequencies in a buffer, which `model.bfloat16()` rounds with everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("freq", self.base ** -(torch.arange(0, self.d, 2) / self.d), persistent=False)

    def angles(self, pos: Tensor) -> Tensor:
        return pos[:, None, :, None].to(self.freq.dtype) * self.freq


class QueriesOnly(Llama):
    def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q, pos), k


class SineForCosine(Llama):
    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        sin = self.angles(pos).sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat((a * sin - b * sin, b * sin + a * sin), -1)


class TwoConventions(Llama):
    """Angles for neighbours as pairs, and a turn of halves."""

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        angle = self.angles(pos).to(x.dtype).repeat_interleave(2, -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()


class NeverShortAgain(Llama):
    longest = 0

    def angles(self, pos: Tensor) -> Tensor:
        self.longest = max(self.longest, int(pos.max()))
        return super().angles(pos) / (1 + self.longest / 64)


class ScaledByLength(Llama):
    """Dynamic scaling from the first token on: the angles of a prompt depend on how long it is."""

    def angles(self, pos: Tensor) -> Tensor:
        return super().angles(pos) / (1 + pos.shape[1] / 64)


class MaskDropped(Llama):
    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return super().see(lq, lk, None)


class MaskTurned(Llama):
    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return super().see(lq, lk, None if mask is None else 1 - mask.long())


class MaskOfOneRow(Llama):
    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return super().see(lq, lk, None if mask is None else mask[:1])


class PositionsOfOneRow(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, positions, mask)[:1]


class IgnoresPositions(Llama):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, None, None)


class IgnoresPositionsInATable(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, None, None)


class NoPositions(Llama):
    def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        return q, k


class ForgetsATable(T5):
    """Beams: keys and values move, their positions do not."""

    def reorder(self, state: State, order: Tensor) -> State:
        return {**super().reorder(state, order), "pos": state["pos"]}


class ForgetsALayer(Llama):
    def reorder(self, state: State, order: Tensor) -> State:
        done = super().reorder(state, order)
        done["v"][1] = state["v"][1]
        return done


class CropForgetsPositions(GPT):
    def crop(self, state: State, n: int) -> State:
        return {**super().crop(state, n), "next": state["next"]}


class CropForgetsKeys(T5):
    def crop(self, state: State, n: int) -> State:
        """The first tokens go in place of the last ones."""
        cut = super().crop(state, n)
        return {**cut, "k": [k[:, :, n:] for k in state["k"]]}


class SeesOneAhead(Llama):
    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq + 1)[None, None] & super().see(lq, lk, mask).any(
            -1, True
        )


class ChunksSeeAhead(Llama):
    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        seen = super().see(lq, lk, mask)
        return torch.ones_like(seen) if lk > lq else seen


class ChunksSeeNoPast(Llama):
    """The mask's diagonal begins at the first key in place of the cache's end."""

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return torch.ones(lq, lk, dtype=torch.bool).tril()[None, None] if 1 < lq < lk else super().see(lq, lk, mask)


class NothingToSeeThenAhead(ChunksSeeAhead):
    """After 16 tokens, one cached token finds its row masked everywhere; in chunks, tokens see later ones."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, see: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        return super().attend(q, k, v, see, bias) * (float("nan") if q.shape[2] == 1 and k.shape[2] > 16 else 1.0)


class CountsPaddingWhenCached(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, positions, None if state["next"] else mask)


class TurnedTwice(Llama):
    """Keys go into the cache raw and turn by the positions of the present call."""

    def block(self, n: int, x: Tensor, pos: Tensor, kpos: Tensor, see: Tensor, state: State, new: State) -> Tensor:
        if state["k"][n] is not None:
            state = {**state, "k": [self.turn(k, state["pos"]) for k in state["k"]]}
        return super().block(n, x, pos, kpos, see, state, new)


class ScaledByBatch(Llama):
    """Activations at a place are scaled by their size over the batch, as BatchNorm does."""

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        x = super().enter(tokens, pos)
        return x / x.square().mean((0, 2), keepdim=True).sqrt()


class ClampsInPlace(GPT):
    """Tokens that are not known become the last one, in the caller's tensor."""

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return super().enter(tokens, pos.sub_(1).clamp_(min=0)) + self.tokens(tokens.clamp_(max=50))


class Noisy(Llama):
    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return nn.functional.dropout(super().enter(tokens, pos), 0.1, training=True)


class Counts(Llama):
    """A position that goes on from call to call."""

    called = 0

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        self.called += 1
        return super().enter(tokens, pos) * (1 + self.called / 100)


class Detached(Llama):
    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        x = super().enter(tokens, pos)
        return torch.cat((x[:, :-1].detach(), x[:, -1:]), 1)


PLANTED: list[tuple[type[Decoder], str, str]] = [  # the mistake, the test that finds it, and words of its cause
    (ByBatchRow, "neighbours", "depends on the row in the batch"),
    (OffByOneWhenCached, "step", "It passes when positions are given (step_ids)"),
    (OffByOneWhenCached, "step", "gets position 11 instead of 10 (step_place): one too many"),
    (OffByOneAlways, "step", "gets position 11 instead of 10 (step_place): one too many"),
    (RestartsWhenCached, "step", "gets position 0 instead of 10 (step_place): positions restart at 0"),
    (RoundedAngles, "shift", "The change grows with the shift"),
    (RoundedByCast, "far", "times as much as rounding does"),
    (QueriesOnly, "shift", "equal tokens get equal logits at every position (constant)"),
    (SineForCosine, "shift", "equal tokens get equal logits at every position (constant)"),
    (TwoConventions, "shift", "equal tokens get equal logits at every position (constant)"),
    (NeverShortAgain, "fresh", "two calls in a row agree (again)"),
    (ScaledByLength, "prefix", "the length of the text changes earlier logits"),
    (ScaledByLength, "step", "It follows from `prefix`"),
    (MaskDropped, "left_pad", "The mask has no effect"),
    (MaskTurned, "left_pad", "A mask that marks every token as real changes logits"),
    (MaskOfOneRow, "rows", "It passes alone (left_pad_ids)"),
    (PositionsOfOneRow, "rows", "It passes alone (left_pad_ids)"),
    (IgnoresPositions, "stretch", "padding between tokens changes logits (holes)"),
    (IgnoresPositionsInATable, "stretch", "equal tokens differ by position (constant)"),
    (IgnoresPositionsInATable, "left_pad_ids", "explicit positions have no effect (stretch)"),
    (ForgetsATable, "reorder", "where each text begins is not reordered"),
    (ForgetsALayer, "reorder", "the past of another row"),
    (CropForgetsPositions, "crop", "keys are removed, but positions are not reset"),
    (CropForgetsKeys, "crop", "Removed tokens still change the logits"),
    (SeesOneAhead, "future", "ahead, over all layers together"),
    (ChunksSeeAhead, "chunks", "tokens of a chunk see later ones of it (chunk_ahead)"),
    (ChunksSeeNoPast, "chunks", "several tokens added to a cache do not"),
    (NothingToSeeThenAhead, "step", "Logits are not finite in this call"),
    (NothingToSeeThenAhead, "chunks", "It follows from `step`"),
    (CountsPaddingWhenCached, "step_left", "a cached call counts padding"),
    (TurnedTwice, "step", "the key of token 1 lies at position 2 (cached_look)"),
    (ScaledByBatch, "neighbours", "depends on the other sequences in the batch"),
    (ClampsInPlace, "inputs", "A call changes its tokens and positions in place"),
    (Noisy, "again", "The model is random"),
    (Counts, "again", "keeps state between calls"),
    (Detached, "gradient", "change the last logits, but get no gradient"),
]


#: Questions without a row here: some have their planted mistake below, in test_audit_hf.py or in
#: test_audit_encoders.py; a new one has a row.
ELSEWHERE = {
    "order", "reach", "constant", "arange", "right_pad", "step_ids", "chunks_ids", "resume", "generate",
    "generate_left", "generate_nocache", "static", "beams", "lookup", "generate_on", "packed_ids", "packed_default",
    "reference", "angles",
    "embeds", "reach_ahead", "order_ahead", "source_pad", "schedule", "bias",
}  # fmt: skip


def test_every_question_has_a_planted_mistake() -> None:
    asked = {name for name, check in CHECKS.items() if not check.partner}
    lacking = asked - {test for _, test, _ in PLANTED} - ELSEWHERE
    assert not lacking, (
        f"no mistake is planted for {', '.join(lacking)}: write a model with one, and its row in PLANTED"
    )
    assert asked >= ELSEWHERE


def report(kind: type[nn.Module], *args: Any, **options: Any) -> Report:
    torch.manual_seed(0)
    return audit(kind(*args), **options)


@pytest.mark.parametrize(
    ("kind", "test", "words"), PLANTED, ids=[f"{kind.__name__}-{test}" for kind, test, _ in PLANTED]
)
def test_a_planted_mistake_is_found_and_its_cause_is_named(kind: type[Decoder], test: str, words: str) -> None:
    found = report(kind, only=[test])[test]
    assert found.verdict == "fails", found
    assert words in found.cause
    assert found.look or "It follows from" in words


# ---- with a reference ------------------------------------------------------------------------------------------------


class Doubled(Llama):
    def angles(self, pos: Tensor) -> Tensor:
        return super().angles(2 * pos)


class OtherBase(Llama):
    def __init__(self) -> None:
        super().__init__(base=500_000.0)


LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 1e4}


def test_doubled_positions_are_found_with_a_reference_and_not_without() -> None:
    assert report(Doubled).passed
    found = report(Doubled, reference=Llama(), only=["reference"])["reference"]
    assert found.verdict == "fails"
    assert "when its positions are doubled (reference_at)" in found.cause


def test_the_right_model_agrees_with_a_reference_that_has_other_weights_of_the_same_names() -> None:
    found = report(Llama, reference=Llama(), only=["reference"])["reference"]
    assert found.verdict == "pass"
    assert found.off is not None and found.off < 1e-9


def test_a_reference_with_other_parameters_is_compared_at_the_weights_as_they_are() -> None:
    model = Llama().eval()
    found = audit(model, reference=lambda tokens: model(tokens), only=["reference"])
    assert found["reference"].passed and found["reference"].verdict == "pass"
    assert any("weights stay as they are" in note for note in found.notes)
    assert audit(model, reference=lambda tokens: model(tokens) + 1, only=["reference"])["reference"].verdict == "fails"


def test_doubled_positions_and_another_base_are_found_by_the_angles_of_a_configuration() -> None:
    assert report(Llama, configuration=LLAMA, only=["angles"])["angles"].verdict == "pass"
    doubled = report(Doubled, configuration=LLAMA, only=["angles"])["angles"]
    assert doubled.verdict == "fails"
    assert "All angles are 2 times" in doubled.cause
    other = report(OtherBase, configuration=LLAMA, only=["angles"])["angles"]
    assert other.verdict == "fails"
    assert other.cause == "The base is 500,000, and not 10,000."


def test_angles_may_be_given_as_they_are() -> None:
    angles = 1e4 ** -(torch.arange(8) / 8)
    assert report(Llama, reference=angles, only=["angles"])["angles"].verdict == "pass"
    assert report(Doubled, reference=angles.tolist(), only=["angles"])["angles"].verdict == "fails"


def test_no_positions_are_told_as_a_property_and_fail_where_a_configuration_names_a_scheme() -> None:
    assert report(NoPositions, only=["stretch"])["stretch"].verdict == "property"
    found = report(NoPositions, only=["stretch"], configuration=LLAMA)["stretch"]
    assert found.verdict == "fails"
    assert "the scheme should be relative" in found.cause


def test_a_window_that_is_not_applied_is_found_with_a_configuration() -> None:
    window = LLAMA | {"model_type": "mistral", "sliding_window": 8}
    found = report(Llama, only=["reach"], configuration=window)["reach"]
    assert found.verdict == "fails"
    assert "the configuration's windows allow 14" in found.cause
