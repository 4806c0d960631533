import torch
from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration

text = dict(model_type="gemma", vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2)
text |= dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, initializer_range=0.3)
vision = dict(model_type="siglip_vision_model", hidden_size=32, intermediate_size=48, num_hidden_layers=1)
vision |= dict(num_attention_heads=2, image_size=16, patch_size=4, projection_dim=64)
config = PaliGemmaConfig(text_config=text, vision_config=vision, image_token_index=96, projection_dim=64)
x = torch.arange(10, 20)[None]
padded = torch.cat((torch.zeros(1, 4, dtype=torch.long), x), 1)
for attention in ("sdpa", "eager"):
    torch.manual_seed(0)
    model = PaliGemmaForConditionalGeneration._from_config(config, attn_implementation=attention).eval()
    other = x.clone()
    other[0, -1] = 50  # another last token
    with torch.no_grad():
        a, b, c = model(x).logits, model(other).logits, model(padded, attention_mask=(padded > 0).long()).logits[:, 4:]
    print(attention, *(f"{off.abs().max() / a.abs().max():.2g}" for off in ((a - b)[:, :-1], c - a)))
