"""Longer texts for RoPE: from frequencies to frequencies, for `RoPE(head_dim, freq=…)`.

All take freq (d/2,) in radians per position, fastest first. They return the same shape,
or (B, d/2) where the length of each sequence matters. Numbers may be tensors, to be
differentiated, exported or swept. The value of a tensor is not read, so a bad one is
not refused.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", float, Tensor)


def interpolate(freq: Tensor, factor: float | Tensor) -> Tensor:
    """Positions move closer together: s times as many fit where fewer were trained.

    Frequencies become θ_t / s. Scores then distinguish near tokens `factor` times less
    well.

    Args:
        freq: Frequencies, (d/2,).
        factor: s, how many times longer texts become, 1 or more.

    Returns:
        The slower frequencies, (d/2,).

    Raises:
        ValueError: If factor is below 1.

    Example:
        >>> from posenc import frequencies
        >>> interpolate(frequencies(8), 4.0)
        tensor([0.2500, 0.0250, 0.0025, 0.0003])

    References:
        Chen et al. (2023), position interpolation.
    """
    _check_factor(factor)
    return freq / factor


def ntk(freq: Tensor, factor: float | Tensor) -> Tensor:
    """Slow pairs slow down for long texts, fast pairs still distinguish neighbours.

    Frequencies become θ_t s^(-t/(d/2 - 1)). The first frequency stays and the last is
    divided by exactly s: the base is multiplied by s^(d/(d - 2)). Frequencies between
    are divided by less than s, so choose a factor a little larger than the extension.

    Args:
        freq: Frequencies, (d/2,).
        factor: s, 1 or more, a number or a tensor, scalar or (B,).

    Returns:
        The slower frequencies, (d/2,), or (B, d/2) for a factor (B,).

    Raises:
        ValueError: If factor is below 1.

    Example:
        >>> from posenc import frequencies
        >>> ntk(frequencies(8), 8.0)
        tensor([1.0000e+00, 5.0000e-02, 2.5000e-03, 1.2500e-04])

    References:
        bloc97 (2023), "NTK-aware".
    """
    _check_factor(factor)
    pairs = freq.shape[-1]
    t = torch.arange(pairs, dtype=freq.dtype, device=freq.device)
    factor = torch.as_tensor(factor, dtype=freq.dtype, device=freq.device)[..., None]
    return freq / factor ** (t / max(pairs - 1, 1))


def dynamic_ntk(
    freq: Tensor,
    length: int | Tensor,
    trained: float | Tensor,
    factor: float | Tensor = 1.0,
) -> Tensor:
    """`ntk` with a factor that grows with the text, from 1 at the trained length.

    The factor is 1 up to the trained length L, then factor · (ℓ/L - 1) + 1.

    All keys rotate again when the text grows, so a cache must keep them unrotated. Then
    each step equals the last row of a full pass of that length, in one layer. In a
    deeper model it does not: the first layer's outputs for earlier tokens were computed
    when the text was shorter, and stay in the cache of the next layer.

    Args:
        freq: Frequencies, (d/2,).
        length: ℓ, the current length in tokens: a number, a scalar tensor, or (B,).
        trained: L, the length of the texts in training.
        factor: 1 gives ℓ/L, as in the YaRN paper. With another factor this is what
            transformers calls "dynamic".

    Returns:
        The slower frequencies, (d/2,), or (B, d/2) for a length (B,), on length's
        device.

    Raises:
        ValueError: If factor is below 1, or trained is not positive.

    Example:
        >>> from posenc import RoPE, frequencies
        >>> def scaled(length):
        ...     return dynamic_ntk(frequencies(64), length, 4096)
        >>> RoPE(64, freq=scaled)
        RoPE(head_dim=64, freq=<function>, layout='interleaved')

    References:
        emozilla (2023), "Dynamic NTK".
    """
    _check_trained(trained)
    _check_factor(factor)
    freq = freq.to(length.device) if isinstance(length, Tensor) else freq
    ratio = torch.as_tensor(length, dtype=freq.dtype, device=freq.device)
    ratio = ratio.clamp(min=trained) / trained
    return ntk(freq, factor * (ratio - 1) + 1)


def yarn(
    freq: Tensor,
    factor: float | Tensor,
    trained: float | Tensor,
    *,
    form: Literal["paper", "code"] = "paper",
    beta_fast: float | Tensor = 32.0,
    beta_slow: float | Tensor = 1.0,
    truncate: bool = True,
) -> Tensor:
    """Pairs that turned often in training stay, pairs below one turn are interpolated.

    A pair makes ν = Lθ/2π turns within the trained length L. It keeps the share γ of
    its frequency, and the rest is divided by the factor: γθ + (1 - γ)θ/s.

    In the paper γ rises in proportion to ν, from 0 at beta_slow turns to 1 at
    beta_fast. In the code that the authors published, and in transformers, γ falls in
    proportion to the index t, between the indices where ν passes beta_fast and
    beta_slow. Checkpoints were trained with form="code".

    Queries and keys are also multiplied by `yarn_attention_factor`.

    Args:
        freq: Frequencies, (d/2,). form="code" needs geometric ones, and at least two.
        factor: s, how many times longer texts become, 1 or more.
        trained: L, the length of the texts in training, in tokens.
        form: "paper" or "code".
        beta_fast: Turns from which on a frequency stays.
        beta_slow: Turns below which a frequency is divided by s.
        truncate: Whether form="code" rounds the two indices outwards.

    Returns:
        The frequencies, (d/2,).

    Raises:
        ValueError: If a number is out of range, or the two bounds are in the wrong
            order.

    Example:
        >>> from posenc import frequencies
        >>> yarn(frequencies(8), 4.0, 4096) / frequencies(8)
        tensor([1.0000, 1.0000, 0.3835, 0.2500])

    References:
        Peng et al. (2024), section 3.2.
    """
    _check_yarn(freq, form, beta_fast, beta_slow)
    _check_trained(trained)
    _check_factor(factor)
    if form == "paper":
        turns = trained * freq / (2 * math.pi)
        share = ((turns - beta_slow) / (beta_fast - beta_slow)).clamp(0, 1)
    else:
        share = 1 - _ramp(freq, trained, beta_fast, beta_slow, truncate)
    return share * freq + (1 - share) * freq / factor


def _ramp(
    freq: Tensor,
    trained: float | Tensor,
    beta_fast: float | Tensor,
    beta_slow: float | Tensor,
    truncate: bool,
) -> Tensor:
    """0 up to the index with beta_fast turns, 1 from the index with beta_slow turns."""
    pairs = freq.shape[-1]
    step = (freq[0] / freq[-1]).log() / (pairs - 1)  # by which ln θ falls
    start, stop = (
        (freq[0] * trained / (2 * math.pi * turns)).log() / step
        for turns in (beta_fast, beta_slow)
    )
    if truncate:
        start, stop = start.floor(), stop.ceil()
    start, stop = start.clamp(min=0), stop.clamp(max=2 * pairs - 1)  # d - 1, as there
    stop = torch.where(start == stop, stop + 0.001, stop)
    t = torch.arange(pairs, dtype=freq.dtype, device=freq.device)
    return ((t - start) / (stop - start)).clamp(0, 1)


def yarn_attention_factor(factor: Number, weight: float = 1.0) -> Number:
    """Sharpens attention again, which interpolation blurs: 0.1 · weight · ln s + 1.

    Queries and keys are multiplied by it. It is √(1/t) in the paper, so scores are
    multiplied by its square. DeepSeek uses two weights: queries and keys are multiplied
    by the factor of `mscale`, divided by that of `mscale_all_dim`, and scores by the
    square of the latter.

    Args:
        factor: s, how many times longer texts become, 1 or more.
        weight: Of the logarithm.

    Returns:
        The factor, a number or a tensor as `factor` is.

    Raises:
        ValueError: If factor is below 1.

    Example:
        >>> round(yarn_attention_factor(16.0), 4)
        1.2773

    References:
        Peng et al. (2024), section 3.4.
    """
    _check_factor(factor)
    log = torch.log(factor) if isinstance(factor, Tensor) else math.log(factor)
    return 0.1 * weight * log + 1.0


def llama3(
    freq: Tensor,
    factor: float | Tensor = 8.0,
    low: float | Tensor = 1.0,
    high: float | Tensor = 4.0,
    trained: float | Tensor = 8192,
) -> Tensor:
    """Pairs with `high` turns in training stay, pairs below `low` are interpolated.

    Between them is a ramp. This is `yarn` in the paper's form, with 4 turns in place of
    32 and no attention factor. The defaults are those of Llama 3.1.

    Args:
        freq: Frequencies, (d/2,).
        factor: s, how many times longer texts become, 1 or more.
        low: Turns below which a frequency is divided by s ("low_freq_factor").
        high: Turns from which on a frequency stays ("high_freq_factor").
        trained: The length of the texts in training, in tokens.

    Returns:
        The frequencies, (d/2,).

    Raises:
        ValueError: If a number is out of range, or low is not below high.

    Example:
        >>> from posenc import frequencies
        >>> llama3(frequencies(8, 500_000.0)) / frequencies(8, 500_000.0)
        tensor([1.0000, 1.0000, 0.3711, 0.1250])

    References:
        Meta, llama-models, `apply_scaling`.
    """
    _check_ordered(low=low, high=high)
    return yarn(freq, factor, trained, beta_fast=high, beta_slow=low)


def longrope(
    freq: Tensor,
    length: int | Tensor,
    short: Tensor | Sequence[float],
    long: Tensor | Sequence[float],
    trained: float | Tensor,
) -> Tensor:
    """Each pair has a divisor, found by search: `short`, or `long` for longer texts.

    The trained length decides which.

    When a text outgrows the trained length all its keys change, as with `dynamic_ntk`.
    Servers avoid that with `long` throughout, RoPE(d, freq=frequencies(d) / long). In
    the paper the first tokens also stay as they were; neither transformers nor this
    function does that.

    Args:
        freq: Frequencies, (d/2,).
        length: The current length in tokens: a number, a scalar tensor, or (B,).
        short, long: The divisors, (d/2,).
        trained: The length of the texts in training, in tokens.

    Returns:
        The frequencies, (d/2,), or (B, d/2) for a length (B,), on length's device.

    Raises:
        ValueError: If a list has another length than freq, or trained is not positive.

    Example:
        >>> from posenc import RoPE, frequencies
        >>> from functools import partial
        >>> lists = dict(short=[1.0] * 4, long=[1.0, 2.0, 4.0, 8.0])
        >>> scaled = partial(longrope, frequencies(8), **lists, trained=4096)
        >>> RoPE(8, freq=scaled, attention_factor=longrope_attention_factor(8.0, 4096))
        RoPE(head_dim=8, freq=<function>, layout='interleaved', attention_factor=1.118)

    References:
        Ding et al. (2024).
    """
    _check_trained(trained)
    device = length.device if isinstance(length, Tensor) else freq.device
    freq = freq.to(device)
    short = torch.as_tensor(short, dtype=freq.dtype, device=device)
    long = torch.as_tensor(long, dtype=freq.dtype, device=device)
    _check_divisors(freq, short=short, long=long)
    beyond = torch.as_tensor(length, device=device)[..., None] > trained
    return freq / torch.where(beyond, long, short)


def longrope_attention_factor(factor: Number, trained: float) -> Number:
    """Sharpens attention over longer texts: queries and keys times √(1 + ln s / ln L).

    Args:
        factor: s, how many times longer texts become, 1 or more.
        trained: L, the length of the texts in training, more than 1 token.

    Returns:
        The factor, a number or a tensor as `factor` is.

    Raises:
        ValueError: If factor is below 1, or trained is not above 1.

    Example:
        >>> round(longrope_attention_factor(32.0, 4096), 4)
        1.1902

    References:
        The code of Phi-3, and transformers, rope type "longrope".
    """
    _check_factor(factor)
    _check_trained(trained, above=1)
    if isinstance(factor, Tensor):
        return (1 + torch.log(factor) / math.log(trained)).sqrt()
    return math.sqrt(1 + math.log(factor) / math.log(trained))


def p_rope(freq: Tensor, fraction: float | Tensor) -> Tensor:
    """The slowest pairs stop, and carry content to any distance.

    Only the first fraction · d/2 pairs still rotate. Their frequencies stay as they are
    in the whole head. That differs from partial rotation, where all frequencies are
    spread over the channels that rotate. transformers calls this rope type
    "proportional".

    Args:
        freq: Frequencies, (d/2,).
        fraction: The share of the pairs that rotate, from 0 to 1.

    Returns:
        The frequencies, (d/2,), 0 for pairs that do not rotate.

    Raises:
        ValueError: If fraction is not from 0 to 1.

    Example:
        >>> from posenc import frequencies
        >>> p_rope(frequencies(8), 0.5)
        tensor([1.0000, 0.1000, 0.0000, 0.0000])

    References:
        Barbero et al. (2025).
    """
    _check_fraction(fraction)
    pairs = freq.shape[-1]
    rotating = fraction * pairs
    whole = rotating.floor() if isinstance(rotating, Tensor) else math.floor(rotating)
    return torch.where(torch.arange(pairs, device=freq.device) < whole, freq, 0.0)


# Checks of input. The value of a tensor is not read: it may be traced, or be on a GPU.


def _check_factor(value: float | Tensor) -> None:
    """A context is extended by a factor."""
    if not isinstance(value, Tensor) and not 1 <= value < float("inf"):
        raise ValueError(
            f"factor is {value}, but it says how many times longer texts become: use 1 or more, such as 8.0"
        )


def _check_trained(value: float | Tensor, above: float = 0) -> None:
    """The length of the texts in training is positive."""
    if not isinstance(value, Tensor) and not above < value < float("inf"):
        raise ValueError(
            f"trained is {value}, but it is the length of the texts in training, more than {above}: "
            f"use a number of tokens, such as 4096"
        )


def _check_ordered(**bounds: float | Tensor) -> None:
    """Two bounds, the lower first, in turns within the trained length."""
    (low, a), (high, b) = bounds.items()
    if any(
        not isinstance(each, Tensor) and not 0 < each < float("inf") for each in (a, b)
    ):
        raise ValueError(
            f"{low} is {a} and {high} is {b}, but they are turns within the trained length: use positive"
        )
    if not isinstance(a, Tensor) and not isinstance(b, Tensor) and not a < b:
        raise ValueError(
            f"{low} is {a} and {high} is {b}: use {low} < {high}, since a pair that turns more often keeps more of "
            f"its frequency"
        )


def _check_yarn(
    freq: Tensor, form: str, beta_fast: float | Tensor, beta_slow: float | Tensor
) -> None:
    """The two forms of YaRN, and what each needs."""
    if form not in ("paper", "code"):
        raise ValueError(
            f'form is {form!r}: use "paper" (a ramp over turns) or "code" (over the index)'
        )
    equal = not isinstance(beta_fast, Tensor) and beta_fast == beta_slow
    if form == "paper" or not (equal and 0 < beta_fast < float("inf")):
        _check_ordered(beta_slow=beta_slow, beta_fast=beta_fast)
    if form == "code" and not torch.compiler.is_exporting() and freq.shape[-1] < 2:
        raise ValueError(
            f'freq has shape {tuple(freq.shape)}, but form="code" reads the base from two frequencies: use form="paper"'
        )


def _check_divisors(freq: Tensor, **lists: Tensor) -> None:
    """One divisor for each frequency."""
    if torch.compiler.is_exporting():
        return
    for name, value in lists.items():
        if value.shape != freq.shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, but freq has {tuple(freq.shape)}: "
                f"use one divisor for each pair"
            )


def _check_fraction(value: float | Tensor) -> None:
    """A fraction lies between 0 and 1."""
    if not isinstance(value, Tensor) and not 0 <= value <= 1:
        raise ValueError(
            f"fraction is {value}, but it is a share of the pairs: use a number from 0 to 1, such as 0.75"
        )
