# make test   installs what the tests need into the active environment and runs them (the README's second command)
# make test-clients  lm-eval against the server, in an environment of its own (CLIENTS=FOLDER; 0.8 GB)
# make check  lint, format and types
# make test-gpu, make test-gpu-full, make bench-gpu, make sanitize-gpu  on a machine with a GPU
# make test-full  the heavy suites; needs DATA=folder with prompts_60x11.jsonl
PYTHON ?= python3
PIP = $(PYTHON) -m pip install --quiet --disable-pip-version-check
DATA ?= $(HYBRIDSPEC_DATA)
# One thread a worker: two workers on two cores would otherwise wait for each other in every product.
# Each begins with a half of the tests, so what a file's tests share is mostly made once.
PYTEST = OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 --dist worksteal

SANITIZER ?= compute-sanitizer

.PHONY: install-dev install-clients test test-full test-clients test-gpu test-gpu-full bench-gpu sanitize-gpu check format bench

install-dev:
	$(PIP) -c constraints.txt -e ".[dev]"
	$(PIP) --no-deps dflash==0.1.0  # an oracle; its own pins (datasets, tqdm) are not needed for it

test: install-dev
	$(PYTEST) -m "not full and not gpu and not clients"

test-full: install-dev
	HYBRIDSPEC_DATA="$(DATA)" $(PYTEST) -m full

# Its pins are not ours, and installing it takes longer than all that it asks.
CLIENTS ?= .venv-clients
install-clients:
	@test -x "$(CLIENTS)/bin/lm_eval" || { $(PYTHON) -m venv "$(CLIENTS)" && \
		"$(CLIENTS)/bin/pip" install --quiet "lm-eval[api]==0.4.13"; }

test-clients: install-dev install-clients
	HYBRIDSPEC_LM_EVAL="$(abspath $(CLIENTS))/bin/lm_eval" OMP_NUM_THREADS=1 $(PYTHON) -m pytest -m clients

# Installs nothing: a GPU machine has its own torch.
test-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -m "gpu and not full" tests/gpu
	PYTHONPATH=src $(PYTHON) -m pytest -m "not full" tests/kernels --ignore tests/kernels/test_offline.py

# The same promises on many prompts and long answers: some minutes more.
test-gpu-full:
	PYTHONPATH=src $(PYTHON) -m pytest -m "gpu and full" tests/gpu

# Checks and times every kernel and the whole pass; PEERS=folder with SGLang's, see docs/kernels.md.
bench-gpu:
	PYTHONPATH=src $(PYTHON) -m hybridspec.kernels.bench --out benchmarks/local $(if $(PEERS),--peers "$(PEERS)")

# Every kernel once under each tool, a minute each. SANITIZER=PATH where it is not on the PATH. Without
# the allocator's cache every tensor is an allocation of its own, whose end is seen. Left out: calls
# to the driver that fail and are tried in another way (its bindings do that). In asynchronous copies
# of cuBLAS and cuDNN racecheck sees hazards: those named nvjet and cudnn are not ours.
sanitize-gpu:
	@command -v "$(SANITIZER)" > /dev/null || \
		{ echo "$(SANITIZER) is not here: it comes with the CUDA toolkit. SANITIZER=PATH names it."; exit 1; }
	@failed=0; for tool in memcheck racecheck; do \
		echo "$$tool:"; \
		PYTHONPATH=src PYTORCH_NO_CUDA_MEMORY_CACHING=1 "$(SANITIZER)" --tool $$tool --print-limit 20 \
			--report-api-errors no --error-exitcode 9 $(PYTHON) -m hybridspec.kernels.bench.once --seconds 60 || failed=1; \
	done; exit $$failed

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
