import torch
from x_transformers import Decoder, TransformerWrapper

prompt = torch.arange(12)[None]
for scheme in ("attn_data_dependent_alibi", "alibi_pos_bias"):
    torch.manual_seed(0)
    layers = Decoder(dim=64, depth=2, heads=4, **{scheme: True})
    model = TransformerWrapper(num_tokens=99, max_seq_len=64, use_abs_pos_emb=False, attn_layers=layers).eval()
    with torch.no_grad():
        [torch.nn.init.normal_(p, std=p.shape[-1] ** -0.5) for p in model.parameters() if p.dim() > 1]
        whole = model(prompt)
        _, cache = model(prompt[:, :11], return_intermediates=True)
        step = model(prompt, cache=cache)[:, -1]
    print(scheme, model.can_cache_kv, f"{(step - whole[:, -1]).abs().max() / whole.abs().max():.2g}")
