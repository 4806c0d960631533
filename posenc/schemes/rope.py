"""Rotary position embedding: positions are angles, scores see offsets (Su et al., 2021)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from posenc._attention.encoding import Encoding
from posenc._require import (
    require_broadcast,
    require_even,
    require_layout,
    require_positions,
    require_rotary_dim,
)
from posenc.schemes.layout import Layout
from posenc.schemes.rope_config import rope_arguments
from posenc.schemes.sinusoidal import frequencies

Waves = tuple[Tensor, Tensor]


def rotate(
    x: Tensor,
    pos: Tensor,
    freq: Tensor,
    *,
    layout: Layout = "interleaved",
    scale: float | Tensor = 1.0,
) -> Tensor:
    """Rotates pair t of channels by pos · freq[t]: R_m q · R_n k depends on n - m only.

    Angles have the precision of `freq`, whatever dtype x has.

    Args:
        x: Vectors, (..., L, d), of even d.
        pos: Positions, (L,), or (B, L) if the sequences of the batch differ.
        freq: Radians per position, (d/2,), or (B, d/2) if the sequences of the batch
            differ.
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").
        scale: Multiplies the rotated pairs: a number, or one for each angle, (L, d/2)
            or (B, L, d/2).

    Returns:
        The rotated vectors, with the shape and dtype of x. float16 and bfloat16 are
        computed in float32.

    Raises:
        ValueError: If the shapes do not match.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> rotate(x, torch.arange(2), frequencies(2))  # by 0, then by 1 radian
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])

    References:
        Su et al. (2021), section 3.2.2.
    """
    _check_rotation(x, pos, freq, layout, scale)
    angle = _angles(pos, freq)  # (L or B, L, d/2)
    if isinstance(scale, Tensor):
        scale = _insert_heads(scale, x)
    return rotate_by(x, _insert_heads(angle, x), layout=layout, scale=scale)


def _angles(pos: Tensor, freq: Tensor) -> Tensor:
    return pos.to(freq.dtype)[..., None] * freq[..., None, :]


def _insert_heads(y: Tensor, x: Tensor) -> Tensor:
    """(B, L, d/2) becomes (B, 1, L, d/2): all heads of x (B, H, L, d) share it."""
    if y.ndim < 3:
        return y  # all sequences share it, too
    return y.reshape(y.shape[0], *[1] * (x.ndim - 3), *y.shape[1:])


def rotate_by(
    x: Tensor,
    angle: Tensor,
    *,
    layout: Layout = "interleaved",
    scale: float | Tensor = 1.0,
) -> Tensor:
    """Rotates each pair of channels by its own angle, and multiplies it by `scale`.

    Args:
        x: Vectors, (..., L, d).
        angle: Radians. It broadcasts to (..., L, d/2), as `scale` does.
        layout: "interleaved" or "half", as in `rotate`.
        scale: Multiplies the rotated pairs.

    Returns:
        The rotated vectors, with the shape and dtype of x. float16 and bfloat16 are
        computed in float32.

    Example:
        >>> rotate_by(torch.tensor([1.0, 0.0]), torch.tensor([1.0]))
        tensor([0.5403, 0.8415])
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    return _rotate_with(x, *_waves(angle, wide, scale), layout)


def _waves(angle: Tensor, dtype: torch.dtype, scale: float | Tensor = 1.0) -> Waves:
    """Cosines and sines, times `scale`; the angles keep their precision."""
    angle = angle.to(torch.promote_types(angle.dtype, dtype))
    cos, sin = angle.cos(), angle.sin()
    if not _is_one(scale):
        cos, sin = scale * cos, scale * sin
    return cos.to(dtype), sin.to(dtype)


def _is_one(scale: float | Tensor) -> bool:
    return not isinstance(scale, Tensor) and scale == 1


def _rotate_with(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    by = rotate_pairs if torch.compiler.is_compiling() else _rotate_eagerly
    return by(x.to(cos.dtype), cos, sin, layout).to(x.dtype)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """The formula: each pair (a, b) becomes (a cos - b sin, a sin + b cos)."""
    pair, axis = ((-1, 2), -1) if layout == "interleaved" else ((2, -1), -2)
    a, b = x.unflatten(-1, pair).unbind(axis)  # (..., L, d/2) each
    return torch.stack((a * cos - b * sin, a * sin + b * cos), axis).flatten(-2)


def _rotate_eagerly(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """The same in fewer passes over memory, for when no compiler fuses the formula."""
    if layout == "half":
        half = x.shape[-1] // 2
        out = x * torch.cat((cos, cos), -1)
        out[..., :half].addcmul_(x[..., half:], sin, value=-1)
        out[..., half:].addcmul_(x[..., :half], sin)
        return out
    odd = x.storage_offset() % 2 or any(step % 2 for step in x.stride()[:-1])
    if odd or x.stride(-1) != 1:  # a pair is not stored as a complex number
        x = x.clone(memory_format=torch.contiguous_format)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (..., L, d/2): a + ib
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


class RoPE(Encoding):
    """q_i ← R_i q_i, k_j ← R_j k_j: scores see j - i only, values no position at all.

    Args:
        head_dim: Channels of a head, d, positive and even.
        base: b of the frequencies θ_t = b^(-2t/rotary_dim). It is ignored if `freq` is
            given.
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").
        freq: Frequencies in place of the default ones, (rotary_dim/2,) in radians per
            position. An nn.Parameter is learned. A function `length -> freq` is called
            with the current length, `pos.amax(-1) + 1`, a scalar or (B,), and may
            return (B, rotary_dim/2). Frequencies then change as the text grows, so a
            `KVCache` stores unrotated keys and rotates all of them at each step.
        rotary_dim: The first `rotary_dim` channels rotate, the others pass unchanged;
            default: all rotate.
        attention_factor: Multiplies the rotated channels of queries and keys, hence
            scores by its square.
        device, dtype: As `.to(device, dtype)` afterwards: frequencies stay in float32
            unless they are learned.

    Raises:
        ValueError: If head_dim or rotary_dim is not even, or another argument does not
            fit.

    Example:
        >>> rope = RoPE(64)
        >>> rope
        RoPE(head_dim=64, base=10000.0, layout='interleaved')
        >>> q = torch.randn(2, 8, 5, 64)  # (B, H, L, d)
        >>> rope.query(q, torch.arange(5)).shape
        torch.Size([2, 8, 5, 64])

    References:
        Su et al. (2021).
    """

    exact: tuple[str, ...] = ("freq",)
    freq: Tensor | Callable[[Tensor], Tensor]

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        *,
        layout: Layout = "interleaved",
        freq: Tensor | Callable[[Tensor], Tensor] | None = None,
        rotary_dim: int | None = None,
        attention_factor: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        require_layout(layout)
        require_rotary_dim(rotary_dim, head_dim)
        _check_attention_factor(attention_factor)
        self.head_dim, self.rotary_dim, self.layout = head_dim, rotary_dim, layout
        self.attention_factor = attention_factor
        self.base = base if freq is None else None
        self.raw_keys = callable(freq)
        freq = frequencies(rotary_dim, base, device=device) if freq is None else freq
        _check_frequencies(freq, rotary_dim)
        if isinstance(freq, Tensor) and not isinstance(freq, nn.Parameter):
            self.register_buffer("freq", freq, persistent=False)
            self.register_load_state_dict_pre_hook(_drop_saved_frequencies)
        else:  # a parameter is cast and saved with the model, a function holds its own
            self.exact, self.freq = (), freq
        self.to(device=device, dtype=dtype)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | object,
        *,
        layer_type: str | None = None,
        layer: int | None = None,
        layout: Layout | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """The rotation of a published model, from its configuration.

        Base, scaling, partial rotation and attention factor are what
        `posenc.audit.read_config` finds, which reads as transformers does.

        Args:
            config: The contents of config.json, the path of it or of its folder, or an
                object with the same attributes, such as
                `transformers.AutoConfig.from_pretrained(…)`. Both forms are understood,
                the present `rope_parameters` and the older `rope_theta` with
                `rope_scaling`. Of a model of several modalities, the part that reads
                text is read; images and videos take `posenc.schemes.grid`.
            layer_type: The kind of layer that is meant, such as "sliding_attention".
                Needed if layers differ.
            layer: The number of a layer, from 0, in place of its kind.
            layout: The layout of the weights; default: that of transformers for this
                `model_type`, "half" for most models.
            device: Where frequencies are kept.

        Raises:
            ValueError: If a key is missing, if the configuration asks for something
                that this class does not compute, if the model or these layers do not
                rotate, or if layers differ and none is named. The message says which
                kinds there are.

        Example:
            >>> config = {"head_dim": 128, "rope_theta": 500_000.0}
            >>> RoPE.from_config(config)
            RoPE(head_dim=128, base=500000.0, layout='half')
        """
        return cls(**rope_arguments(config, layer_type, layer, layout), device=device)

    def query(self, q: Tensor, pos: Tensor, waves: Waves | None = None) -> Tensor:
        """q (B, H, L, d), pos (L,) or (B, L) -> the rotated queries, like q.

        Calls with the same positions may share `waves(pos)`.
        """
        return self._rotate(q, pos, self.attention_factor, waves)

    def key(self, k: Tensor, pos: Tensor, waves: Waves | None = None) -> Tensor:
        """k (B, H, L, d), pos (L,) or (B, L) -> the rotated keys, like k."""
        return self._rotate(k, pos, self.attention_factor, waves)

    def waves(self, pos: Tensor, dtype: torch.dtype = torch.float32) -> Waves:
        """cos and sin of all angles: pos (L,) or (B, L) -> (L, d/2) or (B, 1, L, d/2)."""
        angle = _angles(pos, self._frequencies(pos))
        return _waves(angle if angle.ndim < 3 else angle[:, None], dtype)

    def waves_state(self) -> tuple[Any, ...] | None:
        freq = self.freq
        if not isinstance(freq, Tensor) or freq.requires_grad:
            return None  # a function may change, and a gradient flows once
        return (freq,)

    def _frequencies(self, pos: Tensor) -> Tensor:
        if isinstance(self.freq, Tensor):
            return self.freq
        return self.freq(pad(pos, (1, 0)).amax(-1) + 1)  # the length; 1 without tokens

    def _rotate(
        self, x: Tensor, pos: Tensor, scale: float | Tensor, waves: Waves | None = None
    ) -> Tensor:
        _check_head(x, pos, self.head_dim)
        return _rotated(self, x, pos, scale, waves)

    def reset_parameters(self) -> None:
        if self.base is not None and isinstance(self.freq, Tensor):
            self.freq = frequencies(self.rotary_dim, self.base, device=self.freq.device)

    def extra_repr(self) -> str:
        return _describe(self)


def _rotated(
    rope: RoPE, x: Tensor, pos: Tensor, scale: float | Tensor, waves: Waves | None
) -> Tensor:
    """The first `rotary_dim` channels, rotated and scaled, and the others as they are."""
    if rope.rotary_dim < rope.head_dim:
        part, rest = x.tensor_split((rope.rotary_dim,), -1)
        return torch.cat((_rotated_whole(rope, part, pos, scale, waves), rest), -1)
    return _rotated_whole(rope, x, pos, scale, waves)


def _rotated_whole(
    rope: RoPE, x: Tensor, pos: Tensor, scale: float | Tensor, waves: Waves | None
) -> Tensor:
    if waves is None:
        freq = rope._frequencies(pos)
        return rotate(x, pos, freq, layout=rope.layout, scale=scale)
    cos, sin = waves if _is_one(scale) else (scale * wave for wave in waves)
    return _rotate_with(x, cos, sin, rope.layout)


# What a module shows, loads and refuses


def _describe(rope: RoPE) -> str:
    """The arguments that make such a RoPE."""
    freq = f"base={rope.base}"
    if rope.base is None:
        kind = type(rope.freq).__name__ if isinstance(rope.freq, Tensor) else "function"
        freq = f"freq=<{kind}>"
    parts = [f"head_dim={rope.head_dim}", freq, f"layout={rope.layout!r}"]
    if rope.rotary_dim != rope.head_dim:
        parts.append(f"rotary_dim={rope.rotary_dim}")
    if rope.attention_factor != 1:
        parts.append(f"attention_factor={rope.attention_factor:.4g}")
    return ", ".join(parts)


def _drop_saved_frequencies(
    module: nn.Module, state_dict: Any, prefix: str, *_: Any
) -> None:
    """Frequencies in a checkpoint are compared with the module's own, and not loaded."""
    for name in ("freq", "inv_freq"):
        saved = state_dict.pop(prefix + name, None)
        _check_same_frequencies(prefix + name, saved, module.get_buffer("freq"))


def _check_attention_factor(value: float) -> None:
    """A factor of queries and keys is positive and finite."""
    if not 0 < value < float("inf"):
        raise ValueError(
            f"attention_factor is {value}, but it multiplies queries and keys: use a positive number, "
            f"such as 1.0, or yarn_attention_factor(16)"
        )


def _check_frequencies(freq: object, rotary_dim: int) -> None:
    """Frequencies are one angle per position for each rotated pair, or a function of the length."""
    if callable(freq):
        return
    if not isinstance(freq, Tensor):
        raise ValueError(
            f"freq is a {type(freq).__name__}: use a tensor, or a function of the length"
        )
    if freq.shape != (rotary_dim // 2,):
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but {rotary_dim} channels rotate, in {rotary_dim // 2} pairs: "
            f"use shape (rotary_dim/2,) = ({rotary_dim // 2},), where rotary_dim is head_dim unless given"
        )


def _check_same_frequencies(name: str, saved: Tensor | None, own: Tensor) -> None:
    """Frequencies of a checkpoint equal those of the module, up to the rounding of bfloat16."""
    if saved is None or saved.is_meta or own.is_meta:
        return
    if saved.shape != own.shape or not torch.allclose(
        saved.to(own), own, rtol=0.01, atol=0
    ):
        raise ValueError(
            f"{name} in the state dict holds other frequencies than this RoPE, which does not load any: "
            f"make it with the same base, or with RoPE(head_dim, freq=state_dict[{name!r}])"
        )


def _check_head(x: Tensor, pos: Tensor, head_dim: int) -> None:
    """x (..., L, head_dim) has the channels of a head, and as many vectors as there are positions."""
    require_positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2 or x.shape[-1] != head_dim:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but this encoding was made for heads (..., L, {head_dim}): make it "
            f"with head_dim={x.shape[-1] if x.ndim else 1}; to rotate some of the channels only, use rotary_dim"
        )
    require_positions(pos, x)


def _check_rotation(
    x: Tensor, pos: Tensor, freq: Tensor, layout: str, scale: float | Tensor
) -> None:
    """There is one angle for each position and pair of channels of x (..., L, d)."""
    require_layout(layout)
    require_positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but rotate takes (..., L, d): a single vector is x[None, :]"
        )
    require_even(x.shape[-1], "x's last dimension")
    pairs, batch = x.shape[-1] // 2, x.shape[:1] if x.ndim > 2 else ()
    if freq.ndim not in (1, 2) or freq.shape[-1] != pairs:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)} and x has {x.shape[-1]} channels: use frequencies({x.shape[-1]}), "
            f"or (B, d/2) if sequences of the batch differ; to rotate some of the channels only, pass that slice of x"
        )
    require_positions(pos, x)
    if freq.ndim == 2 and (not batch or freq.shape[0] not in (1, *batch)):
        raise ValueError(
            f"freq holds frequencies for {freq.shape[0]} sequences and "
            f"{f'the batch has {batch[0]}' if batch else 'there is a single sequence'}: "
            f"pass one set for each of them, or (d/2,) = ({pairs},) if all share it"
        )
    if isinstance(scale, Tensor):
        meaning = "(B, L, d/2)" if batch else "(L, d/2)"
        remedy = "use a number, or one for each angle"
        require_broadcast(
            "scale", scale.shape, (*batch, x.shape[-2], pairs), meaning, remedy
        )
