import torch
from transformers import FSMTConfig, FSMTForConditionalGeneration

sizes = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4)
sizes |= dict(encoder_ffn_dim=96, decoder_ffn_dim=96, langs=["en", "de"], src_vocab_size=99, tgt_vocab_size=99)
torch.manual_seed(0)
model = FSMTForConditionalGeneration(FSMTConfig(**sizes, init_std=0.3)).eval()
x, y = torch.arange(10, 19)[None], torch.tensor([[2, *range(30, 37)]])  # a source, and a prompt of 8 for the decoder
with torch.no_grad():
    without, cached = (model(input_ids=x, decoder_input_ids=y, use_cache=use).logits for use in (False, True))
print(f"{(cached - without).abs().max() / without.abs().max():.2g}")
how = dict(decoder_input_ids=y, max_length=20, do_sample=False, num_beams=1, early_stopping=False)
for use in (False, True):
    print(use, model.generate(x, use_cache=use, **how)[0, 8:].tolist())
