# Two commands do everything:  make quickstart   and   make test
# PYTHON may name another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
READY   = $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help quickstart test quicktest lint tests faults setup clean

# Tests read real data from the folder STTAU_DATA, if it is set or if there is one next to this checkout.
STTAU_DATA ?= $(abspath $(wildcard ../shared/data))
ifneq ($(STTAU_DATA),)
export STTAU_DATA
endif

# The tests start many processes. Bytecode is kept for them, even where the environment says that Python shall write none.
unexport PYTHONDONTWRITEBYTECODE

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

quickstart: $(READY)  ## set up, train, and write quickstart/report.html (about two minutes the first time)
	@$(BIN)/sttau quickstart --out quickstart

# Tests wait for processes and servers, so there are three workers for two cores, and the linters run at the same time.
# What the linters say stands below the tests.
test: $(READY)  ## set up and run everything CI runs: linters, types, import order, tests, doctests
	@log=$$(mktemp); nice $(MAKE) --no-print-directory lint >"$$log" 2>&1 & lint=$$!; \
	$(MAKE) --no-print-directory tests; failed=$$?; \
	wait $$lint || failed=1; cat "$$log"; rm -f "$$log"; exit $$failed

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

tests: $(READY)
	@command -v chromium >/dev/null || echo "NO BROWSER: the page of sttau serve is not tested (apt-get install chromium)"
	@$(BIN)/pytest -n 3 --dist worksteal

quicktest: $(READY)  ## the tests that take less than a minute: no training, no Triton interpreter, no docs pages
	@$(BIN)/pytest -n 2 --dist worksteal -q -m "not slow and not interpreter" tests --ignore=tests/gpu

faults: $(READY)  ## kill trainings, fill disks and damage files at random, and count the outcomes (tests/faults; about 15 minutes)
	@$(BIN)/python -m tests.faults.harness

setup: $(READY)  ## set up the environment only

$(READY): pyproject.toml reproduction/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: install Python 3.10 or newer (3.11 is tested)."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "sttau needs Python 3.10 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "Python's venv module is missing: install it (Debian and Ubuntu: apt install python3-venv)."; rm -rf $(VENV); exit 1; }
	@echo "Installing sttau and its dependencies into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e reproduction || { \
	  echo "Packages could not be installed: is there a network connection to a Python package index? The lines above tell more."; exit 1; }
	@touch $@

clean:  ## remove the environment, caches and the quickstart's output
	rm -rf $(VENV) quickstart .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
