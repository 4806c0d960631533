"""posenc.schemes.grid against loops, and what two and three dimensions add to one."""

import copy
import itertools
import math
import pickle
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from posenc import Encoding, attend, frequencies, layout_permutation, rotate, sinusoidal
from posenc.schemes.grid import (
    Grid,
    GridRoPE,
    GridSinusoidal,
    MixedRoPE,
    MRoPE,
    axial_frequencies,
    grid_coordinates,
    mixed_frequencies,
    mrope_frequencies,
    mrope_positions,
    rotate_grid,
    sinusoidal_grid,
)
from posenc.schemes.rope import rotate_by

LAYOUTS = ["interleaved", "half"]
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
SPANS = st.lists(st.one_of(st.integers(0, 4), st.tuples(*[st.integers(1, 4)] * 3)), max_size=5)
PLACES = st.floats(-100, 100).map(lambda c: round(c, 3))
double = partial(torch.tensor, dtype=torch.float64)


def close(found: Tensor, expected: Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def turned(x: Tensor, coords: Tensor, freq: Tensor, layout: str) -> Tensor:
    """x (B, H, L, d), coords (B, L, n), freq (n, H, d/2): every pair of channels is a complex number."""
    out, half = torch.zeros_like(x), x.shape[-1] // 2
    for b, h, i, t in itertools.product(*map(range, (*x.shape[:3], half))):
        angle = sum(c * w for c, w in zip(coords[b, i].tolist(), freq[:, h, t].tolist(), strict=True))
        one, two = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + half)
        z = complex(x[b, h, i, one], x[b, h, i, two]) * complex(math.cos(angle), math.sin(angle))
        out[b, h, i, one], out[b, h, i, two] = z.real, z.imag
    return out


def score(q: Tensor, k: Tensor, m: Tensor, n: Tensor, freq: Tensor) -> Tensor:
    """q (d,) at place m and k (d,) at place n."""
    return (rotate_grid(q[None], m[None], freq) * rotate_grid(k[None], n[None], freq)).sum()


# --- where a position lies


@given(shape=SHAPES, rows=st.integers(-2, 2))
def test_coordinates_are_read_like_a_page(shape, rows):
    every = list(itertools.product(*map(range, shape)))
    pos = torch.arange(len(every))
    assert grid_coordinates(pos, shape).tolist() == [list(c) for c in every]
    beyond = grid_coordinates(pos + rows * math.prod(shape[1:]), shape)  # the first axis has no end
    assert beyond.tolist() == [[c[0] + rows, *c[1:]] for c in every]


def test_coordinates_of_a_batch_and_of_floats():
    pos = torch.tensor([[5, 0], [11, 7]])
    assert grid_coordinates(pos, (3, 4)).tolist() == [[[1, 1], [0, 0]], [[2, 3], [1, 3]]]
    assert grid_coordinates(pos, [9, 4]).dtype == torch.int64
    assert grid_coordinates(torch.tensor([5.5]), (3, 4)).tolist() == [[1.0, 1.5]]
    assert grid_coordinates(torch.arange(0), (3, 4)).shape == (0, 2)


def test_an_image_between_texts_has_the_positions_of_qwen2_vl():
    found = mrope_positions([2, (1, 2, 3), 2])
    assert found.dtype == torch.int64
    assert found.tolist() == [
        [0, 0, 0], [1, 1, 1],
        [2, 2, 2], [2, 2, 3], [2, 2, 4], [2, 3, 2], [2, 3, 3], [2, 3, 4],
        [5, 5, 5], [6, 6, 6],
    ]  # fmt: skip


def test_text_goes_on_after_a_video_that_is_longer_than_wide():
    found = mrope_positions([(3, 2, 2), 5])  # the example in Qwen2-VL's own code
    assert found[:, 0].tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3, 4, 5, 6, 7]
    assert found[:, 1].tolist() == [0, 0, 1, 1] * 3 + [3, 4, 5, 6, 7]
    assert found[:, 2].tolist() == [0, 1, 0, 1] * 3 + [3, 4, 5, 6, 7]


@given(spans=SPANS)
def test_spans_start_one_after_the_largest_coordinate_so_far(spans):
    expected, start = [], 0
    for span in spans:
        sizes = [range(start, start + size) for size in ((span,) if isinstance(span, int) else span)]
        expected += [(c, c, c) for c in sizes[0]] if isinstance(span, int) else itertools.product(*sizes)
        start = 1 + max(max(c) for c in expected) if expected else 0
    found = mrope_positions(spans)
    assert found.shape == (len(expected), 3)
    assert found.tolist() == [list(c) for c in expected]


def test_a_span_may_be_a_list_and_positions_may_be_made_elsewhere():
    assert torch.equal(mrope_positions([1, [1, 2, 2]]), mrope_positions((1, (1, 2, 2))))
    assert mrope_positions([3, (1, 2, 2)], device=torch.device("meta")).is_meta
    assert mrope_positions([], device=torch.device("meta")).is_meta


def test_a_class_token_is_a_row_of_the_table_and_is_not_turned():
    table = torch.cat((torch.zeros(1, 2), grid_coordinates(torch.arange(4), (2, 2))))
    x = torch.randn(1, 2, 5, 8)
    found = GridRoPE(8, coordinates=table).query(x, torch.arange(5))
    assert torch.equal(found[:, :, 0], x[:, :, 0])
    torch.testing.assert_close(found[:, :, 1:], GridRoPE(8, (2, 2)).query(x[:, :, 1:], torch.arange(4)))


TABLE = torch.tensor([[0.0, 0.5], [3.0, 1.0], [2.0, 7.0], [4.0, 4.0]])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_tables_are_looked_up_by_position(dtype):
    one, two = Grid(coordinates=TABLE), Grid(coordinates=torch.stack((TABLE, -TABLE)))
    pos = torch.tensor([3, 0, 0], dtype=dtype)
    both = torch.tensor([[3, 0], [1, 2]], dtype=dtype)
    assert torch.equal(one.locate(pos), TABLE[[3, 0, 0]])
    assert torch.equal(one.locate(both), torch.stack((TABLE[[3, 0]], TABLE[[1, 2]])))
    assert torch.equal(two.locate(pos), torch.stack((TABLE[[3, 0, 0]], -TABLE[[3, 0, 0]])))
    assert torch.equal(two.locate(both), torch.stack((TABLE[[3, 0]], -TABLE[[1, 2]])))
    assert torch.equal(two.locate(both[:1]), torch.stack((TABLE[[3, 0]], -TABLE[[3, 0]])))
    assert torch.equal(Grid(coordinates=TABLE[None]).locate(both), one.locate(both))
    for grid, shape in ((one, (0, 2)), (two, (2, 0, 2))):
        assert grid.locate(pos[:0]).shape == shape


def test_shapes_and_functions_locate_too():
    pos = torch.tensor([[5, 0], [11, 7]])
    assert torch.equal(Grid((3, 4)).locate(pos), grid_coordinates(pos, (3, 4)))
    assert Grid([3, 4]).shape == (3, 4)
    assert torch.equal(Grid(coordinates=lambda pos: pos[..., None] * 0.5).locate(pos), pos[..., None] * 0.5)
    assert [grid.axes for grid in (Grid((3, 4, 5)), Grid(coordinates=TABLE), Grid(coordinates=abs))] == [3, 2, None]
    assert Grid((3, 4)).doors == ()
    sinusoid = GridSinusoidal(6, coordinates=lambda pos: grid_coordinates(pos, (1, 2, 2)))
    assert sinusoid.embed(torch.zeros(1, 4, 6), torch.arange(4)).shape == (1, 4, 6)


def test_every_sequence_of_a_batch_has_its_own_places():
    spans = [[2, (1, 2, 2), 3], [(2, 2, 1), 2]]
    tables = [mrope_positions(s) for s in spans]
    together = nn.utils.rnn.pad_sequence(tables, batch_first=True)  # (2, 9, 3)
    rope = MRoPE(8, (2, 1, 1), coordinates=together)
    x = torch.randn(2, 3, 6, 8)
    pos = torch.stack((torch.arange(6), torch.tensor([0, 0, 0, 1, 2, 3])))  # the second is padded on the left
    found = rope.query(x, pos)
    for n in range(2):
        alone = MRoPE(8, (2, 1, 1), coordinates=tables[n])
        assert torch.equal(found[[n]], alone.query(x[[n]], pos[n]))
    rope.coordinates = together.flip(0)  # the next batch
    assert torch.equal(rope.query(x, pos)[0], MRoPE(8, (2, 1, 1), coordinates=tables[1]).query(x, pos[0])[0])
    assert torch.equal(rope.to(torch.float16).coordinates, together.flip(0))


# --- frequencies


@given(axes=st.integers(1, 3), share=st.integers(1, 4), base=st.floats(1.5, 1e6))
def test_axial_frequencies_are_those_of_one_dimension_in_blocks(axes, share, base):
    dim = 2 * axes * share
    expected = torch.zeros(axes, dim // 2, dtype=torch.float64)
    for axis, t in itertools.product(range(axes), range(share)):
        expected[axis, axis * share + t] = base ** (-2 * t * axes / dim)
    close(axial_frequencies(dim, axes, base, dtype=torch.float64), expected)
    close(axial_frequencies(dim, axes, base), expected.float(), 1e-6)


def test_axial_frequencies_of_an_image_by_default():
    expected = torch.tensor([[1.0, 0.1, 0.0, 0.0], [0.0, 0.0, 1.0, 0.1]])
    torch.testing.assert_close(axial_frequencies(8), expected)
    assert axial_frequencies(8).dtype == torch.float32
    assert axial_frequencies(8, dtype=torch.float16).dtype == torch.float16
    assert axial_frequencies(8, device=torch.device("meta")).is_meta


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(sum), base=st.floats(1.5, 1e6))
def test_sections_give_every_frequency_of_the_text_to_one_axis(sizes, base):
    dim = 2 * sum(sizes)
    found = mrope_frequencies(dim, sizes, base, dtype=torch.float64)
    owner = [axis for axis, size in enumerate(sizes) for _ in range(size)]
    for t, w in enumerate(frequencies(dim, base, dtype=torch.float64).tolist()):
        assert found[:, t].tolist() == [w if axis == owner[t] else 0.0 for axis in range(len(sizes))]


@given(axes=st.integers(1, 4), pairs=st.integers(4, 12), data=st.data())
def test_interleaved_sections_take_turns_and_the_first_has_the_rest(axes, pairs, data):
    sizes = [data.draw(st.integers(0, (pairs - axis - 1) // axes + 1)) for axis in range(1, axes)]
    if pairs < sum(sizes):
        return
    sizes = [pairs - sum(sizes), *sizes]
    owner = [0] * pairs
    for axis, size in list(enumerate(sizes))[1:]:
        for turn_ in range(size):
            owner[axis + axes * turn_] = axis
    found = mrope_frequencies(2 * pairs, sizes, 100.0, interleaved=True, dtype=torch.float64)
    owned = found.argmax(0)  # every frequency is positive, and 0 for the others
    assert owned.tolist() == owner
    assert torch.equal(found.sum(0), frequencies(2 * pairs, 100.0, dtype=torch.float64))
    assert found.count_nonzero() == pairs


def test_the_sections_of_qwen_by_default():
    two = mrope_frequencies(128)
    assert two.dtype == torch.float32
    assert torch.equal(two.sum(0), frequencies(128, 1_000_000.0))
    assert [row.nonzero().flatten().tolist() for row in two] == [
        list(range(16)),
        list(range(16, 40)),
        list(range(40, 64)),
    ]
    three = mrope_frequencies(128, (24, 20, 20), 5_000_000.0, interleaved=True)
    assert torch.equal(three.sum(0), frequencies(128, 5_000_000.0))
    assert [row.nonzero().flatten().tolist() for row in three] == [
        [*range(0, 60, 3), 60, 61, 62, 63],
        list(range(1, 60, 3)),
        list(range(2, 60, 3)),
    ]
    assert mrope_frequencies(128, device=torch.device("meta")).is_meta


def test_mixed_frequencies_are_axial_ones_turned_by_an_angle_per_head():
    angle = double([0.0, 0.7, math.pi / 2])
    found = mixed_frequencies(8, angle)
    assert found.shape == (2, 3, 4)
    for h, a in enumerate(angle.tolist()):
        for t, w in enumerate((1.0, 10**-0.5)):  # base 10
            expected = [[w * math.cos(a), -w * math.sin(a)], [w * math.sin(a), w * math.cos(a)]]
            close(found[:, h, t::2], double(expected))
    close(found[:, 0], axial_frequencies(8, 2, 10.0, dtype=torch.float64))
    assert mixed_frequencies(8, torch.zeros(3)).dtype == torch.float32
    close(mixed_frequencies(4, torch.zeros(1), 100.0)[:, 0], torch.eye(2))


def test_base_and_angles_may_be_tensors_with_gradients():
    base, angle = double(50.0).requires_grad_(), double([0.3, 2.0]).requires_grad_()
    wide = {"dtype": torch.float64}
    for call in (
        lambda b: axial_frequencies(12, 3, b, **wide),
        lambda b: mrope_frequencies(12, (2, 2, 2), b, **wide),
        lambda b: mrope_frequencies(12, (2, 2, 2), b, interleaved=True, **wide),
        lambda b: sinusoidal_grid(double([[1.0, 2.0]]), 8, b),
    ):
        assert torch.autograd.gradcheck(call, base)
    assert torch.autograd.gradcheck(lambda a, b: mixed_frequencies(8, a, b), (angle, base))


# --- sinusoids


@pytest.mark.parametrize("layout", LAYOUTS)
@given(places=st.lists(st.tuples(PLACES, PLACES, PLACES), min_size=1, max_size=3), axes=st.integers(1, 3))
def test_every_axis_has_its_share_of_the_sinusoids(layout, places, axes):
    coords = double(places)[:, :axes]
    share = 4
    expected = torch.zeros(len(places), axes * share, dtype=torch.float64)
    for row, axis, t in itertools.product(range(len(places)), range(axes), range(share // 2)):
        angle = float(coords[row, axis]) * 10_000.0 ** (-2 * t / share)
        sine, cosine = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + share // 2)
        expected[row, axis * share + sine] = math.sin(angle)
        expected[row, axis * share + cosine] = math.cos(angle)
    close(sinusoidal_grid(coords, axes * share, layout=layout), expected)


def test_one_axis_is_the_sinusoid_of_one_dimension():
    pos = torch.arange(7)
    assert torch.equal(sinusoidal_grid(pos[:, None], 8, 500.0), sinusoidal(pos, 8, 500.0))


def test_sinusoids_of_a_batch_and_of_any_type(device):
    coords = torch.tensor([[[0, 1], [2, 3]], [[7, 5], [1000, 2]]], device=device)
    both = sinusoidal_grid(coords, 8)
    assert both.shape == (2, 2, 8)
    assert both.dtype == torch.float32
    assert torch.equal(both[1], sinusoidal_grid(coords[1], 8))
    assert sinusoidal_grid(coords.double(), 8).dtype == torch.float64
    assert sinusoidal_grid(coords[:, :0], 8).shape == (2, 0, 8)


@given(shift=st.tuples(PLACES, PLACES))
def test_inner_products_of_sinusoids_see_differences_of_coordinates(shift):
    coords = double([[0.0, 0.0], [1.0, 0.0], [2.5, -3.0], [0.0, 4.0]])
    here, there = (sinusoidal_grid(c, 8) for c in (coords, coords + double(shift)))
    close(there @ there.T, here @ here.T)
    one = [sinusoidal(coords[:, axis], 4) for axis in range(2)]
    close(here @ here.T, sum(wave @ wave.T for wave in one))  # a row and a column function, added


# --- rotations


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    size=st.tuples(st.integers(1, 2), st.sampled_from([1, 2, 4]), st.integers(0, 3), st.integers(1, 3)),
    axes=st.integers(1, 3),
    heads=st.sampled_from([None, 1, 2]),
    batched=st.booleans(),
)
def test_rotate_grid_equals_loops(layout, size, axes, heads, batched):
    batch, count, length, pairs = size
    heads = None if heads is None or count % heads else heads
    x, coords = normal(batch, count, length, 2 * pairs), 10 * normal(batch if batched else 1, length, axes, seed=1)
    freq = normal(axes, heads or 1, pairs, seed=2)
    expected = turned(x, coords.expand(batch, -1, -1), freq.repeat_interleave(count // freq.shape[1], 1), layout=layout)
    freq = freq if heads else freq[:, 0]
    close(rotate_grid(x, coords if batched else coords[0], freq, layout=layout), expected)
    if not batched:
        close(rotate_grid(x, coords, freq, layout=layout), expected)
        close(rotate_grid(x[0], coords[0], freq, layout=layout), expected[0])
        if heads is None:
            close(rotate_grid(x[0, 0], coords[0], freq, layout=layout), expected[0, 0])
    elif heads is None:
        close(rotate_grid(x[:, 0], coords, freq, layout=layout), expected[:, 0])


def test_groups_of_heads_share_frequencies_as_they_share_keys():
    freq, coords = normal(2, 2, 2), normal(3, 2)
    x = normal(1, 1, 3, 4).expand(1, 4, 3, 4)
    found = rotate_grid(x, coords, freq)
    assert torch.equal(found[:, 0], found[:, 1]) and torch.equal(found[:, 2], found[:, 3])
    assert (found[:, 0] - found[:, 2]).abs().max() > 0.1
    assert torch.equal(found[:, ::2], rotate_grid(x[:, ::2], coords, freq))


def test_a_place_in_five_dimensional_tensors():
    x, coords, freq = normal(2, 3, 2, 4, 8), normal(2, 4, 2, seed=1), normal(2, 2, 4, seed=2)
    found = rotate_grid(x, coords, freq)
    for group in range(3):
        close(found[:, group], rotate_grid(x[:, group], coords, freq), 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turn_takes_an_angle_for_each_pair(layout):
    x, angle = normal(2, 3, 4, 6), 3 * normal(2, 1, 4, 3, seed=1)
    order = layout_permutation(6) if layout == "half" else torch.arange(6)
    z = torch.view_as_complex(x.unflatten(-1, (3, 2))) * torch.polar(torch.ones_like(angle), angle)
    close(rotate_by(x[..., order], angle, layout=layout), torch.view_as_real(z).flatten(-2)[..., order])
    assert torch.equal(rotate_by(x, angle), rotate_by(x, angle, layout="interleaved"))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(pos=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=4), interleaved=st.booleans())
def test_where_all_coordinates_are_equal_m_rope_is_rope_to_the_last_bit(layout, pos, interleaved):
    pos = torch.tensor(pos)
    coords = pos[:, None].expand(-1, 3)
    for x in (normal(2, 2, len(pos), 16), normal(2, 2, len(pos), 16).float(), normal(2, 2, len(pos), 16).bfloat16()):
        freq = mrope_frequencies(16, (4, 2, 2), 10_000.0, interleaved=interleaved)
        expected = rotate(x, pos, frequencies(16), layout=layout)
        assert torch.equal(rotate_grid(x, coords, freq, layout=layout), expected)


@given(pos=st.lists(st.integers(-1000, 1000), min_size=1, max_size=4), still=PLACES)
def test_along_a_row_axial_rope_is_rope_on_half_of_the_channels(pos, still):
    pos = torch.tensor(pos)
    x, freq = normal(len(pos), 8), axial_frequencies(8, 2, 50.0, dtype=torch.float64)
    one = frequencies(4, 50.0, dtype=torch.float64)
    row = torch.stack((torch.full_like(pos, 0), pos), -1)
    found = rotate_grid(x, row, freq)
    assert torch.equal(found[:, :4], x[:, :4])
    close(found[:, 4:], rotate(x[:, 4:], pos, one))
    column = torch.stack((pos.double(), torch.full_like(pos, still, dtype=torch.float64)), -1)
    found = rotate_grid(x, column, freq)
    close(found[:, :4], rotate(x[:, :4], pos, one))
    close(found[:, 4:], rotate(x[:, 4:], column[:, 1], one))


@given(angle=st.floats(-7, 7), place=st.tuples(PLACES, PLACES))
def test_mixed_rope_is_axial_rope_on_a_turned_grid(angle, place):
    x, coords = normal(1, 2, 1, 8), double([place])
    freq = mixed_frequencies(8, double([0.0, angle]), 100.0)
    found = rotate_grid(x, coords, freq)
    axial = axial_frequencies(8, dtype=torch.float64)
    close(found[:, 0], rotate_grid(x[:, 0], coords, axial))
    c, s = math.cos(angle), math.sin(angle)
    close(found[:, 1], rotate_grid(x[:, 1], coords @ double([[c, -s], [s, c]]), axial), 1e-9)


FREQUENCIES = {
    "axial": axial_frequencies(12, 3, dtype=torch.float64),
    "m-rope": mrope_frequencies(12, (2, 2, 2), dtype=torch.float64),
    "interleaved": mrope_frequencies(12, (2, 2, 2), interleaved=True, dtype=torch.float64),
    "any": normal(3, 6, seed=3),
}
every_form = pytest.mark.parametrize("form", FREQUENCIES)


@every_form
@given(m=st.tuples(*[PLACES] * 3), n=st.tuples(*[PLACES] * 3), shift=PLACES, axis=st.integers(0, 2))
def test_a_score_does_not_change_when_both_move_along_an_axis(form, m, n, shift, axis):
    (q, k), m, n, freq = normal(2, 12), double(m), double(n), FREQUENCIES[form]
    move = shift * torch.eye(3, dtype=torch.float64)[axis]
    close(score(q, k, m + move, n + move, freq), score(q, k, m, n, freq), 1e-9)
    close(score(q, k, m, n, freq), score(q, k, torch.zeros_like(m), n - m, freq), 1e-9)


@every_form
@given(m=st.tuples(*[PLACES] * 3), n=st.tuples(*[PLACES] * 3))
def test_turning_the_picture_round_is_exchanging_query_and_key(form, m, n):
    (q, k), m, n, freq = normal(2, 12), double(m), double(n), FREQUENCIES[form]
    close(score(q, k, -m, -n, freq), score(k, q, m, n, freq), 1e-9)
    assert (score(q, k, -double([1, 2, 3]), 0 * m, freq) - score(q, k, double([1, 2, 3]), 0 * m, freq)).abs() > 1e-3


@every_form
@given(m=st.tuples(*[PLACES] * 3), n=st.tuples(*[PLACES] * 3))
def test_rotations_keep_norms_and_add_up(form, m, n):
    x, m, n, freq = normal(1, 12), double([m]), double([n]), FREQUENCIES[form]
    close(rotate_grid(x, m, freq).unflatten(-1, (-1, 2)).norm(dim=-1), x.unflatten(-1, (-1, 2)).norm(dim=-1))
    close(rotate_grid(rotate_grid(x, m, freq), n, freq), rotate_grid(x, m + n, freq), 1e-9)
    close(rotate_grid(rotate_grid(x, m, freq), -m, freq), x)


def crossed(freq: Tensor) -> Tensor:
    """How much a score knows of rows and columns together: 0 if it is f(rows) + g(columns)."""
    q, k = normal(2, 8)
    zero, a, b = torch.zeros(2, dtype=torch.float64), double([2.0, 0.0]), double([0.0, 3.0])
    return sum(sign * score(q, k, zero, n, freq) for sign, n in ((1, a + b), (-1, a), (-1, b), (1, zero)))


def test_an_axial_score_is_a_sum_over_rows_and_columns_and_a_mixed_one_is_not():
    assert crossed(axial_frequencies(8, dtype=torch.float64)).abs() < 1e-12
    assert crossed(mixed_frequencies(8, double([0.0]))[:, 0]).abs() < 1e-12
    assert crossed(mixed_frequencies(8, double([0.6]))[:, 0]).abs() > 0.1


def test_mixed_rope_can_attend_to_a_diagonal_which_axial_rope_cannot_single_out():
    """Frequencies (w, -w) do not change along the diagonal, and turn away from it."""
    places = grid_coordinates(torch.arange(25), (5, 5)) - 2
    q = torch.ones(1, 4, dtype=torch.float64)

    def scores(freq: Tensor) -> Tensor:
        return (rotate_grid(q.expand(25, 4), places, freq) @ q.T).view(5, 5)

    diagonal = torch.eye(5, dtype=torch.bool)
    mixed = scores(double([[1.0, 0.5], [-1.0, -0.5]]))
    assert mixed[diagonal].min() > mixed[~diagonal].max() + 0.5
    axial = scores(axial_frequencies(4, dtype=torch.float64))
    assert axial[diagonal].min() < axial[~diagonal].max()


def test_the_pictures_of_dinov3_have_coordinates_from_minus_one_to_one():
    shape, base, dim = (2, 3), 100.0, 8
    centres = (grid_coordinates(torch.arange(6), shape) + 0.5) / torch.tensor(shape) * 2 - 1
    x = normal(6, dim)
    found = rotate_grid(x, 2 * math.pi * centres.double(), axial_frequencies(dim, dtype=torch.float64), layout="half")
    for i, (row, column) in enumerate(itertools.product((-0.5, 0.5), (-2 / 3, 0.0, 2 / 3))):
        angles = [2 * math.pi * c * base ** (-4 * t / dim) for c in (row, column) for t in range(dim // 4)]
        for t, angle in enumerate(angles):
            c, s = math.cos(angle), math.sin(angle)
            a, b = x[i, t], x[i, t + dim // 2]
            close(found[i, [t, t + dim // 2]], torch.stack((a * c - b * s, a * s + b * c)), 1e-5)


def test_coordinates_between_the_places_serve_another_resolution():
    fine, x = GridRoPE(8, coordinates=grid_coordinates(torch.arange(16), (4, 4)) / 2), torch.randn(1, 1, 4, 8)
    same = torch.tensor([0, 2, 8, 10])  # every other row and column
    torch.testing.assert_close(fine.query(x, same), GridRoPE(8, (2, 2)).query(x, torch.arange(4)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_reach_x_coordinates_and_frequencies(layout):
    x = normal(2, 2, 3, 4).requires_grad_()
    coords, freq = normal(2, 3, 2).requires_grad_(), normal(2, 2, 2).requires_grad_()
    run = partial(rotate_grid, layout=layout)
    assert torch.autograd.gradcheck(run, (x, coords, freq))
    assert torch.autograd.gradcheck(run, (x, coords[0], freq[:, 0]))
    assert torch.autograd.gradcheck(lambda c: sinusoidal_grid(c, 8, layout=layout), coords)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_result_once(dtype, device):
    x = torch.randn(1, 2, 3, 8, device=device).to(dtype)
    coords = torch.tensor([[0, 1], [300, 7], [4095, 4093]], device=device)
    freq = mixed_frequencies(8, torch.tensor([0.3, 2.0], device=device))
    found = rotate_grid(x, coords, freq)
    assert found.dtype == dtype
    assert torch.equal(found, rotate_grid(x.float(), coords, freq).to(dtype))
    rough = freq.to(dtype)  # a learned frequency is rounded with its model, and its angles are not
    assert torch.equal(rotate_grid(x, coords, rough), rotate_grid(x.float(), coords, rough.float()).to(dtype))


def test_float64_frequencies_give_angles_in_float64():
    far, x = torch.tensor([[10**8 + 1, 10**8 + 3]]), normal(1, 8).float()
    freq = axial_frequencies(8, dtype=torch.float64)
    found = rotate_grid(x, far, freq)
    assert found.dtype == torch.float32
    close(found.double(), turned(x.double()[None, None], far[None], freq[:, None], "interleaved")[0, 0], 1e-6)
    near, coarse = torch.rand(1, 2, dtype=torch.float64), freq.float()
    wide = rotate_grid(x.double(), near, coarse)  # the angle has the precision of freq, and then that of x
    assert torch.equal(wide, rotate_grid(x.double(), near.float(), coarse))
    wide = rotate_by(x.double(), torch.ones(1, 4))  # the cosine of a float32 angle is taken in x's precision
    close(wide, rotate_by(x.double(), torch.ones(1, 4, dtype=torch.float64)), 0)


def test_autocast_does_not_spoil_the_angles():
    x, coords, freq = torch.randn(1, 1, 4, 8), torch.arange(4000, 4008).view(4, 2), axial_frequencies(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = rotate_grid(x, coords, freq)
    assert torch.equal(found, rotate_grid(x, coords, freq))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_no_numbers_come_back_as_such(bad):
    x = torch.ones(1, 1, 2, 8)
    coords = torch.tensor([[1.0, 2.0], [bad, 2.0]])
    freq = axial_frequencies(8)
    found = rotate_grid(x, coords, freq)
    assert found[..., 0, :].isfinite().all()
    assert found[..., 1, :4].isnan().all()
    assert rotate_grid(bad * x, coords[:1].expand(2, 2), freq).isnan().any()
    assert sinusoidal_grid(coords, 8)[1].isnan().tolist() == [True] * 4 + [False] * 4
    assert GridRoPE(8, coordinates=coords).query(x, torch.arange(2)).shape == x.shape


# --- the encodings

POS = torch.arange(12)
ENCODINGS = {
    "axial": lambda: GridRoPE(12, (3, 4), base=50.0, coordinates=None, layout="interleaved"),
    "video": lambda: GridRoPE(12, (2, 2, 3)),
    "table": lambda: GridRoPE(12, coordinates=grid_coordinates(POS, (3, 4)) / 2, layout="half"),
    "m-rope": lambda: MRoPE(12, (2, 2, 2), coordinates=mrope_positions([3, (1, 2, 3), 3])),
    "mixed": lambda: MixedRoPE(12, 2, (3, 4), layout="half"),
}
every_rope = pytest.mark.parametrize("name", ENCODINGS)


@every_rope
def test_ropes_turn_queries_and_keys_and_nothing_else(name, device):
    rope = ENCODINGS[name]().to(device)
    x, pos = torch.randn(2, 2, 12, 12, device=device), POS.to(device)
    expected = rotate_grid(x, rope.locate(pos), rope.freq, layout=rope.layout)
    assert torch.equal(rope.query(x, pos), expected)
    assert torch.equal(rope.key(x, pos), expected)
    assert rope.embed(x, pos) is x
    assert rope.doors == ("query", "key")
    assert isinstance(rope, Encoding)
    assert not torch.equal(expected, x)


def test_a_grid_is_axial_unless_told_otherwise():
    rope = GridRoPE(8, (3, 4))
    assert torch.equal(rope.freq, axial_frequencies(8, 2, 100.0))
    assert torch.equal(GridRoPE(12, (2, 3, 4), 7.0).freq, axial_frequencies(12, 3, 7.0))
    assert torch.equal(GridRoPE(8, coordinates=TABLE).freq, rope.freq)
    assert rope.layout == MRoPE(coordinates=TABLE[:, :1].expand(4, 3)).layout == "interleaved"
    assert MixedRoPE(8, 2, (3, 4)).layout == GridSinusoidal(8, (3, 4)).layout == "interleaved"
    freq = torch.randn(2, 4)
    assert torch.equal(GridRoPE(8, (3, 4), freq=freq).freq, freq)
    anywhere = GridRoPE(8, coordinates=lambda pos: grid_coordinates(pos, (3, 4)), freq=axial_frequencies(8))
    x = torch.randn(1, 1, 12, 8)
    assert torch.equal(anywhere.query(x, POS), rope.query(x, POS))


def test_m_rope_is_made_for_qwen2_vl_unless_told_otherwise():
    table = mrope_positions([2, (1, 1, 1)])
    assert torch.equal(MRoPE(coordinates=table).freq, mrope_frequencies(128))
    other = MRoPE(8, [2, 1, 1], 50.0, interleaved=True, shape=(2, 2, 2), layout="half")
    assert torch.equal(other.freq, mrope_frequencies(8, (2, 1, 1), 50.0, interleaved=True))
    assert (other.shape, other.layout, other.base) == ((2, 2, 2), "half", 50.0)
    assert repr(MRoPE(8, (2, 1, 1), shape=(2, 2, 2))).endswith("sections=(2, 1, 1))")


def test_text_in_m_rope_is_as_in_the_text_model():
    text = MRoPE(16, (4, 2, 2), 10_000.0, coordinates=mrope_positions([12]))
    x = torch.randn(1, 2, 12, 16)
    assert torch.equal(text.query(x, POS), rotate(x, POS, frequencies(16)))


def test_mixed_rope_learns_a_direction_for_every_pair_and_head():
    rope = MixedRoPE(12, 5, (3, 4))
    assert isinstance(rope.freq, nn.Parameter)
    assert rope.freq.shape == (2, 5, 6)
    assert [name for name, _ in rope.named_parameters()] == list(rope.state_dict()) == ["freq"]
    length = rope.freq.norm(dim=0)
    expected = frequencies(6, 10.0)
    torch.testing.assert_close(length, torch.cat((expected, expected)).expand(5, 6))
    torch.testing.assert_close(MixedRoPE(12, 5, (3, 4), 100.0).freq.norm(dim=0)[0, :3], frequencies(6, 100.0))
    before = rope.freq.detach().clone()
    rope.reset_parameters()
    assert (rope.freq - before).abs().max() > 0.1
    assert rope.freq.requires_grad


def test_mixed_rope_begins_with_directions_all_around():
    freq = MixedRoPE(4, 400, (3, 4)).freq.detach()[:, :, 0]  # (2, H), unit vectors
    angle = torch.atan2(freq[1], freq[0])
    assert angle.min() < -3 and angle.max() > 3
    assert (angle.sort().values.diff() < 0.15).all()


def test_a_parameter_is_learned_and_anything_else_keeps_its_precision():
    table, freq = torch.randn(4, 2), torch.randn(2, 4)
    fixed = GridRoPE(8, coordinates=table, freq=freq)
    assert fixed.exact == ("coordinates", "freq")
    assert not fixed.state_dict() and not list(fixed.parameters())
    cast = copy.deepcopy(fixed).to(torch.bfloat16)
    assert torch.equal(cast.freq, freq) and torch.equal(cast.coordinates, table)
    learned = GridRoPE(8, coordinates=nn.Parameter(table.clone()), freq=nn.Parameter(freq.clone()))
    assert learned.exact == ()
    assert {name for name, _ in learned.named_parameters()} == {"coordinates", "freq"}
    learned.query(torch.randn(1, 1, 4, 8), torch.arange(4)).square().mul(torch.randn(8)).sum().backward()
    assert learned.freq.grad.abs().sum() > 0 and learned.coordinates.grad.abs().sum() > 0
    assert GridRoPE(8, coordinates=table.half(), freq=freq.half()).coordinates.dtype == torch.float32
    assert GridRoPE(8, coordinates=torch.arange(8).view(4, 2)).coordinates.dtype == torch.float32
    assert GridRoPE(8, coordinates=table.double(), freq=freq.double()).freq.dtype == torch.float64
    assert GridRoPE.exact == ()


def test_built_on_the_meta_device_frequencies_come_with_the_memory():
    with torch.device("meta"):
        model = nn.Sequential(GridRoPE(8, (3, 4), 7.0), MRoPE(8, (2, 1, 1), 50.0, shape=(1, 2, 2)))
        mixed, given_ = MixedRoPE(8, 2, (3, 4)), GridRoPE(8, (3, 4), freq=axial_frequencies(8))
    assert all(part.freq.is_meta for part in (*model, mixed, given_))
    model.to_empty(device="cpu")
    assert torch.equal(model[0].freq, axial_frequencies(8, 2, 7.0))
    assert torch.equal(model[1].freq, mrope_frequencies(8, (2, 1, 1), 50.0))
    mixed.to_empty(device="cpu").reset_parameters()
    torch.testing.assert_close(mixed.freq.norm(dim=0), frequencies(4, 10.0).repeat(2).expand(2, 4))
    assert given_.to_empty(device="cpu").freq.isnan().all()  # nobody knows them any more
    with torch.device("meta"):
        lost = GridRoPE(8, coordinates=mrope_positions([4])[:, :2])
    assert lost.to_empty(device="cpu").coordinates.isnan().all()


@every_rope
def test_encodings_are_copied_saved_and_sent(name):
    rope, x = ENCODINGS[name](), torch.randn(1, 2, 12, 12)
    fresh = ENCODINGS[name]()
    fresh.load_state_dict(rope.state_dict())
    for same in (copy.deepcopy(rope), pickle.loads(pickle.dumps(rope)), fresh):
        assert torch.equal(same.query(x, POS), rope.query(x, POS))


class Apply(nn.Module):
    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        x = self.encoding.embed(x, pos)
        return self.encoding.query(x.unflatten(-1, (2, 12)).transpose(1, 2), pos)


def tables() -> GridRoPE:
    """A table for each sequence. The contract traces the other forms."""
    return GridRoPE(12, coordinates=torch.randn(2, 12, 2))


def test_compiled_without_a_graph_break_tables_are_the_same():
    torch._dynamo.reset()
    layer = Apply(tables())
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    x = torch.randn(2, 12, 24)
    for pos in (POS, torch.stack((POS, POS.flip(0)))):
        torch.testing.assert_close(compiled(x, pos), layer(x, pos), rtol=0, atol=1e-5)


def test_exported_tables_take_any_length():
    layer, length = Apply(tables()), torch.export.Dim("length", min=2)
    args, shapes = (torch.randn(2, 5, 24), torch.arange(5)), ({1: length}, {0: length})
    program = torch.export.export(layer, args, dynamic_shapes=shapes).module()
    x, pos = torch.randn(2, 12, 24), POS.flip(0)
    torch.testing.assert_close(program(x, pos), layer(x, pos), rtol=0, atol=1e-5)


@every_rope
@settings(max_examples=10)
@given(rows=st.integers(0, 50))
def test_attention_to_a_grid_does_not_see_where_the_grid_begins(name, rows):
    if name in ("table", "m-rope"):
        return
    rope = ENCODINGS[name]().double()
    q, k, v = (normal(1, 2, 12, 12, seed=n) for n in range(3))
    row = math.prod(rope.shape[1:])
    here, there = (
        attend(rope.query(q, pos), rope.key(k, pos), v, rope, pos, pos, causal=False) for pos in (POS, POS + rows * row)
    )
    close(there, here, 1e-4)
    aside = attend(rope.query(q, POS + 1), rope.key(k, POS + 1), v, rope, POS, POS, causal=False)
    assert (aside - here).abs().max() > 1e-3  # what moves over an edge does not stay in line


def test_sinusoids_are_added_to_the_input(device):
    x, pos = torch.randn(2, 12, 8, device=device), POS.to(device)
    grid = GridSinusoidal(8, (3, 4), 500.0, layout="half")
    wave = sinusoidal_grid(grid_coordinates(pos, (3, 4)), 8, 500.0, layout="half")
    assert torch.equal(grid.embed(x, pos), x + wave)
    assert grid.doors == ("embed",)
    shifted = torch.stack((pos, pos + 7))
    two = sinusoidal_grid(grid_coordinates(shifted, (3, 4)), 8, 500.0, layout="half")
    assert torch.equal(grid.embed(x, shifted), x + two)
    table = torch.randn(2, 12, 2, device=device)
    of_its_own = GridSinusoidal(8, coordinates=table).to(device)
    assert torch.equal(of_its_own.embed(x, pos), x + sinusoidal_grid(table, 8))
    video = GridSinusoidal(12, (2, 2, 3)).embed(torch.zeros(12, 12), POS)
    assert torch.equal(video, sinusoidal_grid(grid_coordinates(POS, (2, 2, 3)), 12, 10_000.0))
    free = GridSinusoidal(8, coordinates=lambda pos: grid_coordinates(pos, (3, 4)))
    assert torch.equal(free.embed(x.cpu(), POS), GridSinusoidal(8, (3, 4)).embed(x.cpu(), POS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_sum_and_not_the_angle(dtype):
    pos = torch.tensor([4093 * 64 + 3])
    found = GridSinusoidal(8, (64, 64)).to(dtype).embed(torch.zeros(1, 1, 8, dtype=dtype), pos)
    assert found.dtype == dtype
    exact = sinusoidal_grid(torch.tensor([[4093.0, 3.0]], dtype=torch.float64), 8)
    torch.testing.assert_close(found[0].double(), exact, rtol=0, atol=4e-3)
    x = torch.randn(1, 12, 8).to(dtype)
    grid = GridSinusoidal(8, (3, 4))
    assert torch.equal(grid.embed(x, POS), grid.embed(x.float(), POS).to(dtype))


# --- bad input


def refused(match: str) -> pytest.RaisesExc[ValueError]:
    return pytest.raises(ValueError, match=match)


@pytest.mark.parametrize("shape", [(), (0, 4), (3, 0), (3, -1)])
def test_grids_without_places_are_refused(shape):
    for call in (lambda: grid_coordinates(POS, shape), lambda: GridRoPE(8, shape), lambda: GridSinusoidal(8, shape)):
        with refused(r"shape is \(.*1 or more"):
            call()


@pytest.mark.parametrize("span", [-1, 2.0, (1, 2), (1, 2, 3, 4), (1, 0, 2), (1, -1, 2), (1, 2.0, 2), "abc", POS[:3]])
def test_spans_that_are_neither_text_nor_image_are_refused(span):
    with refused(r"span is .*\(t, h, w\) .*\.tolist"):
        mrope_positions([3, span])


@pytest.mark.parametrize(
    ("dim", "axes", "multiple", "use"), [(6, 2, 4, 8), (0, 2, 4, 4), (-4, 2, 4, 4), (64, 3, 6, 66), (7, 1, 2, 8)]
)
def test_dimensions_that_axes_cannot_share_are_refused(dim, axes, multiple, use):
    table = torch.zeros(3, axes)
    ends = rf"is {dim}, .*multiple of {multiple}, such as {use}"
    with refused(rf"^dim {ends}$"):
        sinusoidal_grid(table, dim)
    with refused(rf"^model_dim {ends}$"):
        GridSinusoidal(dim, coordinates=table)
    for call in (lambda: axial_frequencies(dim, axes), lambda: GridRoPE(dim, coordinates=table)):
        with refused(rf"^head_dim {ends}; mrope_frequencies"):
            call()
    if axes == 2:
        for call in (lambda: mixed_frequencies(dim, torch.zeros(1)), lambda: MixedRoPE(dim, 2, (3, 4))):
            with refused(rf"head_dim {ends}"):
                call()


def test_axes_and_heads_are_counted_from_one():
    with refused("axes is 0: .*1 or more"):
        axial_frequencies(8, 0)
    with refused("heads is 0: .*1 or more"):
        MixedRoPE(8, 0, (3, 4))
    for angle in (torch.zeros(()), torch.zeros(1, 2), torch.zeros(2, dtype=torch.int64)):
        with refused("angle .*one for each head"):
            mixed_frequencies(8, angle)


def test_sections_that_do_not_add_up_are_refused():
    for sizes in ((16, 24, 25), (16, 24, 23), (-1, 64, 1), ()):
        with refused(r"sections .*head_dim=128 .*\((64,|22, 21, 21)\)"):
            mrope_frequencies(128, sizes)
        with refused("sections .*64 pairs"):
            MRoPE(128, sizes, coordinates=TABLE[:, :1].expand(4, 3))
    with refused("head_dim is 7, .*even"):
        mrope_frequencies(7, (1, 1, 1))
    mrope_frequencies(128, (22, 21, 21), interleaved=True)
    with refused("sections .*4 pairs"):  # pair 4 would be the first that is not there
        mrope_frequencies(8, (1, 2, 1), interleaved=True)


@pytest.mark.parametrize(
    ("sizes", "good"), [((0, 4, 2), False), ((2, 2, 2), True), ((2, 1, 3), False), ((6, 0, 0), True)]
)
def test_interleaved_sections_that_run_out_of_pairs_are_refused(sizes, good):
    if good:
        assert mrope_frequencies(12, sizes, interleaved=True).count_nonzero(1).tolist() == list(sizes)
        return
    assert mrope_frequencies(12, sizes).count_nonzero(1).tolist() == list(sizes)
    with refused(r"sections .*interleaved .*6 pairs .*\(2, 2, 2\)"):
        mrope_frequencies(12, sizes, interleaved=True)


def test_coordinates_of_the_wrong_shape_or_type_are_refused():
    x, freq = torch.zeros(2, 4, 3, 8), axial_frequencies(8)
    for coords in (torch.zeros(3), torch.zeros(1, 1, 3, 2), torch.zeros(3, 0)):
        ends = r"has shape \(.*\): .*\(L, n\)"
        for call in (lambda c=coords: rotate_grid(x, c, freq), lambda c=coords: sinusoidal_grid(c, 8)):
            with refused("coords " + ends):
                call()
        with refused("coordinates " + ends):
            GridRoPE(8, coordinates=coords)
    for dtype in (torch.bool, torch.complex64):
        with refused(rf"coords is {dtype}, .*coords\.float"):
            rotate_grid(x, torch.zeros(3, 2, dtype=dtype), freq)
    with refused(r"coords holds 4 .*\(3, 2\)"):
        rotate_grid(x, torch.zeros(4, 2), freq)
    with refused(r"coords holds 4 .*\(3, 2\)"):
        rotate_grid(x, torch.zeros(1, 4, 2), freq)
    with refused(r"coords .*3 sequences .*\(2, L, n\)"):
        rotate_grid(x[:, :, :2], torch.zeros(3, 2, 2), freq)
    with refused(r"coords .*single sequence: .*\(3, 2\)"):
        rotate_grid(x[0, 0], torch.zeros(1, 3, 2), freq)
    for table, message in (
        (torch.zeros(3, 3, 2), "places for 3 sequences and the batch has 2"),
        (torch.zeros(3, 3, 2)[:, :, :1], "places for 3 sequences and the batch has 2"),
    ):
        with refused(message):
            GridSinusoidal(8, coordinates=table).embed(torch.zeros(2, 3, 8), torch.arange(3))
    rotate_grid(x, torch.zeros(1, 3, 2), freq)


def test_frequencies_of_the_wrong_shape_are_refused():
    x, coords = torch.zeros(2, 4, 3, 8), torch.zeros(3, 2)
    for freq in (torch.zeros(3, 4), torch.zeros(2, 8), torch.zeros(4), torch.zeros(2, 1, 1, 4), torch.zeros(3, 1, 4)):
        with refused(r"freq .*x has 8 channels: .*\(2, 4\)"):
            rotate_grid(x, coords, freq)
        with refused(r"freq .*head_dim=8 makes 4 pairs .*\(2, 4\)"):
            GridRoPE(8, (3, 4), freq=freq)
    with refused(r"freq .*\(n, 4\)"):
        GridRoPE(8, coordinates=abs, freq=torch.zeros(2, 3))
    with refused("head_dim is 7, .*even"):
        GridRoPE(7, (3, 4), freq=torch.zeros(2, 3))
    for y, places, heads in (
        (x, coords, 3),
        (x, coords, 8),
        (x, coords, 0),
        (x[0, 0], coords, 1),
        (x[0], coords[None], 1),
    ):
        with refused(f"freq .*{heads} heads and x .*multiple of {heads}; .*as many as keys"):
            rotate_grid(y, places, torch.zeros(2, heads, 4))
    with refused(r"x\[None, :\]"):
        rotate_grid(torch.zeros(8), coords, axial_frequencies(8))
    with refused("dimension is 7, .*even"):
        rotate_grid(torch.zeros(3, 7), coords, axial_frequencies(8))
    with refused("freq .*3 coordinates"):
        MixedRoPE(8, 2, (3, 4, 5))
    with refused("freq .*2 coordinates"):
        MRoPE(8, (2, 1, 1), shape=(3, 4))


def test_places_are_given_once():
    for given_, options in (("neither", {}), ("both", {"shape": (3, 4), "coordinates": TABLE})):
        for call in (Grid, partial(GridRoPE, 8), partial(GridSinusoidal, 8), partial(MixedRoPE, 8, 2), MRoPE):
            with refused(f"{given_} shape and coordinates .*use one"):
                call(**options)
    with refused(r"coordinates is a function, .*freq.*axial_frequencies\(8, 2\)"):
        GridRoPE(8, coordinates=abs)


def test_positions_that_are_not_in_the_table_are_refused():
    grid = Grid(coordinates=TABLE)
    for pos, low, high in (([-1, 2], -1, 2), ([0, 4], 0, 4)):
        with refused(f"pos goes from {low} to {high}, .*coordinates .* 0 to 3: .*longer"):
            grid.locate(torch.tensor(pos))
    with refused(r"pos is torch\.float32, .*torch\.arange"):
        grid.locate(torch.zeros(2))
    with refused(r"pos .*\(L,\)"):
        grid.locate(torch.tensor(1))
    with refused(r"pos .*\(L,\)"):
        Grid((3, 4)).locate(torch.tensor(1))
    with refused(r"coordinates .*2 sequences .*pos has 3: .*\(3, N, n\)"):
        Grid(coordinates=torch.stack((TABLE, TABLE))).locate(torch.zeros(3, 2, dtype=torch.long))
    assert grid.locate(torch.tensor([0, 3])).tolist() == TABLE[[0, 3]].tolist()
    assert grid.to("meta").locate(torch.tensor([0, 9], device="meta")).shape == (2, 2)  # no values, no check


def test_other_bad_input_is_refused():
    for call in (
        lambda: rotate_grid(torch.zeros(3, 8), torch.zeros(3, 2), axial_frequencies(8), layout="neox"),
        lambda: sinusoidal_grid(torch.zeros(3, 2), 8, layout="neox"),
        lambda: GridRoPE(8, (3, 4), layout="neox"),
        lambda: GridSinusoidal(8, (3, 4), layout="neox"),
        lambda: MixedRoPE(8, 2, (3, 4), layout="neox"),
    ):
        with refused("layout is 'neox': .*half"):
            call()
    for call in (
        lambda: axial_frequencies(8, 2, 0),
        lambda: mrope_frequencies(8, (2, 1, 1), 0),
        lambda: mixed_frequencies(8, torch.zeros(1), 0),
        lambda: sinusoidal_grid(torch.zeros(3, 2), 8, 0),
        lambda: GridSinusoidal(8, (3, 4), 0),
        lambda: GridRoPE(8, (3, 4), 0),
    ):
        with refused("base is 0, .*positive"):
            call()
    embed = GridSinusoidal(8, (3, 4)).embed
    with refused("model_dim=6"):
        embed(torch.zeros(1, 3, 6), torch.arange(3))
    with refused("pos holds 4"):
        embed(torch.zeros(1, 3, 8), torch.arange(4))


def test_heads_begin_with_an_even_share_of_a_full_turn_wherever_they_lie():
    torch.manual_seed(5)
    angle = 2 * math.pi * torch.rand(3)
    torch.manual_seed(5)
    rope = MixedRoPE(8, 3, (3, 4), 20.0)
    assert torch.equal(rope.freq, mixed_frequencies(8, angle, 20.0))
    with torch.device("meta"):
        rope.reset_parameters()
    assert rope.freq.device.type == "cpu"
    torch.manual_seed(5)
    rope.reset_parameters()
    assert torch.equal(rope.freq, mixed_frequencies(8, angle, 20.0))


# --- what modules show and take


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Grid((3, 4)), "Grid(shape=(3, 4))"),
        (GridRoPE(8, (3, 4)), "GridRoPE(head_dim=8, shape=(3, 4), base=100.0, layout='interleaved')"),
        (
            GridRoPE(8, coordinates=TABLE, freq=axial_frequencies(8), layout="half"),
            "GridRoPE(head_dim=8, coordinates=<Tensor>, freq=<Tensor>, layout='half')",
        ),
        (
            GridSinusoidal(8, coordinates=abs),
            "GridSinusoidal(model_dim=8, coordinates=<function>, base=10000.0, layout='interleaved')",
        ),
        (
            MixedRoPE(8, 2, (3, 4)),
            "MixedRoPE(head_dim=8, shape=(3, 4), freq=<Parameter>, layout='interleaved', heads=2, base=10.0)",
        ),
        (
            MRoPE(8, (2, 1, 1), shape=(2, 2, 2), interleaved=True),
            "MRoPE(head_dim=8, shape=(2, 2, 2), base=1000000.0, layout='interleaved', sections=(2, 1, 1), "
            "interleaved=True)",
        ),
    ],
)
def test_encodings_print_what_they_are_made_of(made, text):
    assert repr(made) == text


def test_device_and_dtype_are_those_of_what_is_learned_and_the_rest_keeps_float32():
    where = {"device": "meta", "dtype": torch.bfloat16}
    for rope in (GridRoPE(8, (3, 4), **where), MRoPE(8, (2, 1, 1), shape=(2, 2, 2), **where)):
        assert rope.freq.is_meta and rope.freq.dtype == torch.float32
        assert rope.to_empty(device="cpu").freq.isfinite().all()
    table = GridSinusoidal(8, coordinates=TABLE, **where).coordinates
    assert table.is_meta and table.dtype == torch.float32
    for make, axes in ((Grid, 2), (partial(GridSinusoidal, 8), 2), (partial(GridRoPE, 8), 2),
                       (partial(MixedRoPE, 8, 2), 2), (partial(MRoPE, 8, (2, 1, 1)), 3)):  # fmt: skip
        table = make(coordinates=nn.Parameter(torch.ones(4, axes)), **where).coordinates
        assert table.is_meta and table.dtype == torch.bfloat16
    assert MixedRoPE(8, 2, (3, 4), **where).freq.dtype == torch.bfloat16
    learned = MixedRoPE(8, 2, (3, 4), dtype=torch.bfloat16).freq
    assert isinstance(learned, nn.Parameter) and learned.isfinite().all()
    with torch.device("meta"):
        for make in (partial(GridRoPE, 8), partial(MixedRoPE, 8, 2), partial(MRoPE, 8, (2, 2))):
            assert not make(shape=(3, 4), device="cpu").freq.is_meta
