import torch
from litgpt import GPT, Config

torch.manual_seed(0)
sizes = dict(n_layer=2, n_embd=64, n_head=4, n_query_groups=2, head_size=16, intermediate_size=96)
window = dict(sliding_window_size=12, sliding_window_indices=[1, 1])
model = GPT(Config.from_name("Mistral-7B-v0.1", **sizes, **window, padded_vocab_size=99, block_size=64)).eval()
x = torch.randint(99, (1, 24))
with torch.no_grad():
    whole = model(x)
    for chunk in (1, 8):
        model.set_kv_cache(batch_size=1)
        logits = torch.cat([model(x[:, at], at) for at in torch.arange(24).split(chunk)], 1)
        off = (logits - whole).abs().amax(-1)[0] / whole.abs().max()
        print(chunk, f"{off.max():.2g}", (off > 1e-3).nonzero().flatten().tolist())  # chunk, error, wrong tokens
