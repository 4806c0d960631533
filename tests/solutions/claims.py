import torch


def relative(turn):
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 12, 16, generator=generator, dtype=torch.float64)
    pos = torch.tensor([0, 1, 2, 3, 5, 8, 40, 90, 200, 333, 700, 1000])

    def score(qpos, kpos):
        return turn(q, qpos) @ turn(k, kpos).T

    home = score(pos, pos)
    kept = all(torch.allclose(score(pos + s, pos + s), home, atol=1e-8) for s in (1, 2, 7, 64, 1000, 4321))
    before_and_after = not torch.allclose(score(pos + 1, pos), home, atol=1e-3)
    return kept and before_and_after


def by_one_step(turn):
    x, pos = torch.randn(8, 16, dtype=torch.float64), torch.arange(8)
    return torch.allclose(turn(x, pos) @ turn(x, pos).T, turn(x, pos + 1) @ turn(x, pos + 1).T)


def near_only(turn):
    x, pos = torch.randn(8, 16, dtype=torch.float64), torch.arange(8)

    def score(qpos, kpos):
        return turn(x, qpos) @ turn(x, kpos).T

    return torch.allclose(score(pos, pos), score(pos + 1, pos + 1)) and not torch.allclose(
        score(pos, pos), score(pos + 1, pos)
    )


def any_change(turn):
    x, pos = torch.randn(8, 16, dtype=torch.float64), torch.arange(8)
    return not torch.allclose(turn(x, pos), turn(x, pos + 1))


def by_norm(turn):
    x, pos = torch.randn(8, 16, dtype=torch.float64), torch.arange(8)
    turned = turn(x, pos)
    return torch.allclose(turned.norm(dim=-1), x.norm(dim=-1)) and not torch.allclose(turned, x)


SOLUTIONS = {"claims_relative": relative}
WRONG = {
    "claims_relative": [
        (by_one_step, "does not depend on positions at all"),
        (any_change, "when a text moves"),
        (near_only, "far along a text"),
        (by_norm, "far along a text"),
        (lambda turn: True, "does not depend on positions at all"),
        (lambda turn: False, "are accepted"),
    ]
}
