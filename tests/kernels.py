"""Kernels for nbval that are forked from a process that has imported torch.

A new kernel spends up to four seconds on imports, and nearly thirty notebooks each want one. So every pytest process
starts one Python process that imports torch with its compiler, matplotlib and ipykernel, executes nothing, and forks
whenever a kernel is asked for. The kernel has its own process group, environment and folder, like one that is started
anew. `make book` and `make notebooks` start their kernels anew.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, NoReturn
from unittest.mock import patch

LAUNCHER = ["-m", "ipykernel_launcher"]
#: What is imported before a fork. Not ipywidgets, which looks at its import whether it is in a kernel.
LIBRARIES = ("torch", "torch._dynamo", "torch._inductor.compile_fx", "matplotlib.figure", "ipykernel.kernelapp")


class Kernel:
    """What jupyter_client asks of a process that it has started."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None as long as it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.02)
        return 0

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forge:
    """Makes kernels. Its process begins with the first kernel, and ends when its input is closed."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def launch(self, command: list[str], **options: Any) -> Any:
        """In place of `jupyter_client.launcher.launch_kernel`."""
        from jupyter_client.launcher import launch_kernel

        if command[1:3] != LAUNCHER:
            return launch_kernel(command, **options)
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        wanted = {"arguments": command[2:], "environment": options["env"], "folder": options.get("cwd") or os.getcwd()}
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        return Kernel(int(self.process.stdout.readline()))

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()  # closes its input


def fork_kernels(config: Any) -> None:
    """Let nbval's kernels be forked, where a process that has imported torch can be forked safely."""
    import torch

    if sys.platform != "linux" or torch.cuda.is_available():  # a fork cannot use the GPU after its parent has
        return
    import nbval.kernel
    from jupyter_client.provisioning import local_provisioner

    forge, start = Forge(), nbval.kernel.start_new_kernel

    def start_new_kernel(*arguments: Any, **options: Any) -> Any:
        with patch.object(local_provisioner, "launch_kernel", forge.launch):  # other kernels start as ever
            return start(*arguments, **options)

    nbval.kernel.start_new_kernel = start_new_kernel
    config.add_cleanup(forge.close)


def serve() -> None:
    """Fork a kernel for each line of the input, and say its process id."""
    for library in LIBRARIES:
        importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kernels that end are forgotten
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            become(**json.loads(line))
        os.setpgid(pid, pid)  # whoever interrupts the kernel interrupts nobody else
        print(pid, flush=True)


def become(arguments: list[str], environment: dict[str, str], folder: str) -> NoReturn:
    """Run a kernel in this process."""
    import matplotlib as mpl
    from ipykernel.kernelapp import launch_new_instance

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.environ.clear()
    os.environ.update(environment)
    # A new kernel has this variable before matplotlib is imported.
    mpl.rcParams["backend"] = environment.get("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    os.chdir(folder)
    sys.argv = [*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]  # it ends when this is no more
    sys.path.pop(0)  # the folder of this file
    try:
        launch_new_instance()
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve()
