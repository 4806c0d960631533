"""posenc.lab.report: tables and differences say what results hold, and what was not measured is not made up."""

import pytest
import torch

from posenc.lab import Run, results
from posenc.lab.__main__ import main
from posenc.lab.corpus import Corpus
from posenc.lab.intervals import crossed, wilson
from posenc.lab.report import (
    breaks,
    change,
    difference,
    differences,
    gain,
    gains,
    report,
    sizes,
    success,
    tables,
    texts,
    tried,
    worth,
)

L = 16


def result(losses, shifted=0.0, seed=0, **more):
    """A result of text: the losses of each text at L and 2 L, which is refused if it is None."""
    entries = [
        {"length": L * 2**n, "loss": None, "why": "too long"}
        if of is None
        else {"length": L * 2**n, "loss": sum(of) / len(of) + shifted, "texts": [x + shifted for x in of]}
        for n, of in enumerate(losses)
    ]
    slid = [entry | {"nonoverlapping": entry["loss"]} for entry in entries]
    config = {"objective": "text", "length": L, "seed": seed}
    return {"config": config, "trained": L, "nonoverlapping": entries, "sliding": slid, "curve": [], **more}


def test_numbers_of_texts_come_by_seed_and_by_length():
    of = [result([[1.0, 2.0], [3.0, 4.0]]), result([[5.0, 6.0], [7.0, 8.0]])]
    assert texts(of, "nonoverlapping", 1).tolist() == [[1, 2], [5, 6]]
    assert texts(of, "sliding", 2).tolist() == [[3, 4], [7, 8]]
    assert texts([of[0], result([[1.0, 2.0], None])], "sliding", 2) is None
    with pytest.raises(ValueError, match=r"sliding at 4 times .* 1, 2"):
        texts(of, "sliding", 4)
    with pytest.raises(ValueError, match=r"hidden at 1 times .* nothing"):
        texts(of, "hidden", 1)


def test_differences_are_paired():
    """Two variants that differ by 0.1 on every text differ for certain, however much texts differ."""
    of = [result([[1.0, 5.0, 3.0], [2.0, 6.0, 4.0]], shifted=0.1 + seed, seed=seed) for seed in range(3)]
    than = [result([[1.0, 5.0, 3.0], None], shifted=seed, seed=seed) for seed in (0, 2)]
    found = difference(of, than)
    assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert difference(of, than, "sliding", 2) is None
    each = differences(of, than)
    assert [(one.mean, one.low, one.high) for one in each] == [pytest.approx((0.1, 0.1, 0.1))] * 2
    alone = differences([result([[1.0, 5.0], None], seed=1)], [result([[0.0, 2.0], None], seed=1)])[0]
    assert (alone.mean, alone.low < 1, alone.high > 3) == (2, True, True)  # of its texts
    assert differences(of, than, "sliding", 2) == []
    for compare in (difference, differences):
        with pytest.raises(ValueError, match="no seed in common"):
            compare(of[1:2], than)
    rise = change(of, 2)
    assert (rise.mean, rise.low) == pytest.approx((1, 1))


def test_what_far_keys_and_planted_strings_are_worth():
    hidden = [{"length": L, "texts": [1.0, 2.0]}, {"length": 2 * L, "texts": [2.0, 4.0]}]
    recalled = [
        {"kind": "copy", "distance": 2, "gains": [1.0, 3.0], "chances": [0.1, 0.2]},
        {"kind": "copy", "distance": 2 * L, "gains": None, "chances": None, "why": "too long"},
        {"kind": "key", "distance": 2, "gains": [0.0, 1.0], "chances": [0.1, 0.2]},
    ]
    of = [result([[1.0, 2.0], [1.0, 2.0]], hidden=hidden, recalled=recalled)]
    assert worth(of, 2) == crossed([[1.0, 2.0]])
    assert gain(of, 1 / 8) == crossed([[1.0, 3.0]])
    assert gain(of, 1 / 8, "key") == crossed([[0.0, 1.0]])
    assert gain(of, 2) is None
    with pytest.raises(ValueError, match=r"key at 1 times .* 0\.125"):
        gain(of, 1, "key")
    made = {table.caption.partition(" by its")[0]: table for table in tables({"rope": of})}
    copies = made["Gain in nats per byte from a planted copy"]
    assert copies.columns == ["", "0.125 L", "2 L"]
    assert copies.rows == [["rope", "+2.00", "–"]]
    (twice,) = [table for table in tables({"rope": 2 * of}) if "planted key" in table.caption]
    assert twice.rows == [["rope", "+0.50 +0.50"]]
    assert gains(2 * of, 1 / 8) == [2, 2] and gains(of, 2) is None
    (hidden_keys,) = [table for table in tables({"rope": of}) if "keys are worth" in table.caption]
    assert hidden_keys.rows[0][1:] == [f"{crossed([[0.0, 0.0]]):+.2f}", f"{crossed([[1.0, 2.0]]):+.2f}"]


def test_models_of_different_training_lengths_have_tables_apart():
    longer = result([[1.0, 2.0]])
    longer["trained"] = longer["nonoverlapping"][0]["length"] = longer["sliding"][0]["length"] = 2 * L
    made = tables({"rope_16": [result([[1.0, 2.0]])], "rope_32": [longer]})
    assert {tuple(table.columns) for table in made if "overlap:" in table.caption} == {("", "16"), ("", "32")}


def test_the_lowest_loss_of_a_sweep_of_rates_is_named():
    losses = {1e-3: 2.0, 2e-3: 1.5, 4e-3: 1.75, 8e-3: 3.0}
    found = {
        f"{scheme}@{rate:g}": [{"curve": [{"step": 5, "held_out": loss}], "config": {"steps": 5, "objective": "text"}}]
        for scheme in ("rope", "t5")
        for rate, loss in losses.items()
        if (scheme, rate) != ("t5", 2e-3)
    }
    assert tried(found).rows == [
        ["rope", "2.000", "1.500", "1.750", "3.000", "0.002"],
        ["t5", "2.000", "–", "1.750", "3.000", "0.004"],
    ]
    assert [table.caption for table in tables(found)] == ["Held-out loss after 5 steps by learning rate, nats per byte"]


def test_rates_are_read_by_the_name_of_their_runs(tmp_path):
    text = torch.zeros(10, dtype=torch.uint8)
    corpus = Corpus("zeros", text, text, "0" * 16, 2)
    for rate in (1e-3, 2e-3):
        run = Run("rope", 0, "smoke", rate)
        results.write(run, {"curve": [{"step": 1, "held_out": rate}]}, corpus, "cpu", {}, tmp_path)
    found = results.read("rates", "smoke", tmp_path)
    assert list(found) == ["rope@0.001", "rope@0.002"]
    assert report("rates", "smoke", tmp_path).split()[-5:] == ["best", "rope", "0.001", "0.002", "0.001"]


def test_seeds_that_learn_a_task_are_counted():
    def answers(exact):
        return {"config": {"length": 8}, "accuracy": [{"length": 8, "exact": exact}, {"length": 16, "exact": 1.0}]}

    assert success([answers(0.95), answers(0.9), answers(0.5), answers(None)]) == wilson(2, 4)


def test_sizes_before_training_are_those_of_the_vectors():
    found = {row[0]: [float(cell) for cell in row[1:]] for row in sizes("cpu").rows}
    assert found["sinusoidal"][1] == pytest.approx((96 / 2) ** 0.5, abs=0.01)  # a sine and a cosine give 1
    assert found["learned"][1] == pytest.approx(0.02 * 96**0.5, rel=0.05)
    assert found["learned_large"][2] == pytest.approx(1, abs=0.02)
    for token, place, ratio in found.values():
        assert ratio == pytest.approx(place / token, abs=0.02)


def test_all_reports_say_what_is_missing_and_go_on(tmp_path, capsys):
    assert main(["report", "--preset", "smoke", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().out
    assert "sinusoidal" in told
    for name in ("baselines", "extrapolation", "rates", "cost"):
        assert f"{name}: " in told


def by_position(*losses):
    """Groups of positions of one width, the first four within the training length."""
    width = L // 4
    return [{"from": n * width, "to": (n + 1) * width, "tokens": width, "loss": loss} for n, loss in enumerate(losses)]


@pytest.mark.parametrize(
    ("losses", "by", "found"),
    [
        ((9.0, 1.0, 1.0, 1.0, 1.5, 2.1, 3.0), 1.0, (20, 24)),  # early tokens are hard, and decide nothing
        ((1.0, 1.0, 1.0, 1.0, 2.1, 1.0), 1.0, (16, 20)),
        ((1.0, 1.0, 1.0, 3.0, 3.5, 3.9), 1.0, None),  # compared with the last quarter within L
        ((1.0, 1.0, 1.0, 1.0, 1.6), 0.5, (16, 20)),
        ((1.0, 1.0, 1.0, 1.0), 1.0, None),  # a table ends there
    ],
)
def test_a_model_breaks_where_its_loss_first_exceeds_that_within_the_training_length(losses, by, found):
    assert breaks({"trained": L, "by_position": by_position(*losses)}, by) == found
