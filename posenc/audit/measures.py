"""What has been measured: each test runs when its number is first asked for, by a row of the report or as a partner."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from typing import Any

import torch

from posenc.audit.adapters.copies import copied
from posenc.audit.adapters.protocol import Adapter
from posenc.audit.checks import measure
from posenc.audit.probe import Measurement, Probe
from posenc.audit.silence import quiet

FILLING = ("step", "step_ids", "chunks", "chunks_ids", "chunk_sizes")
"""Tests whose texts have to be longer than a window."""
SINGLE = ("shift_single",)
"""Tests that are about float32."""
DTYPE = re.compile(r"dtype|[Dd]ouble|same type|Half|[Ff]loat|not implemented for")


class Measures:
    """Measurements by name, each taken once.

    Args:
        probe: The model and its text.
        expects: "relative", "absolute" or "none", where somebody says what positions should do.
        reach: How far a token may act, where somebody says that all layers have a window.
        causal: Whether tokens may see only what lies before them. Default: what the adapter says.
    """

    def __init__(
        self, probe: Probe, *, expects: str | None = None, reach: int | None = None, causal: bool | None = None
    ) -> None:
        self.probe, self.expects, self.reach, self.causal = probe, expects, reach, causal
        self.tolerance = probe.tolerance
        self._said = io.StringIO()
        self.in_single: list[str] = []
        """Tests that ran in float32, since float64 does not run or is not finite there."""
        self._single: Probe | None = None
        self._variants: Mapping[str, Adapter] | None = None
        self._known: dict[str, Measurement] = {}
        self._errors: dict[str, str] = {}

    def __getitem__(self, name: str) -> Measurement:
        if name not in self._known:
            self._known[name] = self._measured(name)
        return self._known[name]

    def size(self, name: str) -> float | None:
        """How far it is off; None where there is no number."""
        return self[name].off

    def ok(self, name: str) -> bool:
        """Whether there is a number, and it is rounding."""
        off = self[name].off
        return off is not None and off <= self.tolerance

    def bad(self, name: str) -> bool:
        """Whether there is a number, and it is not rounding: NaN is bad, too."""
        off = self[name].off
        return off is not None and not off <= self.tolerance

    def raised_before(self, measured: Measurement) -> str:
        """The test, asked before, that raised the same error; "" if none did: one mistake is one row."""
        message = re.sub(r"\d+", "#", measured.refused or "")
        first = self._errors.setdefault(message, measured.name)
        return "" if first == measured.name else first

    def knows(self, attribute: str) -> bool | None:
        """What the adapter says of the model: `causal`, `recurrent`, `packs`; None if it does not say.

        Who asks for the audit knows better than the adapter whether it should be causal.
        """
        if attribute == "causal" and self.causal is not None:
            return self.causal
        answer = getattr(self.probe.adapter, attribute, None)
        return None if answer is None else bool(answer)

    @property
    def double(self) -> bool:
        """Whether weights are in float64, which casts to 16 bits may leave alone."""
        module = self.probe.adapter.module
        return module is not None and any(p.dtype == torch.float64 for p in module.parameters())

    @property
    def printed(self) -> int:
        """How many lines the model has printed."""
        return self._said.getvalue().count("\n")

    def healed(self, name: str) -> str:
        """The first of the adapter's variants under which a test passes, in words; "" if there is none."""
        if self._variants is None:
            make = getattr(self.probe.adapter, "variants", None)
            try:
                self._variants = make() if make is not None else {}
            except Exception:  # a partner that cannot be made decides nothing
                self._variants = {}
        for words, adapter in self._variants.items():
            try:
                with quiet(self._said):
                    probe = Probe(adapter, **self._same())
                    measured = measure(name, self._timed(probe))
            except Exception:
                continue
            if measured.off is not None and measured.off <= self.tolerance:
                return words
        return ""

    def _window(self) -> int:
        """How many tokens a layer with a window sees: as the configuration says, or at most, as `reach` shows."""
        backs = [layer.back for layer in self.probe.layers if layer.back not in (None, -1)]
        if backs or self.probe.layers:
            return max(backs, default=-1) + 1
        details = self["reach"].details
        far = details.get("far", 0)
        return far + 1 if 0 < far < details["room"] - 1 else 0

    def _measured(self, name: str) -> Measurement:
        if name in FILLING and getattr(self.probe.adapter, "step", None) is not None:
            self.probe.window = self._window()
        with quiet(self._said):
            if name not in ("again", "again_seeded", "fresh") and "fresh" in self._known and self.bad("fresh"):
                self.probe.deadline = float("inf")  # that of the test before has passed
                self.probe.refresh()
            single = self._in_single() if name in SINGLE and self.double else None
            measured = measure(name, self._timed(single or self.probe))
            odd = (measured.off is not None and measured.off != measured.off) or (
                measured.raised and DTYPE.search(str(measured.refused))
            )
            if odd and self.probe.full.dtype == torch.float64 and (single := self._in_single()) is not None:
                in_float32 = measure(name, self._timed(single))
                if not in_float32.raised or in_float32.off is not None:
                    self.in_single.append(name)
                    measured = in_float32
        return measured

    def _in_single(self) -> Probe | None:
        """The same model in float32."""
        if self._single is None and self.probe.adapter.module is not None:
            try:
                self._single = Probe(copied(self.probe.adapter, torch.float32), **self._same())
                self._single.reference, self._single.angles = self.probe.reference, self.probe.angles
                self._single.reading = self.probe.reading
                self._single.layers, self._single.rotations = self.probe.layers, self.probe.rotations
            except Exception:  # then float64 has to do
                return None
        return self._single

    def _same(self) -> dict[str, Any]:
        p = self.probe
        return {"tokens": p.n, "seed": p.seed, "tolerance": p.tolerance, "seconds": p.seconds}

    def _timed(self, probe: Probe) -> Probe:
        probe.deadline = time.monotonic() + probe.seconds
        return probe
