#!/usr/bin/env bash
# The published experiments: `lab.sh quick` runs each as small as it can be, with the debug build, to see that it runs; `lab.sh report`
# runs them at their usual size, with the release build, and writes their pages to docs/lab. Each needs root and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

experiments=(default-algorithm mytime tower planes overhead herd prequal)
# Those of the project's own, some cases of each.
own=("proxy-cost --only keep-alive,idle-memory" "l4-cost --only exchange" "h2-cost --only h2c-16x32,grpc-unary"
    "tls-cost --only full-p256,https-1k" udp-cost dns-cost dns-scaling "slow-clients --only idle,not-read --connections 200"
    "floods --only PING,handshake --connections 4")
what=${1:?quick or report}
target=${CARGO_TARGET_DIR:-target}
[ "$(id -u)" = 0 ] || {
    echo "error: network namespaces and control groups need root: run this as root" >&2
    exit 1
}

case $what in
quick)
    cargo build -p evenkeel -p evenkeel-lab
    mkdir -p "$target/lab"
    for experiment in "${experiments[@]}" "${own[@]}"; do
        begin=$SECONDS
        read -ra words <<<"$experiment"
        name=${words[0]}
        small() {
            "$target/debug/evenkeel-lab" "${words[@]}" --quick --json "$target/lab/$name.json" --report "$target/lab/$name.html" >"$target/lab/$name.txt"
        }
        # A request that fails leaves no figure; on a busy machine that happens, but not twice.
        small || { echo "$name: once more" && small; }
        # One round says nothing about chance, so nothing is judged; but everything was measured.
        jq -e '(.findings | length > 0) and (.raw | length > 0)' "$target/lab/$name.json" >/dev/null
        echo "$name: $((SECONDS - begin)) s"
    done
    ;;
report)
    cargo build --release -p evenkeel -p evenkeel-lab
    mkdir -p docs/lab
    for name in "${experiments[@]}"; do
        "$target/release/evenkeel-lab" "$name" --json "docs/lab/$name.json" --report "docs/lab/$name.html" >"docs/lab/$name.txt"
        # As people see it; without a browser there is no picture.
        if browser=$(command -v chromium); then
            "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,1400 \
                --screenshot="docs/lab/$name.png" "file://$PWD/docs/lab/$name.html" >/dev/null 2>&1
        fi
    done
    scripts/lab-index.sh >docs/lab/README.md
    ;;
*)
    echo "error: quick or report" >&2
    exit 1
    ;;
esac
