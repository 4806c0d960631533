"""An encoding in place of torch's layer: nn.MultiheadAttention, with positions."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from posenc._attention.cache import KVCache
from posenc._attention.call import attention
from posenc._attention.encoding import Encoding, opens, require_encoding
from posenc._attention.kernels import Backend
from posenc._attention.plan import Plan
from posenc._attention.spans import Positions, Span
from posenc._require import kind, require_tensor


class MultiheadAttention(nn.Module):
    """torch's nn.MultiheadAttention with an encoding in it, and with its state dict.

    Weights of one load into the other. With `NoPE()` and causal=False both compute the same, but for a query that may
    attend to nothing, which gets zeros here and NaN there.

    Args:
        embed_dim: Channels of the input and the output, E.
        heads: Number of heads, which divides E.
        dropout: Share of the weights that is dropped in training. Default: 0.
        bias: Whether the projections have biases. Default: True.
        encoding: How position enters q, k and the scores, made for heads of embed_dim / heads channels.
        causal: Whether a query sees only keys at positions up to its own. Default: True.
        batch_first: Whether inputs are (B, L, E), and not (L, B, E). Default: False, as in torch.
        backend: As for `attention`. Default: "auto".
        device, dtype: Of the parameters.

    Raises:
        TypeError: If `encoding` is no Encoding.
        ValueError: If heads do not divide E, or the encoding enters by the input of a model.

    Example:
        >>> from posenc import MultiheadAttention, RoPE
        >>> layer = MultiheadAttention(64, 8, encoding=RoPE(8), batch_first=True)
        >>> x = torch.randn(2, 5, 64)
        >>> z, _ = layer(x, need_weights=False)
        >>> z.shape
        torch.Size([2, 5, 64])
        >>> torch.nn.MultiheadAttention(64, 8).load_state_dict(layer.state_dict())
        <All keys matched successfully>
    """

    def __init__(
        self, embed_dim: int, heads: int, dropout: float = 0.0, bias: bool = True, *, encoding: Encoding,
        causal: bool = True, batch_first: bool = False, backend: Backend = "auto",
        device: torch.device | str | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        require_encoding(encoding)
        _check_layer(embed_dim, heads, encoding)
        self.embed_dim, self.heads, self.dropout = embed_dim, heads, dropout
        self.causal, self.batch_first, self.backend = causal, batch_first, backend
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_proj_weight = nn.Parameter(
            torch.empty(3 * embed_dim, embed_dim, **made)
        )
        in_proj_bias = (
            nn.Parameter(torch.empty(3 * embed_dim, **made)) if bias else None
        )
        self.in_proj_bias: nn.Parameter | None
        self.register_parameter("in_proj_bias", in_proj_bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **made)
        self.encoding = encoding
        self.reset_parameters()

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
        key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False, *, pos: Positions | Plan | None = None,
        kpos: Positions | None = None, cache: KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """z, and the weights if they are wanted.

        Args:
            query: (L, B, E), or (B, L, E) if batch_first, or (L, E).
            key: (S, B, E) and the like. Default: the query.
            value: The same. Default: the key.
            key_padding_mask: bool (B, S), True for padding, as in torch.
            need_weights: Whether to return weights. They have to be stored, so False is faster. Default: True, as in
                torch.
            attn_mask: bool, True where a query may not attend, as in torch: (L, S) or (B · heads, L, S).
            average_attn_weights: Whether weights are averaged over heads. Default: True, as in torch.
            is_causal: Taken, as torch does, for a hint about attn_mask; whether a query sees the future is `causal`.
            pos: Positions of the queries: a `Span`, or (L,) or (B, L); or the `Plan` of the pass. Default: from 0 on,
                or those that follow in the cache.
            kpos: Those of the keys. Default: the queries' if there is no other key; otherwise from 0 on.
            cache: Earlier keys and values, as for `attention`.

        Returns:
            z, like query, and the weights, (B, L, S), or (B, heads, L, S) unless averaged; or None.
        """
        key = query if key is None else key
        value = key if value is None else value
        single = query.ndim == 2
        inputs = [
            self._batched(x, name, single)
            for name, x in (("query", query), ("key", key), ("value", value))
        ]
        biases = (
            (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        )
        q, k, v = (
            linear(x, weight, bias).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x, weight, bias in zip(
                inputs, self.in_proj_weight.chunk(3), biases, strict=True
            )
        )  # (B, H, L or S, d)
        if isinstance(pos, Plan):
            _check_alone(kpos, key_padding_mask, attn_mask)
            plan = pos
        else:
            pos = self._following(q.shape[2], cache) if pos is None else pos
            kpos = (
                pos
                if kpos is None and key is query
                else Span(0, k.shape[2])
                if kpos is None
                else kpos
            )
            hidden, padding = _masks(
                attn_mask, key_padding_mask, q.shape[0], self.heads, single
            )
            plan = Plan(
                pos,
                kpos,
                causal=self.causal,
                mask=hidden,
                padding_mask=padding,
                cache=cache,
            )
        options: Any = {
            "dropout": self.dropout if self.training else 0.0,
            "cache": cache,
            "backend": self.backend,
        }
        weights = None
        if need_weights:
            options["backend"] = "dense"
            z, weights = attention(
                q, k, v, self.encoding, plan, return_weights=True, **options
            )
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights.to(q.dtype)[0] if single else weights.to(q.dtype)
        else:
            z = attention(q, k, v, self.encoding, plan, **options)
        z = self.out_proj(z.transpose(1, 2).flatten(2))  # (B, L, E)
        if single:
            return z[0], weights
        return (z if self.batch_first else z.transpose(0, 1)), weights

    def reset_parameters(self) -> None:
        """Draws the weights again, as torch does, but not those of the encoding."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, heads={self.heads}, causal={self.causal}, batch_first={self.batch_first}"

    def _batched(self, x: Tensor, name: str, single: bool) -> Tensor:
        require_tensor(x, name, "use (L, B, E), or (B, L, E) with batch_first=True")
        if x.ndim != (2 if single else 3) or x.shape[-1] != self.embed_dim:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}: use (L, B, {self.embed_dim}), or (B, L, {self.embed_dim}) with "
                f"batch_first=True, or (L, {self.embed_dim}) for all inputs"
            )
        return x[None] if single else x if self.batch_first else x.transpose(0, 1)

    def _following(self, length: int, cache: KVCache | None) -> Positions:
        if cache is None or not cache.seen:
            return Span(0, length)
        if cache.span is None:
            raise ValueError(
                "the cache does not hold positions that follow one another, so nobody but the caller knows which "
                "comes next: pass pos"
            )
        return Span(cache.span.end, length)


def _masks(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    batch: int,
    heads: int,
    single: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """torch's masks, which say what is hidden, as ours, which say what is seen."""
    for name, mask in (
        ("attn_mask", attn_mask),
        ("key_padding_mask", key_padding_mask),
    ):
        if mask is None:
            continue
        require_tensor(
            mask,
            name,
            "use a bool tensor, True for what is hidden; causality alone is causal=True",
        )
        if mask.dtype != torch.bool:
            raise ValueError(
                f"{name} is {mask.dtype}: use bool, True for what is hidden, such as {name} == -torch.inf; numbers "
                f"that are added to scores are the encoding's"
            )
    if key_padding_mask is not None and single:
        key_padding_mask = key_padding_mask[None]
    if attn_mask is not None and attn_mask.ndim == 3:
        if attn_mask.shape[0] != batch * heads:
            raise ValueError(
                f"attn_mask has shape {tuple(attn_mask.shape)}: use (L, S), or (B · heads, L, S) = "
                f"({batch * heads}, L, S)"
            )
        attn_mask = attn_mask.unflatten(0, (batch, heads))
    padding = None if key_padding_mask is None else ~key_padding_mask
    return (None if attn_mask is None else ~attn_mask), padding


# Checks of input


def _check_layer(embed_dim: int, heads: int, encoding: Encoding) -> None:
    """Heads share the channels, and position enters after the projections."""
    if heads < 1 or embed_dim < 1 or embed_dim % heads:
        raise ValueError(
            f"embed_dim is {embed_dim} and heads is {heads}: use 1 or more, and a number of heads that divides "
            f"embed_dim"
        )
    if opens(encoding, "embed"):
        raise ValueError(
            f"{type(encoding).__name__} has the door embed, so it enters before the first layer: use "
            f"x = encoding.embed(x, pos) there, and encoding=NoPE() here"
        )


def _check_alone(kpos: Any, key_padding_mask: Any, attn_mask: Any) -> None:
    """A plan says it all."""
    for name, value in (
        ("kpos", kpos),
        ("key_padding_mask", key_padding_mask),
        ("attn_mask", attn_mask),
    ):
        if value is not None:
            raise ValueError(
                f"{name} is {kind(value)} beside a plan, which says where keys lie and what is hidden: leave it out"
            )
