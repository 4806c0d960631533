import torch
from x_transformers import Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True)
model = TransformerWrapper(num_tokens=99, max_seq_len=64, use_abs_pos_emb=False, attn_layers=layers).eval()
x = torch.arange(12)[None]
with torch.no_grad():
    whole = model(x)
    for new in (1, 6):
        _, cache = model(x[:, :-new], return_intermediates=True)
        logits = model(x[:, -new:], cache=cache, input_not_include_cache=True)
        off = (logits[:, -1] - whole[:, -1]).abs().max() / whole.abs().max()
        print(new, "new tokens:", logits.shape[1], "rows,", f"{off:.2g}")
