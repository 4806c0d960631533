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
from posenc._explore.panel import STATIC
from posenc._extras import extra
from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification import given
from posenc.audit.identification.asked import identify
from posenc.audit.identification.rotation import NAMES, WHO, FoundRotation
from posenc.book.notebook import book_mode
from posenc.pictures import plot
from posenc.pictures.views import Lines

with extra("explore"):
    import anywidget
    import traitlets

Dump = Sequence[Any]


def identifier(
    samples: Mapping[str, Dump], *, title: str = "What rotation is this?", caption: str = "", name: str = "dump"
) -> Identifier | IdentifierPage:
    """A panel in which a reader drops a dump, and reads which rotation it holds.

    In a notebook `identify` answers. In a built page the reader's browser does, in the same words, and the file stays
    there.

    Args:
        samples: Dumps that are there to be tried, by their titles: (before, after, positions), as `identify` takes
            them. The answer to the first is shown at the start.
        title: Of the panel. Default: "What rotation is this?".
        caption: One sentence below the title.
        name: Identifies the panel on its page. Default: "dump".

    Returns:
        An `Identifier`, a widget, where a kernel runs; in the build of the book an object that shows itself as HTML.

    Raises:
        ValueError: If there is no sample, or `identify` names no rotation in one.

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
    files = [
        {"title": each, "name": f"{_slug(each)}.npz", "bytes": base64.b64encode(_file(dump)).decode()}
        for each, dump in samples.items()
    ]
    answers = [answer(dump) for dump in samples.values()]
    arrays = _arrays(dict(zip(("before", "after", "positions"), next(iter(samples.values())), strict=True)))
    return {
        "kind": "dump", "title": title, "caption": caption, "controls": [], "samples": files, "who": WHO,
        "names": NAMES, "shown": {**answers[0], "arrays": arrays},
    }  # fmt: skip


def answer(dump: Any, heads: str | None = None) -> dict[str, Any]:
    """What the panel shows of a dump: the fields of the rotation, and what is printed of it."""
    found = identify(dump, heads=heads)
    if not isinstance(found, FoundRotation):
        raise Unfit("this is a bias, and the panel shows rotations: print(identify(file)) names ALiBi, T5 and windows")
    return {"found": found.to_dict(), "said": list(found.sentences)}


def _slug(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split()) or "dump"


def _arrays(arrays: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    return [
        {"name": name, "shape": list(each.shape), "dtype": str(each.dtype).removeprefix("torch.")}
        for name, each in arrays.items()
    ]


def _file(dump: Dump) -> bytes:
    """A dump as a `.npz`, whose dtypes stay; so one in bfloat16 cannot be a sample."""
    import numpy as np

    out = io.BytesIO()
    before, after, positions = (torch.as_tensor(each).detach().cpu().numpy() for each in dump)
    np.savez_compressed(out, before=before, after=after, positions=positions)
    return out.getvalue()


class Identifier(anywidget.AnyWidget):
    """The live panel that `identifier` returns: the front end sends a file, and `identify` answers in the kernel."""

    _esm = STATIC / "widget.js"
    _css = STATIC / "style.css"
    _spec = traitlets.Dict().tag(sync=True)

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
        names = (given.BEFORE, given.AFTER, given.POSITIONS)
        guess = [next((each for each in known if each in self._held), "") for known in names]
        roles = dict(zip(("before", "after", "positions"), guess, strict=True))
        return {"arrays": _arrays(self._held), **roles}

    def _ask(self, names: Sequence[str], heads: str) -> dict[str, Any]:
        return answer(tuple(self._held[name] for name in names), heads or None)

    def __repr__(self) -> str:
        return _named(self._spec)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *metadata = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**(data or {}), "text/plain": repr(self)}
        return (data, *metadata) if metadata else data


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
            f'<div class="pe-stills"><div class="pe-still">{_still(spec["shown"]["found"])}</div>'
            f"<div>{said}</div></div>"
            f'{caption}<script type="application/json" class="pe-data">{escaped(spec)}</script>'
            "</figure>"
        )


def _still(found: Mapping[str, Any]) -> str:
    """The frequencies of the planes, and those of the base without scaling."""
    freq = torch.tensor(found["frequencies"], dtype=torch.float64)
    t = torch.arange(len(freq), dtype=torch.float64)
    lines = [freq]
    if found["base"]:
        lines.append(torch.exp(-2 * t / found["rotary_dim"] * math.log(found["base"])))
    labels = ["as dumped", "by the base, without scaling"][: len(lines)]
    view = Lines(x="plane", y="radians per position", labels=labels, mark=["dot", "line"][: len(lines)],
                 colours=["key", "nope"][: len(lines)], log_y=True, title="Frequencies")  # fmt: skip
    data = [t.numpy(), torch.stack(lines).numpy()]
    return plot.draw(view, data, alt=summary(view, data)).svg()


def _named(spec: Mapping[str, Any]) -> str:
    return "identifier with the samples " + ", ".join(f"“{each['title']}”" for each in spec["samples"])
