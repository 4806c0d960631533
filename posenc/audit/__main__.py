"""The audit's command line: `posenc-audit --help`, or `python -m posenc.audit --help`.

torch is imported where a model is asked, so that `--config` reads a file without it.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[:1]  # the present folder, which may be somebody's: a file transformers.py in it is no transformers

import argparse
import contextlib
import importlib
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posenc.audit.errors import error_line, first_line
from posenc.configs import read_config
from posenc.configs.printable import printable

PASSED, FAILED, CANNOT = 0, 1, 2

ABOUT = """Asks a model the questions that find positional bugs, and says what fails, why, and where to look.

WHAT is one of
  a folder with a config.json: a tiny model of the class that it names first in architectures, with the same
  mechanisms and random weights, is built by transformers; --weights takes the weights of the folder (safetensors).
  Nothing in the folder is executed. Of an encoder-decoder both halves are asked.
  MODULE:OBJECT, such as my.package:model: a torch module, a function of tokens (B, L), a posenc.audit.Adapter,
  or a class or function without arguments that makes one. It is imported, so its code runs.

Do not call `python -m` inside a folder from elsewhere: Python itself looks for modules there first. posenc-audit does
not, and neither does `python -P -m`.

The exit status is 0 if nothing fails, 1 if something does, 2 if the audit cannot run or no test applies. With
--baseline it is 0 if nothing fails that the file does not name. What was not asked, timed out or could hardly be seen
stands in the first line of the report."""


class Cannot(Exception):
    """The audit cannot run; the message says why, in a line."""


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        if args.list:
            return _list()
        if args.compare:
            return _compare(args)
        if args.what is None:
            raise Cannot("say what to audit: a folder with a config.json, or MODULE:OBJECT")
        if args.config:
            return _config(args)
        if args.knobs:
            return _knobs(args)
        return _audit(args)
    except BrokenPipeError:  # as when the output goes to `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PASSED
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except BaseException as error:  # status 1 would say that a test fails
        print(printable(f"posenc.audit: {_line(error)}"), file=sys.stderr)
        return CANNOT


def _line(error: BaseException) -> str:
    """An error in one line, with its class unless the sentence is posenc's own."""
    own = type(error) is ValueError or type(error).__module__.split(".")[0] in ("posenc", "__main__")
    return first_line(error, 400) if own and str(error) else error_line(error, 400)


def parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="posenc-audit", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("what", metavar="WHAT", nargs="?", help="a folder, or MODULE:OBJECT")
    command.add_argument(
        "--compare", nargs=2, metavar=("REFERENCE", "CANDIDATE"),
        help="name what differs between two: MODULE:OBJECT, a folder with weights, or a dump (.npz, .safetensors)",
    )  # fmt: skip
    command.add_argument("--only", metavar="TESTS", help="names of tests, with commas between them")
    command.add_argument(
        "--causal", choices=("auto", "yes", "no"), default="auto",
        help="yes for a decoder, no for an encoder (default: what the configuration or the model says)",
    )  # fmt: skip
    command.add_argument("--more", action="store_true", help="tests that take longer or are rarely needed, too")
    command.add_argument("--weights", action="store_true", help="keep the weights as they are; draw none")
    command.add_argument(
        "--json", metavar="FILE", help="write all findings as JSON; - is the terminal, without the table"
    )
    command.add_argument("--html", metavar="FILE", help="write a page that needs nothing else, for a bug report")
    command.add_argument("--baseline", metavar="FILE", help="known failures pass, new ones fail, fixed ones are named")
    command.add_argument("--write-baseline", metavar="FILE", help="write what fails today as known failures")
    command.add_argument("--vocabulary", type=int, help="how many tokens there are (default: what the model tells)")
    command.add_argument(
        "--grid", metavar="ROWSxCOLUMNS",
        help="of a model that takes images, its patches, such as 4x6; of a language model, the image before texts",
    )  # fmt: skip
    command.add_argument("--config", action="store_true", help="only read the folder's config.json; needs no torch")
    command.add_argument("--knobs", action="store_true", help="look for fields of the config.json that are never read")
    command.add_argument("--tokens", type=int, default=24, help="length of the text (default: 24)")
    command.add_argument("--seed", type=int, default=0, help="of texts and weights (default: 0)")
    command.add_argument("--seconds", type=float, default=8.0, help="that one test may take (default: 8)")
    command.add_argument("--list", action="store_true", help="list the tests")
    command.add_argument("--quiet", action="store_true", help="no progress")
    return command


def _list() -> int:
    from posenc.audit.checks import CHECKS
    from posenc.audit.images import behind, told
    from posenc.audit.images.asked import QUESTIONS

    for check in CHECKS.values():
        if not check.partner:
            print(f"{check.name:17} {check.question}{' (more)' if check.more else ''}")
    for name, question in {**QUESTIONS, behind.NAME: behind.QUESTION, told.NAME: told.QUESTION}.items():
        print(f"{name:17} {question} (--grid)")
    return PASSED


def _audit(args: argparse.Namespace) -> int:
    from posenc.audit.baseline import changes, read_baseline
    from posenc.audit.report import Report
    from posenc.audit.run import audit

    only = None if args.only is None else [name.strip() for name in args.only.split(",") if name.strip()]
    options: dict[str, Any] = {"tokens": args.tokens, "seed": args.seed, "seconds": args.seconds, "only": only}
    options["causal"] = {"auto": None, "yes": True, "no": False}[args.causal]
    if args.weights:
        options["randomise"] = False
    if args.vocabulary is not None:
        options["vocabulary"] = args.vocabulary
    if args.grid is not None:
        options["grid"] = _grid(args.grid)
    known = read_baseline(args.baseline) if args.baseline else None  # before anything runs
    with contextlib.redirect_stdout(sys.stderr if args.json == "-" else sys.stdout):  # what is imported may print
        model, notes = _model(args)
    report = audit(model, more=args.more, progress=None if args.quiet else _progress(), **options)
    report = Report(report.findings, report.facts, (*notes, *report.notes))
    if args.html:
        report.to_html(args.html)
    if args.json == "-":
        print(report.to_json(), end="")
    else:
        if args.json:
            report.to_json(args.json)
        print(report.text(min(140, max(80, os.get_terminal_size().columns)) if sys.stdout.isatty() else 118))
    if not report.tried:
        raise Cannot("no test that was asked for applies to this model, so nothing was tried")
    if args.write_baseline:
        report.to_baseline(args.write_baseline)
    if known is not None:
        found = changes(report, known)
        print(f"beside {args.baseline}: {found}", file=sys.stderr if args.json == "-" else sys.stdout)
        return PASSED if found.passed else FAILED
    return PASSED if report.passed else FAILED


def _grid(said: str) -> tuple[int, ...]:
    """The numbers of 4x6, or of 8x4x6 for a video."""
    try:
        return tuple(int(each) for each in said.lower().replace("×", "x").split("x"))
    except ValueError:
        raise Cannot(f"--grid is {said!r}: write rows and columns of patches, such as 4x6") from None


def _compare(args: argparse.Namespace) -> int:
    """What differs between two implementations: status 0 if nothing does, 1 if something does."""
    from posenc.audit.comparison.asked import compare

    with contextlib.redirect_stdout(sys.stderr if args.json == "-" else sys.stdout):  # what is imported may print
        sides = [_side(what) for what in args.compare]
    default = args.tokens == parser().get_default("tokens")
    found = compare(*sides, seed=args.seed, **({} if default else {"tokens": args.tokens}))
    if args.html:
        found.to_html(args.html)
    if args.json == "-":
        print(found.to_json(), end="")
        return PASSED if found.same else FAILED
    if args.json:
        found.to_json(args.json)
    print(found)
    return PASSED if found.same else FAILED


def _side(what: str) -> Any:
    """One side of a comparison: a dump, the model of a folder, or what is imported."""
    path = Path(what)
    if path.suffix in (".npz", ".safetensors") or path.is_file():
        return path
    return _transformers("tiny").load(path) if path.exists() else imported(what)


def _model(args: argparse.Namespace) -> tuple[Any, tuple[str, ...]]:
    """The model that is named, and notes about how it was made."""
    path = Path(args.what)
    if not path.exists():
        return imported(args.what), ()
    builder = _transformers("tiny")
    notes: tuple[str, ...] = ()
    if args.weights:
        model = builder.load(path)
    else:
        small = builder.tiny(path)
        model, notes = small.model, small.notes
    return model, tuple(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes)


def imported(what: str) -> Any:
    """The object of MODULE:OBJECT, called if it is a class or a function that needs no arguments.

    Raises:
        Cannot: If there is none, or it raises.
    """
    module_name, colon, name = what.partition(":")
    if not colon or not module_name or not name:
        raise Cannot(f"there is no folder {what!r}; an object to import is written MODULE:OBJECT")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        value: Any = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what is imported may raise anything
        raise Cannot(f"{module_name} cannot be imported: {_raised(error)}") from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise Cannot(f"{module_name} has no {name!r}")
        value = getattr(value, part)
    return _made(what, value)


def _made(what: str, value: Any) -> Any:
    """An object as it is; what a class or a function makes that needs no arguments."""
    from torch import nn

    from posenc.audit.adapters.called import required

    if isinstance(value, nn.Module) or not callable(value):
        return value
    if wanted := required(value):
        if inspect.isclass(value):
            raise Cannot(
                f"{what} is a class that needs {', '.join(wanted)}: name an object of it, or a function that makes one"
            )
        return value
    try:
        return value()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Cannot(f"{what}() raises {_raised(error)}") from error


def _raised(error: BaseException) -> str:
    """What code that was imported raised, and what to do where it ends the program."""
    ends = ": put what runs and ends under if __name__ == '__main__'" if isinstance(error, SystemExit) else ""
    return error_line(error) + ends


def _config(args: argparse.Namespace) -> int:
    reading = read_config(Path(args.what))
    if args.json == "-":
        print(json.dumps(reading.to_dict(), indent=1, ensure_ascii=False))
        return PASSED
    if args.json:
        Path(args.json).write_text(json.dumps(reading.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(reading)
    return PASSED


def _knobs(args: argparse.Namespace) -> int:
    return int(_transformers("knobs").main_report(Path(args.what)))


def _transformers(part: str) -> Any:
    """A module of `posenc.audit.adapters.hf`; raises Cannot where transformers is not installed."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")  # its advice on kernels is for those who use the model
    try:
        importlib.import_module("transformers")
    except ImportError as error:
        raise Cannot("a folder takes transformers, which is not installed: pip install transformers") from error
    return importlib.import_module(f"posenc.audit.adapters.hf.{part}")


def _progress() -> Callable[[str, int, int], None] | None:
    """Writes the present test into one line of a terminal; none where errors go to a file."""
    if not sys.stderr.isatty():
        return None

    def show(name: str, n: int, of: int) -> None:
        end = "\r\x1b[K" if n + 1 == of else ""
        sys.stderr.write(f"\r\x1b[K{n + 1}/{of} {name}{end}")
        sys.stderr.flush()

    return show


if __name__ == "__main__":
    sys.exit(main())
