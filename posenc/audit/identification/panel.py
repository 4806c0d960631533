"""`identifier`: a panel in which a reader drops a dump. The page's own script reads it, or the kernel's `identify`."""

from __future__ import annotations

import base64
import html
import io
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc._explore.page import escaped, summary
from posenc._explore.panel import Widget
from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification import given
from posenc.audit.identification.asked import matrix_of, of_arrays
from posenc.audit.identification.rotation import NAMES, WHO
from posenc.book.notebook import book_mode
from posenc.pictures import plot
from posenc.pictures.views import Lines

Dump = Sequence[Any] | Tensor | Mapping[str, Any]


def identifier(
    samples: Mapping[str, Dump], *, title: str = "What rotation or bias is this?", caption: str = "", name: str = "dump"
) -> Identifier | IdentifierPage:
    """A panel in which a reader drops a dump, and reads which rotation or bias it holds.

    In a notebook `identify` answers. In a built page the reader's browser does, in the same words, and the file stays
    there.

    Args:
        samples: Dumps that are there to be tried, by their titles, as `identify` takes them: (before, after,
            positions) of a rotation, a bias or a mask (H, L, L), or scores (before, after) it. The answer to the first
            is shown at the start.
        title: Of the panel. Default: "What rotation or bias is this?".
        caption: One sentence below the title.
        name: Identifies the panel on its page. Default: "dump".

    Returns:
        An `Identifier`, a widget, where a kernel runs; in the build of the book an object that shows itself as HTML.

    Raises:
        ValueError: If there is no sample, or `identify` refuses one.

    Example:
        >>> import torch
        >>> from posenc import frequencies, rotate
        >>> from posenc.audit import identifier
        >>> x, pos = torch.randn(2, 4, 24, 64), torch.arange(24)
        >>> identifier({"Llama 3": (x, rotate(x, pos, frequencies(64, 500_000.0), layout="half"), pos)})
        identifier with the samples “Llama 3”
    """
    if not samples:
        raise Unfit("samples is empty: give one dump or more by its title, {title: (before, after, positions)}")
    spec = _spec(samples, title, caption)
    return IdentifierPage(spec, name) if book_mode() else Identifier(spec)


def _spec(samples: Mapping[str, Dump], title: str, caption: str) -> dict[str, Any]:
    """What the front end reads: samples as files, and the answer to the first."""
    named = {each: _named_arrays(dump) for each, dump in samples.items()}
    files = [
        {"title": each, "name": f"{_slug(each)}.npz", "bytes": base64.b64encode(_file(arrays)).decode()}
        for each, arrays in named.items()
    ]
    answers = [answer(*given.chosen(arrays)) for arrays in named.values()]
    return {
        "kind": "dump", "title": title, "caption": caption, "controls": [], "samples": files, "who": WHO,
        "names": NAMES, "shown": {**answers[0], "opened": _opened(next(iter(named.values())))},
    }  # fmt: skip


def _named_arrays(dump: Dump) -> dict[str, Tensor]:
    """The arrays of a sample by the names that a file would give them."""
    if not isinstance(dump, Mapping):
        several = list(dump) if isinstance(dump, tuple | list) else [dump]
        kinds = {len(roles): roles for roles in given.KINDS.values()}
        if len(several) not in kinds:
            raise Unfit(
                f"a sample has {len(several)} arrays: use (before, after, positions), scores (before, after), or a bias"
            )
        dump = {known[0]: each for known, each in zip(kinds[len(several)], several, strict=True)}
    return {name: torch.as_tensor(each).detach().cpu() for name, each in dump.items()}


def answer(kind: str, arrays: list[Any], heads: str | None = None) -> dict[str, Any]:
    """What the panel shows of a dump: the fields of what was found, and what is printed of it.

    A bias has a curve as well, what each distance costs.
    """
    if kind == "rotation":
        found = of_arrays(kind, arrays, heads)
        return {"found": found.to_dict(), "said": list(found.sentences)}
    matrix = matrix_of(kind, arrays)
    bias, (offsets, costs) = matrix.found(), matrix.by_distance()
    curve = {"offsets": offsets.tolist(), "logits": costs.tolist()}
    return {"found": bias.to_dict(), "said": list(bias.sentences), "curve": curve}


def _opened(arrays: Mapping[str, Tensor]) -> dict[str, Any]:
    """What a file holds, and what its names say."""
    kind, names = given.meant(arrays)
    listed = [
        {"name": name, "shape": list(each.shape), "dtype": str(each.dtype).removeprefix("torch.")}
        for name, each in arrays.items()
    ]
    return {"arrays": listed, "kind": kind, "names": names}


def _slug(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split()) or "dump"


def _file(arrays: Mapping[str, Tensor]) -> bytes:
    """A dump as a `.npz`, whose dtypes stay; so one in bfloat16 cannot be a sample."""
    import numpy as np

    out = io.BytesIO()
    plain: dict[str, Any] = {name: each.numpy() for name, each in arrays.items()}
    np.savez_compressed(out, **plain)
    return out.getvalue()


class Identifier(Widget):
    """The live panel that `identifier` returns: the front end sends a file, and `identify` answers in the kernel."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._held: dict[str, Tensor] = {}
        super().__init__(_spec=spec)
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        if not isinstance(message, dict) or message.get("type") != "dump":
            return
        try:
            asked = message.get("given", [])
            found = self._open(asked[0], bytes(buffers[0])) if message["method"] == "open" else self._ask(*asked)
        except Exception as error:  # whatever a file makes it raise belongs in the panel
            said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            self.send({"id": message.get("id"), "error": said})
            return
        self.send({"id": message["id"], "found": found})

    def _open(self, name: str, content: bytes) -> dict[str, Any]:
        self._held = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / (Path(name.replace("\\", "/")).name or "dump")
            path.write_bytes(content)
            self._held = given.read(path)
        return _opened(self._held)

    def _ask(self, kind: str, names: Sequence[str], heads: str) -> dict[str, Any]:
        return answer(kind, [self._held[name] for name in names], heads or None)

    def __repr__(self) -> str:
        return _named(self._spec)


class IdentifierPage:
    """The panel of a built page: samples, and the answer to the first in words and as a picture."""

    def __init__(self, spec: dict[str, Any], name: str) -> None:
        self._spec, self._identity = spec, f"identify-{_slug(name)}"

    def __repr__(self) -> str:
        return _named(self._spec)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._element()}

    def _element(self) -> str:
        spec, (first, *_) = self._spec, self._spec["samples"]
        said = "".join(f'<p class="pe-said">{html.escape(each)}</p>' for each in spec["shown"]["said"])
        caption = f'<p class="pe-caption">{html.escape(spec["caption"])}</p>' if spec["caption"] else ""
        return (
            f'<figure class="pe-panel pe-dump" id="{html.escape(self._identity)}">'
            f'<figcaption class="pe-title">{html.escape(spec["title"])}</figcaption>'
            f'<p class="pe-state">The sample “{html.escape(first["title"])}”:</p>'
            f'<div class="pe-stills"><div class="pe-still">{_still(spec["shown"])}</div>'
            f"<div>{said}</div></div>"
            f'{caption}<script type="application/json" class="pe-data">{escaped(spec)}</script>'
            "</figure>"
        )


def _still(shown: Mapping[str, Any]) -> str:
    """The frequencies of the planes, and those of the base without scaling; of a bias what distances cost."""
    if "curve" in shown:
        return _still_bias(shown["curve"])
    found = shown["found"]
    freq = torch.tensor(found["frequencies"], dtype=torch.float64)
    t = torch.arange(len(freq), dtype=torch.float64)
    lines = [freq]
    if found["base"]:
        lines.append(torch.exp(-2 * t / found["rotary_dim"] * math.log(found["base"])))
    labels = ["as dumped", "by the base, without scaling"][: len(lines)]
    view = Lines(x="plane", y="radians per position", labels=labels, mark=["dot", "line"][: len(lines)],
                 colours=["key", "nope"][: len(lines)], log_y=True, title="Frequencies")  # fmt: skip
    return _drawn(view, t, torch.stack(lines))


def _still_bias(curve: Mapping[str, Any]) -> str:
    costs = torch.tensor(curve["logits"], dtype=torch.float64)[:SHOWN]
    view = Lines(x="j - i", y="logits", labels=[f"head {h}" for h in range(len(costs))], title="What a distance costs")
    return _drawn(view, torch.tensor(curve["offsets"], dtype=torch.float64), costs)


SHOWN = 8
"""How many heads are drawn."""


def _drawn(view: Lines, x: Tensor, y: Tensor) -> str:
    data = [x.numpy(), y.numpy()]
    return plot.draw(view, data, alt=summary(view, data)).svg()


def _named(spec: Mapping[str, Any]) -> str:
    return "identifier with the samples " + ", ".join(f"“{each['title']}”" for each in spec["samples"])
