"""Image models on a grid, and language models behind an image: mistakes are found with their causes, others pass."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample, scaled_dot_product_attention

from posenc import Transformer
from posenc.audit import Report, audit
from posenc.audit.__main__ import main
from posenc.audit.images.behind import judged
from posenc.schemes.grid import mrope_positions

RATES = 3.0 ** -torch.arange(2.0, dtype=torch.float64)


class Vision(nn.Module):
    """One layer over patches of one pixel: (B, 3, H, W) to features (B, H·W, 20)."""

    def __init__(self) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.patch, self.mix, self.out = nn.Linear(3, 48), nn.Linear(48, 144), nn.Linear(48, 20)
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=g) / 7

    def places(self, h: int, w: int) -> Tensor:
        p = torch.arange(h * w)
        return torch.stack((p // w, p % w))

    def added(self, x: Tensor, h: int, w: int) -> Tensor:
        return x

    def turned(self, q: Tensor, k: Tensor, h: int, w: int) -> tuple[Tensor, Tensor]:
        return q, k

    def bias(self, h: int, w: int) -> Tensor | None:
        return None

    def forward(self, pixels: Tensor) -> Tensor:
        h, w = pixels.shape[-2:]
        x = self.added(self.patch(pixels.flatten(2).mT), h, w)
        q, k, v = self.mix(x).unflatten(-1, (6, 24)).transpose(1, 2).chunk(3, -1)
        y = scaled_dot_product_attention(*self.turned(q, k, h, w), v, self.bias(h, w))
        return self.out(x + y.transpose(1, 2).flatten(2))


class Resampled(Vision):
    """torchtitan#4244: a table is resampled to the image; the sampler wants (x, y) and gets (y, x) of another mesh."""

    def __init__(self, right: bool = True) -> None:
        super().__init__()
        self.right, self.table = right, nn.Parameter(torch.randn(48, 6, 6, generator=torch.Generator().manual_seed(1)))

    def added(self, x: Tensor, h: int, w: int) -> Tensor:
        ys, xs = (torch.linspace(-1, 1, n).to(self.table) for n in (h, w))
        y, x_ = torch.meshgrid(ys, xs, indexing="ij" if self.right else "xy")
        at = torch.stack((x_, y) if self.right else (y, x_), -1)
        return x + grid_sample(self.table[None], at[None], align_corners=True)[0].flatten(1).T


class Turning(Vision):
    """Two pairs of each head are rotated by rows and two by columns; `how` says what is wrong."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.how = how

    def at(self, h: int, w: int) -> Tensor:
        p = torch.arange(h * w)
        if self.how == "mesh":  # height and width exchanged: right in a square
            return torch.stack((p // h, p % h))
        if self.how == "blocks":  # patches come in blocks of 2 by 2, and places are read row by row
            p = p.reshape(h // 2, 2, w // 2, 2).transpose(1, 2).flatten().argsort()
        r, c = p // w, p % w
        return torch.stack({"exchanged": (c, r), "columns alone": (0 * r, c)}.get(self.how, (r, c)))

    def turned(self, q: Tensor, k: Tensor, h: int, w: int) -> tuple[Tensor, Tensor]:
        angle = (self.at(h, w)[..., None] * RATES).permute(1, 0, 2).flatten(1)  # (h·w, 4)
        angle = angle.to(torch.bfloat16).double() if self.how == "rounded" else angle
        c, s = angle.cos().to(q), angle.sin().to(q)

        def turn(x: Tensor, sign: int = 1) -> Tensor:
            a, b = x.chunk(2, -1)
            return torch.cat((a * c - sign * b * s, b * c + sign * a * s), -1)

        return turn(q), turn(k, -1 if self.how == "mirrored keys" else 1)


class Biased(Vision):
    """A bias of the distance in rows and columns."""

    def bias(self, h: int, w: int) -> Tensor:
        r, c = self.places(h, w).double()
        far = (r[:, None] - r).abs() + 0.3 * (c[:, None] - c).abs()
        return -far[None].to(self.out.weight) * torch.linspace(0.1, 1, 6)[:, None, None].to(self.out.weight)


def asked(model: Any, grid: tuple[int, ...] = (4, 6), **options: Any) -> Report:
    return audit(model, grid=grid, **options)


@pytest.mark.parametrize("model", [Resampled(), Turning(), Biased()], ids=["table", "rotation", "bias"])
@pytest.mark.parametrize("grid", [(4, 6), (6, 6), (6, 3)])
def test_nothing_fails_of_a_model_that_is_right(model: Vision, grid: tuple[int, int]) -> None:
    before = [p.clone() for p in model.parameters()]
    report = asked(model, grid)
    assert not report.failures, str(report.failures)
    assert report["image.oblong"].verdict == "pass"
    relative = not isinstance(model, Resampled)
    assert {report[f"image.{axis}"].verdict.value for axis in ("rows", "columns")} == {
        "pass" if relative else "property"
    }
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_table_resampled_with_its_axes_exchanged_is_found_alone_and_beside_a_reference() -> None:
    report = asked(Resampled(right=False))
    assert [f.name for f in report.failures] == ["image.oblong"]
    assert "of an image of 6 rows and 4 columns" in report["image.oblong"].cause
    assert "the order of x and y" in report["image.oblong"].look
    beside = asked(Resampled(right=False), reference=Resampled(), only=["image.reference"])["image.reference"]
    assert "of an image of 6 rows and 4 columns" in beside.cause and "in a square one they agree" in beside.cause
    assert asked(Resampled(), reference=Resampled()).passed


@pytest.mark.parametrize(("how", "row", "said"), [
    ("mesh", "image.oblong", "of an image of 6 rows and 4 columns"),
    ("blocks", "image.rows", "in blocks of 2 by 2"),
    ("columns alone", "image.rows", "rows of patches count nowhere"),
    ("mirrored keys", "image.columns", "positions enter the scores alone"),
])  # fmt: skip
def test_a_rotation_along_wrong_axes_is_named(how: str, row: str, said: str) -> None:
    found = asked(Turning(how))[row]
    assert found.verdict == "fails" and said in found.cause, str(found)


def test_axes_exchanged_everywhere_show_beside_a_reference_alone() -> None:
    assert asked(Turning("exchanged")).passed
    found = asked(Turning("exchanged"), reference=Turning())["image.reference"]
    assert "transposed image, rows and columns exchanged" in found.cause and found.verdict == "fails"


def test_sixteen_bits_are_told_from_wrong_axes() -> None:
    found = asked(Turning("rounded"), (6, 6))["image.rows"]
    assert "rounded" in found.cause and found.verdict == "fails"


def test_a_model_without_positions_says_so() -> None:
    report = asked(Vision())
    assert report["image.rows"].verdict == "property" and "No position enters" in report["image.rows"].cause


class Strided(Turning):
    """Patches of 2 by 2 pixels, and a class token before them."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.token = nn.Conv2d(1, 48, 2, 2), nn.Parameter(torch.ones(1, 1, 48))

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.cut(pixel_values)
        h, w = x.shape[-2:]
        x = torch.cat((self.token, x.flatten(2).mT), 1)
        q, k, v = self.mix(x).unflatten(-1, (6, 24)).transpose(1, 2).chunk(3, -1)
        pairs = [self.turned(each[:, :, 1:], each[:, :, 1:], h, w)[0] for each in (q, k)]
        q, k = (torch.cat((each[:, :, :1], y), 2) for each, y in zip((q, k), pairs, strict=True))
        return self.out((torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).flatten(2))


def test_sizes_of_patches_and_rows_beside_them_are_found() -> None:
    report = asked(Strided())
    assert report.passed and "patches of 2 by 2" in report.facts["grid"]


def test_an_image_is_asked_for_and_bad_grids_are_told() -> None:
    with pytest.raises(ValueError, match=r"takes images \(`pixel_values`\).*grid=\(4, 6\)"):
        audit(Strided())
    with pytest.raises(ValueError, match=r"grid=\(rows, columns\)\) if it takes images"):
        audit(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="rows and columns of patches"):
        asked(Turning(), (4,))
    with pytest.raises(ValueError, match="cannot be called with an image of 6 by 6"):
        asked(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="attention with a row for each"):
        asked(lambda pixels: pixels.mean((2, 3)))
    with pytest.raises(ValueError, match=r"no test 'image\.row' of images"):
        asked(Turning(), only="image.row")


def test_a_size_that_the_model_refuses_does_not_apply() -> None:
    class Fixed(Turning):
        def forward(self, pixels: Tensor) -> Tensor:
            if pixels.shape[-1] != pixels.shape[-2]:
                raise ValueError("square images only")
            return super().forward(pixels)

    found = asked(Fixed(), (6, 6))["image.oblong"]
    assert found.verdict == "does not apply" and "square images only" in found.cause


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test_audit_images:Turning", "--grid", "4x6", "--quiet"]) == 0
    assert "image.oblong" in capsys.readouterr().out
    assert main(["test_audit_images:Turning", "--grid", "four", "--quiet"]) == 2


# ---- behind an image -------------------------------------------------------------------------------------------------


def coordinates(*spans: Any) -> Tensor:
    return mrope_positions(spans).T


@pytest.mark.parametrize(("found", "said"), [
    (coordinates(3, (1, 2, 3), 4), ""),
    (coordinates(3, (1, 2, 3), 4)[[0, 2, 1]], "exchanged"),
    (torch.cat((coordinates(3, (1, 2, 3)), torch.arange(4, 8).expand(3, -1)), 1), "inside the image"),
    (torch.cat((coordinates(3, (1, 2, 3)), torch.arange(9, 13).expand(3, -1)), 1), "each token"),
    (torch.cat((coordinates(3, (1, 2, 3)), torch.arange(7, 11).expand(3, -1)), 1), "a gap"),
    (torch.cat((torch.arange(3).expand(3, -1), 2 * coordinates((1, 2, 3)) + 3, torch.arange(9, 13).expand(3, -1)), 1),
     "counted in patches"),
])  # fmt: skip
def test_places_behind_an_image_are_judged(found: Tensor, said: str) -> None:
    size = (1, 2, 3)
    verdict, cause, _ = judged(found, 3, size, 2)
    assert said in cause and verdict.value == ("pass" if not said else "property" if "gap" in said else "fails"), cause


def test_text_that_goes_on_inside_a_video_is_named_with_the_axis() -> None:
    inside = torch.cat((coordinates(2, (6, 1, 2)), torch.arange(4, 8).expand(3, -1)), 1)
    assert "inside the video: the video's largest coordinate is 7 (time)" in judged(inside, 2, (6, 1, 2), 1, "video")[1]


@pytest.fixture(scope="module")
def qwen() -> Any:
    transformers = pytest.importorskip("transformers")
    text = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "pad_token_id": 0,
            "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}}  # fmt: skip
    vision = {"depth": 1, "num_heads": 2, "patch_size": 2, "embed_dim": 32, "hidden_size": 32}
    tokens = {"image_token_id": 96, "video_token_id": 97, "vision_start_token_id": 94, "vision_end_token_id": 95}
    config = transformers.Qwen2VLConfig(text_config=text, vision_config=vision, **tokens)
    with torch.random.fork_rng(devices=[]):
        return transformers.Qwen2VLForConditionalGeneration(config).eval()


@pytest.mark.models
def test_texts_are_asked_behind_an_image(qwen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["image.places", "future", "left_pad", "step"]
    report = audit(qwen, grid=(4, 6), only=names)
    assert [f.name for f in report] == names and report.passed, str(report.failures)
    assert "behind an image of 4 by 6" in report.notes[0]
    assert any("without an image" in note for note in audit(qwen, only=["again"]).notes)
    right = type(qwen.model).get_rope_index

    def late(self: Any, *given: Any, **named: Any) -> Any:  # as if patches were not merged
        places, delta = right(self, *given, **named)
        return torch.where(torch.arange(places.shape[-1]) > 9, places + 3, places), delta

    monkeypatch.setattr(type(qwen.model), "get_rope_index", late)
    found = audit(qwen, grid=(4, 6), only=["image.places"])["image.places"]
    assert found.verdict == "fails" and "as if each token of the image had a number" in found.cause, str(found)


@pytest.mark.models
def test_the_vision_tower_is_asked_by_its_grid(qwen: Any) -> None:
    report = audit(qwen.model.visual, grid=(4, 6))
    assert report.passed and report["image.rows"].verdict == "pass"
    with pytest.raises(ValueError, match="multiples of 2"):
        audit(qwen, grid=(3, 6))


@pytest.mark.models
def test_patches_of_unknown_size_are_no_guess(qwen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen.config.vision_config, "patch_size", [2, 4])
    with pytest.raises(ValueError, match=r"patch_size is \[2, 4\]"):
        audit(qwen, grid=(4, 6))


@pytest.mark.models
def test_a_model_of_texts_alone_has_no_place_for_an_image() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    with pytest.raises(ValueError, match="takes no image_grid_thw"):
        audit(transformers.LlamaForCausalLM(config), grid=(4, 6))


# ---- behind an image, with positions that are told -------------------------------------------------------------------


class Told(nn.Module):
    """One layer with M-RoPE whose positions (3, B, L) are an argument; a subclass plants a mistake."""

    vocabulary, width, heads, sections = 40, 32, 2, (2, 3, 3)
    image_token = 39

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(self.vocabulary, self.width)
        self.inward = nn.Linear(self.width, 3 * self.width, bias=False)
        self.outward = nn.Linear(self.width, self.vocabulary)

    def axis(self, _: str) -> list[int]:
        """Which axis turns each plane, of "q" or of "k"."""
        return [axis for axis, planes in enumerate(self.sections) for _ in range(planes)]

    def turned(self, x: Tensor, positions: Tensor, of: str) -> Tensor:
        angle = positions[self.axis(of)].permute(1, 2, 0)[:, None] * 100.0 ** (-torch.arange(8) / 8.0)
        c, s = angle.cos(), angle.sin()
        a, b = x.chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    def forward(
        self, tokens: Tensor, positions: Tensor, attention_mask: Tensor | None = None, cache: Any = None
    ) -> Any:
        b, n = tokens.shape
        parts = self.inward(self.table(tokens)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = self.turned(parts[0], positions, "q"), self.turned(parts[1], positions, "k"), parts[2]
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        seen = torch.ones(n, k.shape[2], dtype=torch.bool).tril(k.shape[2] - n)[None, None]
        if attention_mask is not None:
            seen = seen & attention_mask.bool()[:, None, None] | torch.eye(k.shape[2], dtype=torch.bool)[-n:]
        scores = (q @ k.mT / 4).masked_fill(~seen, -torch.inf)
        return self.outward((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)

    def coordinates(self, tokens: Tensor, grid: Tensor) -> Tensor:
        at = int((tokens[0] == self.image_token).nonzero()[0])
        size = tuple(int(each) for each in grid)
        return self.counted([at, size, tokens.shape[1] - at - math.prod(size)])[:, None]

    def counted(self, spans: list[Any]) -> Tensor:
        return mrope_positions(spans).T


class NoColumns(Told):
    def axis(self, _: str) -> list[int]:
        return [min(axis, 1) for axis in super().axis(_)]


class KeysOtherwise(Told):
    def axis(self, of: str) -> list[int]:
        return [[0, 2, 1][axis] if of == "k" else axis for axis in super().axis(of)]


class Exchanged(Told):
    def axis(self, _: str) -> list[int]:
        return [[0, 2, 1][axis] for axis in super().axis(_)]


class Transposed(Told):
    def counted(self, spans: list[Any]) -> Tensor:
        return super().counted(spans)[[0, 2, 1]]


class Inside(Told):
    def counted(self, spans: list[Any]) -> Tensor:
        at = super().counted(spans)
        first = len(at[0]) - spans[2]
        at[:, first:] = torch.arange(spans[0] + 1, spans[0] + 1 + spans[2])
        return at


class Another(Told):
    """One token more than the text has in a cached step: the past is counted by rows, and not by coordinates."""

    def forward(
        self, tokens: Tensor, positions: Tensor, attention_mask: Tensor | None = None, cache: Any = None
    ) -> Any:
        return super().forward(tokens, positions if cache is None else positions + 1, attention_mask, cache)


def told(kind: type[Told], **options: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        return audit(kind(), grid=(3, 4), **options)


def test_a_module_that_is_told_positions_is_asked_behind_an_image() -> None:
    report = told(Told)
    assert report.passed, str(report.failures)
    assert {report[name].verdict for name in ("image.places", "image.axes", "future", "left_pad", "step")} == {"pass"}
    assert "behind an image of 3 by 4 tokens" in report.notes[0]
    assert audit(Told(), grid=(2, 3, 4), only="image.places")["image.places"].verdict == "pass"


@pytest.mark.parametrize(("kind", "row", "said"), [
    (NoColumns, "image.axes", "Columns of the picture count nowhere, and time and rows do."),
    (KeysOtherwise, "image.axes", "move along rows and columns: queries and keys take different axes"),
    (Transposed, "image.places", "Rows and columns are exchanged."),
    (Inside, "image.places", "Text goes on at 4, inside the image: the image's largest coordinate is 6 (columns)."),
    (Another, "step", ""),
])  # fmt: skip
def test_mistakes_of_three_axes_are_named(kind: type[Told], row: str, said: str) -> None:
    found = told(kind, only=[row])[row]
    assert found.verdict == "fails" and said in found.cause, str(found)


def test_exchanged_axes_are_named_beside_a_reference() -> None:
    assert told(Exchanged, only=["image.axes"]).passed  # a model alone cannot show it
    found = told(Exchanged, only=["image.axes"], reference=Told())["image.axes"]
    assert found.verdict == "fails" and "Rows and columns are exchanged, beside the reference." in found.cause
    assert told(Told, only=["image.axes"], reference=Told()).passed


def test_a_function_without_coordinates_gets_those_of_m_rope() -> None:
    model = Told().double()
    report = audit(
        lambda tokens, positions: model(tokens, positions)[0], grid=(3, 4), only=["image.places", "image.axes"]
    )
    assert [each.verdict.value for each in report] == ["does not apply", "pass"]
    assert "has no `coordinates`" in report["image.places"].cause


class Adapted:
    """Somebody's own adapter, whose positions are (3, B, L)."""

    takes_positions = takes_mask = True
    vocabulary = Told.vocabulary

    def __init__(self, kind: type[Told]) -> None:
        self.module = kind()

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        assert positions is not None and positions.shape == (3, *tokens.shape)
        return self.module(tokens, positions, mask)[0]


def test_an_adapter_is_asked_behind_an_image() -> None:
    names = ["image.places", "image.axes", "future", "left_pad"]
    with torch.random.fork_rng(devices=[]):
        assert audit(Adapted(Told), grid=(3, 4), only=names).passed
        report = audit(Adapted(NoColumns), grid=(3, 4), only=names)
    assert [each.name for each in report.failures] == ["image.axes"]


def test_positions_of_three_axes_are_made_for_texts_alone() -> None:
    class Declared(Told):
        axes = 3

    report = audit(Declared(), only=["shift", "future", "step"])
    assert report.passed and "Needs positions in each call" in report["step"].cause


def test_what_is_no_place_for_an_image_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"positions \(3, B, L\)"):
        audit(Transformer(40, layers=1, model_dim=32), grid=(3, 4))
    with pytest.raises(ValueError, match="rows and columns of the picture's tokens"):
        audit(Told(), grid=(3,))
    with pytest.raises(ValueError, match="configuration says how a text's positions are made, and Turning is asked"):
        audit(Turning(), grid=(4, 6), configuration={"model_type": "llama"})


@pytest.mark.models
def test_a_configuration_is_asked_behind_an_image_too(qwen: Any) -> None:
    fields = qwen.config.to_dict()
    other = {**fields["text_config"]["rope_parameters"], "rope_theta": 5e5}
    assert audit(qwen, grid=(4, 6), only=["angles"])["angles"].verdict == "pass"
    wrong = {**fields, "text_config": {**fields["text_config"], "rope_parameters": other}}
    found = audit(qwen, grid=(4, 6), only=["angles"], configuration=wrong)["angles"]
    assert found.verdict == "fails" and "10,000, and not 500,000" in found.cause, str(found)
