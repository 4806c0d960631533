"""posenc.schemes.learned: a table, its limits, and what a stretched one keeps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import NoPE, attend
from posenc.schemes.learned import Learned, stretch_table


def at(*pos: int) -> Tensor:
    return torch.tensor(pos)


def make(model_dim: int = 6, length: int = 8) -> Learned:
    learned = Learned(model_dim, length).double()
    torch.nn.init.normal_(learned.table)
    return learned


def exact(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


@given(pos=st.lists(st.integers(0, 7), max_size=5), batch=st.integers(1, 3), dim=st.integers(1, 5))
def test_embed_adds_one_row_to_each_vector(pos, batch, dim):
    learned, x = make(dim), exact(batch, len(pos), dim)
    found = learned.embed(x, torch.tensor(pos, dtype=torch.int64))
    assert found.shape == x.shape
    for b in range(batch):
        for n, p in enumerate(pos):
            assert torch.equal(found[b, n], x[b, n] + learned.table[p])


def test_it_opens_one_door_and_has_one_parameter():
    learned = Learned(6, 8)
    assert learned.doors == ("embed",)
    assert {name: tuple(p.shape) for name, p in learned.named_parameters()} == {"table": (8, 6)}
    assert list(learned.state_dict()) == ["table"]
    assert (learned.model_dim, learned.length) == (6, 8)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_positions_may_be_any_integers(dtype):
    learned, x, pos = make(), exact(2, 3, 6), at(7, 0, 1)
    assert torch.equal(learned.embed(x, pos.to(dtype)), learned.embed(x, pos))


def test_permuting_tokens_with_their_positions_permutes_outputs():
    learned, x, pos = make(), exact(2, 8, 6), torch.arange(8)
    order = torch.randperm(8)

    def layer(x: Tensor, pos: Tensor) -> Tensor:
        q = learned.embed(x, pos)[:, None]
        return attend(q, q, q, NoPE(), pos, pos, causal=False)

    torch.testing.assert_close(layer(x[:, order], pos[order]), layer(x, pos)[:, :, order])
    assert (layer(x[:, order], pos) - layer(x, pos)[:, :, order]).abs().max() > 1e-2  # tokens alone do not


def test_a_shift_of_all_positions_changes_everything():
    learned, x = make(), exact(1, 4, 6)
    assert (learned.embed(x, torch.arange(4)) - learned.embed(x, torch.arange(4) + 1)).abs().max() > 0.1


def test_layers_that_share_a_table_add_up_to_one_gradient():
    x, pos, weight = exact(2, 3, 6), at(1, 5, 1), exact(6, 6)

    def gradients(first: Learned, second: Learned) -> list[Tensor]:
        hidden = (first.embed(x, pos) @ weight).tanh()
        second.embed(hidden, pos).square().sum().backward()
        return [first.table.grad, second.table.grad]

    shared, one, two = make(), make(), make()
    for copy in (one, two):
        copy.load_state_dict(shared.state_dict())
    found, same = gradients(shared, shared)
    assert found is same
    torch.testing.assert_close(found, sum(gradients(one, two)))
    assert [n for n in range(8) if found[n].abs().sum() > 0] == [1, 5]


def test_gradients_reach_x_and_the_table():
    learned, x = make(), exact(2, 3, 6).requires_grad_()

    def embed(x: Tensor, table: Tensor) -> Tensor:
        return torch.func.functional_call(_Embed(learned), {"learned.table": table}, (x, at(7, 0, 7)))

    assert torch.autograd.gradcheck(embed, (x, learned.table))


class _Embed(torch.nn.Module):
    def __init__(self, learned: Learned) -> None:
        super().__init__()
        self.learned = learned

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.learned.embed(x, pos)


def test_rows_of_padding_get_no_gradient():
    learned, x = make(), exact(1, 6, 6)
    pos, real = at(7, 7, 0, 1, 2, 3), torch.tensor([False, False, True, True, True, True])
    q = learned.embed(x, pos)[:, None]
    z = attend(q, q, q, NoPE(), pos, pos, causal=False, mask=real[None, None, None])
    z[:, :, real].square().sum().backward()
    assert [n for n in range(8) if learned.table.grad[n].abs().sum() > 0] == [0, 1, 2, 3]
    assert (learned.table.grad[7] == 0).all()


@pytest.mark.parametrize(
    ("x_dtype", "table_dtype"),
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.bfloat16),
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float64),
    ],
)
def test_the_sum_is_rounded_once_to_the_dtype_of_x(x_dtype, table_dtype, device):
    learned = Learned(6, 8).to(device, table_dtype)
    x = torch.randn(2, 3, 6, device=device).to(x_dtype)
    found = learned.embed(x, at(7, 0, 1).to(device))
    assert found.dtype == x_dtype
    assert torch.equal(found, (x.double() + learned.table[[7, 0, 1]].double()).to(x_dtype))


def test_the_table_starts_as_small_noise():
    learned = Learned(64, 512)
    assert learned.table.dtype == torch.float32
    assert learned.table.std().item() == pytest.approx(0.02, rel=0.02)
    assert abs(learned.table.mean().item()) < 1e-3
    assert 0.06 < learned.table.abs().max() < 0.15  # normal, not cut off
    before = learned.table.clone()
    learned.reset_parameters()
    assert not torch.equal(learned.table, before)
    with torch.device("meta"):
        empty = Learned(64, 512)
    assert empty.table.is_meta
    assert empty.embed(torch.empty(1, 3, 64, device="meta"), torch.arange(3, device="meta")).shape == (1, 3, 64)
    empty.to_empty(device="cpu").reset_parameters()
    assert empty.table.std().item() == pytest.approx(0.02, rel=0.02)


def test_positions_without_a_row_are_refused(device):
    learned = Learned(4, 512).to(device)

    def embed(*pos: int) -> Tensor:
        return learned.embed(torch.zeros(1, len(pos), 4, device=device), at(*pos).to(device))

    assert torch.equal(embed(511, 0)[0], learned.table[[511, 0]])
    message = r"position 520 is beyond the table's 512: a learned table cannot extrapolate; use positions 0 to 511, "
    with pytest.raises(ValueError, match=message + r".*stretch_table\(table, 521\)"):
        embed(3, 520, 4)
    with pytest.raises(ValueError, match=r"position 512 is beyond the table's 512"):
        embed(512)
    with pytest.raises(ValueError, match=r"position -1 is negative, .*pos\.clamp\(min=0\), and mask it"):
        embed(0, -1)
    with pytest.raises(ValueError, match=r"position -3 is negative"):
        learned.embed(torch.zeros(2, 1, 4, device=device), torch.tensor([[0], [-3]], device=device))


def test_other_bad_input_is_refused():
    learned = Learned(4, 8)
    with pytest.raises(ValueError, match=r"pos is torch\.float32, .* use pos\.long\(\).* such as Sinusoidal"):
        learned.embed(torch.zeros(1, 3, 4), torch.arange(3).float())
    with pytest.raises(ValueError, match=r"make it with model_dim=6"):
        learned.embed(torch.zeros(1, 3, 6), torch.arange(3))
    with pytest.raises(ValueError, match=r"pos holds 4 positions for 3 vectors"):
        learned.embed(torch.zeros(1, 3, 4), torch.arange(4))
    with pytest.raises(ValueError, match=r"pos is torch\.bool"):
        learned.embed(torch.zeros(1, 1, 4), torch.tensor([True]))
    for sizes, message in (
        ((0, 8), "model_dim is 0: .*channels"),
        ((4, 0), "length is 0: .*positions"),
        ((-4, 8), "model_dim is -4"),
    ):
        with pytest.raises(ValueError, match=rf"{message}.* 1 or more"):
            Learned(*sizes)
    assert Learned(1, 1).table.shape == (1, 1)


def test_what_is_not_finite_passes():
    learned, x = make(), exact(1, 3, 6)
    x[0, 1], x[0, 2] = torch.nan, torch.inf
    found = learned.embed(x, torch.arange(3))
    assert found[0, 0].isfinite().all() and found[0, 1].isnan().all() and found[0, 2].isinf().all()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_it_is_the_same_and_torch_refuses_what_has_no_row(backend):
    torch._dynamo.reset()
    learned, x = make(), exact(2, 3, 6)
    compiled = torch.compile(learned.embed, fullgraph=True, backend=backend)
    assert torch.equal(compiled(x, at(7, 0, 1)), learned.embed(x, at(7, 0, 1)))
    for pos in (at(0, 8, 1), at(0, -1, 1)):  # a negative one is not taken for the last row
        with pytest.raises(IndexError, match="out of range"):
            compiled(x, pos)


@given(rows=st.integers(1, 7), length=st.integers(1, 20))
def test_a_stretched_table_is_interpolated_between_its_ends(rows, length):
    table = exact(rows, 3)
    found = stretch_table(table, length)
    assert found.shape == (length, 3) and found.is_contiguous()
    for p in range(length):
        place = p * (rows - 1) / (length - 1) if length > 1 else 0.0
        low = min(int(place), rows - 1)
        high = min(low + 1, rows - 1)
        expected = table[low] + (place - low) * (table[high] - table[low])
        torch.testing.assert_close(found[p], expected, rtol=0, atol=1e-12)


@given(rows=st.integers(2, 9), times=st.integers(1, 5))
def test_old_rows_stay_where_new_ones_fit_between(rows, times):
    table = exact(rows, 3)
    found = stretch_table(table, (rows - 1) * times + 1)
    torch.testing.assert_close(found[::times], table, rtol=0, atol=1e-13)
    assert torch.equal(found[-1], table[-1]) and torch.equal(found[0], table[0])


def test_a_stretched_table_goes_into_a_longer_one():
    short, long = make(6, 8), Learned(6, 15).double()
    long.load_state_dict({"table": stretch_table(short.table, 15)})
    x = exact(1, 8, 6)
    torch.testing.assert_close(long.embed(x, 2 * torch.arange(8)), short.embed(x, torch.arange(8)))
    assert stretch_table(short.table, 15).requires_grad
    assert torch.autograd.gradcheck(lambda table: stretch_table(table, 5), short.table)
    assert torch.equal(stretch_table(short.table, 8), short.table)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_stretched_table_keeps_its_dtype_and_is_rounded_once(dtype):
    table = torch.randn(400, 8).to(dtype)
    place = torch.arange(999, dtype=torch.float64) * 399 / 998
    low = place.long().clamp(max=398)
    exact = torch.lerp(table[low].double(), table[low + 1].double(), (place - low)[:, None])
    found = stretch_table(table, 999)
    assert found.dtype == dtype
    assert (found != exact.to(dtype)).sum() <= 2  # ties


def test_tables_that_cannot_be_stretched_are_refused():
    for table in (torch.zeros(1, 4, 8), torch.zeros(8), torch.zeros(0, 8)):
        with pytest.raises(ValueError, match=r"table has shape \(.*use \(L, D\).* is table\[0\]"):
            stretch_table(table, 4)
    for length in (0, -1):
        with pytest.raises(ValueError, match=rf"length is {length}: .*positions.* 1 or more"):
            stretch_table(torch.zeros(4, 8), length)
