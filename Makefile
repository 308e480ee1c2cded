# make demo packs and runs a small pruned network, make test runs the tests. Both first set up what they need, in .venv.

VENV := .venv
RUN := $(VENV)/bin
SYSTEM_PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
PIP := $(RUN)/python -m pip --disable-pip-version-check -q
NATIVE := $(shell find runtime_c targets/cuda/emulator -name '*.[ch]' -o -name '*.def' -o -name '*.in' -o -name CMakeLists.txt)
C_FILES := $(shell find runtime_c targets $(wildcard examples) tests -name "*.[ch]")
SANITIZERS := address,undefined
PYTEST_ARGS ?= -n auto
BENCH_ARGS ?=
SECONDS ?= 600

.PHONY: help demo test slow bench lint format native fuzz clean

help:
	@echo "make demo    pack a small pruned network, test it and classify real digits with it"
	@echo "make test    run the tests, but for those that need more than a few seconds each"
	@echo "make slow    run those: cross-built for aarch64, sanitized, fuzzed, emulated, on large and many random networks"
	@echo "make bench   measure against onnxruntime and print the tables (BENCH_ARGS=--quick for a short run)"
	@echo "make lint    check style and types"
	@echo "make native  build the C library with warnings as errors and with sanitizers, and run its tests"
	@echo "make fuzz    open and run mutants of bundles of every kernel, with sanitizers, for SECONDS=600"
	@echo "make format  rewrite sources in the project's style"
	@echo "make clean   remove everything that was built"

demo: $(VENV)/.demo
	@$(RUN)/edgert demo

test: $(VENV)/.test
	$(RUN)/python -m pytest $(PYTEST_ARGS) -m "not slow"

slow: $(VENV)/.test
	$(RUN)/python -m pytest $(PYTEST_ARGS) -m slow

bench: $(VENV)/.test
	$(RUN)/python -m benchmarks $(BENCH_ARGS)

lint: $(VENV)/.test
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/clang-format --dry-run -Werror $(C_FILES)

format: $(VENV)/.test
	$(RUN)/ruff check --fix .
	$(RUN)/clang-format -i $(C_FILES)

native: $(VENV)/.test
	$(call c_tests,native,-DCMAKE_BUILD_TYPE=Release -DEDGERT_WERROR=ON)
	$(call c_tests,sanitized,-DCMAKE_BUILD_TYPE=Debug -DEDGERT_SANITIZE=$(SANITIZERS))
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  EDGERT_TEST_KERNELS=build/sanitized/tests/kernels.so EDGERT_LIBRARY=build/sanitized/libedgert.so \
	  EDGERT_TEST_CUDA=build/sanitized/cuda-emulator/libcuda-emulator.so \
	  $(RUN)/python -m pytest -q $(PYTEST_ARGS) -p no:cacheprovider -m "not slow" tests/runtime_c/kernels \
	    $(wildcard tests/edgert/test_device*.py)

fuzz: $(VENV)/.test
	$(RUN)/cmake -S runtime_c -B build/sanitized -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(RUN)/ninja \
	  -DCMAKE_BUILD_TYPE=Debug -DEDGERT_SANITIZE=$(SANITIZERS)
	$(RUN)/cmake --build build/sanitized --target fuzz
	$(RUN)/python -m tests.fuzz.seeds --all build/seeds
	build/sanitized/tests/fuzz/fuzz build/seeds $(SECONDS) $$(date +%s)

# c_tests(folder,options): the C library, its tools and its tests, built and run. (Sanitizers make gcc warn for nothing.)
define c_tests
	$(RUN)/cmake -S runtime_c -B build/$(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(RUN)/ninja $(2)
	$(RUN)/cmake --build build/$(1)
	$(RUN)/ctest --test-dir build/$(1) --output-on-failure
endef

clean:
	rm -rf $(VENV) build dist edgert-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

# An editable install of the package with what the command needs; again when the C sources or the requirements changed.
$(VENV)/.demo $(VENV)/.test: $(VENV)/.%: pyproject.toml $(NATIVE) | $(RUN)/pip
	@command -v cc >/dev/null || { echo "A C compiler is needed, for example: apt-get install gcc libc6-dev"; exit 1; }
	@echo "Installing edgert[$*] in $(VENV): the first time this takes a minute or two ..."
	@$(PIP) install -e '.[$*]'
	@touch $@

# A virtual environment with pip, whichever of Debian's packages for that are installed.
$(RUN)/pip:
	@test -n "$(SYSTEM_PYTHON)" || { echo "Python 3.11 or newer is needed, for example: apt-get install python3"; exit 1; }
	@rm -rf $(VENV)
	@$(SYSTEM_PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	  || { $(SYSTEM_PYTHON) -m venv --clear --without-pip $(VENV) \
	       && $(SYSTEM_PYTHON) -m pip --python $(RUN)/python install -q pip; } 2>/dev/null \
	  || $(SYSTEM_PYTHON) -m virtualenv -q --clear $(VENV) 2>/dev/null \
	  || { test "$$(id -u)" = 0 && apt-get install -y -q python3-venv && $(SYSTEM_PYTHON) -m venv --clear $(VENV); } \
	  || { rm -rf $(VENV); echo "A virtual environment cannot be made here; install one of: python3-venv, python3-pip"; exit 1; }
	@$(RUN)/python -m pip --version >/dev/null
