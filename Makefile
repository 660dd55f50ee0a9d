# Each target is complete on a fresh machine with Python >= 3.11, gcc and cmake.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  := torch==2.13.0

.PHONY: demo test test-all setup lint fix bench docs site clean
default: lint test

setup: $(VENV)/.ready            ## create .venv and install everything

# Torch first and as a CPU build: asked for by another package it would bring gigabytes of CUDA. Where pip knows no CPU build, uv does.
# Some compilers get AMX wrong: what llama.cpp needs then is found by a program, and its wheel kept in a cache apart from the faulty one.
$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install -q "$(TORCH)+cpu" 2>/dev/null \
	  || { $(BIN)/pip install -q uv && $(BIN)/uv pip install -q --python $(BIN)/python --torch-backend=cpu "$(TORCH)"; }
	$(BIN)/pip install -q --upgrade "pip>=25.1"
	flags="$$($(BIN)/python scripts/compiler_flags.py)"; \
	  if [ -n "$$flags" ]; then export CFLAGS="$$CFLAGS $$flags" CXXFLAGS="$$CXXFLAGS $$flags" \
	    PIP_CACHE_DIR="$$($(BIN)/pip cache dir)-$$(echo "$$flags" | tr -cd a-z0-9-)"; fi; \
	  $(BIN)/pip install -q -e ".[all,train,ray]" --group dev
	touch $@

demo: setup                      ## index the demo documents, ask a global and a local question
	$(BIN)/localrag demo

test: setup                      ## the tests, in minutes
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4 --dist loadfile

test-all: setup                  ## with the slow ones: whole books, killed processes, the wheel
	$(BIN)/python -m pytest

lint: setup                      ## ruff, mypy strict, layers, file lengths, docs up to date
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_house.py

fix: setup
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup                     ## measure this machine
	$(BIN)/localrag bench engine --ablate

docs: setup                      ## regenerate the command reference and the map of the code
	$(BIN)/python scripts/docs.py

site: setup docs                 ## the documentation as a web site, in site/
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .localrag dist build site
