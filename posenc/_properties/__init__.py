"""What an encoding is like, found by measuring it: any encoding, a reader's own too, and nothing is typed in advance.

A copy of the encoding is put into one layer of attention with random projections, on the CPU and in float64 where
that is possible. All random numbers come from generators of their own, so a report is the same each time.

Whatever an encoding does, a query at i finds two things in a key at j: a score s_ij (what the softmax is taken of)
and a value z_ij (the output if the query attended to this key alone). Most properties are statements about these
two. "Of the spread" means: divided by the root mean square of what is compared, about its mean.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from posenc._properties.differences import NotFinite
from posenc._properties.fitting import fitted, undisturbed
from posenc._properties.found import FAILS, NOT_APPLICABLE, Found, as_power, not_measured, raised
from posenc._properties.probe import TRIED, Probe
from posenc._properties.report import Comparison, Property, Report
from posenc._properties.wishes import WISHES
from posenc.encoding import Encoding

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
    """Measures an encoding, a reader's own too, against the wishes that people have of one.

    Sizes are read from attributes of these names, and where there are none, usual ones are tried. `length` is
    the number of positions that it is measured on, 512 unless it says otherwise. The encoding itself, its mode
    and all random number generators stay as they are. Where its parameters are all zero and position so has no
    effect, the copy gets random ones, and the report's note says so.

    Raises ValueError if it cannot be run with any of the sizes, and TypeError if it is no Encoding.
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"{encoding!r} is no Encoding: pass an instance, such as properties(RoPE(64))")
    given = {"model_dim": model_dim, "heads": heads, "head_dim": head_dim, "length": length}
    with undisturbed():
        probe = fitted(encoding, given)
        note = f"Measured on a copy in {str(probe.dtype).removeprefix('torch.')}, with {probe.sizes()}."
        if probe.randomised:
            names = ", ".join(probe.randomised)
            note += f" All zero, and hence random here, so that position has an effect: {names}."
        found = {}
        for key, (wish, measure) in WISHES.items():
            found[key] = _measured(key, wish, measure, probe.fresh())
    facts = {
        "doors": ", ".join(encoding.doors) or "none",
        "parameters": str(sum(parameter.numel() for parameter in encoding.parameters())),
        "bytes": str(sum(t.numel() * t.element_size() for t in (*encoding.parameters(), *encoding.buffers()))),
        "positions": f"0 to {as_power(probe.last)}" + (" and on" if probe.last == TRIED else ""),
        "backends": ", ".join(name for name, out in probe.outputs.items() if isinstance(out, Tensor)),
    }
    named = "NoPE" if type(encoding) is Encoding else type(encoding).__name__
    return Report(name or named, facts, note, found)


def _measured(name: str, wish: str, measure: Callable[[Probe], Found], probe: Probe) -> Property:
    try:
        found = measure(probe)
        if probe.odd and probe.last == 0 and (found.verdict == NOT_APPLICABLE or name == "unlimited"):
            found = replace(found, finding=f"{found.finding}: {probe.odd}")
    except NotFinite as error:
        found = replace(not_measured(probe.odd or str(error)), verdict=FAILS)
    except Exception as error:  # an encoding may raise anything
        found = not_measured(f"it could not be measured, since it {raised(error)}")
    definition = inspect.getdoc(measure) or ""
    return Property(name, wish, found.verdict, found.value, found.finding, found.conditions, definition, found.draw)


def compare(encodings: Mapping[str, Encoding], **sizes: int) -> Comparison:
    """Measures several encodings, by name; the keywords are those of `properties`, the same for all."""
    return Comparison({name: properties(encoding, name=name, **sizes) for name, encoding in encodings.items()})
