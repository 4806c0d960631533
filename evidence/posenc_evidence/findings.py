"""What the census found in transformers 5.23.0, each shown again by the public interface in a few lines.

Every finding is a function that builds a small model from its published configuration class, calls it as a user would,
and returns two sizes for each architecture: how far the call in question is off, and how far the control is, which
differs in the one thing that the finding is about. Both are the largest change of a logit over the root mean square of
the logits. Nothing of the audit is used, so that a finding does not rest on the tool that found it.

`repair` changes one line of a class for as long as a block lasts, so that tests can say what that line does.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

VERSION = "5.23.0"  # of transformers: lines and findings are of it
SIZES = {
    "vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.3,  # usual weights make attention nearly uniform, and hide what is wrong
}  # fmt: skip
GIVEN = 10  # tokens of a prompt
ROBERTAS = (
    "roberta",
    "roberta-prelayernorm",
    "camembert",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
    "data2vec-text",
)
"""Decoders that count positions from the number of padding on."""


@dataclass(frozen=True)
class Shown:
    """One architecture: how far off the call is, and how far the control."""

    architecture: str
    off: float
    control: float


@dataclass(frozen=True)
class Repair:
    """One line of a module of transformers, and what it should be."""

    target: str
    """`module:Class.method` under transformers.models."""
    line: str
    instead: str


@dataclass(frozen=True)
class Bug:
    """A finding: where it is, what a user sees, which test shows it, and the function that shows it again."""

    name: str
    title: str
    architectures: tuple[str, ...]
    where: tuple[str, ...]
    """Files and lines under transformers/."""
    sees: str
    test: str
    control: str
    known: str
    show: Callable[[], list[Shown]]
    repair: Repair | None = None
    positional: bool = True
    """Whether it is a mistake about positions, and not about states or embeddings."""


BUGS: dict[str, Bug] = {}


def bug(
    title: str,
    *architectures: str,
    where: tuple[str, ...],
    sees: str,
    test: str,
    control: str,
    known: str = "",
    repair: Repair | None = None,
    positional: bool = True,
) -> Callable[[Callable[[], list[Shown]]], Callable[[], list[Shown]]]:
    """Registers a finding under the name of the function that shows it."""

    def register(show: Callable[[], list[Shown]]) -> Callable[[], list[Shown]]:
        name = show.__name__
        BUGS[name] = Bug(name, title, architectures, where, sees, test, control, known, show, repair, positional)
        return show

    return register


# ---- the findings ----------------------------------------------------------------------------------------------------


@bug(
    "The base of the configuration is not read", "dbrx",
    where=("models/dbrx/configuration_dbrx.py:134", "models/dbrx/modeling_dbrx.py:72",
           "models/dbrx/modeling_dbrx.py:184"),
    sees="A published config.json says attn_config.rope_theta 500000. The model keeps that number, and makes its "
    "angles from rope_parameters, whose default is 10000.",
    test="angles", control="the base in rope_parameters, where it is read",
    repair=Repair("dbrx.modeling_dbrx:DbrxRotaryEmbedding.compute_default_rope_parameters",
                  'base = config.rope_parameters["rope_theta"]', "base = config.attn_config.rope_theta"),
)  # fmt: skip
def dbrx_base() -> list[Shown]:
    fields = {
        "d_model": 512,
        "n_heads": 8,
        "n_layers": 2,
        "vocab_size": 99,
        "initializer_range": 0.3,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 1},
    }
    model = build("dbrx", plain=True, **fields)
    named = build("dbrx", plain=True, **fields, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    wanted = 500000.0 ** (-torch.arange(0, 64, 2) / 64)
    return [Shown("dbrx", off(model.transformer.rotary_emb.inv_freq, wanted),
                  off(named.transformer.rotary_emb.inv_freq, wanted))]  # fmt: skip


@bug(
    "Relative embeddings are mixed over tokens, heads and streams",
    "prophetnet",
    where=("models/prophetnet/modeling_prophetnet.py:805",),
    sees="A token that is changed changes logits before it: the model sees the future.",
    test="future",
    control="axes in the order in which the buckets are laid out",
    repair=Repair(
        "prophetnet.modeling_prophetnet:ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings",
        "rel_pos_embeddings.permute(0, 2, 1, 4, 3)",
        "rel_pos_embeddings.permute(0, 1, 4, 2, 3)",
    ),
)
def prophetnet_axes() -> list[Shown]:
    def changed_before_nine() -> float:
        model = build("prophetnet", plain=True, vocab_size=99, hidden_size=64, decoder_ffn_dim=96,
                      num_decoder_layers=2, num_decoder_attention_heads=4, is_decoder=True,
                      is_encoder_decoder=False, init_std=0.3)  # fmt: skip
        x = text()
        y = x.clone()
        y[0, 9] = 98
        return off(model(y).logits[:, :9], model(x).logits[:, :9])

    wrong = changed_before_nine()
    with repair(BUGS["prophetnet_axes"].repair):
        return [Shown("prophetnet", wrong, changed_before_nine())]


@bug(
    "generate counts positions from 0, and forward from padding_idx + 1",
    *ROBERTAS,
    where=("generation/utils.py:894", "generation/utils.py:2885", "models/roberta/modeling_roberta.py:83"),
    sees="Logits of generate are not those of a forward pass over the same text, with a cache or without.",
    test="generate",
    control="position_ids passed to generate as forward counts them",
    known="huggingface/transformers#47496 is of the same class, in a collator",
)
def roberta_generate() -> list[Shown]:
    sizes = []
    for model_type in BUGS["roberta_generate"].architectures:
        model = roberta(model_type)
        ids = torch.arange(GIVEN)[None] + model.config.pad_token_id + 1
        sizes.append(Shown(model_type, against_pass(model), against_pass(model, position_ids=ids)))
    return sizes


@bug(
    "With a cache, padding counts as positions, and without it does not",
    *ROBERTAS,
    where=("models/roberta/modeling_roberta.py:154",),
    sees="Decoding a left-padded batch by hand, without position_ids, puts a new token as many places too far as its "
    "row has padding, since the length of the cache is added.",
    test="step_left",
    control="the same text without padding",
)
def roberta_padding() -> list[Shown]:
    differences = []
    for model_type in BUGS["roberta_padding"].architectures:
        model = roberta(model_type)
        wanted, sizes = model(text()).logits[:, 12:13], []
        for pads in (5, 0):
            x = torch.cat((torch.zeros(1, pads, dtype=torch.long), text()), 1)
            mask = (x != 0).long()
            cache = model(x[:, : pads + 12], attention_mask=mask[:, : pads + 12], use_cache=True).past_key_values
            step = x[:, pads + 12 : pads + 13]
            out = model(step, attention_mask=mask[:, : pads + 13], past_key_values=cache, use_cache=True)
            sizes.append(off(out.logits, wanted))
        differences.append(Shown(model_type, *sizes))
    return differences


@bug(
    "A cached forward pass without position_ids begins at 0 again",
    "bamba",
    where=("models/bamba/modeling_bamba.py:970",),
    sees="Decoding by hand, with past_key_values and without position_ids, gives each new token position 0; generate "
    "passes positions and is right.",
    test="step",
    control="position_ids given",
    repair=Repair(
        "bamba.modeling_bamba:BambaModel.forward",
        "torch.arange(hidden_states.shape[1], device=hidden_states.device).unsqueeze(0)",
        "torch.arange(hidden_states.shape[1], device=hidden_states.device).unsqueeze(0) + "
        "(past_key_values.get_seq_length() if past_key_values is not None else 0)",
    ),
)
def bamba_positions() -> list[Shown]:
    model = build("bamba", attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16)
    x, full = text(), model(text()).logits

    def next_token(**given: Tensor) -> float:
        cache = model(x[:, :12], use_cache=True).past_key_values
        return off(model(x[:, 12:13], past_key_values=cache, **given).logits, full[:, 12:13])

    return [Shown("bamba", next_token(), next_token(position_ids=torch.tensor([[12]])))]


@bug(
    "The cache has a window, and the full pass has none",
    "moshi",
    where=("models/moshi/modeling_moshi.py:775",),
    sees="A text longer than sliding_window (3000) has other logits in generate than in one pass.",
    test="generate",
    control="a window that the text does not fill",
)
def moshi_window() -> list[Shown]:
    def of_window(size: int) -> float:
        return against_pass(build("moshi", sliding_window=size, head_dim=16, ffn_dim=96, num_codebooks=2))

    return [Shown("moshi", of_window(8), of_window(64))]


@bug(
    "A static cache is read with the mask of its whole length",
    "gpt_neo",
    where=("models/gpt_neo/modeling_gpt_neo.py:115",),
    sees='generate(cache_implementation="static") gives other tokens, without an error.',
    test="static",
    control="the default cache",
)
def gpt_neo_static() -> list[Shown]:
    model = build("gpt_neo", plain=True, vocab_size=99, hidden_size=64, num_layers=2, num_heads=4, window_size=8,
                  attention_types=[[["global", "local"], 1]], max_position_embeddings=64, initializer_range=0.3,
                  bos_token_id=1, eos_token_id=2)  # fmt: skip
    return [Shown("gpt_neo", against_pass(model, cache_implementation="static"), against_pass(model))]


@bug(
    "Beams change places, and the state of linear attention does not",
    "minimax",
    where=("models/minimax/modeling_minimax.py:72",),
    sees="Beam search gives other texts with a cache than without.",
    test="beams",
    control="greedy decoding, the same two ways",
    known="huggingface/transformers#46612 is of the same class, in other models",
    positional=False,
)
def minimax_beams() -> list[Shown]:
    """The share of ten prompts whose texts differ."""
    model = build("minimax", head_dim=16, num_local_experts=2, num_experts_per_tok=2, block_size=16,
                  layer_types=["linear_attention", "full_attention"])  # fmt: skip
    share = []
    for beams in (4, 1):
        differing = 0
        for seed in range(10):
            x = text(seed)[:, :GIVEN]
            how = {"max_new_tokens": 12, "num_beams": beams, "eos_token_id": None, "do_sample": False}
            differing += not torch.equal(model.generate(x, **how), model.generate(x, use_cache=False, **how))
        share.append(differing / 10)
    return [Shown("minimax", share[0], share[1])]


@bug(
    "Several tokens on top of a cache begin with an empty state", "mamba", "falcon_mamba", "jamba", "zamba",
    where=("models/mamba/modeling_mamba.py:459", "models/falcon_mamba/modeling_falcon_mamba.py:497",
           "models/jamba/modeling_jamba.py:598", "models/zamba/modeling_zamba.py:583"),
    sees="A second turn on a kept cache, or a prefill in pieces, forgets what the state held; one token at a time does "
    "not.",
    test="chunks", control="the same tokens one at a time",
    known="Mamba-2 had the same, mended in huggingface/transformers#46741",
    positional=False,
)  # fmt: skip
def mamba_chunks() -> list[Shown]:
    own: dict[str, dict[str, Any]] = {
        "mamba": {},
        "falcon_mamba": {},
        "jamba": {"num_experts": 2, "num_experts_per_tok": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
                  "expert_layer_period": 2, "expert_layer_offset": 1},
        "zamba": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2,
                  "attn_layer_period": 2, "attn_layer_offset": 1, "num_key_value_heads": 4,
                  "attention_hidden_size": 128, "attention_head_dim": 32},
    }  # fmt: skip
    sizes = []
    for model_type, fields in own.items():
        model = build(model_type, **fields)
        full = model(text()).logits[:, 12:]
        sizes.append(Shown(model_type, off(continued(model, [12]), full), off(continued(model, [1] * 12), full)))
    return sizes


@bug(
    "A floor of the time step holds in the prefill and not in a step",
    "zamba2",
    "nemotron_h",
    where=(
        "models/zamba2/modeling_zamba2.py:669",
        "models/zamba2/modeling_zamba2.py:819",
        "models/nemotron_h/modeling_nemotron_h.py:414",
    ),
    sees="Decoding drifts away from a forward pass by a percent or so.",
    test="step",
    control="time_step_min 1e-9, so that the floor is never reached",
    known="huggingface/transformers#48989 and #47513, for Nemotron-H",
    positional=False,
)
def time_step_floor() -> list[Shown]:
    own: dict[str, dict[str, Any]] = {
        "zamba2": {"num_key_value_heads": 4, "n_mamba_heads": 8, "mamba_headdim": 16, "mamba_expand": 2,
                   "mamba_ngroups": 1, "attention_hidden_size": 128, "attention_head_dim": 32, "mamba_d_state": 16,
                   "layers_block_type": ["mamba", "hybrid"]},
        "nemotron_h": {"layers_block_type": ["mamba", "attention"], "mamba_num_heads": 8, "mamba_head_dim": 16,
                       "n_groups": 1, "ssm_state_size": 16, "head_dim": 16},
    }  # fmt: skip
    differences = []
    for model_type, fields in own.items():
        sizes = []
        for floor in (1e-3, 1e-9):
            model = build(model_type, time_step_min=floor, **fields)
            sizes.append(off(continued(model, [1] * 12), model(text()).logits[:, 12:]))
        differences.append(Shown(model_type, *sizes))
    return differences


@bug(
    "Packed documents see one another",
    "gpt_oss",
    "afmoe",
    "falcon",
    where=(
        "models/gpt_oss/modeling_gpt_oss.py:460",
        "models/afmoe/modeling_afmoe.py:552",
        "models/falcon/modeling_falcon.py:755",
    ),
    sees="Two documents in one row, with position_ids that begin again, leak; most other classes tell them apart.",
    test="packed_ids",
    control="Llama, called in the same way",
    known="huggingface/transformers#39997, for gpt-oss",
)
def packing() -> list[Shown]:
    own: dict[str, dict[str, Any]] = {
        "gpt_oss": {"head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 2, "sliding_window": 64},
        "afmoe": {"head_dim": 16, "num_experts": 2, "num_experts_per_tok": 2, "num_dense_layers": 1,
                  "moe_intermediate_size": 32, "num_shared_experts": 1, "sliding_window": 64},
        "falcon": {"alibi": False},
    }  # fmt: skip
    llama = leak(build("llama"), use_cache=False)
    return [Shown(kind, leak(build(kind, **fields), use_cache=False), llama) for kind, fields in own.items()]


@bug(
    "alibi=False is stored and never read",
    "mpt",
    where=("models/mpt/modeling_mpt.py:317",),
    sees="A checkpoint that was trained without ALiBi is run with it; attn_config's alibi, alibi_bias_max and "
    "learned_pos_emb change nothing.",
    test="knobs",
    control="a bias of zero",
)
def mpt_flags() -> list[Shown]:
    from transformers.models.mpt import modeling_mpt

    def of(alibi: bool) -> Tensor:
        return build("mpt", plain=True, d_model=64, n_heads=4, n_layers=2, vocab_size=99, max_seq_len=64,
                     initializer_range=0.3, attn_config={"alibi": alibi})(text()).logits  # fmt: skip

    biased = modeling_mpt.build_mpt_alibi_tensor
    flagged = of(False)
    modeling_mpt.build_mpt_alibi_tensor = lambda *given, **named: 0 * biased(*given, **named)
    try:
        without = of(False)
        return [Shown("mpt", off(flagged, without), off(of(False), without))]
    finally:
        modeling_mpt.build_mpt_alibi_tensor = biased


@bug(
    "The number of channels that rotate is documented and never read",
    "minimax_m3_vl_text",
    where=(
        "models/minimax_m3_vl/configuration_minimax_m3_vl.py:109",
        "models/minimax_m3_vl/modeling_minimax_m3_vl.py:296",
    ),
    sees="rotary_dim is 64 by default and all 128 channels of a head rotate; partial_rotary_factor in rope_parameters "
    "is read, which the default does not have.",
    test="knobs",
    control="partial_rotary_factor 0.5 in rope_parameters",
    known="huggingface/transformers#48241 is the same in MiniMax-M2, mended in #48486",
)
def minimax_m3_part() -> list[Shown]:
    """By how many of the 64 channels that should stay, over 64, the rotation is too wide."""
    from transformers.models.minimax_m3_vl import MiniMaxM3VLTextConfig
    from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLRotaryEmbedding

    def surplus(**fields: Any) -> float:
        config = MiniMaxM3VLTextConfig(**fields)
        return 2 * len(MiniMaxM3VLRotaryEmbedding(cast("Any", config)).inv_freq) / config.rotary_dim - 1

    part = {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}
    return [Shown("minimax_m3_vl_text", surplus(), surplus(rope_parameters=part))]


@bug(
    "Padding on the left shifts positions, and positions that are given are refused",
    "reformer",
    where=("models/reformer/modeling_reformer.py:2134", "models/reformer/modeling_reformer.py:2255"),
    sees="generate reads a prompt that is padded on the left at other positions, although its mask is given. "
    "position_ids raise an error unless the text is whole chunks long: what fills them up reads the wrong name.",
    test="left_pad",
    control="position_ids given, in a text of whole chunks",
)
def reformer_left() -> list[Shown]:
    model = build("reformer", is_decoder=True, axial_pos_embds=False, attn_layers=["local", "local"], hash_seed=0,
                  feed_forward_size=96, attention_head_size=16, local_attn_chunk_length=8)  # fmt: skip
    x, pads = text(), 8
    full = model(x).logits
    padded = torch.cat([torch.zeros(1, pads, dtype=torch.long), x], 1)
    mask = (torch.arange(padded.shape[1]) >= pads).long()[None]
    pos = (mask.cumsum(-1) - 1).clamp(min=0)
    shown = [model(padded, attention_mask=mask, **more).logits[:, pads:] for more in ({}, {"position_ids": pos})]
    return [Shown("reformer", off(shown[0], full), off(shown[1], full))]


@bug(
    "Embeddings given in place of tokens lose those of each layer",
    "gemma3n_text",
    where=("models/gemma3n/modeling_gemma3n.py:1661",),
    sees="inputs_embeds get other logits than the tokens whose embeddings they are: each layer has further embeddings "
    "of the tokens, which a call without tokens leaves out unless per_layer_inputs are given too.",
    test="embeds",
    control="per_layer_inputs given beside the embeddings",
    positional=False,
)
def gemma3n_embeds() -> list[Shown]:
    model = build("gemma3n_text", hidden_size_per_layer_input=16, vocab_size_per_layer_input=99, laurel_rank=8,
                  num_kv_shared_layers=0, layer_types=["full_attention"] * 2, head_dim=16, altup_num_inputs=2,
                  activation_sparsity_pattern=[0.0, 0.0], intermediate_size=[96, 96])  # fmt: skip
    with torch.no_grad():
        for layer in model.model.layers:
            layer.altup.correct_output_scale.fill_(0.3)  # it begins at 0, and hides what follows
    x = text()
    full, embeds = model(x).logits, model.get_input_embeddings()(x)
    own = model.model.get_per_layer_inputs(x)
    given = [model(inputs_embeds=embeds, **more).logits for more in ({}, {"per_layer_inputs": own})]
    return [Shown("gemma3n_text", off(given[0], full), off(given[1], full))]


def packing_by_default() -> Shown:
    """Not a bug of one class: `use_cache` is on by default, and a cache switches off that documents are told apart."""
    model = build("llama").train()
    return Shown("llama", leak(model), leak(model, use_cache=False))


# ---- what they share -------------------------------------------------------------------------------------------------


def build(model_type: str, *, plain: bool = False, **fields: Any) -> Any:
    """A model with random weights, always the same; sizes are `SIZES` unless `plain`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(model_type, **({} if plain else SIZES) | fields)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


def roberta(model_type: str) -> Any:
    """The decoder of one of `ROBERTAS`."""
    language: dict[str, Any] = {"default_language": "en_XX"} if model_type == "xmod" else {}
    return build(model_type, is_decoder=True, **language)


def text(seed: int = 0) -> Tensor:
    """24 different tokens, (1, 24)."""
    return 10 + torch.randperm(80, generator=torch.Generator().manual_seed(seed))[None, :24]


def off(out: Tensor, reference: Tensor) -> float:
    """The largest change over the root mean square of the reference."""
    return float((out - reference).abs().max() / reference.square().mean().sqrt())


def against_pass(model: Any, **options: Any) -> float:
    """How far logits of generate, with the text's own tokens forced, are from those of one pass."""
    x = text()

    def force(ids: Tensor, scores: Tensor) -> Tensor:
        out = torch.full_like(scores, -1e9)
        out[:, x[0, ids.shape[1]]] = 0
        return out

    out = model.generate(
        x[:, :GIVEN],
        max_new_tokens=x.shape[1] - GIVEN,
        eos_token_id=None,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        logits_processor=[force],
        disable_compile=True,
        **options,
    )
    return off(torch.stack(out.logits, 1), model(x, use_cache=False).logits[:, GIVEN - 1 : -1])


def continued(model: Any, sizes: list[int]) -> Tensor:
    """Logits of the last 12 tokens, which go in by parts on top of a cache of the first 12."""
    x = text()
    out = model(x[:, :12], use_cache=True)
    name = "past_key_values" if getattr(out, "past_key_values", None) is not None else "cache_params"
    cache, done, outs = getattr(out, name), 12, []
    for size in sizes:
        outs.append(model(x[:, done : done + size], use_cache=True, **{name: cache}).logits)
        done += size
    return torch.cat(outs, 1)


def leak(model: Any, **options: Any) -> float:
    """How far the second of two documents in a row is from itself alone."""
    x = text()
    positions = torch.cat((torch.arange(9), torch.arange(15)))[None]
    return off(model(x, position_ids=positions, **options).logits[:, 9:], model(x[:, 9:], **options).logits)


@contextlib.contextmanager
def repair(what: Repair | None) -> Iterator[None]:
    """Changes one line of a method of transformers for as long as the block lasts.

    Args:
        what: The line, which has to occur once in the method.

    Raises:
        ValueError: If it does not, as in another version of transformers.
    """
    if what is None:
        raise ValueError("there is no repair of one line for this finding")
    import importlib

    name, _, path = what.target.partition(":")
    module = importlib.import_module(f"transformers.models.{name}")
    owner, _, method = path.partition(".")
    cls = getattr(module, owner)
    before = inspect.getattr_static(cls, method)
    source = textwrap.dedent(inspect.getsource(getattr(cls, method)))
    if source.count(what.line) != 1:
        raise ValueError(f"{what.target} does not have the line {what.line!r} once, so it is another version")
    lines = source.replace(what.line, what.instead).splitlines()
    # The decorators that check arguments need the class around the method, and are left out
    first = next(n for n, line in enumerate(lines) if line.startswith("def ") or line.startswith("@staticmethod"))
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines[first:]), f"<{what.target}, one line changed>", "exec"), vars(module), made)
    setattr(cls, method, made[method])
    try:
        yield
    finally:
        setattr(cls, method, before)


def main() -> int:
    """Shows every finding, one line for each architecture."""
    from posenc.audit.adapters.hf.tiny import quiet

    with quiet(), torch.no_grad():
        for each in BUGS.values():
            for shown in each.show():
                print(f"{each.name:18s} {shown.architecture:22s} {shown.off:8.2g}   control {shown.control:8.2g}")
        shown = packing_by_default()
        print(f"{'packing_by_default':18s} {shown.architecture:22s} {shown.off:8.2g}   control {shown.control:8.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
