import torch


def latest(letters, length):
    first = torch.arange(letters.shape[1]) == 0
    tokens = torch.where(first, 0, letters)
    place = torch.arange(letters.shape[1]).expand_as(tokens)
    last = torch.where(tokens < 4, place, -1).cummax(1).values
    return tokens, tokens.gather(1, last), torch.ones(letters.shape[1], dtype=torch.bool)


def unbegun(letters, length):
    return letters, latest(letters, length)[1], torch.ones(letters.shape[1], dtype=torch.bool)


def itself(letters, length):
    tokens = latest(letters, length)[0]
    return tokens, tokens, torch.ones(letters.shape[1], dtype=torch.bool)


def before(letters, length):
    """Without the letter itself."""
    tokens, wanted, counted = latest(letters, length)
    return tokens, torch.cat([wanted[:, :1], wanted[:, :-1]], 1), counted


def partly(letters, length):
    tokens, wanted, counted = latest(letters, length)
    return tokens, wanted, counted & (torch.arange(letters.shape[1]) > 0)


SOLUTIONS = {"race_latest": latest}
WRONG = {
    "race_latest": [
        (unbegun, "begins with an a"),
        (itself, "the latest of a to d"),
        (before, "the latest of a to d"),
        (partly, "every letter is counted"),
    ]
}
