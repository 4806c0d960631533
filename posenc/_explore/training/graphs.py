"""A training as graphs that a page can run: each part exported once, then compared with torch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from posenc._explore.export import ExportError, _difference, _reason, _settled, exporting
from posenc._explore.training.course import Course, Sizes, exam_texts, texts, traced
from posenc._explore.training.tasks import Task

NUMBER = 3  # n, while they are compared
STEPS = 20  # that a graph is compared with torch
RATE = 1e-3  # at which they are: at a high rate rounding itself grows, in torch as well
FAR = 1e-3


def task_graphs(title: str, task: Task, sizes: Sizes) -> dict[str, bytes]:
    """The graphs of a task: "texts" (seed, step, n) and "exam" (seed, length, n), as the functions of `course`."""
    seed, n = {"seed": torch.tensor(3)}, {"n": torch.tensor(3)}
    step, length = {"step": torch.tensor(5)}, {"length": torch.tensor(sizes.length)}
    return {
        "texts": _export(title, functools.partial(texts, task, sizes), seed | step | n),
        "exam": _export(title, functools.partial(exam_texts, task, sizes), seed | length | n),
    }


def course_graphs(course: Course) -> dict[str, bytes]:
    """The graphs of a scheme: "start" (seed), "step" and "exam", as the methods of `Course`."""
    state = {"state": course.start(torch.tensor(3))}
    sizes = course.sizes
    return {
        "start": _export(course.scheme, course.start, {"seed": torch.tensor(3)}),
        "step": step_graph(course),
        "exam": _export(course.scheme, course.exam, {**state, **_read(sizes.exam, sizes.longest)}),
    }


def step_graph(course: Course) -> bytes:
    """The graph of a step: the model, its gradients and the optimiser."""
    inputs = {"state": course.start(torch.tensor(3)), **_read(course.sizes.batch, course.sizes.length)}
    return _export(course.scheme, course.step, {**inputs, "step": torch.tensor(5), "rate": torch.tensor(RATE)})


def _read(count: int, length: int) -> dict[str, Tensor]:
    tokens = torch.zeros(count, length, dtype=torch.long)  # two tensors, since the tracer takes one for one input
    return {"tokens": tokens, "targets": tokens.clone(), "share": torch.full((length,), 1 / length)}


def _export(name: str, function: Callable[..., Any], inputs: Mapping[str, Tensor]) -> bytes:
    """A function of these inputs, of these shapes, as a graph. Gradients in it are traced as what computes them."""

    def flat(*values: Tensor) -> tuple[Tensor, ...]:
        found = function(*values)
        return found if isinstance(found, tuple) else (found,)

    try:
        with exporting(), traced(), _decomposed() as table:
            trace = functools.partial(make_fx, tracing_mode="fake", _allow_non_fake_inputs=True)  # shapes alone, sooner
            plain = trace(flat, decomposition_table=table)(*inputs.values())
            pure = trace(functionalize(plain))(*inputs.values())  # parts of operations may write in place
            program = torch.onnx.export(
                pure, tuple(inputs.values()), dynamo=True, optimize=False, verbose=False,
                input_names=list(inputs),
            )  # fmt: skip
        assert program is not None
        # Not optimised by onnxscript: it takes Adam's 1e-8 for 0, and weights without a gradient become 0/0.
        return _settled(_bare(program.model_proto))
    except Exception as error:
        raise ExportError(f"learn({name}) cannot be exported: {_reason(error)}") from error


@contextlib.contextmanager
def _decomposed() -> Iterator[dict[Any, Callable[..., Any]]]:
    """What operations consist of, for a trace after which the exporter need not trace twice more to take them apart."""
    try:
        from torch.onnx._internal.exporter import _decomp, _fx_passes
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        known = set(_decomp.get_onnx_implemented_overloads(ONNXRegistry.from_torchlib()))
        table = _decomp.create_onnx_friendly_decomposition_table(known)
        apart = mock.patch.object(_fx_passes, "decompose_with_registry", lambda program, _: program)
    except (ImportError, AttributeError):  # another version of torch
        yield {}
        return
    with apart:
        yield table


def _bare(model: Any) -> bytes:
    """A model without the notes on where each operation came from: most of the bytes, and paths of this machine."""
    for each in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        each.ClearField("metadata_props")
    return model.SerializeToString()


class Run:
    """A training by graphs in onnxruntime, one core, as a page runs it."""

    def __init__(self, task: Mapping[str, bytes], course: Mapping[str, bytes]) -> None:
        self.task = {key: _session(graph) for key, graph in task.items()}
        self.course = {key: _session(graph) for key, graph in course.items()}

    def start(self, seed: int) -> None:
        self.seed, self.done = np.array(seed), 0
        (self.state,) = self.course["start"].run(None, {"seed": self.seed})

    def step(self, rate: float) -> float:
        """Take a step; returns the loss before it."""
        read = _named(self.task["texts"], seed=self.seed, step=np.array(self.done), n=np.array(NUMBER))
        self.state, loss = self.course["step"].run(
            None, {"state": self.state, **read, "step": np.array(self.done), "rate": np.array(rate, np.float32)}
        )
        self.done += 1
        return float(loss[0])

    def exam(self, length: int) -> list[np.ndarray]:
        read = _named(self.task["exam"], seed=self.seed, length=np.array(length), n=np.array(NUMBER))
        return self.course["exam"].run(None, {"state": self.state, **read})


def verify(title: str, task: Task, course: Course, run: Run, seed: int = 0) -> float:
    """Train with torch and by graphs. Returns the largest difference of a loss, or raises ExportError."""
    sizes, where = course.sizes, f"learn({course.scheme}) on “{title}”"
    state = course.start(torch.tensor(seed))
    run.start(seed)
    farthest = 0.0
    for step in range(STEPS):
        read = texts(task, sizes, torch.tensor(seed), torch.tensor(step), torch.tensor(NUMBER))
        state, loss = course.step(state, *read, torch.tensor(step), torch.tensor(RATE))
        farthest = max(farthest, _difference(np.array([run.step(RATE)]), loss.numpy()))
    accuracy, loss, _, *seen = course.exam(
        state, *exam_texts(task, sizes, torch.tensor(seed), torch.tensor(sizes.longest), torch.tensor(NUMBER))
    )
    ours = run.exam(sizes.longest)
    for true, got in zip((loss, *seen), (ours[1], *ours[3:]), strict=True):
        farthest = max(farthest, _difference(got, true.numpy()))
    if not np.array_equal(np.isnan(ours[0]), accuracy.isnan().numpy()) or not farthest <= FAR:
        raise ExportError(f"{where}: after {STEPS} steps the graph differs from torch by {farthest:.2g}")
    return farthest


def _named(session: Any, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    taken = {i.name for i in session.get_inputs()}
    found = session.run(None, {name: value for name, value in inputs.items() if name in taken})
    return dict(zip(("tokens", "targets", "share"), found, strict=True))


def _session(graph: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(graph, options)
