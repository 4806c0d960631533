"""play(): trained models read a reader's text, by torch where a kernel runs and by graphs in a built page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from posenc._explore.panel import Widget
from posenc._explore.playing.desk import Desk, States
from posenc.book.notebook import book_mode
from posenc.transformer.model import Transformer


def play(
    models: Mapping[str, Transformer],
    texts: Mapping[str, str],
    *,
    length: int,
    read: int | None = None,
    title: str = "Your text on the cliff",
    name: str = "playground",
    caption: str = "",
) -> Playing | PlayingPage:
    """A panel in which trained models read a reader's own text, two of them side by side.

    The panel inks each letter by how much it surprised the model, and marks the length that the models were trained on.
    The reader changes RoPE's base and scaling or ALiBi's slopes in the trained model, or breaks it. In a notebook torch
    reads. In a built page each model is a graph, which is loaded when it is chosen.

    Args:
        models: Decoders of bytes by their schemes, names in `SCHEMES`, all of one size. Weights are rounded to half
            precision. The first two are compared at the start.
        texts: Texts to begin with, by their titles.
        length: Of the texts that the models were trained on, in bytes.
        read: How many bytes are read at the start, 16 to 16 · length. Default: 4 · length.
        title: Of the panel. Default: "Your text on the cliff".
        name: Identifies the panel on its page. Default: "playground".
        caption: One sentence below the title.

    Returns:
        A `Playing`, a widget, where a kernel runs, and in the build of the book an object that shows itself as HTML.

    Raises:
        TypeError: If a model is no `Transformer`.
        ValueError: If a model does not read bytes from left to right, if models differ in size, or a number is out of
            range.

    Example:
        >>> from posenc import Transformer, play
        >>> models = {name: Transformer(256, layers=1, encoding=name) for name in ("rope", "alibi")}
        >>> play(models, {"a greeting": "Hello, hello."}, length=128)
        play with RoPE, ALiBi
    """
    desk = Desk(models, texts, length, read, title, name, caption)
    return PlayingPage(desk) if book_mode() else Playing(desk)


class Playing(Widget):
    """The live panel that `play` returns: the front end asks, and torch reads in the kernel."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._states = States(desk)
        super().__init__(_spec=desk.spec())
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        if not isinstance(message, dict) or message.get("type") != "play":
            return
        try:
            found = self._states.read(message["piece"])
        except Exception as error:
            self.send({"id": message.get("id"), "error": f"{type(error).__name__}: {error}"})
            return
        shapes = [list(t.shape) for t in found]
        self.send({"id": message["id"], "shapes": shapes}, [t.contiguous().numpy().tobytes() for t in found])

    def __repr__(self) -> str:
        return repr(self._desk)


class PlayingPage:
    """The panel of a built page: graphs that read, compared with torch here, and a picture where no script runs."""

    _counts: ClassVar[dict[str, int]] = {}

    def __init__(self, desk: Desk) -> None:
        from posenc._explore.playing.page import graphs  # which needs what exports, and a kernel does not

        count = self._counts[desk.name] = self._counts.get(desk.name, 0) + 1
        self._desk = desk
        self._identity = desk.identity + (f"-{count}" if count > 1 else "")
        self._graphs = graphs(desk)  # here, so that a failure is the cell's own

    def __repr__(self) -> str:
        return repr(self._desk)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from posenc._explore.playing.page import element

        return {"text/plain": repr(self), "text/html": element(self._desk, self._graphs, self._identity)}
