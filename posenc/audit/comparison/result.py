"""What `compare` found: differences with their kinds, as text, JSON and a page."""

from __future__ import annotations

import html
import json
import math
import os
import textwrap
from dataclasses import dataclass, field
from typing import Any

from posenc.audit.report import page, written
from posenc.configs.printable import in_json, printable

KINDS = {
    "layout": ("which channels turn together", "the function that turns: rotate_half, view_as_complex, is_neox_style"),
    "base": ("the base of frequencies", "where rope_theta is read, for each kind of layer"),
    "scaling": ("the scaling of frequencies", "rope_scaling or rope_parameters: type, factor, length in training"),
    "partial": ("which channels turn at all", "rotary_dim, partial_rotary_factor, the slice that is turned"),
    "amplitude": ("by how much scores are multiplied", "attention_factor (mscale), and the scale of scores, 1/√d"),
    "direction": ("which way pairs turn", "the sign of the sine"),
    "offset": ("from which number positions are counted", "where positions of queries, keys or a cache are made"),
    "ignored": ("whether positions that are given are read", "what becomes of position_ids on the way to the rotation"),
    "unrotated": ("whether queries or keys turn", "the call of the rotation, for queries, keys and each layer"),
    "rounding": ("the precision of angles or tables", "dtypes of inv_freq, positions, cos and sin; .half(), autocast"),
    "window": ("which keys a query sees", "the sliding window: its width, its end, the layers that have it"),
    "slopes": ("what a distance costs", "ALiBi's slopes: their rule, their order, the sign of j - i"),
    "buckets": ("which distances share a value", "T5's buckets, max_distance, both sides or one"),
    "bias": ("what is added to scores", "the bias or mask of the layer"),
    "layers": ("which layers turn, and by which rates", "the schedule: layer_types, no_rope_layers, local and global"),
    "axes": ("which axis turns which pair", "mrope_section, the order of time, rows and columns"),
    "padding": ("what a padded text gets", "how positions count padding, and where its mask goes"),
    "cache": ("what a text gets through its cache", "the position of a cached token, and keys that are kept"),
    "other": ("something that is not positional", "norms, activations, weights, the soft cap, the last layer"),
}
"""What a kind of difference is about, and where to look."""


@dataclass(frozen=True)
class Difference:
    """One thing in which the two differ.

    Example:
        >>> print(Difference("base", "500,000", "10,000", layers=(0, 1), explains=0.98))
        base, layers 0–1: the reference has 500,000, the candidate 10,000; explains 98%
    """

    kind: str
    """One of `KINDS`."""
    reference: str
    """What the reference does."""
    candidate: str
    """What the candidate does."""
    layers: tuple[int, ...] = ()
    """In which layers, counted from 0; empty where it is about no layer."""
    explains: float | None = None
    """The share of the difference of logits that it explains; None where that was not measured."""
    look: str = ""
    """Where to look."""
    of: str = ""
    """ "queries" or "keys", where it is about one of them."""

    def __str__(self) -> str:
        where = f" ({self.of})" if self.of else ""
        share = "" if self.explains is None else f"; explains {self.explains:.0%}"
        at = f", layer{'s' * (len(self.layers) > 1)} {_ranges(self.layers)}" if self.layers else ""
        return f"{self.kind}{where}{at}: the reference has {self.reference}, the candidate {self.candidate}{share}"


@dataclass(frozen=True)
class Comparison:
    """Two implementations of one model, compared.

    Example:
        >>> from posenc import Transformer
        >>> from posenc.audit import compare
        >>> model = Transformer(16, layers=1, model_dim=16, heads=2)
        >>> print(compare(model, model).summary)
        the same up to rounding (0)
    """

    same: bool
    """Whether logits agree up to rounding, in all that was asked."""
    positional: bool
    """Whether all that differs is positional; True where nothing differs."""
    differences: tuple[Difference, ...] = ()
    """What differs, each kind with its layers."""
    off: float = 0.0
    """The largest difference of logits, over their root mean square."""
    left: float = 0.0
    """The same when the reference does all that is listed, which is what stays unexplained."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What was asked of which sides, by name."""
    notes: tuple[str, ...] = ()
    """What could not be asked or told."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of difference, in order."""
        return tuple(dict.fromkeys(d.kind for d in self.differences))

    @property
    def summary(self) -> str:
        """What was found, in one line."""
        if self.same and not self.differences:
            return f"the same up to rounding ({self.off:.1g})"
        named = ", ".join(self.kinds) or "nothing that has a name"
        if not self.positional:
            listed = [k for k in self.kinds if k != "other"]
            more = f"; positional differences beside it: {', '.join(listed)}" if listed else ""
            return f"NOT POSITIONAL, or not alone: they differ in something else (off {self.off:.2g}){more}"
        return f"positional: {named} (off {self.off:.2g}; {self.left:.1g} stays when the reference does the same)"

    def __str__(self) -> str:
        lines = [self.summary[:1].upper() + self.summary[1:] + "."]
        for d in self.differences:
            lines += textwrap.wrap(f"- {d}", 110, subsequent_indent="  ")
            lines += textwrap.wrap(f"  Look at {d.look}.", 110, subsequent_indent="  ") if d.look else []
        for note in self.notes:
            lines += textwrap.wrap(note, 110)
        return printable("\n".join(lines))

    def __repr__(self) -> str:
        return f"Comparison(same={self.same}, positional={self.positional}, differences={list(self.kinds)})"

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All of it as JSON, written to a file as well where one is named.

        Args:
            path: The file. Default: none.

        Returns:
            The text.
        """
        whole = {
            "same": self.same, "positional": self.positional, "summary": self.summary, "off": _plain(self.off),
            "left": _plain(self.left), **self.facts, "notes": list(self.notes),
            "differences": [
                {"kind": d.kind, "of": d.of, "reference": d.reference, "candidate": d.candidate,
                 "layers": list(d.layers), "explains": _plain(d.explains), "look": d.look}
                for d in self.differences
            ],
        }  # fmt: skip
        return written(in_json(json.dumps(whole, indent=1, ensure_ascii=False)) + "\n", path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page that needs nothing else, written to a file as well where one is named.

        Args:
            path: The file. Default: none.

        Returns:
            The text of the page.
        """
        rows = "".join(
            f'<tr><th scope="row">{html.escape(d.kind)}</th><td>{html.escape(d.of)} {_ranges(d.layers)}</td>'
            f"<td>{'–' if d.explains is None else format(d.explains, '.0%')}</td><td>{html.escape(d.reference)}</td>"
            f"<td>{html.escape(d.candidate)}</td><td>{html.escape(d.look)}</td></tr>\n"
            for d in self.differences
        )
        heads = ("kind", "layers", "explains", "reference", "candidate", "look at")
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>" if rows else ""
        return written(page("Two implementations compared", self.summary, table, self.notes, self.facts), path)


def _plain(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _ranges(layers: tuple[int, ...]) -> str:
    """Numbers of layers, runs of them with a dash.

    Example:
        >>> _ranges((0, 1, 2, 5))
        '0–2, 5'
    """
    runs: list[list[int]] = []
    for n in layers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
