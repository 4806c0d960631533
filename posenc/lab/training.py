"""Training: plain PyTorch, the same for all schemes. An interrupted run resumes and ends with the same weights."""

import errno
import math
import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from posenc._atomic import atomic
from posenc.lab.config import Run
from posenc.lab.corpus import Corpus, batch
from posenc.lab.objectives import SEGMENTS, loss
from posenc.transformer.model import Transformer

POINTS = 40  # points of the curve of losses; a checkpoint is written at each
SHARE = 0.05  # of the time, at most, for checkpoints that take long to write
QUICK = 0.1  # seconds; what takes less is written always
BATCHES = 4  # batches of held-out text for each point


def train(
    run: Run, corpus: Corpus, *, folder: str | os.PathLike[str], device: str = "cpu", progress: bool = True
) -> tuple[Transformer, list[dict[str, float]], float]:
    """Trains the model of a run, from the last checkpoint in `folder` if there is one.

    Batches depend on the seed and on the step only: a run that was killed ends with the same weights, and all schemes
    see the same text in the same order. Under `torchrun` each process takes a part of each batch. The optimiser is
    AdamW with gradients clipped to norm 1; on a GPU, products are in bfloat16. A run that starts from another's weights
    is trained at a quarter of the budget's rate.

    Args:
        run: The run.
        corpus: The text to train on.
        folder: The folder for checkpoints.
        device: The device of the model. Default: "cpu".
        progress: Show a progress bar. Default: True.

    Returns:
        The model in evaluation mode, the curve and the seconds of training. Each point of the curve has the `step`,
        and the mean losses in nats of training since the last point (`train`) and on held-out text (`held_out`).

    Raises:
        ValueError: If a checkpoint is damaged or belongs to another run, or processes cannot share the batch.
        OSError: If the disk is full. The last checkpoint is still there then.

    Example:
        >>> import tempfile
        >>> from posenc.lab import Corpus, Run
        >>> text = torch.arange(256, dtype=torch.uint8).repeat(4)
        >>> corpus = Corpus("counting", text, text, digest="0" * 16, files=2)
        >>> model, curve, _ = train(Run("rope", 0, "smoke"), corpus, folder=tempfile.mkdtemp(), progress=False)
        >>> curve[-1]["step"], curve[-1]["train"] < curve[0]["train"]
        (12, True)
    """
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    part = _share(run, rank, world)
    model = run.model() if run.parent is None else _continued(run, run.parent, folder)
    model = model.to(device).train()
    optimizer = _adamw(model, run)
    path = Path(folder) / f"{run.name}.checkpoint"
    state = _restore(path, run, corpus, model, optimizer)
    wide = torch.autocast("cuda", torch.bfloat16) if device.startswith("cuda") else nullcontext()
    due = 0.0  # when a checkpoint may be written again
    every, total, start = max(1, run.steps // POINTS), torch.zeros(2, device=device), time.perf_counter()
    bar = tqdm(total=run.steps, initial=state["step"], desc=run.name, disable=None if progress and not rank else True)
    while (step := state["step"]) < run.steps and not _reached(run, state["curve"]):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, run.steps, run.rate * (0.25 if run.parent else 1))
        with wide:
            value = loss(model, run, corpus.train, of_step(run.seed, step), part)
        value.backward()
        _average(model, world)
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total += torch.stack((value.detach(), torch.ones_like(value)))
        state["step"] += 1
        bar.update()
        if state["step"] % every == 0 or state["step"] == run.steps:
            with torch.no_grad(), wide:
                seen = [loss(model.eval(), run, corpus.held_out, of_step(-1 - n, 0), part) for n in range(BATCHES)]
            model.train()
            mean = _mean(torch.stack((total[0] / total[1], torch.stack(seen).mean())), world).tolist()
            state["curve"].append({"step": state["step"], "train": mean[0], "held_out": mean[1]})
            state["seconds"] += time.perf_counter() - start
            total, start = torch.zeros_like(total), time.perf_counter()
            bar.set_postfix(loss=f"{mean[0]:.3f}", held_out=f"{mean[1]:.3f}")
            if rank == 0 and (start >= due or state["step"] == run.steps):
                _write(path, state | {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
                if (took := time.perf_counter() - start) > QUICK:
                    due = start + took / SHARE
    bar.close()
    return model.eval(), state["curve"], state["seconds"]


def fit(
    model: Transformer, text: Tensor, *, steps: int, length: int, count: int, highest: float = 4e-3, seed: int = 0
) -> Transformer:
    """Trains a small model in a notebook, with AdamW and without checkpoints. `train` is for runs to be compared.

    The learning rate rises during a tenth of the steps and then falls linearly.

    Args:
        model: The model, which is changed in place.
        text: Text (N,), uint8.
        steps: The number of steps.
        length: Tokens of a window.
        count: Windows in a step.
        highest: The highest learning rate. Default: 4e-3.
        seed: The seed of the windows. Default: 0.

    Returns:
        The same model, in evaluation mode.
    """
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), fused=True)
    generator, device = torch.Generator().manual_seed(seed), next(model.parameters()).device
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = highest * min(1, 10 * (step + 1) / steps, 1.05 - step / steps)
        tokens = batch(text, length, count, generator).to(device)
        cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def rate(step: int, steps: int, highest: float) -> float:
    """The learning rate: it rises during the first tenth of the steps, then falls along a cosine to a tenth."""
    rising = max(1, round(0.1 * steps))
    if step < rising:
        return highest * (step + 1) / rising
    return highest * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising))))


def _reached(run: Run, curve: list[dict[str, float]]) -> bool:
    """Whether the loss has come down to where training is to end."""
    target = run.settings.until
    return bool(target and curve) and curve[-1]["held_out"] <= target


def _adamw(model: Transformer, run: Run) -> torch.optim.AdamW:
    """AdamW with weight decay for the matrices of the model, but not for scales and, unless asked, for encodings."""
    own = {id(parameter) for parameter in model.encodings.parameters() if not run.settings.decayed}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [p for p in trained if p.ndim > 1 and id(p) not in own]
    others = [p for p in trained if p.ndim <= 1 or id(p) in own]
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=run.rate, betas=(0.9, 0.95), fused=True)


def of_step(seed: int, step: int) -> torch.Generator:
    """The generator of one step's batch. Held-out batches have negative seeds."""
    return torch.Generator().manual_seed((seed + 100) * 10_000_019 + step)


def _share(run: Run, rank: int, world: int) -> slice:
    rows = run.batch // SEGMENTS if run.settings.memory else run.batch
    if rows % world:
        raise ValueError(f"{rows} sequences cannot be shared by {world} processes: use a number that divides {rows}")
    return slice(rank, None, world)


def _average(model: Transformer, world: int) -> None:
    """Averages gradients over processes, which gives those of the whole batch."""
    if world > 1:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad = _mean(parameter.grad, world)


def _mean(x: Tensor, world: int) -> Tensor:
    if world > 1:
        dist.all_reduce(x)
        x = x / world
    return x


def restored(run: Run, folder: str | os.PathLike[str]) -> Transformer:
    """The model of a run with its trained weights from `folder`. Raises ValueError if there are none."""
    path, model = Path(folder) / f"{run.name}.safetensors", run.model()
    if not path.exists():
        raise ValueError(f"there are no weights of {run.name} in {path.parent}: train it first, or name their folder")
    try:
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"{path.name} is damaged, or of another preset: remove it, and train {run.name} again"
        ) from error
    return model


def _continued(run: Run, before: Run, folder: str | os.PathLike[str]) -> Transformer:
    """The model of a run that starts from the weights of another run."""
    model = run.model()
    model.load_state_dict(restored(before, folder).state_dict())
    return model


def _restore(
    path: Path, run: Run, corpus: Corpus, model: Transformer, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """The state to continue from: that of the checkpoint, or the beginning."""
    start = {"run": run.digest, "corpus": corpus.digest, "step": 0, "curve": [], "seconds": 0.0}
    if not path.exists():
        return start
    remedy = f"remove it to begin anew: {path}"
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        same = all(state[key] == start[key] for key in ("run", "corpus"))
    except Exception as error:  # torch raises many kinds for what is no checkpoint
        raise ValueError(f"the checkpoint of {run.name} is damaged ({type(error).__name__}); {remedy}") from error
    if not same:
        raise ValueError(f"the checkpoint of {run.name} is of another configuration or corpus; {remedy}")
    try:
        model.load_state_dict(state.pop("model"))
        optimizer.load_state_dict(state.pop("optimizer"))
        kinds = all(type(state[key]) is type(start[key]) for key in start)
    except Exception as error:  # it lacks a part, or has one of other names, shapes or kinds
        raise ValueError(f"the checkpoint of {run.name} is damaged ({type(error).__name__}); {remedy}") from error
    if not kinds or not 0 <= state["step"] <= run.steps:
        raise ValueError(f"the checkpoint of {run.name} is damaged (at step {state['step']!r}); {remedy}")
    return state


def _write(path: Path, state: dict[str, Any]) -> None:
    """Writes a checkpoint. The last one stays until the new one is complete."""
    try:
        with atomic(path) as part, part.open("wb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError when the disk is full
        remedy = "what was saved before it is there still; free some space, and run the same command again"
        raise OSError(
            errno.ENOSPC, f"step {state['step']} could not be saved ({error}): {remedy}", str(path)
        ) from error
