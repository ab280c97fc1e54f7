# `make` prints what there is. Everything that a target needs, it sets up itself.
.DEFAULT_GOAL := help
SHELL := bash

.PHONY: help
help: ## Print this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start the demo: PostgreSQL, producers, workers and a live view (q quits)
	@scripts/setup
	cargo build --package bugle-cli
	@target/debug/bugle demo

.PHONY: test
test: ## Check the code and run every suite
	@scripts/suites all

.PHONY: check
check: ## Format, lints, docs, licences and sources of dependencies
	@scripts/suites check

.PHONY: test-pg
test-pg: ## Run every suite on another PostgreSQL: make test-pg PG=14|16|17|18
	@scripts/setup tests
	@scripts/test-pg $(or $(PG),$(error say which version: make test-pg PG=17)) --workspace

.PHONY: chaos
chaos: ## The large model, the long form of the fault matrix and of the stress test (FOR=60 seconds each row, some 18 minutes)
	@scripts/setup tests
	@BUGLE_CHAOS_SECONDS=$(or $(FOR),60) BUGLE_STRESS_SECONDS=$(or $(FOR),60) scripts/suites long

.PHONY: bench
bench: ## Measure, and print figures; bugle bench NAME --help tells how (some 50 minutes, --quick forms there)
	@scripts/setup
	cargo build --release --package bugle-cli
	@for name in floor jobs backlog hold crash wake latency due idle succession; do \
		echo "bench $$name"; target/release/bugle bench $$name --ephemeral || exit; echo; \
	done

.PHONY: docs
docs: ## Build the API documentation
	cargo doc --workspace --no-deps
	@echo "open target/doc/bugle/index.html"
