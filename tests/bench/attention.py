"""What schemes cost beside NoPE through the same call: `python tests/bench/attention.py`.

- a pass and a training step over 2,048 tokens, as multiples of NoPE's, for what has a form without a matrix of biases;
- one token after 4,096 in a cache, as a multiple of NoPE's;
- RoPE with the sines and cosines of the pass at hand, as a multiple of cloning q and k (`rotate.py` has the others).

Contenders take turns. The table gives medians, and their ratios beside the ratios of the least times. Ratios are
compared, not times: others' load disturbs both alike.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import ENCODINGS, Encoding, KVCache, Plan, RoPE, Span, attention
from tests.bench.clock import turns

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
    return turns(calls, rounds)


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
    return turns(calls, 10 * rounds)


@torch.no_grad()
def rotations(rounds: int) -> dict[str, list[float]]:
    q, k = torch.randn(2, BATCH, HEADS, LENGTH, HEAD_DIM)
    pos, calls = torch.arange(LENGTH), {"clone": lambda: (q.clone(), k.clone())}
    for layout in ("interleaved", "half"):
        rope = RoPE(HEAD_DIM, layout=layout)
        waves = rope.waves(pos)
        calls[layout] = lambda rope=rope: (rope.query(q, pos), rope.key(k, pos))
        calls[f"{layout}, waves given"] = lambda rope=rope, waves=waves: (
            rope.query(q, pos, waves),
            rope.key(k, pos, waves),
        )
    return turns(calls, 10 * rounds)


def show(title: str, times: dict[str, list[float]], peer: str, bounds: dict[str, float] | None = None) -> None:
    print(f"\n{title}")
    middle, least = (({name: of(t) for name, t in times.items()}) for of in (statistics.median, min))
    for name, seconds in middle.items():
        ratio, best, most = seconds / middle[peer], least[name] / least[peer], (bounds or {}).get(name)
        said = f"  (at most {most})" if most else ""
        print(f"  {name:28}{seconds * 1e3:9.2f} ms {ratio:6.2f} x, least {best:6.2f} x{said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="one by default: others' load then disturbs less")
    parser.add_argument("--schemes", nargs="+", default=TEXTS)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    print(f"B = {BATCH}, H = {HEADS}, d = {HEAD_DIM}, float32, CPU, threads: {args.threads}, torch {torch.__version__}")
    plan = Plan(Span(0, LENGTH))
    for name, training in (("pass", False), ("training", True)):
        found = passes(plan, args.rounds, training, tuple(args.schemes))
        show(f"{name}, {LENGTH} tokens", found, "nope", BOUNDS[name])
    show(f"one token, {CACHED} in the cache", steps(args.rounds), "nope", dict.fromkeys(STEPS[1:], 1.2))
    show(f"RoPE, {LENGTH} tokens", rotations(args.rounds), "clone")


if __name__ == "__main__":
    main()
