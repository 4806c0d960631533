"""Measured properties of an encoding: of the schemes in this package and of a reader's own.

A copy of the encoding is put into one layer of attention with random projections, on the CPU and in float64 where
that is possible. All random numbers come from separate generators with fixed seeds, so reports are reproducible.

For any encoding, a query at i meets two things in a key at j: a score s_ij, the input of the softmax, and a value
z_ij, the output if the query attended to this key alone. Most properties are statements about these two. "Of the
spread" means: divided by the standard deviation of the numbers that are compared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._properties.differences import NotFinite
from posenc._properties.isolation import undisturbed
from posenc._properties.probe import FURTHEST, Probe
from posenc._properties.report import Comparison, Property, Report
from posenc._properties.result import FAILS, NOT_APPLICABLE, Measurement, as_power, not_measured, raised
from posenc._properties.sizes import probe_for
from posenc._properties.wishes import WISHES

__all__ = ["WISHES", "Comparison", "Property", "Report", "compare", "properties"]


def properties(
    encoding: Encoding,
    *,
    model_dim: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    length: int | None = None,
    name: str | None = None,
) -> Report:
    """Measures an encoding against the fourteen wishes in `WISHES`.

    Sizes that are not given are read from attributes of the same names; if there are none, usual sizes are tried. The
    measurement takes about a second. It changes neither the encoding nor any random number generator. An encoding
    whose parameters are all zero, so that position has no effect, is measured with random parameters, and the
    report's note says so.

    Args:
        encoding: The encoding, in the mode (training or not) in which it is to be measured.
        model_dim: The width of the residual stream, D. Default: `heads * head_dim`.
        heads: The number of heads, H. Default: `model_dim / head_dim`, or 4.
        head_dim: The channels of a head, d. Default: `model_dim / heads`, or 16.
        length: The number of positions. Default: 512.
        name: The name in the report. Default: the name of the class.

    Returns:
        A `Report` with one `Property` for each wish.

    Raises:
        TypeError: If `encoding` is not an `Encoding`, or one of its doors does not return a tensor.
        ValueError: If it runs with none of the sizes.

    Example:
        >>> from posenc import RoPE, properties
        >>> properties(RoPE(16), length=16)["relative"]
        relative: holds; moved by 1, 413, 634, 1000, outputs change by less than 0.001 of the spread
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"{encoding!r} is no Encoding: pass an instance, such as properties(RoPE(64))")
    given = {"model_dim": model_dim, "heads": heads, "head_dim": head_dim, "length": length}
    with undisturbed():
        probe = probe_for(encoding, given)
        note = f"Measured on a copy in {str(probe.dtype).removeprefix('torch.')}, with {probe.sizes()}."
        if probe.randomised:
            names = ", ".join(probe.randomised)
            note += f" All zero, and hence random here, so that position has an effect: {names}."
        results = {key: _property(key, wish, measure, probe.fresh()) for key, (wish, measure) in WISHES.items()}
    last = probe.last_position
    facts = {
        "doors": ", ".join(encoding.doors) or "none",
        "parameters": str(sum(parameter.numel() for parameter in encoding.parameters())),
        "bytes": str(sum(t.numel() * t.element_size() for t in (*encoding.parameters(), *encoding.buffers()))),
        "positions": f"0 to {as_power(last)}" + (" and on" if last == FURTHEST else ""),
        "backends": ", ".join(name for name, out in probe.backend_outputs.items() if isinstance(out, Tensor)),
    }
    class_name = "NoPE" if type(encoding) is Encoding else type(encoding).__name__
    return Report(name or class_name, facts, note, results)


def _property(name: str, wish: str, measure: Callable[[Probe], Measurement], probe: Probe) -> Property:
    """The result of one measure. An encoding may raise anything, and the finding then says so."""
    try:
        result = measure(probe)
        nowhere = probe.nonfinite and probe.last_position == 0
        if nowhere and (result.verdict == NOT_APPLICABLE or name == "unlimited"):
            result = replace(result, finding=f"{result.finding}: {probe.nonfinite}")
    except NotFinite as error:
        result = replace(not_measured(probe.nonfinite or str(error)), verdict=FAILS)
    except Exception as error:
        result = not_measured(f"it could not be measured, since it {raised(error)}")
    definition = inspect.getdoc(measure) or ""
    return Property(
        name, wish, result.verdict, result.value, result.finding, result.conditions, definition, result.draw
    )


def compare(encodings: Mapping[str, Encoding], **sizes: int) -> Comparison:
    """Measures several encodings and puts their reports side by side.

    Args:
        encodings: The encodings by name.
        **sizes: `model_dim`, `heads`, `head_dim` and `length` as in `properties`, the same for all.

    Returns:
        A `Comparison`, shown as a table with a column for each encoding.

    Raises:
        TypeError: If one of them is not an `Encoding`.
        ValueError: If one of them runs with none of the sizes.

    Example:
        >>> from posenc import NoPE, RoPE, compare
        >>> compare({"nope": NoPE(), "rope": RoPE(16)}, length=16)["rope"]["unique"].verdict
        'holds'
    """
    return Comparison({name: properties(encoding, name=name, **sizes) for name, encoding in encodings.items()})
