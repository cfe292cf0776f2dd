# Every target sets up what it needs. PYTHON chooses the interpreter; a CUDA torch that it already has is used.
VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin
NEW_ENOUGH = -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
find_python = $(shell for p in $(1); do if $$p $(NEW_ENOUGH); then echo $$p; break; fi; done)

ifeq ($(origin PYTHON), undefined)
PYTHON := $(call find_python,python3 python3.14 python3.13 python3.12 python3.11)
endif
SET_UP := @$(PYTHON) scripts/environment.py
HAS_GPU := { [ -e /dev/nvidia0 ] || nvidia-smi -L >/dev/null 2>&1; }

.PHONY: help run test test-gpu test-oldest pytest lint type record results bench screenshots clean python
.DEFAULT_GOAL := help

help: ## Show these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo 'PYTHON=/path/to/python3 chooses the interpreter; ARGS="…" goes to cgtop, as in: make run ARGS="--device cpu"'

run: python ## Open cgtop: live with an NVIDIA GPU or ARGS="--device cpu", else the recorded run
	@if $(HAS_GPU) || [ -n "$(findstring --device,$(ARGS))$$CGTOP_DEVICE" ]; then need=live; else need=base; fi; \
	$(PYTHON) scripts/environment.py $(VENV) $$need && exec $(BIN)/cgtop $(ARGS)

test: python ## Lint, types and all tests that need no GPU
	$(SET_UP) $(VENV) test
	@$(MAKE) --no-print-directory --keep-going lint type pytest

# Side by side, but for the tests that have a bound of time.
pytest: python
	$(SET_UP) $(VENV) test
	$(BIN)/python -m pytest -m "not timed" --numprocesses auto --maxprocesses 4 --dist loadfile
	$(BIN)/python -m pytest -m timed

test-gpu: python ## The tests of tests/gpu, on this machine's NVIDIA GPU
	@$(HAS_GPU) || { echo 'make test-gpu needs an NVIDIA GPU: none found (no /dev/nvidia0, nvidia-smi lists none)' >&2; exit 1; }
	$(SET_UP) $(VENV) test
	$(BIN)/python -m pytest -m gpu tests/gpu

# The floor of torch is gigabytes to download; OLDEST_TORCH=2.13.0 tests the other floors with another torch.
test-oldest: python ## All tests with the oldest Python and packages that are supported
	@OLDEST_TORCH=$(OLDEST_TORCH) $(or $(call find_python,python3.11),$(PYTHON)) scripts/environment.py $(OLDEST) oldest
	$(OLDEST)/bin/python -m pytest

lint: python ## Format and lint
	$(SET_UP) $(VENV) test
	$(BIN)/ruff format --check core tui tests scripts examples
	$(BIN)/ruff check core tui tests scripts examples

# mypy does not see through the editable install's finder: it is shown the folders under their import names.
type: python ## Types
	$(SET_UP) $(VENV) test
	@mkdir -p build/typecheck/cgtop
	@ln -sfn ../../../core build/typecheck/cgtop/core
	@ln -sfn ../../../tui build/typecheck/cgtop/tui
	MYPYPATH=build/typecheck $(BIN)/mypy -p cgtop
	MYPYPATH=build/typecheck $(BIN)/mypy tests scripts

record: python ## Record the bundled recording anew (needs an NVIDIA GPU)
	@$(HAS_GPU) || { echo 'make record needs an NVIDIA GPU: none found' >&2; exit 1; }
	$(SET_UP) $(VENV) live
	$(BIN)/python -m cgtop.core.record_bundled $(ARGS)

results: python ## Every experiment on this machine's GPU, as recordings and as tables, in core/recordings
	@$(HAS_GPU) || { echo 'make results needs an NVIDIA GPU: none found' >&2; exit 1; }
	$(SET_UP) $(VENV) live
	$(BIN)/python scripts/results.py $(ARGS)

bench: python ## What the instrument costs: first screen, engine against a bare replay loop, screen against headless (GPU)
	@$(HAS_GPU) || { echo 'make bench needs an NVIDIA GPU: none found' >&2; exit 1; }
	$(SET_UP) $(VENV) test
	$(BIN)/python -m tests.benchmarks.start
	$(BIN)/python -m tests.benchmarks.engine
	$(BIN)/python -m tests.benchmarks.screen

screenshots: python ## Draw screenshots/*.svg from the bundled recording
	$(SET_UP) $(VENV) test
	$(BIN)/python -m tests.make_screenshots

clean: ## Remove what these targets made
	rm -rf $(VENV) $(OLDEST) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

python:
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) $(NEW_ENOUGH); then \
		echo 'cgtop needs Python 3.11 or newer: install one, or name it: make PYTHON=/path/to/python3 …' >&2; exit 1; fi
