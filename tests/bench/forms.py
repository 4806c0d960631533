"""What the forms without a matrix of biases cost that chapters print in plain torch: `python tests/bench/forms.py`.

Each is measured as the chapter has it, and as `attention` has it, against plain causal attention by the same fused
kernel. They take turns. The time is that of the processor, which other programs disturb less than the clock's.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import ALiBi, Plan, Shaw, Span, T5Bias, attention, t5_bucket

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"
BATCH, HEADS, HEAD_DIM = 1, 8, 64
#: The cells that define each form, by chapter.
CELLS = {"cost": ["c-copy"], "t5": ["t5-in-two-code"], "shaw": ["shaw-fused-near", "shaw-fused-far"]}


def printed(name: str) -> dict[str, Any]:
    """The names that the cells of a chapter define."""
    notebook = json.loads((CHAPTERS / f"{name}.ipynb").read_text(encoding="utf-8"))
    sources = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    names = {"torch": torch, "math": math, "pad": pad, "scaled_dot_product_attention": scaled_dot_product_attention}
    for cell in CELLS[name]:
        exec(sources[cell], names)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--training", action="store_true", help="forward and backward, gradients of tables included")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    q, k, v = (x.requires_grad_(args.training) for x in torch.randn(3, BATCH, HEADS, args.length, HEAD_DIM))
    alibi, t5, shaw = ALiBi(HEADS), T5Bias(HEADS), Shaw(HEAD_DIM)
    torch.nn.init.normal_(t5.table, std=0.1)
    by_distance, plan = t5_bucket(-torch.arange(t5.max_distance + 1)), Plan(Span(0, args.length))
    alibi_without_a_mask, t5_in_two, shaw_in_two = (
        printed(name)[function] for name, function in
        (("cost", "alibi_without_a_mask"), ("t5", "t5_in_two"), ("shaw", "shaw_in_two"))
    )  # fmt: skip
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "plain causal attention": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "ALiBi, as printed": lambda: alibi_without_a_mask(q, k, v, alibi.slope),
        "ALiBi, posenc": lambda: attention(q, k, v, alibi, plan),
        "T5, as printed": lambda: t5_in_two(q, k, v, t5.table[by_distance]),
        "T5, posenc": lambda: attention(q, k, v, t5, plan, scale=1.0),
        "Shaw, as printed": lambda: shaw_in_two(q, k, v, shaw.key_table, shaw.value_table),
        "Shaw, posenc": lambda: attention(q, k, v, shaw, plan),
    }
    tables = {"T5": [t5.table], "Shaw": list(shaw.parameters())}

    def timed(name: str) -> float:
        start = time.process_time()
        z = calls[name]()
        if args.training:
            torch.autograd.grad(z.sum(), [q, k, v, *tables.get(name.split(",")[0], [])])
        return time.process_time() - start

    times: dict[str, list[float]] = {name: [] for name in calls}
    with torch.set_grad_enabled(args.training):
        for turn in range(args.rounds):
            names = list(calls)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                timed(name)  # each warms up what it itself has left
                times[name].append(timed(name))
    print(
        f"B = {BATCH}, H = {HEADS}, d = {HEAD_DIM}, {args.length} tokens, float32, one CPU thread, {args.rounds} rounds"
    )
    plain = times["plain causal attention"]
    for name, found in times.items():
        ratios = sorted(one / other for one, other in zip(found, plain, strict=True))
        print(f"  {name:24}{statistics.median(found) * 1e3:9.1f} ms {statistics.median(ratios):6.2f} x "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
