"""A failing row as lines of plain torch, for a bug report: what goes in, and the number that should be 0."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from posenc.audit.probe import PADS, Probe

HEAD = """\
import torch

model = ...  # yours, in eval mode
torch.manual_seed(0)
{weights}{helpers}
x = torch.tensor({tokens})
with torch.no_grad():
{body}
print((a - b).abs().max().item() / b.square().mean().sqrt().item())  # should be rounding
"""
WEIGHTS = """\
with torch.no_grad():
    for p in model.parameters():  # weights at which positions matter
        if p.ndim > 1:
            p.normal_(std=p[0].numel() ** -0.5)
"""
LOGITS = """
def logits(*given, **named):
    out = model(*given, **named)
    out = getattr(out, "logits", out)
    return out[0] if isinstance(out, tuple) else out

"""
STEP = {
    "own": """
def step(x, state, **named):
    return model.step(x, state, **named)

""",
    "state": """
def step(x, state, **named):
    out = model(x, {name}=state{cache}, **named)
    return (out[0], out[1]) if isinstance(out, tuple) else (out.logits, out.{name})

""",
}
PAD = "torch.cat((torch.zeros(1, 5, dtype=torch.long), x), 1)"
BODIES = {
    "again": "a, b = logits(x), logits(x)",
    "neighbours": "others = torch.randint({low}, {high}, (2, {n}))\n"
    "a, b = logits(torch.cat((others[:1], x, others[1:])))[1:2], logits(x)",
    "future": "later = x.clone()\nlater[:, -1] = {other}\na, b = logits(later)[:, :-1], logits(x)[:, :-1]",
    "prefix": "a, b = logits(x[:, :{half}]), logits(x)[:, :{half}]",
    "arange": "a, b = logits(x, {pos}=torch.arange({n})[None]), logits(x)",
    "shift": "pos = torch.arange({n})[None]\na, b = logits(x, {pos}=pos + 50), logits(x, {pos}=pos)",
    "right_pad": "longer = torch.cat((x, torch.zeros(1, 5, dtype=torch.long)), 1)\n"
    "real = (torch.arange({n} + 5) < {n}).long()[None]\na, b = logits(longer, {mask}=real)[:, :{n}], logits(x)",
    "left_pad": "longer, real = {PAD}, (torch.arange({n} + 5) >= 5).long()[None]\n"
    "a, b = logits(longer, {mask}=real)[:, 5:], logits(x)",
    "left_pad_ids": "longer, real = {PAD}, (torch.arange({n} + 5) >= 5).long()[None]\n"
    "pos = (real.cumsum(-1) - 1).clamp(min=0)\na, b = logits(longer, {mask}=real, {pos}=pos)[:, 5:], logits(x)",
    "packed_ids": "two = torch.cat((torch.randint({low}, {high}, (2, 9)), x.expand(2, -1)), 1)\n"
    "pos = torch.cat((torch.arange(9), torch.arange({n})))[None].repeat(2, 1)\n"
    "a, b = logits(two, {pos}=pos)[:1, 9:], logits(x)",
    "step": "first, state = step(x[:, :{prompt}], None)\nparts = [first]\nfor t in range({prompt}, {n}):\n"
    "    out, state = step(x[:, t : t + 1], state)\n    parts.append(out)\na, b = torch.cat(parts, 1), logits(x)",
    "step_ids": "pos = torch.arange({n})[None]\nfirst, state = step(x[:, :{prompt}], None, {pos}=pos[:, :{prompt}])\n"
    "parts = [first]\nfor t in range({prompt}, {n}):\n"
    "    out, state = step(x[:, t : t + 1], state, {pos}=pos[:, t : t + 1])\n    parts.append(out)\n"
    "a, b = torch.cat(parts, 1), logits(x)",
    "chunks": "parts, state = [], None\nfor part in x.split({sizes}, 1):\n    out, state = step(part, state)\n"
    "    parts.append(out)\na, b = torch.cat(parts, 1), logits(x)",
    "embeds": "a, b = logits(inputs_embeds=model.get_input_embeddings()(x)), logits(x)",
}
"""Two ways to the same logits, a and b, by the test."""


def reproduction(name: str, p: Probe, drawn: bool = True) -> str:
    """Lines of plain torch that show what a test found; "" for a test that has none, or a model with names of its own.

    Args:
        name: The test.
        p: The model, and the text.
        drawn: Whether weights were drawn anew. Default: True.
    """
    called = _names(p.adapter)
    body = BODIES.get(name)
    if body is None or called is None or p.adapter.module is None:
        return ""
    longer = p.filling if name in ("step", "step_ids", "chunks", "chunks_ids") else p
    n = longer.n
    sizes = [n * 7 // 24, 1, n * 5 // 24]
    given: dict[str, Any] = {
        "n": n, "low": p.low, "high": p.adapter.vocabulary, "half": n // 2 - 1, "prompt": n * 5 // 12, "PAD": PAD,
        "sizes": [*sizes, n - sum(sizes)], "other": p.other(longer.x), "pos": called["positions"],
        "mask": called["mask"],
    }  # fmt: skip
    helpers = LOGITS
    if "step(" in body:
        if not called["step"]:
            return ""
        helpers += STEP[called["step"]].format(name=called["state"], cache=called["cache"])
    elif ("{pos}" in body and not called["positions"]) or ("{mask}" in body and not called["mask"]):
        return ""
    lines = body.format(**given)
    if name == "embeds" and not hasattr(p.adapter.module, "get_input_embeddings"):
        return ""
    indented = "\n".join(f"    {line}" for line in lines.split("\n"))
    return HEAD.format(
        weights=WEIGHTS if drawn else "", helpers=helpers.rstrip("\n"), tokens=_listed(longer.x), body=indented
    )


def _names(adapter: Any) -> dict[str, str] | None:
    """By which names the model takes what it takes; None where an adapter of somebody's stands between."""
    if hasattr(adapter, "state_name"):  # Called
        own = getattr(adapter.step, "__name__", "") == "_own_step" if adapter.step else False
        return {
            "positions": adapter.position_name or "", "mask": adapter.mask_name or "",
            "step": "own" if own else "state" if adapter.step else "", "state": adapter.state_name or "",
            "cache": ", use_cache=True" if adapter.use_cache else "",
        }  # fmt: skip
    if hasattr(adapter, "says_use_cache") and adapter.position_name == "position_ids":  # of transformers
        return {
            "positions": adapter.position_name if adapter.takes_positions else "",
            "mask": adapter.mask_name if adapter.takes_mask else "",
            "step": "state", "state": "past_key_values", "cache": ", use_cache=True",
        }  # fmt: skip
    return None


def _listed(x: Tensor) -> str:
    return str(x.tolist()).replace(" ", "") if x.shape[1] > PADS * 20 else str(x.tolist())
