"""The lab's command line: `python -m posenc.lab --help`."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from posenc.lab import baselines, corpus, results, weights
from posenc.lab.budgets import PRESETS
from posenc.lab.config import EXPERIMENTS, Run, runs
from posenc.lab.cost import REUSED, Cost, cost, keep, part_of, read_cost, table
from posenc.lab.report import counted, rates, report, tried
from posenc.lab.sweeps import measure, outlook, sweep, train_and_measure
from posenc.lab.training import restored
from posenc.lab.variants import VARIANTS

REPORTS = ("start", "baselines", *EXPERIMENTS, "cost")


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    args = parser().parse_args(arguments, argparse.Namespace(arguments=arguments))
    if getattr(args, "threads", None):
        torch.set_num_threads(args.threads)
    try:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if processes > 1:
            torch.distributed.init_process_group("nccl" if args.device.startswith("cuda") else "gloo")
        return int(args.call(args) or 0)
    except BrokenPipeError:  # as when the output goes to `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"posenc.lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; nothing is lost: the same command goes on", file=sys.stderr)
        return 130
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m posenc.lab", description="Trains and measures positional encodings.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, call: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(call=call)
        sub.add_argument("--preset", choices=PRESETS, default="cpu", help="the budget (default: cpu)")
        return sub

    def one(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--scheme", required=True, metavar="NAME", help=f"one of {', '.join(VARIANTS)}")
        sub.add_argument("--seed", type=int, default=0)

    def shared(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
        sub.add_argument("--threads", type=int, help="of the CPU, for each process")
        sub.add_argument(
            "--corpus",
            metavar="FOLDER",
            help='of text files, or "installed" for all Python packages here (default: Python 3.11\'s library)',
        )
        sub.add_argument("--work", metavar="FOLDER", default="runs", help="for checkpoints and weights (default: runs)")
        sub.add_argument("--out", metavar="FOLDER", default=str(results.FOLDER), help="for results")
        sub.add_argument("--quiet", action="store_true", help="no progress bars")

    one(sub := command("train", _train, "Trains one variant, measures it, and keeps weights and result."))
    shared(sub)
    one(sub := command("evaluate", _evaluate, "Measures weights again that a run has kept, and prints what it finds."))
    shared(sub)
    sub = command("sweep", _sweep, "Runs all of an experiment that has no result yet.")
    sub.add_argument("--experiment", choices=[*EXPERIMENTS, "all"], required=True)
    sub.add_argument("--seeds", type=int, help="how many (default: 3, and as SEEDS in posenc.lab.config says)")
    sub.add_argument("--minutes", type=float, help="begin no new run after so long")
    sub.add_argument("--jobs", type=int, default=1, help="processes that share the runs")
    shared(sub)
    one(sub := command("keep", _keep, "Puts the weights of a run with the book, in half precision."))
    sub.add_argument("--work", metavar="FOLDER", default="runs", help="where its weights lie (default: runs)")
    sub.add_argument("--out", metavar="FOLDER", default=str(weights.FOLDER), help="where they go")
    sub = command("cost", _cost, "Times every scheme in every way of computing it, in turns, on one thread of a CPU.")
    sub.add_argument("--rounds", type=int, default=11, help="turns of everybody, 6 or more (default: 11)")
    sub.add_argument("--minutes", type=float, help="begin no new round after so long; six rounds are kept")
    shared(sub)
    sub = command("baselines", _baselines, "Measures n-grams and compressors on the texts that models are measured on.")
    shared(sub)
    sub = command("tune", _tune, "Keeps the best learning rate of each scheme for the other experiments.")
    sub.add_argument("--out", metavar="FOLDER", default=str(results.FOLDER), help="where results lie")
    sub = command("report", _report, "Prints what has been found, as tables.")
    sub.add_argument("--experiment", choices=[*REPORTS, "all"], default="all", help="one of them (default: all)")
    sub.add_argument("--out", metavar="FOLDER", default=str(results.FOLDER), help="where results lie")
    return top


def _train(args: argparse.Namespace) -> None:
    run = Run(args.scheme, args.seed, args.preset)
    work = Path(args.work) / run.preset
    path = train_and_measure(
        run, corpus.load(args.corpus), out=args.out, work=work, device=args.device, progress=not args.quiet
    )
    if path is not None:
        print(f"{run.name}: {path}")


def _evaluate(args: argparse.Namespace) -> None:
    run = Run(args.scheme, args.seed, args.preset)
    model = restored(run, Path(args.work) / run.preset).to(args.device).eval()
    print(json.dumps(measure(run, model, corpus.load(args.corpus)), indent=1))


def _sweep(args: argparse.Namespace) -> int:
    names = list(EXPERIMENTS) if args.experiment == "all" else [args.experiment]
    todo = list(dict.fromkeys(run for name in names for run in runs(name, args.preset, args.seeds)))
    others = []
    if args.jobs > 1:
        again = [sys.executable, "-m", "posenc.lab", *args.arguments, "--jobs", "1"]
        others = [subprocess.Popen(again) for _ in range(args.jobs - 1)]
    left = sweep(
        todo,
        corpus.load(args.corpus),
        out=args.out,
        work=args.work,
        device=args.device,
        minutes=args.minutes,
        progress=not args.quiet,
        tell=lambda line: print(line, flush=True),
    )
    failed = [process.wait() for process in others]
    left = sum(not results.path_of(run, args.out).exists() for run in todo) if others else left
    print(outlook(todo, args.out) + ("; the same command goes on" if left else ""))
    return max(failed, default=0)


def _keep(args: argparse.Namespace) -> None:
    print(weights.keep(Run(args.scheme, args.seed, args.preset), args.work, args.out))


def _cost(args: argparse.Namespace) -> int:
    if sys.platform == "linux" and not REUSED.items() <= os.environ.items():  # read when a process starts
        return subprocess.run([sys.executable, "-m", "posenc.lab", *args.arguments], env=os.environ | REUSED).returncode
    if not args.threads and not args.device.startswith("cuda"):
        torch.set_num_threads(1)  # so that ratios do not depend on how many cores there are
    result = cost(
        args.preset,
        device=args.device,
        rounds=args.rounds,
        minutes=args.minutes,
        part=part_of(args.preset, args.out),
        progress=not args.quiet,
    )
    if result is None:
        print("fewer than six rounds are complete; the same command goes on")
        return 0
    print(f"{table(Cost(result))}\n{keep(result, args.preset, args.out)}")
    return 0


def _baselines(args: argparse.Namespace) -> None:
    result = baselines.baselines(corpus.load(args.corpus), args.preset, progress=not args.quiet)
    print(f"{counted(result)}\n{baselines.keep(result, args.preset, args.out)}")


def _tune(args: argparse.Namespace) -> None:
    by_variant = results.read("rates", args.preset, args.out)
    print(f"{tried(by_variant)}\n{results.put(Path(args.out) / args.preset / 'tuned.json', rates(by_variant))}")


def _report(args: argparse.Namespace) -> int:
    if args.experiment != "all":
        print(_reported(args.experiment, args))
        return 0
    printed = 0
    for name in REPORTS:
        try:
            print(_reported(name, args), end="\n\n")
            printed += 1
        except ValueError as error:
            print(f"{name}: {error}\n")
    return 0 if printed > 1 else 2  # one that needs no results


def _reported(name: str, args: argparse.Namespace) -> str:
    if name == "cost":
        return table(read_cost(args.preset, args.out)).text()
    return report(name, args.preset, args.out)


if __name__ == "__main__":
    sys.exit(main())
