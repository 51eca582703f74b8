# `make help` lists what there is. Everything needs Go; what starts Postgres needs a Postgres installation or DATABASE_URL.

GO ?= go
# Built from their own modules on first use (minutes), then kept in Go's build cache.
SQLC ?= $(GO) tool -modfile=$(CURDIR)/tools/sqlc/go.mod sqlc
GOLANGCI ?= $(GO) tool -modfile=$(CURDIR)/tools/golangci-lint/go.mod golangci-lint

ARGS ?=
COUNT ?= 20
SOAK ?= 3
PKG ?= ./...

TEST = @GO="$(GO)" tools/test.sh "$(PKG)"

BUILD = CGO_ENABLED=0 $(GO) build -trimpath -o bin/worker ./cmd/worker

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Show it at work on a private Postgres, then serve until Ctrl-C (ARGS="--once" to stop by itself)
	@$(BUILD) && exec bin/worker dev $(ARGS)

.PHONY: test
test: export BERTH_TESTKUBE ?= none
test: ## Run all tests but those on a Kubernetes control plane (PKG=./reconcile for one package)
	$(TEST) -short -timeout 20m

.PHONY: race
race: export BERTH_TESTKUBE ?= none
race: ## The same under the race detector, nothing from the cache
	$(TEST) -short -race -count=1 -timeout 40m

.PHONY: test-kube
test-kube: testkube vet-testkube ## Run all tests of the packages that use the control plane, under the race detector
	@GO="$(GO)" tools/test.sh "./provisioner/kubernetes/... ./cmd/worker/bench ./internal/trials" -short -race -count=1 -timeout 60m

.PHONY: soak
soak: export BERTH_SOAK = $(SOAK)
soak: testkube ## Run all tests again and again under the race detector, some of them at more length (COUNT=20 SOAK=3)
	$(TEST) -race -count=$(COUNT) -failfast -timeout 24h

.PHONY: bench
bench: bench-postgres bench-cluster ## Measure side by side with bare River jobs, pgbench and plain apply on a control plane, and print the ratios

.PHONY: bench-postgres
bench-postgres: ## What of it needs no cluster, with the machine to itself
	@$(BUILD) && exec bin/worker bench $(ARGS)

.PHONY: bench-cluster
bench-cluster: ## What of it is measured on a control plane
	@$(BUILD) && exec $(GO) run ./tools/testkube sh -c 'exec bin/worker bench --kubeconfig "$$KUBECONFIG" "$$@"' bench $(ARGS)

.PHONY: build
build: ## Build the worker into bin/, static
	$(BUILD)

.PHONY: testkube
testkube: ## Build the Kubernetes control plane that the tests run, if it is not in the cache: minutes, once
	@$(GO) run ./tools/testkube

.PHONY: fmt
fmt: ## Format the code
	gofmt -s -w .

.PHONY: generate
generate: ## Generate db/dbsqlc from db/queries and db/migrations
	rm -rf db/dbsqlc
	$(SQLC) generate

.PHONY: lint
lint: ## Lint, the import arrows and the formatting included
	$(GOLANGCI) run ./...

.PHONY: check
check: check-generated check-format vet lint check-arrows check-compose race ## Run all that CI runs

# The parts of `check`, for CI and for when one of them failed.

.PHONY: check-generated
check-generated:
	@tools/generated.sh $(SQLC)

.PHONY: check-format
check-format:
	@bad=$$(gofmt -s -l .); \
	if [ -n "$$bad" ]; then echo "not formatted: run \`make fmt\`:" >&2; echo "$$bad" >&2; exit 1; fi

.PHONY: vet
vet:
	$(GO) vet ./...

# Of the module that the linter does not see. It needs all that its build needs.
.PHONY: vet-testkube
vet-testkube:
	cd internal/testkube && $(GO) vet .

.PHONY: check-arrows
check-arrows:
	@tools/arrows.sh $(GOLANGCI)

# The values are only there to be filled in; nothing is started.
.PHONY: check-compose
check-compose:
	POSTGRES_PASSWORD=check RILL_ADMIN_PROVISIONER_SET_JSON='{}' RILL_ADMIN_DEFAULT_PROVISIONER=check \
		docker-compose -f compose.yaml config -q
