# Every target makes .venv first when it is missing or older than pyproject.toml.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: access-matrix bench chaos clean dashboard-load demo docs emulation example-profiles faults format fuzz help lock lint parity profile-checks reproductions sanitize slurm soak test venv workload-profiles workloads

help:
	@echo "make demo    compare policies and mechanisms; table here, interactive report in demo-report/report.html"
	@echo "make test    style, types, import rules, tests"
	@echo "make parity  long comparison with the published artifacts"
	@echo "make chaos   kill -9 of scheduler and agents under a running trace; nothing may be lost"
	@echo "make soak    a week of a small cluster in an hour: everything that can happen to one, then every job is looked at"
	@echo "make slurm   pilots on a real Slurm of this machine: every measurement of docs/slurm.md; 40 minutes"
	@echo "make faults  every test of faults in its long form: cuts, moves, gangs, floods of bad messages"
	@echo "make sanitize  the compiled kernels under AddressSanitizer and UBSan: wrong calls, damaged logs, 50 simulations, unit tests"
	@echo "make fuzz    inputs that nobody would write, for every reader and every call (MINUTES=20; 5 by default)"
	@echo "make lock    requirements/release.txt again: the exact versions of a release, with their hashes"
	@echo "make bench   what we claim about speed"
	@echo "make emulation  how true the emulated GPUs are on this machine; 25 minutes, QUICK=1 for two"
	@echo "make profile-checks  what the data path and rota profile promise, on this machine (ONLY=known,storage,burners: of rota profile)"
	@echo "make workloads      every training workload learns, and ends with the same weights wherever it is moved (installs PyTorch)"
	@echo "make workload-profiles  profiles of training workloads against whole grids, and what they are worth on real processes"
	@echo "make example-profiles   the catalogue \`examples\` again, measured on this machine (idle, about half an hour)"
	@echo "make reproductions  published results run again (hours; resumes), and docs/reproductions.md from them"
	@echo "make dashboard-load  the dashboard and rota jobs with 10,000 jobs on 1,000 GPUs"
	@echo "make access-matrix  the table of callers and calls in docs/security.md, from a real scheduler"
	@echo "make docs    the documentation as a site that can be searched without a network, in site/index.html"
	@echo "make lint    style, types, import rules"
	@echo "make format  rewrite the code in our style"

venv: $(STAMP)

$(BIN)/python:
	@echo "== environment =="
	$(PYTHON) -c 'import sys; sys.exit("Rota needs Python 3.10 or newer; set PYTHON=...") if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml hatch_build.py $(wildcard src/rota/kernels/*.[ch]) | $(BIN)/python
	@echo "== install =="
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot,deploy,dashboard,dev]'
	@touch $@

demo: $(STAMP)
	@echo "== demo =="
	$(BIN)/rota demo

lint: $(STAMP)
	@echo "== style: ruff check =="
	$(BIN)/ruff check .
	@echo "== style: ruff format =="
	$(BIN)/ruff format --check .
	@echo "== types: mypy =="
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then $(BIN)/mypy; \
	else echo "skipped: the newest numpy for this Python has other type stubs; types are checked with 3.11 and newer"; fi
	@echo "== imports: import-linter =="
	$(BIN)/lint-imports

test: lint
	@echo "== system packages =="
	@timeout 600 scripts/system-packages.sh || true
	@echo "== tests: pytest =="
	scripts/run-tests.sh $(BIN)/python -n $(JOBS) --dist worksteal --durations 40 --durations-min 5 -m "not parity and not long"

access-matrix: $(STAMP)
	ROTA_REWRITE_ACCESS_MATRIX=1 $(BIN)/python -m pytest -q -n 0 tests/e2e/test_access.py -k documentation

profile-checks: $(STAMP)
	@echo "== data path =="
	$(BIN)/python -m pytest tests/unit/data tests/unit/client/test_stalls.py tests/unit/deploy/test_data_folders.py tests/e2e/test_kept_data.py
	$(BIN)/python benchmarks/data_path.py
	@echo "== speeds learned while jobs run =="
	$(BIN)/python -m pytest -n 0 -m "long or not long" tests/e2e/test_learned_speeds.py tests/e2e/test_learning_commands.py
	@echo "== from a script to a job that is scheduled by need =="
	$(BIN)/python -m pytest -n 0 -m "long or not long" tests/integration/test_scheduled_by_need.py
	@echo "== rota profile =="
	$(BIN)/python benchmarks/profile_checks.py $(if $(ONLY),--only $(ONLY))

$(VENV)/examples: $(STAMP)
	@echo "== install PyTorch =="
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot,deploy,dev,examples]'
	@touch $@

workloads: $(VENV)/examples
	@echo "== workloads =="
	$(BIN)/python -m pytest -n 0 -q -s -o timeout=1800 -m "long or not long" tests/integration/test_training_workloads.py

workload-profiles: $(VENV)/examples
	@echo "== workload profiles =="
	$(BIN)/python benchmarks/workload_profiles.py build/workload-profiles $(if $(ONLY),--only $(ONLY)) $(if $(CPU),--cpu $(CPU))

example-profiles: $(VENV)/examples
	@echo "== example profiles =="
	$(BIN)/python scripts/example_profiles.py build/example-profiles $(if $(ONLY),--only $(ONLY)) $(if $(CPU),--cpu $(CPU))

parity: $(STAMP)
	@echo "== parity =="
	$(BIN)/python -m pytest -m parity tests/parity

chaos: $(STAMP)
	@echo "== chaos =="
	$(BIN)/python tests/chaos.py

soak: $(STAMP)
	@echo "== soak =="
	$(BIN)/python tests/soak.py $(if $(MINUTES),--minutes $(MINUTES))

faults: $(STAMP)
	@echo "== faults =="
	$(BIN)/python -m pytest -m "long or not long" tests/e2e --ignore tests/e2e/test_chaos.py

sanitize: $(STAMP)
	@echo "== sanitize =="
	scripts/sanitize.sh $(abspath $(BIN))/python

fuzz: $(STAMP)
	@echo "== fuzz =="
	$(BIN)/python tests/fuzzing/run.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(foreach target,$(TARGET),--target $(target))

docs: $(STAMP)
	@echo "== docs =="
	$(BIN)/python scripts/docs_site.py site
	@echo "read site/index.html"

lock: $(STAMP)
	@echo "== lock =="
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/lock/bin/uv pip compile pyproject.toml --extra deploy --extra plot --extra dashboard --python-version 3.11 --generate-hashes \
	  --upgrade --no-header --no-emit-index-url --no-emit-find-links --quiet --output-file requirements/release.txt

slurm: $(STAMP)
	@echo "== slurm =="
	@timeout 600 scripts/system-packages.sh || true
	$(BIN)/python -m pytest -n 0 -q -rs -m "long or not long" tests/e2e/test_slurm_*.py

bench: $(STAMP)
	@echo "== bench =="
	$(BIN)/python benchmarks/run.py

dashboard-load: $(STAMP)
	@echo "== dashboard-load =="
	$(BIN)/python benchmarks/dashboard.py $(if $(PICTURES),--pictures $(PICTURES))

emulation: $(STAMP)
	@echo "== emulation =="
	$(BIN)/python benchmarks/emulation.py $(if $(QUICK),--quick)

reproductions: $(STAMP)
	@echo "== reproductions =="
	$(BIN)/rota repro all --store rota-repro.db -j $(JOBS) -o reproductions
	$(BIN)/rota repro report reproductions --json -o docs/reproductions.json
	$(BIN)/rota repro report docs/reproductions.json -o docs/reproductions.md

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis demo-report dist build
