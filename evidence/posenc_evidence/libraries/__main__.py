"""`python -m posenc_evidence.libraries [NAME]`: the findings, or the draft of one report."""

from __future__ import annotations

import sys

from posenc_evidence.libraries import HERE, findings, report


def main(arguments: list[str]) -> int:
    if not arguments:
        for row in findings():
            print(f"{row['name']:24} {row['package']} {row['version']}: {row['title']}")
        print(f"\nTo run one: python {HERE / 'reproductions'}/NAME.py, where torch and that package are installed.")
        return 0
    try:
        print("\n\n---\n\n".join(report(name) for name in arguments), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
