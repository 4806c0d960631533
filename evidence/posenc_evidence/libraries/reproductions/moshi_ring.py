import torch
from moshi.modules.transformer import StreamingTransformer

torch.manual_seed(0)
sizes = dict(d_model=64, num_heads=4, num_layers=2, dim_feedforward=96)
model = StreamingTransformer(**sizes, causal=True, context=16, positional_embedding="rope").eval()
x = torch.randn(1, 24, 64)
with torch.no_grad():
    whole = model(x)
    for chunk in (1, 8):
        with model.streaming(batch_size=1):
            out = torch.cat([model(part) for part in x.split(chunk, 1)], 1)
        off = (out - whole).abs().amax(-1)[0] / whole.abs().max()
        print(chunk, f"{off.max():.2g}", (off > 1e-3).nonzero().flatten().tolist())  # chunk, error, wrong frames
