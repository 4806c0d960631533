"""posenc.transformer.memory: segments in turn, with a memory, are one long sequence as far as the memory reaches."""

import pytest
import torch
from torch import Tensor

from posenc import ENCODINGS
from posenc.transformer.memory import Memory, following
from posenc.transformer.model import Transformer
from tests.test_model import LENGTH, MODEL, VOCABULARY, Raw, close, draw, make

every = pytest.mark.parametrize("name", ENCODINGS)


def in_segments(model: Transformer, tokens: Tensor, sizes: list[int], memory: Memory, **options) -> Tensor:
    return torch.cat([model(segment, memory=memory, **options) for segment in tokens.split(sizes, 1)], 1)


@every
@pytest.mark.parametrize("options", [{}, dict(every_layer=True, kv_heads=1), dict(shared=False, window=3, sinks=1)])
def test_a_memory_of_the_whole_history_is_one_full_pass_at_any_depth(name, options):
    model, tokens = make(name, layers=3, **options), draw()
    for sizes in ([3, 3, 3], [1, 5, 3], [LENGTH], [4, 0, 5]):
        close(in_segments(model, tokens, sizes, Memory(LENGTH)), model(tokens))


@every
def test_a_shorter_memory_sees_less(name):
    model, tokens = make(name, layers=3), draw()
    full = model(tokens)
    found = in_segments(model, tokens, [3, 3, 3], Memory(3))
    close(found[:, :6], full[:, :6])
    assert (found - full)[:, 6:].abs().max() > 1e-3
    none = in_segments(model, tokens, [3, 3, 3], Memory(0))
    apart = [model(part, torch.arange(3) + 3 * n) for n, part in enumerate(tokens.split(3, 1))]
    close(none, torch.cat(apart, 1))  # positions go on, although nothing is remembered


def test_context_grows_with_depth():
    """With n layers a token sees n · length tokens back (and its own segment)."""
    for layers in (1, 2, 3):
        model, tokens = make("rope", layers=layers), draw(1, 10)
        last = in_segments(model, tokens, [1] * 10, Memory(2))[0, -1]
        seen = []
        for n in range(10):
            other = tokens.where(torch.arange(10) != n, (tokens + 1) % VOCABULARY)
            if (in_segments(model, other, [1] * 10, Memory(2))[0, -1] - last).abs().max() > 1e-12:
                seen.append(n)
        assert seen == list(range(10 - 1 - 2 * layers, 10))


@pytest.mark.parametrize("name", ["nope", "rope", "alibi"])
def test_remembering_states_equals_caching_keys(name):
    model, tokens = make(name), draw()
    cache = model.cache()
    cached = torch.cat([model(part, cache=cache) for part in tokens.split([4, 2, 3], 1)], 1)
    close(in_segments(model, tokens, [4, 2, 3], Memory(LENGTH)), cached)


def test_keys_that_depend_on_the_length_are_made_anew():
    rope = make("rope")
    raw, tokens = make(Raw(MODEL // 2)), draw()
    raw.load_state_dict(rope.state_dict())
    close(in_segments(raw, tokens, [4, 2, 3], Memory(LENGTH)), rope(tokens), atol=1e-6)


@every
def test_no_gradient_flows_into_the_memory(name):
    model, tokens, memory = make(name).requires_grad_(), draw(), Memory(4)
    model(tokens[:, :5], memory=memory)
    assert not any(state.requires_grad for state in memory.states)
    # the same states as constants give the same gradients
    model(tokens[:, 5:], memory=memory).sum().backward()
    found = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    other = Memory(4)
    with torch.no_grad():
        model(tokens[:, :5], memory=other)
    model(tokens[:, 5:], memory=other).sum().backward()
    for key, gradient in found.items():
        close(model.get_parameter(key).grad, gradient)
    model.zero_grad()
    model(tokens)[:, 5:].sum().backward()  # and a full pass gives others
    assert (model.embedding.weight.grad - found["embedding.weight"]).abs().max() > 1e-3


def test_it_trains_segment_by_segment():
    model, memory = Transformer(VOCABULARY, layers=2, model_dim=8, heads=2), Memory(6)
    for segment in draw(2, 12).split(3, 1):
        model(segment, memory=memory).square().sum().backward()
    assert len(memory) == 6
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@every
@pytest.mark.parametrize("options", [{}, dict(window=3, sinks=1), dict(every_layer=True)])
def test_padding_is_not_remembered_as_if_it_were_a_token(name, options):
    model, tokens = make(name, **options), draw(3)
    mask = torch.ones(3, LENGTH, dtype=torch.bool)
    mask[0, :4] = mask[1, 7:] = False
    memory, parts = Memory(LENGTH), []
    for part in torch.arange(LENGTH).split([2, 3, 4]):
        parts.append(model(tokens[:, part], padding_mask=mask[:, part], memory=memory))
    found = torch.cat(parts, 1)
    for row, real, sequence in zip(found, mask, tokens, strict=True):
        close(row[real], model(sequence[real][None])[0])
    assert memory.next.tolist() == [[5], [7], [9]]


def test_a_mask_may_come_after_a_segment_without_one():
    model, tokens, memory = make("rope"), draw(), Memory(LENGTH)
    real = torch.tensor([[True, True], [False, True]])
    first = model(tokens[:, :7], memory=memory)
    found = torch.cat((first, model(tokens[:, 7:], padding_mask=real, memory=memory)), 1)
    close(found[0], model(tokens[:1])[0])
    close(found[1, [*range(7), 8]], model(tokens[1:, [*range(7), 8]])[0])


def test_what_a_memory_holds():
    memory = Memory(3)
    assert (len(memory), memory.states, memory.positions, memory.next) == (0, [], None, None)
    assert memory.length == 3
    x = torch.arange(10.0).reshape(1, 5, 2)
    pos = torch.arange(5) + 7
    assert torch.equal(memory.join(pos), pos)
    memory.extend([x[:, :2], -x[:, :2]], pos[:2])
    assert (len(memory), memory.positions.tolist(), memory.next.tolist()) == (2, [7, 8], [9])
    assert memory.join(pos[2:]).tolist() == [7, 8, 9, 10, 11]
    memory.extend([x[:, 2:], -x[:, 2:]], pos[2:])
    assert (len(memory), memory.positions.tolist(), memory.next.tolist()) == (3, [9, 10, 11], [12])
    assert torch.equal(memory.states[0], x[:, 2:])
    assert torch.equal(memory.states[1], -x[:, 2:])
    memory.extend([x[:, :0], x[:, :0]], pos[:0])
    assert (len(memory), memory.positions.tolist(), memory.next.tolist()) == (3, [9, 10, 11], [12])
    memory.extend([x[:, :1], x[:, :1]], torch.tensor([[2]]))
    assert memory.positions.tolist() == [[10, 11, 2]]
    assert memory.next.tolist() == [[12]]
    assert memory.join(torch.tensor([5, 6])).tolist() == [[10, 11, 2, 5, 6]]
    with pytest.raises(ValueError, match="shorter"):
        memory.extend([x[:, :1]], torch.tensor([13]))  # of one layer only


def test_the_next_position_follows_the_last():
    assert following(torch.arange(0)) is None
    assert following(torch.tensor([3, 9, 4])).tolist() == [10]
    assert following(torch.tensor([[3, 9], [-1, -1]])).tolist() == [[10], [0]]
    assert following(torch.tensor([[3], [9]]), torch.tensor([[6], [6]])).tolist() == [[6], [10]]
    assert following(torch.arange(0), torch.tensor([4])).tolist() == [4]


def test_a_memory_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="length is -1"):
        Memory(-1)
    model, tokens, memory = make("rope"), draw(), Memory(4)
    model(tokens, memory=memory)
    for other, batch in ((make("rope", layers=3), 2), (make("rope", model_dim=16), 2), (model, 3)):
        with pytest.raises(ValueError, match=r"new Memory\(4\)"):
            other(draw(batch), memory=memory)
    assert memory.next.tolist() == [LENGTH]
    with pytest.raises(ValueError, match=r"2 layers, 2 sequences .* 8 .* 2, 3 and 8"):
        model(draw(3), memory=memory)
