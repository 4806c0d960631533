"""Three ports of Llama that others wrote beside transformers' Llama with the same weights, right and with mistakes.

    python evidence/posenc_evidence/libraries/compare_ports.py        # writes ports.json; needs the four libraries

Mistakes are made by the library's own configuration where it has one for them, and else by a patch of one function.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from posenc.audit import compare

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import litgpt.model
    import torchtune.models.llama3_1
    from curated_transformers.layers import AttentionMask, QueryKeyRotaryEmbeddings
    from curated_transformers.models import LlamaCausalLM
    from litgpt.scripts.convert_hf_checkpoint import copy_weights_hf_llama
    from torchtune.models.convert_weights import hf_to_tune
    from transformers import LlamaConfig, LlamaForCausalLM

PACKAGES = ("transformers", "litgpt", "torchtune", "curated-transformers", "torch")
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 99, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5}  # fmt: skip
torch.manual_seed(0)
LLAMA = LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.3, tie_word_embeddings=False)).eval()


# ---- the ports, with weights as their own converters map them --------------------------------------------------------


def lit(**changed: Any) -> nn.Module:
    sizes = dict(n_layer=2, n_embd=64, n_head=4, n_query_groups=2, head_size=16, intermediate_size=96, block_size=2048)
    sizes |= dict(padded_vocab_size=99, vocab_size=99)
    config = litgpt.model.Config.from_name("Llama-2-7b-hf", **(sizes | changed))
    weights: dict[str, Any] = {}
    copy_weights_hf_llama(config, {}, weights, dict(LLAMA.state_dict()))
    model = litgpt.model.GPT(config)
    model.load_state_dict(weights)
    return model.eval()


def tune(converted: bool = True, **changed: Any) -> nn.Module:
    sizes = dict(vocab_size=99, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=64, intermediate_dim=96)
    model = torchtune.models.llama3.llama3(**sizes, max_seq_len=2048, **({"rope_base": 10_000} | changed))
    weights = hf_to_tune(LLAMA.state_dict(), num_heads=4, num_kv_heads=2, dim=64)
    if not converted:  # rows of queries and keys as they lie in the file
        for name, theirs in LLAMA.state_dict().items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                weights[name.replace("model.layers", "layers").replace("self_attn", "attn")] = theirs
    model.load_state_dict(weights)
    return model.eval()


def tune_scaled() -> nn.Module:
    """The class of Llama 3.1, whose frequencies are scaled, with weights of a Llama that isn't."""
    sizes = dict(vocab_size=99, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=64, intermediate_dim=96)
    model = torchtune.models.llama3_1.llama3_1(**sizes, max_seq_len=2048, rope_base=10_000)
    model.load_state_dict(hf_to_tune(LLAMA.state_dict(), num_heads=4, num_kv_heads=2, dim=64))
    return model.eval()


def curated(**changed: Any) -> nn.Module:
    fields = {**LLAMA.config.to_dict(), "rope_theta": 10_000.0, "torch_dtype": "float32"}
    config = LlamaCausalLM.config_from_hf(fields)
    for name, value in changed.items():
        setattr(config.layer.attention.rotary_embeddings, name, value)
    model = LlamaCausalLM(config)
    model.load_state_dict(LlamaCausalLM.state_dict_from_hf(LLAMA.state_dict()))
    return Called(model.float()).eval()


class Called(nn.Module):
    """curated-transformers takes a mask of a class of its own, so it's handed one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Any, position_ids: Any = None) -> Any:
        mask = AttentionMask(torch.ones_like(tokens, dtype=torch.bool))
        positions = None if position_ids is None else position_ids.expand(tokens.shape)
        return self.model(tokens, mask, positions=positions).logits


# ---- what is wrong in them -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


def lit_tables(change: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        model = lit()
        model.cos, model.sin = change(model.cos, model.sin)
        return model

    return made


ROTATE = litgpt.model.apply_rope


def late(x: Any, cos: Any, sin: Any) -> Any:
    """Queries, of four heads, one position further than keys."""
    if x.shape[1] != 4:
        return ROTATE(x, cos, sin)
    table = lit()
    rows = slice(1, 1 + x.shape[-2])
    return ROTATE(x, table.cos[rows][None].to(x), table.sin[rows][None].to(x))


def still(x: Any, cos: Any, sin: Any) -> Any:
    return ROTATE(x, cos, sin) if x.shape[1] == 4 else x


TURN = torchtune.models.llama3.llama3.__globals__["RotaryPositionalEmbeddings"].forward


def ignoring(self: Any, x: Any, *, input_pos: Any = None) -> Any:
    return TURN(self, x, input_pos=None)


CURATED = QueryKeyRotaryEmbeddings.forward


def shifted(self: Any, *, query: Any, key: Any, cache: Any = None, positions: Any = None) -> Any:
    """Queries three positions further than keys."""
    at = torch.arange(query.shape[-2]).expand(len(query), -1) if positions is None else positions
    _, keys = CURATED(self, query=query, key=key, cache=cache, positions=positions)
    queries, _ = CURATED(self, query=query, key=key, cache=cache, positions=at + 3)
    return queries, keys


def rope(function: Any) -> Any:
    return patch.object(litgpt.model, "apply_rope", function)


LLAMA_3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_seq_len=64)
WINDOW = dict(sliding_window_size=12)
CASES: list[tuple[str, str, Callable[[], nn.Module], Any]] = [
    ("litgpt", "none", lit, nothing()),
    ("litgpt", "base 500,000", lambda: lit(rope_base=500_000), nothing()),
    ("litgpt", "positions divided by 2", lambda: lit(rope_condense_ratio=2), nothing()),
    ("litgpt", "Llama 3's scaling, factor 8", lambda: lit(rope_adjustments=LLAMA_3), nothing()),
    ("litgpt", "the other layout", lambda: lit(rope_interleave=True), nothing()),
    ("litgpt", "half of the channels rotate", lambda: lit(rotary_percentage=0.5), nothing()),
    ("litgpt", "a window of 12", lambda: lit(**WINDOW, sliding_window_indices=[1, 1]), nothing()),
    ("litgpt", "a window of 12 in layer 1", lambda: lit(**WINDOW, sliding_window_indices=[0, 1]), nothing()),
    ("litgpt", "scores over the root of 32", lambda: lit(attention_scores_scalar=32), nothing()),
    ("litgpt", "the other way round", lit_tables(lambda cos, sin: (cos, -sin)), nothing()),
    ("litgpt", "tables in bfloat16", lit_tables(lambda c, s: (c.bfloat16().float(), s.bfloat16().float())), nothing()),
    ("litgpt", "queries one further", lit, rope(late)),
    ("litgpt", "keys not rotated", lit, rope(still)),
    ("litgpt", "base and layout", lambda: lit(rope_base=500_000, rope_interleave=True), nothing()),
    ("litgpt", "eps of the norms (not positional)", lambda: lit(norm_eps=0.1), nothing()),
    ("torchtune", "none", tune, nothing()),
    ("torchtune", "base 500,000", lambda: tune(rope_base=500_000), nothing()),
    ("torchtune", "rows of q and k not permuted", lambda: tune(converted=False), nothing()),
    ("torchtune", "the class of Llama 3.1", tune_scaled, nothing()),
    ("torchtune", "positions ignored", tune, patch.object(
        torchtune.models.llama3.llama3.__globals__["RotaryPositionalEmbeddings"], "forward", ignoring)),
    ("curated-transformers", "none", curated, nothing()),
    ("curated-transformers", "base 500,000", lambda: curated(rotary_base=500_000), nothing()),
    ("curated-transformers", "half of the channels rotate", lambda: curated(rotary_fraction=0.5), nothing()),
    ("curated-transformers", "queries three further", curated,
     patch.object(QueryKeyRotaryEmbeddings, "forward", shifted)),
]  # fmt: skip


def main() -> None:
    rows = []
    for port, mistake, make, changed in CASES:
        with changed:
            found = compare(LLAMA, make())
        said = [f"{d.reference} / {d.candidate}" + (f" (layer {d.layers[0]})" if len(d.layers) == 1 else "")
                for d in found.differences]  # fmt: skip
        rows.append({"port": port, "mistake": mistake, "kinds": list(found.kinds), "said": said,
                     "same": found.same, "positional": found.positional, "off": float(f"{found.off:.2g}"),
                     "left": float(f"{found.left:.2g}"), "seconds": round(found.facts["seconds"], 1)})  # fmt: skip
        print(port, "|", mistake, "|", found.same, found.positional, found.kinds, said, rows[-1]["seconds"], flush=True)
    kept = {"date": datetime.date.today().isoformat(),
            "versions": {name: importlib.metadata.version(name) for name in PACKAGES}, "rows": rows}  # fmt: skip
    out = Path(__file__).with_name("ports.json")
    out.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
