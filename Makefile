# Every command sets up what it needs in .venv. Uses uv if it is there, else venv and pip.
.DEFAULT_GOAL := help
.PHONY: help setup demo paper test test-fast check format bench vectors lock clean

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests run in as many processes as there are cores; BLAS threads on top of that only get in the way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: $(READY)  ## make .venv with all that development needs

$(READY): pyproject.toml requirements.lock
	@echo "setting up .venv: once, about a minute"
	@if command -v uv >/dev/null 2>&1; then \
		uv venv -q --allow-existing --python $(PYTHON) .venv && \
		uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock && \
		uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
		$(PYTHON) -m venv .venv && \
		$(BIN)/python -m pip install -q --require-hashes -r requirements.lock && \
		$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

paper: $(READY)  ## the paper's experiments in full, and their part of the README
	$(BIN)/bisample paper --readme README.md

demo: $(READY)  ## 100,000 people's ages, some of whom decline: truth beside estimate, and a picture
	$(BIN)/bisample demo

test: $(READY)  ## every test
	$(ONE_THREAD) $(BIN)/pytest -n auto

test-fast: $(READY)  ## all but the slow tests: under a minute
	$(ONE_THREAD) $(BIN)/pytest -n auto -m "not slow"

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

vectors: $(READY)  ## write vectors/ again; look at the difference before you commit it
	$(BIN)/python tools/make_vectors.py

lock:  ## resolve the development dependencies again (needs uv)
	uv pip compile -q pyproject.toml --group dev --all-extras --universal --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-annotate --no-header --no-emit-package bisample -o requirements.lock

clean:  ## remove what the commands made
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis bisample-demo* bisample-paper
