"""What a token sees."""

from __future__ import annotations

from posenc.audit.causes.judgement import BLIND, FAILS, PASS, PROPERTY, Judgement, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement

UNSEEN = 1e-9  # below it, a change of logits in float64 is rounding


def encoder(m: Measures) -> bool:
    """Whether every token sees all others, and nothing says that it should not."""
    if m.knows("causal") is not None:
        return not m.knows("causal")
    if not m.bad("future") or getattr(m.probe.adapter, "step", None) is not None:
        return False
    return all(seen == at for at, seen, _ in m["future"].details["ahead"])


def ahead(m: Measures) -> str:
    """Why a test fails that compares with the whole text, if a token sees ahead; "" if none does."""
    return "It follows from `future`: tokens see later ones." if m.bad("future") else ""


@judges("future")
def _future(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if encoder(m):
        return Judgement(
            PROPERTY,
            "Every token sees all others, as in an encoder. A decoder would need a causal mask.",
        )
    spans = [span for _, seen, span in measured.details["ahead"] if seen]
    if all(seen == at for at, seen, _ in measured.details["ahead"]):
        why = "the model says that it is causal" if m.knows("causal") else "it has a cache, which serves causal models"
        return Judgement(FAILS, f"Every token sees all others, although {why}.", "the causal mask")
    if spans and max(spans) <= m.probe.n // 4:
        many = f"{max(spans)} token{'s' if max(spans) > 1 else ''}"
        return Judgement(
            FAILS,
            f"Tokens see up to {many} ahead, over all layers together.",
            "the diagonal of the causal mask, and convolutions that are padded on both sides",
        )
    return Judgement(
        FAILS,
        "Some tokens see a later one, and others do not.",
        "axes that are permuted or reshaped on the way to the scores, and biases laid out for another axis",
    )


@judges("prefix")
def _prefix(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        return Judgement(PASS)
    if m.bad("future"):
        return Judgement(PROPERTY if encoder(m) else FAILS, ahead(m))
    return Judgement(
        FAILS,
        "No token sees a later one (future), but the length of the text changes earlier logits.",
        "what is computed from the length: positions counted from the end, a scale or base that depends on it",
    )


@judges("order")
def _order(measured: Measurement, m: Measures) -> Judgement:
    if m.bad(measured.name):
        return Judgement(PASS)
    if measured.off and measured.off > UNSEEN:
        return Judgement(
            BLIND,
            "The order of tokens hardly matters, so the other tests can find little: attention is nearly uniform with "
            "these weights, or the model hardly uses its past.",
        )
    if m.expects in ("relative", "absolute") and (m.size("reach_near") or 0.0) > UNSEEN:
        return Judgement(
            FAILS,
            f"The order of tokens is not seen at all, though the scheme should be {m.expects}: no position enters.",
            "whether the encoding is applied, with angles, slopes or entries that are not zero",
        )
    return Judgement(
        PROPERTY, "The order of tokens is not seen at all: the last logits do not depend on it, so no position enters."
    )


@judges("reach")
def _reach(measured: Measurement, m: Measures) -> Judgement:
    far, room = measured.details["far"], measured.details["room"]
    if far < 0:
        return Judgement(PROPERTY, "The first token changes no logits.")
    if m.reach is not None and far > m.reach:
        return Judgement(
            FAILS,
            f"The first token changes logits of {far} later ones, but the configuration's windows allow {m.reach}.",
            "whether the mask of the window is applied in this path",
        )
    if far == 0:
        return Judgement(PROPERTY, "The first token changes only its own logits.")
    if far < room - 1:
        return Judgement(
            PROPERTY,
            f"The first token changes logits of the next {far} of {room - 1}: a window, or attention that fades.",
        )
    return Judgement(PASS, f"The first token changes the logits of all {room - 1} that follow.")


@judges("gradient")
def _gradient(measured: Measurement, m: Measures) -> Judgement:
    if measured.details["lost"] and m.bad("future"):
        return Judgement(PROPERTY if encoder(m) else FAILS, ahead(m))
    if measured.details["lost"]:
        return Judgement(
            FAILS,
            f"Tokens at positions {measured.details['lost']} change the last logits, but get no gradient.",
            "detach, no_grad, rounding or argmax on the way from the embedding",
        )
    if measured.details["unseen"]:
        return Judgement(
            PROPERTY,
            f"Tokens at positions {measured.details['unseen']} get no gradient, and change nothing: none is selected.",
        )
    return Judgement(PASS)
