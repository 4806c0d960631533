"""learn(): models that a reader trains. Torch and the graphs train alike, seeds repeat, and what is wrong is said."""

from __future__ import annotations

import base64
import json
import math
import re
from functools import cache

import pytest
import torch

from posenc import SCHEMES, Heatmap, Lines, Shaw, Transformer
from posenc._explore.training import draws
from posenc._explore.training.course import LIMIT, Course, Sizes, exam_texts, texts
from posenc._explore.training.lesson import Lesson, Trainer
from posenc._explore.training.panel import Training, TrainingPage, learn
from posenc._explore.training.tasks import SIGN, SYMBOLS, TASKS, back, copy, earliest, first, latest, number

SMALL = {"length": 8, "batch": 4, "model_dim": 16, "exam": 4, "reach": 2}
SEVERAL = {
    "blind": {"encoding": "nope", "causal": False},
    "k = 2": {"encoding": lambda head_dim, **_: Shaw(head_dim, 2)},
    "k = 3": {"encoding": lambda head_dim, **_: Shaw(head_dim, 3)},
    "causal": "nope",
}
WATCHED = {
    "k = 3": (lambda shaw: shaw.key_table, Heatmap()),
    "k = 2": (lambda shaw: shaw.key_table.norm(dim=-1), Lines(x="label", y="length", start=-2)),
}
BACK = "repeat the letter n back"


def zero(number: int = 0) -> torch.Tensor:
    return torch.tensor(number)


def letters(tokens: torch.Tensor) -> str:
    return "".join(SYMBOLS[token] for token in tokens.tolist())


def trained(scheme: str, steps: int, seed: int = 0, rate: float = 1e-2, **sizes) -> list[float]:
    trainer = Trainer(Lesson(BACK, [scheme], None, seed, rate, steps, None, "one", "", sizes))
    trainer.begin({"task": "task 0", "seed": seed, "schemes": [scheme]})
    return [trainer.step(rate)[0] for _ in range(steps)]


# Random numbers


def by_hand(seed: int, stream: int, index: int) -> int:
    """The permutation with Python's own integers, which do not overflow."""
    x = index
    for key in (seed + 1_013_904_223, stream + 1_664_525, seed + 747_796_405, stream + 277_803_737):
        x = pow(x + key, 5, 2**31 - 1)
    return x


@pytest.mark.parametrize(("seed", "stream"), [(0, 0), (999, 2), (2**31 - 2, 1)])
def test_numbers_are_those_of_exact_integers(seed, stream):
    index = torch.tensor([0, 1, 7, 12_345, 2**31 - 3, 2**31 - 2])
    assert draws.digest(zero(seed), stream, index).tolist() == [by_hand(seed, stream, i) for i in index.tolist()]


def test_numbers_of_a_sequence_differ_and_are_spread():
    found = draws.digest(zero(5), 1, torch.arange(50_000))
    assert found.unique().numel() == 50_000  # a permutation repeats nothing
    x, z = draws.uniform(zero(5), 1, torch.arange(50_000)), draws.normal(zero(5), 1, torch.arange(50_000))
    assert x.histc(10, 0, 1).sub(5000).abs().max() < 5 * 5000**0.5
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02 and z.isfinite().all()
    assert abs((x[1:] - 0.5).mul(x[:-1] - 0.5).mean()) < 5 / 12 / 50_000**0.5


def test_streams_and_seeds_share_nothing():
    index = torch.arange(1000)
    drawn = [draws.digest(zero(seed), stream, index) for seed in (0, 1) for stream in (0, 1, 2)]
    assert all((a == b).sum() < 5 for n, a in enumerate(drawn) for b in drawn[:n])


# Tasks


def test_the_rules():
    given = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8]])
    for n in (1, 3, 4):
        tokens, targets, counted = back(given, zero(9), zero(n))
        assert (letters(tokens[0]), letters(targets[0, counted])) == ("abcdefghi", "abcdefghi"[:-n])
    tokens, targets, counted = first(given, zero(9))
    assert letters(targets[0]) == "aaaaaaaaa" and counted.all()
    for length in (9, 8, 5):
        tokens, targets, counted = copy(given, zero(length))
        half = (length - 1) // 2
        assert letters(tokens[0, : 2 * half + 1]) == "abcd"[:half] + "=" + "abcd"[:half]
        assert letters(targets[0, counted]) == "abcd"[:half]
        assert (counted.nonzero()[0] == (tokens[0] == SIGN).nonzero()[0]).all()
    tokens, targets, counted = number(given.flip(1), zero(9))
    assert (letters(tokens[0]), letters(targets[0, counted])) == ("=hgfedcba", "abcdefgh")
    marked = torch.tensor([[9, 2, 7, 0, 0, 15, 3, 4]])
    for rule, wanted in ((latest, "=ccaaadd"), (earliest, "=ccccccc")):
        tokens, targets, counted = rule(marked, zero(8))
        assert letters(targets[0]) == wanted and counted.all() and torch.equal(tokens, marked)


@pytest.mark.parametrize("task", TASKS)
def test_texts_of_steps_and_exams_differ_and_share_out_the_loss(task):
    sizes, seed = Sizes(), zero(3)
    seen = [texts(TASKS[task], sizes, seed, zero(step), torch.tensor(3)) for step in range(3)]
    exam = exam_texts(TASKS[task], sizes, seed, zero(40), torch.tensor(3))
    assert exam[2][40:].sum() == 0
    for tokens, targets, share in (*seen, exam):
        assert tokens.shape == targets.shape and share.shape == tokens.shape[1:]
        torch.testing.assert_close(share.sum(), torch.tensor(1.0))
    rows = torch.cat([tokens[:, : sizes.length] for tokens, *_ in (*seen, exam)])
    assert rows.unique(dim=0).shape[0] == len(rows)


# A course


@pytest.mark.parametrize("scheme", SCHEMES)
def test_models_start_as_torch_starts_them(scheme):
    """Each parameter has the mean and the spread of one that torch has drawn, and other seeds other numbers."""
    course = Course(scheme, Sizes())
    ours = course.parameters(course.start(zero(1)))
    torch.manual_seed(0)
    theirs = Transformer(len(SYMBOLS), layers=1, model_dim=32, heads=2, encoding=scheme, length=96, tied=False)
    for name, parameter in theirs.named_parameters():
        true = parameter.detach()
        far = 5 * float(true.std(correction=0)) / true.numel() ** 0.5
        assert abs(float(ours[name].mean() - true.mean())) <= 2 * far, name
        assert abs(float(ours[name].std(correction=0) - true.std(correction=0))) <= 2 * far, name
    again, other = course.start(zero(1)), course.start(zero(2))
    assert torch.equal(again, course.start(zero(1))) and not torch.equal(again, other)
    assert not again[1:].any()


def test_all_schemes_start_with_the_same_other_weights():
    starts = [Course(scheme, Sizes(**SMALL)) for scheme in ("rope", "alibi", "nope")]
    for other in starts[1:]:
        a, b = starts[0].parameters(starts[0].start(zero())), other.parameters(other.start(zero()))
        assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_step_is_that_of_torchs_optimiser(decay):
    sizes = Sizes(**SMALL, decay=decay)
    course, seed = Course("shaw", sizes), zero(4)
    state = course.start(seed)
    model = course.model
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(course.parameters(state)[name])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=sizes.betas, weight_decay=decay)
    for step in range(5):
        read = texts(back, sizes, seed, zero(step), torch.tensor(3))
        state, loss = course.step(state, *read, zero(step), torch.tensor(1e-2))
        tokens, targets, share = read
        true = torch.nn.functional.cross_entropy(model(tokens).mT, targets, reduction="none") @ share
        optimiser.zero_grad()
        true.mean().backward()
        optimiser.step()
        torch.testing.assert_close(loss[0], true.mean().detach())
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    torch.testing.assert_close(state[0], weights, rtol=1e-4, atol=1e-5)


def test_an_exam_counts_right_letters_and_shows_weights():
    sizes = Sizes(**SMALL)
    course, seed = Course("rope", sizes), zero()
    read = exam_texts(back, sizes, seed, zero(10), torch.tensor(3))
    accuracy, loss, written, heads = course.exam(course.start(seed), *read)
    assert accuracy.shape == (1, 16) and heads.shape == (2, 16, 16) and written.shape == (16,)
    assert accuracy[0].isnan().nonzero().flatten().tolist() == [0, 1, 2, *range(10, 16)]
    torch.testing.assert_close(heads.sum(-1), torch.ones(2, 16))
    assert not heads.triu(1).any() and loss.item() > 1


def test_a_seed_repeats_a_training_and_another_does_not():
    one, again, other = (trained("rope", 5, seed=seed, **SMALL) for seed in (7, 7, 8))
    assert one == again
    assert one != other


def test_a_model_learns_and_a_rate_that_is_too_high_leaves():
    assert trained("shaw", 60)[-1] < 0.1 < trained("nope", 60)[-1]
    losses = trained("rope", 40, rate=1.0)
    assert not all(loss < LIMIT for loss in losses)


def test_the_number_of_a_rule_may_change_while_models_train():
    lesson = Lesson([BACK, "copy the word"], ["shaw"], None, 0, 1e-2, 10, None, "one", "", SMALL, n=2)
    spec = lesson.spec()
    assert spec["numbered"] == [True, False] and spec["starts"]["n"] == 2 and not spec["many"]
    assert next(c for c in spec["controls"] if c["name"] == "n")["max"] == 4  # half the length
    assert "n" not in Lesson("copy the word", ["shaw"], None, 0, 1e-2, 10, None, "one", "", SMALL).spec()["starts"]
    trainer = Trainer(lesson)
    trainer.begin({"task": "task 0", "seed": 0, "schemes": ["shaw"]})
    for n in (2, 4):
        trainer.advance(1e9, 1e-2, n, 2, math.inf)
        tokens, targets, share, *_ = trainer.exam(8, n)
        assert torch.equal(targets[:, n:], tokens[:, :-n]) and share[:n].sum() == 0
    with pytest.raises(ValueError, match="n = 5"):
        trainer.step(1e-2, 5)
    with pytest.raises(ValueError, match="n = 9"):
        Lesson(BACK, ["shaw"], None, 0, 1e-2, 10, None, "one", "", SMALL, n=9)


def test_many_schemes_have_small_maps_of_what_torch_has_trained():
    from posenc._explore.training.page import _recorded, _trained

    schemes = ["nope", "alibi", "shaw", "rope"]
    lesson = Lesson(BACK, schemes, None, 0, 1e-2, 5, None, "one", "", SMALL, read=8)
    assert lesson.spec()["many"]
    trainer, losses = _trained(lesson)
    assert losses.shape == (4, 5)
    kept = _recorded(lesson, trainer)
    maps = torch.frombuffer(bytearray(base64.b64decode(kept["maps"])), dtype=torch.uint8).view(4, 8, 8) / 255
    found = trainer.exam(8)[3:]
    for i in range(4):
        accuracy, _, _, heads = found[4 * i : 4 * i + 4]
        assert (maps[i] - heads[0, :8, :8]).abs().max() < 0.003
        assert kept["shares"][i] == pytest.approx(accuracy[0, 3:8].mean().item(), abs=6e-4)


def several(**more) -> Lesson:
    given = {"watch": WATCHED, **more}
    return Lesson(BACK, SEVERAL, None, 0, 1e-2, 10, None, "one", "", SMALL, **given)


def test_models_are_made_by_keywords_and_have_colours_of_their_own():
    lesson = several()
    spec = lesson.spec()
    assert [scheme["title"] for scheme in spec["schemes"]] == list(SEVERAL)
    colours = [scheme["colour"] for scheme in spec["schemes"]]
    assert colours[0] == SCHEMES["nope"].colour and len(set(colours)) == 4
    assert [lesson.course(name).model.encoding().clip for name in ("k = 2", "k = 3")] == [2, 3]
    trainer = Trainer(lesson)
    trainer.begin({"task": "task 0", "seed": 0, "schemes": list(SEVERAL)})
    _, found = trainer.examined(16)
    future = [scheme[3].triu(1).any().item() for scheme in found]
    assert future == [True, False, False, False]


def test_what_is_watched_are_the_parameters_as_they_are_now():
    lesson = several(show=["maps", "watched"])
    spec = lesson.spec()
    assert [scheme.get("watched", {}).get("kind") for scheme in spec["schemes"]] == [None, "lines", "heatmap", None]
    assert spec["show"] == ["maps", "watched"] and several().spec()["show"][0] == "watched"
    trainer = Trainer(lesson)
    trainer.begin({"task": "task 0", "seed": 0, "schemes": ["k = 2", "k = 3"]})
    before = trainer.exam(16)[3:]
    trainer.step(1e-2)
    x, lengths, *_ = trainer.exam(16)[7:]
    table = trainer.exam(16)[-1]
    for course, state in zip(trainer.courses, trainer.states, strict=True):
        own = course.parameters(state)["encodings.0.key_table"]
        seen = lengths[0] if len(own) == 5 else table
        torch.testing.assert_close(seen, own.norm(dim=-1) if len(own) == 5 else own)
    assert x.tolist() == [-2, -1, 0, 1, 2] and not torch.equal(before[5], lengths)


def test_a_kernel_stops_where_a_loss_has_left_and_goes_back():
    trainer = Trainer(Lesson(BACK, ["rope"], None, 0, 1e-2, 10, None, "one", "", SMALL))
    trainer.begin({"task": "task 0", "seed": 0, "schemes": ["rope"]})
    found = trainer.advance(1e9, 1e-2, 3, 3, math.inf)
    assert found["done"] == 3 and len(found["losses"]) == 3
    trainer.keep()
    good = trainer.states[0]
    assert len(trainer.advance(1e9, 1.0, 3, 50, 0.0)["losses"]) == 1  # no loss is below 0
    trainer.states = [torch.full_like(good, math.nan)]
    assert trainer.advance(1e9, 1.0, 3, 50, LIMIT)["losses"] == [[None]]  # JSON has no NaN
    assert trainer.back() == 3 and trainer.states[0] is good


# What chapters say of their panels


def watched_after(steps: int, scheme: str, task: str, watch) -> tuple[torch.Tensor, ...]:
    """What is watched of a scheme after some steps of the training that a page begins with."""
    course = Course(scheme, Sizes(), watch=watch)
    state, seed = course.start(zero()), zero()
    for step in range(steps):
        read = texts(TASKS[task], course.sizes, seed, zero(step), zero(3))
        state, _ = course.step(state, *read, zero(step), torch.tensor(1e-2))
    return course.watched(state)


@pytest.mark.train
def test_a_table_of_t5_grows_a_peak_where_the_rule_is_and_stays_zero_where_no_pair_was():
    (table,) = watched_after(90, "t5", BACK, lambda t5: (t5.table,))
    assert (table[:19].argmax(0) == 3).all() and (table[3] > 0.3).all() and table[4:18].max() < -0.3
    assert not table[-torch.arange(1, 12)].any()  # buckets that begin at 24 or beyond


@pytest.mark.train
def test_two_rules_pull_the_rate_of_a_distance_apart():
    rates = [
        watched_after(60, "distance_aware", f"write the {which} of a to d", lambda heads: (heads.w,))[0]
        for which in ("latest", "earliest")
    ]
    assert rates[0].max() < -0.04 and rates[1].min() > 0.03


def test_rows_that_no_text_reaches_stay_as_they_were_drawn():
    before, after = (watched_after(steps, "learned", BACK, lambda rows: (rows.table,))[0] for steps in (0, 3))
    assert torch.equal(before[24:], after[24:]) and (before[:24] != after[:24]).any(1).all()


# Graphs


@cache
def graphs_of(scheme: str) -> dict[str, bytes]:
    """The graphs of a small course, made once for the tests that ask for them."""
    from posenc._explore.training.graphs import course_graphs

    return course_graphs(Course(scheme, Sizes(**SMALL)))


@pytest.mark.export
@pytest.mark.parametrize("scheme", ["shaw", "transformer_xl", "distance_aware"])
def test_twenty_steps_by_graphs_are_those_of_torch(scheme):
    """One scheme for each way into attention; of each panel the build itself compares the twenty steps (verify)."""
    pytest.importorskip("onnxruntime")
    import numpy as np

    from posenc._explore.training.graphs import RATE, STEPS, _session, step_graph

    course, seed = Course(scheme, Sizes(**SMALL)), zero(2)
    session = _session(graphs_of(scheme)["step"] if scheme == "shaw" else step_graph(course))
    state = course.start(seed)
    ours = state.numpy()
    for step in range(STEPS):
        read = texts(back, course.sizes, seed, zero(step), torch.tensor(3))
        state, loss = course.step(state, *read, zero(step), torch.tensor(RATE))
        given = {name: x.numpy() for name, x in zip(("tokens", "targets", "share"), read, strict=True)}
        ours, got = session.run(
            None, {"state": ours, **given, "step": np.array(step), "rate": np.array(RATE, np.float32)}
        )
        assert abs(float(got[0]) - loss.item()) < 1e-3
    # Adam divides a gradient by its own size: one that is zero but for rounding moves a weight by the rate, either way.
    assert np.abs(ours - state.numpy()).mean() < 1e-4


@pytest.mark.export
def test_all_parts_of_a_training_are_graphs(monkeypatch):
    pytest.importorskip("onnxruntime")
    from posenc._explore.export import ExportError
    from posenc._explore.training import graphs as made

    sizes = Sizes(**SMALL)
    task, course = made.task_graphs("copy the word", copy, sizes), Course("shaw", sizes)
    run = made.Run(task, graphs_of("shaw"))
    assert made.verify("copy the word", copy, course, run, seed=11) < 1e-3
    other = Course("shaw", sizes)
    monkeypatch.setattr(other, "start", lambda seed: course.start(seed + 1))
    with pytest.raises(ExportError, match=r"learn\(shaw\) on “copy the word”: after 20 steps the graph differs"):
        made.verify("copy the word", copy, other, run)


@pytest.mark.export
@pytest.mark.parametrize("task", ["number the letters", "write the latest of a to d", "write the earliest of a to d"])
def test_texts_by_a_graph_are_those_of_torch(task):
    pytest.importorskip("onnxruntime")
    from posenc._explore.training import graphs as made

    sizes = Sizes(**SMALL)
    session = made._session(made.task_graphs(task, TASKS[task], sizes)["exam"])
    for seed, length in ((3, 16), (5, 9)):
        wanted = exam_texts(TASKS[task], sizes, zero(seed), zero(length), zero(3))
        given = {"seed": zero(seed).numpy(), "length": zero(length).numpy(), "n": zero(3).numpy()}
        found = session.run(None, {i.name: given[i.name] for i in session.get_inputs()})
        for ours, true in zip(found, wanted, strict=True):
            torch.testing.assert_close(torch.from_numpy(ours), true)


@pytest.mark.export
def test_models_by_keywords_are_graphs_and_so_is_what_is_watched(monkeypatch):
    pytest.importorskip("onnxruntime")
    from posenc._explore.export import ExportError
    from posenc._explore.training import graphs as made

    lesson = several()
    task = made.task_graphs(BACK, back, lesson.sizes)
    course = lesson.course("k = 2")
    run = made.Run(task, made.course_graphs(course))
    assert made.verify(BACK, back, course, run, seed=5) < 1e-3
    monkeypatch.setattr(course, "watch", lambda shaw: tuple(WATCHED["k = 2"][1].read(2 * shaw.key_table.norm(dim=-1))))
    with pytest.raises(ExportError, match="the graph differs"):
        made.verify(BACK, back, course, run)


# Panels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(tasks="sort"), "there is no task 'sort'"),
        (dict(tasks=[]), "there is no task: give"),
        (dict(tasks={"mine": 3}), "a title without a rule"),
        (dict(tasks={"mine": lambda x, n: (x, x, torch.arange(3) > 0)}), r"“mine” returns .*return tokens"),
        (dict(tasks={"mine": lambda x, n: (x, x + 20, x[0] >= 0)}), "other targets than integers from 0 to 16"),
        (dict(tasks={"mine": lambda x, n: (x, x, x[0] > 99)}), "counts nothing"),
        (dict(schemes=["rope", "rot"]), "there is no scheme 'rot'"),
        (dict(schemes=[]), "schemes is empty"),
        (dict(schemes=["rope", "rope"]), "names a scheme twice"),
        (dict(on=["alibi"], schemes=["rope"]), "on has 'alibi', which is not in schemes"),
        (dict(schemes={"mine": {"clip": 3}}), "there is no scheme 'mine'"),
        (dict(schemes={"mine": "rot"}), "there is no scheme 'rot'"),
        (dict(schemes={"mine": {"encoding": "rope", "clip": 3}}), "the model 'mine' cannot be made: .*'clip'"),
        (dict(watch={"t5": (len, Lines())}), "watch has 't5', which is not in schemes"),
        (dict(watch={"rope": (lambda rope: rope.table, Lines())}), "watched of 'rope' cannot be seen: .*'table'"),
        (dict(watch={"rope": (lambda rope: rope.freq[0], Heatmap())}), "watched of 'rope' cannot be seen: "),
        (dict(show=["loss"]), "show has 'loss': use watched, losses, accuracy, maps"),
        (dict(show=["maps", "maps"]), "each once"),
        (dict(show=["watched"]), "show and watch do not agree"),
        (dict(width=3), "'width' is no size of a training"),
        (dict(rate=2.0), "rate = 2 is out of range"),
        (dict(seed=1000), "seed = 1000 is out of range"),
        (dict(steps=0), "steps is 0"),
    ],
)
def test_what_cannot_be_trained_is_said_at_once(given, message):
    with pytest.raises(ValueError, match=message):
        learn(**given)


def test_a_live_panel_answers_with_torch():
    panel = learn(BACK, ["shaw", "rope"], **SMALL)
    assert isinstance(panel, Training)
    assert repr(panel) == "learn “repeat the letter n back” with Shaw, RoPE"
    sent = []
    panel.send = lambda message, buffers=None: sent.append((message, buffers))

    def ask(method, *given):
        panel._answer(panel, {"type": "learn", "id": "1", "method": method, "given": given}, [])

    ask("begin", {"task": "task 0", "seed": 3, "schemes": ["shaw", "rope"]})
    ask("advance", 1e9, 1e-2, 3, 2, LIMIT)
    ask("exam", 16, 3)
    ask("exam", 99, 3)
    assert sent[0] == ({"id": "1", "found": None}, None)
    assert sent[1][0]["found"]["losses"] == [list(pair) for pair in zip(
        trained("shaw", 2, 3, **SMALL), trained("rope", 2, 3, **SMALL), strict=True)]  # fmt: skip
    message, buffers = sent[2]
    assert message["shapes"][:5] == [[4, 16], [4, 16], [16], [1, 16], [1]] and len(buffers) == 11
    assert "length = 99 is out of range" in sent[3][0]["error"]


@pytest.mark.export
def test_a_page_has_graphs_a_picture_and_no_markup_of_its_data(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("POSENC_BOOK", "1")
    monkeypatch.setattr(TrainingPage, "_counts", {})
    evil = "</script><img src=x>"
    page = learn({evil: back}, ["nope"], title=evil, caption=evil, steps=2, **SMALL)
    assert isinstance(page, TrainingPage)
    html = page._repr_mimebundle_()["text/html"]
    assert "<img" not in html and html.count("<script") == 1 and html.count('<svg role="img"') == 2
    assert '<figure class="pe-panel pe-learn" id="learn-learning">' in html
    spec = json.loads(re.search(r'class="pe-data">(.*?)</script>', html, re.DOTALL)[1])
    assert sorted(spec["graphs"]) == ["nope exam", "nope start", "nope step", "task 0 exam", "task 0 texts"]
    assert spec["title"] == spec["controls"][0]["labels"][0] == evil
