"""posenc._attention.encoding: the doors, the protection of angles from casts, and the package's own names."""

import copy
import inspect
import re
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


def arguments(encoding: Encoding) -> dict[str, object]:
    """What `print` says that an encoding was made with."""
    inside = re.fullmatch(rf"{type(encoding).__name__}\((.*)\)", repr(encoding))[1]
    return eval(f"dict({inside})")


@pytest.mark.parametrize("name", posenc.ENCODINGS)
def test_a_printed_encoding_names_its_arguments_and_can_be_made_from_them(name):
    encoding = posenc.ENCODINGS[name](model_dim=64, heads=4, head_dim=16, length=512)
    found = arguments(encoding)
    assert list(found)[:1] == list(inspect.signature(type(encoding)).parameters)[:1] or name == "nope"
    assert found.keys() <= inspect.signature(type(encoding)).parameters.keys()
    assert all(getattr(encoding, argument) == value for argument, value in found.items())
    assert repr(type(encoding)(**found)) == repr(encoding)


def test_options_that_were_chosen_are_printed():
    assert repr(posenc.Shaw(64, 8, heads=2, values=False)) == "Shaw(head_dim=64, clip=8, heads=2, values=False)"
    assert arguments(posenc.TransformerXL(8, 2, 4, clamp=5, base=50.0)) == {
        "model_dim": 8, "heads": 2, "head_dim": 4, "clamp": 5, "base": 50.0,
    }  # fmt: skip
    assert arguments(posenc.T5Bias(2, 8, 20, bidirectional=True)) == {
        "heads": 2, "buckets": 8, "max_distance": 20, "bidirectional": True,
    }  # fmt: skip
    assert arguments(posenc.ALiBi(2, symmetric=True, learned=True)) == {"heads": 2, "symmetric": True, "learned": True}
    assert "slopes" in repr(posenc.ALiBi(2, slopes=torch.ones(2)))


@pytest.mark.parametrize("name", [name for name in posenc.ENCODINGS if name != "nope"])
def test_device_and_dtype_may_be_chosen_as_for_a_linear_layer(name):
    encoding = posenc.ENCODINGS[name](model_dim=64, heads=4, head_dim=16, length=512)

    def make(**options: object) -> Encoding:
        return type(encoding)(**arguments(encoding), **options)

    tensors = list(encoding.state_dict(keep_vars=True))
    for dtype in (torch.float64, torch.bfloat16):
        made = make(dtype=dtype)
        assert [p.dtype for p in made.parameters()] == [dtype] * len(tensors)
        assert all(b.dtype == torch.promote_types(b.dtype, torch.float32) for b in made.buffers())  # angles, slopes
    for made in (make(device="meta"), make(device=torch.device("meta"), dtype=torch.float64)):
        assert all(x.is_meta for x in (*made.parameters(), *made.buffers()))
    for ours, theirs in zip(make().parameters(), encoding.parameters(), strict=True):
        assert ours.dtype == theirs.dtype == torch.float32
    with torch.device("meta"):
        assert all(not x.is_meta for x in (*make(device="cpu").parameters(), *make(device="cpu").buffers()))


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
