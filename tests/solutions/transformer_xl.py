import torch

from posenc import sinusoidal


def paper_shift(x):
    queries, columns = x.shape
    padded = torch.cat([x.new_zeros(queries, 1), x], 1)
    return padded.view(columns + 1, queries)[1:].view(queries, columns)


def shift_both(x, keys):
    return paper_shift(x)[:, :keys]


def cut_first(x, keys):
    return paper_shift(x[:, :keys])


def unshifted(x, keys):
    return x[:, :keys]


def backwards(x, keys):
    return shift_both(x.flip(1), keys)


def step_bias(q, weight, v, distances):
    w = (q + v) @ weight
    return sinusoidal(distances, weight.shape[1], layout="half") @ w / q.shape[0] ** 0.5


def table_first(q, weight, v, distances):
    k_delta = sinusoidal(distances, weight.shape[1], layout="half") @ weight.T
    return k_delta @ (q + v) / q.shape[0] ** 0.5


def interleaved(q, weight, v, distances):
    return sinusoidal(distances, weight.shape[1]) @ ((q + v) @ weight) / q.shape[0] ** 0.5


def unscaled(q, weight, v, distances):
    return step_bias(q, weight, v, distances) * q.shape[0] ** 0.5


def without_v(q, weight, v, distances):
    return step_bias(q, weight, 0 * v, distances)


SOLUTIONS = {"transformer_xl_shift": shift_both, "transformer_xl_step": step_bias}
WRONG = {
    "transformer_xl_shift": [
        (cut_first, "a key that is after the query"),
        (unshifted, "not after the query gets the number"),
        (backwards, "not after the query gets the number"),
        (lambda x, keys: shift_both(x.flip(0), keys), "the query's own row"),
        (lambda x, keys: x, "a column for each key"),
    ],
    "transformer_xl_step": [
        (lambda *inputs: step_bias(*inputs)[None], "a number for each distance"),
        (table_first, "larger than the sinusoids"),
        (interleaved, "bias of TransformerXL"),
        (unscaled, "bias of TransformerXL"),
        (without_v, "sum of q and v"),
    ],
}
