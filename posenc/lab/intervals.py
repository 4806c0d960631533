"""How sure a number is: 95 % intervals over seeds and texts, and of success rates.

Models with other seeds would have done a little better or worse, and so would the same models on other texts. The
choice of text is by far the larger part here, but two models that read the same texts share it: intervals are of
*paired* differences, text by text and seed by seed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CONFIDENCE = 0.95
Z = 1.959963984540054  # of the normal distribution, for CONFIDENCE


@dataclass(frozen=True)
class Interval:
    """An estimate and the 95 % interval around it.

    Example:
        >>> effect = Interval(0.123, 0.08, 0.166)
        >>> print(effect, f"{effect:+.3f}", effect.clear)
        0.12 (0.08 to 0.17) +0.123 (+0.080 to +0.166) True
        >>> print(-effect)
        -0.12 (-0.17 to -0.08)
    """

    mean: float
    """The estimate."""
    low: float
    """The lower end."""
    high: float
    """The upper end."""

    @property
    def clear(self) -> bool:
        """Whether 0 lies outside."""
        return self.low > 0 or self.high < 0

    def __neg__(self) -> "Interval":
        return Interval(-self.mean, -self.high, -self.low)

    def __format__(self, form: str) -> str:
        mean, low, high = (format(value, form or ".2f") for value in (self.mean, self.low, self.high))
        return f"{mean} ({low} to {high})"

    def __str__(self) -> str:
        return format(self, "")


def crossed(values: Tensor | Sequence[Sequence[float]]) -> Interval:
    """The mean over seeds and texts, if every seed's model reads the same texts.

    The variance of the mean is the seeds' part, plus the texts' part, less the rest that both contain; its degrees of
    freedom are Satterthwaite's. With three seeds a bootstrap would make the seeds' part a third too small.

    Args:
        values: One number for each seed and text, (S, T), such as losses, or differences of two models. With one seed
            the interval is about this one model.

    Returns:
        An `Interval`.

    Raises:
        ValueError: If there are fewer than two texts.

    Example:
        >>> values = torch.tensor([[1.0, 2.0, 3.0], [1.2, 2.2, 3.2]])
        >>> print(crossed(values))
        2.10 (-0.29 to 4.49)
    """
    values = torch.as_tensor(values, dtype=torch.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        raise ValueError(f"values have shape {tuple(values.shape)}: use (seeds, texts), with two texts or more")
    (seeds, texts), mean = values.shape, values.mean().item()
    by_seed, by_text = values.mean(1), values.mean(0)
    text_part = by_text.var().item() / texts
    if seeds == 1:
        half = student(texts - 1) * math.sqrt(text_part)
        return Interval(mean, mean - half, mean + half)
    seed_part = by_seed.var().item() / seeds
    rest = (values - by_seed[:, None] - by_text + mean).square().sum().item() / ((seeds - 1) * (texts - 1))
    variance = max(seed_part + text_part - rest / (seeds * texts), seed_part, text_part)
    if not variance:
        return Interval(mean, mean, mean)
    freedom = variance**2 / (seed_part**2 / (seeds - 1) + text_part**2 / (texts - 1))
    half = student(max(1.0, freedom)) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean over seeds where each has a single number, so that there are no texts to vary.

    Args:
        values: One number for each seed.

    Returns:
        An `Interval` by Student's distribution.

    Raises:
        ValueError: If there are fewer than two numbers.

    Example:
        >>> print(over_seeds([0.50, 0.52]))
        0.51 (0.38 to 0.64)
    """
    if len(values) < 2:
        raise ValueError(f"there is {len(values)} number: an interval over seeds needs two or more")
    numbers = torch.tensor(values, dtype=torch.float64)
    mean, half = numbers.mean().item(), student(len(values) - 1) * (numbers.std() / math.sqrt(len(values))).item()
    return Interval(mean, mean - half, mean + half)


def middle(values: Sequence[float]) -> Interval:
    """The median of times, or of whatever else has outliers, with an interval that assumes nothing of their law.

    A number lies below the median as a coin falls. So the interval goes from the k-th smallest to the k-th largest,
    for the largest k that holds the median in 95 of 100 cases.

    Args:
        values: Six numbers or more.

    Returns:
        An `Interval`, whose `mean` is the median.

    Raises:
        ValueError: If there are fewer than six numbers: even from the smallest to the largest is then too short.

    Example:
        >>> print(middle([1.0, 1.1, 1.2, 1.3, 1.4, 9.0]))
        1.25 (1.00 to 9.00)
    """
    found = sorted(values)
    count, outside, cut = len(found), 0, 0
    while 2 * (outside + math.comb(count, cut)) <= (1 - CONFIDENCE) * 2**count:
        outside += math.comb(count, cut)
        cut += 1
    if not cut:
        raise ValueError(f"there are {count} numbers: the 95 % interval of a median needs six or more")
    median = (found[(count - 1) // 2] + found[count // 2]) / 2
    return Interval(median, found[cut - 1], found[-cut])


def wilson(successes: int, count: int) -> Interval:
    """The success rate of independent trials, with Wilson's interval.

    Args:
        successes: How many of them succeeded.
        count: The number of trials.

    Returns:
        An `Interval` within 0 and 1.

    Raises:
        ValueError: If there are no trials, or more successes than trials.

    Example:
        >>> print(wilson(3, 3))
        1.00 (0.44 to 1.00)
    """
    if not 0 <= successes <= count or count < 1:
        raise ValueError(f"{successes} successes in {count} trials: use 1 trial or more, and 0 to all of them")
    rate, spread = successes / count, Z**2 / count
    middle = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread**2 / 4) / (1 + spread)
    return Interval(rate, max(0.0, min(rate, middle - half)), min(1.0, max(rate, middle + half)))


def student(freedom: float) -> float:
    """The number of standard errors on each side of a 95 % interval, from Student's distribution.

    Args:
        freedom: Degrees of freedom, 1 or more; need not be whole.

    Returns:
        The 97.5 % quantile, such as 12.71 for 1 and 1.96 for very many.

    Example:
        >>> f"{student(2):.2f}, {student(63):.2f}"
        '4.30, 2.00'
    """
    if freedom < 1:
        raise ValueError(f"freedom is {freedom}: use 1 or more")
    # With x = √ν tan φ the density is proportional to cos^(ν - 1) φ, from 0 to π/2; ten deviations are all of it.
    angle = torch.linspace(0, min(math.pi / 2, 10 / math.sqrt(freedom)), 10_001, dtype=torch.float64)
    area = torch.cumulative_trapezoid(angle.cos().pow(freedom - 1), angle)
    at = int(torch.searchsorted(area, CONFIDENCE * area[-1]))
    before = area[at - 1].item() if at else 0.0
    part = (CONFIDENCE * area[-1].item() - before) / (area[at].item() - before)
    return math.sqrt(freedom) * math.tan((at + part) * angle[1].item())
