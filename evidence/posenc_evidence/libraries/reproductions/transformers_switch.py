import torch
from transformers import SwitchTransformersConfig, SwitchTransformersForConditionalGeneration

sizes = dict(vocab_size=99, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_decoder_layers=2, num_heads=4)
config = SwitchTransformersConfig(**sizes, num_experts=2, pad_token_id=0, decoder_start_token_id=0)
model = SwitchTransformersForConditionalGeneration(config).eval()
x, y = torch.arange(10, 19)[None], torch.arange(30, 38)[None]
for use_cache in (False, True):
    try:
        print(use_cache, tuple(model(input_ids=x, decoder_input_ids=y, use_cache=use_cache).logits.shape))
    except ValueError as error:
        print(use_cache, str(error).splitlines()[0])
