"""Settings for every engine, on the command line: `python -m posenc.configs --help`."""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[:1]  # the present folder, which may be somebody's

import argparse
import json
from pathlib import Path
from typing import Any

from posenc.configs import Settings, extended, published, settings
from posenc.configs.engines.extension import METHODS
from posenc.configs.engines.form import TITLES
from posenc.configs.printable import printable

EXACT, MISSING, CANNOT = 0, 1, 2

ABOUT = """Writes the rotations of a configuration for transformers, vLLM, SGLang, llama.cpp, GGUF, Ollama and MLX.

CONFIG is a folder with a config.json, the file, or the name of a model that `--list` shows, such as Qwen/Qwen3-8B.

  python -m posenc.configs Qwen/Qwen3-8B --extend yarn --factor 4 --trained 32768 --for vllm

The exit status is 0, or 1 if an engine named by --for can't be told all of it, or 2 if nothing can be written."""


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    out = argparse.ArgumentParser(
        prog="python -m posenc.configs", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    out.add_argument("config", nargs="?", metavar="CONFIG", help="a folder, a config.json, or a published model")
    out.add_argument("--for", dest="engines", action="append", choices=list(TITLES), help="one engine; may be repeated")
    out.add_argument("--extend", choices=METHODS, metavar="METHOD", help=f"a longer context by {', '.join(METHODS)}")
    out.add_argument("--factor", type=float, help="how many times longer texts become")
    out.add_argument("--trained", type=int, help="the length of texts in training, in tokens")
    out.add_argument(
        "--set", dest="parameters", action="append", default=[], metavar="NAME=JSON", help="a rope parameter of METHOD"
    )
    out.add_argument("--json", action="store_true", help="all of it as JSON")
    out.add_argument("--list", action="store_true", help="the names of published models")
    return out


def main(arguments: list[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: Default: those of the process.

    Returns:
        The exit status.
    """
    args = parser().parse_args(arguments)
    try:
        if args.list:
            print("\n".join(published()))
            return EXACT
        if args.config is None:
            raise ValueError("say which: a folder with a config.json, the file, or a name that --list shows")
        found = _settings(args)
    except (OSError, ValueError, TypeError) as error:
        print(printable(f"posenc.configs: {error}"), file=sys.stderr)
        return CANNOT
    chosen = args.engines or list(found)
    shown = Settings({name: found[name] for name in chosen})
    print(shown.to_json() if args.json else shown)
    return MISSING if args.engines and not all(form.exact for form in shown.values()) else EXACT


def _settings(args: argparse.Namespace) -> Settings:
    """The settings that are asked for."""
    known = published()
    named = args.config in known and not Path(args.config).exists()
    config: Any = known[args.config]["config"] if named else args.config
    if args.extend is None:
        for name in ("factor", "trained", "parameters"):
            if getattr(args, name):
                raise ValueError(f"--{name.replace('parameters', 'set')} needs --extend METHOD")
        return settings(config)
    return settings(
        extended(config, args.extend, args.factor, trained=args.trained, **dict(map(_parameter, args.parameters)))
    )


def _parameter(text: str) -> tuple[str, Any]:
    """NAME=JSON as a pair."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise ValueError(f"--set {text!r}: write NAME=JSON, such as beta_fast=16") from None


if __name__ == "__main__":
    sys.exit(main())
