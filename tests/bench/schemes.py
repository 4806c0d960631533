"""What the schemes cost beside NoPE, and beside naive forms: `python tests/bench/schemes.py`.

- one decoding step over a cache of 4,096 tokens, as a multiple of NoPE's;
- Shaw's relative representations, efficient against naive;
- a whole pass, dense, as a multiple of NoPE's;
- `import posenc`, as a multiple of `import torch`;
- on a GPU: ALiBi and T5 through flex_attention in bfloat16, time and memory against SDPA without a bias.

Contenders take turns, and the tables give medians. `--keep` writes the ratios to chapters/checked.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import ENCODINGS, Encoding, NoPE, Shaw, attend, shaw_label, shaw_naive
from tests.bench.clock import measure
from tests.table import Table

LENGTH, BATCH, HEADS, HEAD_DIM, CACHED = 1024, 2, 8, 64, 4096
MODEL = HEADS * HEAD_DIM
CAPTION = "What the schemes cost, as multiples of a peer that took turns with them."


def make(name: str) -> Encoding:
    return ENCODINGS[name](model_dim=MODEL, heads=HEADS, head_dim=HEAD_DIM, length=CACHED)


def heads(length: int, **options: object) -> Tensor:
    return torch.randn(BATCH, HEADS, length, HEAD_DIM, **options)


def ratios(times: dict[str, float], peer: str) -> dict[str, float]:
    return {name: t / times[peer] for name, t in times.items()}


def table(title: str, times: dict[str, float], peer: str) -> dict[str, float]:
    found = ratios(times, peer)
    print(f"\n{title}")
    for name, ratio in found.items():
        print(f"  {name:24}{times[name] * 1e3:9.2f} ms {ratio:6.2f} x")
    return found


def decoding(rounds: int) -> dict[str, float]:
    """The new token's query is turned and attends; keys are in the cache already, so only its own is turned."""
    q, k, v, kpos = heads(1), heads(CACHED), heads(CACHED), torch.arange(CACHED)
    qpos, calls = kpos[-1:], {}
    for name in ENCODINGS:
        encoding = make(name)

        def call(encoding: Encoding = encoding) -> Tensor:
            encoding.key(k[:, :, -1:], qpos)
            return attend(encoding.query(q, qpos), k, v, encoding, qpos, kpos)

        calls[name] = call
    return measure(calls, rounds)


def whole(rounds: int) -> dict[str, float]:
    q, k, v, pos = heads(LENGTH), heads(LENGTH), heads(LENGTH), torch.arange(LENGTH)
    calls = {}
    for name in ENCODINGS:
        encoding = make(name)

        def call(encoding: Encoding = encoding) -> Tensor:
            return attend(encoding.query(q, pos), encoding.key(k, pos), v, encoding, pos, pos)

        calls[name] = call
    return measure(calls, rounds)


def split(q: Tensor, k: Tensor, v: Tensor, encoding: Shaw, pos: Tensor) -> Tensor:
    """Shaw as the paper computes it (section 3.3): all offsets' vectors, (L, L, d), shared by heads and sequences."""
    label = shaw_label(pos - pos[:, None], encoding.clip)
    rows = q.permute(2, 0, 1, 3).flatten(1, 2)  # (L, B · H, d)
    relative = rows @ encoding.key_table[label].mT  # (L, B · H, L)
    score = q @ k.mT + relative.unflatten(1, q.shape[:2]).permute(1, 2, 0, 3)
    weight = (score * q.shape[-1] ** -0.5).masked_fill(pos > pos[:, None], -torch.inf).softmax(-1)
    values = weight.permute(2, 0, 1, 3).flatten(1, 2) @ encoding.value_table[label]  # (L, B · H, d)
    return weight @ v + values.unflatten(1, q.shape[:2]).permute(1, 2, 0, 3)


def shaw(rounds: int) -> dict[str, float]:
    q, k, v, pos = heads(LENGTH), heads(LENGTH), heads(LENGTH), torch.arange(LENGTH)
    encoding = Shaw(HEAD_DIM)
    calls = {
        "efficient": lambda: attend(q, k, v, encoding, pos, pos),
        "naive": lambda: shaw_naive(q, k, v, encoding.key_table, encoding.value_table, pos, pos),
        "split, as in the paper": lambda: split(q, k, v, encoding, pos),
        "nope": lambda: attend(q, k, v, NoPE(), pos, pos),
    }
    for name in ("naive", "split, as in the paper"):
        torch.testing.assert_close(calls["efficient"](), calls[name](), rtol=1e-4, atol=1e-4)
    return measure(calls, rounds)


def imports(rounds: int) -> dict[str, float]:
    """Whole processes, taking turns; what an interpreter needs without either is taken off."""
    times: dict[str, list[float]] = {"": [], "import torch": [], "import posenc": []}
    for _ in range(rounds + 1):  # the first round fills the system's caches
        for program, found in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            found.append(time.perf_counter() - start)
    bare, plain, ours = (statistics.median(found[1:]) for found in times.values())
    return {"import torch": plain - bare, "import posenc": ours - bare}


def fused(rounds: int) -> list[list[str]]:
    """On a GPU, in bfloat16: flex with a bias and a block mask against causal SDPA without a bias."""
    rows = []
    for length in (2048, 8192, 32768):
        q, k, v = (heads(length, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        pos = torch.arange(length, device="cuda")
        calls = {"sdpa, nope": lambda q=q, k=k, v=v, pos=pos: attend(q, k, v, NoPE(), pos, pos, backend="sdpa")}
        for name in ("nope", "alibi", "t5"):
            encoding = make(name).cuda().requires_grad_(False)
            calls[f"flex, {name}"] = lambda q=q, k=k, v=v, pos=pos, encoding=encoding: attend(
                q, k, v, encoding, pos, pos, backend="flex"
            )
        peaks = {}
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            call()
            torch.cuda.synchronize()
            peaks[name] = torch.cuda.max_memory_allocated() - before
        times = measure(calls, rounds, torch.cuda.synchronize)
        print(f"\nGPU, bfloat16, {length} tokens")
        for name, t in times.items():
            ratio = t / times["sdpa, nope"]
            print(f"  {name:24}{t * 1e3:9.2f} ms {ratio:6.2f} x {peaks[name] / 2**20:9.0f} MiB")
            if name != "sdpa, nope":
                what = f"{name}, {length} tokens, GPU, bfloat16: {peaks[name] / 2**20:.0f} MiB"
                rows.append([what, "causal SDPA without bias", "–", f"{ratio:.2f} ×"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1, help="one by default: others' load then disturbs less")
    parser.add_argument("--keep", action="store_true", help="write chapters/checked/bench.json")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    shape = f"B = {BATCH}, H = {HEADS}, d = {HEAD_DIM}, float32, CPU"
    print(f"{shape}, threads: {args.threads}, medians of {args.rounds}")
    with torch.no_grad():
        step = table(f"one decoding step over {CACHED} cached tokens", decoding(args.rounds), "nope")
        one = table(f"a whole pass over {LENGTH} tokens", whole(max(5, args.rounds // 3)), "nope")
        rows = [[f"`{name}`", "NoPE", f"{step[name]:.2f} ×", f"{one[name]:.2f} ×"] for name in step if name != "nope"]
        found = table(f"Shaw, a pass over {LENGTH} tokens", shaw(max(3, args.rounds // 6)), "naive")
        ratio = found["efficient"] / found["split, as in the paper"]
        rows += [["`shaw`", "its naive form", "–", f"{found['efficient']:.2f} ×"]]
        rows += [["`shaw`", "the paper's split form", "–", f"{ratio:.2f} ×"]]
    table("imports", imports(5), "import torch")
    if torch.cuda.is_available():
        with torch.no_grad():
            rows += fused(args.rounds)
    else:
        print("\nno GPU here: flex_attention was not timed")
    if args.keep:
        conditions = f"{shape}, torch {torch.__version__}, threads: {args.threads}, {platform.machine()}"
        Table(
            f"{CAPTION} {conditions}.", ["what", "peer", f"a step, {CACHED} cached", f"a pass, {LENGTH} tokens"], rows
        ).write("bench")


if __name__ == "__main__":
    main()
