# The front door. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JARS := .jars
QUIX := .venv-quix

.PHONY: help setup lock demo up down status test check lint types clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+%?:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

SET_UP := $(VENV)/.ready $(JARS)/spark/.ready $(JARS)/broker/.ready $(JARS)/spark-classes.jsa

# The packages of Python come while Maven fetches the jars; what else one names beside it stays one after the other.
setup: ## virtual environment from the lock, jars from the poms
	@$(MAKE) --silent --jobs=2 $(SET_UP)

$(VENV)/.ready: requirements.lock requirements-build.lock pyproject.toml deploy/preflight.py
	@$(PYTHON) deploy/preflight.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing the locked packages (once; a few minutes on a cold cache)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

$(JARS)/%/.ready: deploy/jars/%/pom.xml
	@$(PYTHON) deploy/preflight.py
	@echo "setup: fetching the $* jars"
	@mvn -q -B -ntp -f $< package -Djars.dir=$(CURDIR)/$(JARS)/$*
	@touch $@

# One after the other: two Mavens at once may spoil the repository that they share.
$(JARS)/broker/.ready: | $(JARS)/spark/.ready

$(JARS)/spark-classes.jsa: $(VENV)/.ready $(JARS)/spark/.ready
	@echo "setup: archiving Spark's classes, so that sessions start in half the time (once; a minute)"
	@$(BIN)/python -m spark_apps.class_archive >$(JARS)/spark-classes.log 2>&1 || { tail -3 $(JARS)/spark-classes.log; \
	  : >$@; echo "setup: there is no archive of classes: everything works, and sessions start slower"; }

demo: setup ## the whole platform on real purchases, checked, then stopped
	@$(BIN)/storekeeper demo

up: setup ## start the platform and leave it running
	@$(BIN)/storekeeper up

down: ## stop everything that `make up` started
	@if test -x $(BIN)/storekeeper; then $(BIN)/storekeeper down; else echo "nothing to stop: run 'make setup' first"; fi

status: ## every process, its health, its address
	@$(BIN)/storekeeper status

# Half of the time of the tests that kill processes is waiting: others run beside them, and stand back as streams do.
# The longest part comes first, with the one that waits most; the shortest come last, so that none runs long alone.
STAND_BACK := nice -n 5
GENERATIONS := tests/integration/generations/
ALONE := faults integration dags spark_apps state
REST := $(filter-out $(ALONE:%=tests/%/) tests/__pycache__/,$(wildcard tests/*/)) $(wildcard tests/test_*.py)
PARTS := test-integration test-faults test-spark_apps test-rest test-dags test-state test-types

test: setup lint ## lint, types and all tests, three parts of them at once
	@echo "test: $(words $(PARTS)) parts, three at once; each tells what it found when it has ended"
	@$(MAKE) --silent --jobs=3 --keep-going --output-sync=target $(PARTS)

.PHONY: $(PARTS)
test-integration:
	@$(BIN)/pytest -q tests/integration/ --ignore=$(GENERATIONS)

test-faults:
	@$(BIN)/pytest -q tests/faults/ $(GENERATIONS)

test-dags test-spark_apps test-state: test-%:
	@$(STAND_BACK) $(BIN)/pytest -q tests/$*/

test-rest:
	@$(STAND_BACK) $(BIN)/pytest -q $(REST)

test-types:
	@$(STAND_BACK) $(BIN)/mypy

check: lint types ## lint and types only

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: setup test-types

$(JARS)/kafka-streams/.ready: benchmarks/kafka_streams/pom.xml $(shell find benchmarks/kafka_streams/src -name '*.java')
	@echo "setup: building the peer that the benchmarks run beside"
	@mvn -q -B -ntp -f $< package -Djars.dir=$(CURDIR)/$(JARS)/kafka-streams
	@touch $@

$(QUIX)/.ready: benchmarks/quix_streams/requirements.lock
	@$(PYTHON) deploy/preflight.py
	@test -x $(QUIX)/bin/python || $(PYTHON) -m venv $(QUIX)
	@echo "setup: installing the other Python library, in an environment of its own"
	@$(QUIX)/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

bench-quix: setup $(QUIX)/.ready ## the POS topology beside Quix Streams
	@$(BIN)/python -m benchmarks.quix

bench-%: setup $(JARS)/kafka-streams/.ready ## measure NAME beside its peer: make bench-restore
	@$(BIN)/python -m benchmarks.$*

lock: ## write requirements.lock anew from pyproject.toml (needs uv)
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --all-extras --no-annotate --no-header -o requirements.lock pyproject.toml

clean: ## remove what was built and what ran
	@if test -d .run; then STOREKEEPER_RUN_DIR=.run $(BIN)/storekeeper down --quiet || true; fi
	@rm -rf $(VENV) $(QUIX) $(JARS) .run build dist *.egg-info demo-report.json .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
