# `make` lists the targets. Each sets up what it needs, in .venv, at the versions of constraints.txt.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# the interpreter from which .venv is made: 3.11 or later
PYTHON ?= python3
# how many processes work at a time
WORKERS ?= 2
# how many examples `make verify` draws for each law: smoke, full or deep
TIER ?= smoke
# where `make docs` writes the site
SITE ?= site
# more for the command that a target runs, as in `make verify ARGS='--tier smoke'`
ARGS ?=

BIN := .venv/bin
READY := .venv/stamp
# folder:least share of its lines and branches that the tests reach, in percent
FLOORS := spec:95 oracle:95 impls:95 attnspec:90

.PHONY: help verify test lint docs score false-alarms bench format outdated dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

$(READY): pyproject.toml constraints.txt .ci/environment.py
	@$(PYTHON) .ci/environment.py

verify: $(READY) ## judge every built-in target whose library is installed, and print the table
	@$(BIN)/attnspec verify --all --tier $(TIER) -n $(WORKERS) $(ARGS)

test: $(READY) ## the suite judged by itself, with coverage by folder and its floors
	@data=$$(mktemp -d); trap 'rm -rf "$$data"' EXIT; export COVERAGE_FILE="$$data/coverage"; \
	status=0; OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n $(WORKERS) \
	    --cov --cov-report= $(ARGS) || status=1; \
	for floor in $(FLOORS); do folder=$${floor%:*}; least=$${floor#*:}; \
	    echo "coverage of $$folder (at least $$least %)"; \
	    $(BIN)/coverage report --include="$$folder/*" --fail-under="$$least" || status=1; \
	done; exit $$status

lint: $(READY) ## ruff, its formatter, and mypy, which must have seen every file
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@seen=$$($(BIN)/mypy) || { echo "$$seen"; exit 1; }; echo "$$seen"; \
	files=$$(git ls-files --cached --others --exclude-standard '*.py' | wc -l | tr -d ' '); \
	case "$$seen" in *" in $$files source files") ;; \
	*) echo "mypy did not check the $$files Python files of the repository: see 'files' in" \
	    "pyproject.toml, and whether attnspec/spec, oracle and impls are links"; exit 1 ;; esac

docs: $(READY) ## the invariants as a static site, in site/
	@$(BIN)/attnspec docs $(SITE) -n $(WORKERS) $(ARGS)

score: $(READY) ## which law rejects which wrong implementation, over the whole catalogue
	@$(BIN)/attnspec score --tier full -n $(WORKERS) $(ARGS)

false-alarms: $(READY) ## right implementations on many inputs: how often the suite complains
	@$(BIN)/python -m bench.false_alarms $(ARGS)

bench: $(READY) ## how fast the suite judges, and how small an error it sees
	@$(BIN)/python -m bench.speed
	@$(BIN)/python -m bench.sensitivity

format: $(READY) ## let ruff lay out the code and repair what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

outdated: $(READY) ## compare constraints.txt with what is installed
	@diff <(sed -n 's/ *#.*//; /./p' constraints.txt) \
	    <($(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+[a-z0-9.]*$$//' \
	      | LC_ALL=C sort -f) && echo "constraints.txt is what is installed"

dist: $(READY) ## build the sdist and the wheel into dist/
	@rm -rf build dist
	@$(BIN)/python -m build --no-isolation

clean: ## remove what the other targets made, .venv included
	rm -rf .venv .venv.lock build dist site *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache \
	    .ruff_cache htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
