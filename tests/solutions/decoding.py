import torch

from posenc import KVCache, attend


def decode(q, k, v, encoding, chunks):
    cache, out, start = KVCache(), [], 0
    for size in chunks:
        new = slice(start, start + size)
        pos = torch.arange(start, start + size, device=q.device)
        keys, values, kpos = cache.extend(k[:, :, new], v[:, :, new], pos, encoding)
        out.append(attend(encoding.query(q[:, :, new], pos), keys, values, encoding, pos, kpos))
        start += size
    return torch.cat(out, 2)


def from_zero(q, k, v, encoding, chunks):
    cache, out, start = KVCache(), [], 0
    for size in chunks:
        new, pos = slice(start, start + size), torch.arange(size)
        keys, values, kpos = cache.extend(k[:, :, new], v[:, :, new], pos, encoding)
        out.append(attend(encoding.query(q[:, :, new], pos), keys, values, encoding, pos, kpos))
        start += size
    return torch.cat(out, 2)


def unmasked(q, k, v, encoding, chunks):
    out, end = [], 0
    for size in chunks:
        start, end = end, end + size
        pos, kpos = torch.arange(start, end), torch.arange(end)
        keys = encoding.key(k[:, :, :end], kpos)
        query = encoding.query(q[:, :, start:end], pos)
        out.append(attend(query, keys, v[:, :, :end], encoding, pos, kpos, causal=False, mask=kpos[None] > -1))
    return torch.cat(out, 2)


def causal_at_first(q, k, v, encoding, chunks):
    """A chunk that goes on after another sees all of itself."""
    out, end = [], 0
    for size in chunks:
        start, end = end, end + size
        pos, kpos = torch.arange(start, end), torch.arange(end)
        keys, query = encoding.key(k[:, :, :end], kpos), encoding.query(q[:, :, start:end], pos)
        seen = kpos <= (pos[:, None] if start == 0 else pos[-1])
        out.append(attend(query, keys, v[:, :, :end], encoding, pos, kpos, causal=False, mask=seen[..., :]))
    return torch.cat(out, 2)


def anew(q, k, v, encoding, chunks):
    out, end = [], 0
    for size in chunks:
        start, end = end, end + size
        pos, kpos = torch.arange(start, end), torch.arange(end)
        keys = encoding.key(k[:, :, :end], kpos)
        out.append(attend(encoding.query(q[:, :, start:end], pos), keys, v[:, :, :end], encoding, pos, kpos))
    return torch.cat(out, 2)


def latest_chunk(q, k, v, encoding, chunks):
    return torch.cat(
        [
            decode(*part, encoding, [part[0].shape[2]])
            for part in zip(*(x.split(chunks, 2) for x in (q, k, v)), strict=True)
        ],
        2,
    )


def speculate(model, draft, tokens, count, width):
    cache, end = model.cache(), tokens.shape[1] + count
    while tokens.shape[1] < end:
        guess = draft.generate(tokens, width)
        own = model(guess[:, len(cache[0]) :], cache=cache)[:, -width - 1 :].argmax(-1)
        agreed = int((own[0, :-1] == guess[0, -width:]).int().cumprod(0).sum())
        tokens = torch.cat([tokens, own[:, : agreed + 1]], 1)
        for layer_cache in cache:
            layer_cache.keep(torch.arange(tokens.shape[1] - 1, device=tokens.device))
    return tokens[:, :end]


def forgetful(model, draft, tokens, count, width):
    cache, end = model.cache(), tokens.shape[1] + count
    known = 0  # tokens that the cache holds
    while tokens.shape[1] < end:
        guess = draft.generate(tokens, width)
        own = model(guess[:, known:], cache=cache)[:, -width - 1 :].argmax(-1)
        agreed = int((own[0, :-1] == guess[0, -width:]).int().cumprod(0).sum())
        tokens = torch.cat([tokens, own[:, : agreed + 1]], 1)
        known = tokens.shape[1] - 1
    return tokens[:, :end]


def no_cache(model, draft, tokens, count, width):
    end = tokens.shape[1] + count
    while tokens.shape[1] < end:
        guess = draft.generate(tokens, width)
        own = model(guess)[:, -width - 1 :].argmax(-1)
        agreed = int((own[0, :-1] == guess[0, -width:]).int().cumprod(0).sum())
        tokens = torch.cat([tokens, own[:, : agreed + 1]], 1)
    return tokens[:, :end]


def one_late(model, draft, tokens, count, width):
    """Guesses are held against what comes after them."""
    end = tokens.shape[1] + count
    while tokens.shape[1] < end:
        guess = draft.generate(tokens, width)
        own = model(guess)[:, -width:].argmax(-1)
        agreed = int((own[0] == guess[0, -width:]).int().cumprod(0).sum())
        tokens = torch.cat([tokens, own[:, : agreed + 1]], 1)
    return tokens[:, :end]


def trusting(model, draft, tokens, count, width):
    return draft.generate(tokens, count)


def too_long(model, draft, tokens, count, width):
    return model.generate(tokens, count + 1)


SOLUTIONS = {"decoding_chunks": decode, "decoding_speculate": speculate}
WRONG = {
    "decoding_chunks": [
        (from_zero, "token by token"),
        (unmasked, "one chunk"),
        (causal_at_first, "chunks of any size"),
        (anew, "no key is made twice"),
        (latest_chunk, "token by token"),
    ],
    "decoding_speculate": [
        (one_late, "every guess is right"),
        (forgetful, "still the model's own"),
        (no_cache, "read again"),
        (trusting, "still the model's own"),
        (too_long, "as many tokens"),
    ],
}
