import torch


def rows(weight, heads, kv_heads, head_dim, order):
    """The rows of queries and keys in another order within each head."""
    moved = (head_dim * torch.arange(heads + kv_heads)[:, None] + order).flatten()
    return weight[torch.cat([moved, torch.arange(len(moved), len(weight))])]


def fused(weight, heads, kv_heads, head_dim, rotary_dim):
    turned, rest = torch.arange(rotary_dim), torch.arange(rotary_dim, head_dim)
    return rows(weight, heads, kv_heads, head_dim, torch.cat([turned[0::2], turned[1::2], rest]))


def values_too(weight, heads, kv_heads, head_dim, rotary_dim):
    return fused(weight, heads, 2 * kv_heads, head_dim, rotary_dim)


def the_other_way(weight, heads, kv_heads, head_dim, rotary_dim):
    turned, rest = torch.arange(rotary_dim), torch.arange(rotary_dim, head_dim)
    order = torch.cat([turned[0::2], turned[1::2]]).argsort()
    return rows(weight, heads, kv_heads, head_dim, torch.cat([order, rest]))


def whole_heads(weight, heads, kv_heads, head_dim, rotary_dim):
    return fused(weight, heads, kv_heads, head_dim, head_dim)


def as_many_keys(weight, heads, kv_heads, head_dim, rotary_dim):
    blocks = weight.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim])
    wide = heads * head_dim // kv_heads if heads != kv_heads else head_dim
    keys = fused(blocks[1], 1, 0, len(blocks[1]), min(wide, len(blocks[1]))) if wide != head_dim else None
    keys = fused(blocks[1], kv_heads, 0, head_dim, rotary_dim) if keys is None else keys
    return torch.cat([fused(blocks[0], heads, 0, head_dim, rotary_dim), keys, blocks[2]])


def queries_only(weight, heads, kv_heads, head_dim, rotary_dim):
    return fused(weight, heads, 0, head_dim, rotary_dim)


def one_head(weight, heads, kv_heads, head_dim, rotary_dim):
    blocks = weight.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim])
    return torch.cat([*(torch.cat([b[0::2], b[1::2]]) for b in blocks[:2]), blocks[2]])


def in_place(weight, heads, kv_heads, head_dim, rotary_dim):
    weight.copy_(fused(weight.clone(), heads, kv_heads, head_dim, rotary_dim))
    return weight


def by_head(weight, heads, head_dim, rotary_dim):
    parts = weight.view(heads, 3, head_dim, -1).clone()
    parts[:, :2, :rotary_dim] = torch.cat([parts[:, :2, 0:rotary_dim:2], parts[:, :2, 1:rotary_dim:2]], 2)
    return parts.flatten(0, 2)


def as_blocks(weight, heads, head_dim, rotary_dim):
    """All queries, all keys, all values, as in the exercise before."""
    return fused(weight, heads, heads, head_dim, rotary_dim)


def by_head_queries_only(weight, heads, head_dim, rotary_dim):
    parts = weight.view(heads, 3, head_dim, -1).clone()
    parts[:, :1] = by_head(weight, heads, head_dim, rotary_dim).view_as(parts)[:, :1]
    return parts.flatten(0, 2)


def by_head_whole(weight, heads, head_dim, rotary_dim):
    return by_head(weight, heads, head_dim, head_dim)


SOLUTIONS = {"layouts_fused": fused, "layouts_by_head": by_head}
WRONG = {
    "layouts_by_head": [
        (as_blocks, "rows of values"),
        (by_head_queries_only, "scores in the half layout"),
        (by_head_whole, "only a part of each head"),
    ],
    "layouts_fused": [
        (values_too, "rows of values"),
        (the_other_way, "as many heads of keys as of queries"),
        (queries_only, "as many heads of keys as of queries"),
        (one_head, "as many heads of keys as of queries"),
        (as_many_keys, "fewer heads of keys"),
        (whole_heads, "only a part of each head"),
        (in_place, "is not changed"),
        (lambda weight, *sizes: torch.cat([weight[0::2], weight[0::2]]), "is there once"),
    ],
}
