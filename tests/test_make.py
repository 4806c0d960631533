"""What a clone says where something is missing, in one line each; and that the workflows ask for what there is.

Each test runs the Makefile in a folder with a space in its name, with stubs in place of Python and pip.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
MAKE = shutil.which("make")
SET = ("pyproject.toml", "evidence/pyproject.toml", "constraints.txt", "hatch_build.py", "package-lock.json")
pytestmark = pytest.mark.skipif(MAKE is None, reason="no make")

#: An interpreter that is older than it says.
OLD = (
    f'#!/bin/sh\n[ "$1" = -c ] && exec "{sys.executable}" -c "import sys; sys.version_info = (3, 10, 13); $2"\nexit 9\n'
)
#: An interpreter that notes its calls, and whose pip has no network.
OFFLINE = '#!/bin/sh\necho "$*" >> calls\ncase "$*" in *"pip install"*) exit 1;; esac\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What make itself needs, in a path with a space."""
    home = tmp_path / "a b"
    home.mkdir()
    for name in ("Makefile", *SET):
        (home / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, home / name)
    return home


def stub(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def make(clone: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    assert MAKE is not None
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [MAKE, *arguments], cwd=clone, env={**plain, "PATH": path}, capture_output=True, text=True, timeout=60
    )


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of stderr without make's own."""
    return [line for line in done.stderr.splitlines() if not re.match(r"make(\[\d+\])?: ", line)]


def installed(clone: Path) -> None:
    """As after the first `make book`."""
    stub(clone / ".venv/bin/python", OFFLINE)
    command = """sed '/^\\[tool\\.mutmut\\]/,$d' pyproject.toml | cksum; cksum "$@" """
    sums = subprocess.run(["sh", "-c", command, "sh", *SET[1:]], cwd=clone, capture_output=True, check=True).stdout
    (clone / ".venv/.book").write_bytes(sums)


def test_an_old_python_is_refused(clone: Path) -> None:
    done = make(clone, "front", f"PYTHON={stub(clone.parent / 'python', OLD)}")
    assert done.returncode
    (line,) = said(done)
    assert "3.11 or newer" in line
    assert "PYTHON=" in line
    assert not (clone / ".venv").exists()


def test_the_second_run_asks_for_no_network(clone: Path) -> None:
    installed(clone)
    for name in SET:
        os.utime(clone / name)  # as after a change of branches: newer, and the same
    done = make(clone, "front")
    assert done.returncode == 0, done.stderr
    assert (clone / "calls").read_text().split() == ["hatch_build.py"]


def test_a_new_scheme_s_line_for_mutmut_asks_for_no_network(clone: Path) -> None:
    installed(clone)
    project = clone / "pyproject.toml"
    text = project.read_text()
    project.write_text(
        text.replace('  "posenc/schemes/grid/*.py"', '  "posenc/schemes/example.py",\n  "posenc/schemes/grid/*.py"')
    )
    assert project.read_text() != text
    os.utime(clone / ".venv/.book", (0, 0))
    done = make(clone, "front")
    assert done.returncode == 0, done.stderr
    assert (clone / "calls").read_text().split() == ["hatch_build.py"]


def test_a_changed_requirement_without_a_network_says_so(clone: Path) -> None:
    installed(clone)
    project = clone / "pyproject.toml"
    project.write_text(project.read_text().replace('"torch>=2.9"', '"torch>=2.9.1"'))
    os.utime(clone / ".venv/.book", (0, 0))
    for _ in range(2):  # the second try must not take the first for a success
        done = make(clone, "front")
        assert done.returncode
        (line,) = said(done)
        assert "network" in line
        assert "hatch_build.py" not in (clone / "calls").read_text()


def test_no_chromium_is_no_failure_and_says_how_to_get_it(clone: Path) -> None:
    tools = clone.parent / "bin"
    tools.mkdir()
    stub(tools / "id", "#!/bin/sh\necho 1000\n")
    (tools / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    done = make(clone, "chromium", path=str(tools))
    assert done.returncode == 0, done.stderr
    assert "playwright install chromium" in done.stderr


def test_serve_without_a_book_says_how_to_build_it(clone: Path) -> None:
    done = make(clone, "serve")
    assert done.returncode
    (line,) = said(done)
    assert "make book" in line


def test_a_scheme_needs_a_name(clone: Path) -> None:
    installed(clone)
    shutil.copy(clone / ".venv/.book", clone / ".venv/.test")
    done = make(clone, "scheme")
    assert done.returncode
    (line,) = said(done)
    assert "NAME=" in line


@pytest.mark.parametrize("broken", ["", "cost", "rates", "baselines"])
def test_evidence_of_a_gpu_goes_on_where_one_part_fails_and_says_so(clone: Path, broken: str) -> None:
    installed(clone)
    shutil.copy(clone / ".venv/.book", clone / ".venv/.test")
    stub(clone / "lab", f'#!/bin/sh\necho "$*" >> calls\ncase "$*" in *"{broken or "nothing"}"*) exit 1;; esac\n')
    done = make(clone, "evidence-gpu", "LAB=./lab")
    assert bool(done.returncode) == bool(broken)
    calls = (clone / "calls").read_text()
    for part in ("cost", "rates", "baselines"):
        assert part in calls
    assert ("extrapolation" in calls) == (broken != "rates")  # it would have no learning rates


def test_settings_of_kernels_and_fonts_are_the_clone_s_own(clone: Path) -> None:
    with (clone / "Makefile").open("a") as file:
        file.write('\nshow:\n\t@echo "$$MPLCONFIGDIR|$$JUPYTER_RUNTIME_DIR"\n')
    shown = make(clone, "show").stdout.strip().split("|")
    assert all(Path(folder).parent == clone / "_build" for folder in shown)


def test_each_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text()
    text = text.replace("\\\n", " ")
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", text, re.M)).split()) - {"help", "front", "built", "chromium"}
    explained = set(re.findall(r"\bmake ([a-z-]+)", " ".join(re.findall(r'^\t@echo "(.*)"$', text, re.M))))
    assert phony <= explained


def test_workflows_run_targets_that_exist_and_publishing_waits_for_the_tests() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", text, re.M))
    flows = {}
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        flows[path.stem] = flow = yaml.safe_load(path.read_text())
        for job in flow["jobs"].values():
            wanted = set(job.get("strategy", {}).get("matrix", {}).get("target", []))
            for step in job["steps"]:
                assert ("uses" in step) != ("run" in step)
                wanted |= set(re.findall(r"\bmake ([a-z]+)", step.get("run", "")))
            assert wanted <= targets
            assert job["timeout-minutes"] <= 60
    started = flows["publish"][True]["workflow_run"]  # YAML takes the word "on" for true
    assert started["workflows"] == [flows["test"]["name"]]
    assert "conclusion == 'success'" in flows["publish"]["jobs"]["build"]["if"]
    assert flows["publish"]["jobs"]["deploy"]["needs"] == flows["publish"]["jobs"]["live"]["needs"] == "build"
    (book,) = [step for step in flows["publish"]["jobs"]["build"]["steps"] if step.get("run") == "make book"]
    assert book["env"]["LIVE_BRANCH"] == "live" and "live" not in flows["test"][True]["push"]["branches"]
    versions = flows["test"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]


def test_the_container_is_made_with_what_make_knows() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z]+)", container["postCreateCommand"])) == {"book", "chromium"} <= targets
    assert container["image"].rpartition(":")[2] == (ROOT / ".binder/runtime.txt").read_text().strip().partition("-")[2]


#: Whose commit nobody could look up.
TAGGED = {"actions/configure-pages@v6"}


def test_actions_are_named_by_their_commits_and_rights_are_those_of_the_job() -> None:
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        flow = yaml.safe_load(path.read_text())
        assert set(flow["permissions"].items()) == {("contents", "read")}, path
        for name, job in flow["jobs"].items():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert all(re.search(r"@[0-9a-f]{40}$", each) for each in used if each not in TAGGED), (path, name)
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False, (path, name)
            writes = {right for right, kind in job.get("permissions", {}).items() if kind == "write"}
            if writes:  # such a job runs nothing of ours, of pip's or of npm's
                commands = [line.split() for step in job["steps"] for line in step.get("run", "").splitlines()]
                assert {words[0] for words in commands} <= {"git", "gh"}, (path, name)
                if "contents" in writes:  # and it may write a branch that nothing is built from, or add to a release
                    pushed = [words[-1] for words in commands if "push" in words]
                    added = [words[:3] == ["gh", "release", "upload"] for words in commands if "release" in words]
                    assert pushed == ["HEAD:refs/heads/live"] or (not pushed and all(added) and added), (path, name)
