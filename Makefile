# The front door. Each target installs what it needs and says so.
#   make            the program, at build/winnow
#   make demo       a 32K-token document and its question (SEED=7)
#   make test       lint, build with CUDA, all tests that need no GPU
#   make cuda       the program with CUDA, at build/winnow
#   make bench      the measured figures, into bench/results/
#   make compare    llama.cpp built here, and measured beside Winnow
#   make mutants    planted bugs that tests must catch (ONLY=backend/read)
#   make lint format asan tsan fuzz
#   make install PREFIX=/usr/local
SHELL := /bin/bash
.DEFAULT_GOAL := winnow
JOBS ?= $(shell nproc)
SEED ?= 7
PREFIX ?= /usr/local
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# Goals of one command line share a build folder; each uses all cores itself.
.NOTPARALLEL:
.PHONY: winnow cuda demo test bench compare lint format mutants asan tsan fuzz install clean

winnow:
	@scripts/bootstrap build
	@scripts/build release winnow
	@ln -sf release/src/cli/winnow build/winnow

cuda:
	@scripts/bootstrap cuda
	@scripts/build cuda winnow
	@ln -sf cuda/src/cli/winnow build/winnow

demo: winnow
	@python3 scripts/demo $(SEED)

lint:
	@scripts/bootstrap lint
	@python3 scripts/lint.py

format:
	@scripts/bootstrap lint
	@python3 scripts/lint.py --format

test: lint
	@scripts/bootstrap cuda
	@scripts/build cuda all
	@ln -sf cuda/src/cli/winnow build/winnow
	@ctest --test-dir build/cuda -j $(JOBS) -LE gpu --output-on-failure \
	  --no-tests=error

# All tests under the sanitizers.
asan tsan:
	@scripts/bootstrap test
	@scripts/build $@ all
	@ctest --test-dir build/$@ -j $(JOBS) -LE gpu --output-on-failure \
	  --no-tests=error

mutants:
	@scripts/bootstrap test
	@python3 scripts/mutants.py --only "$(ONLY)" --jobs $(JOBS)

fuzz:
	@scripts/bootstrap fuzz
	@scripts/fuzz $(SECONDS_EACH)

bench: winnow
	@scripts/bench

compare: winnow
	@scripts/bootstrap compare
	@bench/compare_llama_cpp

install: winnow
	install -D -m 755 build/release/src/cli/winnow $(DESTDIR)$(PREFIX)/bin/winnow

clean:
	rm -rf build
