# SPDX-License-Identifier: Apache-2.0
# A thin door to scripts/ and Meson. `make help` explains every target.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help build run check test test-full test-long test-starved bench fuzz sim sim-mutants sim-asserts interop interop-kube lint format coverage man docs install deb clean

RELEASE := build/release
COLD := about 2:30 on a bare 2-core machine
SEED ?= 1
COUNT ?= 1
FUZZ_SECONDS ?= 60
TIMES ?= 10
PREFIX ?= /usr/local

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

build: ## installs what is missing and builds muster and musterctl into build/release
	@scripts/setup build
	@scripts/configure $(RELEASE) -Dtests=false -Db_lto=true
	@scripts/build $(RELEASE) --expect '$(COLD)'

run: ## builds, then starts what exists: `muster dev` (Ctrl-C stops it)
	@STEP='[1/3] ' scripts/setup build
	@[ -f $(RELEASE)/build.ninja ] || echo '[2/3] configuring $(RELEASE) ...'
	@scripts/configure $(RELEASE) -Dtests=false -Db_lto=true
	@scripts/build $(RELEASE) --name '[2/3] compiling' --expect '$(COLD)'
	@echo '[3/3] starting the demo fleet'
	@exec $(RELEASE)/cmd/muster/muster dev $(ARGS)

check: ## after an edit: unit, property and layering tests, without sanitizers; a minute
	@STEP='make check: ' scripts/setup build test
	@scripts/test check $(ARGS)

test: ## before a push, and what CI runs: sanitizers on; eleven minutes. The last line counts
	@STEP='make test: ' scripts/setup build test
	@scripts/test test $(ARGS)

test-full: ## before a merge into log, leader, store, rpc or io: every test but the long ones; TSan too
	@STEP='make test-full: ' scripts/setup build test
	@scripts/test full $(ARGS)

test-long: ## what takes hours: bare chroot, thousands of seeds, long sweeps
	@scripts/setup build test long
	@scripts/test long $(ARGS)

test-starved: ## the tests of `make test` TIMES=10 times, while random processes of them are stopped; as root
	@scripts/setup build test
	@scripts/test --starved $(TIMES) test $(ARGS)

bench: ## measures each claim beside a peer in the same run; figures go to docs/ledger/benchmarks.md
	@scripts/setup build test bench
	@scripts/bench $(ARGS)

fuzz: ## every libFuzzer target for FUZZ_SECONDS=60 each (FUZZ=name for one)
	@scripts/setup build test fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz $(FUZZ)

sim: ## one simulated world: make sim SEED=7 [COUNT=100] [ARGS='--profile harsh']
	@scripts/setup build test
	@scripts/sim --seed $(SEED) --count $(COUNT) $(ARGS)

sim-mutants: ## each planted bug of the log, the store, the shard and membership, and what finds it; fails if one survives
	@scripts/setup build test
	@scripts/sim-mutants $(ARGS)
	@scripts/coord-mutants --list tests/sim/store_mutants.txt --build build/store-mutants
	@scripts/coord-mutants --scenario shard --list tests/sim/shard_mutants.txt --build build/shard-mutants
	@scripts/coord-mutants --scenario member --list tests/sim/member_mutants.txt --build build/member-mutants
	@scripts/coord-mutants --list tests/sim/worker_mutants.txt --build build/member-mutants
	@scripts/coord-mutants --list tests/sim/operator_mutants.txt --build build/member-mutants

sim-asserts: ## the engine's tests and seeds against the engine built with its assertions (needs its source)
	@scripts/setup build test
	@scripts/sim-asserts $(ARGS)

interop: ## foreign judges: toml-test, grpc-go's interop client, h2spec
	@scripts/setup build test interop
	@scripts/interop

interop-kube: ## the part of interop with a real kube-apiserver, before our client and on our etcd API
	@scripts/setup build test interop
	@scripts/configure build/plain
	@scripts/interop-kube

lint: ## clang-format over all code; clang-tidy, cppcheck and gcc -fanalyzer over what ships
	@scripts/setup build test lint
	@scripts/lint

format: ## rewrites the code with clang-format
	@scripts/setup lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

coverage: ## line and branch coverage of the tests, into build/coverage
	@scripts/setup build test coverage
	@scripts/coverage

man: build ## the manual pages into build/man; then: man -l build/man/man1/musterctl.1
	@scripts/manuals build/man build/man $(RELEASE)/cmd/muster/muster $(RELEASE)/cmd/musterctl/musterctl

docs: ## the documentation as a web site with a search, in build/docs; needs no server
	@scripts/setup docs
	@scripts/docs

install: build ## installs into PREFIX=/usr/local (DESTDIR is honoured)
	@meson configure $(RELEASE) --prefix $(PREFIX) >/dev/null
	@ninja -C $(RELEASE) --quiet
	@meson install -C $(RELEASE) --quiet --no-rebuild $(if $(DESTDIR),--destdir $(DESTDIR))

deb: ## builds the Debian packages into build/deb
	@STEP='[1/3] ' scripts/setup build long
	@scripts/deb

clean: ## removes build/
	@rm -rf build
