# Each target is complete on a fresh machine with Python >= 3.11 and a C and C++ compiler.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Each of many short processes would compile the package anew where the environment forbids bytecode files.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-ci test-install test-all setup lint fix bench docs site clean
default: lint test

setup: $(VENV)/.ready            ## create .venv and install everything: the demo's libraries, the extras, the tests
demo: $(VENV)/.demo              ## install what the demo needs, index the demo documents, ask a global and a local question
	$(BIN)/localrag demo

# As many processes as cores, each on a core of its own. The quick tests of a file stay together: what they share is made once. Of the
# others, which take minutes, a process that has nothing left to do takes some from another.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4

# Each step says what it does and how long it usually takes.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) scripts/install.py all
	touch $(VENV)/.demo $@

$(VENV)/.demo: pyproject.toml
	$(PYTHON) scripts/install.py demo
	touch $@


test: setup                      ## the tests that need no browser, no server and no killed process, in five minutes
	$(PYTEST) --dist loadfile -m "not slow and not ci"

test-ci: setup                   ## with browsers, servers and killed processes
	$(PYTEST) --dist worksteal -m "not slow"

test-install: setup              ## the wheel with the README's libraries alone: every command, route, tool and method once
	$(PYTEST) -m installed tests/installed

test-all: setup                  ## with the slow ones: whole books, many processes, the wheel
	$(BIN)/python -m pytest

lint: setup                      ## ruff, mypy strict, layers, file lengths, docs up to date
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_house.py

fix: setup
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup                     ## measure this machine
	$(BIN)/localrag bench engine

docs: setup                      ## regenerate the command reference and the map of the code
	$(BIN)/python scripts/docs.py

site: setup docs                 ## the documentation as a web site, in site/
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .localrag dist build site
