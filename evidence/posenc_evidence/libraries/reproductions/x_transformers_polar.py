import torch
from x_transformers import Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=64, depth=2, heads=4, polar_pos_emb=True)
model = TransformerWrapper(num_tokens=99, max_seq_len=64, use_abs_pos_emb=False, attn_layers=layers).eval()
for batch in (4, 3):  # as many texts as heads, and fewer
    texts = torch.randint(99, (batch, 12))
    pos = torch.arange(12) * torch.arange(1, batch + 1)[:, None]  # each text has positions of its own
    with torch.no_grad():
        alone = torch.cat([model(texts[n : n + 1], pos=pos[n : n + 1]) for n in range(batch)])
        try:
            print(batch, f"{(model(texts, pos=pos) - alone).abs().max() / alone.abs().max():.2g}")
        except RuntimeError as error:
            print(batch, str(error).split(" at ")[0])
