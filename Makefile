# The front door. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JARS := .jars
QUIX := .venv-quix
FEAST := .venv-feast
DOCS := .venv-docs
STORAGE := .storage

.PHONY: help setup lock docs dist clients demo up down status test check lint types clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+%?:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

SET_UP := $(VENV)/.ready $(JARS)/spark/.ready $(JARS)/broker/.ready $(JARS)/spark-classes.jsa

# The packages of Python come while Maven fetches the jars; what else one names beside it stays one after the other.
setup: ## virtual environment from the lock, jars from the poms
	@$(MAKE) --silent --jobs=2 $(SET_UP)

$(VENV)/.ready: requirements.lock requirements-build.lock pyproject.toml storekeeper_provider/pyproject.toml storekeeper/ops/preflight.py
	@$(PYTHON) storekeeper/ops/preflight.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing the locked packages (once; a few minutes on a cold cache)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable . --editable ./storekeeper_provider
	@touch $@

$(JARS)/%/.ready: storekeeper/ops/jars/%/pom.xml storekeeper/ops/jars/fetch.py
	@$(PYTHON) storekeeper/ops/preflight.py
	@echo "setup: fetching the $* jars"
	@$(PYTHON) storekeeper/ops/jars/fetch.py $* $(JARS)
	@touch $@

# One after the other: two Mavens at once may spoil the repository that they share.
$(JARS)/broker/.ready: | $(JARS)/spark/.ready

$(JARS)/spark-classes.jsa: $(VENV)/.ready $(JARS)/spark/.ready
	@echo "setup: archiving Spark's classes, so that sessions start in half the time (once; a minute)"
	@$(BIN)/python -m storekeeper.engine.runtime.class_archive >$(JARS)/spark-classes.log 2>&1 || { tail -3 $(JARS)/spark-classes.log; \
	  : >$@; echo "setup: there is no archive of classes: everything works, and sessions start slower"; }

demo: setup ## the whole platform on real purchases, checked, then stopped
	@$(BIN)/python -m demo

up: setup ## start the platform and leave it running
	@$(BIN)/storekeeper up

down: ## stop everything that `make up` started
	@if test -x $(BIN)/storekeeper; then $(BIN)/storekeeper down; \
	  if test -d .run/demo; then STOREKEEPER_RUN_DIR=.run/demo $(BIN)/storekeeper down --quiet; fi; else echo "nothing to stop: run 'make setup' first"; fi

status: ## every process, its health, its address
	@$(BIN)/storekeeper status

# Tests wait a lot, so parts of them run beside each other, those that take longest from the beginning. More at once than
# four cost a quarter more processor time on two cores. The tests of a part share a broker and a Spark session.
IN_integration := tests/integration/
IN_engine := $(addprefix tests/,apps/ cleanup/ engine/ testkit/ conformance/)
IN_tables := $(addprefix tests/,generations/ project/ snapshots/)
IN_quality := tests/quality/ tests/faults/
IN_state := $(addprefix tests/,changelog/ client/ kafka/ metrics/ node/ protocol/ schemas/ serdes/ stores/ topology/ model/ contract/)
IN_ops := $(addprefix tests/,cli/ dags/ ops/ storekeeper_provider/)
APART := engine tables integration ops quality state
IN_rest := $(filter-out $(foreach part,$(APART),$(IN_$(part))) tests/__pycache__/,$(wildcard tests/*/)) $(wildcard tests/test_*.py contrib/*/tests/)
TESTS := $(APART:%=test-%) test-rest
PARTS := $(TESTS) test-types test-lint
# Where the environment keeps Python from writing bytecode, each of the hundreds of processes would compile its modules.
COMPILED := storekeeper storekeeper_provider spark_apps state quality harness
PYTEST = $(BIN)/pytest -q $(OPTIONS)
COVERED = $(BIN)/coverage run -m pytest -q $(OPTIONS)

test: setup ## lint, types and all tests that take no long time
	@$(BIN)/python -m compileall -q -j 2 $(COMPILED)
	@echo "test: $(words $(PARTS)) parts, four at once; each shows its result when it has ended"
	@$(MAKE) --silent --jobs=4 --keep-going --output-sync=target $(PARTS)

test-long: setup $(JARS)/schema-registry/.ready $(FEAST)/.ready ## all of `make test`, and the long tests too: hours
	@$(MAKE) --silent --keep-going $(PARTS) OPTIONS=--long

test-bare: setup ## the tests without a JVM, as on a machine without the optional packages
	@$(BIN)/python -m tests.bare_path $(PYTEST) -m "not spark and not airflow and not broker"

coverage: setup ## a table of what the tests run of the code, and pages in htmlcov/; of FILES="tests/..." alone
	@rm -rf .coverage .coverage.* htmlcov
	@if test -n "$(FILES)"; then $(COVERED) $(FILES); \
	  else $(MAKE) --silent --jobs=2 --keep-going --output-sync=target $(TESTS) PYTEST="$(COVERED)"; fi
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet
	@$(BIN)/coverage report

.PHONY: $(PARTS) test-long test-bare coverage
$(TESTS): test-%:
	@$(PYTEST) $(IN_$*)

test-types:
	@$(BIN)/mypy

check: lint types ## lint and types only

lint: setup test-lint

test-lint:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/deptry storekeeper
	@$(BIN)/deptry --config storekeeper_provider/pyproject.toml storekeeper_provider

types: setup test-types

$(JARS)/kafka-streams/.ready: benchmarks/kafka_streams/pom.xml $(shell find benchmarks/kafka_streams/src -name '*.java')
	@echo "setup: building the peer that the benchmarks run beside"
	@mvn -q -B -ntp -f $< package -Djars.dir=$(CURDIR)/$(JARS)/kafka-streams
	@touch $@

$(JARS)/spark-kafka/.ready: benchmarks/spark_kafka/pom.xml
	@echo "setup: fetching Spark's Kafka connector, which a peer of the benchmarks uses"
	@mvn -q -B -ntp -f $< package -Djars.dir=$(CURDIR)/$(JARS)/spark-kafka
	@touch $@

$(JARS)/schema-registry/.ready: harness/schema_registry/pom.xml | $(JARS)/broker/.ready
	@echo "setup: fetching the schema registry that tests run (once; 140 MB)"
	@mvn -q -B -ntp -f $< package -Djars.dir=$(CURDIR)/$(JARS)/schema-registry
	@touch $@

$(FEAST)/.ready: contrib/feast/requirements.lock
	@test -x $(FEAST)/bin/python || $(PYTHON) -m venv $(FEAST)
	@echo "setup: installing the Feast that tests run, in an environment of its own"
	@$(FEAST)/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

setup-storage: setup $(STORAGE)/hdfs/.ready $(STORAGE)/s3/.ready $(STORAGE)/moto/.ready ## HDFS and an S3 server, for the tests of tables in them

$(STORAGE)/moto/.ready: harness/storage/moto/requirements.lock
	@test -x $(STORAGE)/moto/bin/python || $(PYTHON) -m venv $(STORAGE)/moto
	@echo "setup: installing the S3 server of tests, in an environment of its own"
	@$(STORAGE)/moto/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

$(STORAGE)/%/.ready: harness/storage/jars/%/pom.xml
	@echo "setup: fetching the $* jars of tests"
	@mkdir -p $(@D)
	@mvn -q -B -ntp -f $< package -Djars.dir=$(CURDIR)/$(@D)
	@touch $@

# Maven Central does not serve the server, so it is built: git clone -b v0.6.0 https://github.com/unitycatalog/unitycatalog
setup-unity: setup $(STORAGE)/unity/.ready ## Unity Catalog of the checkout UNITY=/path, for the tests of entries in it

$(STORAGE)/unity/.ready: harness/unity_catalog/pom.xml
	@test -d "$(UNITY)/server" || { echo "setup: name a checkout of Unity Catalog 0.6.0: make setup-unity UNITY=/path"; exit 1; }
	@echo "setup: building Unity Catalog for tests"
	@mvn -q -B -ntp -f $< process-classes -Dunity.source=$(abspath $(UNITY)) -Djars.dir=$(CURDIR)/$(@D)
	@touch $@

$(QUIX)/.ready: benchmarks/quix_streams/requirements.lock
	@$(PYTHON) storekeeper/ops/preflight.py
	@test -x $(QUIX)/bin/python || $(PYTHON) -m venv $(QUIX)
	@echo "setup: installing the other Python library, in an environment of its own"
	@$(QUIX)/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

bench-quix: setup $(QUIX)/.ready ## the POS topology beside Quix Streams
	@$(BIN)/python -m benchmarks.quix

bench-app bench-windows bench-join: $(QUIX)/.ready ## small apps beside Kafka Streams and Quix Streams

bench-%: setup $(JARS)/kafka-streams/.ready $(JARS)/spark-kafka/.ready ## measure NAME beside its peer: make bench-restore
	@$(BIN)/python -m benchmarks.$(subst -,_,$*)

$(DOCS)/.ready: docs/requirements.lock
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@echo "docs: installing what builds the site, in an environment of its own"
	@$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

docs: $(DOCS)/.ready ## build the documentation's site into site/, and check its links
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build
	@echo "docs: python3 -m http.server --directory site"

dist: setup ## build what is published into dist/: an archive of sources and a wheel of each distribution
	@$(BIN)/python -m harness.distributions dist

CLIENTS := .clients
clients: ## generate the clients for Java and TypeScript into .clients/
	@mvn -q -B -ntp -f client/generate/pom.xml generate-sources -Dclients.dir=$(abspath $(CLIENTS))
	@echo "clients: $(CLIENTS)/java and $(CLIENTS)/typescript; docs/how-to/other-languages.md says how to use them"

lock: ## write the lock files again from pyproject.toml and the requirements.in (needs uv)
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o docs/requirements.lock docs/requirements.in
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o contrib/feast/requirements.lock contrib/feast/requirements.in
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o harness/storage/moto/requirements.lock harness/storage/moto/requirements.in
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --all-extras --no-annotate --no-header --no-emit-package airflow-provider-storekeeper -o requirements.lock pyproject.toml

clean: ## remove what was built and what ran
	@if test -d .run; then STOREKEEPER_RUN_DIR=.run $(BIN)/storekeeper down --quiet || true; fi
	@rm -rf $(VENV) $(QUIX) $(FEAST) $(DOCS) $(JARS) $(STORAGE) $(CLIENTS) .run site build dist *.egg-info demo-report.json .pytest_cache .mypy_cache .ruff_cache \
	  .coverage .coverage.* htmlcov .hypothesis .import_linter_cache
