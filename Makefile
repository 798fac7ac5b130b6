# What a fresh checkout can do. `make` alone lists it. Everything is a thin wrapper: read on for the command itself.

# Arguments for `make bench`, `failure`, `reload` and `lab-report`, as LAB="--repeat 9 --only keep-alive". `evenkeel-lab proxy-cost --help`
# and so on list them.
LAB ?=
# A linker and an emulator for aarch64.
CROSS := CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
# All of them use the same libraries: with other packages or features, cargo builds others. Many tests wait for timeouts.
TEST := RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) * 2))} cargo test --workspace --features evenkeel-net/tokio-io
# Seconds for each target, and how it is built, of `make fuzz`.
FUZZ_SECONDS ?= 600
FUZZ_FLAGS ?=
# What clients of `make conformance` send at most.
MEGABYTES ?= 100

BUILT := $(or $(CARGO_TARGET_DIR),target)
# Programs of the cluster, see crates/cluster.
CLUSTER = $(BUILT)/debug/evenkeel-cluster
# The program is measured as packages have it; the lab is not.
BUILD_MEASURED := cargo build --profile dist -p evenkeel && cargo build --release -p evenkeel-lab
MEASURE := $(BUILT)/release/evenkeel-lab
MEASURED := --evenkeel $(BUILT)/dist/evenkeel $(LAB)

# The oldest compiler, as Cargo.toml promises it.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1.0/p' Cargo.toml)

.PHONY: advisories help setup demo check test judge test-ipvs test-kubernetes test-xds gateway-conformance cluster cluster-up cross msrv package image package-check reproduce conformance h3i pictures bless docs site instructions theory whatif-long loom miri bpf bpf-check release bench headline failure reload lab-quick lab-report deny lint fuzz

help: ## Lists what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Installs what building, testing and measuring need (Debian), and enables the hook of commits; instant when nothing is missing
	@scripts/setup.sh
	@git config core.hooksPath >/dev/null || git config core.hooksPath scripts/hooks || true

demo: ## Compares the algorithms in front of ten endpoints and kills one; needs a compiler, nothing else
	@scripts/setup.sh demo
	cargo run --profile demo -p evenkeel --no-default-features -- demo

check: setup ## Checks what each change must pass: the tests of the crates it touches, then format, lints, licences, all tests, some seconds of fuzzing: 15 minutes
	scripts/touched.py
	$(MAKE) lint
	$(MAKE) test
	scripts/with.sh fuzz $(MAKE) fuzz FUZZ_SECONDS=1 FUZZ_FLAGS="--dev --sanitizer none"

test: setup ## Runs every test, the rules of the house included
	$(TEST) --no-fail-fast
	$(MAKE) loom

judge: setup ## Compares 2,000 random configurations of each program with their conversions: an hour
	EVENKEEL_REQUIRE_PEERS=1 EVENKEEL_JUDGE_CASES=$${EVENKEEL_JUDGE_CASES:-2000} cargo test -p evenkeel-convert --test judge

# One after the other: each test has two cores' worth of clients of its own.
conformance: ## Lets clients and judges that others wrote try HTTP/2, gRPC and TLS (installs Java): some 15 minutes
	@scripts/setup.sh conformance
	EVENKEEL_REQUIRE_PEERS=1 EVENKEEL_MEGABYTES=$(MEGABYTES) $(TEST) --test conformance -- --include-ignored --skip h3i:: --test-threads 1

h3i: ## Attacks HTTP/3 with h3i of quiche: 41 malformed exchanges beside a client that behaves (builds BoringSSL once: four minutes of a core)
	@scripts/setup.sh h3i
	EVENKEEL_REQUIRE_PEERS=1 $(TEST) --test conformance -- --ignored --nocapture h3i::

pictures: ## Has a browser make pictures of every page of the dashboard: target/pictures, and those of the guide
	@scripts/setup.sh conformance
	EVENKEEL_REQUIRE_PEERS=1 EVENKEEL_PICTURES=$(CURDIR)/target/pictures $(TEST) --test conformance -- --include-ignored browser::
	cp target/pictures/walk-*.png docs/pictures/
	for page in overview flow; do cp target/pictures/$$page-light-1280.png docs/pictures/dashboard-$$page.png; done
	cp target/pictures/signed-in-pools-light-1280.png docs/pictures/dashboard-pools.png

bless: ## Writes the pages that are generated anew, and shows what changed
	@scripts/bless.sh

docs: ## Writes the JSON Schemas for editors: target/docs/*.schema.json
	cargo build -p evenkeel
	@mkdir -p target/docs
	target/debug/evenkeel config schema >target/docs/evenkeel.schema.json
	target/debug/evenkeel sim --schema >target/docs/scenario.schema.json

site: ## Builds the docs as a site with search, target/site, and checks its links; with the lab's pages if target/lab-report has them
	@scripts/setup.sh site
	@scripts/site.py

whatif-long: ## Reads 10 million lines of an httplog through `evenkeel whatif` on one core: seconds of CPU and memory
	cargo build --release -p evenkeel -p evenkeel-lab
	$(MEASURE) whatif --lines $${LINES:-10000000} | \
		taskset -c 0 /usr/bin/time -v $(BUILT)/release/evenkeel whatif - --balance leastconn

instructions: ## Counts the instructions of a request in eleven cases, and fails if one takes 2 % more than scripts/instructions.json has; WRITE=--write writes that anew
	cargo build --release --locked -p evenkeel-proxy --example filters
	scripts/instructions.py --gate $(WRITE) $(BUILT)/release/examples/filters

theory: ## Checks the simulator against queueing theory at full length: minutes on every core
	cargo test --release -p evenkeel-sim --test all theory:: -- --include-ignored --nocapture

loom: ## Checks what threads share in every order that the memory model allows
	RUSTFLAGS="--cfg loom" cargo test --profile demo --target-dir target/loom -p evenkeel-balance --test loom

# Decisions and what bytes mean, where a word, an ordering of memory or an alignment could differ; the program is built, not run. Left out are
# thousands of connections between our HTTP/2 and the h2 crate, which take an emulator many minutes.
# Without those of millions of steps, which take many minutes in emulation.
cross: ## Builds the program for aarch64, and runs the tests of decisions and of parsers there, emulated
	@scripts/setup.sh cross
	$(CROSS) cargo build -p evenkeel --target aarch64-unknown-linux-gnu
	$(CROSS) cargo test -p evenkeel-balance -p evenkeel-wire --target aarch64-unknown-linux-gnu -- --skip h2_connections --skip shares::

test-ipvs: ## Runs the tests of the plane ipvs in a kernel that has it, as a program (installs User-Mode Linux): half a minute
	@scripts/setup.sh ipvs
	EVENKEEL_REQUIRE_PEERS=1 $(TEST) --test all -- --ignored --nocapture uml::

test-kubernetes: ## Runs the tests of discovery, of rolling updates and of deploy/ beside a kube-apiserver, and those of the Helm chart (builds both once, in some twenty minutes): five minutes
	@scripts/setup.sh gateway-api
	@scripts/setup.sh helm
	EVENKEEL_REQUIRE_PEERS=1 cargo test -p evenkeel-discovery --test kubernetes -- --ignored --skip measure --test-threads 1
	EVENKEEL_REQUIRE_PEERS=1 cargo test -p evenkeel --test kubernetes -- --ignored --nocapture --skip measure

# EVENKEEL is the program, RUN one test, ARGS more arguments of the suite. With `make cluster-up` in another terminal, each run takes that cluster.
EVENKEEL ?= $(BUILT)/debug/evenkeel
RUN ?=
ARGS ?=
gateway-conformance: ## Runs the conformance suite of Gateway API against evenkeel in a cluster of its own (builds both once): target/gateway-conformance; RUN=NAME is one test
	@scripts/setup.sh gateway-api
	cargo build $(if $(filter file,$(origin EVENKEEL)),-p evenkeel) -p evenkeel-cluster
	$(CLUSTER) conformance --evenkeel $(EVENKEEL) $(if $(RUN),--run $(RUN)) -- $(ARGS)

cluster: ## Shows a rolling update behind a Gateway of two evenkeels under load, in a Kubernetes of its own, for half a minute; ARGS=--stay keeps it
	@scripts/setup.sh gateway-api
	cargo build $(if $(filter file,$(origin EVENKEEL)),-p evenkeel) -p evenkeel-cluster
	$(CLUSTER) demo --evenkeel $(EVENKEEL) $(ARGS)

cluster-up: ## Starts a Kubernetes cluster in namespaces of its own, which stays until Ctrl-C
	@scripts/setup.sh gateway-api
	cargo build -p evenkeel-cluster
	$(CLUSTER) up

test-xds: ## Runs the tests of discovery and of the program beside a control plane, go-control-plane (needs Go, builds it once): minutes
	@scripts/setup.sh xds
	EVENKEEL_REQUIRE_PEERS=1 $(TEST) --test all -- --ignored xds::

msrv: ## Checks that the oldest compiler, rust-version of Cargo.toml, builds everything
	@scripts/setup.sh msrv
	cargo +$(MSRV) check --locked --workspace --target-dir target/msrv

package: ## Builds .deb, .rpm, image, static program, SBOM and SHA256SUMS, the same bytes each time: target/package; 15 minutes
	@scripts/setup.sh package
	@scripts/package.sh

image: ## Builds only the container image, without a daemon: target/package
	@scripts/setup.sh package
	@scripts/package.sh image

package-check: ## Installs, runs and removes what `make package` has built, in a Debian, an RPM root and a container of their own
	@scripts/setup.sh package-check
	@scripts/package-check.sh

reproduce: ## Builds what `make package` has built once more, in another folder, and compares every byte
	@scripts/setup.sh package
	@scripts/package-check.sh reproduce

# The tests of what has unsafe code. Not those that need options of sockets, which Miri does not know, or that measure time.
miri: ## Looks for undefined behaviour in tasks, wakers and boxed futures (needs nightly)
	@scripts/setup.sh miri
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --target-dir target/miri -p evenkeel-net --lib -- \
		tasks reentrance remote_waker boxed

bpf: ## Compiles the programs of eBPF anew: crates/kernel/bpf/*.o
	@scripts/setup.sh bpf
	crates/kernel/bpf/build.sh

bpf-check: ## Compares the objects of eBPF with what their sources give
	@scripts/setup.sh bpf
	crates/kernel/bpf/build.sh check

release: ## Builds the fastest binary, target/guided/evenkeel, by what it does under load: some 15 minutes
	@scripts/setup.sh release
	@scripts/release.sh

bench: setup ## Measures requests beside HAProxy and NGINX, and picks beside other crates
	$(BUILD_MEASURED)
	$(MEASURE) proxy-cost $(MEASURED)
	cd bench && cargo bench

# The cases of the table alone. Rivals are the current ones that `scripts/setup.sh bench` unpacks, not those of this Debian.
headline: ## Measures the table of README.md and docs/benchmarks.md beside current HAProxy, NGINX and Envoy, and writes it: 25 minutes
	@scripts/setup.sh bench
	$(BUILD_MEASURED)
	@mkdir -p target/headline
	@set -e; export PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/evenkeel/bench/current:$$PATH"; \
	measure() { $(MEASURE) $$1 --only $$2 --against $$3 --json target/headline/$$1.json --report target/headline/$$1.html $(MEASURED); }; \
	measure proxy-cost keep-alive,keep-alive-logged,client-closes,64k,1m,idle-memory haproxy,haproxy-splice,nginx,envoy; \
	measure h2-cost h2c-16x32,grpc-unary haproxy,nginx,envoy; \
	measure tls-cost full-p256,https-1k haproxy,nginx,envoy
	scripts/headline.py --write target/headline/proxy-cost.json target/headline/h2-cost.json target/headline/tls-cost.json

failure: setup ## Breaks endpoints behind evenkeel, HAProxy, NGINX and, if it is installed, Envoy (root drops packets, too) for 14 minutes; draws target/failure.html
	$(BUILD_MEASURED)
	@mkdir -p target
	$(MEASURE) failure --report target/failure.html --json target/failure.json $(MEASURED)

reload: setup ## Reloads evenkeel, HAProxy, NGINX and, if it is installed, Envoy a hundred times under load, five times over: 7 minutes; draws target/reload.html
	$(BUILD_MEASURED)
	@mkdir -p target
	$(MEASURE) reload --report target/reload.html --json target/reload.json $(MEASURED)

lab-quick: setup ## Runs every published experiment, and some cases of the others, small; names what cannot run: under ten minutes
	@scripts/lab.sh quick

lab-report: ## Runs every experiment, or those of LAB="herd mytime", beside Envoy too: pages in target/lab-report, summaries in docs/lab; three hours on an idle machine
	@scripts/setup.sh bench
	@scripts/lab.sh report $(LAB)

# What can be checked without a network: `make lint` also asks for advisories.
deny: ## Checks licences, bans and sources of everything that is built in (needs cargo-deny)
	@scripts/setup.sh lint
	cargo deny --all-features check --hide-inclusion-graph licenses bans sources

lint: setup ## Checks format, lints and, if the network allows, licences, sources and advisories
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path bench/Cargo.toml
	cargo clippy --workspace --all-targets -- -D warnings
	for apart in bench fuzz; do cargo clippy --manifest-path $$apart/Cargo.toml --target-dir target --all-targets -- -D warnings || exit; done
	scripts/with.sh lint $(MAKE) deny advisories

advisories:
	@if cargo deny --all-features fetch db; then cargo deny --all-features check --disable-fetch advisories; \
	else echo "warning: the advisory database cannot be fetched; advisories are not checked"; fi

fuzz: ## Fuzzes every target for FUZZ_SECONDS (600)
	@scripts/setup.sh fuzz
	@set -e; cd fuzz; for target in $$(cargo +nightly fuzz list); do \
		echo "$$target, $(FUZZ_SECONDS) s"; \
		cargo +nightly fuzz run $(FUZZ_FLAGS) "$$target" -- -max_total_time=$(FUZZ_SECONDS); \
	done
