"""A trained model as one graph that a page can run: exported once, made half as large, then compared with torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc._explore.export import ExportError, _reason, _settled, exporting
from posenc._explore.playing.reader import NAMES, Reader, settings

INPUTS = ("tokens", "pos", "past", "places", "head", *NAMES)
LARGE = 1024  # numbers from which on weights are stored in half precision
FAR = 1e-3
TRIED: tuple[Mapping[str, float], ...] = (
    {}, {"on": 0.0}, {"base": 500.0}, {"scaling": 1}, {"scaling": 2}, {"scaling": 3, "factor": 16.0}, {"layout": 1},
    {"slope": 0.25},
)  # fmt: skip


def graph(name: str, reader: Reader) -> bytes:
    """The graph of a reader: inputs as in INPUTS, of any length; outputs as `Reader.forward` returns them.

    Args:
        name: Of the model, for messages.
        reader: The model.

    Returns:
        An ONNX graph, whose weights are in half precision.

    Raises:
        ExportError: If it can't be exported, or differs from torch by more than a thousandth of a bit.
    """
    heads, width = reader.start()[0].shape[1], reader.start()[0].shape[3]
    past = torch.zeros(reader.start()[0].shape[0], heads, 3, width)  # any lengths that differ, and are neither 0 nor 1
    given = (torch.arange(5), torch.arange(3, 8), past, torch.arange(3), torch.tensor(0), *settings())
    new, held = torch.export.Dim("new"), torch.export.Dim("held")
    shapes: tuple[Any, ...] = ({0: new}, {0: new}, {2: held}, {0: held}, {}, tuple({} for _ in NAMES))
    try:
        with exporting(), torch.no_grad():
            program = torch.onnx.export(
                reader, given, dynamo=True, optimize=False, verbose=False, input_names=list(INPUTS),
                dynamic_shapes=shapes,
            )  # fmt: skip
        assert program is not None
        made = _halved(_settled(program.model_proto.SerializeToString()))
    except Exception as error:
        raise ExportError(f"play({name}) cannot be exported: {_reason(error)}") from error
    verify(name, reader, made)
    return made


def _halved(graph: bytes) -> bytes:
    """The graph with large weights in half precision, which is exact, since they were rounded to it before."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_from_string(graph)
    for each in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        each.ClearField("metadata_props")
    casts = []
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        with np.errstate(over="ignore"):  # what overflows is no longer equal, and stays as it is
            half = values.astype(np.float16)
        if values.dtype != np.float32 or values.size < LARGE or not np.array_equal(half.astype(np.float32), values):
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(half, f"{name} in half"))
        casts.append(helper.make_node("Cast", [weight.name], [name], to=TensorProto.FLOAT))
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*casts, *rest])
    return model.SerializeToString()


class Run:
    """A reader by its graph in onnxruntime, one core, as a page runs it."""

    def __init__(self, reader: Reader, graph: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(graph, options)
        self.taken = {i.name for i in self.session.get_inputs()}
        self.first = reader.start()

    def __call__(self, *given: Tensor) -> list[Tensor]:
        """The outputs for inputs in the order of INPUTS."""
        feed = {n: x.numpy() for n, x in zip(INPUTS, given, strict=True) if n in self.taken}
        return [torch.from_numpy(x) for x in self.session.run(None, feed)]


def verify(name: str, reader: Reader, graph: bytes) -> float:
    """Read a text with torch and by the graph, in two pieces, with each setting. Returns the largest difference.

    Raises:
        ExportError: If it is more than a thousandth of a bit, or of a weight.
    """
    run = Run(reader, graph)
    count = min(160, reader.rows or 160)
    tokens = torch.arange(count) * 7 % 96 + 32
    farthest = 0.0
    for changes in TRIED:
        if set(changes) - set(reader.knobs):
            continue
        for pieces in ((count,), (count - 3, 2, 1)):
            farthest = max(farthest, *_apart(reader, run, tokens, pieces, settings(**changes)))
        if not farthest <= FAR:
            raise ExportError(f"play({name}): with {dict(changes)} the graph differs from torch by {farthest:.2g}")
    return farthest


@torch.no_grad()
def _apart(reader: Reader, run: Run, tokens: Tensor, pieces: tuple[int, ...], chosen: list[Tensor]) -> list[float]:
    """How far bits and weights of a text, read in pieces of these lengths, differ from torch's."""
    ours: Any = run.first
    true: Any = reader.start()
    head, found, at = torch.tensor(reader.heads - 1), [], 0
    for size in pieces:
        piece = tokens[at : at + size], torch.arange(at, at + size)
        got, wanted = run(*piece, *ours, head, *chosen), reader(*piece, *true, head, *chosen)
        found += [float((a - b).abs().max()) for a, b in zip(got[:2], wanted[:2], strict=True)]
        ours, true, at = got[2:], wanted[2:], at + size
    return found
