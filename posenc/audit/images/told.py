"""A language model that is told positions (3, B, L), asked about texts behind an image or a video.

A model of transformers makes these positions of its tokens (`adapters/hf/behind.py`). Any other module, function or
adapter gets them: those that its own `coordinates` makes, or else M-RoPE's.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc.audit.adapters.called import POSITIONS, Called, names_of
from posenc.audit.adapters.copies import module_of
from posenc.audit.adapters.pictured import BEFORE, behind
from posenc.audit.adapters.protocol import Refused, Unfit, ask, device_of, logits_of
from posenc.audit.errors import error_line
from posenc.audit.images.behind import AXES
from posenc.audit.images.pictures import takes_images
from posenc.audit.probe import deviation
from posenc.audit.silence import quiet
from posenc.audit.verdict import Finding, Verdict
from posenc.schemes.grid import mrope_positions

NAME, QUESTION = "image.axes", "time, rows and columns: does each count, and by distance alone?"
FAINT = 1e-9  # a change of logits in float64 that is rounding; in float32 the tolerance of the audit decides
LOOK = "which axis of the positions each plane takes, in queries and in keys alike (mrope_section)"
Change = Callable[[Tensor], Tensor]


def is_told(model: Any) -> bool:
    """Whether a model takes positions beside tokens, and no image."""
    if hasattr(model, "logits") and hasattr(model, "takes_positions"):
        return bool(model.takes_positions)
    names = names_of(model.forward if isinstance(model, nn.Module) else model)
    return any(name in names[1:] for name in POSITIONS) and not takes_images(model)


@dataclass(frozen=True)
class Past:
    """What a cache holds, and the text that went in, picture included."""

    state: Any
    text: Tensor
    marks: Tensor


class Told:
    """A model that takes positions (3, B, L), with a picture before each text.

    The picture is `grid` tokens, drawn once. A model, or whoever holds it, may have a method `coordinates(tokens,
    grid)` that makes the positions (3, B, L) of tokens (B, L), where `image_token` stands for each token of a picture
    of grid (t, h, w). Without one the audit gives `mrope_positions`.

    Args:
        model: A module, a function of tokens and positions, or an `Adapter` whose positions are (3, B, L).
        grid: Rows and columns of the picture's tokens, (h, w), or a video's frames, rows and columns, (t, h, w).
        vocabulary: How many different tokens there are. Default: what the model itself tells.

    Raises:
        ValueError: If it cannot be called with such positions, or the grid is no grid.
    """

    takes_positions = packs = False
    scheme = None
    merge = 1

    def __init__(self, model: Any, grid: tuple[int, ...], vocabulary: int | None = None) -> None:
        if len(grid) not in (2, 3) or min(grid) < 1:
            raise Unfit(f"grid is {tuple(grid)}: use rows and columns of the picture's tokens, or frames before them")
        self.kind = "video" if len(grid) == 3 else "image"
        self.size = (1, *grid) if len(grid) == 2 else (grid[0], grid[1], grid[2])
        self.first, self.count = BEFORE, self.size[0] * self.size[1] * self.size[2]
        self.inner: Any = model if hasattr(model, "logits") else Called(model, vocabulary, axes=len(AXES))
        self.module = module_of(model)
        self.takes_mask = self.inner.takes_mask
        owner = self.module if callable(getattr(self.module, "coordinates", None)) else model
        self._makes = getattr(owner, "coordinates", None)
        self.vocabulary = self._tokens(owner)
        for name in ("causal", "recurrent", "scales"):
            if (value := getattr(self.inner, name, None)) is not None:
                setattr(self, name, value)
        self.step = self._step if getattr(self.inner, "step", None) is not None else None
        self.crop = self._crop if getattr(self.inner, "crop", None) is not None else None
        g = torch.Generator().manual_seed(1)
        self.before = torch.randint(min(10, self.vocabulary // 8), self.vocabulary, (BEFORE + self.count,), generator=g)
        try:
            with quiet(io.StringIO()), torch.no_grad():
                self.logits(torch.zeros(1, 2, dtype=torch.long, device=device_of(self.module)))
        except Exception as error:  # a model may raise anything at positions of another shape
            raise Unfit(
                f"the model cannot be called with positions (3, B, L) of a text behind a picture: {error_line(error)}"
            ) from error

    def _tokens(self, owner: Any) -> int:
        """How many tokens texts are drawn from: where the model makes positions, those before that of a picture."""
        self.image_token = int(getattr(owner, "image_token", self.inner.vocabulary - 1))
        if self._makes is None or self.image_token < min(10, self.inner.vocabulary // 8):
            return int(self.inner.vocabulary)
        if self.image_token < self.inner.vocabulary // 2:
            raise Unfit(
                f"image_token is {self.image_token}: texts are drawn from the tokens before it, so use a late one"
            )
        return min(self.image_token, int(self.inner.vocabulary))

    # ---- what a probe asks -------------------------------------------------------------------------------------------

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.logits_at(tokens, lambda at: at, mask)

    def logits_at(self, tokens: Tensor, change: Change, mask: Tensor | None = None) -> Tensor:
        """Logits of the texts' own tokens, where positions (3, B, P + L) are changed first."""
        full, marks, rows = behind(self.before, tokens, mask)
        out = logits_of(
            ask(self.inner.logits, full, change(self._counted(full, marks)), None if mask is None else marks)
        )
        return out.gather(1, rows[..., None].expand(-1, -1, out.shape[-1]))

    def logits_alone(self, tokens: Tensor) -> Tensor:
        """Logits of texts without a picture."""
        count = torch.arange(tokens.shape[1], device=tokens.device).expand(len(AXES), *tokens.shape)
        return logits_of(ask(self.inner.logits, tokens, count, None))

    def coordinates(self, tokens: Tensor) -> Tensor:
        """The positions that the model makes of a text (1, L) and what stands before it, (3, P + L).

        Raises:
            Refused: If it makes none.
        """
        if self._makes is None:
            raise Refused("the model is told its positions, and has no `coordinates` that makes them")
        full, marks, _ = behind(self.before, tokens, None)
        return self._counted(full, marks)[:, 0].cpu()

    def _step(
        self, tokens: Tensor, state: Any, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Past]:
        if not isinstance(state, Past):
            full, marks, rows = behind(self.before, tokens, mask)
            new, past = full, None
        else:
            full = torch.cat((state.text, tokens), 1)
            marks = torch.cat((state.marks, torch.ones_like(tokens)), 1)
            new, past, rows = tokens, state.state, torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        at = self._counted(full, marks)[..., -new.shape[1] :]
        out, kept = self.inner.step(new, past, at, None if mask is None else marks)
        out = logits_of(out)
        return out.gather(1, rows[..., None].expand(-1, -1, out.shape[-1])), Past(kept, full, marks)

    def _crop(self, state: Past, n: int) -> Past:
        return Past(self.inner.crop(state.state, n), state.text[:, :-n], state.marks[:, :-n])

    # ---- the text behind the picture ---------------------------------------------------------------------------------

    def _counted(self, full: Tensor, marks: Tensor) -> Tensor:
        """Positions (3, B, P + L) of texts behind the picture; padding before them has 0."""
        out = torch.zeros(len(AXES), *full.shape, dtype=torch.long)
        for n, (x, m) in enumerate(zip(full, marks, strict=True)):
            pads = int((m.cumsum(0) == 0).sum())
            out[:, n, pads:] = self._of_one(x[pads:])
        return out.to(full.device)

    def _of_one(self, x: Tensor) -> Tensor:
        if self._makes is None:
            return mrope_positions([BEFORE, self.size, len(x) - BEFORE - self.count]).T
        told = x.clone()
        told[BEFORE : BEFORE + self.count] = self.image_token
        made = torch.as_tensor(self._makes(told[None], torch.tensor(self.size))).long().cpu()
        made = made[:, 0] if made.ndim == 3 else made
        if made.shape != (len(AXES), len(x)):
            raise Unfit(f"coordinates returns {tuple(made.shape)} for tokens (1, {len(x)}): return (3, B, L)")
        return made


def axes(adapter: Told, tokens: Tensor, tolerance: float, reference: Told | None = None) -> Finding:
    """The row of a report about what each axis of positions does, for a model whose weights make it matter.

    Args:
        adapter: The model behind a picture.
        tokens: A text, (1, L).
        tolerance: Changes of logits below it are rounding.
        reference: A model with the same weights, which tells exchanged axes that the model alone cannot show.
    """
    with torch.no_grad(), quiet(io.StringIO()):
        verdict, off, cause = _judged(adapter, tokens, tolerance, reference)
    return Finding(NAME, QUESTION, verdict, off, cause, LOOK if verdict == Verdict.FAILS else "")


def _judged(
    adapter: Told, tokens: Tensor, tolerance: float, reference: Told | None
) -> tuple[Verdict, float | None, str]:
    plain = adapter.logits(tokens)
    faint = FAINT if plain.dtype == torch.float64 else tolerance
    picture = slice(adapter.first, adapter.first + adapter.count)

    def off(change: Change) -> float:
        return deviation(adapter.logits_at(tokens, change), plain)

    def stirred(axis: int) -> Change:
        def change(at: Tensor) -> Tensor:
            at = at.clone()
            at[axis, :, picture] += torch.arange(adapter.count, device=at.device) * 3 % 4
            return at

        return change

    def moved(axis: int) -> Change:
        return lambda at: at + 7 * (torch.arange(len(AXES), device=at.device) == axis)[:, None, None]

    dead = [axis for axis in range(len(AXES)) if off(stirred(axis)) <= faint]
    if len(dead) == len(AXES):
        return Verdict.PROPERTY, 0.0, "No position enters: other coordinates of the picture change nothing."
    if dead:
        lost, left = _listed(dead), _listed([a for a in range(len(AXES)) if a not in dead])
        return Verdict.FAILS, 0.0, f"{lost.capitalize()} of the picture count nowhere, and {left} do."
    sizes = [off(moved(axis)) for axis in range(len(AXES))]
    far = [axis for axis in range(len(AXES)) if not sizes[axis] <= tolerance]
    if far and len(far) < len(AXES):
        return (
            Verdict.FAILS, max(sizes),
            f"Logits change where all tokens move along {_listed(far)}: queries and keys take different axes there.",
        )  # fmt: skip
    if reference is not None and (told := _exchanged(tokens, plain, reference, tolerance)):
        return Verdict.FAILS, deviation(plain, reference.logits(tokens)), told
    if far:
        return Verdict.PROPERTY, max(sizes), "Absolute: each axis counts, and a move of all tokens changes logits."
    return Verdict.PASS, max(sizes), "Relative: each axis counts, and a move of all tokens along one changes nothing."


def _exchanged(tokens: Tensor, plain: Tensor, reference: Told, tolerance: float) -> str:
    """How the model's axes differ from the reference's; "" where they don't, or in no way that has a name."""
    orders = {
        "": [0, 1, 2],
        "Rows and columns are exchanged": [0, 2, 1],
        "Time and rows are exchanged": [1, 0, 2],
        "Time and columns are exchanged": [2, 1, 0],
        "Axes are moved on by one": [1, 2, 0],
        "Axes are moved back by one": [2, 0, 1],
    }
    for told, order in orders.items():
        if deviation(plain, reference.logits_at(tokens, lambda at, order=order: at[order])) <= tolerance:  # type: ignore[misc]
            return told and f"{told}, beside the reference."
    return ""


def _listed(chosen: list[int]) -> str:
    return " and ".join(AXES[axis] for axis in chosen)
