"""SKILL.md, followed word for word: its file is written, its commands are run, and what it says they print is there.

The commands run in this process, which has torch: `posenc-audit` by its entry point, `python -c` by its program.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from posenc.audit.__main__ import main
from tests.browser import ROOT

TEXT = (ROOT / "chapters/_ext/press/SKILL.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", TEXT, re.S | re.M)


class Shell:
    """What a shell would do with the few commands of the text."""

    def __init__(self) -> None:
        self.status = 0

    def run(self, command: str) -> str:
        """What a command prints on both streams; its status is kept for `echo $?`."""
        words, out = shlex.split(command), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            if words[0] == "posenc-audit":
                self.status = main(words[1:])
            elif words[:2] == ["python", "-c"]:
                exec(words[2], {"__name__": "__main__"})
                self.status = 0
            else:
                assert command == "echo $?", f"the text has a command that nobody runs: {command}"
                print(self.status)
        return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the file that the text has a reader write, where Python finds it."""
    name, source = re.search(r"Write this as `([\w.]+)`.*?^```python\n(.*?)^```", TEXT, re.S | re.M).groups()
    (tmp_path / name).write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    return tmp_path


def test_its_commands_print_what_it_says(folder: Path) -> None:
    shell, asked = Shell(), 0
    for block in BLOCKS:  # in their order: one reads what an earlier one wrote
        command = printed = ""
        for line in block.splitlines():
            if line.startswith("$ "):
                command = line[2:]
                printed = shell.run(command)
            elif command == "echo $?":
                assert printed.strip() == line, f"after {block}"
                asked += 1
            else:
                assert line in re.sub(r"\s+", " ", printed), f"{command}\n{printed}"
                asked += 1
    assert asked > 12


def test_it_has_a_name_and_says_when_to_use_it() -> None:
    head = re.match(r"---\nname: ([a-z0-9-]{1,64})\ndescription: (.{1,1024})\n---\n", TEXT)
    assert head and "Use it when" in head[2]
