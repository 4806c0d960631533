"""From a torch function to a graph that a page can run: exported once, then checked against torch at every corner."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import itertools
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx_ir as ir
import onnxscript.optimizer
import torch
from torch import Tensor, nn

from posenc._explore.controls import Slider
from posenc._explore.explorer import Explorer

MOST_VARIANTS = 48
GROWTH, SPARE = 1.25, 8_000  # how much larger a graph may become, times and bytes, for what is computed beforehand


class ExportError(RuntimeError):
    """The function of an explorer cannot be turned into a graph; the message says which, why, and what to do."""


class _Bound(nn.Module):
    """The function once for each way to fix its choices; its inputs are the sliders, its outputs what views draw."""

    def __init__(self, explorer: Explorer, choices: list[dict[str, Any]], names: list[str]) -> None:
        super().__init__()
        self.explorer, self.choices, self.names = explorer, choices, names

    def forward(self, *inputs: Any) -> tuple[Tensor, ...]:
        arguments = dict(zip(self.names, inputs, strict=True))
        outputs = (self.explorer.read(self.explorer.function(**arguments, **fixed)) for fixed in self.choices)
        return tuple(t + 0 for each in outputs for t in each)


def graphs(explorer: Explorer) -> dict[str, bytes]:
    """An ONNX graph for each combination of choices, verified against torch."""
    variants = dict(explorer.variants())
    if len(variants) > MOST_VARIANTS:
        raise ExportError(
            f"explore({explorer.name}): {len(variants)} combinations of choices and tick boxes need a graph each, "
            f"more than {MOST_VARIANTS}: make some of them sliders, or split the explorer"
        )
    try:
        programs = _export(explorer, list(variants.values()))
    except ExportError:  # one by one, so that the message names the choices that cannot be exported
        programs = [graph for fixed in variants.values() for graph in _export(explorer, [fixed])]
    by_choice = dict(zip(variants, map(_settled, programs), strict=True))
    for key, graph in by_choice.items():
        _verify(explorer, variants[key], graph)
    return by_choice


def used(graph: bytes) -> list[str]:
    """The inputs on which the outputs of a graph depend: its other sliders do nothing."""
    import onnx

    def needs(node: onnx.NodeProto) -> set[str]:
        inner = (part for attribute in node.attribute for part in (attribute.g, *attribute.graphs))
        return {*node.input, *(name for part in inner for each in part.node for name in needs(each))}

    model = onnx.load_from_string(graph).graph
    wanted = {output.name for output in model.output}
    for node in reversed(model.node):  # in the order of computation, so backwards every need is known
        if wanted & set(node.output):
            wanted |= needs(node)
    return [value.name for value in model.input if value.name in wanted]


def _export(explorer: Explorer, choices: list[dict[str, Any]]) -> list[bytes]:
    """A graph for each of these choices: all in one export, which costs a second before it begins, then taken apart."""
    sliders = [c for c in explorer.controls if isinstance(c, Slider)]
    values = explorer.arguments({c.name: c.start for c in sliders})
    bound = _Bound(explorer, choices, [c.name for c in sliders]).eval()
    shapes = tuple(torch.export.Dim.DYNAMIC if c.integer else None for c in sliders)
    try:
        with exporting(), torch.no_grad():
            program = torch.onnx.export(
                bound,
                tuple(_typical(c, values[c.name]) for c in sliders),
                dynamo=True,
                optimize=False,
                verbose=False,
                input_names=[c.name for c in sliders],
                dynamic_shapes=(shapes,) if sliders else None,
            )
            assert program is not None
            model, left = program.model, iter(program.model.graph.outputs)
            return [_part(model, list(itertools.islice(left, len(explorer.run(fixed))))) for fixed in choices]
    except Exception as error:
        raise ExportError(
            f"{_where(explorer, choices[0])} cannot be exported: {_reason(error)}\nKeep to torch operations on the "
            "sliders' values, without branches on them; offer a list of choices where the function has to branch."
        ) from error


def _part(model: ir.Model, outputs: list[ir.Value]) -> bytes:
    """What of a model makes these outputs, as a model of its own and made smaller: in parts that is done sooner."""
    graph = ir.convenience.extract(model.graph, model.graph.inputs, outputs)
    part = ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
    proto = ir.to_proto(onnxscript.optimizer.optimize(part))
    for each in (proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        each.ClearField("metadata_props")  # where it came from: most of the bytes, and paths of this machine
    proto.graph.initializer.sort(key=lambda tensor: tensor.name)  # extract takes them in another order each time
    return proto.SerializeToString()


def _settled(graph: bytes) -> bytes:
    """The graph as the runtime would rearrange it whenever a page opens: once here, so that panels start sooner.

    What can be computed beforehand is, unless that takes much more room, as weights in half precision would.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED  # no machine's own layout
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settled.onnx"
        options.optimized_model_filepath = str(path)
        for without in ([], ["ConstantFolding"]):
            onnxruntime.InferenceSession(graph, options, disabled_optimizers=without)
            content = path.read_bytes()
            if len(content) <= GROWTH * len(graph) + SPARE:
                break
    return content


def _typical(control: Slider, value: Any) -> Any:
    """An example for tracing: 0 and 1 would be taken as constants, so a whole number that has others uses one."""
    if control.integer and value in (0, 1):
        return next((v for v in (3, 2) if control.min <= v <= control.max), value)
    return value


def _verify(explorer: Explorer, fixed: Mapping[str, Any], graph: bytes) -> None:
    """Compare the graph with torch at the start and at the corners of its sliders, as a page runs it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options)
    taken = {i.name for i in session.get_inputs()}
    whole = {c.name for c in explorer.controls if isinstance(c, Slider) and c.integer}
    starts = {c.name: c.start for c in explorer.controls if isinstance(c, Slider)}
    for values in (starts, *explorer.corners()):
        where = _where(explorer, {**values, **fixed})
        try:
            wanted = explorer.run({**values, **fixed})
        except Exception as error:
            raise ExportError(f"{where} raises {type(error).__name__}: {error}: narrow its controls") from error
        feed = {n: np.array(v, np.int64 if n in whole else np.float32) for n, v in values.items() if n in taken}
        try:
            got = session.run(None, feed)
        except Exception as error:
            raise ExportError(f"{where} fails as a graph, though not in torch: {_reason(error)}") from error
        for number, (ours, true) in enumerate(zip(got, wanted, strict=True)):
            if ours.shape != tuple(true.shape):
                raise ExportError(f"{where}: output {number} has shape {ours.shape}, in torch {tuple(true.shape)}")
            far = _difference(ours, true.cpu().numpy())
            if far > 1e-3:
                raise ExportError(f"{where}: output {number} differs from torch by {far:.2g} of its size")


def _difference(ours: np.ndarray, true: np.ndarray) -> float:
    """The largest difference, relative to the largest value; infinite where one is not finite and the other is."""
    if ours.size == 0:
        return 0.0
    odd = ~np.isfinite(true)
    if not np.array_equal(ours[odd], true[odd], equal_nan=True) or not np.isfinite(ours[~odd]).all():
        return float("inf")
    scale = max(1.0, float(np.abs(true[~odd]).max(initial=0.0)))
    return float(np.abs(ours[~odd] - true[~odd]).max(initial=0.0)) / scale


def _where(explorer: Explorer, values: Mapping[str, Any]) -> str:
    return f"explore({explorer.name}) at " + (", ".join(f"{n}={v}" for n, v in values.items()) or "its only state")


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: exporters wrap it several times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


@functools.cache
def _table(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return read(*arguments, **options)


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """What an export is made in: without talk, with one table of operators, without a search for garbage."""
    with _quiet(), _one_table(), _collected_later():
        yield


@contextlib.contextmanager
def _one_table() -> Iterator[None]:
    """torch's exporter reads its table of operators anew for each export, which takes longer than the export does."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        once = functools.partial(_table, ONNXRegistry.from_torchlib)
    except (ImportError, AttributeError):  # another version of torch
        yield
        return
    with mock.patch.object(ONNXRegistry, "from_torchlib", staticmethod(once)):
        yield


@contextlib.contextmanager
def _collected_later() -> Iterator[None]:
    """A trace makes many objects and keeps them all: looking for garbage in between is a quarter of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters talk; a notebook's outputs are the book's pages."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
