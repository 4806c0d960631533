"""Rotary position embedding: a position is an angle, a score sees differences (Su et al., 2021)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from posenc import _check
from posenc.encoding import Encoding
from posenc.sinusoidal import frequencies


def rotate(
    x: Tensor,
    pos: Tensor,
    freq: Tensor,
    *,
    layout: str = "interleaved",
    scale: float | Tensor = 1.0,
) -> Tensor:
    """Turns pair t of channels by pos · freq[t], so that R_m q · R_n k depends on n - m only.

    x (..., L, d), pos (L,) or (B, L), freq (d/2,) in radians per position, or (B, d/2) if sequences of
    the batch differ -> like x. A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2 ("half").
    `scale` multiplies what was turned: a number, or one for each angle, (L, d/2) or (B, L, d/2). Angles have
    freq's precision, whatever x has. Raises ValueError if shapes do not match. Su et al. (2021), section 3.2.2.
    """
    _check.rotation(x, pos, freq, layout, scale)
    angle = pos.to(freq.dtype)[..., None] * freq[..., None, :]  # (L, d/2) or (B, L, d/2)
    if isinstance(scale, Tensor):
        angle, scale = torch.broadcast_tensors(angle, scale)
    if angle.ndim == 3:
        shape = (angle.shape[0], *[1] * (x.ndim - 3), *angle.shape[1:])  # (B, 1, L, d/2): heads share an angle
        angle, scale = angle.reshape(shape), scale.reshape(shape) if isinstance(scale, Tensor) else scale
    return rotate_by(x, angle, layout=layout, scale=scale)


def rotate_by(x: Tensor, angle: Tensor, *, layout: str = "interleaved", scale: float | Tensor = 1.0) -> Tensor:
    """Turns each pair of channels by an angle of its own, and multiplies it by `scale`.

    x (..., L, d); angle, in radians, and scale broadcast to (..., L, d/2) -> like x, whose half precision
    is left for the time of the computation. Layouts are those of `rotate`.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    angle = angle.to(torch.promote_types(angle.dtype, wide))
    cos, sin = (scale * angle.cos()).to(wide), (scale * angle.sin()).to(wide)
    by = rotate_pairs if torch.compiler.is_compiling() else _rotate_eagerly
    return by(x.to(wide), cos, sin, layout).to(x.dtype)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """The formula: (a, b) becomes (a cos - b sin, a sin + b cos), in each pair of channels."""
    pair, axis = ((-1, 2), -1) if layout == "interleaved" else ((2, -1), -2)
    a, b = x.unflatten(-1, pair).unbind(axis)  # (..., L, d/2) each
    return torch.stack((a * cos - b * sin, a * sin + b * cos), axis).flatten(-2)


def _rotate_eagerly(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """The same numbers in fewer passes over memory, where no compiler fuses the formula."""
    if layout == "half":
        half = x.shape[-1] // 2
        out = x * torch.cat((cos, cos), -1)
        out[..., :half].addcmul_(x[..., half:], sin, value=-1)
        out[..., half:].addcmul_(x[..., :half], sin)
        return out
    if x.storage_offset() % 2 or x.stride(-1) != 1 or any(step % 2 for step in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)  # a pair must lie as a complex number
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (..., L, d/2): a + ib
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


class RoPE(Encoding):
    """q_i ← R_i q_i, k_j ← R_j k_j: scores see positions through j - i only, values not at all.

    The first `rotary_dim` channels of a head turn (all, unless given), and `attention_factor` multiplies
    them; the rest pass as they are. `freq` replaces frequencies(rotary_dim, base): (rotary_dim/2,) in
    radians per position, or a function that returns that, or (B, rotary_dim/2), for the current length,
    pos.amax(-1) + 1, a scalar or (B,). With a function, a cache keeps raw keys, which turn anew at every step.
    """

    exact: tuple[str, ...] = ("freq",)
    freq: Any  # a tensor, or a function of the length

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        *,
        layout: str = "interleaved",
        freq: Tensor | Callable[[Tensor], Tensor] | None = None,
        rotary_dim: int | None = None,
        attention_factor: float = 1.0,
    ) -> None:
        super().__init__()
        _check.layout(layout)
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        _check.rotary(head_dim, rotary_dim, attention_factor)
        self.head_dim, self.rotary_dim, self.layout = head_dim, rotary_dim, layout
        self.attention_factor = attention_factor
        self.base = base if freq is None else None
        self.raw_keys = callable(freq)
        if callable(freq):
            self.exact, self.freq = (), freq
            return
        if freq is None:
            freq = frequencies(rotary_dim, base)
        _check.given_frequencies(freq, rotary_dim)
        if isinstance(freq, nn.Parameter):  # learned, so cast and saved with the model
            self.exact, self.freq = (), freq
        else:
            self.register_buffer("freq", freq, persistent=False)

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return self._turn(q, pos, self.attention_factor)

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return self._turn(k, pos, self.attention_factor)

    def _turn(self, x: Tensor, pos: Tensor, scale: float | Tensor) -> Tensor:
        _check.turned(x, pos, self.head_dim)
        freq = self.freq
        if callable(freq):
            freq = freq(pad(pos, (1, 0)).amax(-1) + 1)  # the length, and 1 where there are no tokens
        turned, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        turned = rotate(turned, pos, freq, layout=self.layout, scale=scale)
        return torch.cat((turned, rest), -1) if rest.shape[-1] else turned

    def reset_parameters(self) -> None:
        if self.base is not None:
            self.freq = frequencies(self.rotary_dim, self.base, device=self.freq.device)
