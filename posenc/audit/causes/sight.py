"""What a token sees."""

from __future__ import annotations

from posenc.audit.causes.judgement import BLIND, FAILS, NONE, PASS, PROPERTY, Judgement, judges
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import FOLLOWS

UNSEEN = 1e-9  # below it, a change of logits in float64 is rounding
FOR_ENCODERS = "A question for encoders: a causal model sees no later token."


def encoder(m: Measures) -> bool:
    """Whether tokens look both ways, and nothing says that they should not.

    Where nobody says what the model is, it is an encoder if tokens see as far ahead as back, and there is no cache that
    can be used.
    """
    if m.knows("causal") is not None:
        return not m.knows("causal")
    if not m.bad("future") or not _both_ways(m):
        return False
    return getattr(m.probe.adapter, "step", None) is None or m["step"].off is None


def said(m: Measures) -> str:
    """Who says that a model is causal, or that it is not."""
    if m.causal is not None:
        return f"`causal={m.causal}` was asked for"
    kind = "causal" if m.knows("causal") else "not causal"
    return getattr(m.probe.adapter, "causal_why", "") or f"the model says that it is {kind}"


def _both_ways(m: Measures) -> bool:
    """Whether tokens see all others, or those within a window that is as wide on both sides."""
    ahead, behind = m["future"].details["ahead"], m["future"].details["behind"]
    if not all(seen >= 0.75 * span for _, seen, span in (*ahead, *behind)):
        return False
    wide = [max(span for _, _, span in sides) for sides in (ahead, behind)]
    return _all_others(m) or abs(wide[0] - wide[1]) <= max(1, max(wide) // 4)


def _alone(m: Measures) -> bool:
    """Whether a token changes its own logits alone."""
    return all(span == 0 for _, _, span in (*m["future"].details["ahead"], *m["future"].details["behind"]))


def _all_others(m: Measures) -> bool:
    """Whether each token sees all that follow it; a few may change too little."""
    return all(span == at and seen >= 0.75 * at for at, seen, span in m["future"].details["ahead"])


def ahead(m: Measures) -> str:
    """Why a test fails that compares with the whole text, if a token sees ahead; "" if none does."""
    return f"{FOLLOWS} `future`: tokens see later ones." if m.bad("future") else ""


@judges("future")
def _future(measured: Measurement, m: Measures) -> Judgement:
    if m.ok(measured.name):
        if m.knows("causal") is False:
            if _alone(m):
                return Judgement(FAILS, "No token changes the logits of another.", "whether attention runs at all")
            return Judgement(
                FAILS,
                f"No token sees a later one, although {said(m)}.",
                "the path without a mask, which may be causal (is_causal), and where the configuration is read",
            )
        return Judgement(PASS)
    if encoder(m):
        every = _all_others(m)
        far = max(span for _, _, span in measured.details["ahead"])
        what = (
            "Every token sees all others" if every else f"Tokens see up to {far} later ones, over all layers together"
        )
        why = f": {said(m)}" if m.knows("causal") is False else ". A decoder would need a causal mask"
        return Judgement(PROPERTY, f"{what}, as in an encoder{why}.")
    spans = [span for _, seen, span in measured.details["ahead"] if seen]
    if _all_others(m):
        why = said(m) if m.knows("causal") else "it has a cache, which serves causal models"
        hint = "" if m.knows("causal") else " If it is an encoder, say so with causal=False."
        return Judgement(FAILS, f"Every token sees all others, although {why}.{hint}", "the causal mask")
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
    if not m.knows("causal") and (m.size("future") or 0.0) > 0.01 * m.tolerance:
        return Judgement(
            PROPERTY, "Tokens see later ones (future), though little: attention is nearly uniform at these weights."
        )
    moved = m["prefix_look"].details
    if moved:
        rest = "" if moved["both"] else f", and its {'keys' if moved['of'] == 'queries' else 'queries'} do not"
        both = "queries and keys" if moved["both"] else moved["of"]
        return Judgement(
            FAILS,
            f"No token sees a later one (future), but the {both} of layer {moved['layer']} move with the length of the "
            f"text{rest}: by {moved['by']} where it is {moved['longer']} tokens longer (prefix_look).",
            "a count of tokens that is read after it has moved on, such as that of a cache which layers share",
        )
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


@judges("order_ahead")
def _order_ahead(measured: Measurement, m: Measures) -> Judgement:
    if not encoder(m):
        return Judgement(NONE, FOR_ENCODERS)
    if not m.bad("future"):
        return Judgement(NONE, "No token sees a later one (future).")
    blind = measured.details["blind"]
    if blind or (m.bad("order") and not m.bad(measured.name)):
        where = f" in layer{'s' if len(blind) > 1 else ''} {', '.join(map(str, blind))}" if blind else " (order)"
        return Judgement(
            FAILS,
            f"Earlier tokens are told apart by their distance{where}, and later ones are not.",
            "the sign of distances: a bias, or its buckets, that are made for the past alone (bidirectional)",
        )
    if m.bad(measured.name):
        return Judgement(PASS)
    return Judgement(PROPERTY, "The first logits hardly depend on the order of the tokens after them.")


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


@judges("reach_ahead")
def _reach_ahead(measured: Measurement, m: Measures) -> Judgement:
    if not encoder(m):
        return Judgement(NONE, FOR_ENCODERS)
    ahead, back, room = measured.details["far"], m["reach"].details.get("far"), measured.details["room"]
    if back is None or ahead < 0:
        return Judgement(PROPERTY, "The last token changes no logits.")
    if m.reach is not None and ahead > m.reach:
        return Judgement(
            FAILS,
            f"The last token changes logits of {ahead} earlier ones, but the configuration's windows allow {m.reach}.",
            "whether the mask of the window is applied in this path, on both sides",
        )
    if abs(ahead - back) > max(1, max(ahead, back) // 4):
        both = f"Tokens act on {back} later ones and on {ahead} earlier ones: the windows are wider on one side"
        if m.reach is not None:
            return Judgement(
                FAILS,
                f"{both}, and the configuration has them equal.",
                "the mask of the window: the distance without its sign",
            )
        return Judgement(PROPERTY, f"{both}.")
    if ahead < room - 1:
        return Judgement(PROPERTY, f"The last token changes logits of the {ahead} before it: windows on both sides.")
    return Judgement(PASS, f"The last token changes the logits of all {room - 1} before it.")


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
