"""Does something cast to 16 bits, so that angles are rounded although weights are not?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from posenc.audit.checks import Outcome, check
from posenc.audit.probe import Probe

SIXTEEN = (torch.bfloat16, torch.float16)


@check("whether something is computed in 16 bits, or would be but for float64", partner=True)
def casts(p: Probe) -> float:
    with Casts(p.device.type) as seen:
        p.logits(p.x)
    return float(seen.found)


@check("all positions move by 1 and by 1000, in float32", partner=True)
def shift_single(p: Probe) -> Outcome:
    here = p.logits(p.x, p.pos)
    near = p.off(p.logits(p.x, p.pos + 1), here)
    return Outcome(p.off(p.logits(p.x, p.pos + 1000), here), details={"near": near})


class Casts(TorchFunctionMode):
    """Looks whether autocast is on, or anything comes out in 16 bits.

    Args:
        device: Its type, such as "cpu".
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.found = device, False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if not self.found:
            rounded = isinstance(out, Tensor) and out.dtype in SIXTEEN
            self.found = rounded or torch.is_autocast_enabled(self.device)
        return out
