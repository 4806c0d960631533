"""The two halves of an encoder-decoder of transformers, each a model that the audit can ask.

The decoder sees a source that stays the same: hidden states drawn once, in place of what the encoder would make of a
text or a sound. So its logits depend on its own tokens alone, and whatever an encoder takes, the decoder can be asked.
The encoder is asked by its last hidden states, if it takes tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.called import required
from posenc.audit.adapters.hf.adapter import TransformersAdapter, _vocabulary
from posenc.audit.adapters.protocol import Refused, logits_of

SOURCE = 7  # tokens that the decoder looks at
MERGED = "queries that are rotated meet keys of the source in the same softmax, and those are not rotated"
"""Of a decoder whose attention looks at its text and at the source at once: a shift moves one of them."""


class Decoder(TransformersAdapter):
    """The decoder of an encoder-decoder, with a source that stays the same.

    Args:
        model: The whole model.
    """

    position_name, mask_name = "decoder_position_ids", "decoder_attention_mask"
    embeds_name = "decoder_inputs_embeds"

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        config = model.config
        self.takes_positions = self.position_name in self.names
        self.takes_mask = self.mask_name in self.names
        self.causal, self.causal_why = True, "it is the decoder of an encoder-decoder"
        self.recurrent = self.packs = False
        self.scheme = None
        if any("MergedAttention" in type(each).__name__ for each in model.modules()) and self.takes_positions:
            self.scales = MERGED
        part = getattr(config, "encoder", None)
        part = config.get_text_config(encoder=True) if part is None else part.get_text_config()
        self.width = int(getattr(part, "hidden_size", 0) or config.hidden_size)

    def logits_beside_padding(self, tokens: Tensor, left: bool) -> Tensor:
        """Logits with padding before (left) or after the source, which is masked."""
        if getattr(self.model.get_encoder(), "main_input_name", "input_ids") != "input_ids":
            raise Refused("counts its source in frames before the encoder, and so it does in its mask")
        given = self._given(tokens, None, None, use_cache=False) | self._source(len(tokens), left)
        return logits_of(self.model(decoder_input_ids=tokens, **given))

    def generate(self, tokens: Tensor, forced: Tensor | None = None, **how: Any) -> tuple[Tensor, Tensor | None]:
        if self.model.main_input_name != "input_ids" or (wanted := required(self.model.generate)):
            wanted = wanted if self.model.main_input_name == "input_ids" else [self.model.main_input_name]
            raise Refused(f"generate takes {', '.join(wanted)}, and the source here is drawn")
        if how.get("past") is not None and how.get("mask") is None:
            how["mask"] = torch.ones_like(tokens)  # by its length generate tells a whole text from new tokens
        return super().generate(tokens, forced, **how)

    @property
    def part(self) -> Any:
        """The decoder itself, in which tokens are embedded."""
        return self.model.get_decoder()

    def variants(self) -> dict[str, TransformersAdapter]:
        return {}

    def _text(self, tokens: Tensor) -> dict[str, Any]:
        return {"decoder_input_ids": tokens, **self._beside(tokens)}

    def _beside(self, tokens: Tensor) -> dict[str, Any]:
        return self._source(len(tokens))

    def _source(self, rows: int, left: bool | None = None) -> dict[str, Any]:
        """What stands in for the encoder's output, and its mask."""
        like = next(each for each in self.model.parameters() if each.is_floating_point())
        n = SOURCE if left is None else SOURCE + 3
        states = torch.randn(1, n, self.width, generator=torch.Generator().manual_seed(1))
        mask = torch.ones(rows, n, dtype=torch.long, device=like.device)
        if left is not None:
            own = slice(3, None) if left else slice(SOURCE)
            states[:, own] = torch.randn(1, SOURCE, self.width, generator=torch.Generator().manual_seed(1))
            mask[:, (slice(3) if left else slice(SOURCE, None))] = 0
        states = states.to(like.device, like.dtype).repeat(rows, 1, 1)
        given: dict[str, Any] = {"encoder_outputs": _states(states)}
        if "attention_mask" in self.names:
            given["attention_mask"] = mask
        elif left is not None:
            raise Refused("takes no mask of the source")
        return given


class Encoder(TransformersAdapter):
    """The encoder of an encoder-decoder; its last hidden states take the place of logits.

    Args:
        model: The whole model.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model.get_encoder(), model)
        self.vocabulary = _vocabulary(model, model.config.get_text_config(encoder=True))
        self.causal, self.causal_why = False, "it is the encoder of an encoder-decoder"
        self.recurrent = self.packs = False
        self.scheme = None
        self.step = self.generate = None  # type: ignore[assignment]

    def variants(self) -> dict[str, TransformersAdapter]:
        return {}


def _states(states: Tensor) -> Any:
    """Hidden states as an encoder returns them; what else its class may return, such as losses of a router, is None."""
    from transformers.modeling_outputs import BaseModelOutput

    class States(BaseModelOutput):
        def __getattr__(self, name: str) -> None:
            if name.startswith("__"):
                raise AttributeError(name)

    return States(last_hidden_state=states)


def halves(model: Any) -> tuple[dict[str, TransformersAdapter], str]:
    """The halves that can be asked, by name, the decoder under "", and why the encoder is not among them."""
    made: dict[str, TransformersAdapter] = {"": Decoder(model)}
    takes = getattr(model.get_encoder(), "main_input_name", "input_ids")
    if takes != "input_ids":
        return made, f"The encoder takes {takes} and no tokens, so the decoder alone is asked."
    return made | {"encoder": Encoder(model)}, ""
