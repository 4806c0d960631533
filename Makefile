# The book and its package. `make` lists what there is; README.md has the plain commands for those without make.

PYTHON ?= python3
TORCH_INDEX ?=
PORT ?= 8000

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt \
       $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# matplotlib's settings and its list of fonts are the clone's own, whatever the reader has
export MPLCONFIGDIR := $(abspath _build/matplotlib)
SET := pyproject.toml constraints.txt hatch_build.py package-lock.json
HTML := _build/html/index.html

.DEFAULT_GOAL := help
.PHONY: help book serve test check notebooks checked mutants bench clean front chromium

help:
	@echo "make book       build the book into _build/html"
	@echo "make serve      serve the built book on http://localhost:$(PORT)"
	@echo "make test       run every test: units, notebooks, the book in a browser"
	@echo "make check      lint and check types"
	@echo "make notebooks  execute the notebooks from a clean kernel and store them in normal form"
	@echo "make checked    compute the first two tables of the page \"How the package is checked\" anew, and keep them"
	@echo "make mutants    make deliberate mistakes in the schemes, and see whether a test notices (half an hour)"
	@echo "make bench      time the rotation, the schemes and the explorers against other ways"
	@echo "make clean      remove what was built (not .venv)"
	@echo
	@echo "PYTHON=python3.12      the interpreter that .venv is made with, 3.11 or newer"
	@echo "TORCH_INDEX=https://…  where pip also looks for torch, such as https://download.pytorch.org/whl/cpu"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and $(PYTHON) is not: try make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment: on Debian, install python3-venv" >&2; exit 1; }

$(VENV)/.book: $(BIN)/python $(SET)
	@echo "installing the package and what builds the book (a few minutes the first time)"
	@$(PIP) --editable ".[book]"
	@touch $@

$(VENV)/.test: $(VENV)/.book
	@echo "installing what the tests need"
	@$(PIP) --editable ".[test]"
	@touch $@

front: $(VENV)/.book
	@$(BIN)/python hatch_build.py

book: front
	@$(BIN)/jupyter-book build . -W -n --keep-going || \
	  { rm -rf _build/.doctrees; echo "The book has faults, listed above. (make clean, if they are those of an earlier run.)" >&2; exit 1; }
	@echo "The book is built. Open $(abspath $(HTML))"
	@echo "or run: make serve"

serve:
	@test -f $(HTML) || { echo "There is no book yet: run make book" >&2; exit 1; }
	@echo "The book is on http://localhost:$(PORT)/ (Ctrl+C stops)"
	@$(BIN)/python -m http.server --directory _build/html --bind localhost $(PORT)

# Browser tests skip, by name, where there is no Chromium.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing Chromium"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null || \
	    echo "apt could not install chromium: the browser tests will be skipped" >&2; \
	else \
	  echo "There is no Chromium, so the browser tests will be skipped. To run them, install it" >&2; \
	  echo "(Debian: apt-get install chromium; Fedora: dnf install chromium; macOS: brew install --cask chromium)" >&2; \
	  echo "or run: $(BIN)/playwright install chromium" >&2; \
	fi

test: book $(VENV)/.test chromium
	@units=passed; notebooks=passed; \
	$(BIN)/python -m pytest tests || units=FAILED; \
	$(BIN)/python -m pytest --nbval chapters || notebooks=FAILED; \
	echo; \
	echo "tests of the package, the notebooks' form and the book: $$units"; \
	echo "notebooks, every stored output compared (nbval):        $$notebooks"; \
	[ $$units = passed ] && [ $$notebooks = passed ]

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(VENV)/.test
	@$(BIN)/python tests/normalise.py

checked: $(VENV)/.test
	@$(BIN)/python -m pytest -q --keep tests/test_contract.py tests/test_conformance.py

$(VENV)/.mutants: $(VENV)/.test
	@$(PIP) --editable ".[mutants]"
	@touch $@

mutants: $(VENV)/.mutants front
	@$(BIN)/python tests/mutants.py

bench: $(VENV)/.test front chromium
	@$(BIN)/python tests/bench/rotate.py
	@$(BIN)/python tests/bench/schemes.py
	@$(BIN)/python tests/bench/explore.py

clean:
	rm -rf _build mutants posenc/_explore/static node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find chapters posenc tests -name __pycache__ -type d -prune -exec rm -rf {} +
