"""How long attention alone takes, for each scheme in each kernel: a whole pass, a training step, a step of decoding.

`cost` times whole models; here nothing but attention is timed, at the sizes of large models, and in bfloat16 on a GPU.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from tqdm import tqdm

from posenc._attention import kernels as module
from posenc._attention.cache import KVCache
from posenc._attention.call import attention
from posenc._attention.encoding import Encoding
from posenc._attention.kernels import BACKENDS, Backend
from posenc._attention.plan import Plan
from posenc._attention.spans import Span
from posenc.lab.results import Result, provenance, put
from posenc.pictures.table import Table
from posenc.schemes.registry import ENCODINGS

SCHEMES = ("nope", "rope", "alibi", "t5", "distance_aware")
LENGTHS, DIMS = (2048, 8192, 32_768), (64, 128)
WIDTH = 2048  # of all heads together
TOKENS = 16_384  # of all sequences of a whole pass, or one sequence if it is longer
BATCHES = (1, 32)  # texts in a step of decoding
SECONDS = 0.2  # for each timing, at least


def kernels(
    *,
    device: str = "cuda",
    lengths: tuple[int, ...] = LENGTHS,
    dims: tuple[int, ...] = DIMS,
    width: int = WIDTH,
    tokens: int = TOKENS,
    batches: tuple[int, ...] = BATCHES,
    seconds: float = SECONDS,
    progress: bool = True,
) -> Result:
    """Times attention with each scheme in each kernel, turning and biases included.

    Args:
        device: Where it runs. Default: "cuda".
        lengths: Tokens of a sequence. Default: 2048, 8192 and 32,768.
        dims: Dimensions of a head. Default: 64 and 128.
        width: Dimensions of all heads together, from which the number of heads follows. Default: 2048.
        tokens: Tokens of all sequences in a pass. Default: 16,384.
        batches: Texts in a step of decoding, which adds a token to a cache of `length`. Default: 1 and 32.
        seconds: How long each timing takes at least. Default: 0.2.
        progress: Show a progress bar. Default: True.

    Returns:
        A dict with `provenance`, `rows`, and `growing`, what that function found. A row has `scheme`, `kernel`, `d`,
        `length` and milliseconds: `forward`, `training` (forward and backward), and `decoding` for each number of
        texts. What a kernel cannot serve, or what does not fit into the memory, is None, with the reason in `why`.

    Example:
        >>> found = kernels(device="cpu", lengths=(16,), dims=(8,), width=16, tokens=32, seconds=0.001, progress=False)
        >>> [row["kernel"] for row in found["rows"][:3]], found["rows"][0]["forward"] > 0
        (['dense', 'sdpa', 'flex'], True)
    """
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    asked = list(product(dims, lengths, SCHEMES, BACKENDS))
    rows = []
    for d, length, scheme, kernel in tqdm(asked, desc="kernels", disable=None if progress else True):
        heads, count = width // d, max(1, tokens // length)
        encoding = ENCODINGS[scheme](model_dim=width, heads=heads, head_dim=d, length=length).to(device)
        row: dict[str, Any] = {"scheme": scheme, "kernel": kernel, "d": d, "length": length, "batch": count}
        shape = (3, count, heads, length, d)
        attend = _attend(encoding, kernel, length)
        learned = [parameter for parameter in encoding.parameters() if parameter.requires_grad]
        calls: dict[str, Callable[[], Callable[[], Any]]] = {
            "forward": partial(_forward, attend, shape, device, dtype),
            "training": partial(_training, attend, learned, shape, device, dtype),
        }
        for texts in batches:
            sizes = (3, texts, heads, length, d)
            calls[f"decoding_{texts}"] = partial(_step, encoding, kernel, sizes, device, dtype)
        rows.append(row | _timed(calls, seconds, device))
    steps = growing(device=device, lengths=lengths[:2], dim=dims[-1], width=width, batches=batches, progress=progress)
    about = {"provenance": provenance(None, device), "dtype": str(dtype).removeprefix("torch.")}
    return about | {"growing": steps, "rows": rows}


def growing(
    *,
    device: str = "cuda",
    lengths: tuple[int, ...] = LENGTHS[:2],
    dim: int = DIMS[-1],
    width: int = WIDTH,
    batches: tuple[int, ...] = BATCHES,
    steps: int = 20,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """Times steps of decoding one by one: the cache grows, so each of them has a new length.

    Args:
        device: Where it runs. Default: "cuda".
        lengths: Tokens in the cache at first. Default: 2048 and 8192.
        dim: Dimensions of a head. Default: 128.
        width: Dimensions of all heads together. Default: 2048.
        batches: Texts in a step. Default: 1 and 32.
        steps: Steps in a row. Default: 20.
        progress: Show a progress bar. Default: True.

    Returns:
        A row for each of NoPE and ALiBi, number of texts, and length: milliseconds of the fastest step, the median and
        the slowest, in `dense`, in `sdpa` if torch chooses the kernel, and in `without_cudnn`, as `attention` calls it.

    Example:
        >>> row, _ = growing(device="cpu", lengths=(16,), dim=8, width=16, batches=(1,), steps=3, progress=False)
        >>> row["scheme"], row["texts"], row["length"], len(row["sdpa"])
        ('nope', 1, 16, 3)
    """
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    heads, rows = width // dim, []
    asked = list(product(("nope", "alibi"), batches, lengths))
    for scheme, texts, length in tqdm(asked, desc="growing", disable=None if progress else True):
        encoding = ENCODINGS[scheme](model_dim=width, heads=heads, head_dim=dim, length=length).to(device)
        row: dict[str, Any] = {"scheme": scheme, "texts": texts, "length": length}
        kernels: dict[str, Backend] = {"dense": "dense", "sdpa": "sdpa", "without_cudnn": "sdpa"}
        for name, kernel in kernels.items():
            try:
                call = _step(encoding, kernel, (3, texts, heads, length, dim), device, dtype)
                with _torch_chooses() if name == "sdpa" else nullcontext():
                    times = sorted(_seconds(call, device) for _ in range(steps))
                row[name] = [1e3 * times[0], 1e3 * median(times), 1e3 * times[-1]]
            except torch.OutOfMemoryError:
                row[name] = None
        rows.append(row)
    return rows


@contextmanager
def _torch_chooses() -> Iterator[None]:
    """Lets torch choose among all kernels also in decoding, where `attention` leaves out cuDNN."""
    kept = module._kernels
    module._kernels = lambda q, k: nullcontext()
    try:
        yield
    finally:
        module._kernels = kept


def _seconds(call: Callable[[], Any], device: str) -> float:
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def _timed(calls: dict[str, Callable[[], Callable[[], Any]]], seconds: float, device: str) -> dict[str, Any]:
    """Milliseconds of each call that can be made, and the reason of the first that cannot."""
    times: dict[str, Any] = {}
    for name, prepare in calls.items():
        try:
            call = prepare()
            # Another number of threads than now would make torch compile anew.
            timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
            times[name] = 1e3 * median(timer.blocked_autorange(min_run_time=seconds).times)
        except torch.OutOfMemoryError:
            times[name] = None
            times.setdefault("why", "the device has too little memory")
        except (ValueError, RuntimeError) as error:
            times[name] = None
            times.setdefault("why", str(error).split(";")[0].split(". ")[0].splitlines()[0])
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    return times


def _attend(encoding: Encoding, kernel: Backend, length: int) -> Callable[..., Any]:
    plan = Plan(Span(0, length))
    return lambda q, k, v: attention(q, k, v, encoding, plan, backend=kernel, embedded=True)


def _forward(attend: Callable[..., Any], shape: tuple[int, ...], device: str, dtype: torch.dtype) -> Callable[[], Any]:
    q, k, v = torch.randn(shape, device=device, dtype=dtype)

    def call() -> Any:
        with torch.no_grad():
            return attend(q, k, v)

    call()
    return call


def _training(
    attend: Callable[..., Any], learned: Sequence[Tensor], shape: tuple[int, ...], device: str, dtype: torch.dtype
) -> Callable[[], Any]:
    """Forward and backward, with the gradients of what the encoding has learned."""
    q, k, v = (x.requires_grad_() for x in torch.randn(shape, device=device, dtype=dtype).unbind())

    def call() -> Any:
        return torch.autograd.grad(attend(q, k, v).sum(), (q, k, v, *learned))

    call()
    return call


def _step(
    encoding: Encoding, kernel: Backend, shape: tuple[int, ...], device: str, dtype: torch.dtype
) -> Callable[[], Any]:
    """A step that decodes one token; each call adds another to the cache."""
    cache, length = KVCache(), shape[-2]
    prompt = torch.randn((*shape[:-2], length - 1, shape[-1]), device=device, dtype=dtype)
    q, k, v = torch.randn((*shape[:-2], 1, shape[-1]), device=device, dtype=dtype)
    with torch.no_grad():
        cache.extend(prompt[1], prompt[2], Span(0, length - 1), encoding)
    del prompt

    def call() -> Any:
        with torch.no_grad():
            here = Span(cache.seen, 1)
            return attention(q, k, v, encoding, here, backend=kernel, cache=cache, embedded=True)

    call()
    return call


def keep_kernels(result: Result, device: str, folder: str | os.PathLike[str]) -> Path:
    """Writes what `kernels` found to `kernels.json` in the folder of preset "gpu" or "cpu", and returns the file."""
    return put(Path(folder) / ("gpu" if device.startswith("cuda") else "cpu") / "kernels.json", result)


def read_kernels(preset: str, folder: str | os.PathLike[str]) -> Result:
    """Reads what `keep_kernels` wrote. Raises ValueError if there is none."""
    path = Path(folder) / preset / "kernels.json"
    if not path.exists():
        raise ValueError("kernels were not timed: run python -m posenc.lab kernels, on a machine with a GPU")
    result: Result = json.loads(path.read_text())
    return result


def timed(result: Result) -> Table:
    """Milliseconds of attention by scheme, kernel, dimensions and length; a dash where a kernel cannot serve it."""
    columns = [name for name in result["rows"][0] if name in ("forward", "training") or name.startswith("decoding")]
    rows = [
        [f"{row['scheme']}, {row['kernel']}", row["d"], row["length"], *(row[name] for name in columns)]
        for row in result["rows"]
    ]
    form = {"": "", "d": "d", "length": "d", **{name.replace("_", ", texts: "): ".3g" for name in columns}}
    return Table(form, rows, caption=f"Milliseconds of attention alone on {result['provenance']['device']}")
