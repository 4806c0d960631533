import torch
from torch.nn.functional import softplus

from posenc import distance_weight


def weight(R, w, v):
    v = torch.as_tensor(v, dtype=R.dtype)
    return (softplus(v) - softplus(v - w * R)).clamp(max=40).exp()


def as_it_is_written(R, w, v):
    v = torch.as_tensor(v, dtype=R.dtype)
    return (1 + v.exp()) / (1 + (v - w * R).exp())


def sigmoid_alone(R, w, v):
    return torch.sigmoid(w * R - v)


def other_sign(R, w, v):
    return weight(R, -w, v)


def exponential(R, w, v):
    return (0.1 * w * R).exp()


def shift_lost(R, w, v):
    return weight(R, w, 0.0)


def sparse(q, k, values, w, v):
    out, pairs, total = [], 0, torch.zeros_like(values[0])
    for i in range(len(q)):
        total = total + values[i]
        score = q[i] @ k[: i + 1].T / q.shape[-1] ** 0.5
        at = (score > 0).nonzero()[:, 0]
        more = (score[at] * distance_weight(i - at, w, v)).expm1()
        out.append((total + more @ values[at]) / (i + 1 + more.sum()))
        pairs += len(at)
    return torch.stack(out), pairs


def skipping(q, k, values, w, v):
    out, pairs = [], 0
    for i in range(len(q)):
        score = q[i] @ k[: i + 1].T / q.shape[-1] ** 0.5
        at = (score > 0).nonzero()[:, 0]
        weight = (score[at] * distance_weight(i - at, w, v)).softmax(0)
        out.append(weight @ values[at])
        pairs += len(at)
    return torch.stack(out), pairs


def all_pairs(q, k, values, w, v):
    i = torch.arange(len(q))
    score = (q @ k.T / q.shape[-1] ** 0.5).relu() * distance_weight((i[:, None] - i).abs(), w, v)
    z = score.masked_fill(i > i[:, None], -torch.inf).softmax(-1) @ values
    return z, len(q) * (len(q) + 1) // 2


def keys_forgotten(q, k, values, w, v):
    """exp in place of expm1: what is used one by one is counted twice."""
    out, pairs = [], 0
    for i in range(len(q)):
        score = q[i] @ k[: i + 1].T / q.shape[-1] ** 0.5
        at = (score > 0).nonzero()[:, 0]
        more = (score[at] * distance_weight(i - at, w, v)).exp()
        out.append((values[: i + 1].sum(0) + more @ values[at]) / (i + 1 + more.sum()))
        pairs += len(at)
    return torch.stack(out), pairs


SOLUTIONS = {"distance_aware_weight": weight, "distance_aware_sparse": sparse}
WRONG = {
    "distance_aware_weight": [
        (as_it_is_written, "finite"),
        (sigmoid_alone, "whatever w and v"),
        (other_sign, "rises with distance"),
        (lambda R, w, v: weight(R, w or 0.1, v), "everywhere if w = 0"),
        (exponential, "sigmoid"),
        (shift_lost, "sigmoid"),
    ],
    "distance_aware_sparse": [
        (skipping, "attends to all keys alike"),
        (all_pairs, "one by one"),
        (keys_forgotten, "that of the scheme"),
        (lambda q, k, values, w, v: values, "a number of pairs"),
    ],
}
