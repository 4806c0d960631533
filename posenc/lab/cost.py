"""What each scheme costs: attention alone and whole models, in every way of computing them, in turns.

What is timed (`what`) is a pass, a training step, one token after a cache, a rotation, and a factor on scores. A
scheme may be computed in several ways:

- `fused`: as `attention` does it by default, without a matrix where a scheme has such a form;
- `mask`: its bias is written out in each call, and torch's fused kernel reads it;
- `kept mask`: the same with a mask that was made before;
- `dense`: all scores are stored;
- `flex`: the bias is a function in torch's kernel, on a GPU;
- `subnormal`: as `fused`, on a CPU that keeps numbers below 2^-126. ALiBi's weights of far keys are such
  numbers, and some processors are slow with them. Everywhere else they are taken for 0.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from posenc._attention.cache import KVCache
from posenc._attention.call import attention
from posenc._attention.encoding import Encoding
from posenc._attention.kernels import Backend
from posenc._attention.plan import Plan
from posenc._attention.spans import Span
from posenc.lab.budgets import PRESETS
from posenc.lab.config import Run
from posenc.lab.intervals import Interval
from posenc.lab.results import Result, provenance, put
from posenc.lab.turns import ratio, ratios, take_turns
from posenc.pictures.table import Table
from posenc.schemes.registry import ENCODINGS
from posenc.schemes.rope import RoPE
from posenc.transformer.model import Transformer

TIMES = 8  # a model is timed at so many training lengths, so that pairs of tokens count
ALONE = ("nope", "rope", "xpos", "alibi", "t5", "transformer_xl", "shaw", "distance_aware")
BIASED = ("alibi", "t5", "transformer_xl")  # their bias is all they need of a kernel
BACKEND: dict[str, Backend] = {"fused": "auto", "mask": "sdpa", "dense": "dense", "flex": "flex"}

# The C library of Linux may return large blocks to the system and ask for them again. The threshold depends on earlier
# allocations, and fresh pages cost as much as the work on them. With these variables it keeps all blocks.
REUSED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}

Call = Callable[[], Any]


@dataclass(frozen=True)
class Sizes:
    """Sizes of attention where it is timed alone, with one text."""

    heads: int
    """Heads, as many of keys as of queries."""
    dim: int
    """Channels of a head."""
    lengths: tuple[int, ...]
    """Tokens of a pass; the last is that of a training step too."""
    cached: int
    """Tokens in the cache to which one more comes."""
    scored: int
    """Tokens where scores are stored and multiplied by a factor."""


SIZES = {"cpu": Sizes(8, 64, (512, 2048), 4096, 1024), "cuda": Sizes(16, 128, (2048, 8192), 32_768, 2048)}


@dataclass(frozen=True)
class Cost:
    """A measurement, and what can be asked of it.

    Example:
        >>> from posenc.lab.results import FOLDER
        >>> cost = read_cost("cpu", FOLDER)
        >>> cost.ratio("pass 2048", "alibi", "mask").low > 1.5
        True
    """

    result: Result
    """What the file holds."""

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return len(next(iter(self.result["times"].values())))

    def ratio(self, what: str, scheme: str, way: str = "fused") -> Interval:
        """How many times as long as its peer in the same round: the median, with its 95 % interval.

        The peer is NoPE through the same kernel; of a rotation, copying q and k; of a factor, scores without one.

        Raises:
            ValueError: If it was not timed.
        """
        return ratio(self.result["times"], *self._pair(what, scheme, way))

    def ratios(self, what: str, scheme: str, way: str = "fused") -> list[float]:
        """The same, round by round."""
        return ratios(self.result["times"], *self._pair(what, scheme, way))

    def seconds(self, what: str, scheme: str, way: str = "fused") -> float:
        """The median of its seconds."""
        times = sorted(self.result["times"][_name(what, scheme, way)])
        return float(times[len(times) // 2])

    def bytes(self, what: str, scheme: str, way: str = "fused") -> int | None:
        """The peak of memory during one call, beyond what was there before; None if it cannot be told."""
        found: int | None = self.result["bytes"][_name(what, scheme, way)]
        return found

    def _pair(self, what: str, scheme: str, way: str) -> tuple[str, str]:
        return _name(what, scheme, way), _name(*_peer(what, way))


def cost(
    preset: str,
    *,
    device: str = "cpu",
    rounds: int = 9,
    minutes: float | None = None,
    part: str | os.PathLike[str],
    sizes: Sizes | None = None,
    shortest: float = 0.05,
    progress: bool = True,
) -> Result | None:
    """Times all schemes in all ways, in turns.

    Attention alone has the sizes of `SIZES`. Whole models are those of the preset, with random tokens, as many as its
    batch has, in sequences eight times as long as in training.

    Args:
        preset: "smoke", "cpu" or "gpu".
        device: Where it runs, in bfloat16 on a GPU. Default: "cpu".
        rounds: How often everybody's turn comes, 6 or more. Default: 9.
        minutes: Begin no new round after so long. Default: no limit.
        part: A file for the rounds so far.
        sizes: Those of attention alone. Default: what `SIZES` has for the device.
        shortest: Seconds of a turn, about. Default: 0.05.
        progress: Show a progress bar. Default: True.

    Returns:
        What `keep` keeps and `Cost` reads, with `provenance`, sizes, `clock`, why a contender was `refused`, `times` of
        the others round by round, and peaks of memory in `bytes`; or None if the minutes ended before round 6, and then
        the same call goes on.
    """
    torch.set_flush_denormal(True)
    try:
        return _cost(preset, device, rounds, minutes, part, sizes, shortest, progress)
    finally:
        torch.set_flush_denormal(False)


def _cost(
    preset: str, device: str, rounds: int, minutes: float | None, part: str | os.PathLike[str], sizes: Sizes | None,
    shortest: float, progress: bool,
) -> Result | None:  # fmt: skip
    kind = "cuda" if device.startswith("cuda") else "cpu"
    sizes = sizes or SIZES[kind]
    dtype = torch.bfloat16 if kind == "cuda" else torch.float32
    begun = time.monotonic()
    calls, refused = _able(dict(_calls(sizes, device, dtype)) | dict(_models(preset, device)))
    # Where one thread computes, the processor's own time leaves out what other programs took.
    processor = kind == "cpu" and torch.get_num_threads() == 1
    about = {
        "provenance": provenance(None, device),
        "heads": sizes.heads,
        "dim": sizes.dim,
        "dtype": str(dtype).removeprefix("torch."),
        "model": _shape(preset),
        "clock": "processor" if processor else "wall",
        "memory": "reused" if all(os.environ.get(name) == value for name, value in REUSED.items()) else "as it comes",
    }
    clock = time.thread_time if processor else time.perf_counter
    left = None if minutes is None else minutes - (time.monotonic() - begun) / 60
    times = take_turns(calls, rounds, part, about, clock=clock, shortest=shortest, minutes=left, progress=progress)
    if times is None:
        return None
    peaks = {name: peak(call, torch.device(device)) for name, call in calls.items() if name.startswith(("pass", "tra"))}
    return {**about, "refused": refused, "times": times, "bytes": peaks}


def keep(result: Result, preset: str, folder: str | os.PathLike[str]) -> Path:
    """Writes the result of `cost` to `cost.json`, removes the rounds beside it, and returns the file."""
    part_of(preset, folder).unlink(missing_ok=True)
    return put(Path(folder) / preset / "cost.json", result)


def part_of(preset: str, folder: str | os.PathLike[str]) -> Path:
    """Where the rounds of a measurement lie that is not complete."""
    return Path(folder) / preset / "cost.json.part"


def read_cost(preset: str, folder: str | os.PathLike[str]) -> Cost:
    """Reads the result that `keep` wrote. Raises ValueError if there is none, or one that was not measured in turns."""
    path = Path(folder) / preset / "cost.json"
    if not path.exists():
        raise ValueError(f"costs of preset {preset} were not measured: run python -m posenc.lab cost --preset {preset}")
    result: Result = json.loads(path.read_text())
    if "times" not in result:
        raise ValueError(f"{path.name} has no rounds: run python -m posenc.lab cost --preset {preset} again")
    return Cost(result)


def read_kernels(preset: str, folder: str | os.PathLike[str]) -> Result:
    """Reads times of attention on a GPU from November 2026: a median each, not in turns, with the forms of that day."""
    result: Result = json.loads((Path(folder) / preset / "kernels.json").read_text())
    return result


def table(cost: Cost) -> Table:
    """All contenders: milliseconds, ratios to the peer (the least, the median, its interval), and MiB at the peak."""
    rows = []
    for name in cost.result["times"]:
        what, scheme, way = name.split(", ")
        each, middle, held = cost.ratios(what, scheme, way), cost.ratio(what, scheme, way), cost.result["bytes"]
        mib = held[name] / 2**20 if held.get(name) is not None else None
        rows.append([name, 1e3 * cost.seconds(what, scheme, way), min(each), f"{middle:.2f}", mib])
    about = cost.result["provenance"]
    caption = f"{about['device']}, {cost.rounds} rounds, times as long as NoPE through the same kernel"
    return Table({"": "", "ms": ".3g", "least": ".2f", "median": "", "MiB": ".1f"}, rows, caption=caption)


def peak(call: Call, device: torch.device) -> int | None:
    """The peak of memory in bytes during a call, beyond what was allocated before; None on other devices."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    if device.type != "cpu":
        return None
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the profiler writes to the terminal
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    recorded = profile.profiler.kineto_results.events()
    events = sorted((e for e in recorded if e.name() == "[memory]"), key=lambda e: e.start_ns())
    return max(accumulate((event.nbytes() for event in events), initial=0))  # allocations, and frees below 0


class Written(Encoding):
    """A scheme's bias and no other form of it, so that a fused kernel gets it as a matrix."""

    def __init__(self, scheme: Encoding) -> None:
        super().__init__()
        self.scheme, self.causal_only = scheme, scheme.causal_only

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return self.scheme.query(q, pos)

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return self.scheme.key(k, pos)

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Any:
        assert self.scheme.score_bias is not None
        return self.scheme.score_bias(q, k, qpos, kpos)


# ---- contenders ------------------------------------------------------------------------------------------------------


def _able(calls: dict[str, Call]) -> tuple[dict[str, Call], dict[str, str]]:
    """Makes each call once: those that succeed, and what the others say."""
    able, refused = {}, {}
    for name, call in calls.items():
        try:
            call()
        except (ValueError, RuntimeError) as error:  # a device with too little memory is among them
            refused[name] = str(error).partition("\n")[0]
        else:
            able[name] = call
    return able, refused


def _name(what: str, scheme: str, way: str) -> str:
    return f"{what}, {scheme}, {way}"


def _peer(what: str, way: str) -> tuple[str, str, str]:
    """With what a contender is compared."""
    if what.startswith("rotation"):
        return what, "copy", "of q and k"
    if what.startswith("factor"):
        return what, "nope", "stored"
    return what, "nope", "fused" if way in ("mask", "kept mask", "subnormal") else way


def _calls(sizes: Sizes, device: str, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Attention alone."""
    longest = max(*sizes.lengths, sizes.cached)
    made = {name: _made(name, sizes, longest).to(device) for name in ALONE}
    gpu = device.startswith("cuda")
    ways = [(name, way) for way in ("fused", "dense", *["flex"] * gpu) for name in ALONE]
    ways = [(name, way) for name, way in ways if (name, way) != ("shaw", "flex")]
    ways += [(name, "mask") for name in BIASED]
    for length in sizes.lengths:
        drawn, plan = _draw(3, sizes, length, device, dtype), Plan(Span(0, length))
        for name, way in ways:
            yield _name(f"pass {length}", name, way), _pass(made[name], way, drawn, plan)
        yield _name(f"pass {length}", "alibi", "kept mask"), _read_only(made["alibi"], drawn, plan)
    for name, way in ways:
        yield _name(f"training {length}", name, way), _training(made[name], way, drawn, plan)
    if not gpu:
        yield _name(f"pass {length}", "alibi", "subnormal"), _subnormal(_pass(made["alibi"], "fused", drawn, plan))
        yield (
            _name(f"training {length}", "alibi", "subnormal"),
            _subnormal(_training(made["alibi"], "fused", drawn, plan)),
        )
    for name in ALONE:
        yield _name(f"token {sizes.cached}", name, "fused"), _token(made[name], sizes, device, dtype)
    yield from _rotations(sizes, device, dtype)
    yield from _factors(sizes, device, dtype)


def _made(name: str, sizes: Sizes, longest: int) -> Encoding:
    width = sizes.heads * sizes.dim
    encoding = ENCODINGS[name](model_dim=width, heads=sizes.heads, head_dim=sizes.dim, length=longest)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(0))
    return encoding


def _draw(count: int, sizes: Sizes, length: int, device: str, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 1, sizes.heads, length, sizes.dim, generator=generator).to(device, dtype)


def _pass(encoding: Encoding, way: str, drawn: Tensor, plan: Plan) -> Call:
    q, k, v = drawn
    encoding = Written(encoding) if way == "mask" else encoding

    def call() -> Tensor:
        with torch.no_grad():
            return attention(q, k, v, encoding, plan, backend=BACKEND[way])

    return call


def _read_only(encoding: Encoding, drawn: Tensor, plan: Plan) -> Call:
    """A fused kernel that reads a mask, made once for all calls."""
    q, k, v = drawn
    causal = plan.qpos(q.device)[:, None] < plan.kpos(q.device)
    mask = encoding.bias(plan.qpos(q.device), plan.kpos(q.device)).to(q.dtype).masked_fill(causal, -torch.inf)

    def call() -> Tensor:
        with torch.no_grad():
            return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return call


def _training(encoding: Encoding, way: str, drawn: Tensor, plan: Plan) -> Call:
    """Forward and backward, with the gradients of what the encoding has learned."""
    q, k, v = (x.clone().requires_grad_() for x in drawn)
    encoding = Written(encoding) if way == "mask" else encoding
    wanted = [q, k, v, *(parameter for parameter in encoding.parameters() if parameter.requires_grad)]

    def call() -> Any:
        return torch.autograd.grad(attention(q, k, v, encoding, plan, backend=BACKEND[way]).sum(), wanted)

    return call


def _subnormal(inner: Call) -> Call:
    """The same with numbers below 2^-126 as they are."""

    def call() -> Any:
        torch.set_flush_denormal(False)
        try:
            return inner()
        finally:
            torch.set_flush_denormal(True)

    return call


def _token(encoding: Encoding, sizes: Sizes, device: str, dtype: torch.dtype) -> Call:
    """One more token; each call adds it to the cache."""
    cache, (_, k, v) = KVCache(), _draw(3, sizes, sizes.cached, device, dtype)
    q, new, value = _draw(3, sizes, 1, device, dtype)
    with torch.no_grad():
        cache.extend(k, v, Span(0, sizes.cached), encoding)

    def call() -> Tensor:
        with torch.no_grad():
            return attention(q, new, value, encoding, Span(cache.seen, 1), cache=cache)

    return call


def _rotations(sizes: Sizes, device: str, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """RoPE by itself: with new sines and cosines, and with those of an earlier layer."""
    length = sizes.lengths[-1]
    q, k = _draw(2, sizes, length, device, dtype)
    rope, pos, what = RoPE(sizes.dim).to(device), torch.arange(length, device=device), f"rotation {length}"
    waves = rope.waves(pos)
    yield _name(what, "copy", "of q and k"), lambda: (q.clone(), k.clone())
    yield _name(what, "rope", "new tables"), lambda: (rope.query(q, pos), rope.key(k, pos))
    given: Call = lambda: (rope.query(q, pos, waves), rope.key(k, pos, waves))  # noqa: E731
    yield _name(what, "rope", "tables given"), given


def _factors(sizes: Sizes, device: str, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Distance-aware attention with stored scores, and its factor (1 + e^v) σ(wR - v) made in three ways."""
    length, what = sizes.scored, f"factor {sizes.scored}"
    q, k, v = _draw(3, sizes, length, device, dtype)
    pos = torch.arange(length, device=device)
    offset = pos[:, None] - pos
    distance, hidden = offset.abs().to(dtype), offset < 0
    w = torch.linspace(-0.05, 0.05, sizes.heads, device=device, dtype=dtype)[:, None, None]
    shift = torch.linspace(-1, 1, sizes.heads, device=device, dtype=dtype)[:, None, None]
    top = 1 + shift.exp()

    def attend(factor: Callable[[], Tensor] | None, turned: bool = False) -> Call:
        keys, values, future = (k.flip(2), v.flip(2), hidden.flip(1)) if turned else (k, v, hidden)

        def call() -> Tensor:
            score = q @ keys.mT * sizes.dim**-0.5
            if factor is not None:
                score = score.relu_().mul_(factor())
            return score.masked_fill_(future, -torch.inf).softmax(-1) @ values

        return torch.no_grad()(call)

    def two() -> Tensor:
        return torch.addcmul(-shift, w, distance).sigmoid_().mul_(top)  # an exponential and a reciprocal

    def one() -> Tensor:  # σ(x) = ½ + ½ tanh(x/2)
        return torch.addcmul(-shift / 2, w / 2, distance).tanh_().add_(1).mul_(top / 2)

    def looked_up() -> Tensor:
        """2L - 1 numbers for each head. Keys lie in reverse order, so that i + j counts them off: no matrix is made."""
        far = torch.arange(1 - length, length, device=device).abs().to(dtype)
        row = torch.addcmul(-shift, w, far).sigmoid_().mul_(top)  # (H, 1, 2L - 1)
        return row.as_strided((sizes.heads, length, length), (2 * length - 1, 1, 1))

    yield _name(what, "nope", "stored"), attend(None)
    yield _name(what, "distance_aware", "two special functions"), attend(two)
    yield _name(what, "distance_aware", "one tanh"), attend(one)
    yield _name(what, "distance_aware", "looked up"), attend(looked_up, turned=True)


def _shape(preset: str) -> dict[str, int]:
    budget = PRESETS[preset].text
    sizes = {name: getattr(budget, name) for name in ("layers", "model_dim", "heads")}
    return {**sizes, "length": TIMES * budget.length, "batch": max(1, budget.batch // TIMES)}


def _models(preset: str, device: str) -> Iterator[tuple[str, Call]]:
    """Passes and training steps of whole models."""
    shape, on_gpu = _shape(preset), device.startswith("cuda")
    length, generator = shape["length"], torch.Generator().manual_seed(0)
    tokens = torch.randint(256, (shape["batch"], length + 1), generator=generator).to(device)
    for way in ("fused", "mask", "dense"):
        for name in BIASED if way == "mask" else ENCODINGS:
            model = Run(name, 0, preset).model(length=length, backend=BACKEND[way])
            if way == "mask":
                model.encodings = torch.nn.ModuleList(
                    Written(one) for one in model.encodings if isinstance(one, Encoding)
                )
            model.to(device)
            yield _name("model pass", name, way), _model_pass(model, tokens, on_gpu)
            yield _name("model training", name, way), _model_step(model, tokens, on_gpu)


def _model_pass(model: Transformer, tokens: Tensor, autocast: bool) -> Call:
    def call() -> Tensor:
        with torch.no_grad(), torch.autocast(tokens.device.type, torch.bfloat16, enabled=autocast):
            return model(tokens[:, :-1])

    return call


def _model_step(model: Transformer, tokens: Tensor, autocast: bool) -> Call:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-6)

    def step() -> None:
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=autocast):
            logits = model(tokens[:, :-1])
            loss = cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
