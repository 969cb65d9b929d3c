# Every command sets up what it needs in .venv. Uses uv if it is there, else venv and pip.
.DEFAULT_GOAL := help
.PHONY: help setup demo paper test test-fast test-wheel check format bench vectors coverage lock clean

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO := .venv/.demo
# Tests run in as many processes as there are cores; BLAS threads on top of that only get in the way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# $(call install,lock file): what the lock file lists, and this tree.
define install
	@if command -v uv >/dev/null 2>&1; then \
		uv venv -q --allow-existing --python $(PYTHON) .venv && \
		uv pip install -q --python $(BIN)/python --require-hashes -r $(1) && \
		uv pip install -q --python $(BIN)/python --no-deps -e . ; \
	else \
		{ test -x $(BIN)/python || $(PYTHON) -m venv .venv; } && \
		$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(1) && \
		$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e . ; \
	fi
endef

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: $(READY)  ## make .venv with all that development needs

$(READY): pyproject.toml requirements.lock
	@echo "setting up .venv for development: once, about a minute"
	$(call install,requirements.lock)
	@touch $(DEMO) $@

$(DEMO): pyproject.toml requirements-demo.lock
	@echo "setting up .venv: once, about half a minute"
	$(call install,requirements-demo.lock)
	@touch $@

demo: $(DEMO)  ## 100,000 people's ages, some of whom decline: truth beside estimate, and a picture
	$(BIN)/bisample demo

paper: $(READY)  ## the paper's experiments in full, and their part of the README
	$(BIN)/bisample paper --readme README.md

test: $(READY)  ## every test
	$(ONE_THREAD) $(BIN)/pytest -n auto

test-fast: $(READY)  ## all but the slow tests: under a minute
	$(ONE_THREAD) $(BIN)/pytest -n auto -m "not slow"

test-wheel: $(READY)  ## the fast tests of an unpacked source distribution, against the wheel that is built from it
	rm -rf build/wheel && mkdir -p build/wheel/installed
	$(BIN)/python -m hatchling build -d build/wheel >/dev/null
	tar -xzf build/wheel/bisample-*.tar.gz -C build/wheel --strip-components=1
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --target build/wheel/installed build/wheel/*.whl
	rm -rf build/wheel/src
	cd build/wheel && PYTHONPATH=installed $(ONE_THREAD) ../../$(BIN)/python -P -m pytest -n auto -m "not slow and not tree" tests

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## measured ratios, as JSON
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/variance.py

coverage: $(READY)  ## how often intervals hold the truth, in full: an hour, and the table in docs/intervals.md
	$(ONE_THREAD) $(BIN)/python tools/make_pages.py coverage

vectors: $(READY)  ## write vectors/ again; look at the difference before you commit it
	$(BIN)/python tools/make_vectors.py

LOCK := pip compile -q pyproject.toml --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-annotate --no-header --no-emit-package bisample

lock:  ## resolve the dependencies again (needs uv)
	uv $(LOCK) --group dev --all-extras -o requirements.lock
	uv $(LOCK) --extra plot -c requirements.lock -o requirements-demo.lock

clean:  ## remove what the commands made
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis bisample-demo* bisample-paper
