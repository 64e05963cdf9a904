# Every target prepares what it needs in .venv. Required: Python 3.11 or newer and a package index.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

# Compiled modules are kept, whatever the environment says: pytest's rewriting of the assertions
# costs each worker 20 s of processor time, and every child process would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Processes that share the tests out (0: no sharing): one more than processors, since tests wait for a
# third of their time, those with servers for half of it. Each has its own ports and folders; tests
# that share a costly resource run in one of them (tests/kit/runs/parallel.py).
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell expr 1 + $(PROCESSORS))
spark servers integration: WORKERS := $(shell expr 2 + $(PROCESSORS))
PYTEST := $(BIN)/python -m pytest
# A test that hangs ends its worker, and so the run: pytest-xdist may hang behind a new worker.
PARALLEL = -n $(WORKERS) --dist loadgroup --max-worker-restart 0

# A part of the tests: make test AREA=unit/region
AREA ?=
# Each coroutine test on asyncio and on trio, not on one of them: make test LOOPS=--every-loop
LOOPS ?=
PARALLEL += $(LOOPS)

# How often a test that failed is run again; each is listed as RERUN, with its traceback. What fails
# then is run once more by itself, in one process; exit codes other than 1, as of a dead worker, are final.
RERUNS ?= 0
ifneq ($(RERUNS),0)
PARALLEL += --reruns $(RERUNS) --reruns-delay 2 -rR
ALONE := || { [ $$? = 1 ] && $(PYTEST) --last-failed --last-failed-no-failures none -rA; }
endif

# Tests that need servers which `make test` does without: see the markers in pyproject.toml.
SERVERS := activemq or postgresql or maven or browser or ldap or stomp_clients
# Where they and the tests with Spark are: collecting the others takes most of the time.
FOLDERS := --server-folders

# What `make java` has put there for the JVMs of Spark, if it has.
CLASSES := $(wildcard $(CURDIR)/build/java/archive-kit-spark/spark.jsa)
ifneq ($(CLASSES),)
export SPARK_SUBMIT_OPTS := -XX:SharedArchiveFile=$(CLASSES) -Xlog:disable -Xlog:all=error:stderr
endif

.PHONY: run test spark servers integration java pythons environments check bench docs wheel compiled nightly venv

# Python compiles what is imported: compiling all packages would take as long as installing them.
venv: .venv/.ready
.venv/.ready: pyproject.toml examples/requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --no-compile --editable ".[uvloop,sql,reload,websocket,web,ldap,tui,spark]" --group dev
	$(BIN)/pip install --quiet --no-compile --no-deps --require-hashes --requirement examples/requirements.txt
	$(BIN)/pip install --quiet --no-compile --group built >.venv/built.log 2>&1 || \
	echo "Qpid Proton was not built (.venv/built.log): tests of AMQP with it are skipped"
	touch $@

# The documentation needs no more than this: the rest, with Spark, is 1.3 GB.
.venv/.docs: pyproject.toml
	test -e .venv/.ready || { $(PYTHON) -m venv .venv && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1" && \
	$(BIN)/pip install --quiet --no-compile --editable . --group docs; }
	touch $@

run: venv
	$(BIN)/python -m examples.flights
	$(BIN)/python -m examples.board

test: venv
	$(PYTEST) $(PARALLEL) -m "not (nightly or pythons or spark or $(SERVERS))" $(AREA:%=tests/%) $(ALONE)

# Pipelines on Spark: processes with a JVM each, four at a time.
spark: venv
	$(PYTEST) $(PARALLEL) $(FOLDERS) -m "spark and not (nightly or pythons or $(SERVERS))" $(ALONE)

servers: venv
	$(PYTEST) $(PARALLEL) $(FOLDERS) -m "($(SERVERS)) and not (nightly or pythons)" $(ALONE)

# Both of the above in one run: no worker waits at the end of the first.
integration: venv
	$(PYTEST) $(PARALLEL) $(FOLDERS) -m "(spark or $(SERVERS)) and not (nightly or pythons)" $(ALONE)

# The Java programs of these tests and the artifacts of Maven (tests make what is absent), and an
# archive of Spark's classes: with it each JVM starts with 5 s less of processor time.
java: venv
	$(BIN)/python -m tests.kit.servers.java_programs
	$(BIN)/python -m tests.kit.spark.class_archive

# Programs of users on every Python of this machine; EACH=--one-python-each: each on one of them.
pythons: venv
	$(BIN)/python -m tests.kit.processes.other_pythons $(EACH)

# Their environments, which need no other one.
environments:
	$(PYTHON) -m tests.kit.processes.python_environments

check: venv
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: venv
	$(BIN)/python -m benchmarks

# Both wheels, in dist: pure Python, and compiled for this Python and machine (docs/wheels.md).
wheel: venv
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	PYJMS_COMPILE=1 $(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	ls -l dist

# QUICK=--quick: not optimized, with two cases of each test at most, and without rates.
compiled: venv
	$(BIN)/python -m benchmarks.compiled $(QUICK)

nightly: venv
	$(BIN)/python -m benchmarks.compiled --quick --pythons
	TEST_EXAMPLES=20 $(PYTEST) --every-loop -m "nightly or not ($(SERVERS))" --timeout 600

# The documentation site in `site`, and the schemas of both YAML files. Without internet.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean --config-file config/site/mkdocs.yml
	$(BIN)/pyjms config schema --output docs/application.schema.json
	$(BIN)/python -m pyjms_broker.settings.reference
