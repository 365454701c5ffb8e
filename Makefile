# Every target sets up what it needs: a virtual environment, the npm tools, nothing outside this
# folder. Needs Python 3.11+ with venv, Node 20+ with npm, 3 GB; no root, no system database.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools-installed
NODE_TOOLS := node_modules/.installed

export DAGSTER_DISABLE_TELEMETRY := 1
export UV_COMPILE_BYTECODE := 1
export PYTHONUNBUFFERED := 1

# What is downloaded is kept in the home folder, or here where that cannot be written to. `test -w`
# says yes to root for any folder, so a file is made.
ifeq ($(shell (f=$$(mktemp -p "$$HOME" .isthmus-XXXXXX) && rm "$$f" && echo yes) 2>/dev/null),)
export npm_config_cache := $(CURDIR)/.cache/npm
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export XDG_CACHE_HOME := $(CURDIR)/.cache
endif

.PHONY: help setup prerequisites demo test page packaging proxy machines hsm backup engine failover upgrade prometheus screenshots check format bench chaos drill fleet fuzz replay contracts settings catalogue openapi lock clean

help: ## What there is to make
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: prerequisites $(TOOLS) $(NODE_TOOLS) $(BIN)/isthmus ## Install everything under .venv and node_modules

prerequisites:
	@test -e $(TOOLS) -a -e $(NODE_TOOLS) || $(PYTHON) devnet/prerequisites.py "$(CURDIR)"

$(TOOLS): requirements/bootstrap.txt requirements/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip sync --python $(BIN)/python --require-hashes requirements/dev.txt
	@touch $@

$(BIN)/isthmus: devnet/isthmus.sh clients/python/pyproject.toml $(TOOLS)
	@# The client is imported from the checkout. A relative path: a worktree may link to this .venv.
	echo ../../../../clients/python > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/isthmus-client.pth"
	install -m 755 devnet/isthmus.sh $@

$(NODE_TOOLS): package.json package-lock.json
	@# Not `npm ci`: it wants every platform of an optional package in the lock file.
	@# A line for each download: in a log, npm shows nothing else of its progress.
	npm install --no-save --no-audit --no-fund --ignore-scripts --loglevel=http
	@touch $@

demo: setup ## Run the whole system on local chains; ONCE=1 plays, verifies and stops
	$(BIN)/isthmus demo $(if $(filter 1,$(ONCE)),--once)

test: setup ## Run the whole suite
	@# In the order of collection, which has whole systems first, one after the other on one worker.
	@# Three workers on two cores: tests of that one wait for processes that they start.
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST)

page: setup ## Tests of the pages (market, transfers, status, docs) in a headless Chromium: CHROMIUM, or one on the PATH
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/system/page $(PYTEST)

proxy: setup ## Tests of deploy/nginx.conf against a real nginx: Debian's nginx-light
	$(BIN)/python -m pytest tests/api/proxy $(PYTEST)

machines: setup ## Tests of several API machines with Debian's pgbouncer and haproxy, and a replica
	$(BIN)/python -m pytest tests/api/machines $(PYTEST)
	$(BIN)/python -m pytest --pgbouncer $(addprefix tests/api/,auth quotes transfers actions webhooks) $(addprefix tests/api/test_,orderbook.py books.py intents.py providers.py rate_limits.py routes.py status.py health.py warehouse_metrics.py) $(PYTEST)

hsm: setup ## Tests of PKCS#11 keys on a token of SoftHSM: Debian's softhsm2
	$(BIN)/python -m pytest tests/relay/hsm $(PYTEST)

backup: setup ## Commands of docs/operations/backup.md: Debian's postgresql and pgbackrest
	$(BIN)/python -m pytest tests/system/restore $(PYTEST)

failover: setup ## Commands of docs/operations/failover.md under load: Debian's postgresql
	$(BIN)/python -m pytest tests/system/failover $(PYTEST)

engine: setup ## Backfills, daily figures and exports on Celery workers: Debian's rabbitmq-server, iproute2; as root
	$(BIN)/python -m pytest tests/system/engine $(PYTEST)

upgrade: setup ## Upgrade from an earlier revision (FROM, HEAD~1) while the API serves
	$(if $(FROM),ISTHMUS_UPGRADE_FROM=$(FROM)) $(BIN)/python -m pytest tests/system/upgrade $(PYTEST)

prometheus: setup ## Tests of deploy/prometheus and deploy/grafana: Debian's prometheus, prometheus-alertmanager
	$(BIN)/python -m pytest tests/deploy/prometheus $(PYTEST)

packaging: setup ## Tests of systemd's units and of the image: Debian's systemd, mmdebstrap, buildah; as root
	$(BIN)/python -m pytest tests/deploy/packaging $(PYTEST)

screenshots: setup ## Take the docs' pictures of the market from a demo; needs Chromium
	$(BIN)/python -m tests.system.page.screenshots

check: setup ## Formatter, linter, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy warehouse_schema indexer relay pipelines api clients/python devnet tests
	node_modules/.bin/prettier --check --log-level warn .
	node_modules/.bin/tsc -p api/pages
	$(BIN)/python -m pytest -q tests/architecture -p no:randomly

format: setup ## Format and sort what can be
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	node_modules/.bin/prettier --write --log-level warn .

bench: setup ## Benchmarks, one JSON line a figure; ONLY=name for one
	$(BIN)/python -m tests.system.bench $(ONLY)

chaos: setup ## 200 runs of ingestion, 520 transfers under kills, reorgs and lies; ONLY=ingest or transfers, SEED, RUNS, TRANSFERS
	$(BIN)/python -m tests.system.chaos $(ONLY)

drill: setup ## Faults in a running system under a real Prometheus: alerts and runbook; ONLY=alert, needs root
	$(BIN)/python -m tests.system.drill $(ONLY)

fleet: setup ## Four hosts in network namespaces under load and faults; PART=load or faults, OPTIONS, QUICK=1; needs root
	$(if $(QUICK),$(BIN)/python -m pytest tests/system/fleet $(PYTEST),$(BIN)/python -m tests.system.fleet $(PART) $(OPTIONS))

fuzz: setup ## The real server under generated requests, tokens, XDR and headers; MINUTES (10), SEED
	$(BIN)/python -m tests.system.fuzz

replay: $(TOOLS) ## Ingest the recorded genuine data into a database of its own and print what it holds
	$(BIN)/python -m tests.system.replay

contracts: $(NODE_TOOLS) ## Compile the Solidity contracts: the deposit addresses', the devnet's, the tests'
	node indexer/bridges/deposit_address/contracts/build.mjs

settings: setup ## Write docs/settings.md, docs/doctor.md and the list of known variables from the code
	$(BIN)/python -m tests.architecture.settings_document
	$(BIN)/python -m tests.architecture.doctor_document

catalogue: setup ## Write docs/metrics.md and deploy/grafana/ from their tables
	$(BIN)/python -m tests.architecture.metrics_document
	$(BIN)/python -m tests.architecture.dashboards

openapi: setup ## Write clients/python/openapi.json and the amounts of docs/api.md from the app
	$(BIN)/python -m tests.architecture.client_document

lock: $(TOOLS) ## Write the lock files from pyproject.toml and package.json
	echo "uv==$$($(BIN)/uv --version | cut -d' ' -f2)" | $(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-annotate --no-header - -o requirements/bootstrap.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-annotate --no-header --extra dev --python-version 3.11 pyproject.toml -o requirements/dev.txt
	@# What an installation has, and nothing more; within the versions of dev.txt.
	$(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
	npm install --package-lock-only --ignore-scripts --silent
	@# Of the benchmarks beside peers. npm reads the .npmrc of the folder of a package alone.
	for peer in subsquid ponder; do npm install --prefix tests/system/bench/peers/$$peer --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --silent; done

clean: ## Remove local state: databases, chains, logs (not the installed tools)
	rm -rf .isthmus
