"""How long an audit takes on one core: seconds of the processor, medians of five, for models of two layers.

python tests/bench/audit.py
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from posenc import Transformer
from posenc.audit import audit

ROUNDS = 5


def ours(encoding: str) -> Callable[[], Any]:
    return lambda: Transformer(99, layers=2, model_dim=64, heads=4, encoding=encoding, length=256)


def theirs(name: str) -> Callable[[], Any]:
    from posenc.audit.adapters.hf.tiny import tiny

    return lambda: tiny(name).model


def seconds(make: Callable[[], Any]) -> tuple[float, int]:
    """Of building and auditing, and how many tests applied."""
    times, applied = [], 0
    for _ in range(ROUNDS):
        begun = time.process_time()
        report = audit(make())
        times.append(time.process_time() - begun)
        applied = sum(finding.off is not None for finding in report)
    return statistics.median(times), applied


def main() -> None:
    torch.set_num_threads(1)
    makers = {f"posenc, {name}": ours(name) for name in ("rope", "alibi", "sinusoidal", "t5")}
    try:
        import transformers
    except ImportError:
        print("transformers is not installed: its models are left out")
    else:
        makers |= {
            f"transformers {transformers.__version__}, {name}": theirs(name) for name in ("llama", "gpt2", "bamba")
        }
    print("seconds of one core for an audit of a model of two layers, and how many tests applied")
    for name, make in makers.items():
        make()  # imports
        took, applied = seconds(make)
        print(f"{name:32s} {took:6.2f} {applied:4d}")


if __name__ == "__main__":
    main()
