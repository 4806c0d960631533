"""Positions, and what is known of them without asking a device."""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc._require import kind, require_positions


@dataclass(frozen=True)
class Span:
    """Positions that follow one another: start, start + 1, … They are known without looking at a tensor.

    Where positions are spans, attention knows which query sees which key without a mask, and asks no device, also
    while a compiler traces.

    Args:
        start: The first position.
        length: How many positions there are, 0 or more.

    Raises:
        TypeError: If one of them is no whole number.
        ValueError: If length is negative.

    Example:
        >>> from posenc import Span
        >>> Span(3, 4).tensor()
        tensor([3, 4, 5, 6])
        >>> Span.of(torch.tensor([3, 4, 5, 6]))
        Span(start=3, length=4)
    """

    start: int
    length: int

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("length", self.length)):
            if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
                remedy = "use a whole number; Span.of(pos) reads one from a tensor of positions"
                raise TypeError(f"{name} is {kind(value)}: {remedy}")
        if not torch.compiler.is_compiling() and self.length < 0:
            raise ValueError(
                f"length is {self.length}: use how many positions there are, 0 or more"
            )

    @classmethod
    def of(cls, pos: Tensor) -> "Span":
        """The span that positions are, which are read from the device.

        Args:
            pos: (L,), or (B, L) if all rows are the same.

        Returns:
            The span.

        Raises:
            ValueError: If positions do not follow one another.
        """
        require_positions(pos)
        found = known(pos)
        if not isinstance(found, Span):
            raise ValueError(
                "pos is no span, since its positions do not follow one another in whole steps of 1, or cannot be read "
                "here: pass the tensor itself"
            )
        return found

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.start + self.length

    def tensor(self, device: torch.device | str | None = None) -> Tensor:
        """The positions themselves.

        Args:
            device: Where they are wanted. Default: the CPU.

        Returns:
            (L,), int64.
        """
        return torch.arange(self.start, self.end, device=device)


Positions = Span | Tensor


def known(pos: Positions) -> Positions:
    """The span that positions are, where their numbers can be read and are one."""
    if (
        isinstance(pos, Span)
        or pos.is_floating_point()
        or not readable(pos)
        or pos.numel() == 0
    ):
        return pos
    try:
        places = signed(pos)
        first = places.flatten()[0]
        same = (places - first == torch.arange(pos.shape[-1], device=pos.device)).all()
        if pos.device.type == "cpu":
            return Span(int(first), pos.shape[-1]) if same else pos
        start, fits = torch.stack(
            (first.long(), same.long())
        ).tolist()  # one wait for the device
    except RuntimeError:  # under torch.func.vmap there is no one answer
        return pos
    return Span(start, pos.shape[-1]) if fits else pos


def readable(x: Tensor) -> bool:
    """Whether numbers may be looked at: not while a compiler traces, and not on a device that records."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or x.is_meta:  # type: ignore[attr-defined]
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())


def rise_together(queries: Positions, keys: Positions) -> bool:
    """Whether kpos <= qpos is the lower triangle that `is_causal` means: equal positions that rise."""
    if (
        not (isinstance(queries, Tensor) and isinstance(keys, Tensor))
        or queries.shape != keys.shape
    ):
        return False
    if not readable(queries):
        return False
    try:
        return (queries is keys or torch.equal(queries, keys)) and bool(
            (signed(queries).diff() > 0).all()
        )
    except RuntimeError:  # under torch.func.vmap there is no one answer
        return False


def as_tensor(pos: Positions, device: torch.device | None) -> Tensor:
    return pos.tensor(device) if isinstance(pos, Span) else pos


def length_of(pos: Positions) -> int:
    return pos.length if isinstance(pos, Span) else pos.shape[-1]


def signed(pos: Tensor) -> Tensor:
    """Positions whose differences may be negative."""
    return pos if pos.dtype.is_signed else pos.long()


def shared_row(pos: Tensor) -> Tensor:
    """(L,) where all sequences share one row, which their strides tell."""
    return (
        pos[0] if pos.ndim == 2 and (pos.shape[0] == 1 or pos.stride(0) == 0) else pos
    )


def equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, in one shape, on one device, which has to be waited for."""
    return (
        one.shape == other.shape
        and one.device == other.device
        and torch.equal(one, other.to(one.dtype))
    )
