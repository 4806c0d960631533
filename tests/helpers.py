"""What several test files share: small tensors, a comparison, a layer of attention, and a graph in ONNX Runtime."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc import Encoding, attention_weights

PAPERS = ("#ffffff", "#14181e")  # what pictures lie on, in light and in dark


def close(found: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    """Asserts that tensors agree in shape and dtype, and in every entry to within `atol`, however large it is."""
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def heads(length: int, count: int = 2, dim: int = 4, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random queries or keys of one sequence, (1, count, length, dim)."""
    return torch.randn(1, count, length, dim, dtype=dtype)


def biases(
    encoding: Encoding, qpos: Tensor, kpos: Tensor, count: int = 2, dtype: torch.dtype = torch.float64
) -> Tensor:
    """What `score_bias` adds to the score of every query and key, (B, H, Lq, Lk), if contents are zero."""
    batch = max(len(qpos) if qpos.ndim == 2 else 1, len(kpos) if kpos.ndim == 2 else 1)
    q, k = (torch.zeros(batch, count, pos.shape[-1], 4, dtype=dtype) for pos in (qpos, kpos))
    f = encoding.score_bias(q, k, qpos.expand(batch, -1), kpos.expand(batch, -1))
    b, h, i, j = (torch.arange(n) for n in (batch, count, qpos.shape[-1], kpos.shape[-1]))
    return f(b[:, None, None, None], h[:, None, None], i[:, None], j)


class Layer(torch.nn.Module):
    """The weights of one layer of attention, from queries and keys (B, H, L, d) that are already there."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, q: Tensor, k: Tensor, pos: Tensor | None = None, **options: Any) -> Tensor:
        pos = torch.arange(q.shape[2], device=q.device) if pos is None else pos
        return attention_weights(
            self.encoding.query(q, pos), self.encoding.key(k, pos), self.encoding, pos, pos, **options
        )


def onnx_session(module: torch.nn.Module, **example: int | Tensor) -> Callable[..., np.ndarray]:
    """A module as a graph in ONNX Runtime, called with the same keywords; whole numbers may then be any others."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from posenc._explore.export import exporting

    dynamic = tuple(torch.export.Dim.DYNAMIC if isinstance(value, int) else None for value in example.values())
    with exporting():
        program = torch.onnx.export(
            module.eval(),
            tuple(example.values()),
            dynamic_shapes=dynamic,
            input_names=list(example),
            dynamo=True,
            verbose=False,
        )
    graph = io.BytesIO()
    program.save(graph)
    session = runtime.InferenceSession(graph.getvalue(), providers=["CPUExecutionProvider"])
    kinds = {name: np.int64 if isinstance(value, int) else np.float32 for name, value in example.items()}

    def call(**values: float) -> np.ndarray:
        return session.run(None, {name: np.array(value, kinds[name]) for name, value in values.items()})[0]

    return call


class Sizes(TorchDispatchMode):
    """Records for each operation how many numbers its largest result has."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        self.of[name] = max([self.of.get(name, 0), *(x.numel() for x in tree_leaves(out) if isinstance(x, Tensor))])
        return out

    @property
    def largest(self) -> int:
        return max(self.of.values())


def luminance(colour: str) -> float:
    """The relative luminance of WCAG, 0 for black and 1 for white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(a: str, b: str) -> float:
    """The contrast of two colours by WCAG, from 1 to 21."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)
