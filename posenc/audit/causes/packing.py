"""Documents in one row."""

from __future__ import annotations

from posenc.audit.causes.judgement import FAILS, JUDGES, PASS, PROPERTY, Judgement, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("packed_ids")
def _packed_ids(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.knows("recurrent"):
        return Judgement(PROPERTY, "A state passes from one document to the next.")
    if m.knows("packs"):
        return Judgement(
            FAILS,
            "The second document sees the first, though positions that begin again should separate them.",
            "whether positions reach the function that makes the mask",
        )
    return Judgement(PROPERTY, "Positions that begin again do not separate documents here: that takes a mask.")


@judges("packed_default")
def _packed_default(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.ok("packed_ids"):
        return Judgement(
            PROPERTY, "Documents are separate only where no cache is kept (packed_ids): in training, use_cache=False."
        )
    return JUDGES["packed_ids"](measured, m)
