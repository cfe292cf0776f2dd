# Every target sets up what it needs. PYTHON chooses the interpreter; a CUDA torch that it already has is used.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: lint type
lint:
	$(BIN)/ruff format --check core tui tests
	$(BIN)/ruff check core tui tests

# mypy does not see through the editable install's finder: it checks an installed copy.
type:
	rm -rf build/typecheck build/lib
	$(BIN)/pip install --quiet --no-deps --target build/typecheck .
	MYPYPATH=build/typecheck $(BIN)/mypy -p cgtop
	MYPYPATH=build/typecheck $(BIN)/mypy tests
