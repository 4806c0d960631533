"""Checks the front end of posenc.explore, types and style, as `make check` does: with pip's Node and tools of npm.

The tools stand in a package.json of their own, so that no build of the book or of the package installs them.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
import hatch_build  # noqa: E402

hatch_build.install(development=True)  # onnxruntime-web has its types with it
hatch_build.install(development=True, folder=HERE)
hatch_build.run("node", "node_modules/typescript/bin/tsc", "--project", "jsconfig.json", folder=HERE)
lint = ["lint", "--error-on-warnings", str(hatch_build.FRONT)]
hatch_build.run("node", "node_modules/@biomejs/biome/bin/biome", *lint, folder=HERE)
print("The front end's types and style are in order.")
