# The book and its package. `make` lists what there is; README.md has the plain commands for those without make.

PYTHON ?= python3
TORCH_INDEX ?=
HOST ?= binder colab
CONSTRAINTS ?= constraints.txt
PORT ?= 8000
PRESET ?= epoch
JOBS ?= logical

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint $(CONSTRAINTS) \
       $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# Settings, lists of fonts and running kernels are the clone's own: the reader's are left alone, and a home may be
# read-only. (Not abspath: it would stumble over a space.)
export MPLCONFIGDIR := $(CURDIR)/_build/matplotlib
export JUPYTER_RUNTIME_DIR := $(CURDIR)/_build/jupyter_runtime
# Some sixty processes import the package and the tests: what Python compiles is kept, whatever the reader's setting.
unexport PYTHONDONTWRITEBYTECODE
SET := pyproject.toml evidence/pyproject.toml $(CONSTRAINTS) hatch_build.py package-lock.json
# What mutmut changes and runs is at the end of pyproject.toml, grows with each scheme, and installs nothing.
sums = { sed '/^\[tool\.mutmut\]/,$$d' pyproject.toml | cksum; cksum $(filter-out pyproject.toml,$(SET)); }
# $(call install,book) installs an extra, unless what is installed was installed from the same files. So a new date on
# a file, as a change of branches brings, asks for no network.
install = $(sums) 2>/dev/null | cmp -s - $@ || { \
    echo "installing the package and what [$(1)] needs (a few minutes the first time)"; \
    $(PIP) --editable ".[$(1)]" --editable evidence || { \
      echo "pip could not install what [$(1)] needs. It needs a network the first time, and when one of $(SET) changed." >&2; \
      exit 1; }; }; \
  $(sums) > $@
HTML := _build/html/index.html

.DEFAULT_GOAL := help
# Tests run side by side, at most four at a time. A notebook has one thread, so that those of two do not wait.
PYTEST := $(BIN)/python -m pytest --numprocesses=$(JOBS) --maxprocesses=4 --durations=15 --durations-min=1
NBVAL := $(PYTEST) --nbval chapters
ONE := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}
PLAIN := ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE
ROUNDING := 1  # the seed by which gradients are rounded otherwise, as on a processor that nobody here has
ROUNDED = --rounding $(ROUNDING)

.PHONY: help book pdf epub sheet draft built serve test pages quick nbval nbval-plain check alone random lowest environments \
        scheme notebooks checked census mutants evidence evidence-gpu bench tour grips aloud clean \
        front chromium

help:
	@echo "make book       build the book into _build/html"
	@echo "make draft      build it with chapters that fail, each up to its error; ONLY=\"kerple properties\" executes these"
	@echo "make pdf        print the built book into one PDF, beside it; make epub writes it for e-readers, and make sheet"
	@echo "                the exercises as two PDFs, without solutions and with them; ONLY=\"rope alibi\" takes these chapters"
	@echo "make serve      serve the built book on http://localhost:$(PORT)"
	@echo "make test       run the tests: units, some pages of the book in a browser, and what its notebooks computed"
	@echo "make pages      look at every other page in a browser and at panels in JupyterLab; the longest tests (five minutes)"
	@echo "make quick      run the tests of the package that take least (a minute and a half)"
	@echo "make nbval      run the notebooks as a reader does and compare every stored output; make nbval-plain does so"
	@echo "                as on a processor without vector instructions, with two threads"
	@echo "make check      lint, check types (Python and JavaScript), and check who imports whom"
	@echo "make alone      run each file of tests by itself; make random runs them all in random order"
	@echo "make lowest     run the tests of the package with the oldest versions that it promises to work with"
	@echo "make environments  build the environments that Binder and Colab give the notebooks, and run every chapter in them;"
	@echo "                HOST=binder or HOST=colab for one of the two (a quarter of an hour for both),"
	@echo "                and ONLY=\"rope alibi\" for these chapters"
	@echo "make scheme     begin a new scheme: make scheme NAME=kerple (CONTRIBUTING.md says how it goes on)"
	@echo "make notebooks  execute the notebooks from a clean kernel and store them in normal form"
	@echo "make checked    compute the first two tables of the page \"How the package is checked\" anew, and keep them"
	@echo "make census     audit all language models of transformers, and keep what was found (ten minutes)"
	@echo "make mutants    make deliberate mistakes in the schemes, and see whether a test notices (half an hour)"
	@echo "make evidence   train and measure what has no result yet, at low priority; make evidence-gpu does so on a GPU"
	@echo "make bench      time the rotation, the schemes, the audit, the explorers and the models that learn in a page"
	@echo "make tour       go through the panels that learn and read, by mouse and by keyboard, and keep pictures of it in"
	@echo "                _build/tour; make grips drags each grip of the book's panels, and writes a table of what moved;"
	@echo "                make aloud ONLY=\"rope alibi\" writes what a screen reader finds there to _build/aloud"
	@echo "make clean      remove what was built (not .venv)"
	@echo
	@echo "JOBS=1                 how many tests run at a time, at most 4; otherwise one for each core"
	@echo "PYTHON=python3.12      the interpreter that .venv is made with, 3.11 or newer"
	@echo "TORCH_INDEX=https://…  where pip also looks for torch, such as https://download.pytorch.org/whl/cpu"
	@echo "CONSTRAINTS=FILE       the versions that pip may install; /dev/null for the newest of all"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and $(PYTHON) is not: try make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment: on Debian, install python3-venv" >&2; exit 1; }

$(VENV)/.book: $(BIN)/python $(SET)
	@$(call install,book)

$(VENV)/.test: $(VENV)/.book
	@$(call install,test)

front: $(VENV)/.book
	@$(BIN)/python hatch_build.py

book: front
	@$(BIN)/jupyter-book build . -W -n --keep-going || \
	  { echo "The book has faults, listed above." >&2; exit 1; }
	@echo "The book is built. Open $(abspath $(HTML))"
	@echo "or run: make serve"

$(VENV)/.paper: $(VENV)/.book
	@$(call install,paper)

# Forms for paper and e-readers, from the built pages. BOOK_URL says where the pages are whose panels move.
pdf: built $(VENV)/.paper chromium
	@PYTHONPATH=chapters/_ext $(BIN)/python -m press $@ $(if $(ONLY),--only $(ONLY))

sheet: built $(VENV)/.paper chromium
	@PYTHONPATH=chapters/_ext $(BIN)/python -m press $@ $(if $(ONLY),--only $(ONLY))

epub: built
	@PYTHONPATH=chapters/_ext $(BIN)/python -m press $@ $(if $(ONLY),--only $(ONLY))

# A look at what is not finished, in a folder of its own: notebooks may fail, and ONLY those named are executed.
draft: front
	@POSENC_DRAFT="$(or $(ONLY),all)" $(BIN)/jupyter-book build . --path-output _build/draft
	@echo "A draft, in which notebooks may have failed. Open $(abspath _build/draft/$(HTML))"

# The book for the tests, which refuse one that is not of the present files.
built: front
	@$(BIN)/python chapters/_ext/stamp.py || $(MAKE) --no-print-directory book

serve:
	@test -f $(HTML) || { echo "There is no book yet: run make book" >&2; exit 1; }
	@echo "The book is on http://localhost:$(PORT)/ (Ctrl+C stops)"
	@$(BIN)/python -m http.server --directory _build/html --bind localhost $(PORT)

# Browser tests skip, by name, where there is no Chromium.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing Chromium"; \
	  apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || \
	    echo "apt could not install chromium: the browser tests will be skipped" >&2; \
	else \
	  echo "There is no Chromium, so the browser tests will be skipped. To run them, install it" >&2; \
	  echo "(Debian: apt-get install chromium; Fedora: dnf install chromium; macOS: brew install --cask chromium)" >&2; \
	  echo "or run: $(BIN)/playwright install chromium" >&2; \
	fi

# The build has executed every notebook, and a test compares what it computed with what is stored. `make nbval` and
# `make nbval-plain` run them once more, as a reader's kernel and as another processor do.
test: built $(VENV)/.test chromium
	@$(ONE) $(PYTEST) tests -m "not pages"

# Every page that `make test` does not open, and the panels in JupyterLab.
pages: built $(VENV)/.test chromium
	@$(ONE) $(PYTEST) tests -m pages

quick: $(VENV)/.test front
	@$(PYTEST) tests -m "not (browser or export or compile or train or book or models)"

nbval: $(VENV)/.test
	@$(ONE) $(NBVAL)

nbval-plain: $(VENV)/.test
	@$(PLAIN) $(NBVAL) $(ROUNDED)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tests/front/check.py

# Each file of tests in a process of its own: none may lean on what another leaves behind.
alone: built $(VENV)/.test
	@failed=; for file in tests/test_*.py; do \
	  echo "$$file"; $(BIN)/python -m pytest -q "$$file" || failed="$$failed $$file"; \
	done; \
	test -z "$$failed" || { echo "failed alone:$$failed" >&2; exit 1; }

# In random order; SEED=… repeats one, and a run prints its own.
random: built $(VENV)/.test
	@$(PYTEST) -p randomly $(if $(SEED),--randomly-seed=$(SEED)) tests

# The package with the oldest versions that pyproject.toml promises, in an environment apart. What compares the package
# with other libraries, exports, builds the book, looks at its form or at what examples print is for the pinned versions.
PINNED := book build conformance constraints dump dump_page evidence examples explore explore_book explore_hands \
          explore_kernel explore_live explore_views export kept launch learn learn_page make notebook notebooks play \
          play_page press rosetta scheme search steady structure wheel whole
LOWEST := $(filter-out $(PINNED:%=tests/test_%.py),$(wildcard tests/test_*.py))
lowest:
	@$(PYTHON) -m venv _build/lowest
	@_build/lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
	  torch numpy anywidget ipywidgets latex2mathml matplotlib safetensors filelock tqdm pytest hypothesis pyyaml syrupy
	@PYTHONPATH="$(CURDIR):$(CURDIR)/evidence" _build/lowest/bin/python -m pytest -p no:cacheprovider $(LOWEST)

# What Binder and Colab install, in environments apart, and every chapter in them. Colab's installs what is committed here.
environments: $(VENV)/.test
	@$(ONE) TORCH_INDEX="$(TORCH_INDEX)" $(BIN)/python tools/environments.py $(HOST) $(if $(ONLY),--chapters $(ONLY))

scheme: $(VENV)/.test
	@test -n "$(NAME)" || { echo "Name the scheme: make scheme NAME=kerple" >&2; exit 1; }
	@$(BIN)/python tools/scheme.py "$(NAME)" $(if $(TITLE),--title "$(TITLE)") $(if $(PART),--part "$(PART)")

notebooks: $(VENV)/.test
	@$(BIN)/python tools/normalise.py

checked: $(VENV)/.test
	@$(BIN)/python -m pytest -q --keep tests/test_contract.py tests/test_conformance.py

# All language models of transformers, tiny: causal ones, encoders and encoder-decoders; a run that was stopped goes on.
census: $(VENV)/.test
	@jobs=$(JOBS); [ $$jobs != logical ] || jobs=$$($(BIN)/python -c "import os; print(os.cpu_count())"); \
	for kind in causal encoder encoder-decoder; do \
	  $(ONE) $(BIN)/python -m posenc_evidence.census --kind $$kind --jobs $$jobs || exit; done

$(VENV)/.mutants: $(VENV)/.test
	@$(call install,mutants)

mutants: $(VENV)/.mutants front
	@$(BIN)/python tools/mutants.py

# Hours on two cores, beside other work: what has a result is left as it is, and the same command goes on.
LAB := $(BIN)/python -m posenc.lab
TEXTS := extrapolation use controls lengths long equal beyond layers masked shaw distance slow strings
TASKS := generalisation coupling success
evidence: $(VENV)/.test
	@jobs=$(JOBS); [ $$jobs != logical ] || jobs=$$($(BIN)/python -c "import os; print(os.cpu_count())"); \
	export OMP_NUM_THREADS=1; sweep="nice -n 19 $(LAB) sweep --jobs $$jobs --threads 1 --quiet --preset"; \
	test -f evidence/posenc_evidence/results/$(PRESET)/baselines.json || nice -n 19 $(LAB) baselines --preset $(PRESET) --quiet; \
	$$sweep $(PRESET) --experiment rates && $(LAB) tune --preset $(PRESET) && \
	for experiment in $(TEXTS); do $$sweep $(PRESET) --experiment $$experiment || exit; done && \
	for experiment in $(TASKS); do $$sweep $(PRESET:epoch=cpu) --experiment $$experiment || exit; done

# Within forty minutes on one large GPU: times of attention and of models, the best rates, then the schemes one by one.
# Meanwhile, one core counts strings.
evidence-gpu: $(VENV)/.test
	@sweep="$(LAB) sweep --preset gpu --device cuda --corpus installed --quiet --experiment"; \
	$(LAB) cost --preset gpu --device cuda --minutes 8 --quiet; timed=$$?; \
	$(LAB) baselines --preset gpu --corpus installed --quiet & counted=$$!; \
	$$sweep rates --minutes 8 && $(LAB) tune --preset gpu && $$sweep extrapolation --seeds 1 --minutes 18; trained=$$?; \
	wait $$counted && [ $$timed = 0 ] && [ $$trained = 0 ]

bench: $(VENV)/.test front chromium
	@$(BIN)/python tests/bench/rotate.py
	@$(BIN)/python tests/bench/schemes.py
	@$(BIN)/python tests/bench/attention.py
	@$(BIN)/python tests/bench/forms.py
	@$(BIN)/python tests/bench/audit.py
	@$(BIN)/python tests/bench/explore.py
	@$(BIN)/python tests/bench/learn.py
	@test ! -f $(HTML) || $(BIN)/python tests/bench/panels.py

# A reader's way through the built book, without a network.
tour grips: built $(VENV)/.test chromium
	@$(BIN)/python tools/$@.py

aloud: built $(VENV)/.test chromium
	@test -n "$(ONLY)" || { echo 'Name the pages: make aloud ONLY="rope alibi"' >&2; exit 1; }
	@$(BIN)/python tools/aloud.py $(ONLY)

clean:
	rm -rf _build mutants posenc/_explore/static node_modules tests/front/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find chapters evidence posenc tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
