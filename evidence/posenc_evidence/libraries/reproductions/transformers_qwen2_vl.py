import copy

import torch
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

text = dict(vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
text |= dict(num_key_value_heads=2, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 3, 3]))
vision = dict(depth=1, embed_dim=32, hidden_size=64, num_heads=2, mlp_ratio=2, patch_size=4, spatial_merge_size=2)
marks = dict(image_token_id=96, video_token_id=97, vision_start_token_id=95, vision_end_token_id=94)
torch.manual_seed(0)
model = Qwen2VLForConditionalGeneration(Qwen2VLConfig(text_config=text, vision_config=vision, **marks)).eval()
ids = torch.tensor([[95, *4 * [96], 94, *range(10, 18)]])  # an image of 4 by 4 patches, merged to 4 tokens, and a text
image = dict(pixel_values=torch.randn(16, 3 * 2 * 4 * 4), image_grid_thw=torch.tensor([[1, 4, 4]]))
with torch.no_grad():
    first = model(ids, **image, mm_token_type_ids=(ids == 96).long(), use_cache=True)
    for mask in (None, torch.ones(1, ids.shape[1] + 1, dtype=torch.long)):  # none, and of past and present
        past = copy.deepcopy(first.past_key_values)
        try:
            print(tuple(model(torch.tensor([[20]]), attention_mask=mask, past_key_values=past).logits.shape))
        except RuntimeError as error:
            print(error)
