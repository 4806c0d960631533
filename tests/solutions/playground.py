import math


def surprise(logits, tokens):
    return -logits[:-1].log_softmax(-1).gather(-1, tokens[1:, None])[:, 0] / math.log(2)


def in_nats(logits, tokens):
    return surprise(logits, tokens) * math.log(2)


def itself(logits, tokens):
    """Each row about its own token."""
    return -logits[1:].log_softmax(-1).gather(-1, tokens[1:, None])[:, 0] / math.log(2)


def unnormalised(logits, tokens):
    return (8 - logits[:-1].gather(-1, tokens[1:, None])[:, 0]) / 1.0


def with_the_first(logits, tokens):
    return -logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0] / math.log(2)


SOLUTIONS = {"playground_surprise": surprise}
WRONG = {
    "playground_surprise": [
        (in_nats, "8 bits"),
        (itself, "the row before it"),
        (with_the_first, "the row before it"),
        (unnormalised, "a constant"),
    ]
}
