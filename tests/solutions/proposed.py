import torch


def columns(log_gate):
    return -log_gate.cumsum(-1)


def so_far(log_gate):
    return log_gate.cumsum(-1)


def own_gate(log_gate):
    return log_gate - log_gate.cumsum(-1)


def sum_of_gates(log_gate):
    return -log_gate.exp().cumsum(-1)


def over_sequences(log_gate):
    return -log_gate.cumsum(0)


def positions(gate):
    return gate.tril().flip(-1).cumsum(-1).flip(-1).tril()


def late_mask(gate):
    return gate.flip(-1).cumsum(-1).flip(-1).tril()


def from_the_left(gate):
    return gate.tril().cumsum(-1).tril()


def without_the_key(gate):
    gate = gate.tril()
    return (gate.flip(-1).cumsum(-1).flip(-1) - gate).tril()


def over_queries(gate):
    return gate.tril().flip(-2).cumsum(-2).flip(-2).tril()


def shares(gate):
    """Of all gates of a query, those of later tokens too."""
    return positions(gate / gate.mean(-1, keepdim=True))


def when_it_was_new(gate):
    """A token's gate for itself, for all queries."""
    return positions(gate.diagonal(dim1=-2, dim2=-1)[..., None, :].expand_as(gate))


SOLUTIONS = {"proposed_forget": columns, "proposed_count": positions}
WRONG = {
    "proposed_forget": [
        (so_far, "with equal gates"),
        (own_gate, "its own key"),
        (sum_of_gates, "prefer no key"),
        (over_sequences, "in every row"),
        (lambda log_gate: columns(log_gate)[..., None], "in the shape of the gates"),
        (lambda log_gate: torch.zeros_like(log_gate), "with equal gates"),
    ],
    "proposed_count": [
        (late_mask, "with all gates at 1"),
        (from_the_left, "with all gates at 1"),
        (without_the_key, "with all gates at 1"),
        (over_queries, "with all gates at 1"),
        (shares, "after the query"),
        (when_it_was_new, "for its own query"),
        (lambda gate: positions(gate.bfloat16()), "the sum of the gates"),
        (lambda gate: gate.flip(-1).cumsum(-1).flip(-1), "the future"),
    ],
}
