"""What schemes cost beside NoPE through the same call: `python tests/bench/attention.py`.

- a pass and a training step over 2,048 tokens, as multiples of NoPE's, for what has a form without a matrix of biases;
- one token after 4,096 in a cache, as a multiple of NoPE's;
- a chunk of 1,024 tokens after 3,072 in a cache, as a multiple of the same with a mask;
- rotating q and k, as a multiple of cloning them (`rotate.py` has fresh and reused memory, and other libraries).

Contenders take turns, and the table gives medians, and ratios of medians and of the least times. With one thread they
are seconds of the processor, so that others' load disturbs little. Numbers below 2^-126 are taken for 0, but in rows
"with subnormals": ALiBi's weights of far keys are such numbers, and some processors are slow with them.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import ENCODINGS, Encoding, KVCache, NoPE, Plan, RoPE, Span, attend, attention
from tests.bench.clock import measure_all, own_clock

LENGTH, CACHED, BATCH, HEADS, HEAD_DIM = 2048, 4096, 1, 8, 64
WIDTH = HEADS * HEAD_DIM
TEXTS = ("nope", "rope", "alibi", "t5", "shaw", "transformer_xl")
BOUNDS = {"pass": {"alibi": 1.5, "t5": 1.5, "transformer_xl": 2.0}}
BOUNDS["training"] = BOUNDS["pass"]
STEPS = ("nope", "rope", "alibi", "t5", "xpos")  # these keep nothing for each query


def make(name: str) -> Encoding:
    encoding = ENCODINGS[name](model_dim=WIDTH, heads=HEADS, head_dim=HEAD_DIM, length=CACHED + LENGTH)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return encoding


def passes(plan: Plan, rounds: int, training: bool, names: tuple[str, ...]) -> dict[str, list[float]]:
    q, k, v = torch.randn(3, BATCH, HEADS, LENGTH, HEAD_DIM)
    calls: dict[str, Callable[[], object]] = {}
    for name in names:
        encoding = make(name)
        inputs = [x.clone().requires_grad_(training) for x in (q, k, v)]
        wanted = [*inputs, *encoding.parameters()]

        def call(encoding: Encoding = encoding, inputs: list[Tensor] = inputs, wanted: list[Tensor] = wanted) -> object:
            with torch.set_grad_enabled(training):
                z = attention(*inputs, encoding, plan)
                return torch.autograd.grad(z.sum(), wanted) if training else z

        calls[name] = call
        if name == "alibi":
            calls["alibi, with subnormals"] = with_subnormals(call)
    return measure_all(calls, rounds, clock=own_clock(torch.get_num_threads()))


def with_subnormals(call: Callable[[], object]) -> Callable[[], object]:
    def other() -> object:
        torch.set_flush_denormal(False)
        found = call()
        torch.set_flush_denormal(True)
        return found

    return other


@torch.no_grad()
def steps(rounds: int) -> dict[str, list[float]]:
    k, v = torch.randn(2, BATCH, HEADS, CACHED, HEAD_DIM)
    q, new, value = torch.randn(3, BATCH, HEADS, 1, HEAD_DIM)
    calls: dict[str, Callable[[], object]] = {}
    for name in STEPS:
        encoding, cache = make(name), KVCache()
        cache.extend(k, v, Span(0, CACHED), encoding)

        def call(encoding: Encoding = encoding, cache: KVCache = cache) -> object:
            return attention(q, new, value, encoding, Span(cache.seen, 1), cache=cache)

        call()  # the memory doubles now
        calls[name] = call
    return measure_all(calls, 10 * rounds, clock=own_clock(torch.get_num_threads()))


@torch.no_grad()
def chunk(rounds: int) -> dict[str, list[float]]:
    q = torch.randn(BATCH, HEADS, CACHED // 4, HEAD_DIM)
    k, v = torch.randn(2, BATCH, HEADS, CACHED, HEAD_DIM)
    plan = Plan(Span(CACHED - q.shape[2], q.shape[2]), Span(0, CACHED))
    mask = plan.allowed()
    calls: dict[str, Callable[[], object]] = {
        "mask": lambda: scaled_dot_product_attention(q, k, v, attn_mask=mask),
        "two calls": lambda: attend(q, k, v, NoPE(), plan),
    }
    return measure_all(calls, rounds, clock=own_clock(torch.get_num_threads()))


@torch.no_grad()
def rotations(rounds: int) -> dict[str, list[float]]:
    """Waves are made once for q and k, as a plan does, or are at hand."""
    q, k = torch.randn(2, BATCH, HEADS, LENGTH, HEAD_DIM)
    pos = torch.arange(LENGTH)
    calls: dict[str, Callable[[], object]] = {"clone": lambda: (q.clone(), k.clone())}
    for layout in ("interleaved", "half"):
        rope = RoPE(HEAD_DIM, layout=layout)
        given = rope.waves(pos)

        def both(waves: tuple[Tensor, Tensor], rope: RoPE = rope) -> object:
            return rope.query(q, pos, waves), rope.key(k, pos, waves)

        calls[layout] = lambda rope=rope, both=both: both(rope.waves(pos))
        calls[f"{layout}, waves given"] = lambda given=given, both=both: both(given)
    return measure_all(calls, 10 * rounds, clock=own_clock(torch.get_num_threads()))


def show(title: str, times: dict[str, list[float]], peer: str, bounds: dict[str, float] | None = None) -> None:
    print(f"\n{title:32}{'median':>12}{'ratio':>9}{'of least':>9}")
    for name, seconds in times.items():
        middle, most = statistics.median(seconds), (bounds or {}).get(name)
        ratio, least = middle / statistics.median(times[peer]), seconds[0] / times[peer][0]
        print(f"  {name:28}{middle * 1e3:11.2f} ms{ratio:7.2f} x{least:7.2f} x{f'  (at most {most})' if most else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="one by default: others' load then disturbs less")
    parser.add_argument("--schemes", nargs="+", default=TEXTS)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    print(f"B = {BATCH}, H = {HEADS}, d = {HEAD_DIM}, float32, CPU, threads: {args.threads}, torch {torch.__version__}")
    plan = Plan(Span(0, LENGTH))
    for name, training in (("pass", False), ("training", True)):
        found = passes(plan, args.rounds, training, tuple(args.schemes))
        show(f"{name}, {LENGTH} tokens", found, "nope", BOUNDS[name])
    show(f"one token, {CACHED} in the cache", steps(args.rounds), "nope", dict.fromkeys(STEPS[1:], 1.2))
    show(f"{CACHED // 4} tokens after {CACHED * 3 // 4}", chunk(args.rounds), "mask")
    show(f"RoPE, {LENGTH} tokens", rotations(args.rounds), "clone")


if __name__ == "__main__":
    main()
