"""Adapters of modules and functions, by the names that their signatures have for positions, mask and cache."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from posenc.audit.adapters.copies import module_of
from posenc.audit.adapters.own import Own
from posenc.audit.adapters.protocol import Adapter, Ended, Refused, Unfit, ask, device_of, logits_of, type_name
from posenc.audit.errors import error_line
from posenc.transformer.model import Transformer

POSITIONS = ("positions", "position_ids", "pos", "input_pos", "pos_ids")
MASKS = {  # what real tokens are marked with, where forward has an argument of that name
    "attention_mask": torch.long,
    "padding_mask": torch.bool,
    "mask": torch.bool,
    "key_padding_mask": torch.bool,
    "src_key_padding_mask": torch.bool,
}
TURNED = ("mask", "key_padding_mask", "src_key_padding_mask")  # names under which True may as well mean padding
DECLARED = {"causal": bool, "recurrent": bool, "packs": bool, "scheme": str, "scales": str, "axes": int}
DOUBLE = re.compile("[Dd]ouble|float64")  # in what a kernel says that has no float64
LENGTHS = (2, 24, 16, 32, 64)  # tried in turn, until a model can be called
COUNTS = ("max_new_tokens", "new_tokens", "num_new_tokens", "max_tokens", "num_tokens", "steps")
"""Names under which a module's own generate takes how many tokens to add."""
GREEDY = {"do_sample": False, "top_k": 1}  # what makes a loop that draws tokens greedy
STATES = ("past_key_values", "past_kv", "kv_cache", "cache", "past", "state", "layer_past")


class Called:
    """The adapter of a module or function, by the names that its signature has for positions, mask and cache.

    Positions go in as (B, L), or as (L,) where the model takes those only; as (axes, B, L), the same number on each
    axis, where a model has several. If the module has methods `step`, `reorder` or `crop`, they are used, and so is a
    `generate` that takes tokens and how many to add. Otherwise a cache is an argument of forward named as in `STATES`,
    and comes back beside the logits. Positions or a mask that forward needs are made, and `targets` are given if there
    is one row of logits without.

    Args:
        model: A module, a function, or a method of a module.
        vocabulary: How many different tokens there are. Default: what the model itself tells, by its logits and tables.
        axes: How many axes positions have, as with M-RoPE. Default: what the model's attribute `axes` says, or 1.

    Raises:
        ValueError: If it cannot be called with tokens alone, or returns no logits.
    """

    def __init__(self, model: Callable[..., Any], vocabulary: int | None = None, axes: int | None = None) -> None:
        self.model = model
        self.module = module_of(model)
        function = model.forward if isinstance(model, nn.Module) else model
        names = names_of(function)
        self._names, self.required = names, required(function)[1:]
        self.targets = False
        """Whether forward gets the tokens as targets, too."""
        self.position_name = next((name for name in POSITIONS if name in names), None)
        self.mask_name = next((name for name in MASKS if name in names), None)
        self.state_name = next((name for name in STATES if name in names), None)
        self.use_cache = "use_cache" in names
        self.takes_positions, self.takes_mask = self.position_name is not None, self.mask_name is not None
        self.rows: bool | None = None
        """Whether positions are (B, L); not known before they are tried."""
        self.marks: tuple[torch.dtype, bool] | None = None
        """The dtype of a mask, and whether it is 1 for padding; not known before it is tried."""
        given: Any = self.module or model
        own = {name: callable(getattr(given, name, None)) for name in ("step", "reorder", "crop", "generate")}
        own["step"] = own["step"] and len(names_of(given.step)) >= 2
        self.step = self._own_step if own["step"] else self._state_step if self.state_name else None
        self.count_name = next((name for name in COUNTS if own["generate"] and name in names_of(given.generate)), None)
        self.generate = self._own_generate if self.count_name else None
        self.reorder = given.reorder if own["reorder"] and own["step"] else None
        self.crop = given.crop if own["crop"] and own["step"] else None
        self.logits_of_embeddings = self._of_embeddings if "inputs_embeds" in names and self._table() else None
        self.axes = 1
        for name, expected in DECLARED.items():
            if isinstance(value := getattr(given, name, None), expected):
                setattr(self, name, value)
        self.axes = axes or self.axes
        self.vocabulary = vocabulary or self._vocabulary()

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return logits_of(self._called(tokens, self._given(tokens, positions, mask)))

    def _given(self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None) -> dict[str, Any]:
        """What goes with a text in one pass."""
        self._settle(tokens, positions, mask)
        given: dict[str, Any] = {**self._positions(positions, self.position_name), **self._mask(mask, self.mask_name)}
        if self.use_cache and self.state_name is not None:
            given["use_cache"] = False
        return given

    def _called(self, tokens: Tensor, given: dict[str, Any]) -> Any:
        """What the model returns, with what it cannot do without."""
        if self.position_name in self.required and self.position_name not in given:
            count = _count(tokens)
            if self.axes > 1:
                return self._called(tokens, given | self._positions(count.expand_as(tokens), self.position_name))
            if self.rows is None:
                try:
                    logits_of(ask(self.model, tokens, **given, **{self.position_name: count.expand_as(tokens)}))
                    self.rows = True
                except Exception:  # it may take them as (L,)
                    self.rows = False
            given = given | {self.position_name: count.expand_as(tokens) if self.rows else count}
        if self.mask_name in self.required and self.mask_name not in given:
            given = given | self._mask(torch.ones_like(tokens), self.mask_name)
        if self.targets:
            given = given | {"targets": tokens}
        return ask(self.model, tokens, **given)

    def _table(self) -> Any:
        """The module that embeds tokens, where there is one."""
        module: Any = self.module
        if callable(getattr(module, "get_input_embeddings", None)):
            return module.get_input_embeddings()
        return next((m for m in (module or nn.Module()).modules() if isinstance(m, nn.Embedding)), None)

    def _of_embeddings(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Logits with the rows of the model's own table given in place of tokens."""
        given = self._given(tokens, positions, mask)
        return logits_of(ask(self.model, inputs_embeds=self._table()(tokens), **given))

    def _own_step(
        self, tokens: Tensor, state: Any, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        owner: Any = self.module or self.model
        step = owner.step
        names = names_of(step)
        self._settle(tokens, positions, mask)
        position_name = next((name for name in POSITIONS if name in names), None)
        mask_name = next((name for name in MASKS if name in names), None)
        given = self._positions(positions, position_name, "step") | self._mask(mask, mask_name, "step")
        out = ask(step, tokens, state, **given)
        if not isinstance(out, tuple) or len(out) != 2:
            raise Unfit(f"step returns {type_name(out)}: return the pair (logits, state)")
        return logits_of(out[0]), out[1]

    def _state_step(
        self, tokens: Tensor, state: Any, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        given: dict[str, Any] = {}
        given |= self._positions(positions, self.position_name) | self._mask(mask, self.mask_name)
        given |= {"use_cache": True} if self.use_cache else {}
        if state is not None and self.position_name in self.required and self.position_name not in given:
            raise Refused("needs positions in each call, and counts none on from its cache")
        out = self._called(tokens, given | {str(self.state_name): state})
        logits = logits_of(out)
        kept = getattr(out, str(self.state_name), None)
        if kept is None and isinstance(out, dict):
            kept = out.get(str(self.state_name))
        if kept is None and isinstance(out, tuple | list):
            kept = next((part for part in out if part is not None and part is not logits), None)
        kept = state if kept is None else kept  # a cache that was given may have been extended in place
        if kept is None:
            raise Refused(f"returns no cache, though forward takes `{self.state_name}`")
        return logits, kept

    def _own_generate(
        self, tokens: Tensor, forced: Tensor | None = None, *, new: int = 8, **how: Any
    ) -> tuple[Tensor, Tensor | None]:
        """What the module's own loop adds, greedily; it knows neither forced tokens nor other ways to decode."""
        plain = {"mask": None, "use_cache": True, "static": False, "beams": 1, "lookup": 0, "past": None}
        if any(value != plain[name] for name, value in how.items()):
            raise Refused("its own generate is asked for greedy tokens alone")
        owner: Any = self.module or self.model
        names = names_of(owner.generate)
        greedy = {name: value for name, value in GREEDY.items() if name in names}
        out = ask(owner.generate, tokens, **{str(self.count_name): new}, **greedy)
        out = getattr(out, "sequences", out[0] if isinstance(out, tuple) else out)
        if not isinstance(out, Tensor) or out.ndim != 2 or out.is_floating_point():
            raise Refused("its own generate returns no tokens (B, L)")
        return (out if out.shape[1] > new else torch.cat((tokens, out), 1)), None

    def _positions(self, positions: Tensor | None, name: str | None, where: str = "") -> dict[str, Tensor]:
        if positions is None:
            return {}
        if name is None:
            raise Refused(f"{where} takes no positions".strip())
        if self.axes > 1:
            return {name: positions if positions.ndim == 3 else positions.expand(self.axes, *positions.shape)}
        if self.rows is False:
            if len(positions) > 1 and not bool((positions == positions[:1]).all()):
                raise Refused("takes one row of positions for the whole batch")
            positions = positions[0]
        return {name: positions}

    def _mask(self, mask: Tensor | None, name: str | None, where: str = "") -> dict[str, Tensor]:
        if mask is None:
            return {}
        if name is None:
            raise Refused(f"{where} takes no mask of real tokens".strip())
        dtype, turned = self.marks or (MASKS[name], False)
        return {name: (1 - mask if turned else mask).to(dtype)}

    def _settle(self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None) -> None:
        """Finds the form in which the model takes positions and masks, at their first use."""
        if positions is not None and self.takes_positions and self.rows is None and self.axes == 1:
            self.rows = self._best(
                tokens,
                {True: positions[:1].expand_as(tokens) * 0 + _count(tokens), False: _count(tokens)},
                str(self.position_name),
            )
        if mask is not None and self.takes_mask and self.marks is None:
            name, ones = str(self.mask_name), torch.ones_like(tokens)
            dtypes = (MASKS[name], torch.bool if MASKS[name] == torch.long else torch.long)
            forms = {(dtype, False): ones.to(dtype) for dtype in dtypes}
            if name in TURNED:
                forms |= {(dtype, True): (1 - ones).to(dtype) for dtype in dtypes}
            self.marks = self._best(tokens, forms, name)

    def _best(self, tokens: Tensor, forms: dict[Any, Tensor], name: str) -> Any:
        """The first form that changes nothing, since it states the default; else the first that raises no error."""
        plain, able, problem = logits_of(self._called(tokens, {})).clone(), [], None
        for form, value in forms.items():
            try:
                out = logits_of(self._called(tokens, {name: value}))
            except Ended:
                raise
            except Exception as error:  # a model may raise anything at a shape that it does not expect
                problem = problem or error
                continue
            if out.shape == plain.shape and torch.allclose(out, plain, rtol=1e-3, atol=1e-3, equal_nan=True):
                return form
            able.append(form)
        if not able:
            if name in MASKS and not DOUBLE.search(str(problem)):
                raise Refused(f"`{name}` of forward is not a mask of real tokens, (B, L)") from problem
            raise problem or ValueError(f"{name} cannot be passed")
        return able[0]

    def _vocabulary(self) -> int:
        device = device_of(self.module)
        modes = {} if self.module is None else {module: module.training for module in self.module.modules()}
        try:
            for module in modes:
                module.training = False  # running statistics stay as they are
            with torch.no_grad():
                tokens, out = self._first_call(device)
                if out.shape[1] == 1 and "targets" in self._names:  # as nanoGPT does
                    self.targets = True
                    out = logits_of(self._called(tokens, {}))
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(
                f"the model cannot be called with two tokens, int64 (1, 2), nor with more: {error_line(error)}; "
                f"pass a function of (tokens, positions=None, mask=None) that returns logits (B, L, V), or say "
                f"audit(model, grid=(rows, columns)) if it takes images"
            ) from error
        finally:
            for module, mode in modes.items():
                module.training = mode
        tables = [m.num_embeddings for m in (self.module or nn.Module()).modules() if isinstance(m, nn.Embedding)]
        return out.shape[-1] if not tables or out.shape[-1] in tables else min(out.shape[-1], tables[0])

    def _first_call(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Tokens with which it can be called, and the logits; some models take no text of two, or rows of a grid."""
        problem: Exception | None = None
        for n in LENGTHS:
            tokens = torch.zeros(1, n, dtype=torch.long, device=device)
            try:
                return tokens, logits_of(self._called(tokens, {}))
            except (Unfit, Ended):
                raise
            except Exception as error:  # it may raise anything at a length that it does not take
                problem = problem or error
        assert problem is not None
        raise problem


class WithoutModule:
    """An adapter that somebody wrote without `module`; the object itself stays as it is.

    Args:
        adapter: The object.
    """

    module = None

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    def __getattr__(self, name: str) -> Any:
        if name == "adapter":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.adapter, name)


def adapt(model: Any, *, vocabulary: int | None = None) -> Adapter:
    """Makes an adapter of a model.

    Args:
        model: An object that has `logits` and the other names of `Adapter`, a `posenc.Transformer`, a model of
            transformers, any module, or a function of tokens. Arguments of forward are recognised by their names:
            positions, position_ids, pos, input_pos or pos_ids; attention_mask, padding_mask, mask, key_padding_mask or
            src_key_padding_mask.
        vocabulary: How many different tokens there are. Default: what the model itself tells, by its logits and tables.

    Returns:
        The adapter.

    Raises:
        ValueError: If it cannot be called, has weights without values, or returns no logits.

    Example:
        >>> from posenc.audit import adapt
        >>> adapt(lambda tokens: torch.nn.functional.one_hot(tokens, 9).float()).vocabulary
        9
    """
    if all(hasattr(model, name) for name in ("logits", "takes_positions", "takes_mask", "vocabulary")):
        return model if hasattr(model, "module") else cast(Adapter, WithoutModule(model))
    made = _adapter(model, vocabulary)
    if vocabulary:
        made.vocabulary = vocabulary
    return made


def _adapter(model: Any, vocabulary: int | None) -> Adapter:
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if not callable(model):
        raise Unfit(f"{type_name(model)} cannot be called: pass a module, a function of tokens, or an Adapter")
    module = module_of(model)
    if module is not None and any(each.is_meta for each in (*module.parameters(), *module.buffers())):
        raise Unfit("the weights are on the meta device and have no values: load them, or build the model anew")
    if of_transformers(model):
        if in_halves(model):
            return importlib.import_module("posenc.audit.adapters.hf.halves").Decoder(model)
        return importlib.import_module("posenc.audit.adapters.hf.adapter").TransformersAdapter(model)
    if isinstance(model, Transformer):
        return Own(model)
    return Called(model, vocabulary)


def of_transformers(model: Any) -> bool:
    """Whether a model is one of transformers, and no module that has one's configuration."""
    return isinstance(model, nn.Module) and hasattr(model, "_is_stateful") and hasattr(model.config, "model_type")


def in_halves(model: Any) -> bool:
    """Whether a model is an encoder-decoder of transformers."""
    return (
        of_transformers(model)
        and bool(getattr(model.config, "is_encoder_decoder", False))
        and "decoder_input_ids" in names_of(model.forward)
    )


def _count(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)


def required(function: Any) -> list[str]:
    """Names of the arguments that a function or class needs; none where its signature is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in free]


def names_of(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
