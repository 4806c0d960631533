"""What a slider of the book runs: functions exported to ONNX once, for any length, dimension and base."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc import NoPE, RoPE, attention_weights, frequencies, rotate, sinusoidal
from tests.helpers import close, onnx_session

LAYOUTS = ["interleaved", "half"]
VALUES = [(2, 2, 7.0), (3, 6, 100.0), (64, 32, 5e5), (300, 64, 1e4)]  # length, dim, base


class Function(torch.nn.Module):
    """Dynamic shapes have to match the parameters of `forward`, and so it names them."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, length: int, dim: int, base: Tensor) -> Tensor:
        return self.function(length, dim, base)


def vectors(length: int, dim: int) -> Tensor:
    return torch.sin(torch.arange(length * dim, dtype=torch.float32)).reshape(length, dim)


def encode(layout: str) -> Callable[..., Tensor]:
    return lambda length, dim, base: sinusoidal(torch.arange(length), dim, base, layout=layout)


def turn(layout: str) -> Callable[..., Tensor]:
    return lambda length, dim, base: rotate(
        vectors(length, dim), torch.arange(length), frequencies(dim, base), layout=layout
    )


def weigh(length: int, dim: int, base: Tensor) -> Tensor:
    pos = torch.arange(length)
    x = rotate(vectors(length, dim)[None, None], pos, frequencies(dim, base))
    return attention_weights(x, x, NoPE(), pos, pos)[0, 0]


FUNCTIONS = {
    "sinusoidal, interleaved": encode("interleaved"),
    "sinusoidal, half": encode("half"),
    "rotate, interleaved": turn("interleaved"),
    "rotate, half": turn("half"),
    "attention_weights": weigh,
}


@pytest.mark.filterwarnings("ignore")  # torch's exporter warns of its own deprecations
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_onnx_graph_computes_what_torch_does(name):
    function = FUNCTIONS[name]
    graph = onnx_session(Function(function), length=12, dim=8, base=torch.tensor(1e4))
    for length, dim, base in VALUES:
        expected = function(length, dim, torch.tensor(base)).numpy()
        found = graph(length=length, dim=dim, base=base)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6, err_msg=f"{length=} {dim=} {base=}")


def test_a_module_exports_with_its_frequencies():
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rope = RoPE(8)

        def forward(self, x: Tensor, pos: Tensor) -> Tensor:
            return self.rope.query(x, pos)

    layer, x, pos = Layer(), torch.randn(1, 2, 5, 8), torch.arange(5)
    program = torch.export.export(layer, (x, pos))
    close(program.module()(x, pos + 9), layer(x, pos + 9), atol=1e-6)
