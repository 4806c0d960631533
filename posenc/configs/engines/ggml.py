"""llama.cpp: flags, the keys and tensors of a GGUF file, and Ollama's Modelfile.

References:
    llama.cpp at commit 0c1e570: `common/arg.cpp` (flags), `src/llama-model.cpp` and `src/llama-arch.cpp` (keys),
    `src/llama-context.cpp` (what flags and keys become), `ggml/src/ggml-cpu/ops.cpp` (`rope_yarn`),
    `conversion/base.py`; gguf-py 0.19.0, `constants.py`. Ollama at commit fb30760:
    `docs/modelfile.mdx`, `api/types.go`, `llm/server.go`.
"""

from __future__ import annotations

import math
from typing import Any

from posenc.configs.engines.form import Form, number, shell
from posenc.configs.engines.hub import TRUNCATE, _rounded, _shared
from posenc.configs.engines.known import (
    ARCHITECTURES,
    LOG_MULTIPLIER,
    READ_DIVISORS,
    READ_LOCAL_BASE,
    READ_LONG_FACTORS,
    READ_RAMP,
    WHOLE_HEADS,
)
from posenc.configs.engines.wanted import Wanted
from posenc.configs.rotation import Frequencies, Rotation, mscale

STILL = 1e30
"""The divisor of a plane that does not rotate, as the converter writes it for Gemma 4."""

WINDOWED = ("sliding_attention", "hybrid_sliding", "chunked_attention")
FULL = ("", "full_attention", "hybrid")
REMEDY = "convert a config.json with this scaling by convert_hf_to_gguf.py, which writes it into the file"


def flags(model: Wanted) -> Form:
    """The flags of llama-server, llama-cli and the others, for a GGUF file of the model as it was before."""
    one, local, missing = _kinds(model)
    out: list[str] = []
    notes: list[str] = []
    if one is not None:
        name, read = one.rope_type, one.parameters
        out += ["--rope-freq-base", number(one.base)]
        if name in ("default", "linear", "yarn"):
            out += ["--rope-scaling", {"default": "none"}.get(name, name)]
        if name in ("linear", "yarn"):
            out += ["--rope-scale", number(read["factor"])]
        if name == "yarn":
            out += ["--yarn-orig-ctx", str(read["original_max_position_embeddings"])]
            for flag, key, usual in (("fast", "beta_fast", 32.0), ("slow", "beta_slow", 1.0)):
                value = read.get(key) or usual
                if value != usual:
                    out += [f"--yarn-beta-{flag}", number(value)]
            missing += _yarn(one, model, architecture(model))
            factor = _over(one, model)
            if factor != 1.0:
                out += ["--override-kv", f"{architecture(model)}.rope.scaling.attn_factor=float:{number(factor)}"]
            notes.append(
                "--yarn-attn-factor does nothing while YaRN is on: llama-context.cpp computes the factor anew, 0.1 "
                "ln s + 1"
            )
        elif name == "dynamic":
            missing.append(_no_dynamic(one, model))
        elif name in ("llama3", "longrope", "proportional"):
            missing.append(
                f"no flag takes a divisor for each plane, which rope_type {name!r} needs: {REMEDY}, and leave these "
                "flags out"
            )
        if one.dims != one.head_dim and name != "proportional" and architecture(model) not in WHOLE_HEADS:
            notes.append(f"that {one.dims} of {one.head_dim} channels rotate is said by the GGUF file, not by a flag")
    if local is not None:
        notes.append(
            "the base of layers with a window is in the GGUF file (rope.freq_base_swa), and --rope-freq-base leaves it"
        )
    if model.context:
        out += ["--ctx-size", str(model.context)]
        if one is not None and one.rope_type in ("default", "linear"):
            out += ["--override-kv", f"{architecture(model)}.context_length=int:{model.context}"]
            notes.append(
                "the server cuts a context to context_length of the GGUF file, which YaRN alone raises by itself: "
                "hence --override-kv"
            )
    missing += _partly(one, model)
    text = shell(("llama-server", "--model", "MODEL.gguf"), out)
    return Form(
        "llama.cpp", text, flags=tuple(out), missing=tuple(missing), notes=tuple(notes), tried=TRIED["llama.cpp"]
    )


def keys(model: Wanted) -> Form:
    """The metadata of a GGUF file, and the tensors that hold divisors."""
    one, local, missing = _kinds(model)
    arch, out, tensors, notes = architecture(model), dict[str, Any](), dict[str, tuple[float, ...]](), []
    if model.context:
        out["context_length"] = model.context
    if one is not None:
        name, read = one.rope_type, one.parameters
        out["rope.freq_base"] = float(one.base)
        out["rope.dimension_count"] = one.dims
        if name in ("linear", "yarn"):
            out |= {"rope.scaling.type": name, "rope.scaling.factor": float(read["factor"])}
        elif name == "longrope":
            out["rope.scaling.type"] = name
        else:
            out["rope.scaling.type"] = "none"
        if name in ("yarn", "longrope"):
            out["rope.scaling.original_context_length"] = read["original_max_position_embeddings"]
        if name == "yarn":
            if (below := read.get("mscale_all_dim")) and arch in LOG_MULTIPLIER:
                out["rope.scaling.yarn_log_multiplier"] = float(below) * (1.0 if arch == "mistral3" else 0.1)
            for key, usual in (("beta_fast", 32.0), ("beta_slow", 1.0)):
                value = float(read.get(key) or usual)
                if value != usual:
                    out[f"rope.scaling.yarn_{key}"] = value
                    if arch not in READ_RAMP:
                        missing.append(
                            f"rope.scaling.yarn_{key} is written for every architecture and read for "
                            f"{' and '.join(sorted(READ_RAMP))} alone: pass --yarn-{key.replace('_', '-')} "
                            f"{number(value)}"
                        )
            missing += _yarn(one, model, arch)
        factor = one.attention_factor if name == "longrope" else _over(one, model) if name == "yarn" else 1.0
        if factor != 1.0:
            out["rope.scaling.attn_factor"] = factor
        if name == "dynamic":
            missing.append(_no_dynamic(one, model))
        missing += _divisors(one, arch, tensors)
        if name == "longrope":
            notes.append(
                "long or short factors are chosen once, by --ctx-size of a sequence: leave it at the trained length "
                "for short texts"
            )
    if local is not None:
        out["rope.freq_base_swa"] = float(local.base)
        if arch not in READ_LOCAL_BASE:
            missing.append(
                f"{arch} does not read rope.freq_base_swa: its layers with a window get the base of the others"
            )
    missing += _partly(one, model)
    named = {f"{arch}.{key}": value for key, value in out.items()}
    lines = [f"--override-kv {key}={_typed(value)}" for key, value in named.items()]
    for name, values in tensors.items():
        lines.append(f"# tensor {name}, float32 ({len(values)}): {', '.join(f'{value:.7g}' for value in values)}")
    if tensors:
        notes.append("tensors can't be set when a file is loaded: " + REMEDY)
    notes.append(
        "the keys stand in the file if convert_hf_to_gguf.py had them; --override-kv sets them when it is loaded"
    )
    return Form(
        "gguf", "\n".join(lines), keys=named, tensors=tensors, missing=tuple(missing), notes=tuple(notes),
        tried=TRIED["gguf"],
    )  # fmt: skip


def modelfile(model: Wanted) -> Form:
    """Ollama's Modelfile, which has a length and no word on rotations: those are read from the GGUF file."""
    inside = keys(model)
    lines = [
        "# The rotation is read from the GGUF file. It has to hold these keys:",
        *(f"#   {key} = {value}" for key, value in inside.keys.items()),
        *(f"#   tensor {name}, {len(values)} divisors" for name, values in inside.tensors.items()),
        "FROM ./MODEL.gguf",
        *([f"PARAMETER num_ctx {model.context}"] if model.context else []),
    ]
    notes = [
        f"num_ctx is cut to {architecture(model)}.context_length of the file, so that key has to be the long length",
        "FROM a folder of safetensors goes through Ollama's own converter, which writes linear, llama3 and longrope "
        "for Llama and no YaRN: convert with convert_hf_to_gguf.py instead",
        "Ollama hands its environment on to llama-server, which reads LLAMA_ARG_ROPE_SCALING_TYPE, "
        "LLAMA_ARG_ROPE_SCALE and LLAMA_ARG_YARN_ORIG_CTX: they would count for every model of the server",
    ]
    return Form("ollama", "\n".join(lines), missing=inside.missing, notes=tuple(notes), tried=TRIED["ollama"])


def architecture(model: Wanted) -> str:
    """What llama.cpp calls the model, or "ARCH" where that is not known here."""
    return ARCHITECTURES.get(model.model_type, "ARCH")


def _typed(value: Any) -> str:
    """A value with its type, as `--override-kv` wants it."""
    if isinstance(value, str):
        return f"str:{value}"
    return f"int:{value}" if isinstance(value, int) else f"float:{number(value)}"


def _kinds(model: Wanted) -> tuple[Rotation | None, Rotation | None, list[str]]:
    """The rotation of layers without a window, that of layers with one, and what is not known of others."""
    missing = _shared(model)
    if model.model_type not in ARCHITECTURES:
        missing.append(
            f"which architecture of llama.cpp {model.model_type or 'a file without model_type'} is, was not found: "
            "put general.architecture of the GGUF file in place of ARCH"
        )
    rotations = model.reading.rotations
    one = next((each for kind, each in rotations.items() if kind in FULL and each is not None), None)
    local = next((each for kind, each in rotations.items() if kind in WINDOWED and each is not None), None)
    others = [kind for kind in rotations if kind not in (*FULL, *WINDOWED)]
    if others:
        missing.append(
            f"how llama.cpp takes the kinds {', '.join(others[:4])} was not read: take the file that its converter "
            "makes"
        )
    if local is not None and local.rope_type != "default":
        missing.append("layers with a window are scaled as well, for which llama.cpp has no key: use another engine")
    return one, local, missing


def _partly(one: Rotation | None, model: Wanted) -> list[str]:
    if one is None or one.dims == one.head_dim or one.rope_type == "proportional":
        return []
    arch = architecture(model)
    if arch not in WHOLE_HEADS:
        return []
    return [
        f"{one.dims} of {one.head_dim} channels rotate, and llama.cpp refuses that for architecture {arch}: use an "
        "architecture that reads rope.dimension_count"
    ]


def _yarn(one: Rotation, model: Wanted, arch: str) -> list[str]:
    """What llama.cpp's YaRN does otherwise, in flags and keys."""
    out = []
    if not one.parameters.get(TRUNCATE, True):
        out.append(_rounded(one, "llama.cpp"))
    below = one.parameters.get("mscale_all_dim")
    if arch in LOG_MULTIPLIER and below and not math.isclose(one.attention_factor, _reached(one, model), rel_tol=1e-6):
        out.append(f"architecture {arch} takes mscale for {'1' if arch != 'deepseek2' else 'mscale_all_dim'}")
    return out


def _reached(one: Rotation, model: Wanted) -> float:
    """What llama.cpp multiplies cosines and sines by where nothing else is said."""
    factor, below = one.parameters["factor"], one.parameters.get("mscale_all_dim")
    arch = architecture(model)
    if below and arch in LOG_MULTIPLIER:
        above = below if arch == "deepseek2" and below != 1.0 else 1.0
        return mscale(factor, above) / mscale(factor, below)
    return mscale(factor)


def _over(one: Rotation, model: Wanted) -> float:
    """What `rope.scaling.attn_factor` has to be, by which llama.cpp multiplies its own factor."""
    wanted, reached = one.attention_factor, _reached(one, model)
    return 1.0 if math.isclose(wanted, reached, rel_tol=1e-6) else wanted / reached


def _no_dynamic(one: Rotation, model: Wanted) -> str:
    length = model.context or 0
    trained, factor = one.parameters["max_position_embeddings"], one.parameters["factor"]
    long = int(trained * factor)
    stretch = factor * long / trained - (factor - 1)
    base = one.base * stretch ** (one.dims / (one.dims - 2)) if one.dims > 2 else one.base
    return (
        f"nothing in llama.cpp changes frequencies with the length of a text ({length or trained} tokens here): for "
        f"texts of {long} tokens --rope-freq-base {base:.0f} gives the frequencies that 'dynamic' has there"
    )


def _divisors(one: Rotation, arch: str, tensors: dict[str, tuple[float, ...]]) -> list[str]:
    """The tensors of divisors, where a rope type needs them."""
    if one.rope_type == "longrope":
        tensors["rope_factors_long.weight"] = tuple(map(float, one.parameters["long_factor"]))
        tensors["rope_factors_short.weight"] = tuple(map(float, one.parameters["short_factor"]))
        if arch not in READ_LONG_FACTORS:
            return [f"the loader of {arch} takes no rope_factors_long.weight: use another engine"]
    if one.rope_type in ("llama3", "proportional"):
        scaled: Frequencies = one.at(one.context)
        tensors["rope_freqs.weight"] = tuple(a / b if b else STILL for a, b in zip(one.plain, scaled, strict=True))
        if arch not in READ_DIVISORS:
            return [f"the loader of {arch} takes no rope_freqs.weight: use another engine"]
    return []


TRIED = {
    "llama.cpp": "a model of one layer, architecture llama, was run by llama.cpp (xllamacpp 2026.10.11549) with each "
    "of these settings, and its logits were those of the frequencies here",
    "gguf": "files with such keys and tensors, architecture llama, were written by gguf-py and run by llama.cpp "
    "(xllamacpp 2026.10.11549)",
    "ollama": "no, Ollama could not be installed, so only its source was read",
}
"""How each form was given to its engine."""
