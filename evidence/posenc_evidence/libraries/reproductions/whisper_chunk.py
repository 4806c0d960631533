import torch
from whisper.model import ModelDimensions, Whisper

torch.manual_seed(0)
model = Whisper(ModelDimensions(8, 20, 64, 4, 1, 99, 64, 64, 4, 2)).eval()
torch.nn.init.normal_(model.decoder.positional_embedding)  # made, and not filled, by the class
x, sound = torch.randint(99, (1, 12)), torch.randn(1, 20, 64)
with torch.no_grad():
    whole = model.decoder(x, sound)
    for sizes in ([6] + 6 * [1], [6, 6]):
        cache, hooks = model.install_kv_cache_hooks()
        logits = torch.cat([model.decoder(part, sound, kv_cache=cache) for part in x.split(sizes, 1)], 1)
        [hook.remove() for hook in hooks]
        print(sizes, f"{(logits - whole).abs().max() / whole.abs().max():.2g}")
