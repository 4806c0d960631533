"""Longer texts for RoPE: functions from frequencies to frequencies, for `RoPE(head_dim, freq=…)`.

All take freq (d/2,) in radians per position, fastest first, and return the same or, where the length of
each sequence matters, (B, d/2). Numbers may be tensors, to be differentiated, exported or swept; bad ones
are then not refused, since their values are not looked at.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from posenc import _check

Number = TypeVar("Number", float, Tensor)


def interpolate(freq: Tensor, factor: float | Tensor) -> Tensor:
    """Positions move closer together, so that `factor` times as many fit into what was trained: θ_t / s.

    Near tokens are told apart `factor` times less well. Chen et al. (2023), position interpolation.
    """
    _check.factor(factor)
    return freq / factor


def ntk(freq: Tensor, factor: float | Tensor) -> Tensor:
    """The slow hands wait for long texts, the fast ones still tell neighbours apart: θ_t s^(-t/(d/2 - 1)).

    The first frequency stays and the last is divided by exactly s, which is to say that the base is
    multiplied by s^(d/(d - 2)). Those between fall short of s, so `factor` is chosen a little larger than
    the extension. factor (B,) gives (B, d/2). bloc97 (2023), "NTK-aware".
    """
    _check.factor(factor)
    pairs = freq.shape[-1]
    t = torch.arange(pairs, dtype=freq.dtype, device=freq.device)
    factor = torch.as_tensor(factor, dtype=freq.dtype, device=freq.device)[..., None]
    return freq / factor ** (t / max(pairs - 1, 1))


def dynamic_ntk(freq: Tensor, length: int | Tensor, trained: float | Tensor, factor: float | Tensor = 1.0) -> Tensor:
    """`ntk` with a factor that grows with the text: 1 up to the trained length L, then factor · (ℓ/L - 1) + 1.

    length is one number or a tensor, scalar or (B,), which gives (B, d/2) where it lives. factor = 1 is ℓ/L, as in
    the YaRN paper; with another this is what transformers calls "dynamic". As a scheme:
    `RoPE(64, freq=lambda length: dynamic_ntk(frequencies(64), length, 4096))`.

    All keys turn anew when the text grows, so a cache has to keep them as projected. Then each step equals
    the last row of a full pass of that length, in one layer. In a deeper model it does not: what earlier
    tokens passed on to the next layer was computed when the text was shorter, and stays in the cache.
    """
    _check.trained(trained)
    _check.factor(factor)
    freq = freq.to(length.device) if isinstance(length, Tensor) else freq
    ratio = torch.as_tensor(length, dtype=freq.dtype, device=freq.device).clamp(min=trained) / trained
    return ntk(freq, factor * (ratio - 1) + 1)


def yarn(
    freq: Tensor,
    factor: float | Tensor,
    trained: float | Tensor,
    *,
    form: str = "paper",
    beta_fast: float | Tensor = 32.0,
    beta_slow: float | Tensor = 1.0,
    truncate: bool = True,
) -> Tensor:
    """What turned often enough in training stays, what never completed a turn is interpolated, with a ramp between.

    A pair that makes ρ = Lθ/2π turns within the trained length L keeps the share γ of its frequency, and is
    divided by `factor` for the rest: γθ + (1 - γ)θ/s. In the paper γ rises in proportion to ρ, from 0 at
    beta_slow turns to 1 at beta_fast. In the code that the authors published, and in transformers, it falls
    in proportion to the index t, between those at which ρ passes the two, rounded outwards unless `truncate`
    is off. Checkpoints were trained with form="code", which takes frequencies that fall geometrically.
    Queries and keys also are multiplied by `yarn_attention_factor`. Peng et al. (2024), section 3.2.
    """
    _check.yarn(freq, form, trained, beta_fast, beta_slow)
    _check.factor(factor)
    if form == "paper":
        turns = trained * freq / (2 * math.pi)
        share = ((turns - beta_slow) / (beta_fast - beta_slow)).clamp(0, 1)
    else:
        share = 1 - _ramp(freq, trained, beta_fast, beta_slow, truncate)
    return share * freq + (1 - share) * freq / factor


def _ramp(
    freq: Tensor, trained: float | Tensor, beta_fast: float | Tensor, beta_slow: float | Tensor, truncate: bool
) -> Tensor:
    """0 up to the index where a pair makes beta_fast turns, 1 from the one where it makes beta_slow."""
    pairs = freq.shape[-1]
    step = (freq[0] / freq[-1]).log() / (pairs - 1)  # ln θ falls by this from pair to pair
    start, stop = ((freq[0] * trained / (2 * math.pi * turns)).log() / step for turns in (beta_fast, beta_slow))
    if truncate:
        start, stop = start.floor(), stop.ceil()
    start, stop = start.clamp(min=0), stop.clamp(max=2 * pairs - 1)  # d - 1, as the authors have it
    stop = torch.where(start == stop, stop + 0.001, stop)
    t = torch.arange(pairs, dtype=freq.dtype, device=freq.device)
    return ((t - start) / (stop - start)).clamp(0, 1)


def yarn_attention_factor(factor: Number, weight: float = 1.0) -> Number:
    """Sharpens attention again, which interpolation blurs: 0.1 · weight · ln s + 1, for queries and keys each.

    √(1/t) in Peng et al. (2024), section 3.4, so that scores are multiplied by its square. DeepSeek writes it with
    two weights, mscale for queries and keys, divided by mscale_all_dim, whose square multiplies scores.
    """
    _check.factor(factor)
    log = torch.log(factor) if isinstance(factor, Tensor) else math.log(factor)
    return 0.1 * weight * log + 1.0


def llama3(
    freq: Tensor,
    factor: float | Tensor = 8.0,
    low: float | Tensor = 1.0,
    high: float | Tensor = 4.0,
    trained: float | Tensor = 8192,
) -> Tensor:
    """Stay from `high` turns within the trained length, interpolate below `low`, and between them a ramp.

    This is `yarn` as its paper has it, with 4 turns for 32 and no attention factor. Defaults are those
    of Llama 3.1. Meta, llama-models, `apply_scaling`.
    """
    _check.ordered(low=low, high=high)
    return yarn(freq, factor, trained, beta_fast=high, beta_slow=low)


def longrope(
    freq: Tensor,
    length: int | Tensor,
    short: Tensor | Sequence[float],
    long: Tensor | Sequence[float],
    trained: float | Tensor,
) -> Tensor:
    """Every pair has its own divisor, found by search: `short` up to the trained length, `long` beyond.

    length is one number or a tensor, scalar or (B,), which gives (B, d/2) where it lives; short and long (d/2,).
    As a scheme: `RoPE(d, freq=partial(longrope, frequencies(d), short=…, long=…, trained=4096), attention_factor=…)`.
    When a text outgrows the trained length all its keys change, as with `dynamic_ntk`; servers avoid that and
    take `long` throughout, RoPE(d, freq=frequencies(d) / long). That the first tokens stay as they were, which the
    paper also has, is in neither transformers nor here. Ding et al. (2024).
    """
    _check.trained(trained)
    device = length.device if isinstance(length, Tensor) else freq.device
    freq = freq.to(device)
    short, long = (torch.as_tensor(each, dtype=freq.dtype, device=device) for each in (short, long))
    _check.divisors(freq, short=short, long=long)
    beyond = torch.as_tensor(length, device=device)[..., None] > trained
    return freq / torch.where(beyond, long, short)


def longrope_attention_factor(factor: Number, trained: float) -> Number:
    """Sharpens attention over longer texts: √(1 + ln s / ln L), for queries and keys each. Ding et al. (2024)."""
    _check.factor(factor)
    _check.trained(trained, above=1)
    if isinstance(factor, Tensor):
        return (1 + torch.log(factor) / math.log(trained)).sqrt()
    return math.sqrt(1 + math.log(factor) / math.log(trained))


def p_rope(freq: Tensor, fraction: float | Tensor) -> Tensor:
    """The slowest pairs stop, and carry content to any distance: only the first fraction · d/2 still turn.

    Frequencies of the others stay as they are in the whole head, unlike in partial rotation, where they
    are spread over the channels that turn. "proportional" in transformers. Barbero et al. (2025).
    """
    _check.fraction(fraction)
    pairs = freq.shape[-1]
    turning = (fraction * pairs).floor() if isinstance(fraction, Tensor) else math.floor(fraction * pairs)
    return torch.where(torch.arange(pairs, device=freq.device) < turning, freq, 0.0)
