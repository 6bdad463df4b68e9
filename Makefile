# make test   installs what the tests need into the active environment and runs them (the README's second command)
# make check  lint, format and types
# make test-gpu, make bench-gpu  on a machine with a GPU
# make test-full  the heavy suites; needs DATA=folder with prompts_60x11.jsonl
PYTHON ?= python3
PIP = $(PYTHON) -m pip install --quiet --disable-pip-version-check
DATA ?= $(HYBRIDSPEC_DATA)
# One thread a worker: two workers on two cores would otherwise wait for each other in every product.
PYTEST = OMP_NUM_THREADS=1 $(PYTHON) -m pytest

.PHONY: install-dev test test-full test-gpu bench-gpu check format bench

install-dev:
	$(PIP) -c constraints.txt -e ".[dev]"
	$(PIP) --no-deps dflash==0.1.0  # an oracle; its own pins (datasets, tqdm) are not needed for it

test: install-dev
	$(PYTEST) -n 2 -m "not full and not gpu"

test-full: install-dev
	HYBRIDSPEC_DATA="$(DATA)" $(PYTEST) -n 2 -m full

# Installs nothing: a GPU machine has its own torch.
test-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu tests/gpu
	PYTHONPATH=src $(PYTHON) -m pytest tests/kernels --ignore tests/kernels/test_offline.py

# Checks and times every kernel and the whole pass; PEERS=folder with SGLang's, see docs/kernels.md.
bench-gpu:
	PYTHONPATH=src $(PYTHON) -m hybridspec.kernels.bench --out benchmarks/local $(if $(PEERS),--peers "$(PEERS)")

check: install-dev
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

format:
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format

bench:
	$(PYTHON) -m hybridspec bench speed --systems ar,static:4,static:5,static:6,dflash \
		--prompts "$(DATA)/prompts_60x11.jsonl" --split test --out benchmarks/local --plot
