import torch
from litgpt import GPT, Config

torch.manual_seed(0)
sizes = dict(n_layer=2, n_embd=64, n_head=4, n_query_groups=2, head_size=16, intermediate_size=96)
model = GPT(Config.from_name("Gemma-2-2b", **sizes, padded_vocab_size=99, block_size=64)).eval()
x, y = torch.arange(12)[None], torch.arange(12)[None].clone()
y[0, -1] = 50  # another last token
with torch.no_grad():
    whole = model(x)
    model.set_kv_cache(batch_size=1)
    first, second = (model(tokens, torch.arange(12)) for tokens in (x, y))
print(f"{(first - whole).abs().max() / whole.abs().max():.2g}")  # prompt with a cache, against without
print(f"{(first - second)[:, :-1].abs().max() / whole.abs().max():.2g}")  # what the last token does to earlier ones
