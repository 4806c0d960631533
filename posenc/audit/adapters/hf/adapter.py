"""A model of transformers as the audit sees it; `halves.py` has the two halves of an encoder-decoder.

Three habits of transformers shape this file. `use_cache` is always passed, because its default does not separate packed
documents. A cache is passed under the name that the class returns it under, and the mask as `generate` would pass it.
And a test does not apply where the class says in words that it does not support something; any other exception is a
mistake of the model, and the test reports it.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from posenc.audit.adapters.hf.special import (
    IGNORES_MASK,
    MASK_WITHOUT_CACHE,
    NO_PACKING,
    NO_POSITIONS,
    PADS,
    SCALES,
    TWO_WAY,
)
from posenc.audit.adapters.hf.tiny import quiet
from posenc.audit.adapters.protocol import Refused, logits_of
from posenc.audit.errors import first_line

CACHES = ("past_key_values", "cache_params", "state", "mems")
RECURRENT = ("linear", "mamba", "conv", "recurrent", "hybrid", "ssm", "kda", "gated_delta")  # parts of kinds of layers
REFUSALS = re.compile(
    r"support|cannot|not used by the model|requires|at the moment|but the current layer|not implemented|no attribute",
    re.I,
)
WIDE = 64  # a window that no text of the audit fills
WINDOWS = ("sliding_window", "window_size", "attention_window_size", "local_attention", "attention_chunk_size",
           "sliding_window_size")  # fmt: skip
SELECTIONS = ("index_topk", "indexer_budget", "keep_window_size")
ALL_KEYS = "all keys selected"
CHOSEN = ("num_experts_per_tok", "moe_top_k", "top_k_experts", "moe_topk", "num_experts_per_token", "moe_k")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


@dataclass
class State:
    """A cache, the argument that it is passed under, and how many tokens it holds."""

    name: str
    cache: Any
    length: int


class TransformersAdapter:
    """The adapter of a language model or an encoder of transformers; `posenc.audit.adapt` makes it.

    Args:
        model: A `PreTrainedModel` of texts. Without a row of logits for each token, the last hidden states of its base
            model serve.
        whole: The model that it is a part of. Default: none.
    """

    position_name, mask_name, embeds_name = "position_ids", "attention_mask", "inputs_embeds"
    explained: ClassVar[dict[str, str]] = {
        ALL_KEYS: "It follows from which keys a layer selects: the selection has no gradient, and equal tokens tie."
    }
    """Variants under which a test that fails is no bug when it passes, and why."""

    def __init__(self, model: Any, whole: Any = None) -> None:
        self.model, self.module = _with_rows(model), model if whole is None else whole
        model = self.model
        names = inspect.signature(model.forward).parameters
        anything = any(each.kind == each.VAR_KEYWORD for each in names.values())
        config = self.module.config.get_text_config(decoder=True)
        model_type = self.module.config.model_type
        self.names = set(names)
        self.says_use_cache = "use_cache" in names or anything
        # Where forward passes on **kwargs, a part of the model decides; a name that nobody knows is dropped silently.
        named = "position_ids" in names or (anything and _inside(model, "position_ids"))
        self.takes_positions = named and model_type not in NO_POSITIONS
        self.takes_mask = "attention_mask" in names and model_type not in IGNORES_MASK
        self.vocabulary = _vocabulary(self.module, config)
        self.causal, self.causal_why = says_causal(self.module)
        self.keeps = model_type in TWO_WAY
        """Whether it generates with a cache, although tokens see later ones."""
        kinds = " ".join(map(str, getattr(config, "layer_types", None) or ()))
        self.recurrent = bool(getattr(model, "_is_stateful", False)) or any(word in kinds for word in RECURRENT)
        rotary = any("Rotary" in type(each).__name__ for each in model.modules())
        relative = self.takes_positions and rotary and not self.recurrent and model_type not in NO_PACKING
        self.packs = relative and bool(self.causal)  # masks that look both ways are not made from positions
        self.scales = SCALES.get(model_type, "")
        """What scores depend on besides distances."""
        self.scheme = "relative" if self.packs and not self.scales else None
        self.pads = PADS.get(model_type, "")
        """What padding does that no mask undoes."""
        self.cached_mask = model_type not in MASK_WITHOUT_CACHE

    @property
    def pads_right(self) -> bool:
        """Whether padding belongs after a text, as transformers' pages say of classes with a table and no positions."""
        return not self.takes_positions

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return logits_of(self._call(tokens, positions, mask, use_cache=False))

    def logits_of_embeddings(
        self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The same with the rows of the model's own table given in place of tokens."""
        if self.embeds_name not in self.names:
            raise Refused("takes no embeddings in place of tokens")
        given = self._given(tokens, positions, mask, use_cache=False) | self._beside(tokens)
        try:
            return logits_of(self.model(**{self.embeds_name: self._rows(tokens)}, **given))
        except (ValueError, NotImplementedError) as error:
            raise _refused(error) from error

    def _rows(self, tokens: Tensor) -> Tensor:
        """The rows of the model's own table."""
        try:
            rows = getattr(self, "part", self.model).get_input_embeddings()(tokens)
        except (AttributeError, NotImplementedError) as error:
            raise Refused("does not say which table its tokens are read from") from error
        if not isinstance(rows, Tensor):
            raise Refused("makes more of a token than the row of a table")
        return rows

    def logits_by_default(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """The same with `use_cache` left to its default, as most calls leave it."""
        return logits_of(self._call(tokens, positions, None, use_cache=None))

    def step(
        self, tokens: Tensor, state: State | None, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        if mask is not None and not self.cached_mask:
            raise Refused(MASK_WITHOUT_CACHE[self.model.config.model_type])
        given = {} if state is None else {state.name: state.cache}
        if state is not None and state.name == "cache_params":
            mask = None  # as generate does: a state has no past that could be masked
        try:
            out = self._call(tokens, positions, mask, use_cache=True, **given)
        except (ValueError, NotImplementedError, AssertionError, RuntimeError) as error:
            raise _refused(error) from error
        name = next((name for name in CACHES if getattr(out, name, None) is not None), None)
        if name is None:
            raise Refused("returns no cache that can be passed to the next call")
        past = 0 if state is None else state.length
        return logits_of(out), State(name, getattr(out, name), past + tokens.shape[1])

    def reorder(self, state: State, order: Tensor) -> State:
        if not hasattr(state.cache, "reorder_cache"):
            raise Refused(f"{type(state.cache).__name__} has no reorder_cache")
        state.cache.reorder_cache(order)
        return state

    def crop(self, state: State, n: int) -> State:
        if not hasattr(state.cache, "crop"):
            raise Refused(f"{type(state.cache).__name__} has no crop")
        try:
            state.cache.crop(-n)
        except (ValueError, NotImplementedError, RuntimeError) as error:
            raise _refused(error) from error
        return State(state.name, state.cache, state.length - n)

    def generate(
        self,
        tokens: Tensor,
        forced: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        use_cache: bool = True,
        static: bool = False,
        beams: int = 1,
        lookup: int = 0,
        past: State | None = None,
        new: int = 8,
    ) -> tuple[Tensor, Tensor | None]:
        """What `generate` returns, greedily, without end tokens.

        Args:
            tokens: The text so far, (B, L).
            forced: Tokens (B, n) that are taken whatever the logits say, so that these can be compared with a pass.
            mask: 1 for real tokens, (B, L).
            use_cache: Whether keys are kept.
            static: Whether the cache is static: `cache_implementation="static"`, not compiled.
            beams: How many; 1 is greedy.
            lookup: How many tokens prompt lookup proposes; 0 is none.
            past: A cache of the first part of `tokens`, as `step` returns it.
            new: How many tokens are generated, unless `forced` says.

        Returns:
            Sequences (B, L + n), and the logits of the new tokens (B, n, V), which beams and lookup do not have.
        """
        if not hasattr(self.model, "generate"):
            raise Refused("has no generate")
        plain = beams == 1 and lookup == 0
        options: dict[str, Any] = {"max_new_tokens": new if forced is None else forced.shape[1], "use_cache": use_cache}
        options |= self._text(tokens)
        if forced is not None:
            options["logits_processor"] = [_forcing(forced, tokens.shape[1])]
        if mask is not None and self.takes_mask:
            if use_cache and not self.cached_mask:
                raise Refused(MASK_WITHOUT_CACHE[self.model.config.model_type])
            options[self.mask_name] = mask
        if static:
            options |= {"cache_implementation": "static", "disable_compile": True}
        if beams > 1:
            options["num_beams"] = beams
        if lookup:
            options["prompt_lookup_num_tokens"] = lookup
        if past is not None:
            if past.name != "past_key_values":
                raise Refused(f"generate continues from past_key_values only, and the state is {past.name}")
            options[past.name] = past.cache
        with _plain_generation(self.model, tokens), quiet():
            try:
                out = self.model.generate(do_sample=False, return_dict_in_generate=True, output_logits=plain, **options)
            except (ValueError, NotImplementedError, AssertionError, RuntimeError, AttributeError) as error:
                raise _refused(error) from error
        return out.sequences, torch.stack(out.logits, 1) if plain else None

    def variants(self) -> dict[str, TransformersAdapter]:
        """The same weights with one thing changed, to see whether a failing test then passes."""
        changes_by_name = {}
        config = self.model.config.get_text_config(decoder=True)
        windows = {name: WIDE for name in WINDOWS if 0 < _whole(config, name) < WIDE}
        if windows:
            changes_by_name[f"a window of {WIDE}"] = windows
        experts = next((_whole(config, name) for name in EXPERTS if _whole(config, name)), 0)
        chosen = {name: experts for name in CHOSEN if 0 < _whole(config, name) < experts}
        if chosen:
            changes_by_name["all experts on"] = chosen
        selected = {name: WIDE for name in SELECTIONS if 0 < _whole(config, name) < WIDE}
        if selected:
            changes_by_name[ALL_KEYS] = selected
        adapters = {}
        for words, changes in changes_by_name.items():
            adapter = self._rebuilt(changes)
            if adapter is not None:
                adapters[words] = adapter
        return adapters

    def _rebuilt(self, changes: dict[str, int]) -> TransformersAdapter | None:
        """The same class with these fields and the same weights; None where the class does not take them."""
        config = copy.deepcopy(self.model.config)
        text = config.get_text_config(decoder=True)
        dtype = next((each.dtype for each in self.model.parameters() if each.is_floating_point()), torch.float32)
        try:
            for name, value in changes.items():
                setattr(text, name, value)
            with quiet(), torch.random.fork_rng(devices=[]):
                model = type(self.model)._from_config(config)
            model.load_state_dict(self.model.state_dict(), strict=False, assign=True)  # the same memory
        except Exception:  # a class may check its fields against one another: then there is no such variant
            return None
        return TransformersAdapter(model.to(self.model.device, dtype).train(self.model.training))

    def _call(
        self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, *, use_cache: bool | None, **cache: Any
    ) -> Any:
        return self.model(**self._text(tokens), **self._given(tokens, positions, mask, use_cache=use_cache), **cache)

    def _text(self, tokens: Tensor) -> dict[str, Any]:
        """A text as the class takes it."""
        return {"input_ids": tokens, **self._beside(tokens)}

    def _beside(self, tokens: Tensor) -> dict[str, Any]:
        """What has to stand beside each text."""
        return {}

    def _given(
        self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, *, use_cache: bool | None
    ) -> dict[str, Any]:
        """What goes with a text, by the names that the class has for it."""
        if positions is not None and not self.takes_positions:
            raise Refused("takes no positions")
        if mask is not None and not self.takes_mask:
            raise Refused("takes no mask of real tokens")
        given: dict[str, Any] = {}
        if positions is not None:
            given[self.position_name] = positions.expand(len(tokens), -1)
        if mask is not None:
            given[self.mask_name] = mask
        if use_cache is not None and self.says_use_cache:
            given["use_cache"] = use_cache
        return given


def says_causal(model: Any) -> tuple[bool | None, str]:
    """Whether tokens see only what lies before them, and who says so; None if nobody does.

    Fields of the configuration decide before the class does: a class for causal language models with `is_decoder`
    false, as that of BERT, looks both ways.
    """
    text = model.config.get_text_config(decoder=True)
    kind, mine = model.config.model_type, type(model).__name__
    if kind in TWO_WAY:
        return False, TWO_WAY[kind]
    asked = "is_decoder" in inspect.signature(model.forward).parameters  # then each call says it anew
    for config in (text, model.config):
        if getattr(config, "use_bidirectional_attention", None) in (True, "all"):
            return False, "use_bidirectional_attention of the configuration is set"
        for name in ("is_causal", "causal", *([] if asked else ["is_decoder"])):
            if isinstance(value := getattr(config, name, None), bool):
                return value, f"{name} of the configuration is {str(value).lower()}"
    from transformers.models.auto import modeling_auto as auto

    if mine in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return True, f"{mine} is a causal language model"
    if mine in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values():
        return False, f"{mine} is a masked language model"
    kinds = {kind, text.model_type}
    if kinds & set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) and not kinds & set(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES):
        return True, f"{text.model_type} is a family of causal language models"
    return None, ""


def _with_rows(model: Any) -> Any:
    """The part of a model that has a row for each token: without the head of a classifier."""
    base = getattr(model, "base_model", model)
    pooled = re.search(r"For(SequenceClassification|MultipleChoice|QuestionAnswering|NextSentence|PreTraining)",
                       type(model).__name__)  # fmt: skip
    return base if pooled and base is not model else model


class _plain_generation:
    """Without what a model's own settings would add to greedy decoding: end tokens, penalties, forced tokens."""

    def __init__(self, model: Any, tokens: Tensor) -> None:
        self.model, self.start = model, tokens[:, 0].tolist()

    def __enter__(self) -> None:
        from transformers import GenerationConfig

        self.before = self.model.generation_config
        # A decoder's text begins as it is given: another first token than this one would be put before it
        start = {"decoder_start_token_id": self.start} if self.model.config.is_encoder_decoder else {}
        self.model.generation_config = GenerationConfig(pad_token_id=0, bos_token_id=1, **start)

    def __exit__(self, *error: object) -> None:
        self.model.generation_config = self.before


def _forcing(forced: Tensor, start: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A processor of logits after which only one token can be chosen."""

    def force(ids: Tensor, scores: Tensor) -> Tensor:
        at = ids.shape[1] - start
        out = torch.full_like(scores, float("-inf"))
        return out.scatter(1, forced[:, at : at + 1].expand(len(ids), 1), 0.0)

    return force


def _refused(error: Exception) -> Exception:
    """A refusal where the class refuses in words, and the error itself otherwise."""
    return Refused(first_line(error)) if REFUSALS.search(str(error)) else error


def _inside(model: nn.Module, name: str) -> bool:
    """Whether a part of the model takes an argument of that name."""
    parts = (each for each in model.modules() if each is not model and hasattr(each, "config"))
    return any(name in inspect.signature(each.forward).parameters for each in parts if hasattr(each, "base_model"))


def _vocabulary(model: Any, config: Any) -> int:
    """Tokens that are text: names of images and sounds have the highest numbers."""
    size = int(getattr(config, "vocab_size", 0) or model.get_input_embeddings().num_embeddings)
    for part in {id(config): config, id(model.config): model.config}.values():
        for name, value in vars(part).items():
            if re.fullmatch(r".*_token_(id|index)", name) and isinstance(value, int) and size // 2 < value < size:
                size = value
    return size


def _whole(config: Any, name: str) -> int:
    value = getattr(config, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
