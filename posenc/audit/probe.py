"""What all tests share: texts, the logits to compare with, the unit of changes, the limit of time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Adapter, Refused, Unfit, ask, device_of, logits_of

PADS = 5


class Slow(Exception):
    """A test took longer than it may."""


ENDS = (IndexError, RuntimeError, ValueError)
"""What models raise at positions for which they have no row."""


@dataclass(frozen=True)
class Measurement:
    """What a test measured, before anybody says what it means."""

    name: str
    off: float | None
    """The largest change over the reference's root mean square; None where there is none."""
    refused: str | None = None
    """Why there is no number: "takes no positions", or "IndexError: …"."""
    raised: bool = False
    """Whether `refused` is an exception of the model, and no refusal."""
    slow: bool = False
    """Whether it was stopped since it took too long."""
    details: dict[str, Any] = field(default_factory=dict)
    """What the verdict may need besides."""
    places: str = ""
    """For each token that was compared, "." where logits agree and "x" where they do not."""


class Probe:
    """A model and the text that it is asked about.

    Args:
        adapter: The model.
        tokens: Length of the text. Default: 24.
        seed: Seed of the texts. Default: 0.
        tolerance: Changes below it, over the root mean square of the reference, are rounding. Default: 1e-3.
        seconds: How long one test may take, as measured between calls of the model. Default: 8.0.
    """

    def __init__(
        self, adapter: Adapter, *, tokens: int = 24, seed: int = 0, tolerance: float = 1e-3, seconds: float = 8.0
    ) -> None:
        self.adapter, self.n, self.seed, self.tolerance, self.seconds = adapter, tokens, seed, tolerance, seconds
        self.device = device_of(adapter.module)
        self.deadline = float("inf")
        self.low = min(10, adapter.vocabulary // 8)  # the first tokens often have a meaning: padding, end of text
        self._room: int | None = None
        self._longer: Probe | None = None
        self.seen: list[Any] = [0.0, ""]
        """The largest change that a test has seen so far, and its places."""
        self._picky: str | None = None
        self.reference: Adapter | None = None
        """A model that should give the same."""
        self.originals: tuple[Adapter, Adapter] | None = None
        """Model and reference with weights of their own, where those of the same names differ."""
        self.angles: list[list[float]] = []
        """By kind of layer, the angles by which pairs of channels should turn from one position to the next."""
        self.rotations: Sequence[Any] = ()
        """The rotations that these angles are of, as `posenc.configs` has them; empty where angles alone are given."""
        self.layers: Sequence[Any] = ()
        """What each layer that attends should do, in order; see `checks.schedule`."""
        self.reading: Any = None
        """What the configuration says, as a `posenc.configs.Reading`; None without one."""
        self.window = 0
        """How many tokens a layer sees, the largest number of all layers with a window; 0 if that is not known."""
        self.first = 0
        """The position of a model's own first token: some count from another number than 0."""
        self.x = self.text(tokens)
        self.pos = self.count(tokens)
        self.full = self.logits(self.x)
        self.first = self._first()
        self.pos = self.count(tokens)

    # ---- calls of the model ------------------------------------------------------------------------------------------

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Logits (B, L, V); raises Unfit if they have another shape, and Slow after the deadline."""
        self.in_time()
        self._believed(positions, mask)
        out = logits_of(ask(self.adapter.logits, tokens, positions, mask))
        if out.shape[:2] != tokens.shape:
            raise Unfit(_wrong(tokens, out))
        return out

    def alone(self, tokens: Tensor) -> Tensor:
        """Logits of texts without what an adapter puts before them, such as a picture: for looks into attention."""
        self.in_time()
        made = getattr(self.adapter, "logits_alone", None)
        return self.logits(tokens) if made is None else logits_of(ask(made, tokens))

    def run(
        self,
        sizes: Sequence[int],
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        tokens: Tensor | None = None,
        state: Any = None,
    ) -> tuple[Tensor, Any]:
        """Logits of a text that goes through the cache in parts of these sizes, and the last state."""
        step = self.able("step", "takes no cache as an argument")
        self._believed(positions, mask)
        tokens = self.x if tokens is None else tokens
        outs, done = [], 0
        for size in sizes:
            self.in_time()
            part = slice(done, done + size)
            done += size
            out, state = step(
                tokens[:, part],
                state,
                None if positions is None else positions[:, part],
                None if mask is None else mask[:, : mask.shape[1] - tokens.shape[1] + done],
            )
            if out.shape[:2] != (len(tokens), size):
                raise Unfit(_wrong(tokens[:, part], out))
            outs.append(out)
        return torch.cat(outs, 1), state

    def _believed(self, positions: Tensor | None, mask: Tensor | None) -> None:
        """Refuses what an adapter says it does not take: one that ignores it would seem to be wrong, or right."""
        if positions is not None and not self.adapter.takes_positions:
            raise Refused("takes no positions")
        if mask is not None and not self.adapter.takes_mask:
            raise Refused("takes no mask of real tokens")

    def able(self, name: str, otherwise: str) -> Any:
        """A method that an adapter may have, which gets copies as in `ask`; raises Refused where it has none."""
        method = getattr(self.adapter, name, None)
        if method is None:
            raise Refused(otherwise)
        return partial(ask, method)

    def in_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise Slow(f"stopped after {self.seconds:g} s")

    def refresh(self) -> None:
        """Takes the reference anew, for a model that is not as it was."""
        self.full = self.logits(self.x)

    # ---- texts -------------------------------------------------------------------------------------------------------

    def text(self, n: int, batch: int = 1, seed: int = 0) -> Tensor:
        """Random tokens (batch, n), all different where the vocabulary allows: equal ones tie in selections of keys."""
        g = torch.Generator().manual_seed(1000 * self.seed + seed)
        low, high = self.low, self.adapter.vocabulary
        if n > high - low:
            rows = torch.randint(low, max(high, low + 1), (batch, n), generator=g)
        else:
            rows = torch.stack([low + torch.randperm(high - low, generator=g)[:n] for _ in range(batch)])
        return rows.to(self.device)

    def other(self, tokens: Tensor) -> int:
        """A token that is not in the text, or is at least not its first one; raises Refused where there is one only."""
        if self.adapter.vocabulary < 2:
            raise Refused("the vocabulary has one token, and this test needs two")
        there = set(tokens.flatten().tolist())
        free = [t for t in range(self.adapter.vocabulary - 1, -1, -1) if t not in there]
        return free[0] if free else (int(tokens[0, 0]) + 1) % self.adapter.vocabulary

    def count(self, n: int) -> Tensor:
        """Positions of the first n tokens as the model counts them, (1, n)."""
        return torch.arange(n, device=self.device)[None] + self.first

    def _first(self) -> int:
        """Where the model begins to count, if giving such positions changes nothing and giving others does."""
        if not self.adapter.takes_positions:
            return 0
        for first in (0, 1, 2, 3):
            try:
                if self.off(self.logits(self.x, self.pos + first), self.full) <= self.tolerance:
                    return first
            except Exception:  # whatever a model raises at positions is for the tests to say
                continue
        return 0

    def left(self, pads: int = PADS) -> tuple[Tensor, Tensor, Tensor]:
        """The text after padding, with mask, and the positions that count real tokens."""
        x = torch.cat((torch.zeros_like(self.x[:, :1]).expand(-1, pads), self.x), 1)
        mask = torch.ones_like(x)
        mask[:, :pads] = 0
        return x, mask, self.counted(mask)

    def counted(self, mask: Tensor) -> Tensor:
        """Positions that count the real tokens of a mask (B, L); padding has the number before the first, or 0."""
        return (mask.cumsum(-1) - 1 + self.first).clamp(min=max(self.first - 1, 0))

    @property
    def room(self) -> int:
        """How long a text may be: 120, or less where the model raises."""
        if self._room is None:
            for n in (120, 90, 60, 48, 40, 36, 32, 30, 28, 26, 25):
                if n > self.n:
                    try:
                        self.logits(self.text(n, seed=2))
                    except Slow:
                        raise
                    except Exception:  # a table that ends raises one of several errors
                        continue
                    self._room = n
                    break
            else:
                self._room = self.n
        return self._room

    @property
    def picky(self) -> str:
        """Why texts of other lengths raise an error, for a model that takes some lengths alone; "" for others."""
        if self._picky is None:
            self._picky = ""
            for n in (self.n - 1, self.n - 2):
                try:
                    self.logits(self.text(n, seed=2))
                    break
                except ENDS:
                    continue
                except Exception:  # other errors are no matter of lengths
                    break
            else:
                self._picky = f"takes texts of some lengths alone: of {self.n} tokens, and not of {self.n - 1}"
        return self._picky

    @property
    def filling(self) -> Probe:
        """This one, or one with a text long enough that a window closes, in chunks that are longer than it."""
        wanted = 2 * self.window + 8 if self.window else 0
        if wanted <= self.n or self.room <= self.n:
            return self
        if self._longer is None:
            self._longer = Probe(
                self.adapter, tokens=min(wanted, self.room), seed=self.seed, tolerance=self.tolerance,
                seconds=self.seconds,
            )  # fmt: skip
        self._longer.deadline, self._longer.seen = self.deadline, self.seen
        return self._longer

    # ---- sizes -------------------------------------------------------------------------------------------------------

    def off(self, out: Tensor, reference: Tensor) -> float:
        """The largest change over the root mean square of the reference; NaN where either is not finite.

        Args:
            out: (B, L, V), or without the axis of places.
            reference: Of the same shape.
        """
        size = deviation(out, reference)
        if out.ndim == 3 and out.shape == reference.shape and not size <= self.seen[0]:
            wrong = per_place(out, reference)
            marks = "".join("." if float(each) <= self.tolerance else "x" for each in wrong)
            self.seen[:] = [float("inf") if size != size else size, marks]
        return size


def deviation(out: Tensor, reference: Tensor) -> float:
    """The largest change over the root mean square of the reference; NaN where either is not finite."""
    a, b = (each.detach().to("cpu", torch.float64) for each in (out, reference))
    if not bool(a.isfinite().all() & b.isfinite().all()):
        return float("nan")
    return float((a - b).abs().max() / b.square().mean().sqrt().clamp(min=1e-12)) if a.numel() else 0.0


def per_place(out: Tensor, reference: Tensor) -> Tensor:
    """The largest change at each place, over the root mean square of the reference: (L,)."""
    a, b = out.detach().double().cpu(), reference.detach().double().cpu()
    return (a - b).abs().amax((0, 2)) / b.square().mean().sqrt().clamp(min=1e-12)


def _wrong(tokens: Tensor, out: Tensor) -> str:
    message = f"tokens are {tuple(tokens.shape)}, but logits {tuple(out.shape)}: return (B, L, V), a row for each token"
    if out.shape[1] == 1:
        message += "; where a model returns only the last row unless it gets targets, pass a function that gives them"
    return message
