"""posenc._attention.cache: what comes back is what attention may see, in order, and what was returned stays."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Encoding, KVCache, RoPE, attend, sliding_window
from posenc.schemes.grid import GridRoPE


def test_the_cache_returns_all_in_the_order_of_arrival():
    k, v, pos = torch.randn(2, 3, 20, 4), torch.randn(2, 3, 20, 5), torch.arange(20) + 7
    cache = KVCache()
    assert len(cache) == 0
    assert cache.positions.tolist() == []
    end = 0
    for step in (1, 0, 2, 1, 7, 1, 1, 6, 1):
        chunk = slice(end, end + step)
        end += step
        found = cache.extend(k[:, :, chunk], v[:, :, chunk], pos[chunk])
        for new, expected in zip(found, (k[:, :, :end], v[:, :, :end], pos[:end]), strict=True):
            assert torch.equal(new, expected)
        assert len(cache) == end
        assert torch.equal(cache.positions, pos[:end])
    assert end == 20


def test_what_the_cache_returned_before_stays_what_it_was():
    k = torch.randn(1, 1, 9, 2)
    cache, returned = KVCache(), []
    for n in range(9):
        returned.append(cache.extend(k[:, :, n : n + 1], k[:, :, n : n + 1], torch.tensor([n]))[0])
    for n, old in enumerate(returned):
        assert torch.equal(old, k[:, :, : n + 1])


def test_the_cache_copies_each_token_a_few_times_at_most():
    cache, places = KVCache(), set()
    for n in range(256):
        k, _, _ = cache.extend(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), torch.tensor([n]))
        places.add(k.untyped_storage().nbytes())
    assert len(places) <= 9  # 1, 2, 4, ..., 256


def test_the_cache_does_not_alias_what_it_was_given():
    k, pos = torch.zeros(1, 1, 2, 2), torch.arange(2)
    cache = KVCache()
    cache.extend(k, k, pos)
    k += 1
    pos += 1
    found = cache.extend(k[:, :, :0], k[:, :, :0], pos[:0])
    assert (found[0] == 0).all()
    assert found[2].tolist() == [0, 1]


def test_the_cache_holds_positions_for_each_sequence():
    k, pos = torch.randn(2, 1, 5, 2), torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]])
    cache = KVCache()
    for n in range(5):
        cache.extend(k[:, :, n : n + 1], k[:, :, n : n + 1], pos[:, n : n + 1])
    assert torch.equal(cache.positions, pos)


def test_the_cache_refuses_what_does_not_fit():
    k, v, pos = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 4, 5), torch.arange(4)
    cache = KVCache()
    with pytest.raises(ValueError, match=r"gradients.*no_grad"):
        cache.extend(k.clone().requires_grad_(), v, pos)
    with pytest.raises(ValueError, match="value"):
        cache.extend(k, v[:, :, :3], pos)
    with pytest.raises(ValueError, match="one value for each key"):
        cache.extend(k, v[..., None], pos)
    with pytest.raises(ValueError, match=r"\bpos .*3.*4"):
        cache.extend(k, v, pos[:3])
    assert len(cache) == 0
    cache.extend(k, v, pos)
    for name, args in (
        ("k", (k[:1], v[:1], pos)),
        ("k", (k[..., :5], v, pos)),
        ("k", (k.double(), v, pos)),
        ("v", (k, v[..., :4], pos)),
        ("pos", (k, v, pos.float())),
        ("pos", (k, v, pos.expand(2, 4))),
    ):
        with pytest.raises(ValueError, match=rf"^{name} is .*length.*new KVCache"):
            cache.extend(*args)
    assert len(cache) == 4
    with torch.no_grad():
        cache.extend(k.clone().requires_grad_(), v, pos)
    assert not cache.extend(k, v, pos)[0].requires_grad


@given(
    chunks=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    window=st.integers(1, 8),
    sinks=st.integers(0, 5),
    batched=st.booleans(),
)
def test_a_window_holds_the_first_tokens_and_what_a_new_one_may_see(chunks, window, sinks, batched):
    total = sum(chunks)
    k, v, pos = torch.randn(2, 3, total, 4), torch.randn(2, 3, total, 5), torch.arange(total) + 7
    pos = pos.expand(2, total) if batched else pos
    cache, end, returned, kept = KVCache(window, sinks), 0, [], []
    for size in chunks:
        start, end = end, end + size
        found = cache.extend(k[:, :, start:end], v[:, :, start:end], pos[..., start:end])
        if size:
            kept = [n for n in range(end) if n < sinks or n > start - window]
        for new, expected in zip(found, (k[:, :, kept], v[:, :, kept], pos[..., kept]), strict=True):
            assert torch.equal(new, expected)
        assert len(cache) == len(kept)
        assert cache.seen == end
        assert torch.equal(cache.positions, pos[..., kept])
        returned.append((found[0], k[:, :, kept]))
    for old, expected in returned:
        assert torch.equal(old, expected)


def memory(cache: KVCache) -> int:
    """The bytes of all tensors that a cache holds."""
    held = (each for value in vars(cache).values() for each in (value if isinstance(value, list) else [value]))
    return sum(each.untyped_storage().nbytes() for each in held if isinstance(each, torch.Tensor))


def test_a_window_bounds_the_memory():
    cache, places = KVCache(window=16, sinks=2), set()
    for n in range(500):
        k, _, _ = cache.extend(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), torch.tensor([n]))
        places.add(memory(cache) / (2 * 8 + 8))  # a key and a value of two float32, and a position
        assert k.shape[2] <= 18
    assert 18 <= max(places) <= 36
    assert len(places) <= 7  # it stops growing


@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("chunks", [[1] * 20, [9, 1, 1, 5, 4]])
def test_decoding_with_a_window_equals_the_full_pass_with_its_mask(chunks, sinks):
    rope, pos = RoPE(6).double(), torch.arange(20) + 3
    q, k, v = torch.randn(3, 2, 2, 20, 6, dtype=torch.float64)
    q = rope.query(q, pos)
    first = int(pos[0])
    mask = sliding_window(pos, pos, 5, first + sinks)
    full = attend(q, rope.key(k, pos), v, rope, pos, pos, mask=mask)
    cache, start, parts = KVCache(5, sinks), 0, []
    for size in chunks:
        part = slice(start, start + size)
        keys, values, kpos = cache.extend(k[:, :, part], v[:, :, part], pos[part], rope)
        mask = sliding_window(pos[part], kpos, 5, first + sinks)
        parts.append(attend(q[:, :, part], keys, values, rope, pos[part], kpos, mask=mask))
        start += size
    torch.testing.assert_close(torch.cat(parts, 2), full, rtol=0, atol=1e-12)


def test_a_single_step_needs_no_mask_for_its_window():
    cache = KVCache(window=3, sinks=1)
    for n in range(9):
        pos = torch.tensor([n])
        _, _, kpos = cache.extend(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), pos)
        assert sliding_window(pos, kpos, 3, 1).all()
    assert kpos.tolist() == [0, 6, 7, 8]


def test_a_sliding_window_reaches_less_than_its_size_both_ways():
    found = sliding_window(torch.tensor([4]), torch.arange(9), 3, 1)
    assert found.tolist() == [[True, False, True, True, True, True, True, False, False]]
    assert found.dtype == torch.bool
    qpos = torch.tensor([[4, 5], [0, 8]])
    batched = sliding_window(qpos, torch.arange(9).expand(2, 9), 3)
    assert batched.shape == (2, 1, 2, 9)
    for b in range(2):
        assert torch.equal(batched[b, 0], sliding_window(qpos[b], torch.arange(9), 3, 0))
    assert torch.equal(sliding_window(torch.tensor([0]), torch.arange(3), 1), torch.tensor([[True, False, False]]))


class ByLength(Encoding):
    """Keys are scaled by the number of tokens so far: what a cache may not store."""

    raw_keys = True

    def key(self, k, pos):
        return k * (pos.amax(-1) + 1)


def test_keys_that_depend_on_the_length_are_stored_raw_and_turned_at_every_step():
    k = torch.randn(1, 1, 6, 2)
    for encoding, expected in ((ByLength(), lambda n: k[:, :, :n] * n), (RoPE(2), None)):
        cache = KVCache()
        for n in range(6):
            pos = torch.tensor([n])
            found, _, _ = cache.extend(k[:, :, n : n + 1], k[:, :, n : n + 1], pos, encoding)
            right = expected(n + 1) if expected else encoding.key(k[:, :, : n + 1], torch.arange(n + 1))
            torch.testing.assert_close(found, right)
    assert torch.equal(cache.extend(k[:, :, :0], k[:, :, :0], torch.arange(0))[1], k)  # values are never turned


def test_keeping_some_tokens_drops_the_others_and_no_position():
    k, v, pos = torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 5), torch.arange(6) * 10
    cache = KVCache()
    cache.extend(k, v, pos)
    cache.keep(torch.tensor([0, 3, 5]))
    assert len(cache) == 3
    assert cache.seen == 6
    found = cache.extend(k[:, :, :1], v[:, :, :1], torch.tensor([60]))
    assert found[2].tolist() == [0, 30, 50, 60]
    assert torch.equal(found[0], k[:, :, [0, 3, 5, 0]])
    assert torch.equal(found[1], v[:, :, [0, 3, 5, 0]])
    assert cache.seen == 7
    index = torch.tensor([[0, 1], [3, 2]])
    cache.keep(index)
    assert cache.positions.tolist() == [[0, 30], [60, 50]]
    assert torch.equal(cache.extend(k[:, :, :0], v[:, :, :0], pos[:0].expand(2, 0))[0][1], k[1][:, [0, 5]])
    cache.keep(torch.tensor([1]))
    assert cache.positions.tolist() == [[30], [50]]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_rows_may_keep_any_number_of_tokens(count, batched):
    k, v, pos = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 6), torch.arange(5) * 10
    index = torch.stack([torch.randperm(5)[:count] for _ in range(3)])
    cache = KVCache()
    cache.extend(k, v, pos.expand(3, 5) if batched else pos)
    cache.keep(index)
    none = torch.zeros(3, 2, 0, 6)
    found = cache.extend(none[..., :4], none, torch.zeros(3, 0, dtype=torch.int64))
    for b in range(3):
        for new, old in zip(found, (k[b], v[b], pos), strict=True):
            assert torch.equal(new[b], old[:, index[b]] if old.ndim == 3 else old[index[b]])


def test_a_window_keeps_no_first_tokens_unless_asked():
    cache, k = KVCache(window=3), torch.zeros(1, 1, 1, 2)
    for n in range(8):
        found = cache.extend(k, k, torch.tensor([n]))
    assert found[2].tolist() == [5, 6, 7]


def test_a_window_goes_on_with_what_was_kept():
    cache = KVCache(window=3, sinks=1)
    k = torch.zeros(1, 1, 1, 2)
    for n in range(8):
        cache.extend(k, k, torch.tensor([n]))
    assert cache.positions.tolist() == [0, 5, 6, 7]
    cache.keep(torch.tensor([1, 2, 3]))
    assert cache.extend(k, k, torch.tensor([8]))[2].tolist() == [5, 6, 7, 8]
    assert cache.extend(k, k, torch.tensor([9]))[2].tolist() == [5, 7, 8, 9]


def test_bad_windows_and_choices_are_refused():
    for window in (0, -2):
        with pytest.raises(ValueError, match="use 1"):
            KVCache(window)
        with pytest.raises(ValueError, match="use 1"):
            sliding_window(torch.arange(2), torch.arange(2), window)
    with pytest.raises(ValueError, match="sinks is -1"):
        KVCache(3, -1)
    cache = KVCache()
    with pytest.raises(ValueError, match=r"empty.*extend"):
        cache.keep(torch.tensor([0]))
    k = torch.zeros(2, 1, 3, 2)
    cache.extend(k, k, torch.arange(3))
    for index in (torch.tensor([3]), torch.tensor([-1, 0])):
        with pytest.raises(ValueError, match=r"use 0 to 2"):
            cache.keep(index)
    for index in (torch.tensor([0.0]), torch.tensor([True]), torch.zeros(3, 1, dtype=torch.int64), torch.tensor(0)):
        with pytest.raises(ValueError, match=r"\(2, n\).*nonzero"):
            cache.keep(index)
    cache.keep(torch.tensor([], dtype=torch.int64))
    assert len(cache) == 0


def test_an_encoding_of_the_past_is_not_asked_about_the_future():
    class Past(Encoding):
        causal_only = True

    q, pos = torch.randn(1, 1, 3, 2), torch.arange(3)
    for backend in ("dense", "sdpa", "flex"):
        with pytest.raises(ValueError, match=r"Past .*causal=True"):
            attend(q, q, q, Past(), pos, pos, causal=False, backend=backend)
        hidden = torch.ones(3, 3, dtype=torch.bool).tril()
        found = attend(q, q, q, Past(), pos, pos, causal=False, mask=hidden, backend=backend)
        torch.testing.assert_close(found, attend(q, q, q, Past(), pos, pos))


@pytest.mark.parametrize("window", [1, 3])
def test_a_step_without_tokens_forgets_nothing(window):
    cache = KVCache(window)
    k = torch.arange(6.0).view(1, 1, 6, 1)
    cache.extend(k, k, torch.arange(6))
    cache.extend(k[:, :, 5:], k[:, :, 5:], torch.tensor([6]))
    held = cache.positions.tolist()
    for _ in range(2):
        assert cache.extend(k[:, :, :0], k[:, :, :0], torch.arange(0))[2].tolist() == held
    assert cache.seen == 7


# Padding

LEFT = torch.tensor([[False] * 3 + [True] * 5, [False] + [True] * 7])


@pytest.mark.parametrize("chunks", [[8, 1], [1] * 9, [3, 2, 3, 1]])
@pytest.mark.parametrize(
    ("window", "sinks", "held"),
    [
        (None, 0, [[-1, -1, -1, 0, 1, 2, 3, 4, 5], [-1, 0, 1, 2, 3, 4, 5, 6, 7]]),
        (2, 0, [[4, 5], [6, 7]]),
        (2, 1, [[-1, -1, -1, 0, 4, 5], [-1, 0, 1, 2, 6, 7]]),
    ],
)
def test_padding_is_held_at_minus_one_and_sinks_are_real_tokens(chunks, window, sinks, held):
    padding_mask = torch.cat((LEFT, LEFT[:, -1:]), 1)
    pos, k, start = padding_mask.cumsum(-1) - 1, torch.zeros(2, 1, 9, 2), 0
    cache = KVCache(window, sinks)
    for size in chunks:
        at = slice(start, start := start + size)
        cache.extend(k[:, :, at], k[:, :, at], pos[:, at], padding_mask=padding_mask[:, at])
    assert cache.positions.tolist() == held


@pytest.mark.parametrize("raw", [False, True])
def test_an_encoding_is_asked_for_places_that_exist(raw):
    rope, pos = GridRoPE(4, coordinates=torch.rand(6, 2)), LEFT.cumsum(-1) - 1
    rope.raw_keys = raw
    k = torch.randn(2, 1, 8, 4)
    found, _, kpos = KVCache().extend(k, k, pos.clamp(max=5), rope, padding_mask=LEFT)
    assert torch.equal(found, rope.key(k, kpos.clamp(min=0)))


def test_without_padding_positions_may_be_negative():
    k, pos, rope = torch.randn(1, 1, 4, 4), torch.arange(4) - 3, RoPE(4)
    assert torch.equal(KVCache().extend(k, k, pos, rope)[0], rope.key(k, pos))


def test_a_window_takes_padding_on_the_left_only():
    k, pos = torch.zeros(1, 1, 3, 2), torch.tensor([[0, 1, 0]])
    for real in ([True, False, True], [False, True, False]):
        with pytest.raises(ValueError, match=r"keeps the 4 .*pad on the left.*window=None"):
            KVCache(4).extend(k, k, pos, padding_mask=torch.tensor([real]))
        KVCache().extend(k, k, pos, padding_mask=torch.tensor([real]))
    cache = KVCache(4)
    cache.extend(k, k, pos, padding_mask=torch.tensor([[True] * 3]))
    with pytest.raises(ValueError, match="pad on the left"):
        cache.extend(k, k, pos, padding_mask=torch.tensor([[False] * 3]))
    assert cache.positions.tolist() == [[0, 1, 0]]
