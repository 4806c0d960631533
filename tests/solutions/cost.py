import torch


def blocks(q, k, v, slope, qpos, kpos, block):
    i = qpos[:, None]
    m, total = q.new_full((len(q), 1), -torch.inf), q.new_zeros(len(q), 1)
    out = q.new_zeros(len(q), v.shape[1])
    for at in torch.arange(len(k)).split(block):
        j = kpos[at]
        s = q @ k[at].T / q.shape[-1] ** 0.5 - slope * (i - j)
        s = s.masked_fill(j > i, -torch.inf)
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        safe = new.masked_fill(new.isinf(), 0.0)
        c, weight = (m - safe).exp(), (s - safe).exp()
        total = c * total + weight.sum(-1, keepdim=True)
        out, m = c * out + weight @ v[at], new
    return out / total.masked_fill(total == 0, 1.0)


def _in_blocks(q, k, v, slope, qpos, kpos, block, *, shift=True, correct=True, rows=False):
    i = (torch.arange(len(q)) if rows else qpos)[:, None]
    m, total, out = q.new_full((len(q), 1), -1e9), 0.0, 0.0
    for at in torch.arange(len(k)).split(block):
        j = at if rows else kpos[at]
        s = (q @ k[at].T / q.shape[-1] ** 0.5 - slope * (i - j)).masked_fill(j > i, -torch.inf)
        new = torch.maximum(m, s.amax(-1, keepdim=True)) if shift else torch.zeros_like(m)
        c = (m - new).exp() if shift and correct else 1.0
        weight = (s - new).exp()
        total, out, m = c * total + weight.sum(-1, keepdim=True), c * out + weight @ v[at], new
    return out / total.clamp(min=1e-300)


def whole(q, k, v, slope, qpos, kpos, block):
    offset = kpos - qpos[:, None]
    score = (q @ k.T / q.shape[-1] ** 0.5 + slope * offset).masked_fill(offset > 0, -torch.inf)
    return score.softmax(-1).nan_to_num() @ v


def mean_of_blocks(q, k, v, slope, qpos, kpos, block):
    parts = [whole(q, k[at], v[at], slope, qpos, kpos[at], block) for at in torch.arange(len(k)).split(block)]
    return sum(parts) / len(parts)


def without_care(q, k, v, slope, qpos, kpos, block):
    i, m, total, out = qpos[:, None], -torch.inf, 0.0, 0.0
    for at in torch.arange(len(k)).split(block):
        j = kpos[at]
        s = (q @ k[at].T / q.shape[-1] ** 0.5 - slope * (i - j)).masked_fill(j > i, -torch.inf)
        new = s.amax(-1, keepdim=True).clamp(min=m)
        c, weight = (m - new).exp(), (s - new).exp()
        total, out, m = c * total + weight.sum(-1, keepdim=True), c * out + weight @ v[at], new
    return out / total


SOLUTIONS = {"cost_blocks": blocks}
WRONG = {
    "cost_blocks": [
        (lambda q, k, v, slope, *a: blocks(q, k, v, 0.0, *a), "in one block"),
        (mean_of_blocks, "the size of a block"),
        (lambda *a: _in_blocks(*a, correct=False), "the size of a block"),
        (lambda *a: _in_blocks(*a, shift=False), "large scores"),
        (lambda *a: _in_blocks(*a, rows=True), "positions decide"),
        (without_care, "gives no NaN"),
        (whole, "no tensor is larger"),
    ]
}
