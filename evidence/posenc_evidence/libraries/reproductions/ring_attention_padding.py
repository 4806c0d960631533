import torch
from ring_attention_pytorch import RingTransformer

torch.manual_seed(0)
x = torch.randint(99, (1, 16))
padded = torch.cat((torch.zeros(1, 5, dtype=torch.long), x), 1)
mask = torch.arange(21)[None] >= 5
for causal in (True, False):
    model = RingTransformer(num_tokens=99, dim=64, depth=2, heads=4, dim_head=16, causal=causal, ring_attn=False).eval()
    with torch.no_grad():
        alone, masked, without = model(x), model(padded, mask=mask)[:, 5:], model(padded)[:, 5:]
    print(causal, *(f"{(masked - other).abs().max() / alone.abs().max():.2g}" for other in (alone, without)))
