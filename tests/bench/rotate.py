"""What rotating q and k costs, as a multiple of cloning both: `python tests/bench/rotate.py`.

The contenders take turns, and the table gives medians. Where a result's memory comes from decides much of its
cost, and malloc's mood must not decide between contenders, so it is measured both ways, each in a process of its
own. "fresh": every block of 1 MiB or more is taken from the system, which is what glibc does above 32 MiB, hence
for long sequences. "reused": memory is never given back, so results go to what is at hand, probably in the cache.
All start from positions or a length, and angles count, once for q and k, unless "waves given" says that they were at
hand. "complex product alone" is what eager torch needs at least: each channel read, multiplied and written once. Halves
of a head are rows of 32 numbers to torch, in three passes; that is no layout for eager torch. Libraries that are not
installed are reported as such. With one thread, times are seconds of the processor.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import RoPE, rotate
from tests.bench.clock import measure, own_clock

Call = Callable[[], tuple[Tensor, Tensor]]
LENGTH, BATCH, HEADS, HEAD_DIM = 1024, 2, 8, 64
MALLOC = {
    "fresh": {"MALLOC_MMAP_THRESHOLD_": str(2**20)},
    "reused": {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**40)},
}


def contenders(q: Tensor, k: Tensor, pos: Tensor) -> dict[str, Call | None]:
    calls: dict[str, Call | None] = {"clone": lambda: (q.clone(), k.clone())}
    for layout in ("interleaved", "half"):
        rope = RoPE(HEAD_DIM, layout=layout)
        given = rope.waves(pos)

        def both(waves: tuple[Tensor, Tensor], rope: RoPE = rope) -> tuple[Tensor, Tensor]:
            return rope.query(q, pos, waves), rope.key(k, pos, waves)

        calls[f"posenc, {layout}"] = lambda rope=rope, both=both: both(rope.waves(pos))
        calls[f"posenc, {layout}, waves given"] = lambda given=given, both=both: both(given)
    unit = torch.complex(*RoPE(HEAD_DIM).waves(pos))
    pairs = [torch.view_as_complex(x.unflatten(-1, (-1, 2))) for x in (q, k)]
    calls["complex product alone"] = lambda: tuple(torch.view_as_real(x * unit).flatten(-2) for x in pairs)
    freq = RoPE(HEAD_DIM).freq
    compiled = torch.compile(rotate)
    calls["posenc, interleaved, compiled"] = lambda: (compiled(q, pos, freq), compiled(k, pos, freq))
    for name, module, make in (
        ("transformers, Llama", "transformers", llama),
        ("x-transformers", "x_transformers", x_transformers),
        ("rotary-embedding-torch", "rotary_embedding_torch", rotary_embedding_torch),
    ):
        calls[name] = make(q, k, pos) if importlib.util.find_spec(module) else None
    return calls


def llama(q: Tensor, k: Tensor, pos: Tensor) -> Call:
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=HEADS * HEAD_DIM, num_attention_heads=HEADS, max_position_embeddings=LENGTH)
    rotary = LlamaRotaryEmbedding(config)
    return lambda: apply_rotary_pos_emb(q, k, *rotary(q, pos[None]))


def x_transformers(q: Tensor, k: Tensor, pos: Tensor) -> Call:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    rotary = RotaryEmbedding(HEAD_DIM)

    def call() -> tuple[Tensor, Tensor]:
        freqs, scale = rotary.forward_from_seq_len(LENGTH)
        return apply_rotary_pos_emb(q, freqs, scale), apply_rotary_pos_emb(k, freqs, scale)

    return call


def rotary_embedding_torch(q: Tensor, k: Tensor, pos: Tensor) -> Call:
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(HEAD_DIM)
    return lambda: (rotary.rotate_queries_or_keys(q), rotary.rotate_queries_or_keys(k))


def check(calls: dict[str, Call]) -> None:
    """All rotate by the same angles, in one of the two layouts."""
    layouts = [calls[name]() for name in ("posenc, interleaved", "posenc, half")]
    for name, call in calls.items():
        found = torch.stack(call())
        if name != "clone" and not any(torch.allclose(found, torch.stack(x), atol=1e-3) for x in layouts):
            raise SystemExit(f"{name} computes something else")


def worker(rounds: int, threads: int) -> None:
    """Prints, as JSON, the seconds of each contender, or null where it is not installed."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    q, k = torch.randn(2, BATCH, HEADS, LENGTH, HEAD_DIM)
    every = contenders(q, k, torch.arange(LENGTH))
    calls = {name: call for name, call in every.items() if call is not None}
    with torch.no_grad():
        check(calls)
        measure(calls, 3)  # imports, compilation, caches
        found = measure(calls, rounds, clock=own_clock(threads))
    print(json.dumps({name: found.get(name) for name in every}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1, help="one by default: others' load then disturbs less")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.rounds, args.threads)
        return
    print(f"q and k {(BATCH, HEADS, LENGTH, HEAD_DIM)}, float32, threads: {args.threads}, medians of {args.rounds}")
    found = {}
    for how, environment in MALLOC.items():
        print(f"measuring with {how} memory ...", file=sys.stderr)
        command = [sys.executable, __file__, "--worker", "--rounds", str(args.rounds), "--threads", str(args.threads)]
        done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True)
        found[how] = json.loads(done.stdout.splitlines()[-1])
    print(" " * 32 + "".join(f"{how:>20}" for how in found))
    for name in found["fresh"]:
        if found["fresh"][name] is None:
            print(f"{name:32}not installed")
            continue
        cells = (f"{by[name] * 1e3:.2f} ms {by[name] / by['clone']:5.1f} x" for by in found.values())
        print(f"{name:32}" + "".join(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
