"""posenc.schemes.rope and posenc.schemes.layout against loops, and the properties that the chapter derives."""

import copy
import math
import pickle
import re
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from posenc import RoPE, attend, convert_layout, frequencies, layout_permutation, rotate
from posenc.schemes.rope import _rotate_eagerly, rotate_by, rotate_pairs

LAYOUTS = ["interleaved", "half"]
DIMS = st.integers(1, 16).map(lambda n: 2 * n)
POSITIONS = st.integers(-(2**20), 2**20)
BASES = st.floats(1.5, 1e6)


def oracle(x: Tensor, pos: Tensor, freq: Tensor, layout: str) -> Tensor:
    """x (L, d): every pair of channels times its own rotation matrix."""
    out = torch.zeros_like(x, dtype=torch.float64)
    half = x.shape[-1] // 2
    for m, p in enumerate(pos.tolist()):
        for t, w in enumerate(freq.tolist()):
            a, b = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + half)
            c, s = math.cos(p * w), math.sin(p * w)
            out[m, a] = c * x[m, a] - s * x[m, b]
            out[m, b] = s * x[m, a] + c * x[m, b]
    return out


def vectors(dim: int, count: int = 1, seed: int = 0) -> Tensor:
    return torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def exact(dim: int, base: float = 10_000.0) -> Tensor:
    return frequencies(dim, base, dtype=torch.float64)


def at(*pos: int) -> Tensor:
    return torch.tensor(pos)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(pos=st.lists(POSITIONS, min_size=1, max_size=4), dim=DIMS, base=BASES)
def test_rotate_equals_loops(layout, pos, dim, base):
    x, pos = vectors(dim, len(pos)), torch.tensor(pos)
    freq = exact(dim, base)
    torch.testing.assert_close(rotate(x, pos, freq, layout=layout), oracle(x, pos, freq, layout), rtol=0, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotate_turns_counterclockwise_by_position_times_frequency(layout):
    turned = rotate(torch.tensor([[1.0, 0.0]]), at(3), torch.tensor([0.5]), layout=layout)
    torch.testing.assert_close(turned, torch.tensor([[math.cos(1.5), math.sin(1.5)]]))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(m=POSITIONS, n=POSITIONS, shift=POSITIONS, dim=DIMS)
def test_the_inner_product_depends_on_the_offset_only(layout, m, n, shift, dim):
    q, k = vectors(dim, 2).split(1)
    freq = exact(dim)

    def score(m: int, n: int) -> Tensor:
        return (rotate(q, at(m), freq, layout=layout) * rotate(k, at(n), freq, layout=layout)).sum()

    torch.testing.assert_close(score(m, n), score(m + shift, n + shift), rtol=0, atol=1e-7)
    torch.testing.assert_close(score(m, n), (q * rotate(k, at(n - m), freq, layout=layout)).sum(), rtol=0, atol=1e-7)


@settings(max_examples=30)
@given(m=st.integers(0, 64), n=st.integers(0, 64), shift=st.integers(0, 10**6))
def test_float32_angles_lose_no_more_than_float32_must(m, n, shift):
    """An angle near P is rounded to a multiple of about P / 2**23, and a score moves by that times |q||k|."""
    q, k = vectors(64, 2).float().split(1)
    freq = frequencies(64)
    here, there = ((rotate(q, at(m + s), freq) * rotate(k, at(n + s), freq)).sum() for s in (0, shift))
    allowed = (2**-23 * (64 + shift) + 1e-5) * q.norm() * k.norm()
    assert (here - there).abs() <= allowed


@pytest.mark.parametrize("layout", LAYOUTS)
@given(pos=POSITIONS, dim=DIMS, base=BASES)
def test_a_rotation_keeps_every_norm(layout, pos, dim, base):
    x = vectors(dim)
    turned = rotate(x, at(pos), exact(dim, base), layout=layout)
    torch.testing.assert_close(turned.norm(), x.norm(), rtol=1e-12, atol=0)
    pair = (2, -1) if layout == "half" else (-1, 2)
    axis = -2 if layout == "half" else -1
    norms = [y.unflatten(-1, pair).norm(dim=axis) for y in (x, turned)]
    torch.testing.assert_close(*norms, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(a=POSITIONS, b=POSITIONS, dim=DIMS)
def test_rotations_add_up(layout, a, b, dim):
    x, freq = vectors(dim), exact(dim)
    twice = rotate(rotate(x, at(b), freq, layout=layout), at(a), freq, layout=layout)
    torch.testing.assert_close(twice, rotate(x, at(a + b), freq, layout=layout), rtol=0, atol=1e-8)
    torch.testing.assert_close(
        rotate(rotate(x, at(a), freq, layout=layout), at(-a), freq, layout=layout), x, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_position_zero_is_the_identity(layout, dtype, device):
    x = torch.randn(2, 3, 1, 16, device=device).to(dtype)
    assert torch.equal(rotate(x, at(0).to(device), frequencies(16).to(device), layout=layout), x)


@given(dim=DIMS, pos=POSITIONS)
def test_the_layouts_agree_through_the_permutation(dim, pos):
    x, freq, order = vectors(dim), exact(dim), layout_permutation(dim)
    half = rotate(x[..., order], at(pos), freq, layout="half")
    torch.testing.assert_close(half, rotate(x, at(pos), freq)[..., order], rtol=0, atol=1e-12)


def test_mixing_the_layouts_changes_scores():
    q, k = vectors(16, 2).split(1)
    freq = exact(16)
    mixed = (rotate(q, at(5), freq, layout="half") * rotate(k, at(3), freq, layout="interleaved")).sum()
    assert (mixed - (rotate(q, at(5), freq) * rotate(k, at(3), freq)).sum()).abs() > 0.1


def test_layout_permutation_is_evens_then_odds():
    assert layout_permutation(8).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


@pytest.mark.parametrize("to", LAYOUTS)
def test_converted_weights_give_the_same_scores(to):
    heads, dim, length, model = 3, 8, 5, 12
    freq, pos = exact(dim), torch.arange(length)
    x = torch.randn(length, model, dtype=torch.float64)
    weights = torch.randn(2, heads * dim, model, dtype=torch.float64)
    biases = torch.randn(2, heads * dim, dtype=torch.float64)

    def scores(weights: list[Tensor], biases: list[Tensor], layout: str) -> Tensor:
        q, k = (
            rotate((x @ w.T + b).unflatten(-1, (heads, dim)).transpose(0, 1), pos, freq, layout=layout)
            for w, b in zip(weights, biases, strict=True)
        )
        return q @ k.transpose(-2, -1)

    before = scores(list(weights), list(biases), "half" if to == "interleaved" else "interleaved")
    moved = [convert_layout(w, dim, to=to) for w in weights], [convert_layout(b, dim, to=to) for b in biases]
    torch.testing.assert_close(scores(*moved, to), before)
    wrong = scores(list(weights), list(biases), to)
    assert (wrong - before).abs().max() > 0.1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_formula_and_its_fewer_passes_equal_loops(layout):
    x, (cos, sin) = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    expected = torch.empty_like(x)
    for t in range(4):
        first, second = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + 4)
        a, b = x[..., first], x[..., second]
        expected[..., first] = a * cos[:, t] - b * sin[:, t]
        expected[..., second] = a * sin[:, t] + b * cos[:, t]
    for kernel in (rotate_pairs, _rotate_eagerly):
        torch.testing.assert_close(kernel(x, cos, sin, layout), expected, rtol=0, atol=1e-12)


class Operations(TorchDispatchMode):
    """Records the names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_without_a_compiler_memory_sees_fewer_passes():
    x, angle = torch.randn(2, 3, 5, 8), torch.randn(5, 4)
    with Operations() as done:
        found = rotate_by(x, angle)  # pairs of neighbours and a scale of 1, unless others are asked for
    torch.testing.assert_close(found, rotate_pairs(x, angle.cos(), angle.sin(), "interleaved"))
    assert "view_as_complex" in done.names


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compiled_graph_holds_the_formula(layout):
    torch._dynamo.reset()
    called: list[str] = []

    def record(graph: torch.fx.GraphModule, example: list[Tensor]) -> object:
        called.extend(node.target for node in graph.graph.nodes if node.op == "call_method")
        called.extend(node.target.__name__ for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    x, angle = torch.randn(2, 3, 5, 8), torch.randn(5, 4)
    compiled = torch.compile(rotate_by, fullgraph=True, backend=record)
    torch.testing.assert_close(compiled(x, angle, layout=layout), rotate_by(x, angle, layout=layout))
    assert "stack" in called
    assert not {"view_as_complex", "addcmul_"} & set(called)  # which a compiler cannot fuse


def test_what_lies_well_in_memory_is_not_copied():
    wide, pos = torch.randn(2, 3, 5, 16), torch.arange(5)
    for x in (wide, wide[..., 2:], wide[..., :8]):
        with Operations() as done:
            RoPE(x.shape[-1]).query(x, pos)
        assert "view_as_complex" in done.names
        assert not done.names & {"clone", "cat"}
    with Operations() as done:
        RoPE(16, rotary_dim=8).query(wide, pos)
    assert "cat" in done.names and "clone" not in done.names


def test_frequencies_that_are_a_parameter_are_learned():
    rope = RoPE(8, freq=torch.nn.Parameter(frequencies(8)))
    assert [name for name, _ in rope.named_parameters()] == ["freq"]
    x, pos = torch.randn(1, 1, 4, 8), torch.arange(4)
    (rope.query(x, pos) * torch.randn(8)).sum().backward()
    assert (rope.freq.grad != 0).all()
    assert rope.double().freq.dtype == torch.float64
    assert not list(RoPE(8).parameters())


def test_conversion_there_and_back_changes_nothing():
    weight = torch.randn(24, 10)
    there = convert_layout(weight, 8, to="half")
    assert not torch.equal(there, weight)
    assert torch.equal(there[:8], weight[layout_permutation(8)])
    assert torch.equal(convert_layout(there, 8, to="interleaved"), weight)


@pytest.mark.parametrize("to", ["half", "interleaved"])
def test_only_the_rows_that_turn_are_converted(to):
    weight, pos = torch.randn(2 * 8, 5, dtype=torch.float64), torch.arange(4)
    x = torch.randn(1, 4, 5, dtype=torch.float64)
    other = {"half": "interleaved", "interleaved": "half"}[to]
    moved = convert_layout(weight, 8, to=to, rotary_dim=4)
    scores = []
    for w, layout in ((weight, other), (moved, to)):
        y = (x @ w.T).unflatten(-1, (2, 8)).transpose(1, 2)
        y = RoPE(8, rotary_dim=4, layout=layout).query(y, pos)
        scores.append(y @ y.mT)
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-12)
    assert torch.equal(moved.unflatten(0, (2, 8))[:, 4:], weight.unflatten(0, (2, 8))[:, 4:])
    with pytest.raises(ValueError, match="rotary_dim is 10"):
        convert_layout(weight, 8, to=to, rotary_dim=10)


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("turned", [None, 4])
def test_weights_are_converted_where_they_lie(to, turned):
    moved = convert_layout(torch.zeros(2 * 8, 5, dtype=torch.bfloat16, device="meta"), 8, to=to, rotary_dim=turned)
    assert moved.is_meta and moved.shape == (2 * 8, 5) and moved.dtype == torch.bfloat16


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_of_a_batch_equal_one_by_one(layout, device):
    pos = torch.tensor([[0, 1, 2], [7, 3, 1000]], device=device)
    freq = frequencies(8).to(device)
    for shape in ((2, 3, 8), (2, 4, 3, 8), (2, 2, 4, 3, 8)):
        x = torch.randn(shape, device=device)
        both = rotate(x, pos, freq, layout=layout)
        assert both.shape == x.shape
        for n in range(2):
            torch.testing.assert_close(both[n], rotate(x[n], pos[n], freq, layout=layout))
        one = rotate(x, pos[:1], freq, layout=layout)
        torch.testing.assert_close(one, rotate(x, pos[0], freq, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_order_of_x_will_do(layout):
    freq, pos = frequencies(8), torch.arange(5)
    x = torch.randn(2, 3, 5, 8)
    expected = rotate(x, pos, freq, layout=layout)
    flat = torch.cat((torch.zeros(1), x.flatten()))
    for same in (
        x.transpose(1, 2).contiguous().transpose(1, 2),  # as heads are split off a projection
        flat[1:].view_as(x),  # begins at an odd place in memory
        torch.cat((torch.zeros(3), x.flatten()))[3:].view_as(x),
        torch.nn.functional.pad(x, (0, 1))[..., :8],  # odd strides
        torch.nn.functional.pad(x, (0, 1, 0, 1))[..., :5, :8],  # one odd stride, from token to token
        torch.stack((x, x), -1)[..., 0],  # even strides, but there is another number between channels
        x.transpose(2, 3).contiguous().transpose(2, 3),  # channels are not next to each other
    ):
        assert torch.equal(same, x)
        torch.testing.assert_close(rotate(same, pos, freq, layout=layout), expected)
    assert torch.equal(flat[1:].view_as(x), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_x_is_left_alone(layout):
    x = torch.randn(1, 1, 4, 8)
    before = x.clone()
    rotate(x, torch.arange(4), frequencies(8), layout=layout)
    assert torch.equal(x, before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_reach_x_position_and_frequencies(layout):
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    pos = torch.tensor([0.5, 1.0, 7.0], dtype=torch.float64, requires_grad=True)
    freq = exact(4).requires_grad_()
    assert torch.autograd.gradcheck(lambda *a: rotate(*a, layout=layout), (x, pos, freq))
    assert torch.autograd.gradgradcheck(lambda *a: rotate(*a, layout=layout), (x, pos, freq))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_a_rotation_is_the_rotation_back(layout, device):
    x = torch.randn(1, 2, 5, 8, device=device, requires_grad=True)
    pos, freq = torch.arange(5, device=device), frequencies(8).to(device)
    grad = torch.randn_like(x)
    rotate(x, pos, freq, layout=layout).backward(grad)
    torch.testing.assert_close(x.grad, rotate(grad, -pos, freq, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_result_once(layout, dtype, device):
    x = torch.randn(1, 2, 3, 8, device=device).to(dtype)
    pos, freq = torch.tensor([0, 300, 4095], device=device), frequencies(8).to(device)
    found = rotate(x, pos, freq, layout=layout)
    assert found.dtype == dtype
    wide = rotate(x.float(), pos, freq, layout=layout)
    assert torch.equal(found, wide.to(dtype))


def test_frequencies_in_float64_give_angles_in_float64():
    x, pos = torch.randn(1, 64), at(10**8 + 1)
    found = rotate(x, pos, exact(64))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), oracle(x, pos, exact(64), "interleaved"), rtol=0, atol=1e-6)


def test_angles_have_the_precision_of_frequencies_whatever_positions_have():
    x, pos = torch.randn(2, 8), torch.tensor([0.1, 40_000.7], dtype=torch.float64)
    assert torch.equal(rotate(x, pos, frequencies(8)), rotate(x, pos.float(), frequencies(8)))


def test_angles_in_half_precision_are_widened_before_their_cosine():
    x, angle = torch.randn(5, 8), torch.randn(5, 4).bfloat16()
    assert torch.equal(rotate_by(x, angle), rotate_by(x, angle.float()))


@pytest.mark.parametrize("cast", [torch.bfloat16, torch.float16, torch.float64])
def test_casting_a_model_does_not_spoil_the_angles(cast):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sequential(RoPE(64)))
    freq = model[1][0].freq.clone()
    model.to(cast)
    assert model[0].weight.dtype == cast
    rope = model[1][0]
    assert rope.freq.dtype == torch.float32
    assert torch.equal(rope.freq, freq)
    assert "freq" in dict(rope.named_buffers())
    assert not rope.state_dict()
    x = torch.randn(1, 1, 1, 64).to(cast)
    late = torch.tensor([4095])
    assert torch.equal(rope.query(x, late), rotate(x, late, frequencies(64)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rope_rotates_queries_and_keys_and_nothing_else(layout, device):
    rope = RoPE(8, 500.0, layout=layout).to(device)
    x, pos = torch.randn(2, 3, 4, 8, device=device), torch.arange(4, device=device)
    expected = rotate(x, pos, frequencies(8, 500.0).to(device), layout=layout)
    assert torch.equal(rope.query(x, pos), expected)
    assert torch.equal(rope.key(x, pos), expected)
    assert rope.embed(x, pos) is x
    assert rope.doors == ("query", "key")


def test_given_frequencies_replace_the_default():
    freq = torch.tensor([1.0, 0.0, 0.25, 0.0])
    rope = RoPE(8, freq=freq)
    x = torch.randn(1, 1, 3, 8)
    turned = rope.query(x, torch.arange(3))
    assert torch.equal(turned, rotate(x, torch.arange(3), freq))
    assert torch.equal(turned[..., 2:4], x[..., 2:4])  # a frequency of 0 leaves its pair alone


def test_to_empty_keeps_what_has_values_and_marks_what_has_lost_them():
    rope = RoPE(4, freq=torch.tensor([0.5, 0.25]))
    assert rope.to_empty(device="cpu").freq.tolist() == [0.5, 0.25]
    rope.to("meta").to_empty(device="cpu")
    assert rope.freq.isnan().all()  # nobody knows them any more, and NaN does not pass for a result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_without_a_graph_break_it_is_the_same(layout, backend):
    torch._dynamo.reset()
    compiled = torch.compile(rotate, fullgraph=True, backend=backend)
    freq = frequencies(8)
    for x, pos in (
        (torch.randn(2, 3, 5, 8), torch.arange(5)),
        (torch.randn(2, 3, 7, 8), torch.arange(7) + torch.tensor([[0], [100]])),
        (torch.randn(2, 3, 5, 8).bfloat16(), torch.arange(5)),
    ):
        torch.testing.assert_close(
            compiled(x, pos, freq, layout=layout), rotate(x, pos, freq, layout=layout), rtol=0, atol=1e-6
        )


@pytest.mark.pages
@pytest.mark.skipif(" " in torch.__file__, reason="inductor hands the compiler torch's folder without quotes")
@pytest.mark.filterwarnings("ignore")  # what inductor warns of while it looks for compilers is not ours
def test_compiled_by_inductor_it_is_the_same_and_so_is_its_gradient(device):
    torch._dynamo.reset()
    compiled = torch.compile(rotate, fullgraph=True)
    x = torch.randn(2, 2, 5, 8, device=device, requires_grad=True)
    pos, freq = torch.arange(5, device=device), frequencies(8).to(device)
    found, expected = compiled(x, pos, freq), rotate(x, pos, freq)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(x)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, grad)[0] for y in (found, expected)))


class Rotate(torch.nn.Module):
    def __init__(self, layout: str) -> None:
        super().__init__()
        self.layout = layout

    def forward(self, x: Tensor, pos: Tensor, freq: Tensor) -> Tensor:
        return rotate(x, pos, freq, layout=self.layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strict", [True, False])
def test_exported_it_takes_any_length(layout, strict):
    length = torch.export.Dim("length", min=2)
    args = torch.randn(2, 3, 5, 8), torch.arange(5), frequencies(8)
    program = torch.export.export(Rotate(layout), args, dynamic_shapes=({2: length}, {0: length}, None), strict=strict)
    x, pos = torch.randn(2, 3, 33, 8), torch.arange(33) * 7
    torch.testing.assert_close(
        program.module()(x, pos, args[2]), rotate(x, pos, args[2], layout=layout), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("shape", [(3, 7), (3, 0)])
def test_dimensions_that_make_no_pairs_are_refused(shape):
    with pytest.raises(ValueError, match=f"dimension is {shape[1]}, .*even"):
        rotate(torch.zeros(shape), torch.arange(3), torch.zeros(shape[1] // 2))


@pytest.mark.parametrize("dim", [-2, 0, 5])
def test_head_dimensions_that_make_no_pairs_are_refused(dim):
    with pytest.raises(ValueError, match=f"dim is {dim}, .*even"):
        RoPE(dim)
    with pytest.raises(ValueError, match=f"head_dim is {dim}, .*even"):
        RoPE(dim, freq=torch.ones(2))
    with pytest.raises(ValueError, match=f"dim is {dim}, .*even"):
        layout_permutation(dim)
    with pytest.raises(ValueError, match=f"head_dim is {dim}, .*even"):
        convert_layout(torch.zeros(4, 4), dim, to="half")


def test_other_bad_input_is_refused():
    x, pos, freq = torch.zeros(2, 4, 3, 8), torch.arange(3), frequencies(8)
    with pytest.raises(ValueError, match=r"layout is 'neox': .*half"):
        rotate(x, pos, freq, layout="neox")
    with pytest.raises(ValueError, match=r"layout is 'neox': .*half"):
        RoPE(8, layout="neox")
    with pytest.raises(ValueError, match=r"to is 'neox': .*half"):
        convert_layout(torch.zeros(8, 8), 8, to="neox")
    with pytest.raises(ValueError, match=r"base is 0, .*positive"):
        RoPE(8, 0)
    with pytest.raises(ValueError, match=r"freq .*frequencies\(8\)"):
        rotate(x, pos, torch.ones(8))
    with pytest.raises(ValueError, match=r"freq .* in 4 pairs: .*\(rotary_dim/2,\) = \(4,\)"):
        RoPE(8, freq=torch.ones(8))
    with pytest.raises(ValueError, match="freq is a list: use a tensor"):
        RoPE(8, freq=[1.0, 0.1, 0.01, 0.001])
    with pytest.raises(ValueError, match=r"x\[None, :\]"):
        rotate(torch.zeros(8), at(0), freq)
    with pytest.raises(ValueError, match=r"pos .*torch\.tensor\(\[p\]\)"):
        rotate(x, torch.tensor(3), freq)
    with pytest.raises(ValueError, match=r"pos is torch\.bool, .*torch\.arange"):
        rotate(x, torch.ones(3, dtype=torch.bool), freq)
    with pytest.raises(ValueError, match=r"pos holds 4 .*torch\.arange\(3\)"):
        rotate(x, torch.arange(4), freq)
    with pytest.raises(ValueError, match=r"pos .*3 sequences .*\(2, L\)"):
        rotate(x, pos.expand(3, 3), freq)
    with pytest.raises(ValueError, match=r"pos .*single sequence: .*\(3,\)"):
        rotate(x[0, 0], pos[None], freq)
    for weight in (torch.zeros(12, 8), torch.zeros(1, 8, 8)):
        with pytest.raises(ValueError, match=r"weight .*multiple of 8"):
            convert_layout(weight, 8, to="half")


# One set of frequencies per sequence, and a scale


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("heads", [(), (4,), (3, 4)])
def test_a_sequence_may_have_its_own_frequencies(layout, batched, heads, device):
    pos = torch.tensor([[0, 1, 2], [7, 3, 1000]], device=device) if batched else torch.arange(3, device=device)
    freq = torch.stack((frequencies(8), frequencies(8, 500.0))).to(device)
    x = torch.randn(2, *heads, 3, 8, device=device)
    both = rotate(x, pos, freq, layout=layout)
    assert both.shape == x.shape
    for n in range(2):
        alone = rotate(x[n], pos[n] if batched else pos, freq[n], layout=layout)
        torch.testing.assert_close(both[n], alone)
    shared = rotate(x, pos, freq[:1], layout=layout)
    torch.testing.assert_close(shared, rotate(x, pos, freq[0], layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(scale=st.floats(-3, 3), dim=DIMS)
def test_a_scale_multiplies_what_was_turned(layout, scale, dim):
    x, pos, freq = vectors(dim, 3), torch.tensor([0, 5, 1000]), exact(dim)
    expected = scale * rotate(x, pos, freq, layout=layout)
    torch.testing.assert_close(rotate(x, pos, freq, layout=layout, scale=scale), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_angle_may_have_its_own_scale(layout):
    pos, freq, x = torch.arange(3), exact(4), torch.randn(2, 5, 3, 4, dtype=torch.float64)
    scale = torch.rand(2, 3, 2, dtype=torch.float64)
    turned = rotate(x, pos, freq, layout=layout)
    both = rotate(x, pos, freq, layout=layout, scale=scale)
    for n in range(2):
        channels = scale[n].repeat_interleave(2, -1) if layout == "interleaved" else scale[n].repeat(1, 2)
        torch.testing.assert_close(both[n], turned[n] * channels)
        torch.testing.assert_close(rotate(x, pos, freq, layout=layout, scale=scale[n])[n], both[n])


def test_a_scale_is_rounded_together_with_the_rotation():
    x, pos = torch.randn(1, 2, 3, 8).bfloat16(), torch.tensor([0, 300, 4095])
    found = rotate(x, pos, frequencies(8), scale=1.1)
    assert torch.equal(found, rotate(x.float(), pos, frequencies(8), scale=1.1).bfloat16())
    assert rotate(x, pos, frequencies(8), scale=torch.rand(3, 4, dtype=torch.float64)).dtype == torch.bfloat16


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_reach_scales_and_frequencies_of_a_sequence(layout):
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    freq = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
    scale = torch.rand(2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda freq, scale: rotate(x, torch.arange(3), freq, layout=layout, scale=scale), (freq, scale)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_with_frequencies_and_scales_of_a_sequence_it_is_the_same(layout):
    torch._dynamo.reset()
    compiled = torch.compile(rotate, fullgraph=True, backend="aot_eager")
    x, pos, freq, scale = torch.randn(2, 3, 5, 8), torch.arange(5), torch.rand(2, 4), torch.rand(2, 5, 4)
    expected = rotate(x, pos, freq, layout=layout, scale=scale)
    torch.testing.assert_close(compiled(x, pos, freq, layout=layout, scale=scale), expected)


def test_frequencies_that_fit_no_batch_are_refused():
    x, pos = torch.zeros(2, 4, 3, 8), torch.arange(3)
    with pytest.raises(ValueError, match=r"freq .*3 sequences .*batch has 2: .*\(4,\)"):
        rotate(x, pos, torch.ones(3, 4))
    for count in (1, 2):
        with pytest.raises(ValueError, match=rf"freq .*{count} sequences .*single sequence: .*\(4,\)"):
            rotate(x[0, 0], pos, torch.ones(count, 4))
    with pytest.raises(ValueError, match=r"freq .*x has 8 channels: .*frequencies\(8\)"):
        rotate(x, pos, torch.ones(2, 8))
    with pytest.raises(ValueError, match=r"freq .*frequencies\(8\)"):
        rotate(x, pos, torch.ones(1, 2, 4))


def test_scales_that_fit_no_angles_are_refused():
    pos, freq = torch.arange(3), frequencies(8)
    for x, axes, full in ((torch.zeros(2, 5, 3, 8), "B, L", (2, 3, 4)), (torch.zeros(3, 8), "L", (3, 4))):
        meaning = re.escape(f" to ({axes}, d/2) = {full}")
        for shape in ((3,), (3, 8), (4, 4), (7, 3, 4), (2, 5, 3, 4)):
            with pytest.raises(ValueError, match=rf"scale .*{meaning}: use a number"):
                rotate(x, pos, freq, scale=torch.ones(shape))
        for shape in ((), (1,), (4,), (3, 1), full):
            assert rotate(x, pos, freq, scale=torch.ones(shape)).shape == x.shape
    assert rotate(torch.zeros(2, 3, 8), pos, freq, scale=torch.ones(2, 1, 1)).shape == (2, 3, 8)
    with pytest.raises(ValueError, match=r"scale .*use a number"):
        rotate(torch.zeros(3, 8), pos, freq, scale=torch.ones(1, 3, 4))


# A part of the head, and a factor


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("turned", [2, 6, 16])
@pytest.mark.parametrize("factor", [1.0, 1.25])
def test_the_first_channels_turn_and_the_rest_pass(layout, turned, factor, device):
    rope = RoPE(16, 500.0, layout=layout, rotary_dim=turned, attention_factor=factor).to(device)
    x, pos = torch.randn(2, 3, 4, 16, device=device), torch.arange(4, device=device)
    small = RoPE(turned, 500.0, layout=layout).to(device)
    for found in (rope.query(x, pos), rope.key(x, pos)):
        assert found.shape == x.shape
        torch.testing.assert_close(found[..., :turned], factor * small.query(x[..., :turned], pos))
        assert torch.equal(found[..., turned:], x[..., turned:])  # not even multiplied by the factor
    assert (rope.head_dim, rope.rotary_dim, rope.attention_factor) == (16, turned, factor)
    assert not rope.raw_keys


def test_all_channels_turn_by_default_and_nothing_is_multiplied():
    rope, x = RoPE(8), torch.randn(1, 2, 3, 8)
    assert (rope.rotary_dim, rope.attention_factor, rope.layout, rope.base) == (8, 1.0, "interleaved", 10_000.0)
    assert torch.equal(rope.freq, frequencies(8))
    assert torch.equal(rope.key(x, torch.arange(3)), rotate(x, torch.arange(3), frequencies(8)))


def test_an_attention_factor_multiplies_scores_by_its_square():
    q, k = torch.randn(2, 1, 2, 6, 8, dtype=torch.float64)
    pos = torch.arange(6)
    plain, sharp = (RoPE(8, freq=exact(8), attention_factor=factor) for factor in (1.0, 1.5))
    scores = [rope.query(q, pos) @ rope.key(k, pos).mT for rope in (plain, sharp)]
    torch.testing.assert_close(scores[1], 2.25 * scores[0])


def test_given_frequencies_are_those_of_the_channels_that_turn():
    rope = RoPE(8, freq=torch.tensor([0.5, 0.25]), rotary_dim=4)
    assert rope.base is None
    x = torch.randn(1, 1, 3, 8)
    turned = rotate(x[..., :4], torch.arange(3), torch.tensor([0.5, 0.25]))
    assert torch.equal(rope.query(x, torch.arange(3)), torch.cat((turned, x[..., 4:]), -1))
    with pytest.raises(ValueError, match=r"freq .*\(2,\)"):
        RoPE(8, freq=torch.ones(4), rotary_dim=4)


def test_a_reset_computes_the_default_frequencies_anew_where_they_lie():
    rope = RoPE(16, 500.0, rotary_dim=4)
    rope.freq.zero_()
    rope.reset_parameters()
    assert torch.equal(rope.freq, frequencies(4, 500.0))
    rope.to("meta").reset_parameters()
    assert rope.freq.is_meta and rope.freq.shape == (2,)
    given = RoPE(4, freq=torch.tensor([0.5, 0.25]))
    given.reset_parameters()
    assert given.freq.tolist() == [0.5, 0.25]


def test_a_partial_rope_built_without_memory_gets_its_frequencies_with_it():
    with torch.device("meta"):
        rope = RoPE(16, 500.0, rotary_dim=4)
    assert torch.equal(rope.to_empty(device="cpu").freq, frequencies(4, 500.0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_partial_rotation_keeps_the_dtype(dtype, device):
    rope = RoPE(8, rotary_dim=4, attention_factor=1.5).to(device).to(dtype)
    assert rope.freq.dtype == torch.float32
    x = torch.randn(2, 2, 3, 8, device=device).to(dtype)
    found = rope.query(x, torch.arange(3, device=device))
    assert found.dtype == dtype
    wide = rope.query(x.double(), torch.arange(3, device=device))
    assert torch.equal(found[..., 4:], x[..., 4:])
    torch.testing.assert_close(found, wide.to(dtype), rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-6)


def test_bad_parts_and_factors_are_refused():
    for turned in (-2, 0, 3):
        with pytest.raises(ValueError, match=f"rotary_dim is {turned}, .*even"):
            RoPE(8, rotary_dim=turned)
    with pytest.raises(ValueError, match="rotary_dim is 10"):
        RoPE(8, rotary_dim=10)
    for factor in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"attention_factor is {factor}, .*positive"):
            RoPE(8, attention_factor=factor)


def test_vectors_of_another_head_are_refused():
    rope = RoPE(8, rotary_dim=4)
    with pytest.raises(ValueError, match=r"x .*head_dim=16; .*rotary_dim"):
        rope.query(torch.zeros(1, 1, 3, 16), torch.arange(3))
    with pytest.raises(ValueError, match=r"x .*head_dim=4"):
        rope.key(torch.zeros(1, 1, 3, 4), torch.arange(3))
    with pytest.raises(ValueError, match=r"x .*head_dim=8"):
        rope.key(torch.zeros(8), torch.arange(1))
    with pytest.raises(ValueError, match=r"x .*head_dim=1"):
        rope.key(torch.zeros(()), torch.arange(1))
    with pytest.raises(ValueError, match="pos holds 4"):
        rope.key(torch.zeros(1, 1, 3, 8), torch.arange(4))
    assert rope.key(torch.zeros(3, 8), torch.arange(3)).shape == (3, 8)  # a sequence without heads


# Frequencies that depend on the length


def halving(length: Tensor) -> Tensor:
    """As slow as the text is long: (d/2,) for a scalar, (B, d/2) for (B,)."""
    return 1 / (length[..., None] * torch.tensor([1.0, 4.0], device=length.device))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 4, 3, 8)])
def test_frequencies_may_be_a_function_of_the_length(layout, shape, device):
    rope = RoPE(8, freq=halving, layout=layout, rotary_dim=4).to(device)
    assert rope.raw_keys and rope.exact == () and rope.base is None
    assert not list(rope.buffers()) and not rope.state_dict() and rope.doors == ("query", "key")
    x = torch.randn(shape, device=device)
    one, two = torch.tensor([9, 2, 3], device=device), torch.tensor([[0, 1, 2], [7, 99, 5]], device=device)
    for door in (rope.query, rope.key):
        expected = rotate(x[..., :4], one, torch.tensor([1 / 10, 1 / 40], device=device), layout=layout)
        torch.testing.assert_close(door(x, one)[..., :4], expected)
        freq = torch.tensor([[1 / 3, 1 / 12], [1 / 100, 1 / 400]], device=device)
        torch.testing.assert_close(door(x, two)[..., :4], rotate(x[..., :4], two, freq, layout=layout))


def test_the_length_is_one_more_than_the_last_position():
    seen = []

    def watch(length: Tensor) -> Tensor:
        seen.append(length)
        return torch.ones(4)

    rope, x = RoPE(8, freq=watch), torch.zeros(2, 1, 3, 8)
    rope.query(x, torch.tensor([4, 0, 2]))
    rope.key(x, torch.tensor([[4, 0, 2], [1, 1, 0]]))
    rope.query(x[:, :, :0], torch.arange(0))
    rope.query(x[:, :, :0], torch.zeros(2, 0, dtype=torch.long))
    rope.query(x, torch.tensor([0.5, 2.5, 1.0]))
    assert [length.tolist() for length in seen] == [5, [5, 2], 1, [1, 1], 3.5]


@pytest.mark.parametrize("pos", [torch.arange(0), torch.zeros(2, 0, dtype=torch.long)])
def test_a_function_of_the_length_meets_empty_sequences(pos):
    assert RoPE(4, freq=halving).query(torch.zeros(2, 3, 0, 4), pos).shape == (2, 3, 0, 4)


def test_a_single_position_is_refused_before_its_length_is_asked():
    with pytest.raises(ValueError, match=r"pos .*torch\.tensor\(\[p\]\)"):
        RoPE(4, freq=halving).query(torch.zeros(1, 1, 1, 4), torch.tensor(3))


def test_a_function_of_the_length_survives_what_modules_go_through():
    rope = RoPE(4, freq=halving)
    x, pos = torch.randn(1, 1, 3, 4), torch.arange(3)
    expected = rope.query(x, pos)
    for same in (
        copy.deepcopy(rope),
        pickle.loads(pickle.dumps(rope)),
        copy.deepcopy(rope).to(torch.bfloat16),
        copy.deepcopy(rope).to("meta").to_empty(device="cpu"),
    ):
        assert torch.equal(same.query(x, pos), expected)
    with torch.device("meta"):
        made = RoPE(4, freq=halving)
    assert torch.equal(made.query(x, pos), expected)
    made.reset_parameters()


def test_a_function_of_the_length_may_be_learned():
    class Learned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slowness = torch.nn.Parameter(torch.ones(2))

        def forward(self, length: Tensor) -> Tensor:
            return 1 / (self.slowness * length[..., None])

    rope = RoPE(4, freq=Learned())
    assert [name for name, _ in rope.named_parameters()] == ["freq.slowness"]
    rope.query(torch.randn(2, 1, 3, 4), torch.arange(3)).sum().backward()
    assert rope.freq.slowness.grad.abs().sum() > 0


@pytest.mark.parametrize("batched", [False, True])
def test_with_raw_keys_each_step_is_the_last_row_of_a_full_pass_of_its_length(batched):
    """Rotated keys, kept from earlier steps, are not."""
    q, k, v = torch.randn(3, 2, 2, 6, 4, dtype=torch.float64)
    pos = torch.stack((torch.arange(6), torch.arange(6) + 3)) if batched else torch.arange(6)
    rope, stale = RoPE(4, freq=lambda length: halving(length).double()), []
    for t in range(6):
        new, old = slice(t, t + 1), slice(t + 1)
        here, past, values = pos[..., new], pos[..., old], v[:, :, old]
        query, keys = rope.query(q[:, :, new], here), rope.key(k[:, :, old], past)
        step = attend(query, keys, values, rope, here, past)
        full = attend(rope.query(q[:, :, old], past), keys, values, rope, past, past)
        torch.testing.assert_close(step, full[:, :, -1:], rtol=0, atol=1e-12)
        stale.append(rope.key(k[:, :, new], here))
        kept = attend(query, torch.cat(stale, 2), values, rope, here, past)
        assert t < 2 or (kept - step).abs().max() > 1e-4


def test_a_compiled_rope_with_a_function_of_the_length_is_the_same():
    torch._dynamo.reset()
    rope = RoPE(8, freq=halving, rotary_dim=4, attention_factor=1.5)
    compiled = torch.compile(rope.query, fullgraph=True, backend="aot_eager")
    for x, pos in (
        (torch.randn(2, 3, 5, 8), torch.arange(5)),
        (torch.randn(2, 3, 7, 8), torch.arange(7) + torch.tensor([[0], [100]])),
    ):
        torch.testing.assert_close(compiled(x, pos), rope.query(x, pos))


class Query(torch.nn.Module):
    def __init__(self, rope: RoPE) -> None:
        super().__init__()
        self.rope = rope

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.rope.query(x, pos)


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_rope_with_a_function_of_the_length_takes_any_length(strict):
    length = torch.export.Dim("length", min=2)
    rope = RoPE(8, freq=halving, rotary_dim=4, attention_factor=1.5)
    args = torch.randn(2, 3, 5, 8), torch.arange(5)
    program = torch.export.export(Query(rope), args, dynamic_shapes=({2: length}, {0: length}), strict=strict)
    x, pos = torch.randn(2, 3, 33, 8), torch.arange(33) * 7
    torch.testing.assert_close(program.module()(x, pos), rope.query(x, pos))


# What modules go through


@pytest.mark.parametrize(
    ("rope", "text"),
    [
        (RoPE(64), "RoPE(head_dim=64, base=10000.0, layout='interleaved')"),
        (RoPE(8, freq=frequencies(8), layout="half"), "RoPE(head_dim=8, freq=<Tensor>, layout='half')"),
        (RoPE(8, freq=torch.nn.Parameter(frequencies(8))), "RoPE(head_dim=8, freq=<Parameter>, layout='interleaved')"),
        (RoPE(8, freq=partial(halving)), "RoPE(head_dim=8, freq=<function>, layout='interleaved')"),
        (
            RoPE(8, rotary_dim=4, attention_factor=1.25),
            "RoPE(head_dim=8, base=10000.0, layout='interleaved', rotary_dim=4, attention_factor=1.25)",
        ),
    ],
)
def test_a_rope_prints_what_it_is_made_of(rope, text):
    assert repr(rope) == text


def test_device_and_dtype_are_those_of_learned_frequencies_and_others_keep_float32(device):
    rope = RoPE(8, device=device, dtype=torch.bfloat16)
    assert rope.freq.device.type == device and rope.freq.dtype == torch.float32
    learned = RoPE(8, freq=torch.nn.Parameter(frequencies(8)), device=device, dtype=torch.bfloat16)
    assert learned.freq.device.type == device and learned.freq.dtype == torch.bfloat16
    assert isinstance(learned.freq, torch.nn.Parameter)
    given_ = RoPE(8, freq=torch.tensor([1.0, 0.5, 0.25, 0.125]), device=torch.device(device), dtype=torch.float64)
    assert given_.freq.tolist() == [1.0, 0.5, 0.25, 0.125] and given_.freq.dtype == torch.float32
    assert RoPE(8, freq=frequencies(8), device="meta").freq.is_meta
    with torch.device("meta"):
        assert torch.equal(RoPE(8, device="cpu").freq, frequencies(8, device="cpu"))
    assert torch.equal(RoPE(8, 500.0, device="meta").to_empty(device="cpu").freq, frequencies(8, 500.0))


@pytest.mark.parametrize("name", ["freq", "inv_freq"])
def test_frequencies_in_a_checkpoint_are_compared_and_not_loaded(name):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), RoPE(8))
    weights = {"0.weight": torch.ones(4, 4), "0.bias": torch.zeros(4)}
    for saved in (frequencies(8), frequencies(8).bfloat16(), frequencies(8).double(), frequencies(8).to("meta")):
        state = {**weights, f"1.{name}": saved}
        model.load_state_dict(state)
        assert torch.equal(model[1].freq, frequencies(8)) and torch.equal(model[0].weight, torch.ones(4, 4))
        assert f"1.{name}" in state
    for other in (frequencies(8, 500_000.0), frequencies(6)):
        with pytest.raises(ValueError, match=rf"1\.{name} .*same base"):
            model.load_state_dict({**weights, f"1.{name}": other})
    low = RoPE(4, freq=torch.tensor([1.0, 1e-9]))
    with pytest.raises(ValueError, match="same base"):
        low.load_state_dict({name: torch.tensor([1.0, 2e-9])})
    with pytest.raises(RuntimeError, match=r"1\.elsewhere"):
        model.load_state_dict({**weights, "1.elsewhere": frequencies(8)})


def test_learned_frequencies_are_loaded():
    rope = RoPE(4, freq=torch.nn.Parameter(frequencies(4)))
    rope.load_state_dict({"freq": torch.tensor([0.5, 0.25])})
    assert rope.freq.tolist() == [0.5, 0.25]
