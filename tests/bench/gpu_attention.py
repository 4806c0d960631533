"""What schemes cost on a GPU beside causal SDPA, in bfloat16: `python tests/bench/gpu_attention.py` (some minutes).

For lengths up to 32,768: a pass and a training step of ALiBi and T5 through `attention`, one decoded token, and RoPE
compiled beside a copy. It prints a table and, as JSON, what the table holds; before that it compares each way with
float64, and stops where one is wrong.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import ENCODINGS, Encoding, KVCache, Plan, RoPE, Span, attention

HEADS, HEAD_DIM, KEPT = 16, 128, torch.bfloat16
WIDTH = HEADS * HEAD_DIM


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    for _ in range(3):
        call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(rounds):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / rounds


def make(name: str) -> Encoding:
    encoding = ENCODINGS[name](model_dim=WIDTH, heads=HEADS, head_dim=HEAD_DIM, length=32_768).cuda()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def draw(length: int, batch: int) -> Tensor:
    return torch.randn(3, batch, HEADS, length, HEAD_DIM, device="cuda", dtype=KEPT)


def check() -> None:
    """Each way is as close to float64 as bfloat16 allows, forwards and backwards."""
    q, k, v = draw(1024, 1)
    for name in ("nope", "rope", "alibi", "t5"):
        encoding, found = make(name), {}
        for dtype, backend in ((KEPT, "auto"), (KEPT, "sdpa"), (torch.float64, "dense")):
            inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
            ours = encoding.to(dtype) if dtype == torch.float64 else encoding
            z = attention(*inputs, ours, Span(0, 1024), backend=backend)
            grads = torch.autograd.grad(z.double().square().sum(), [*inputs, *ours.parameters()])
            found[dtype, backend] = [z.detach(), *grads]
        exact = found.pop((torch.float64, "dense"))
        for way, tensors in found.items():
            for one, other in zip(tensors, exact, strict=True):
                error = (one.double() - other).abs().max() / other.abs().max()
                if not error < 0.03:
                    raise SystemExit(f"{name}, {way}: off by {error:.3g} of the largest number")


def passes(length: int, batch: int, rounds: int) -> dict[str, float]:
    q, k, v = draw(length, batch)
    found, plan = {}, Plan(Span(0, length))
    with torch.no_grad():
        found["causal sdpa"] = milliseconds(lambda: scaled_dot_product_attention(q, k, v, is_causal=True), rounds)
        for name in ("nope", "alibi", "t5"):
            encoding = make(name)
            for backend in ("auto", "flex"):
                call = lambda: attention(q, k, v, encoding, plan, backend=backend)  # noqa: B023, E731 - called at once
                found[f"{name}, {backend}"] = milliseconds(call, rounds)
            as_called = lambda: attention(q, k, v, encoding, Span(0, length), backend="flex")  # noqa: B023, E731
            found[f"{name}, flex without a plan"] = milliseconds(as_called, rounds)
    return found


def training(length: int, batch: int, rounds: int) -> dict[str, float]:
    q, k, v = (x.requires_grad_() for x in draw(length, batch).unbind())
    found, plan = {}, Plan(Span(0, length))

    def step(z: Tensor, encoding: Encoding | None = None) -> object:
        learned = [] if encoding is None else list(encoding.parameters())
        return torch.autograd.grad(z.sum(), [q, k, v, *learned])

    plain = lambda: step(scaled_dot_product_attention(q, k, v, is_causal=True))  # noqa: E731
    found["causal sdpa"] = milliseconds(plain, rounds)
    for name in ("alibi", "t5"):
        encoding = make(name)
        call = lambda: step(attention(q, k, v, encoding, plan), encoding)  # noqa: B023, E731 - called at once
        found[name] = milliseconds(call, rounds)
    return found


@torch.no_grad()
def decoding(length: int, rounds: int) -> dict[str, float]:
    _, k, v = draw(length, 1)
    q, new, value = draw(1, 1)
    found = {"sdpa": milliseconds(lambda: scaled_dot_product_attention(q, k, v), rounds)}
    for name in ("nope", "rope", "alibi", "t5"):
        encoding, cache = make(name), KVCache()
        cache.extend(k, v, Span(0, length), encoding)
        call = lambda: attention(q, new, value, encoding, Span(cache.seen, 1), cache=cache)  # noqa: B023, E731
        found[name] = milliseconds(call, rounds)
    return found


@torch.no_grad()
def rotation(rounds: int) -> dict[str, float]:
    x, pos = draw(4096, 8)[0], torch.arange(4096, device="cuda")
    found = {"copy": milliseconds(x.clone, rounds)}
    for layout in ("interleaved", "half"):
        rope = RoPE(HEAD_DIM, layout=layout).cuda()
        waves = rope.waves(pos)
        turn = torch.compile(rope.query, fullgraph=True)
        found[f"{layout}, compiled"] = milliseconds(lambda: turn(x, pos), rounds)  # noqa: B023 - called at once
        found[f"{layout}, compiled, waves given"] = milliseconds(lambda: turn(x, pos, waves), rounds)  # noqa: B023
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192, 32_768])
    parser.add_argument("--out", type=Path, help="a file for the JSON")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU here")
    torch.manual_seed(0)
    check()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for length in args.lengths:
        batch = max(1, 16_384 // length)
        found[f"pass, {length} x {batch}"] = passes(length, batch, args.rounds)
        found[f"one token after {length}"] = decoding(length, 5 * args.rounds)
        if length <= 8192:
            found[f"training, {length} x {batch}"] = training(length, batch, args.rounds)
    found["rotation, 8 x 16 x 4096 x 128"] = rotation(5 * args.rounds)
    for title, times in found.items():
        if isinstance(times, dict):
            first = next(iter(times.values()))
            print(f"\n{title}")
            for name, ms in times.items():
                print(f"  {name:32}{ms:10.3f} ms {ms / first:6.2f} x")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
