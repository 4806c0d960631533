"""What a kernel and a page share of a training panel: the rules, the models, what the front end is told, and torch."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._explore.controls import Choice, Slider
from posenc._explore.explorer import identity, shown
from posenc._explore.training.course import LIMIT, Course, Sizes, exam_texts, texts
from posenc._explore.training.tasks import LETTERS, SYMBOLS, TASKS, Task, numbered
from posenc.pictures import theme
from posenc.pictures.views import Heatmap, Lines
from posenc.schemes.registry import SCHEMES

MOST_SEED = 999
RATES = (1e-4, 1.0)
MOST_NUMBER = 12
MANY = 4  # schemes, from which on each has a small map, and one of them a large one
PICTURES = ("watched", "losses", "accuracy", "maps")

Schemes = Sequence[str] | Mapping[str, str | Mapping[str, Any]]
Watch = Mapping[str, tuple[Callable[..., Any], Lines | Heatmap]]


class Lesson:
    """What a kernel and a page share: the rules, the models, and what the front end is told."""

    def __init__(
        self, tasks: Any, schemes: Schemes, on: Sequence[str] | None, seed: int, rate: float, steps: int,
        title: str | None, name: str, caption: str, sizes: Mapping[str, Any], n: int = 3, read: int | None = None,
        watch: Watch | None = None, show: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.tasks = _tasks(tasks)
        self.options = _options(schemes)
        self.schemes = list(self.options)
        self.on = self.schemes if on is None else _listed(on, "on", self.schemes)
        self.watch = dict(watch or {})
        if strange := [scheme for scheme in self.watch if scheme not in self.schemes]:
            raise ValueError(f"watch has {strange[0]!r}, which is not in schemes: {', '.join(self.schemes)}")
        self.show = _shown(show, self.watch)
        self.looks = _looks(self.options)
        known = list(inspect.signature(Sizes).parameters)
        if strange := [size for size in sizes if size not in known]:
            raise ValueError(f"{strange[0]!r} is no size of a training: use {', '.join(known)}")
        self.sizes = Sizes(**sizes)
        if steps < 1:
            raise ValueError(f"steps is {steps}: use 1 or more")
        self.steps, self.name, self.caption = steps, name, caption
        self.title = title or next(iter(self.tasks))
        longest, heads = self.sizes.longest, self.sizes.heads * self.sizes.layers
        low = min(8, self.sizes.length)
        self.controls = {
            "n": Slider("n", n, 1, min(MOST_NUMBER, self.sizes.length // 2), 1, integer=True),
            "seed": Slider("seed", seed, 0, MOST_SEED, 1, integer=True),
            "rate": Slider("rate", rate, *RATES, 1 / 40, integer=False, log=True),
            "length": Slider("length", longest if read is None else read, low, longest, 1, integer=True),
        }
        for control in self.controls.values():
            control.check(control.start)
        self.heads = [f"head {h + 1}" for h in range(heads)]
        if self.sizes.layers > 1:
            self.heads = [f"layer {h // self.sizes.heads + 1}, head {h % self.sizes.heads + 1}" for h in range(heads)]
        for rule_title, rule in self.tasks.items():
            self._try(rule_title, rule)
        self._courses: dict[str, Course] = {}
        for scheme in {*self.watch, *(scheme for scheme, options in self.options.items() if options)}:
            self._begin(scheme)

    def _begin(self, scheme: str) -> None:
        """What a reader has written himself works: said here, where he sees it."""
        try:
            course = self.course(scheme)
        except TypeError as error:
            raise ValueError(f"the model {scheme!r} cannot be made: {error}") from error
        try:
            course.watched(course.start(torch.tensor(0)))
        except Exception as error:
            raise ValueError(f"what is watched of {scheme!r} cannot be seen: {error}") from error

    def _try(self, title: str, rule: Task) -> None:
        """A rule gives what a model can read: said here, where the reader sees it."""
        letters = torch.arange(2 * self.sizes.length).view(2, -1) % LETTERS
        most = (torch.tensor(int(self.controls["n"].max)),) if numbered(rule) else ()
        found = rule(letters, torch.tensor(self.sizes.length), *most)
        shapes = [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in found]
        wanted = [tuple(letters.shape), tuple(letters.shape), (letters.shape[1],)]
        if shapes != wanted or found[2].dtype != torch.bool:
            raise ValueError(
                f"the task “{title}” returns {shapes}: return tokens {wanted[0]}, targets {wanted[1]} and a mask "
                f"{wanted[2]}, bool"
            )
        for what, x in (("tokens", found[0]), ("targets", found[1])):
            if x.is_floating_point() or int(x.min()) < 0 or int(x.max()) >= len(SYMBOLS):
                raise ValueError(
                    f"the task “{title}” has other {what} than integers from 0 to {len(SYMBOLS) - 1}: return "
                    "those alone"
                )
        if not found[2].any():
            raise ValueError(
                f"the task “{title}” counts nothing in a text of {self.sizes.length}: let its mask be True somewhere"
            )

    def course(self, scheme: str) -> Course:
        if scheme not in self._courses:
            watch = _seen(*self.watch[scheme]) if scheme in self.watch else None
            self._courses[scheme] = Course(scheme, self.sizes, self.options[scheme], watch)
        return self._courses[scheme]

    @property
    def identity(self) -> str:
        return identity("learn", self.name)

    def spec(self) -> dict[str, Any]:
        """All that the front end needs to know, as JSON: nothing in it is ever read as markup."""
        task = Choice("task", next(iter(self.tasks)), tuple(self.tasks), tuple(self.tasks))
        head = Choice("head", self.heads[0], tuple(self.heads), tuple(self.heads))
        labels = {"n": "n", "seed": "seed", "rate": "learning rate", "length": "length of text"}
        asked = [c for c in self.controls.values() if c.name != "n" or any(map(numbered, self.tasks.values()))]
        controls = [{**c.spec(), "label": labels[c.name], "unit": ""} for c in asked]
        controls[:0] = [{**task.spec(), "label": "task", "unit": ""}]
        if len(self.heads) > 1:
            controls.append({**head.spec(), "label": "where it looks", "unit": ""})
        return {
            "kind": "learn",
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "schemes": [self._scheme(scheme) for scheme in self.schemes],
            "show": self.show,
            "on": [scheme in self.on for scheme in self.schemes],
            "many": len(self.schemes) >= MANY,
            "numbered": [numbered(rule) for rule in self.tasks.values()],
            "controls": controls,
            "starts": {"task": 0, "head": 0, **{c.name: c.start for c in asked}},
            "views": {key: shown(view, lambda: (0.0, 1.0)) for key, view in self.views().items()},
            "symbols": list(SYMBOLS),
            "length": self.sizes.length,
            "steps": self.steps,
            "limit": LIMIT,
        }

    def _scheme(self, scheme: str) -> dict[str, Any]:
        title, colour = self.looks[scheme]
        entry: dict[str, Any] = {"name": scheme, "title": title, "colour": colour}
        if scheme in self.watch:
            entry["watched"] = shown(self.watch[scheme][1], lambda: (0.0, 1.0))
        return entry

    def views(self) -> dict[str, Lines | Heatmap]:
        """The pictures: two of lines, and one map, of which each scheme has its own."""
        names, colours = (list(looks) for looks in zip(*(self.looks[scheme] for scheme in self.on), strict=True))
        return {
            "losses": Lines(x="step", y="loss", labels=names, colours=colours, title="Loss of each step"),
            "accuracy": Lines(
                x="position", y="accuracy", labels=names, colours=colours, limits=(0.0, 1.0),
                landmarks={"trained up to here": float(self.sizes.length)}, title="Accuracy by position",
            ),
            "map": Heatmap(x="key", y="query", limits=(0.0, 1.0), origin=(1, 1), title="Where a query looks"),
        }  # fmt: skip

    def __repr__(self) -> str:
        what = ", ".join(f"“{title}”" for title in self.tasks)
        return f"learn {what} with {', '.join(title for title, _ in self.looks.values())}"


class Trainer:
    """Trains with torch, as the front end asks: the methods are those of `Trainer` in the front end's types."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson = lesson
        self.states: list[Tensor] = []
        self.done = 0

    def begin(self, plan: Mapping[str, Any]) -> None:
        tasks, seed = list(self.lesson.tasks.values()), plan["seed"]
        self.task = tasks[int(plan["task"].removeprefix("task "))]
        self.seed = torch.tensor(self.lesson.controls["seed"].check(seed))
        self.courses = [self.lesson.course(scheme) for scheme in plan["schemes"]]
        self.states, self.done = [course.start(self.seed) for course in self.courses], 0
        self._kept = (self.states, self.done)

    def advance(self, milliseconds: float, rate: float, n: int, most: int, limit: float) -> dict[str, Any]:
        late = time.monotonic() + milliseconds / 1000
        losses: list[list[float]] = []
        while not losses or (
            len(losses) < most and time.monotonic() < late and all(loss < limit for loss in losses[-1])
        ):
            losses.append(self.step(rate, n))
        return {"done": self.done, "losses": [[_sent(loss) for loss in row] for row in losses]}

    def step(self, rate: float, n: int = 3) -> list[float]:
        """One step of each scheme; the losses before it."""
        step = torch.tensor(self.done)
        read = texts(self.task, self.lesson.sizes, self.seed, step, self._number(n))
        found = [
            course.step(state, *read, step, torch.tensor(rate, dtype=torch.float32))
            for course, state in zip(self.courses, self.states, strict=True)
        ]
        self.states, self.done = [state for state, _ in found], self.done + 1
        return [loss.item() for _, loss in found]

    def exam(self, length: int, n: int = 3) -> list[Tensor]:
        """The texts of an exam, and what each scheme knows of them, one after the other."""
        read, found = self.examined(length, n)
        return [*read, *(t for scheme in found for t in scheme)]

    @torch.no_grad()
    def examined(self, length: int, n: int = 3) -> tuple[list[Tensor], list[list[Tensor]]]:
        """The texts of an exam, and for each scheme what it knows of them, as `Course.exam` returns it."""
        read_to = torch.tensor(int(self.lesson.controls["length"].check(length)))
        read = exam_texts(self.task, self.lesson.sizes, self.seed, read_to, self._number(n))
        found = [course.exam(state, *read) for course, state in zip(self.courses, self.states, strict=True)]
        return [t.float() for t in read], [[t.float() for t in scheme] for scheme in found]

    def _number(self, n: int) -> Tensor:
        return torch.tensor(int(self.lesson.controls["n"].check(n)))

    def keep(self) -> None:
        self._kept = (self.states, self.done)

    def back(self) -> int:
        self.states, self.done = self._kept
        return self.done


def _sent(loss: float) -> float | None:
    """JSON has no NaN: null, which is not below any limit either."""
    return loss if np.isfinite(loss) else None


def _tasks(tasks: Any) -> dict[str, Task]:
    if isinstance(tasks, Mapping):
        if not tasks or not all(callable(rule) for rule in tasks.values()):
            raise ValueError("tasks has a title without a rule: give a function for each")
        return {str(title): rule for title, rule in tasks.items()}
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    if not names:
        raise ValueError(f"there is no task: give at least one of {', '.join(TASKS)}")
    for name in names:
        if name not in TASKS:
            raise ValueError(f"there is no task {name!r}: use one of {', '.join(TASKS)}, or a dict with a rule")
    return {name: TASKS[name] for name in names}


def _seen(function: Callable[..., Any], view: Lines | Heatmap) -> Callable[[Encoding], tuple[Tensor, ...]]:
    """What a view draws of an encoding."""
    return lambda encoding: tuple(view.read(function(encoding)))


def _options(schemes: Schemes) -> dict[str, Mapping[str, Any]]:
    """The models by their names: what each has beside the sizes, as keywords of `Transformer`."""
    given = schemes if isinstance(schemes, Mapping) else {}
    names = _listed(schemes, "schemes", SCHEMES if schemes is not given else None)
    options: dict[str, Mapping[str, Any]] = {}
    for name in names:
        option = given.get(name, {})
        options[name] = {"encoding": option} if isinstance(option, str) else dict(option)
    for name, option in options.items():
        encoding = option.get("encoding", name)
        if isinstance(encoding, str) and encoding not in SCHEMES:
            raise ValueError(f"there is no scheme {encoding!r}: use one of {', '.join(SCHEMES)}")
    return options


def _listed(given: Any, what: str, known: Any) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise ValueError(f"{what} is empty: give at least one of {', '.join(known or SCHEMES)}")
    for name in names:
        if known is not None and name not in known:
            missing = f"on has {name!r}, which is not in schemes" if what == "on" else f"there is no scheme {name!r}"
            raise ValueError(f"{missing}: use one of {', '.join(known)}")
    if len(set(names)) < len(names):
        raise ValueError(f"{what} names a scheme twice: give each once")
    return names


def _looks(options: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """A title and a colour for each model: those of its scheme, unless others have that colour too."""
    found: dict[str, tuple[str, str]] = {}
    cycle = iter((*theme.CYCLE[1:], *theme.CYCLE) * len(options))  # the first is nearly as blue as sinusoids
    for name, option in options.items():
        scheme = option.get("encoding", name)
        colour = SCHEMES[scheme].colour if isinstance(scheme, str) else next(cycle)
        while colour in (taken for _, taken in found.values()):
            colour = next(cycle)
        found[name] = (SCHEMES[name].title if name in SCHEMES and not option else name, colour)
    return found


def _shown(show: Sequence[str] | None, watch: Watch) -> list[str]:
    """The kinds of pictures of a panel, in their order."""
    kinds = [kind for kind in PICTURES if kind != "watched" or watch] if show is None else list(show)
    if strange := [kind for kind in kinds if kind not in PICTURES]:
        raise ValueError(f"show has {strange[0]!r}: use {', '.join(PICTURES)}")
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"show is {kinds}: give some of {', '.join(PICTURES)}, each once")
    if ("watched" in kinds) != bool(watch):
        raise ValueError('show and watch do not agree: "watched" is shown where something is watched, and only there')
    return kinds
