"""posenc.encoding: the doors, the protection of angles from casts, and the package's own names."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Encoding, NoPE, RoPE, Sinusoidal


class Everything(Encoding):
    """Opens every door."""

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + 1

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return q * 2

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return k * 3

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: 0

    def rescale(self, qpos, kpos):
        return lambda s, b, h, i, j: s

    def mix(self, weights, v, qpos, kpos):
        return weights @ v


class Table(Encoding):
    """A buffer that must stay exact beside one that need not, and a parameter."""

    exact = ("slope",)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("slope", torch.tensor([1 / 3, 1 / 7]))
        self.register_buffer("plain", torch.tensor([1 / 3]))
        self.weight = torch.nn.Parameter(torch.tensor([1 / 3]))


def test_nope_opens_no_door():
    nope = NoPE()
    assert NoPE is Encoding
    assert nope.doors == ()
    assert nope.score_bias is nope.rescale is nope.mix is None
    x, pos = torch.randn(1, 2, 3, 4), torch.arange(3)
    assert nope.embed(x, pos) is nope.query(x, pos) is nope.key(x, pos) is x
    assert list(nope.parameters()) == list(nope.buffers()) == []


def test_doors_are_read_from_the_object():
    assert Sinusoidal(8).doors == ("embed",)
    assert RoPE(8).doors == ("query", "key")
    assert Everything().doors == ("embed", "query", "key", "score_bias", "rescale", "mix")
    nope = NoPE()
    nope.score_bias = lambda q, k, qpos, kpos: lambda b, h, i, j: 0
    assert nope.doors == ("score_bias",)
    assert NoPE().doors == ()


@pytest.mark.parametrize("cast", ["bfloat16", "half", "double"])
def test_casts_spare_exact_buffers_only(cast):
    table = Table()
    before = table.slope.clone()
    getattr(torch.nn.Sequential(table), cast)()
    assert table.slope.dtype == torch.float32
    assert torch.equal(table.slope, before)
    assert table.plain.dtype == table.weight.dtype != torch.float32


def test_there_and_back_through_half_precision_loses_nothing():
    table = Table()
    before = table.slope.clone()
    table.to(torch.bfloat16).to(torch.float32)
    assert torch.equal(table.slope, before)
    assert not torch.equal(table.plain, torch.tensor([1 / 3]))


def test_exact_buffers_move_with_the_module(device):
    table = Table().to(device, torch.bfloat16)
    assert table.slope.device == table.plain.device == table.weight.device
    assert table.slope.device.type == device
    assert table.to("meta").slope.is_meta
    assert table.slope.dtype == torch.float32


def test_a_copied_or_saved_encoding_is_the_same():
    for encoding in (copy.deepcopy(RoPE(8, 500.0)), copy.deepcopy(RoPE(8, 500.0).to(torch.bfloat16))):
        assert torch.equal(encoding.freq, posenc.frequencies(8, 500.0))
    fresh = Table()
    fresh.load_state_dict(Table().state_dict())
    assert torch.equal(fresh.slope, torch.tensor([1 / 3, 1 / 7]))


def test_every_factory_takes_the_same_keywords():
    for name, factory in posenc.ENCODINGS.items():
        encoding = factory(model_dim=64, heads=4, head_dim=16, length=512)
        assert isinstance(encoding, Encoding), name
        assert set(encoding.doors) <= set(Everything().doors)


def test_every_public_name_is_there():
    for name in posenc.__all__:
        assert hasattr(posenc, name), name
        assert name in dir(posenc)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        posenc.nothing  # noqa: B018


def in_a_fresh_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_light_and_explore_comes_later():
    heavy = "{'matplotlib', 'anywidget', 'ipywidgets', 'onnx', 'onnxscript', 'onnxruntime', 'pygments', 'IPython'}"
    code = f"import posenc, sys; print({heavy} & set(sys.modules)); from posenc import explore; print(explore.__name__)"
    assert in_a_fresh_process(code).split() == ["set()", "explore"]


def test_explore_is_the_function_also_after_its_package_was_imported():
    code = (
        "import posenc._explore, posenc._properties; import posenc; from posenc import explore; print(explore.__name__)"
    )
    assert in_a_fresh_process(f"{code}; print(explore is posenc.explore)").split() == ["explore", "True"]
