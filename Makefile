# The front door. Each target installs what it needs and says so.
#   make            the program, at build/winnow
#   make demo       a 32K-token document and its question (SEED=7)
#   make test       lint, build with CUDA, all tests that need no GPU
#                   (TEST_PRESET=release: without CUDA)
#   make test-clients  the clients of others that `make test` leaves out, pinned,
#                   schemathesis and a browser, against a running server
#                   (MINUTES=10 of schemathesis); make test-evaluators  lm-eval
#                   and guidellm (0.9 GB in .tools)
#   make soak       a server under random load, each answer compared, memory
#                   and counters held (MINUTES=60)
#   make cuda       the program with CUDA, at build/winnow
#   make bench      the measured figures, into bench/results/
#   make compare    llama.cpp built here, and measured beside Winnow
#   make mutants    planted bugs that tests must catch (ONLY=backend/read)
#   make lint format asan tsan fuzz
#   make install PREFIX=/usr/local     what was built last; make uninstall
#   make deb        the Debian package, in build/ (PRESET=cuda: with CUDA)
#   make test-deb   installs and removes it in a folder, and asks lintian
SHELL := /bin/bash
.DEFAULT_GOAL := winnow
PRESET ?= release
JOBS ?= $(shell nproc)
SEED ?= 7
PREFIX ?= /usr/local
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# The CUDA code is compiled by `make test` where its compiler is to be had.
ifeq ($(shell uname -m),x86_64)
TEST_PRESET ?= cuda
else
TEST_PRESET ?= release
endif
TEST_PURPOSE := $(if $(filter cuda,$(TEST_PRESET)),cuda,test)

# Goals of one command line share a build folder; each uses all cores itself.
.NOTPARALLEL:
.PHONY: winnow cuda demo test test-clients test-evaluators soak bench compare \
  lint format mutants asan tsan fuzz install uninstall deb test-deb clean

winnow:
	@scripts/bootstrap build
	@scripts/build release documents
	@ln -sf release/src/cli/winnow build/winnow

cuda:
	@scripts/bootstrap cuda
	@scripts/build cuda documents
	@ln -sf cuda/src/cli/winnow build/winnow

demo:
	@[ -e build/winnow ] || echo "demo: builds the program first: on two cores \
	eight to fifteen minutes; then reads 32K tokens in less than a minute" >&2
	@$(MAKE) --no-print-directory winnow
	@python3 scripts/demo "$(SEED)"

lint:
	@scripts/bootstrap lint
	@python3 scripts/lint.py

format:
	@scripts/bootstrap lint
	@python3 scripts/lint.py --format

test: lint
	@scripts/bootstrap $(TEST_PURPOSE)
	@scripts/bootstrap gates
	@scripts/bootstrap clients-light
	@scripts/build $(TEST_PRESET) all
	@ln -sf $(TEST_PRESET)/src/cli/winnow build/winnow
	@ctest --test-dir build/$(TEST_PRESET) -j $(JOBS) -LE gpu --output-on-failure \
	  --no-tests=error

test-clients: winnow
	@scripts/bootstrap clients
	@scripts/bootstrap browser
	@.tools/clients/bin/python tests/clients/strict_answers_test.py build/winnow
	@tests/clients/record build/winnow --purpose clients --check
	@.tools/clients/bin/python tests/clients/schemathesis_test.py build/winnow \
	  $(if $(MINUTES),--minutes $(MINUTES))
	@python3 tests/system/page_test.py build/winnow

test-evaluators: winnow
	@scripts/bootstrap evaluators
	@tests/clients/record build/winnow --purpose evaluators --check

soak: winnow
	@mkdir -p build/soak
	@tests/load/soak.py build/winnow --minutes "$(or $(MINUTES),60)" --seed "$(SEED)" \
	  --json build/soak/figures.json

# All tests under the sanitizers.
asan tsan:
	@scripts/bootstrap test
	@scripts/bootstrap gates
	@scripts/bootstrap clients-light
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

# What was built last, with CUDA or without. All may read it, whatever the
# umask of who installs.
BUILT = build/$$(readlink build/winnow | cut -d / -f 1)
install:
	@test -x "$(BUILT)/src/cli/winnow" || $(MAKE) winnow
	@umask 022; DESTDIR="$(DESTDIR)" \
	  cmake --install "$(BUILT)" --prefix "$(PREFIX)"

# What `make install` put there last.
uninstall:
	@while IFS= read -r file || [ -n "$$file" ]; do \
	  rm -fv -- "$(DESTDIR)$$file"; \
	done <"$(BUILT)/install_manifest.txt"

# Who builds is who maintains, in the variables of Debian's own tools.
deb:
	@scripts/bootstrap $(if $(filter cuda,$(PRESET)),cuda,build)
	@scripts/bootstrap deb
	@scripts/build $(PRESET) documents
	@umask 022; cpack --config build/$(PRESET)/CPackConfig.cmake -B build/$(PRESET)/deb \
	  -D CPACK_DEBIAN_PACKAGE_MAINTAINER="$${DEBFULLNAME:-Winnow} \
	<$${DEBEMAIL:-winnow@localhost}>"
	@cp -v build/$(PRESET)/deb/*.deb build/

test-deb: deb
	@scripts/bootstrap test-deb
	@python3 tests/package/deb_check.py build/winnow_*.deb

clean:
	rm -rf build
