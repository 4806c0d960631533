"""posenc.schemes.shaw against loops, its naive form and the paper's own, and what it may not store."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc import NoPE, attend, attention_weights
from posenc.schemes.shaw import Shaw, shaw_fused, shaw_label, shaw_naive
from tests.helpers import Sizes, close

CLIPS = st.integers(0, 5)


@torch.no_grad()
def oracle(q, k, v, shaw: Shaw, qpos, kpos, causal: bool = True) -> Tensor:
    """Equations 3 and 4, one number after the other; qpos (B, Lq), kpos (B, Lk), and some key for each query."""
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    groups = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            tables = [t if t is None or t.ndim == 2 else t[h] for t in (shaw.key_table, shaw.value_table)]
            for i in range(q.shape[2]):
                keys = [j for j in range(k.shape[2]) if kpos[b, j] <= qpos[b, i] or not causal]
                rows = [max(-shaw.clip, min(shaw.clip, int(kpos[b, j] - qpos[b, i]))) + shaw.clip for j in keys]
                e = []
                for j, row in zip(keys, rows, strict=True):
                    key = k[b, h // groups, j] + tables[0][row]
                    e.append(math.exp(float(q[b, h, i] @ key) / math.sqrt(q.shape[-1])))
                for n, (j, row) in enumerate(zip(keys, rows, strict=True)):
                    value = v[b, h // groups, j] + (0 if tables[1] is None else tables[1][row])
                    out[b, h, i] += e[n] / sum(e) * value
    return out


def paper(q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor, pos: Tensor) -> Tensor:
    """Section 3.3: the product split in two, with one (L, L, d) for all heads and sequences; not causal."""
    label = shaw_label(pos[None, :] - pos[:, None], key_table.shape[0] // 2)
    score = q @ k.mT + torch.einsum("bhid, ijd -> bhij", q, key_table[label])
    weight = (score * q.shape[-1] ** -0.5).softmax(-1)
    return weight @ v + torch.einsum("bhij, ijd -> bhid", weight, value_table[label])


def make(*args: object, **options: object) -> Shaw:
    shaw = Shaw(*args, **options).double()
    for table in shaw.parameters():
        torch.nn.init.normal_(table)
    return shaw


def vectors(batch: int = 2, heads: int = 4, length: int = 6, dim: int = 3, grouped: int | None = None):
    shapes = [(batch, n, length, dim) for n in (heads, grouped or heads, grouped or heads)]
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


@given(offset=st.integers(-(10**6), 10**6), clip=st.integers(0, 10**6))
def test_labels_equal_the_formula(offset, clip):
    assert shaw_label(torch.tensor(offset), clip).item() == max(-clip, min(clip, offset)) + clip


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_labels_run_from_the_far_past_to_the_far_future(dtype):
    label = shaw_label(torch.tensor([[-9, -3, -2, -1], [0, 1, 2, 9]], dtype=dtype), 2)
    assert label.tolist() == [[0, 0, 0, 1], [2, 3, 4, 4]]
    assert label.dtype == dtype
    assert shaw_label(torch.tensor([-1, 0, 1]), 0).tolist() == [0, 0, 0]


@settings(max_examples=25)
@given(
    data=st.data(), clip=CLIPS, groups=st.sampled_from([1, 2]), per_head=st.booleans(), values=st.booleans(),
    causal=st.booleans(),
)  # fmt: skip
def test_it_equals_loops_for_positions_in_any_order(data, clip, groups, per_head, values, causal):
    q, k, v = vectors(2, 2, 4, 3, 2 // groups)
    positions = st.lists(st.integers(0, 9), min_size=4, max_size=4)
    kpos = torch.tensor([data.draw(positions), data.draw(positions)])
    qpos = torch.maximum(torch.tensor([data.draw(positions), data.draw(positions)]), kpos[:, :1])  # it sees a key
    shaw = make(3, clip, heads=2 if per_head else None, values=values)
    expected = oracle(q, k, v, shaw, qpos, kpos, causal)
    close(attend(q, k, v, shaw, qpos, kpos, causal=causal), expected)
    close(shaw_naive(q, k, v, shaw.key_table, shaw.value_table, qpos, kpos, causal=causal), expected)


@pytest.mark.parametrize("heads", [None, 4])
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_efficient_and_naive_agree_in_every_gradient(heads, values, causal):
    inputs, pos = [x.requires_grad_() for x in vectors(grouped=2)], torch.tensor([3, 1, 4, 0, 5, 9])
    shaw = make(3, 2, heads=heads, values=values)
    found = attend(*inputs, shaw, pos, pos, causal=causal)
    expected = shaw_naive(*inputs, shaw.key_table, shaw.value_table, pos, pos, causal=causal)
    close(found, expected)
    weight, wanted = torch.randn_like(found), [*inputs, *shaw.parameters()]
    for ours, theirs in zip(*(torch.autograd.grad((z * weight).sum(), wanted) for z in (found, expected)), strict=True):
        close(ours, theirs)
        assert ours.abs().max() > 1e-3


def test_the_naive_form_is_causal_unless_told_otherwise():
    q, k, v = vectors()
    pos, shaw = torch.arange(6), make(3, 2)
    tables = shaw.key_table, shaw.value_table
    close(shaw_naive(q, k, v, *tables, pos, pos), shaw_naive(q, k, v, *tables, pos, pos, causal=True))
    close(shaw_naive(q, k, v, *tables, pos, pos), attend(q, k, v, shaw, pos, pos))


def test_it_is_computed_where_queries_lie_whatever_device_is_the_default():
    (q, k, v), pos, tables = vectors(), torch.arange(6), list(make(3, 2, heads=4).parameters())
    expected = shaw_naive(q, k, v, *tables, pos, pos)
    with torch.device("meta"):
        found = shaw_naive(q, k, v, *tables, pos, pos), shaw_fused(q, k, v, *tables)
    for each in found:
        close(each, expected)


def test_it_equals_the_split_that_the_paper_describes():
    q, k, v = vectors(length=9)
    pos, shaw = torch.arange(9) + 5, make(3, 2)
    close(attend(q, k, v, shaw, pos, pos, causal=False), paper(q, k, v, shaw.key_table, shaw.value_table, pos))


@pytest.mark.parametrize("more", [1, 4, 20])
@pytest.mark.parametrize("heads", [None, 4])
def test_a_clip_that_no_offset_reaches_clips_nothing(more, heads):
    q, k, v = vectors()
    pos, exact, wide = torch.arange(6), make(3, 5, heads=heads), make(3, 5 + more, heads=heads)
    with torch.no_grad():
        for table, larger in zip(exact.parameters(), wide.parameters(), strict=True):
            larger[..., more:-more, :] = table
    close(attend(q, k, v, wide, pos, pos, causal=False), attend(q, k, v, exact, pos, pos, causal=False))
    less = make(3, 4, heads=heads)
    with torch.no_grad():
        for table, smaller in zip(exact.parameters(), less.parameters(), strict=True):
            smaller.copy_(table[..., 1:-1, :])
    found = attend(q, k, v, less, pos, pos, causal=False)
    assert (found - attend(q, k, v, exact, pos, pos, causal=False)).abs().max() > 1e-3


def test_without_a_distance_its_weights_are_nopes():
    q, k, v = vectors()
    pos, shaw = torch.arange(6), make(3, 0)
    close(attention_weights(q, k, shaw, pos, pos), attention_weights(q, k, NoPE(), pos, pos))
    close(attend(q, k, v, shaw, pos, pos), attend(q, k, v, NoPE(), pos, pos) + shaw.value_table)


def test_each_table_does_one_thing():
    q, k, v = vectors()
    pos, keys, values = torch.arange(6), make(3, 2), make(3, 2)
    with torch.no_grad():
        keys.value_table.zero_()
        values.key_table.zero_()
    plain = attention_weights(q, k, NoPE(), pos, pos)
    weights = attention_weights(q, k, keys, pos, pos)
    assert (weights - plain).abs().max() > 1e-2
    close(attend(q, k, v, keys, pos, pos), weights @ v)
    close(attention_weights(q, k, values, pos, pos), plain)
    assert (attend(q, k, v, values, pos, pos) - plain @ v).abs().max() > 1e-2


def test_only_offsets_count_and_far_ones_are_alike():
    q, k, v = vectors()
    pos, shaw = torch.arange(6), make(3, 2)
    here = attend(q, k, v, shaw, pos, pos)
    assert torch.equal(attend(q, k, v, shaw, pos + 10**9, pos + 10**9), here)
    moved = pos.clone()
    moved[0] = -1000
    assert torch.equal(attend(q, k, v, shaw, pos, moved)[:, :, 2:], here[:, :, 2:])
    assert not torch.equal(attend(q, k, v, shaw, pos, moved)[:, :, 1], here[:, :, 1])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_positions_may_be_any_integers(dtype):
    q, k, v = vectors()
    shaw, pos = make(3, 2), torch.tensor([3, 1, 4, 0, 5, 9])
    expected = attend(q, k, v, shaw, pos, pos, causal=False)
    close(attend(q, k, v, shaw, pos.to(dtype), pos.to(dtype), causal=False), expected)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("clip", [2, 7])
def test_nothing_is_larger_than_the_weights_forwards_or_backwards(heads, batched, clip):
    length, dim = 16, 16
    inputs = [x.requires_grad_() for x in vectors(3, 2, length, dim)]
    shaw, pos = make(dim, clip, heads=heads), torch.arange(length)
    pos = pos.expand(3, length) if batched else pos
    logits = 3 * 2 * length * length
    with Sizes() as sizes:
        attend(*inputs, shaw, pos, pos).sum().backward()
    assert {"gather", "scatter_add", "_softmax_backward_data"} <= sizes.of.keys()
    assert sizes.largest == logits
    assert all(x.grad is not None for x in (*inputs, *shaw.parameters()))
    with Sizes() as sizes, torch.no_grad():
        attend(*inputs, shaw, pos, pos)
    assert "gather" in sizes.of  # three times as fast as an index
    with Sizes() as sizes, torch.no_grad():
        paper(*inputs, *make(dim, clip).parameters(), torch.arange(length))
    assert sizes.largest >= length * length * dim > logits
    with Sizes() as sizes, torch.no_grad():
        shaw_naive(*inputs, *shaw.parameters(), pos, pos)
    assert sizes.largest == logits * dim


def test_bias_is_a_function_of_any_pairs():
    q, k, _ = vectors(2, 4, 5, 3)
    shaw = make(3, 2, heads=4)
    qpos = kpos = torch.stack((torch.arange(5), torch.tensor([4, 0, 2, 2, 9])))
    f = shaw.score_bias(q, k, qpos, kpos)
    expected = torch.zeros(2, 4, 5, 5, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, expected.shape)).tolist():
        row = shaw.key_table[h, max(-2, min(2, int(kpos[b, j] - qpos[b, i]))) + 2]
        expected[b, h, i, j] = q[b, h, i] @ row / 3**0.5
    b, h, i, j = (torch.arange(n) for n in expected.shape)
    close(f(b[:, None, None, None], h[:, None, None], i[:, None], j), expected)
    some = torch.tensor([3, 0])
    close(f(b[:, None, None, None], h[:, None, None], some[:, None], j), expected[:, :, some])
    close(f(b[1], h[2], i[:, None], j), expected[1, 2])
    close(f(b[1], h[2], i[3:4], j), expected[1, 2, 3])
    close(f(b[1], h[:, None], i[3], j), expected[1, :, 3])
    close(f(b[1], h[2], i, j), expected[1, 2].diagonal())
    close(f(b[1], h, i[3:4], j[1]), expected[1, :, 3, 1])
    close(f(b, h[2], i[3:4], j[1]), expected[:, 2, 3, 1])
    close(f(b[1:2], h[2:3], i, j), expected[1, 2].diagonal())
    close(f(b[1], h[2], i[3], j[1]), expected[1, 2, 3, 1])
    close(f(*torch.meshgrid(b, h, i, j, indexing="ij")), expected)


def test_without_the_value_term_one_door_is_open():
    q, k, v = vectors()
    pos, shaw = torch.arange(6), make(3, 2, heads=4, values=False)
    assert shaw.mix is None
    assert shaw.value_table is None
    assert shaw.doors == ("score_bias",)
    assert list(shaw.state_dict()) == ["key_table"]
    same = copy.deepcopy(shaw)
    assert same.mix is None and torch.equal(same.key_table, shaw.key_table)
    close(attention_weights(q, k, shaw, pos, pos) @ v, attend(q, k, v, shaw, pos, pos))
    assert make(3, 2).doors == ("score_bias", "mix")


def test_heads_and_sequences_share_the_tables_and_their_gradients_add_up():
    q, k, v = vectors(2, 2)
    pos, shared, own = torch.arange(6), make(3, 2), make(3, 2, heads=2)
    with torch.no_grad():
        for table, tables in zip(shared.parameters(), own.parameters(), strict=True):
            tables.copy_(table.expand_as(tables))
    close(attend(q, k, v, own, pos, pos), attend(q, k, v, shared, pos, pos))

    def gradients(shaw: Shaw, b: slice = slice(None), h: slice = slice(None)) -> list[Tensor]:
        loss = attend(q[b, h], k[b, h], v[b, h], shaw, pos, pos).square().sum()
        return list(torch.autograd.grad(loss, [*shaw.parameters()]))

    for n, found in enumerate(gradients(shared)):
        parts = [gradients(shared, slice(b, b + 1), slice(h, h + 1))[n] for b in range(2) for h in range(2)]
        close(sum(parts), found)
        close(gradients(own)[n].sum(0), found)
        close(gradients(own)[n], torch.stack((parts[0] + parts[2], parts[1] + parts[3])))


def test_rows_of_the_future_and_of_unseen_offsets_get_no_gradient():
    q, k, v = vectors()
    pos, shaw = torch.arange(6), make(3, 8)
    attend(q, k, v, shaw, pos, pos).square().sum().backward()
    for table in shaw.parameters():
        used = table.grad.abs().sum(-1) > 0
        assert used.tolist() == [False] * 3 + [True] * 6 + [False] * 8  # offsets -5 to 0


def test_a_query_that_sees_nothing_gets_nothing():
    q, k, v = vectors()
    pos, shaw, mask = torch.arange(6), make(3, 2), torch.ones(6, 6, dtype=torch.bool)
    mask[4] = False
    z = attend(q, k, v, shaw, pos, pos, mask=mask)
    assert (z[:, :, 4] == 0).all()
    assert (z[:, :, 3] != 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_wide_and_rounded_once(dtype, device):
    q, k, v = (x.to(device, dtype) for x in vectors(dim=8))
    shaw, pos = make(8, 2).to(device, dtype), torch.arange(6, device=device)
    found = attend(q, k, v, shaw, pos, pos)
    assert found.dtype == dtype
    index = pos[:, None, None, None][:2], pos[:4, None, None], pos[:, None], pos
    bias = shaw.score_bias(q, k, pos.expand(2, 6), pos.expand(2, 6))(*index)
    assert bias.dtype == torch.float32
    wide = copy.deepcopy(shaw).float()
    expected = attend(q.float(), k.float(), v.float(), wide, pos, pos)
    torch.testing.assert_close(found, expected.to(dtype), rtol=0, atol=0)


def test_tables_start_uniform_within_glorots_bound():
    shaw = Shaw(64)
    assert shaw.clip == 16 and shaw.heads is None
    assert shaw.key_table.shape == shaw.value_table.shape == (33, 64)
    bound = math.sqrt(6 / (33 + 64))
    for table in (shaw.key_table, shaw.value_table, Shaw(64, heads=3).key_table):
        assert 0.99 * bound < table.max() <= bound
        assert -bound <= table.min() < -0.99 * bound
        assert table.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert abs(table.mean().item()) < 0.02
    few = Shaw(2, 0, heads=4000).key_table.max()  # of one row, which a bound for two would not fill
    assert 0.99 * math.sqrt(6 / (1 + 2)) < few <= math.sqrt(6 / (1 + 2))
    assert not torch.equal(shaw.key_table, shaw.value_table)
    assert Shaw(8, 2, heads=3).value_table.shape == (3, 5, 8)
    before = shaw.key_table.clone()
    shaw.reset_parameters()
    assert not torch.equal(shaw.key_table, before)
    with torch.device("meta"):
        empty = Shaw(8, 2)
    empty.to_empty(device="cpu").reset_parameters()
    assert empty.key_table.abs().max() <= math.sqrt(6 / 13)


def test_a_token_alone_gets_its_value_and_that_of_offset_zero():
    q, k, v = vectors(length=1)
    pos, shaw = torch.arange(1), make(3, 2)
    close(attend(q, k, v, shaw, pos, pos), v + shaw.value_table[2])
    close(shaw_fused(q, k, v, shaw.key_table, shaw.value_table), v + shaw.value_table[2])


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 9, 40])
@pytest.mark.parametrize("clip", [0, 1, 2, 3, 4, 8, 9, 60])
def test_the_fused_form_equals_the_weights(length, clip):
    (q, k, v), pos, shaw = vectors(length=length), torch.arange(length), make(3, clip)
    close(shaw_fused(q, k, v, shaw.key_table, shaw.value_table), attend(q, k, v, shaw, pos, pos))


@pytest.mark.parametrize("heads", [None, 4])
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("grouped", [1, 2, 4])
def test_the_fused_form_has_the_gradients_of_the_weights(heads, values, grouped):
    inputs, pos = [x.requires_grad_() for x in vectors(length=9, grouped=grouped)], torch.arange(9)
    shaw = make(3, 2, heads=heads, values=values)
    found = shaw_fused(*inputs, shaw.key_table, shaw.value_table)
    expected = attend(*inputs, shaw, pos, pos)
    close(found, expected)
    weight, wanted = torch.randn_like(found), [*inputs, *shaw.parameters()]
    for pair in zip(*(torch.autograd.grad((z * weight).sum(), wanted) for z in (found, expected)), strict=True):
        close(*pair)


def test_the_fused_form_makes_no_matrix():
    length, dim, clip = 256, 8, 4
    inputs, shaw = [x.requires_grad_() for x in vectors(1, 2, length, dim)], make(dim, clip)
    with Sizes() as sizes:
        shaw_fused(*inputs, shaw.key_table, shaw.value_table).sum().backward()
    assert sizes.largest <= 2 * length * dim * clip < 2 * length * length
    assert not {"_softmax", "masked_fill"} & {name for name, size in sizes.of.items() if size >= length * length}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_fused_form_in_half_precision_loses_no_more_than_rounding(dtype, scale):
    """A log-sum-exp of 30 has an error of up to 0.06 in bfloat16, and near weights would have one of 6 %."""
    q, k, v = (x.to(dtype) for x in vectors(length=64, dim=8))
    q, pos, shaw = q * scale, torch.arange(64), make(8, 4).to(dtype)
    exact = attend(*(x.double() for x in (q, k, v)), copy.deepcopy(shaw).double(), pos, pos)
    found = shaw_fused(q, k, v, shaw.key_table, shaw.value_table)
    assert found.dtype == dtype
    close(found.double(), exact, 0.6 * torch.finfo(dtype).eps * exact.abs().max().item())


def test_what_the_fused_form_cannot_take_is_refused():
    (q, k, v), table = vectors(dim=8), torch.zeros(5, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"the same L and d .* use attention"):
        shaw_fused(q[:, :, 5:], k, v, table, table)
    with pytest.raises(ValueError, match="the same L and d"):
        shaw_fused(q, k, v[..., :4], table, table)
    with pytest.raises(ValueError, match=r"tables .* 2k\+1"):
        shaw_fused(q, k, v, table[:4], table[:4])
    with pytest.raises(ValueError, match=r"tables .* 2k\+1"):
        shaw_fused(q, k, v, table, table[:3])


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="clip is -1"):
        Shaw(8, -1)
    with pytest.raises(ValueError, match="clip is -1"):
        shaw_label(torch.arange(3), -1)
    with pytest.raises(ValueError, match=r"head_dim is 0: .*channels"):
        Shaw(0)
    with pytest.raises(ValueError, match=r"heads is 0: .*query heads.* None"):
        Shaw(8, heads=0)
    assert Shaw(1, 0, heads=1).key_table.shape == (1, 1, 1)


def test_what_does_not_fit_is_refused():
    q, k, v = (x.float() for x in vectors(dim=8))
    pos = torch.arange(6)
    with pytest.raises(ValueError, match=r"head_dim=6 and q has 8: .* Shaw\(8\)"):
        attend(q, k, v, Shaw(6), pos, pos)
    with pytest.raises(ValueError, match=r"head_dim=8 and v has 5: .* values=False"):
        attend(q, k, v[..., :5], Shaw(8), pos, pos)
    assert attend(q, k, v[..., :5], Shaw(8, values=False), pos, pos).shape == (2, 4, 6, 5)
    with pytest.raises(ValueError, match=r"heads=2 and q has 4: .* heads=4"):
        attend(q, k, v, Shaw(8, heads=2), pos, pos)
    for bad in (pos.float(), pos.to(torch.complex64)):
        with pytest.raises(ValueError, match=r"^offset is .* pos\.round\(\)\.long"):
            shaw_label(bad, 2)
    with pytest.raises(ValueError, match=r"^offset is torch\.bool"):
        shaw_label(pos > 2, 2)
    with pytest.raises(ValueError, match=r"^qpos is torch\.float32, .* integer positions"):
        attend(q, k, v, Shaw(8), pos.float(), pos)
    with pytest.raises(ValueError, match=r"^kpos is torch\.float32, .* integer positions"):
        attend(q, k, v, Shaw(8), pos, pos.float())
    weights = torch.ones(2, 4, 6, 6)
    for qpos, kpos, name in ((pos.float(), pos, "qpos"), (pos, pos.float(), "kpos")):
        with pytest.raises(ValueError, match=rf"^{name} is torch\.float32, .* integer positions"):
            Shaw(8).mix(weights, v, qpos.expand(2, 6), kpos.expand(2, 6))


@pytest.mark.parametrize(
    ("shapes", "named"),
    [
        (((5, 7), (5, 7)), r"\(5, 7\) and \(5, 7\)"),
        (((4, 8), (4, 8)), r"\(4, 8\) and \(4, 8\)"),
        (((3, 5, 8), (3, 5, 8)), r"\(3, 5, 8\) and \(3, 5, 8\)"),
        (((5, 8), (7, 8)), r"\(5, 8\) and \(7, 8\)"),
        (((1, 4, 5, 8), (1, 4, 5, 8)), r"\(1, 4, 5, 8\)"),
        (((8,), (8,)), r"\(8,\) and \(8,\)"),
    ],
)
def test_tables_that_do_not_fit_are_refused(shapes, named):
    q, k, v = (x.float() for x in vectors(dim=8))
    pos, match = torch.arange(6), rf"tables have shapes {named}.* \(2k\+1, 8\) .* \(4, 2k\+1, 8\)"
    with pytest.raises(ValueError, match=match):
        shaw_naive(q, k, v, *map(torch.zeros, shapes), pos, pos)
    assert shaw_naive(q, k, v, torch.zeros(5, 8), None, pos, pos).shape == q.shape
    with pytest.raises(ValueError, match=r"qpos holds 5 positions for 6 vectors"):
        shaw_naive(q, k, v, torch.zeros(5, 8), None, pos[:5], pos)
    with pytest.raises(ValueError, match=r"^kpos holds 5 positions for 6 vectors"):
        shaw_naive(q, k, v, torch.zeros(5, 8), None, pos, pos[:5])


def test_compiled_it_is_the_same_and_so_are_its_gradients():
    torch._dynamo.reset()
    inputs, pos = [x.requires_grad_() for x in vectors(grouped=2)], torch.tensor([3, 1, 4, 0, 5, 9])
    shaw = make(3, 2, heads=4)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    found, expected = compiled(*inputs, shaw, pos, pos), attend(*inputs, shaw, pos, pos)
    close(found, expected)
    wanted = [*inputs, *shaw.parameters()]
    for pair in zip(*(torch.autograd.grad(z.square().sum(), wanted) for z in (found, expected)), strict=True):
        close(*pair)


class Label(torch.nn.Module):
    def forward(self, offset: Tensor, clip: int) -> Tensor:
        return shaw_label(offset, clip)


def test_labels_export_for_any_length_and_distance():
    any_size = torch.export.Dim.DYNAMIC
    program = torch.export.export(Label(), (torch.arange(9), 4), dynamic_shapes=({0: any_size}, any_size))
    assert program.module()(torch.arange(-5, 3), 2).tolist() == [0, 0, 0, 0, 1, 2, 3, 4]
