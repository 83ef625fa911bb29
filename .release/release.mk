# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

RELEASE := $(BIN)/release

.PHONY: release
release: compiler $(TOOLS)/goreleaser ## Build a release into bin/release: archives, deb, rpm, OCI images, checksums, SBOM
	@.release/compiler.sh
	@GORELEASER=$(TOOLS)/goreleaser .release/release.sh $(RELEASE) $(RELEASEFLAGS)

.PHONY: release-twice
release-twice: compiler $(TOOLS)/goreleaser ## Build a release twice, the second time elsewhere and from nothing: is it the same?
	@.release/compiler.sh
	@GORELEASER=$(TOOLS)/goreleaser .release/twice.sh

.PHONY: test-release
test-release: $(TOOLS)/goreleaser ## Run the tests of releases, with stand-ins for the programs, and actionlint on the workflows
	@$(call say,.release: go vet and go test)
	@cd .release && go vet ./... && go vet -tags packages ./... && go test -count 1 ./... # a cached result ignores workflows, which lie outside of the module

.PHONY: e2e-packages
e2e-packages: ## Install, start, upgrade and purge the packages of bin/release on Debian 12 and 13 (root)
	@.release/debian/setup.sh
	@$(call say,packages of bin/release on Debian)
	@cd .release && go test -tags packages -count 1 -timeout 20m -v ./debian
