"""Where the evidence lies: results, weights and the text, in the distribution posenc-evidence beside this one."""

from importlib.util import find_spec
from pathlib import Path

FOUND = find_spec("posenc_evidence")

FOLDER = Path(FOUND.origin).parent if FOUND and FOUND.origin else Path("posenc_evidence")
"""The folder of posenc-evidence. Where that is not installed, one of its name here, which a sweep can fill."""


def remedy() -> str:
    """What to do where a part of the evidence is missing, as the end of a sentence."""
    if FOUND:
        return "install posenc-evidence again"
    return (
        "install posenc-evidence, which is in the folder evidence of posenc's repository: "
        "pip install 'git+https://github.com/OWNER/REPOSITORY#subdirectory=evidence'"
    )
