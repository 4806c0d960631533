import torch


def read(model, *texts):
    """The logits of each text, read token by token in turns."""
    states, logits = [None] * len(texts), [[] for _ in texts]
    for at in range(max(text.shape[1] for text in texts)):
        for n, text in enumerate(texts):
            if at < text.shape[1]:
                out, states[n] = model.step(text[:, at : at + 1], states[n])
                logits[n].append(out)
    return [torch.cat(out, 1) for out in logits]


def size(found, alone):
    return (found - alone).abs().max() / alone.square().mean().sqrt()


def turns(model, first, second):
    alone = [read(model, text)[0] for text in (first, second)]
    return max(size(*pair) for pair in zip(read(model, first, second), alone, strict=True))


def one_cache(model, first, second):
    """Both texts go into one state."""
    alone = [read(model, text)[0] for text in (first, second)]
    state, found = None, [[], []]
    for at in range(min(first.shape[1], second.shape[1])):
        for n, text in enumerate((first, second)):
            out, state = model.step(text[:, at : at + 1], state)
            found[n].append(out)
    return max(size(torch.cat(f, 1), a[:, : len(f)]) for f, a in zip(found, alone, strict=True))


def one_after_the_other(model, first, second):
    return max(size(read(model, text)[0], read(model, text)[0]) for text in (first, second))


def first_only(model, first, second):
    return size(read(model, first, second)[0], read(model, first)[0])


def last_tokens(model, first, second):
    alone = [read(model, text)[0][:, -1] for text in (first, second)]
    return max(size(f[:, -1], a) for f, a in zip(read(model, first, second), alone, strict=True))


def as_they_are(model, first, second):
    alone = [read(model, text)[0] for text in (first, second)]
    return max((f - a).abs().max() for f, a in zip(read(model, first, second), alone, strict=True))


def on_average(model, first, second):
    """The root mean square of the change."""
    alone = [read(model, text)[0] for text in (first, second)]
    pairs = zip(read(model, first, second), alone, strict=True)
    return max((f - a).square().mean().sqrt() / a.square().mean().sqrt() for f, a in pairs)


SOLUTIONS = {"census_turns": turns}
WRONG = {
    "census_turns": [
        (one_cache, "off by nothing"),
        (one_after_the_other, "counts in itself"),
        (first_only, "both texts"),
        (last_tokens, "every token"),
        (as_they_are, "by a factor"),
        (on_average, "largest change"),
    ],
}
