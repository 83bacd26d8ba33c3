# Everything that one does here. CI calls these and nothing else.

MODULES   := cmd deploy migrations pkg services
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The flags of the static programs stand wherever the compiler runs without the
# race detector, so that each package is compiled once and not three times.
STATIC    := CGO_ENABLED=0 GOFLAGS="-trimpath $(GOFLAGS)"
LOCAL     := $(STATIC) go run ./deploy/local
TOOLS     := .local/tools
CODEGEN   := $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc $(TOOLS)/sqlc
LINTERS   := $(TOOLS)/golangci-lint $(TOOLS)/gofumpt $(TOOLS)/govulncheck
GENERATED := pkg/pb $(wildcard services/*/internal/store/db)
FUZZTIME  ?= 30s

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## build every program into bin/, static, with the version inside
	$(LOCAL) build --version $(VERSION)

.PHONY: demo
demo: build ## run a stack of its own and walk through the main job (REPLICAS=2 runs two of each service)
	bin/muniment-local demo

.PHONY: up
up: build ## run the whole stack until Ctrl-C; .local/stack.env says where everything is
	bin/muniment-local up

.PHONY: reset
reset: ## end what earlier stacks left behind and remove their data and logs
	$(LOCAL) reset

.PHONY: test
test: ## run every test on real engines, with the race detector
	$(LOCAL) test

.PHONY: soak
soak: ## the same tests with the stated volumes of kills and races; takes much longer
	$(LOCAL) test --soak

.PHONY: bench
bench: ## run the benchmarks
	$(LOCAL) test --bench

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (30s)
	@set -e; for m in $(MODULES); do \
	  for p in $$(cd $$m && go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do \
	    for f in $$(cat $$p/*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do \
	      echo "fuzzing $$f in $$p"; (cd $$p && go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) .); \
	    done; \
	  done; \
	done

.PHONY: generate
generate: $(CODEGEN) .local/proto-deps ## make the generated code anew: protobuf and SQL
	$(TOOLS)/buf generate
	@set -e; for f in services/*/internal/store/sqlc.yaml; do echo "sqlc generate -f $$f"; $(TOOLS)/sqlc generate -f $$f; done

.PHONY: lint
lint: lint-modules lint-format lint-vet lint-go lint-proto lint-generated lint-vulnerabilities ## check everything that can be checked without running it
	@echo "lint: everything is as it should be"

# Module commands ignore the workspace file: whoever imports a module gets only
# what its own go.mod says. Vetting compiles the tests as well (T47).
.PHONY: lint-modules
lint-modules:
	@set -e; for m in $(MODULES); do echo "GOWORK=off go build ./... in $$m"; (cd $$m && $(STATIC) GOWORK=off go build -o /dev/null ./... && $(STATIC) GOWORK=off go vet ./...); done

.PHONY: lint-format
lint-format: $(LINTERS)
	@echo "gofumpt"; found=$$($(TOOLS)/gofumpt -l $(MODULES)); \
	if [ -n "$$found" ]; then $(TOOLS)/gofumpt -d $(MODULES); echo "not formatted (run $(TOOLS)/gofumpt -w):"; echo "$$found"; exit 1; fi

.PHONY: lint-vet
lint-vet:
	$(STATIC) go vet $(MODULES:%=./%/...)

.PHONY: lint-go
lint-go: $(LINTERS)
	@set -e; for m in $(MODULES); do echo "golangci-lint in $$m"; (cd $$m && $(STATIC) ../$(TOOLS)/golangci-lint run --config ../.golangci.yml ./...); done

# What a caller that was built yesterday sends and reads must stay the same. The
# first parent is what this commit is compared with; a first commit, a shallow
# clone and a parent without contracts have nothing to compare with.
.PHONY: lint-proto
lint-proto: $(CODEGEN) .local/proto-deps
	$(TOOLS)/buf lint
	@set -e; rm -rf .local/proto-before; \
	if [ -z "$$(git ls-tree HEAD^ proto/ 2>/dev/null)" ]; then echo "buf breaking: skipped, HEAD has no parent with a proto/"; exit 0; fi; \
	mkdir -p .local/proto-before/.local; cp -R .local/proto-deps .local/proto-before/.local/; \
	git archive HEAD^ proto buf.yaml | tar -x -C .local/proto-before; \
	echo "buf breaking"; $(TOOLS)/buf breaking --against .local/proto-before

.PHONY: lint-generated
lint-generated:
	@rm -rf .local/generated; mkdir -p .local/generated; for d in $(GENERATED); do mkdir -p .local/generated/$$d; cp -R $$d/. .local/generated/$$d; done
	@$(MAKE) --no-print-directory generate
	@for d in $(GENERATED); do diff -r .local/generated/$$d $$d || { echo "generated code was not up to date; it is now: look at it and commit it"; exit 1; }; done

# Status 3 says that a vulnerability was found; any other failure, that the
# database could not be reached.
.PHONY: lint-vulnerabilities
lint-vulnerabilities: $(LINTERS)
	@for m in $(MODULES); do echo "govulncheck in $$m"; (cd $$m && $(STATIC) ../$(TOOLS)/govulncheck ./...) > .local/govulncheck.log 2>&1; status=$$?; \
	if [ $$status -eq 3 ]; then cat .local/govulncheck.log; exit 1; fi; \
	if [ $$status -ne 0 ]; then echo "  skipped: $$(tail -n 1 .local/govulncheck.log)"; exit 0; fi; done

# Tools are built from their own pinned modules, outside of the workspace.
$(TOOLS)/buf: PACKAGE := github.com/bufbuild/buf/cmd/buf
$(TOOLS)/protoc-gen-go: PACKAGE := google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/protoc-gen-go-grpc: PACKAGE := google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS)/sqlc: PACKAGE := github.com/sqlc-dev/sqlc/cmd/sqlc
$(TOOLS)/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/gofumpt: PACKAGE := mvdan.cc/gofumpt
$(TOOLS)/govulncheck: PACKAGE := golang.org/x/vuln/cmd/govulncheck

$(CODEGEN): deploy/tools/codegen/go.sum
$(LINTERS): deploy/tools/lint/go.sum
$(CODEGEN) $(LINTERS):
	@echo "building $(@F) from $(<D) (the first time takes a while)"
	@cd $(<D) && GOWORK=off go build -o $(CURDIR)/$@ $(PACKAGE)
	@touch $@

# The contracts that ours import, copied out of the module cache.
PROTOVALIDATE := github.com/bufbuild/protovalidate@v1.2.2
GOOGLEAPIS    := github.com/grpc-ecosystem/grpc-gateway@v1.16.0

.local/proto-deps: deploy/tools/codegen/go.sum
	@rm -rf $@; mkdir -p $@/buf/validate $@/google/api
	@cd deploy/tools/codegen && validate=$$(GOWORK=off go mod download -json $(PROTOVALIDATE) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	  apis=$$(GOWORK=off go mod download -json $(GOOGLEAPIS) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	  install -m 644 "$$validate/proto/protovalidate/buf/validate/validate.proto" $(CURDIR)/$@/buf/validate/ && \
	  install -m 644 "$$apis/third_party/googleapis/google/api/annotations.proto" "$$apis/third_party/googleapis/google/api/http.proto" $(CURDIR)/$@/google/api/
