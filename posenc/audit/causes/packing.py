"""Documents in one row."""

from __future__ import annotations

from posenc.audit.causes.said import FAILS, JUDGES, PASS, PROPERTY, Said, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


@judges("packed_ids")
def _packed_ids(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.knows("recurrent"):
        return Said(PROPERTY, "A state passes from one document to the next.")
    if m.knows("packs"):
        return Said(
            FAILS, "The second document sees the first, though positions that begin again should separate them.",
            "whether positions reach the function that makes the mask",
        )  # fmt: skip
    return Said(PROPERTY, "Positions that begin again do not separate documents here: that takes a mask.")


@judges("packed_default")
def _packed_default(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.ok("packed_ids"):
        return Said(
            PROPERTY, "Documents are separate only where no cache is kept (packed_ids): in training, use_cache=False.",
        )  # fmt: skip
    return JUDGES["packed_ids"](found, m)
