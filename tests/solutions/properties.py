import torch

from posenc import Encoding, attend, attention_weights, properties


class Fading(Encoding):
    causal_only = True

    def curve(self, distance):
        return -4 * distance / (distance + 64)

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: self.curve((qpos[b, i] - kpos[b, j]).double())


class Linear(Fading):
    def curve(self, distance):
        return -0.1 * distance


class Exponential(Fading):
    def curve(self, distance):
        return 4 * torch.exp(-distance / 64)


class Clipped(Fading):
    def curve(self, distance):
        return -0.1 * distance.clamp(max=64)


class Cosine(Fading):
    def curve(self, distance):
        return 4 * torch.cos(distance / 64)


class BothSides(Fading):
    causal_only = False

    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: self.curve((qpos[b, i] - kpos[b, j]).abs().double())


class Absolute(Fading):
    def score_bias(self, q, k, qpos, kpos):
        return lambda b, h, i, j: self.curve(-kpos[b, j].double())


class Rows(Fading):
    """A table of 2048 distances."""

    def curve(self, distance):
        return super().curve(torch.arange(2048).double())[distance.long().clamp(min=0)]


def inputs(encoding, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 7, 64, generator=generator)
    weights = torch.randn(3, 4, 16, 64, generator=generator) / 8
    return x, weights, torch.arange(7)


def read(encoding, x, weights, pos, causal=False):
    q, k, v = torch.einsum("bld,phcd->pbhlc", encoding.embed(x, pos), weights)
    return attend(encoding.query(q, pos), encoding.key(k, pos), v, encoding, pos, pos, causal=causal)


def tells_left_from_right(encoding):
    if encoding.causal_only:
        return None
    x, weights, pos = inputs(encoding)
    with torch.no_grad():
        mirrored = read(encoding, x.flip(1), weights, pos).flip(2)
        return not torch.allclose(mirrored, read(encoding, x, weights, pos), atol=1e-5)


def one_token(encoding):
    """The same token everywhere."""
    x, weights, pos = inputs(encoding)
    x = x[:, :1].expand(-1, 7, -1)
    with torch.no_grad():
        if encoding.causal_only:
            return None
        mirrored = read(encoding, x.flip(1), weights, pos).flip(2)
        return not torch.allclose(mirrored, read(encoding, x, weights, pos), atol=1e-5)


def masked(encoding):
    """A mask tells left from right by itself."""
    x, weights, pos = inputs(encoding)
    with torch.no_grad():
        mirrored = read(encoding, x.flip(1), weights, pos, causal=True).flip(2)
        return not torch.allclose(mirrored, read(encoding, x, weights, pos, causal=True), atol=1e-5)


def weights_only(encoding):
    """Values are not looked at."""
    if encoding.causal_only:
        return None
    x, weights, pos = inputs(encoding)

    def seen(x):
        q, k, _ = torch.einsum("bld,phcd->pbhlc", encoding.embed(x, pos), weights)
        return attention_weights(encoding.query(q, pos), encoding.key(k, pos), encoding, pos, pos, causal=False)

    with torch.no_grad():
        return not torch.allclose(seen(x.flip(1)).flip(2, 3), seen(x), atol=1e-5)


def one_vector(encoding):
    """All queries and keys are one vector, for which a rotation is the same on both sides."""
    if encoding.causal_only:
        return None
    x, pos = torch.ones(1, 4, 7, 16), torch.arange(7)
    with torch.no_grad():
        q, k = encoding.query(x, pos), encoding.key(x, pos)
        found = attention_weights(q, k, encoding, pos, pos, causal=False)
        return not torch.allclose(found.flip(2, 3), found, atol=1e-5)


def nothing_added(encoding):
    """Tokens do not go through `embed`."""
    if encoding.causal_only:
        return None
    x, weights, pos = inputs(encoding)

    def read(x):
        q, k, v = torch.einsum("bld,phcd->pbhlc", x, weights)
        return attend(encoding.query(q, pos), encoding.key(k, pos), v, encoding, pos, pos, causal=False)

    with torch.no_grad():
        return not torch.allclose(read(x.flip(1)).flip(2), read(x), atol=1e-5)


def shuffled(encoding):
    """Whether it sees order at all."""
    return None if encoding.causal_only else properties(encoding, model_dim=64, length=16)["ordered"].verdict == "holds"


def asked_of_all(encoding):
    x, weights, pos = inputs(encoding)
    with torch.no_grad():
        mirrored = read(encoding, x.flip(1), weights, pos).flip(2)
        return not torch.allclose(mirrored, read(encoding, x, weights, pos), atol=1e-5)


SOLUTIONS = {"properties_fading": Fading, "properties_mirror": tells_left_from_right}
WRONG = {
    "properties_fading": [
        (Linear, "do not grow without end"),
        (Exponential, "no linear map"),
        (Clipped, "tells all keys apart"),
        (Cosine, "never rises"),
        (BothSides, "tells all keys apart"),
        (Rows, "at any position"),
        (Absolute, "only offsets matter"),
    ],
    "properties_mirror": [
        (masked, "without an encoding"),
        (shuffled, "a function of the distance"),
        (lambda encoding: False, "signed offset"),
        (one_token, "signed offset"),
        (one_vector, "for some queries and keys"),
        (nothing_added, "added to tokens"),
        (weights_only, "values only"),
        (asked_of_all, "does not apply"),
    ],
}
