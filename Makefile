# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

OUT := _output
BIN := $(OUT)/bin

# Variables of the user; docs/emulated-node.md and docs/drop-in.md explain them.
KUBELET ?= ours
KUBE_VERSION ?=
POD ?=
POLICY ?=
SCOPE ?=
SHAPE ?=
KEEP ?=
RUN ?=
BENCHTIME ?= 300ms
TREE ?=
REPLACE ?=
PKGS ?=
EXCLUSIVE_STARTS ?=
EXCLUSIVE_PERIOD ?=
SOAK_ADMISSIONS ?=
SOAK_SEED ?=
FOCUS ?=
FRESH ?=
HOST ?=

ifeq ($(filter $(KUBELET),ours stock),)
$(error KUBELET is "$(KUBELET)": want ours or stock)
endif
kubelet-binary := $(BIN)/$(if $(filter stock,$(KUBELET)),kubelet-stock,kubelet)

.PHONY: help
help: ## list the targets (this text)
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "variables of run:  POD=file  POLICY=single-numa-node  SCOPE=pod|container  KEEP=1 (a shell on the guest)"
	@echo "                   SHAPE=\"2 nodes, 6 cores, 2 threads, 20Gi each\""
	@echo "of run and tests:  KUBELET=ours|stock  KUBE_VERSION=v1.37.x"
	@echo "of drop-in:        TREE=folder  KUBE_VERSION=v1.37.x  REPLACE=1 (patches of your own there may go)"
	@echo "of test-upstream:  PKGS=\"pkg/kubelet/cm/... pkg/kubelet/server\"  KUBE_VERSION=v1.37.x"
	@echo "of test-e2e-node:  RUN=regexp  HOST=user@host  EXCLUSIVE_STARTS=100  EXCLUSIVE_PERIOD=1m"
	@echo "                   SOAK_ADMISSIONS=200  SOAK_SEED=number"
	@echo "of test-e2e-upstream:  FOCUS=regexp  FRESH=1  HOST=user@host  KUBELET=ours|stock"

run-args = -out $(OUT) -kubelet $(kubelet-binary) -pod '$(POD)' -policy '$(POLICY)' -scope '$(SCOPE)' -shape '$(SHAPE)'

# The builder itself runs here, whatever the kubelet is built for.
kubetree := env -u GOARCH -u GOOS go run ./hack/kubetree

.PHONY: run
run: deps run-check kubelet-$(KUBELET) tools ## run the reference pods on an emulated NUMA node and print where they are
	@exec $(BIN)/podrun $(run-args) $(if $(filter-out 0,$(KEEP)),-keep)

# A slip in a variable is told before anything is built.
.PHONY: run-check
run-check: | $(BIN)
	@echo "run: building the program that drives the guest"
	@go build -o $(BIN)/podrun ./test/e2e_node/podrun
	@$(BIN)/podrun $(run-args) -check

.PHONY: test
test: ## vet, unit tests and golden scripts; boots nothing
	@echo "make test: go vet and go test of every package"
	@go vet ./...
	@go vet -tags e2enode ./test/e2e_node/...
	@go test ./...
	@echo "make test: passed"

.PHONY: podslice
podslice: | $(BIN) ## build the command line, a static binary, in seconds (docs/cli.md)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/podslice ./cmd/podslice
	@echo "podslice: $(BIN)/podslice"

.PHONY: drop-in
drop-in: ## put our packages into your own Kubernetes 1.37 checkout: make drop-in TREE=folder (docs/drop-in.md)
	@$(kubetree) drop-in -kube-version '$(KUBE_VERSION)' -tree '$(TREE)' $(if $(filter-out 0,$(REPLACE)),-replace)

# What must compile beside the tests: upstream's node e2e suite, and the kubelet
# for other systems.
upstream-steps := test/e2e_node,arm64,windows,windows-tests

.PHONY: test-upstream
test-upstream: ## upstream's own unit tests with our packages in its tree (PKGS="pkg/kubelet/cm/...")
	@$(kubetree) test-upstream -out $(OUT) -kube-version '$(KUBE_VERSION)' $(if $(PKGS),-pkgs '$(PKGS)',-steps $(upstream-steps))

.PHONY: check-release
check-release: ## judge another patch release: make check-release KUBE_VERSION=v1.37.x
	@$(kubetree) check-release -out $(OUT) -kube-version '$(KUBE_VERSION)' -steps $(upstream-steps)

.PHONY: bench
bench: | $(BIN) ## measure our packages beside the kubelet's own, about 10 minutes (docs/performance.md)
	@echo "make bench: both sides on the same inputs, in one run"
	@go test -p 1 ./test/differential/... -run - -bench . -benchtime $(BENCHTIME) -timeout 60m | tee $(OUT)/bench.txt
	@echo "make bench: the output is in $(OUT)/bench.txt"

# The modules are compiled one after the other: each is most of a kubelet.
.PHONY: statefiles
statefiles: ## have Kubernetes 1.35, 1.36 and 1.37 write state files and start on ours (test/upgrade/testdata); minutes of compiling
	@echo "statefiles: ours"
	@go test ./test/upgrade -count=1 -run 'TestCases|TestFiles' -rewrite
	@for release in v1.35 v1.36 v1.37; do \
		echo "statefiles: $$release"; \
		(cd hack/statefiles/$$release && GOWORK=off GOFLAGS= go run . $(CURDIR)/test/upgrade/testdata); \
	done
	@echo "statefiles: what podslice does with them"
	@go test ./test/upgrade -count=1 -run 'TestFromOtherReleases|TestGoingBack' -rewrite
	@go test ./test/upgrade -count=1
	@echo "statefiles: done; read the difference"

.PHONY: test-long
test-long: SCENARIOS ?= 100000
test-long: EVENTS ?= 1000000
test-long: ## 100,000 scenarios beside the kubelet's own managers, some under the race detector, and a million events on a model, about an hour (SCENARIOS=n EVENTS=n)
	@echo "make test-long: $(SCENARIOS) scenarios on our CPU manager and on the kubelet's own, state files in memory"
	@PODSLICE_SCENARIOS=$(SCENARIOS) go test -count=1 -timeout 120m -v -run 'TestScenarios|TestProperties' ./test/differential/cpumanager/scenarios
	@echo "make test-long: the same with the race detector, a twentieth as many"
	@PODSLICE_SCENARIOS=$$(( $(SCENARIOS) / 20 )) go test -race -count=1 -timeout 120m -v -run 'TestScenarios|TestProperties' ./test/differential/cpumanager/scenarios
	@echo "make test-long: $(SCENARIOS) scenarios on our memory manager and on the kubelet's own"
	@PODSLICE_SCENARIOS=$(SCENARIOS) go test -count=1 -timeout 120m -v -run TestScenarios ./test/differential/memorymanager
	@echo "make test-long: ten times as many merges of the topology managers"
	@PODSLICE_SCENARIOS=$$(( $(SCENARIOS) * 10 )) go test -count=1 -timeout 120m -v -run MergesAlike ./test/differential/topologymanager
	@echo "make test-long: $(SCENARIOS) small pods on all three managers, held against the rules of docs/semantics.md"
	@PODSLICE_SCENARIOS=$(SCENARIOS) go test -count=1 -timeout 60m -v -run TestShapes ./test/semantics
	@echo "make test-long: $(EVENTS) events on our managers, held against a plain model"
	@PODSLICE_EVENTS=$(EVENTS) go test -count=1 -timeout 120m -v -run TestModel ./test/model
	@echo "make test-long: every fault of every write of 300 admissions"
	@PODSLICE_SCENARIOS=$(SCENARIOS) go test -count=1 -timeout 60m -v -run TestEveryFaultOfEveryWrite ./test/managers | grep -v '^ *--- PASS\|^=== '
	@echo "make test-long: passed"

.PHONY: faults
faults: ## play each known fault of the kubelet's own managers on them and on ours, about a minute (docs/faults.md)
	@go test -count=1 -v -run TestFaults ./test/differential/faults | grep -Ev '^ *(===|--- PASS)'

.PHONY: test-e2e-node test-e2e-node-all
test-e2e-node: e2e-cases := $(if $(RUN),,-short)
test-e2e-node: e2e-second := $(if $(RUN),kubelet-stock)
test-e2e-node: deps kubelet-$(KUBELET) $(if $(RUN),kubelet-stock suite) tools podslice ## pods of every kind on an emulated node, every value asserted: a smoke test (RUN=regexp: all of some tests)
	@$(e2e-node)
test-e2e-node-all: e2e-cases :=
test-e2e-node-all: e2e-second := kubelet-stock
test-e2e-node-all: deps kubelet-$(KUBELET) kubelet-stock suite tools podslice ## the same with all cases
	@$(e2e-node)

e2e-node = echo "make $@: $(kubelet-binary) on $(or $(HOST),an emulated node)"; \
	PODSLICE_OUT=$(CURDIR)/$(OUT) PODSLICE_KUBELET=$(CURDIR)/$(kubelet-binary) \
	PODSLICE_HOST='$(HOST)' PODSLICE_CLI=$(CURDIR)/$(BIN)/podslice PODSLICE_SUITE=$(if $(e2e-second),1) \
	PODSLICE_STOCK=$(if $(e2e-second),$(CURDIR)/$(BIN)/$(e2e-second)) SOAK_ADMISSIONS='$(SOAK_ADMISSIONS)' SOAK_SEED='$(SOAK_SEED)' \
	EXCLUSIVE_STARTS='$(EXCLUSIVE_STARTS)' EXCLUSIVE_PERIOD='$(EXCLUSIVE_PERIOD)' \
	go test -tags e2enode -count=1 -timeout $(if $(e2e-cases),2h,24h) -v $(e2e-cases) $(if $(RUN),-run '$(RUN)') ./test/e2e_node; \
	echo "make $@: passed"

.PHONY: test-e2e-upstream suite
test-e2e-upstream: deps kubelet-$(KUBELET) tools suite | $(BIN) ## upstream's node e2e suite on an emulated node, hours; an interrupted run goes on (docs/testing.md)
	@echo "make $@: $(kubelet-binary) under upstream's node e2e suite"
	@go build -o $(BIN)/suiterun ./test/e2e_node/suiterun
	@$(BIN)/suiterun -out $(OUT) -kubelet $(kubelet-binary) -focus '$(FOCUS)' -host '$(HOST)' $(if $(filter stock,$(KUBELET)),-stock) $(if $(filter-out 0,$(FRESH)),-fresh)
	@echo "make $@: passed"

suite: ## build upstream's node e2e suite from the module
	@$(kubetree) suite -out $(OUT) -kube-version '$(KUBE_VERSION)'

.PHONY: kubelet kubelet-ours kubelet-stock
kubelet: ## build _output/bin/kubelet from upstream's tree and our packages (GOARCH=arm64: _output/bin/kubelet-arm64)
	@$(kubetree) build -out $(OUT) -kube-version '$(KUBE_VERSION)' \
		$(if $(GOARCH),-goarch $(GOARCH) -o $(BIN)/kubelet-$(GOARCH))

kubelet-ours: override GOARCH :=
kubelet-ours: kubelet

kubelet-stock: ## build _output/bin/kubelet-stock, upstream's kubelet unchanged
	@$(kubetree) build -out $(OUT) -kube-version '$(KUBE_VERSION)' -stock

.PHONY: tools
tools: $(BIN)/.containerd.stamp $(BIN)/.runc.stamp $(BIN)/.cni.stamp ## build containerd, runc, CNI plugins and our programs for the guest
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o $(BIN)/ ./test/e2e_node/{nodereport,cpuwitness,pagewitness,deviceplugin,pacedrunc}

# Each tool is pinned by a module of its own. The stamp is written last, so that
# an interrupted build is done again.
tool-build = cd hack/tools/$(1) && GOWORK=off GOFLAGS= go build -trimpath -buildvcs=false -o $(CURDIR)/$(BIN)/
tool-static := -ldflags '-s -w'

$(BIN)/.containerd.stamp: hack/tools/containerd/go.mod hack/tools/containerd/go.sum | $(BIN)
	@echo "tools: building containerd, its shim and ctr"
	@export CGO_ENABLED=0; $(call tool-build,containerd) $(tool-static) \
		github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
	@touch $@

# Without seccomp no sandbox starts, and seccomp needs cgo.
$(BIN)/.runc.stamp: hack/tools/runc/go.mod hack/tools/runc/go.sum | $(BIN) deps
	@echo "tools: building runc"
	@export CGO_ENABLED=1; $(call tool-build,runc) -tags 'seccomp netgo osusergo' -ldflags '-s -w -extldflags -static' \
		github.com/opencontainers/runc
	@touch $@

$(BIN)/.cni.stamp: hack/tools/cni/go.mod hack/tools/cni/go.sum | $(BIN)
	@echo "tools: building CNI plugins"
	@export CGO_ENABLED=0; $(call tool-build,cni) $(tool-static) \
		github.com/containernetworking/plugins/plugins/main/{bridge,loopback} \
		github.com/containernetworking/plugins/plugins/ipam/host-local
	@touch $@

$(BIN):
	@mkdir -p $@

.PHONY: deps
deps: ## install the Debian packages that the emulated node needs, if any is missing
	@hack/install-deps.sh

.PHONY: clean
clean: ## remove everything that was built or downloaded
	@rm -rf $(OUT)
