"""The census: all causal language models of transformers, audited one after another.

    python -m posenc_evidence.census [NAMES] [--jobs 2]

With `--kind encoder` and `--kind encoder-decoder` those are asked, by the names of their classes. Each kind has a file
of its own.

Each architecture is built tiny, gets random weights, and is asked all questions of the audit. Child processes do it, so
that one that hangs or dies costs its own row. Each row is kept as soon as it is there, and the same command goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from posenc._atomic import atomic
from posenc._version import __version__

OUT = Path("evidence/posenc_evidence")  # in a clone
FILES = {
    "causal": "census.json",
    "encoder": "census_encoders.json",
    "encoder-decoder": "census_encoder_decoders.json",
}
"""Where the rows of each kind are."""
KEPT = Path(__file__).with_name(FILES["causal"])
PARTS = {kind: Path("_build", file).with_suffix(".jsonl") for kind, file in FILES.items()}
"""Where the rows of a run that was stopped are: a file for each kind, so that one kind's run ends no other's."""
SECONDS = 120.0  # for one architecture, with all that a busy machine adds
ONE = 40.0  # for one question, likewise


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    if args.child:
        return child()
    from posenc.audit.adapters.hf.tiny import CannotBuild, encoder_decoders, encoders, model_types, version_note

    others: dict[str, Callable[[], Iterable[str]]] = {"encoder": encoders, "encoder-decoder": encoder_decoders}
    known = list(others.get(args.kind, model_types)())
    unknown = [name for name in args.names if name not in known]
    if unknown:
        kind = "causal language model" if args.kind == "causal" else args.kind
        print(f"census: transformers has no {kind} {', '.join(unknown)}", file=sys.stderr)
        return 2
    for note in version_note():
        print(f"census: {note}", file=sys.stderr)
    names = args.names or known
    part, out = Path(args.part or PARTS[args.kind]), Path(args.out or OUT / FILES[args.kind])
    done = {} if args.fresh else kept(part)
    try:
        rows = run([name for name in names if name not in done], args.jobs, args.seconds, part)
    except KeyboardInterrupt:
        print("\nstopped; nothing is lost: the same command goes on", file=sys.stderr)
        return 130
    except CannotBuild as error:
        print(f"census: {error}", file=sys.stderr)
        return 2
    rows |= {name: row for name, row in done.items() if name in names}
    write(out, [rows[name] for name in sorted(rows)], args.date)
    part.unlink(missing_ok=True)
    print(summary(rows.values()))
    return 0


def parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m posenc_evidence.census", description="Audits all models of transformers of a kind."
    )
    command.add_argument("names", nargs="*", metavar="NAMES", help="model types, or classes (default: all)")
    command.add_argument(
        "--kind",
        choices=("causal", "encoder", "encoder-decoder"),
        default="causal",
        help="what is asked (default: causal)",
    )
    command.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: one a core)"
    )
    command.add_argument("--seconds", type=float, default=SECONDS, help=f"for one architecture (default: {SECONDS:g})")
    command.add_argument("--out", help=f"where results go (default: a file of each kind in {OUT})")
    command.add_argument("--part", help="where rows are kept meanwhile (default: a file of each kind in _build)")
    command.add_argument("--date", default=datetime.date.today().isoformat(), help="of the run (default: today)")
    command.add_argument("--fresh", action="store_true", help="begin anew, whatever a stopped run has kept")
    command.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return command


# ---- one architecture ------------------------------------------------------------------------------------------------


def one(name: str) -> dict[str, Any]:
    """The row of one architecture."""
    from posenc.audit import audit
    from posenc.audit.adapters.hf.tiny import CannotBuild, encoder_decoders, encoders, tiny
    from posenc.audit.config import read_config
    from posenc.audit.knobs import READ, knobs

    begun, cpu = time.monotonic(), time.process_time()
    kinds = {} if name.islower() else {**encoders(), **encoder_decoders()}
    try:
        model_made = tiny(kinds[name], architecture=name) if name in kinds else tiny(name)
    except CannotBuild as error:
        return {"name": name, "not_run": str(error)}
    fields = model_made.model.config.to_dict()
    reading = read_config(fields)
    report = audit(model_made.model, more=True, configuration=reading, seconds=ONE)
    tests = {
        finding.name: [finding.verdict.value, rounded(finding.off), *_words(finding)] for finding in report.findings
    }
    return {
        "name": name,
        "class": type(model_made.model).__name__,
        "parameters": model_made.parameters,
        "dtype": report.facts["dtype"],
        "scheme": reading.scheme,
        "layers": reading.kinds,
        "tests": tests,
        "knobs": {
            each.field: [each.verdict, each.note]
            for each in ([] if name in kinds else knobs(name))  # which need logits
            if each.verdict != READ
        },
        "notes": list(report.notes),
        "seconds": round(time.monotonic() - begun, 2),
        "cpu": round(time.process_time() - cpu, 2),
    }


def _words(finding: Any) -> list[str]:
    """What it means and where to look; nothing for a plain pass."""
    words = [finding.cause, finding.look]
    while words and not words[-1]:
        words.pop()
    return words


def rounded(size: float | None) -> float | None:
    """Two digits: more are the processor's. None for what is not finite.

    Example:
        >>> rounded(0.0123456), rounded(None)
        (0.012, None)
    """
    return None if size is None or size != size else float(f"{size:.2g}")


def child() -> int:
    """Reads names from the input, and writes a row for each as a line of JSON."""
    import torch

    torch.set_num_threads(1)
    out, sys.stdout = sys.stdout, sys.stderr  # a model may print
    for line in sys.stdin:
        name = line.strip()
        try:
            row = one(name)
        except Exception as error:  # the audit itself failed, which the census should say and survive
            row = {"name": name, "not_run": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        out.write(json.dumps(row, ensure_ascii=False) + "\n")
        out.flush()
    return 0


# ---- all of them -----------------------------------------------------------------------------------------------------


def run(names: list[str], jobs: int, seconds: float, part: Path) -> dict[str, dict[str, Any]]:
    """Rows of these architectures, each kept in `part` as soon as it is there."""
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        todo.put(name)
    rows: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()
    part.parent.mkdir(parents=True, exist_ok=True)

    def work() -> None:
        worker = Worker(seconds)
        try:
            while True:
                try:
                    name = todo.get_nowait()
                except queue.Empty:
                    return
                row = worker.row(name)
                with lock:
                    rows[name] = row
                    with part.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({**row, "of": state()}, ensure_ascii=False) + "\n")
                    _progress(row, len(rows), len(names))
        finally:
            worker.stop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(max(1, min(jobs, len(names))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)  # so that an interrupt comes through
    return rows


class Worker:
    """A child process that audits one architecture after another; a new one where it hangs or dies."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.process: subprocess.Popen[str] | None = None

    def row(self, name: str) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            self.stop()
            self.process = self._start()
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        late = threading.Timer(self.seconds, process.kill)
        late.start()
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            in_time = late.is_alive()
            late.cancel()
        if line:
            return dict(json.loads(line))
        why = "its process died" if in_time else f"stopped after {self.seconds:g} s"
        self.stop()
        return {"name": name, "not_run": why}

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(OSError):  # what was still to be written
                self.process.communicate()
            self.process = None

    def _start(self) -> subprocess.Popen[str]:
        surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "posenc_evidence.census", "--child"],
            text=True,
            encoding="utf-8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=surroundings,
        )


def kept(part: Path) -> dict[str, dict[str, Any]]:
    """Rows of a run that was stopped, if it was of the same versions and questions."""
    rows: dict[str, dict[str, Any]] = {}
    if part.is_file():
        for line in part.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # the run was stopped while it wrote
                continue
            if row.pop("of", None) == state() and not row.get("not_run", "").startswith("stopped"):
                rows[row["name"]] = row
    return rows


def versions() -> dict[str, str]:
    """What results depend on."""
    from importlib.metadata import version

    return {"transformers": version("transformers"), "torch": version("torch"), "posenc": __version__}


def state() -> dict[str, Any]:
    """What the rows of one census have in common."""
    from posenc.audit.checks import CHECKS

    return {**versions(), "questions": list(CHECKS)}


def write(path: Path, rows: list[dict[str, Any]], date: str) -> None:
    """The file of the census: versions, date, questions, and a line for each architecture.

    A test is `[verdict, size]`, or `[verdict, size, n]`, where `sentences[n]` is what it means and where to look: a few
    hundred sentences serve thousands of tests.
    """
    from posenc.audit.checks import CHECKS

    sentences: dict[tuple[str, ...], int] = {}
    rows = [
        {**row, "tests": {name: _interned(test, sentences) for name, test in row["tests"].items()}}
        if "tests" in row
        else row
        for row in rows
    ]
    head = {
        "date": date,
        **versions(),
        "questions": {check.name: check.question for check in CHECKS.values() if not check.partner},
        "more": [check.name for check in CHECKS.values() if check.more and not check.partner],
    }
    parts: dict[str, list[Any]] = {"sentences": [list(each) for each in sentences], "rows": rows}
    text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    for name, entries in parts.items():
        text += f',\n "{name}": [\n' + ",\n".join(json.dumps(each, ensure_ascii=False) for each in entries) + "\n]"
    text += "\n}\n"
    json.loads(text)  # what was put together by hand is JSON
    with atomic(path) as new:
        new.write_text(text, encoding="utf-8")


def results(path: str | os.PathLike[str] = KEPT) -> dict[str, Any]:
    """The census that comes with the package, or another one that `write` has written; needs no transformers.

    Args:
        path: The file, or a kind in `FILES`. Default: that of causal language models.

    Returns:
        "date", the versions, "questions" by the name of the test, and "rows". In a row, "tests" has for each test its
        verdict, its size, what it means, and where to look.

    Raises:
        FileNotFoundError: If it was not written yet.

    Example:
        >>> llama = next(row for row in results()["rows"] if row["name"] == "llama")
        >>> llama["tests"]["step"][0]
        'pass'
    """
    path = KEPT.with_name(FILES[str(path)]) if str(path) in FILES else Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: make census, in a clone, writes one of each kind")
    kept: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    sentences = [(*words, "", "")[:2] for words in kept.pop("sentences")]
    for row in kept["rows"]:
        for name, (verdict, off, *n) in row.get("tests", {}).items():
            row["tests"][name] = [verdict, off, *(sentences[n[0]] if n else ("", ""))]
    return kept


def _interned(test: list[Any], sentences: dict[tuple[str, ...], int]) -> list[Any]:
    verdict, off, *words = test
    return [verdict, off, sentences.setdefault(tuple(words), len(sentences))] if words else [verdict, off]


def summary(rows: Iterable[dict[str, Any]]) -> str:
    """How many ran, how many have a test that fails or a field that nobody reads, and how long it took."""
    rows = list(rows)
    ran = [row for row in rows if "tests" in row]
    failing = sorted(row["name"] for row in ran if any(test[0] == "fails" for test in row["tests"].values()))
    unread = sorted(row["name"] for row in ran if any(verdict == "never read" for verdict, _ in row["knobs"].values()))
    cpu = sorted(row["cpu"] for row in ran)
    lines = [f"{len(ran)} of {len(rows)} architectures ran"]
    if ran:
        lines[0] += f", in {sum(cpu):.0f} s of one core, {cpu[len(cpu) // 2]:.2f} s in the median"
        lines += [f"a test fails in {len(failing)}: {', '.join(failing)}"] if failing else ["no test fails"]
        lines += [f"a field is never read in {len(unread)}: {', '.join(unread)}"] if unread else []
    lines += [f"{row['name']} did not run: {row['not_run']}" for row in rows if "not_run" in row]
    return "\n".join(lines)


def _progress(row: dict[str, Any], done: int, of: int) -> None:
    failing = [name for name, test in row.get("tests", {}).items() if test[0] == "fails"]
    outcome = row.get("not_run") or f"{row['seconds']:5.1f} s  {' '.join(failing)}"
    print(f"{done:3d}/{of} {row['name']:28} {outcome}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
