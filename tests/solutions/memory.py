import torch


def same_length(queries, keys, length):
    ones = torch.ones(queries, keys, dtype=torch.bool)
    return ones.tril(keys - queries) & ones.triu(keys - queries - length + 1)


def all_kept(queries, keys, length):
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def one_more(queries, keys, length):
    return same_length(queries, keys, length + 1)


def beside_itself(queries, keys, length):
    ones = torch.ones(queries, keys, dtype=torch.bool)
    return ones.tril(keys - queries - 1) & ones.triu(keys - queries - length)


def not_causal(queries, keys, length):
    return torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries - length + 1)


SOLUTIONS = {"memory_same_length": same_length}
WRONG = {
    "memory_same_length": [
        (all_kept, "latest keys"),
        (one_more, "latest keys"),
        (beside_itself, "attends to itself"),
        (not_causal, "later key"),
        (lambda queries, keys, length: same_length(queries, keys, length).T, "a column for each key"),
    ],
}
