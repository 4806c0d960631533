"""Tables that are made ahead and kept while tokens come one by one: biases by offset, and waves."""

import copy

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from posenc import ALiBi, Encoding, KVCache, Plan, RoPE, Span, T5Bias, attention
from posenc._attention import kept
from posenc._attention.offsets import offset_matrix
from posenc._attention.waves import AHEAD
from posenc.schemes.xpos import XPos, xpos_reach
from tests.helpers import close

HEADS, DIM = 4, 8
BIASES = {
    "alibi": lambda: ALiBi(HEADS),
    "alibi, symmetric": lambda: ALiBi(HEADS, symmetric=True),
    "alibi, learned": lambda: ALiBi(HEADS, learned=True),
    "t5": lambda: T5Bias(HEADS, 8, 10),
    "t5, bidirectional": lambda: T5Bias(HEADS, 8, 10, bidirectional=True),
}
WAVES = {
    "rope": lambda: RoPE(DIM),
    "rope, half, in part, scaled": lambda: RoPE(DIM, layout="half", rotary_dim=4, attention_factor=1.3),
    "xpos": lambda: XPos(DIM, centre=30),
}


def make(name: str) -> Encoding:
    encoding = (BIASES | WAVES)[name]()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def draw(length: int) -> Tensor:
    """q, k and v, (3, B, H, L, d)."""
    return torch.randn(3, 2, HEADS, length, DIM, dtype=torch.float64)


def step(encoding: Encoding, cache: KVCache, texts: Tensor, at: int) -> Tensor:
    return attention(*texts[..., at : at + 1, :], encoding, Span(at, 1), cache=cache)


def steps(encoding: Encoding, cache: KVCache, texts: Tensor, start: int = 0) -> Tensor:
    return torch.cat([step(encoding, cache, texts, at) for at in range(start, texts.shape[3])], 2)


def counted(encoding: Encoding, name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of what a method is called with."""
    lengths: list[int] = []
    inner = getattr(encoding, name)

    def call(*args):
        lengths.append(max(x.shape[-1] for x in args if isinstance(x, Tensor) and x.ndim == 1))
        return inner(*args)

    monkeypatch.setattr(encoding, name, call)
    return lengths


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        (Span(0, 20), Span(0, 20)),
        (Span(19, 1), Span(0, 20)),
        (Span(17, 3), Span(0, 20)),
        (Span(50, 2), Span(30, 4)),  # after a gap
        (Span(4, 6), Span(4, 6)),
        (Span(2, 3), Span(8, 5)),  # all keys in the future
        (Span(0, 1), Span(0, 1)),
    ],
    ids=str,
)
def test_a_row_of_numbers_is_the_whole_matrix(name, queries, keys):
    encoding, q = make(name), torch.randn(2, HEADS, queries.length, DIM)
    found = offset_matrix(encoding, q, Plan(queries, keys, causal=False))
    if keys.end > queries.end:  # with causality there are keys to hide, whose pattern is no word
        assert offset_matrix(encoding, q, Plan(queries, keys)) is None
    expected = encoding.bias(queries, keys, q=q)
    assert found.shape == (1, HEADS, queries.length, keys.length)
    assert torch.equal(found, expected[:1])


def test_what_depends_on_more_than_offsets_has_no_row():
    assert offset_matrix(RoPE(DIM), torch.zeros(1, 1, 1, DIM), Plan(Span(0, 1))) is None


@torch.no_grad()
@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("window", [None, 12])
def test_a_cache_keeps_biases_and_grows_them_by_doubling(name, window, monkeypatch):
    encoding, texts, length = make(name).double(), draw(70), 70
    lengths = counted(encoding, "offset_bias", monkeypatch)
    found = steps(encoding, KVCache(window), texts)
    assert lengths == ([2, 4, 8, 16, 32, 64, 128] if window is None else [2, 4, 8, 16])
    pos = torch.arange(length)
    seen = None if window is None else pos[:, None] - pos < window
    close(found, attention(*texts, encoding, pos, mask=seen, backend="dense"))


@torch.no_grad()
@pytest.mark.parametrize("name", WAVES)
def test_a_cache_keeps_the_waves_of_tokens_to_come(name, monkeypatch):
    encoding, texts = make(name), draw(2 * AHEAD + 5)
    lengths = counted(encoding, "waves", monkeypatch)
    cache = KVCache()
    found = steps(encoding, cache, texts)
    assert lengths == [AHEAD] * 3
    close(found, attention(*texts, encoding, Span(0, 2 * AHEAD + 5), backend="dense"), atol=1e-6)
    step(encoding, KVCache(), texts, 0)
    assert lengths == [AHEAD] * 3 + [texts.shape[3], AHEAD]  # the full pass, and another cache, begin anew


def change(encoding: Encoding) -> None:
    if isinstance(encoding, T5Bias):
        encoding.table.mul_(-2)
    elif isinstance(encoding, ALiBi):
        encoding.slope.mul_(3)
    else:
        encoding.freq.mul_(0.5)


def replace(encoding: Encoding) -> None:
    for name in ("table", "slope", "freq"):
        if hasattr(encoding, name):
            value = getattr(encoding, name)
            kind = torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else Tensor.clone
            setattr(encoding, name, kind(value * 0.7))


def rename(encoding: Encoding) -> None:
    if isinstance(encoding, T5Bias):
        encoding.max_distance = 30
    elif isinstance(encoding, ALiBi):
        encoding.slope.neg_()
    elif isinstance(encoding, XPos):
        encoding.gamma = 1.0
    else:
        encoding.attention_factor = 0.4


@torch.no_grad()
@pytest.mark.parametrize("name", BIASES | WAVES)
@pytest.mark.parametrize("alter", [change, replace, rename])
def test_what_is_kept_is_as_the_encoding_is_now(name, alter):
    encoding, texts, cache = make(name), draw(12), KVCache()
    before = steps(encoding, cache, texts[..., :10, :])
    fork = copy.deepcopy(cache)
    alter(encoding)
    found = step(encoding, cache, texts, 10)
    assert len(cache.kept._made["biases" if name in BIASES else "waves"]) <= 2
    fork.kept = kept.Kept()
    assert torch.equal(found, step(encoding, fork, texts, 10))
    assert before.isfinite().all() and found.isfinite().all()


@torch.no_grad()
def test_layers_with_encodings_of_their_own_share_a_plan_and_not_a_table(monkeypatch):
    layers, texts = [make(name).double() for name in ("t5", "t5", "alibi")], draw(9)
    counts = [counted(layer, "offset_bias", monkeypatch) for layer in layers]
    caches, pieces = [KVCache() for _ in layers], []
    for at in range(9):
        plan = Plan(Span(at, 1), cache=caches[0])
        new = texts[..., at : at + 1, :]
        pieces.append([attention(*new, *pair[:1], plan, cache=pair[1]) for pair in zip(layers, caches, strict=True)])
    assert counts == [[2, 4, 8, 16]] * 3
    for layer, found in zip(layers, zip(*pieces, strict=True), strict=True):
        close(torch.cat(found, 2), attention(*texts, layer, Span(0, 9), backend="dense"))


@torch.no_grad()
def test_only_so_many_are_kept_and_none_of_what_has_changed(monkeypatch):
    monkeypatch.setattr(kept, "MOST", 3)
    store, x = kept.Kept(), torch.zeros(1)
    get = lambda state: store.get("a", state, lambda made: True, lambda: state)  # noqa: E731
    for n in range(5):
        get((n,))
    assert [made for _, made in store._made["a"]] == [(2,), (3,), (4,)]
    get((x, 1))
    x.add_(1)
    get((5,))
    assert [made for _, made in store._made["a"]] == [(3,), (4,), (5,)]


@pytest.mark.parametrize("name", ["t5", "rope"])
def test_nothing_is_kept_of_what_is_traced_transformed_or_wants_gradients(name):
    encoding, texts = make(name), draw(4)

    def kept_by(call) -> dict:
        cache = KVCache()
        call(cache)
        return cache.kept._made

    decode = lambda cache, x=texts: steps(encoding, cache, x)  # noqa: E731
    with torch.no_grad():
        assert kept_by(decode)
        assert not kept_by(lambda cache: torch.vmap(lambda x: decode(KVCache(), x))(torch.stack([texts, texts])))
    assert not kept_by(decode)  # gradients may be wanted of parameters
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert not kept_by(lambda cache: decode(cache, mode.from_tensor(texts)))


@torch.no_grad()
def test_waves_ahead_refuse_no_position_too_early_and_none_too_late():
    encoding, texts = XPos(DIM, scale_base=1.0), draw(100)  # radii leave float32 after some positions
    texts, cache, last = texts.float(), KVCache(), int(xpos_reach(torch.float32, scale_base=1.0))
    for at in range(last + 1):
        step(encoding, cache, texts, at)
    with pytest.raises(ValueError, match="beyond"):
        step(encoding, cache, texts, last + 1)


@torch.no_grad()
def test_waves_of_another_form_are_made_each_time():
    class Other(RoPE):
        def waves(self, pos, dtype=torch.float32):
            return [wave.T for wave in super().waves(pos, dtype)]

        def query(self, q, pos, waves=None):
            return super().query(q, pos, tuple(wave.T for wave in waves))

        def key(self, k, pos, waves=None):
            return super().key(k, pos, tuple(wave.T for wave in waves))

    texts = draw(6)
    close(steps(Other(DIM), KVCache(), texts), steps(RoPE(DIM), KVCache(), texts))
