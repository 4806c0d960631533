import torch
from litgpt import GPT, Config

torch.manual_seed(0)
sizes = dict(n_layer=2, n_embd=64, n_head=4, n_query_groups=2, head_size=16)
sizes |= dict(intermediate_size=96, padded_vocab_size=99, block_size=64)
window = dict(sliding_window_size=12, sliding_window_indices=[1, 1])
model = GPT(Config.from_name("Mistral-7B-v0.1", **sizes, **window)).eval()
x = torch.randint(99, (1, 24))
with torch.no_grad():
    whole = model(x)
    for chunk in (1, 8):
        model.set_kv_cache(batch_size=1)
        parts = torch.arange(24).split(chunk)
        logits = torch.cat([model(x[:, at], at) for at in parts], 1)
        off = (logits - whole).abs().amax(-1)[0] / whole.abs().max()
        wrong = (off > 1e-3).nonzero().flatten().tolist()
        print(chunk, f"{off.max():.2g}", wrong)  # chunk, error, wrong tokens
