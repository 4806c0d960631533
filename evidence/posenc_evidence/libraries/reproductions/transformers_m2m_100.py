import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

sizes = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4)
sizes |= dict(encoder_ffn_dim=96, decoder_ffn_dim=96, vocab_size=99, max_position_embeddings=64)
torch.manual_seed(0)
model = M2M100ForConditionalGeneration(M2M100Config(**sizes, init_std=0.3)).eval()
source = torch.arange(10, 19)[None]
prompts = torch.tensor([[2, 31, 32, 33, 34, 35, 36, 37], [1, 1, 1, 2, 41, 42, 43, 44]])  # 2 begins a text, 1 pads it
how = dict(max_new_tokens=10, do_sample=False, num_beams=1)
print(model.generate(source, decoder_input_ids=prompts[1:, 3:], **how)[0, 5:].tolist())  # alone
for use in (False, True):
    mask = (prompts != 1).long()
    texts = model.generate(
        source.expand(2, -1), decoder_input_ids=prompts, decoder_attention_mask=mask, use_cache=use, **how
    )
    print(use, texts[1, 8:].tolist())
