import torch
from torchtune.models.gemma2 import gemma2

sizes = dict(vocab_size=99, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=64, head_dim=16, max_seq_len=64)
sizes |= dict(intermediate_dim=96, query_pre_attn_scalar=16)
x, causal = torch.arange(20)[None], torch.ones(20, 20, dtype=torch.bool).tril()
for window in (8, 32):
    torch.manual_seed(0)
    model = gemma2(**sizes, sliding_window_size=window).eval()
    with torch.no_grad():
        whole = model(x)
        model.setup_caches(batch_size=1, dtype=torch.float32, decoder_max_seq_len=20)
        steps = [model(x[:, i : i + 1], mask=causal[None, i : i + 1], input_pos=torch.tensor([[i]])) for i in range(20)]
    off = (torch.cat(steps, 1) - whole).abs().amax(-1)[0] / whole.abs().max()
    print(window, f"{off.max():.2g}", (off > 1e-3).nonzero().flatten().tolist())  # window, error, wrong tokens
