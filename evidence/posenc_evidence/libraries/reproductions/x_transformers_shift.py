import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True, shift_tokens=1)
model = TransformerWrapper(num_tokens=99, max_seq_len=64, attn_layers=layers).eval()
prompt = torch.arange(12)[None]
print(model.can_cache_kv)
writer = AutoregressiveWrapper(model)
texts = [writer.generate(prompt, 30, temperature=0.0, cache_kv=cached) for cached in (True, False)]
print(int((texts[0] != texts[1]).sum()), "of 30 tokens differ")
with torch.no_grad():
    whole = model(prompt)
    _, cache = model(prompt[:, :11], return_intermediates=True)
    print(f"{(model(prompt, cache=cache)[:, -1] - whole[:, -1]).abs().max() / whole.abs().max():.2g}")
