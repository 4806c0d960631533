"""posenc.transformer.storage: a saved model is the same model, or an error that says what to do."""

import json
import os
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from posenc import ENCODINGS, Learned, NoPE, RoPE
from posenc.transformer.model import Transformer
from tests.test_model import MODEL, SIZES, draw, make

every = pytest.mark.parametrize("name", ENCODINGS)


@every
@pytest.mark.parametrize("options", [{}, dict(tied=False, kv_heads=1, every_layer=True, shared=False, window=3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_loaded_model_is_the_model_that_was_saved(name, options, dtype, tmp_path):
    model, path, tokens = make(name, **options).to(dtype), tmp_path / "model.safetensors", draw()
    model.save(path)
    state = torch.random.get_rng_state()
    loaded = Transformer.load(path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(loaded) is Transformer
    assert loaded.config == model.config
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value) and loaded.state_dict()[key].dtype == dtype
    with torch.no_grad():  # both in the same way; BLAS may see other addresses
        torch.testing.assert_close(loaded(tokens), model(tokens))
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    assert loaded.training


def test_every_part_keeps_its_own_dtype(tmp_path):
    model = make("learned")
    model.norm.to(torch.float32)
    model.encodings.to(torch.bfloat16)
    model.save(tmp_path / "model")
    loaded = Transformer.load(str(tmp_path / "model"))
    assert loaded.embedding.weight.dtype == torch.float64
    assert loaded.norm.weight.dtype == torch.float32
    assert loaded.encoding().table.dtype == torch.bfloat16


def test_tied_and_shared_weights_are_written_once(tmp_path):
    model = Transformer(**SIZES, encoding="learned", every_layer=True)
    model.save(tmp_path / "model")
    assert load_file(tmp_path / "model").keys() == dict(model.named_parameters()).keys()
    loaded = Transformer.load(tmp_path / "model")
    assert loaded.output is None
    assert loaded.encoding(0) is loaded.encoding(1)


def test_an_encoding_of_your_own_is_given_again(tmp_path):
    class Mine(NoPE):
        def __init__(self, weight: float) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(weight))
            self.register_buffer("kept", torch.tensor([weight]))
            self.again = self.weight

        def query(self, q, pos):
            return q * self.weight * self.kept

    path, tokens = tmp_path / "model", draw()
    for options in (dict(encoding=Mine(2.0)), dict(encoding=lambda **sizes: Mine(2.0), shared=False)):
        model = Transformer(**{**SIZES, **options})
        model.save(path)
        with pytest.raises(ValueError, match=r"pass .* encoding=Mine\(\.\.\.\)"):
            Transformer.load(path)
        loaded = Transformer.load(path, encoding=Mine(1.0))
        assert torch.equal(loaded(tokens), model(tokens))
        assert loaded.encoding().again is loaded.encoding().weight
        assert loaded.encoding().kept == 2


def test_what_was_saved_may_be_changed_when_it_is_loaded(tmp_path):
    path, tokens = tmp_path / "model", draw()
    model = make("rope")
    model.save(path)
    rope = RoPE(MODEL // 2, base=100.0)
    loaded = Transformer.load(path, encoding=rope, backend="sdpa", window=3)
    assert loaded.encoding() is rope
    assert (loaded.config.backend, loaded.config.window, loaded.config.encoding) == ("sdpa", 3, None)
    expected = make(rope, window=3)
    expected.load_state_dict(model.state_dict())
    torch.testing.assert_close(loaded(tokens), expected(tokens), rtol=0, atol=1e-10)


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    path = tmp_path / "model"
    Transformer(**SIZES, encoding="rope").save(path)
    with pytest.raises(ValueError, match=r"encodings\.0\.table.*pass the encoding"):
        Transformer.load(path, encoding=Learned(MODEL, 5))
    with pytest.raises(ValueError, match=r"blocks\.0\.contract\.weight, blocks\.0\.expand\.weight"):
        Transformer.load(path, hidden=3)
    with pytest.raises(ValueError, match=r"blocks\.2\.attention_norm\.weight"):
        Transformer.load(path, layers=3)
    with pytest.raises(TypeError, match="layer"):
        Transformer.load(path, layer=3)


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "model"
    Transformer(**SIZES).save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:100], whole[:-1], b"\xff" * 64):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"safetensors.*again"):
            Transformer.load(path)
    for metadata in (None, {"format": "pt"}, {"posenc": "{"}, {"posenc": "[]"}, {"posenc": "{}"}, {"posenc": "3"}):
        save_file({"weight": torch.zeros(2)}, path, metadata)
        with pytest.raises(ValueError, match="use a file that"):
            Transformer.load(path)
    with pytest.raises(FileNotFoundError):
        Transformer.load(tmp_path / "none")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "folder" / "model"
    model = Transformer(**SIZES, encoding="rope")
    model.save(path)
    before = path.read_bytes()

    def interrupted(tensors, file, metadata):
        file.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("safetensors.torch.save_file", interrupted)
    with pytest.raises(OSError, match="no space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["model"]


def test_the_file_says_what_is_in_it(tmp_path):
    path = tmp_path / "model"
    Transformer(**SIZES, encoding="rope", window=7).save(path)
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    config = json.loads(header["__metadata__"]["posenc"])
    assert config["encoding"] == "rope" and config["window"] == 7 and config["class"] == "RoPE"


def test_a_saved_view_is_written_as_it_looks(tmp_path):
    model = Transformer(**SIZES, encoding="rope")
    weight = torch.randn(MODEL, MODEL)
    model.blocks[0].query.weight = torch.nn.Parameter(weight.T)
    model.save(tmp_path / "model")
    assert torch.equal(Transformer.load(tmp_path / "model").blocks[0].query.weight, weight.T)


# ---- what a file may say ---------------------------------------------------------------------------------------------

SMALL = dict(vocabulary=5, layers=2, model_dim=4, heads=2, hidden=6, length=3, encoding="learned")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small model's file, and what was in it: bytes, tensors, and the configuration."""
    path = tmp_path_factory.mktemp("small") / "model"
    Transformer(**SMALL).save(path)
    data = path.read_bytes()
    config = json.loads(json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]["posenc"])
    return path.with_name("other"), data, load_file(path), config


def said(written, **fields):
    """The same file with other fields in its configuration; `...` leaves one out."""
    path, _, tensors, config = written
    changed = {name: value for name, value in {**config, **fields}.items() if value is not ...}
    save_file(tensors, path, {"posenc": json.dumps(changed)})
    return path


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layers": 10**12}, r"blocks\.2\.attention_norm"),
        ({"layers": 1}, r"blocks\.1\."),
        ({"vocabulary": 10**12}, r"embedding\.weight"),
        ({"model_dim": 10**12}, r"embedding\.weight"),
        ({"hidden": 10**12}, r"blocks\.0\.contract\.weight, blocks\.0\.expand\.weight"),
        ({"length": 10**12}, r"encodings\.0\.table"),
        ({"heads": 10**12}, "model_dim"),
        ({"vocabulary": ...}, "vocabulary"),
        ({"vocabulary": "5"}, "vocabulary"),
        ({"vocabulary": True}, "vocabulary"),
        ({"layers": 2.0}, "layers"),
        ({"length": float("nan")}, "length"),
        ({"window": float("inf")}, "window"),
        ({"window": -1}, "window"),
        ({"scale": float("nan")}, "scale"),
        ({"dropout": 2}, "dropout"),
        ({"backend": "x"}, "backend"),
        ({"encoding": "x"}, "encoding"),
        ({"encoding": ["rope"]}, "encoding"),
        ({"causal": "no"}, "causal"),
        ({"colour": 3}, "colour"),
    ],
)
def test_what_no_model_can_be_is_refused_by_name(fields, words, written):
    with pytest.raises(ValueError, match=words):
        Transformer.load(said(written, **fields))


def test_a_configuration_that_is_nested_without_end_is_refused(written):
    path, _, tensors, _ = written
    save_file(tensors, path, {"posenc": '{"class": ' + "[" * 100_000 + "]" * 100_000 + "}"})
    with pytest.raises(ValueError, match="use a file that"):
        Transformer.load(path)


def test_older_files_lack_fields_that_have_defaults(written):
    loaded = Transformer.load(said(written, backend=..., sinks=..., window=..., scale=...))
    assert loaded.config.backend == "auto" and loaded.config.window is None


SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.integers() | st.floats() | st.text(max_size=6)
ANYTHING = st.recursive(
    SCALARS, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3)
)
FIELDS = st.sampled_from([*Transformer(**SMALL).config.__dataclass_fields__, "class", "other"])


@settings(max_examples=60)
@given(fields=st.dictionaries(FIELDS, ANYTHING | st.just(...), min_size=1, max_size=3))
def test_whatever_a_file_says_it_is_a_model_or_a_valueerror(fields, written):
    try:
        loaded = Transformer.load(said(written, **fields))
    except ValueError:
        return
    assert loaded(torch.tensor([[0, 1, 2]])).shape == (1, 3, 5)


@settings(max_examples=60)
@given(at=st.integers(0, 1500), bits=st.integers(1, 255), cut=st.integers(0, 40))
def test_whatever_bytes_are_wrong_it_is_a_model_or_a_valueerror(at, bits, cut, written):
    path, data, *_ = written
    damaged = bytearray(data)
    damaged[at % len(damaged)] ^= bits
    path.write_bytes(damaged[: len(damaged) - max(0, cut - 20)])
    try:
        Transformer.load(path)
    except ValueError:
        return
