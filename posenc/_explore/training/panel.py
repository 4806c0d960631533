"""learn(): models that a reader trains, by torch where a kernel runs and by graphs in a built page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from posenc._explore.panel import Widget
from posenc._explore.training.lesson import Lesson, Schemes, Trainer, Watch
from posenc._explore.training.tasks import TASKS, Task
from posenc.book.notebook import book_mode


def learn(
    tasks: str | Sequence[str] | Mapping[str, Task] = tuple(TASKS),
    schemes: Schemes = ("rope", "alibi"),
    *,
    on: Sequence[str] | None = None,
    seed: int = 0,
    rate: float = 1e-2,
    steps: int = 200,
    n: int = 3,
    read: int | None = None,
    watch: Watch | None = None,
    show: Sequence[str] | None = None,
    title: str | None = None,
    name: str = "learning",
    caption: str = "",
    **sizes: Any,
) -> Training | TrainingPage:
    """A panel in which a reader trains small models with several encodings, side by side.

    All models read the same texts. The panel shows their losses, their accuracy by position up to four times the
    length of training, where their heads look, and what they write. In a notebook torch trains them. In a built page
    a step with its gradients is a graph, which is loaded when the reader presses Train.

    Args:
        tasks: What is learned: "repeat the letter n back", "repeat the first letter", "copy the word", "number the
            letters", "write the latest of a to d" or "write the earliest of a to d"; several of them, to choose from;
            or a dict of rules by their titles. A rule takes random letters (B, L), int64 from 0 to 15, a length, a 0-d
            integer tensor, and, if it has a third parameter, the number n of a slider. It returns the tokens (B, L),
            what shall be written at each, (B, L), and a mask (L,) of what counts. Default: all.
        schemes: Names in `SCHEMES`; or a dict of models by titles, each a name or a dict of keywords of `Transformer`
            that take precedence over the sizes, such as `{"blind": {"encoding": "nope", "causal": False}}`. From four
            on, each has a small map with its share of right answers, and a press on it shows a large one. Default:
            rope and alibi.
        on: Those that are trained at the start. Default: all.
        seed: Of the weights and the texts, 0 to 999. A seed always gives the same curves. Default: 0.
        rate: Learning rate of Adam at the start, 0.0001 to 1. Default: 0.01.
        steps: After which training pauses. Default: 200.
        n: The number in the rule at the start, 1 to 12, or half the length of the texts if that is less. It may be
            moved while models train. Default: 3.
        read: Length of the texts of the exams at the start. Default: the longest, `reach` times that of training.
        watch: What is seen of an encoding's own parameters while they learn: by scheme, a pair of a function and a
            view. The function takes the first layer's encoding and returns what `Lines` or `Heatmap` draws. It is
            traced, as the function of a panel is. Default: nothing.
        show: The pictures in their order, of "watched", "losses", "accuracy" and "maps". Default: all that there are.
        title: Of the panel. Default: the first task.
        name: Identifies the panel on its page. Default: "learning".
        caption: One sentence below the title.
        **sizes: `layers`, `model_dim`, `heads`, `length`, `batch`, `reach`, `exam`, `betas` and `decay` (AdamW's), in
            place of 1, 32, 2, 24, 16, 4, 32, (0.9, 0.99) and 0.

    Returns:
        A `Training`, a widget, where a kernel runs, and in the build of the book an object that shows itself as HTML.

    Raises:
        ValueError: If a task, a scheme or a size is unknown or out of range, a rule returns something else, or what
            is watched can't be drawn.

    Example:
        >>> from posenc import learn
        >>> learn("repeat the letter n back", ["shaw", "rope", "alibi"])
        learn “repeat the letter n back” with Shaw, RoPE, ALiBi
    """
    lesson = Lesson(tasks, schemes, on, seed, rate, steps, title, name, caption, sizes, n, read, watch, show)
    return TrainingPage(lesson) if book_mode() else Training(lesson)


class Training(Widget):
    """The live panel that `learn` returns: the front end asks, and torch trains in the kernel."""

    def __init__(self, lesson: Lesson) -> None:
        self._lesson = lesson
        self._trainer = Trainer(lesson)
        super().__init__(_spec=lesson.spec())
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        if not isinstance(message, dict) or message.get("type") != "learn":
            return
        methods: dict[str, Callable[..., Any]] = {
            name: getattr(self._trainer, name) for name in ("begin", "advance", "exam", "keep", "back")
        }
        try:
            found = methods[message["method"]](*message.get("given", []))
        except Exception as error:  # whatever the reader's rule raises belongs in the panel
            self.send({"id": message.get("id"), "error": f"{type(error).__name__}: {error}"})
            return
        if isinstance(found, list):
            shapes = [list(t.shape) for t in found]
            data = [t.cpu().contiguous().numpy().tobytes() for t in found]
            self.send({"id": message["id"], "shapes": shapes}, data)
        else:
            self.send({"id": message["id"], "found": found})

    def __repr__(self) -> str:
        return repr(self._lesson)


class TrainingPage:
    """The panel of a built page: graphs that train, compared with torch here, and a picture where no script runs."""

    _counts: ClassVar[dict[str, int]] = {}

    def __init__(self, lesson: Lesson) -> None:
        from posenc._explore.training.page import graphs  # which needs what exports, and a kernel does not

        count = self._counts[lesson.name] = self._counts.get(lesson.name, 0) + 1
        self._lesson = lesson
        self._identity = lesson.identity + (f"-{count}" if count > 1 else "")
        self._graphs = graphs(lesson)  # here, so that a failure is the cell's own

    def __repr__(self) -> str:
        return repr(self._lesson)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from posenc._explore.training.page import element

        return {"text/plain": repr(self), "text/html": element(self._lesson, self._graphs, self._identity)}
