import torch
from performer_pytorch import PerformerLM

torch.manual_seed(0)
model = PerformerLM(num_tokens=99, max_seq_len=64, dim=64, depth=2, heads=4, causal=True).eval()
x = torch.arange(24).repeat(99, 1)
x[:, -1] = torch.arange(99)  # one text with 99 last tokens
with torch.no_grad():
    logits = model(x)
earlier = (logits - logits[:1])[:, :-1].abs().amax((0, 2)) / logits.abs().max()
print(f"{earlier.max():.1g}")  # what the last token does to logits before it
