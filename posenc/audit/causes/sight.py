"""What a token sees."""

from __future__ import annotations

from posenc.audit.causes.said import FAILS, PASS, PROPERTY, Said, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement


def encoder(m: Measures) -> bool:
    """Whether every token sees all others, and nothing says that it should not."""
    if m.knows("causal") is not None:
        return not m.knows("causal")
    if not m.bad("future") or getattr(m.probe.adapter, "step", None) is not None:
        return False
    return all(seen == at for at, seen, _ in m["future"].details["ahead"])


def ahead(m: Measures) -> str:
    """Why a test fails that compares with the whole text, if a token sees ahead; "" if none does."""
    return "It follows from tokens that see ahead (future)." if m.bad("future") else ""


@judges("future")
def _future(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if encoder(m):
        return Said(
            PROPERTY,
            "Every token sees all others, as in an encoder. If it is meant as a decoder, it has no causal mask.",
        )  # fmt: skip
    spans = [span for _, seen, span in found.details["ahead"] if seen]
    if all(seen == at for at, seen, _ in found.details["ahead"]):
        why = "the model says that it is causal" if m.knows("causal") else "there is a cache, whose tokens cannot"
        return Said(FAILS, f"Every token sees all others, and yet {why}.", "the causal mask")
    if spans and max(spans) <= m.probe.n // 4:
        many = f"{max(spans)} token{'s' if max(spans) > 1 else ''}"
        return Said(
            FAILS, f"Tokens see up to {many} ahead, all layers together.",
            "the diagonal of the causal mask, and convolutions that are padded on both sides",
        )  # fmt: skip
    return Said(
        FAILS, "Some earlier tokens see a later one, and others do not.",
        "axes that are permuted or reshaped on the way to the scores, and biases laid out for another axis",
    )  # fmt: skip


@judges("prefix")
def _prefix(found: Measurement, m: Measures) -> Said:
    if m.ok(found.name):
        return Said(PASS)
    if m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    return Said(
        FAILS, "No token sees a later one (future), but the length of the text changes earlier logits.",
        "what is computed from the length: positions counted from the end, a scale or base that depends on it",
    )  # fmt: skip


@judges("order")
def _order(found: Measurement, m: Measures) -> Said:
    if m.bad(found.name):
        return Said(PASS)
    if found.off:
        return Said(
            PROPERTY, "The order of tokens is hardly seen, so other tests see little too: attention is nearly uniform "
            "at these weights, or the model uses its past little.",
        )  # fmt: skip
    return Said(PROPERTY, "The last logit does not see the order of the tokens before it.")


@judges("reach")
def _reach(found: Measurement, m: Measures) -> Said:
    far, room = found.details["far"], found.details["room"]
    if far < 0:
        return Said(PROPERTY, "The first token changes nothing.")
    if m.reach is not None and far > m.reach:
        return Said(
            FAILS, f"The first token acts on {far} later ones, and windows of the configuration allow {m.reach}.",
            "whether the mask of the window is applied in this path",
        )  # fmt: skip
    if far == 0:
        return Said(PROPERTY, "The first token acts on no later one.")
    if far < room - 1:
        return Said(
            PROPERTY, f"The first token acts on the next {far} of {room - 1}: a window, or attention that fades."
        )
    return Said(PASS, f"The first token acts on all {room - 1} that follow.")


@judges("gradient")
def _gradient(found: Measurement, m: Measures) -> Said:
    if found.details["lost"] and m.bad("future"):
        return Said(PROPERTY if encoder(m) else FAILS, ahead(m))
    if found.details["lost"]:
        return Said(
            FAILS, f"Tokens at {found.details['lost']} change the last logits and get no gradient.",
            "detach, no_grad, rounding or argmax on the way from the embedding",
        )  # fmt: skip
    if found.details["unseen"]:
        return Said(
            PROPERTY, f"Tokens at {found.details['unseen']} get none, and change nothing: they are not selected."
        )
    return Said(PASS)
