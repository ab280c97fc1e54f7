# `make` prints what there is. Everything that a target needs, it sets up itself.
.DEFAULT_GOAL := help
SHELL := bash

.PHONY: help
help: ## Print this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start the broker with a private PostgreSQL: prints its address and curl lines to try (Ctrl-C stops)
	@scripts/setup
	cargo build --package bugle-cli
	@target/debug/bugle serve

.PHONY: demo
demo: ## See jobs at work: PostgreSQL, producers, workers and a live view (q quits)
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

.PHONY: clients
clients: ## Drive the server with the published Python clients of Queen MQ (from PyPI, into target/python)
	@scripts/setup tests
	@scripts/clients

.PHONY: schema-test
schema-test: ## Test the server with requests made of its OpenAPI document, by schemathesis (from PyPI, into target/python)
	@scripts/setup tests
	@scripts/schema-test

.PHONY: chaos
chaos: ## The large model, the long form of the fault matrix and of the stress test (FOR=60 seconds each row, some 18 minutes)
	@scripts/setup tests
	@BUGLE_CHAOS_SECONDS=$(or $(FOR),60) BUGLE_STRESS_SECONDS=$(or $(FOR),60) scripts/suites long

.PHONY: bench
bench: ## Measure, and print figures; bugle bench NAME --help tells how (over an hour, --quick forms there)
	@scripts/setup
	cargo build --release --package bugle-cli
	@for name in floor jobs backlog hold crash wake latency due idle succession durable broker; do \
		echo "bench $$name"; target/release/bugle bench $$name --ephemeral || exit; echo; \
	done

.PHONY: bench-durable
bench-durable: ## Measure durable execution beside the other providers for duroxide, built in a workspace of their own (some 15 minutes)
	@scripts/setup
	cargo build --release --package bugle-cli
	cargo build --release --locked --manifest-path bench/durable-peers/Cargo.toml --target-dir target/durable-peers
	@target/release/bugle bench durable --ephemeral --peers target/durable-peers/release/durable-peers

.PHONY: docs
docs: ## Build the API documentation
	cargo doc --workspace --no-deps
	@echo "open target/doc/bugle/index.html"
