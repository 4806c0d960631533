"""Deliberate mistakes: changes the scheme files one operator, number or name at a time, and asks if a test notices.

`make mutants` goes on where it stopped, and lists at the end which changes survived. `--keep` writes the score to
chapters/checked, for the book. What a compiler or an exporter must see as it is written, and what a browser or a GPU
checks, does not take part: mutmut wraps every function, and a wrapped function cannot be traced.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.table import Table  # noqa: E402

CAPTION = (
    "Deliberate mistakes in the files of the schemes, each a change of one operator, number, name or argument: how "
    "many make a test fail."
)


def outcomes() -> dict[str, Counter[str]]:
    """Of each file or folder, how many mutants were killed (a test failed, crashed or never ended) and how many not."""
    counts: dict[str, Counter[str]] = {}
    for path in sorted((ROOT / "mutants/posenc").rglob("*.py.meta")):
        codes = json.loads(path.read_text())["exit_code_by_key"].values()
        file = path.relative_to(ROOT / "mutants")
        whole = file.parts[1:-1] not in (("schemes",), ("_attention",))  # folders whose files stand for themselves
        name = f"{file.parent.as_posix()}/" if whole else file.as_posix().removesuffix(".meta")
        if codes:
            counts.setdefault(name, Counter()).update(
                "not run" if code is None else "survived" if code in (0, 33) else "killed" for code in codes
            )
    return counts


def table(counts: dict[str, Counter[str]]) -> Table:
    counts = {**counts, "all": sum(counts.values(), Counter())}
    rows = []
    for name, count in counts.items():
        total = count.total()
        cells = [str(total), str(count["killed"]), str(count["survived"]), f"{100 * count['killed'] / total:.0f} %"]
        rows.append([f"`{name}`" if name != "all" else name, *cells])
    return Table(CAPTION, ["file", "mistakes", "noticed", "not noticed", "share"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write chapters/checked/mutants.json")
    parser.add_argument("--no-run", action="store_true", help="only report what is there")
    args = parser.parse_args()
    mutmut = str(Path(sys.executable).parent / "mutmut")
    if not args.no_run:
        subprocess.run([mutmut, "run"], cwd=ROOT, check=True)
    counts = outcomes()
    listed = subprocess.run([mutmut, "results"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    print("\n".join(line.strip() for line in listed.splitlines() if line.endswith(("survived", "no tests"))))
    print("\nmutmut show NAME prints the change")
    result = table(counts)
    print("\n" + result.text())
    waiting = sum(count["not run"] for count in counts.values())
    if waiting:
        raise SystemExit(f"{waiting} mutants were not run: run make mutants again, it goes on")
    if args.keep:
        result.write("mutants")
    if float(result.rows[-1][-1].removesuffix(" %")) < 95:
        raise SystemExit("fewer than 95 % were noticed")


if __name__ == "__main__":
    main()
