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
        return Judgement(PROPERTY, "A recurrent state passes from one document to the next.")
    if measured.name == "packed_ids" and measured.details["alone"] <= m.tolerance:
        return Judgement(
            FAILS,
            "Alone a row passes, and beside a row whose second document begins elsewhere it does not: boundaries are "
            "made from one row for all, or dropped where a batch has several.",
            "where boundaries are found: for each row of the batch, and for any number of rows",
        )
    if m.knows("packs"):
        return Judgement(
            FAILS,
            "The second document sees the first, although positions that restart should separate them.",
            "whether positions reach the function that makes the mask",
        )
    return Judgement(PROPERTY, "Positions that restart do not separate documents in this model: a mask is needed.")


@judges("packed_default")
def _packed_default(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.ok("packed_ids"):
        return Judgement(
            PROPERTY, "Documents are separated only without a cache (packed_ids): train with use_cache=False."
        )
    return JUDGES["packed_ids"](measured, m)
