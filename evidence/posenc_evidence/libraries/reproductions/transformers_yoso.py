import torch
from transformers import BertConfig, BertForMaskedLM, YosoConfig, YosoForMaskedLM

sizes = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
text = torch.arange(10, 22)[None]
padded = torch.cat((text, torch.full((1, 5), 1)), 1)
mask = (padded != 1).long()
for config, kind in ((YosoConfig, YosoForMaskedLM), (BertConfig, BertForMaskedLM)):
    torch.manual_seed(0)
    model = kind(config(**sizes, initializer_range=0.3, pad_token_id=1)).eval()
    with torch.no_grad():
        alone = model(text, attention_mask=torch.ones_like(text)).logits
        masked, ones = (model(padded, attention_mask=m).logits[:, :12] for m in (mask, torch.ones_like(mask)))
    print(kind.__name__, *(f"{(masked - other).abs().max() / alone.abs().max():.2g}" for other in (alone, ones)))
