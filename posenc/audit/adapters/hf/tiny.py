"""A tiny model of any language model or encoder of transformers, from a model type or a folder's `config.json`.

The audit needs a mechanism, not a checkpoint: two layers of width 64 with random weights decode, pad and pack by the
same code as the published model, and answer in milliseconds. `tiny` shrinks a configuration by rules on the names of
its fields (`rules.py`), keeps one layer of each kind, and tries a few shapes in turn until a model is built that
answers a text of 24 tokens.

Nothing of a folder is executed: `config.json` is read as data, weights from safetensors only, and classes are those of
the installed transformers. What a configuration could make transformers fetch or run is left out (`UNTRUSTED`).
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import json
import logging
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posenc.audit.adapters.hf.rules import (
    COUNT_OF_LAYERS,
    HEAD_WIDTHS,
    KEY_HEADS,
    LAST,
    LAYERS,
    OPEN,
    TABLE_ROWS,
    VOCABULARY,
    rule,
)
from posenc.audit.adapters.hf.special import BARE, COMPOSED, NOT_ASKED, SPECIAL, Special
from posenc.audit.adapters.protocol import TURN

TESTED = (5, 23)  # the version of transformers that rules and findings were tested with
LARGEST = 30_000_000  # parameters: a shape with more is no tiny one
TOKENS = 24
# Fields that could fetch or run code that is not transformers' own, or need another library to run
UNTRUSTED = (
    "auto_map", "custom_pipelines", "attn_implementation", "_attn_implementation", "_attn_implementation_internal",
    "experts_implementation", "_experts_implementation", "quantization_config", "trust_remote_code", "_name_or_path",
)  # fmt: skip


class CannotBuild(ValueError):
    """There is no model to audit; the message says why in one sentence."""


@dataclass(frozen=True)
class Shape:
    """How a configuration is shrunk; a few are tried in turn.

    Args:
        layers: How many, where the configuration has no lists of layers.
        lists: Cut lists with an entry for each layer down to one layer of each kind; otherwise leave them out of it.
        key_heads: How many heads keys have; by the rules where None.
        head: The width of a head; by the rules where None.
        parts: Shrink nested configurations as well.
        skip: Names of fields that keep their value.
        keep_heads: Keep the width of a head and the rows of a configuration, so that its angles stay what they are.
        decoder: Set `is_decoder`, where there is such a field.
    """

    layers: int = 2
    lists: bool = True
    key_heads: int | None = None
    head: int | None = None
    parts: bool = True
    skip: tuple[str, ...] = ()
    keep_heads: bool = False
    decoder: bool = False


SHAPES = (
    Shape(),
    Shape(key_heads=4),
    Shape(head=8),
    Shape(head=8, key_heads=4),
    Shape(skip=("head_dim",)),
    Shape(lists=False),
    Shape(lists=False, layers=4),
    Shape(lists=False, head=8),
    Shape(parts=False),
    Shape(layers=4),
    Shape(layers=6),
    Shape(skip=("head_dim",), key_heads=4),
)


@dataclass(frozen=True)
class Tiny:
    """A tiny model that answered, and how it came to be."""

    model: Any
    model_type: str
    shape: Shape
    parameters: int
    notes: tuple[str, ...] = ()
    failed: tuple[str, ...] = field(default=(), repr=False)
    """What the shapes before this one raised."""


def tiny(what: str | os.PathLike[str] | Mapping[str, Any] | Any, *, architecture: str = "", seed: int = 0) -> Tiny:
    """A tiny model with the mechanisms of a configuration, and random weights.

    Args:
        what: A model type such as `"llama"`, a folder with a `config.json` or that file, its content as a dict, or a
            configuration of transformers.
        architecture: The class to build, such as "BertForMaskedLM". Default: the first of the configuration's
            `architectures`; without one, the causal language model of that type, or else its masked one, its
            encoder-decoder, or its model without a head.
        seed: Seed of the random weights. Default: 0.

    Raises:
        CannotBuild: Where there is no configuration, its type or the class is unknown, or no shape gives a model that
            answers.

    Example:
        >>> made = tiny("llama")
        >>> type(made.model).__name__, made.parameters < 100_000
        ('LlamaForCausalLM', True)
    """
    with quiet():
        subject = _subject(what, architecture)
        failed = []
        for shape in subject.shapes:
            try:
                model, count = _built(subject, shape, seed)
            except Exception as error:
                failed.append(f"{type(error).__name__}: {_short(error)}")
                continue
            return Tiny(model, subject.model_type, shape, count, (*subject.notes, *version_note()), tuple(failed))
    reason = NOT_ASKED.get(subject.model_type)
    message = (
        f"posenc.audit builds no tiny {subject.model_type}: {reason}"
        if reason
        else (f"no tiny {subject.model_type} can be built; the first of {len(failed)} shapes raised {failed[0]}")
    )
    raise CannotBuild(message)


def load(folder: str | os.PathLike[str], *, dtype: torch.dtype = torch.float32) -> Any:
    """The model of a folder with the weights that lie there, as they are.

    Args:
        folder: A folder with `config.json` and weights as safetensors.
        dtype: The dtype of the weights in memory. Default: float32.

    Raises:
        CannotBuild: Without a configuration or safetensors, for an unknown type, where a file is damaged or weights
            are missing, and where they do not fit into memory.
    """
    data = read(folder)
    files = sorted(_folder(folder).glob("*.safetensors"))
    if not files:
        raise CannotBuild(
            f"{folder} has no weights as *.safetensors; other formats can hold code and are not opened: audit the "
            f"tiny model of its config.json instead, or convert the weights"
        )
    _indexed(folder)
    needed, free = _needed(files), available_memory()
    if free is not None and needed > free:
        raise CannotBuild(
            f"an audit of the weights in {folder} takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are "
            f"free: audit the tiny model instead, which needs no weights"
        )
    with quiet(), contextlib.redirect_stderr(io.StringIO()):  # a bar of progress
        config = configuration(_class(data, str(folder)), data)
        try:
            loaded: Any = model_class(config, _named(data)[0]).from_pretrained(
                os.fspath(_folder(folder)),
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except RuntimeError as error:  # of sizes that do not fit
            raise CannotBuild(f"the weights in {folder} do not fit its config.json: {_short(error)}") from error
    model, told = loaded
    _complete(folder, told)
    return model.eval()


def _needed(files: list[Path]) -> int:
    """Bytes of memory that an audit of these weights takes at its peak, besides what activations take.

    They are read in float32, copied for the audit, and cast to float64; a test may need one more copy in float32. That
    is 8 times what lies in files of 16 bits, and 4 times for files of float32, with a fourth more to be safe.
    """
    from safetensors import SafetensorError, safe_open

    count = 0
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise CannotBuild(
                f"{path} is not a whole safetensors file ({_short(error)}): copy or download it again"
            ) from error
    return 20 * count


def _indexed(folder: str | os.PathLike[str]) -> None:
    """Raises CannotBuild if the index of the weights names files that are not there."""
    path = _folder(folder) / "model.safetensors.index.json"
    if not path.is_file():
        return
    try:
        names = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
        missing = sorted(name for name in names if not (path.parent / name).is_file())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise CannotBuild(f"{path} is not an index of weights ({_short(error)}): download it again") from error
    if missing or not names:
        raise CannotBuild(f"{path} names {_several(missing) or 'no files'}, which {folder} lacks: download them, too")


def _complete(folder: str | os.PathLike[str], report: Mapping[str, Any]) -> None:
    """Raises CannotBuild unless all weights of a model came from files: transformers draws what is missing."""
    missing = sorted(report.get("missing_keys", ()))
    other = sorted(map(str, report.get("mismatched_keys", ())))
    if not missing and not other:
        return
    strange = sorted(report.get("unexpected_keys", ()))
    hint = f"; the files have {_several(strange)}, which the model does not have" if strange else ""
    raise CannotBuild(
        f"the weights in {folder} lack {_several(missing or other)}{hint}: transformers would draw them at random, so "
        f"complete the files, or audit the tiny model instead"
    )


def _several(names: list[str]) -> str:
    """A few of many names."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a folder's `config.json`, or of that file, without what could fetch or run code.

    Raises:
        CannotBuild: If there is no such file, or it does not hold an object of JSON.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "config.json").write_text('{"model_type": "llama", "auto_map": {"AutoModel": "evil.Model"}}')
        >>> read(folder)
        {'model_type': 'llama'}
    """
    path = Path(folder)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise CannotBuild(f"there is no {path.name} in {path.parent}: name a folder that holds a config.json")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise CannotBuild(f"{path} is not readable as JSON: {error}") from None
    except RecursionError:
        raise CannotBuild(f"{path} is nested too deeply to be a configuration") from None
    if not isinstance(data, dict):
        raise CannotBuild(
            f'{path} holds {type(data).__name__}, not an object of JSON: write one, such as {{"model_type": "llama"}}'
        )
    return trusted(data)


def trusted(data: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the fields that could fetch or run code, at any depth.

    Example:
        >>> trusted({"text_config": {"attn_implementation": "someone/kernel", "rope_theta": 1e4}})
        {'text_config': {'rope_theta': 10000.0}}
    """
    return {
        key: trusted(value) if isinstance(value, Mapping) else value
        for key, value in data.items()
        if key not in UNTRUSTED
    }


def model_types() -> list[str]:
    """All architectures of transformers that are causal language models."""
    with quiet():
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def encoders() -> dict[str, str]:
    """Encoders of texts in transformers: the model type by class."""
    with quiet():
        from transformers.models.auto import modeling_auto as auto

        masked = {_first(name): kind for kind, name in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.items()}
        others = encoder_decoders()
        return {name: kind for name, kind in (masked | BARE).items() if name not in others}


@functools.cache
def encoder_decoders() -> dict[str, str]:
    """Encoder-decoders of texts and sounds in transformers: the model type by class."""
    with quiet():
        from transformers.models.auto import modeling_auto as auto

        tables = (auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES)
        found = {_first(name): kind for table in tables for kind, name in table.items()}
        mapping = _config_mapping()
        return {
            name: kind
            for name, kind in found.items()
            if kind not in COMPOSED and getattr(_made_by_default(mapping[kind]), "is_encoder_decoder", False)
        }


def _first(name: str | tuple[str, ...]) -> str:
    return name if isinstance(name, str) else name[0]


def _made_by_default(cls: Any) -> Any:
    try:
        return cls()
    except Exception:  # it needs its parts
        return None


def version_note() -> tuple[str, ...]:
    """A line for the report where the installed transformers is not the version that was tested."""
    installed = version("transformers")
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[:2])
    if numbers == TESTED:
        return ()
    age = "newer" if numbers > TESTED else "older"
    tested = ".".join(map(str, TESTED))
    return (f"transformers {installed} is {age} than {tested}, with which posenc.audit was tested",)


def available_memory() -> int | None:
    """Bytes of memory that are free, where the system tells."""
    try:
        kept = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", kept)[1])  # type: ignore[index]
    except (OSError, TypeError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the advice that transformers gives to those who mean to use a model."""
    with TURN, warnings.catch_warnings():  # warnings and verbosity are the process's
        warnings.simplefilter("ignore")
        from transformers.utils import logging as theirs

        before = theirs.get_verbosity()
        theirs.set_verbosity(logging.CRITICAL)
        try:
            yield
        finally:
            theirs.set_verbosity(before)


def shrunk(fields: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Keywords for a tiny configuration of the same class: those fields alone that change.

    Args:
        fields: A configuration as a dict.
        shape: What to try.

    Example:
        >>> shrunk({"hidden_size": 4096, "rope_theta": 5e5, "num_hidden_layers": 3, "layer_types": ["a", "b", "b"]},
        ...        Shape())
        {'hidden_size': 64, 'num_hidden_layers': 2, 'layer_types': ['a', 'b']}
    """
    kept, layers = _kinds(fields, shape) if shape.lists else ({}, shape.layers)
    key_heads = shape.key_heads
    if "kv_lora_rank" in fields:  # latent attention makes a key for each head
        key_heads = key_heads or 4
    out: dict[str, Any] = {}
    for name, value in fields.items():
        if name in shape.skip:
            continue
        if name in kept:
            out[name] = kept[name]
        elif isinstance(value, Mapping) and "model_type" in value:
            if shape.parts:
                out[name] = {"model_type": value["model_type"], **shrunk(value, replace(shape, layers=2))}
        elif name == "is_decoder" and shape.decoder:
            out[name] = True
        else:
            small = _small(name, value, layers)
            if small is not None:
                out[name] = small
                if key_heads and KEY_HEADS.fullmatch(name):
                    out[name] = key_heads
                if shape.head and name == "head_dim":
                    out[name] = shape.head
    return _with_heads(fields, out) if shape.keep_heads else out


def _small(name: str, value: Any, layers: int) -> int | None:
    """What the rules make of one field; None where they leave it alone."""
    row = rule(name)
    if row is None or row.value is None or isinstance(value, bool):
        return None
    if value is None and (not OPEN.fullmatch(name) or name in ("sliding_window", "attention_chunk_size")):
        return None  # switched off, or computed from other fields
    if value is not None and not isinstance(value, int):
        return None
    if row.value == LAYERS:
        return layers
    if row.value == LAST:
        return layers - 1
    return int(row.value)


def _kinds(fields: Mapping[str, Any], shape: Shape) -> tuple[dict[str, list[Any]], int]:
    """Lists with an entry for each layer, cut to one layer of each kind, and how many layers that makes."""
    count = next(
        (fields[name] for name in fields if COUNT_OF_LAYERS.fullmatch(name) and isinstance(fields[name], int)), 0
    )
    lists = {
        name: value
        for name, value in fields.items()
        if isinstance(value, list | tuple) and len(value) == count > 2 and name != "id2label"
    }
    if not lists:
        return {}, shape.layers
    chosen: list[int] = []
    seen: set[tuple[str, ...]] = set()
    for layer, entries in enumerate(zip(*lists.values(), strict=True)):
        # A base or an interval for each layer is a number, not a kind
        entry_of_layer = tuple(
            str(entry) for name, entry in zip(lists, entries, strict=True) if not re.search("theta|interval", name)
        )
        entry_of_layer = entry_of_layer or tuple(map(str, entries))
        if entry_of_layer not in seen and len(seen) < 4:
            seen.add(entry_of_layer)
            chosen.append(layer)
    while len(chosen) < shape.layers:
        chosen.append(min(chosen[-1] + 1, count - 1))
    return {name: [value[layer] for layer in chosen] for name, value in lists.items()}, len(chosen)


def _with_heads(fields: Mapping[str, Any], small: dict[str, Any]) -> dict[str, Any]:
    """The same with heads as wide as they were, and as many rows: angles and tables of angles stay what they are."""
    rows = _rotary(fields)
    kept = {
        name: fields[name] if HEAD_WIDTHS.fullmatch(name) or (rows and TABLE_ROWS.fullmatch(name)) else value
        for name, value in small.items()
    }
    width = next((name for name in ("hidden_size", "n_embd", "d_model") if name in kept), None)
    heads = next((name for name in ("num_attention_heads", "n_head", "n_heads") if name in kept), None)
    named = any(fields.get(name) for name in ("head_dim", "qk_rope_head_dim", "kv_channels"))
    if width and heads and not named and isinstance(fields[width], int) and fields.get(heads):
        kept[width] = kept[heads] * (fields[width] // fields[heads])
    return kept


def _rotary(fields: Mapping[str, Any]) -> bool:
    return bool(fields.get("rope_parameters") or fields.get("rope_scaling") or fields.get("rope_theta"))


@dataclass(frozen=True)
class _Subject:
    """A configuration and the class that it is of."""

    model_type: str
    cls: Any
    data: Mapping[str, Any]
    """What a folder said; nothing for a model type."""
    shapes: tuple[Shape, ...]
    special: Special
    notes: tuple[str, ...] = ()
    architecture: str = ""
    """The class that is asked for."""


def _subject(what: Any, architecture: str) -> _Subject:
    notes: tuple[str, ...] = ()
    if hasattr(what, "to_dict"):  # a configuration of transformers
        data = trusted(what.to_dict())
    elif isinstance(what, Mapping):
        data = trusted(what)
    elif isinstance(what, str) and what in _config_mapping():
        special = SPECIAL.get(what, Special(""))
        shapes = (replace(SHAPES[0], **special.switch),) if special.switch else SHAPES
        return _Subject(what, _config_mapping()[what], {}, shapes, special, architecture=architecture)
    elif isinstance(what, str) and not Path(what).exists() and re.fullmatch(r"[\w-]+", what):
        raise CannotBuild(_unknown(what))
    else:
        data = read(what)
        raw = json.loads((_folder(what) / "config.json").read_text(encoding="utf-8")) if Path(what).is_dir() else data
        if "auto_map" in raw:
            notes = (
                "The configuration names code of its own (auto_map), which is not run: transformers' class is used",
            )
    cls = _class(data, str(what) if not isinstance(what, Mapping) else "the configuration")
    special = SPECIAL.get(cls.model_type, Special(""))
    shapes = (replace(SHAPES[0], **special.switch),) if special.switch else SHAPES
    kept = tuple(replace(shape, keep_heads=True) for shape in shapes[:2])
    named, why = _named(data)
    notes = (*notes, why) if why and not architecture else notes
    return _Subject(cls.model_type, cls, data, kept + shapes, special, notes, architecture or named)


def _named(data: Mapping[str, Any]) -> tuple[str, str]:
    """The class that a configuration names first, if transformers has it; if not, a note."""
    import transformers

    listed = data.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(name, str):
        return "", ""
    if not re.fullmatch(r"\w+", name) or not hasattr(getattr(transformers, name, None), "from_pretrained"):
        return "", f"architectures names {name}, which transformers {version('transformers')} does not have"
    return name, ""


def model_class(config: Any, name: str = "") -> Any:
    """The class of that name; without one, the first that transformers has for such a configuration.

    Raises:
        CannotBuild: If there is none.
    """
    import transformers
    from transformers.models.auto import modeling_auto as auto

    if name:
        cls = getattr(transformers, name, None)
        if not hasattr(cls, "from_pretrained") or not hasattr(cls, "_from_config"):
            raise CannotBuild(f"transformers {version('transformers')} has no model {name}")
        return cls
    tables = (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_MASKED_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING, auto.MODEL_MAPPING,
    )  # fmt: skip
    for table in tables:
        if type(config) in table:
            found: Any = table[type(config)]
            cls = found[0] if isinstance(found, tuple) else found
            if table is auto.MODEL_MAPPING and cls.main_input_name != "input_ids":
                raise CannotBuild(f"{config.model_type} takes {cls.main_input_name} and no tokens")
            return cls
    raise CannotBuild(f"{config.model_type} is no language model and no encoder of texts")


def _class(data: Mapping[str, Any], where: str) -> Any:
    """The class of a configuration, by its `model_type`."""
    name = data.get("model_type")
    if not isinstance(name, str) or not name:
        raise CannotBuild(f'{where} has no model_type, so its class is unknown: add it, such as "llama"')
    mapping = _config_mapping()
    if name not in mapping:
        raise CannotBuild(_unknown(name))
    return mapping[name]


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, list(_config_mapping()), n=3)
    hint = f": did you mean {' or '.join(near)}?" if near else ", and code from a folder is not run"
    return f"transformers {version('transformers')} knows no model_type {name!r}{hint}"


def _config_mapping() -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING


def _folder(what: str | os.PathLike[str]) -> Path:
    return Path(what) if Path(what).is_dir() else Path(what).parent


def _built(subject: _Subject, shape: Shape, seed: int) -> tuple[nn.Module, int]:
    """The model of one shape, if it is small enough and answers."""
    from posenc.audit.adapters.called import adapt

    whole = configuration(subject.cls, subject.data) if subject.data else _default(subject)
    if not subject.architecture:
        shape = replace(shape, decoder=True)  # the default is a causal language model, where there is one
    keywords = merged(subject.data or subject.special.default, shrunk(whole.to_dict(), shape))
    keywords = merged(keywords, subject.special.small)
    config = configuration(subject.cls, {name: value for name, value in keywords.items() if name not in UNTRUSTED})
    cls = model_class(config, subject.architecture)
    if cls.config_class is config.sub_configs.get("text_config"):
        config = config.get_text_config()
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in cls._from_config(config).parameters())
    if count > LARGEST:
        raise ValueError(f"{count / 1e6:.0f} million parameters are too many")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = cls._from_config(config).eval()
    with torch.no_grad():
        logits = adapt(model).logits_by_default(torch.arange(10, 10 + TOKENS)[None] % VOCABULARY)  # type: ignore[attr-defined]
    if logits.shape[:2] != (1, TOKENS):
        raise ValueError(f"{TOKENS} tokens give logits of the shape {tuple(logits.shape)}")
    return model, count


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `over`; parts that both have are merged likewise.

    Example:
        >>> merged({"a": 1, "part": {"b": 2, "c": 3}}, {"part": {"b": 4}})
        {'a': 1, 'part': {'b': 4, 'c': 3}}
    """
    out = dict(base)
    for name, value in over.items():
        old = out.get(name)
        out[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return out


def _default(subject: _Subject) -> Any:
    try:
        return subject.cls(**subject.special.default)
    except Exception as error:
        raise CannotBuild(f"the configuration of {subject.model_type} has no default: {_short(error)}") from error


def configuration(cls: Any, keywords: Mapping[str, Any]) -> Any:
    """A configuration; fields that a class computes and does not take are left out when it says so."""
    left = {name: value for name, value in keywords.items() if name not in ("model_type", "transformers_version")}
    for _ in range(12):
        try:
            return cls(**left)
        except AttributeError as error:
            named = re.search(r"property '(\w+)' of", str(error))
            if named is None or named[1] not in left:
                raise
            del left[named[1]]
    raise ValueError("too many fields that cannot be set")


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]
