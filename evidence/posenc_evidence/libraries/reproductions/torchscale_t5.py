import torch
from torchscale.architecture.config import DecoderConfig
from torchscale.architecture.decoder import Decoder

torch.manual_seed(0)
sizes = dict(vocab_size=99, decoder_embed_dim=64, decoder_attention_heads=4, decoder_ffn_embed_dim=96, decoder_layers=2)
for bias in (dict(), dict(rel_pos_buckets=32, max_rel_pos=128)):
    model = Decoder(DecoderConfig(**sizes, **bias), embed_tokens=torch.nn.Embedding(99, 64)).eval()
    x, state = torch.arange(1, 13)[None], {}
    try:
        with torch.no_grad():
            steps = [model(x[:, : n + 1], incremental_state=state)[0][:, -1:] for n in range(12)]
            whole = model(x)[0]
        print(f"{(torch.cat(steps, 1) - whole).abs().max() / whole.abs().max():.1g}")
    except RuntimeError as error:
        print(error)
