#!/usr/bin/env bash
# The experiments of the lab. `lab.sh quick` runs each as small as it can be, with the debug build, to see that it runs. `lab.sh report
# [NAME...]` runs all, or these, at their usual size, with the release build: pages and JSON go to target/lab-report, summaries to docs/lab.
# An experiment that cannot run here (status 77: it needs root, or a program that is missing) is named, and the others continue; it fails if
# one failed that could run.
set -euo pipefail
cd "$(dirname "$0")/.."

experiments=(default-algorithm mytime tower planes overhead herd prequal failure reload whatif advise)
# What things cost.
own=(proxy-cost l4-cost h2-cost tls-cost udp-cost dns-cost dns-scaling slow-clients floods)
# Some cases of those; `make test` runs the others small.
small=("proxy-cost --only keep-alive,idle-memory" "l4-cost --only exchange" udp-cost dns-cost dns-scaling
    "slow-clients --only idle,not-read --connections 200")
what=${1:?quick or report}
target=${CARGO_TARGET_DIR:-target}
failed=()
left_out=()

# Runs an experiment, `run NAME PROGRAM FOLDER OPTIONS...`; its page, picture, JSON and output go to the folder.
run() {
    local name=$1 program=$2 folder=$3 begin=$SECONDS status=0
    "$program" "$name" "${@:4}" --json "$folder/$name.json" --report "$folder/$name.html" \
        --picture "$folder/$name.svg" >"$folder/$name.txt.new" || status=$?
    case $status in
    0)
        mv "$folder/$name.txt.new" "$folder/$name.txt"
        echo "$name: $((SECONDS - begin)) s"
        return
        ;;
    77) left_out+=("$name") ;;
    *) failed+=("$name") ;;
    esac
    # The output of an earlier run stays.
    rm "$folder/$name.txt.new"
    return 1
}

case $what in
quick)
    # The programs that tests start, as `cargo build` would build most crates once more, without the features that tests add.
    cargo test --workspace --features evenkeel-net/tokio-io --no-run --test ha --test generator
    mkdir -p "$target/lab"
    for experiment in "${experiments[@]}" "${small[@]}"; do
        read -ra words <<<"$experiment"
        name=${words[0]}
        run "$name" "$target/debug/evenkeel-lab" "$target/lab" "${words[@]:1}" --quick || continue
        # One round gives no interval, so no claim is judged; but everything was measured.
        if command -v jq >/dev/null; then
            jq -e '(.findings | length > 0) and (.raw | length > 0)' "$target/lab/$name.json" >/dev/null || failed+=("$name")
        fi
    done
    ;;
report)
    cargo build --profile dist -p evenkeel
    cargo build --release -p evenkeel-lab
    mkdir -p target/lab-report docs/lab
    names=("${@:2}")
    [ ${#names[@]} -gt 0 ] || names=("${experiments[@]}" "${own[@]}")
    for name in "${names[@]}"; do
        run "$name" "$target/release/evenkeel-lab" target/lab-report --evenkeel "$target/dist/evenkeel" || true
    done
    scripts/lab-summary.sh target/lab-report
    ;;
*)
    echo "error: quick or report" >&2
    exit 1
    ;;
esac
[ ${#left_out[@]} = 0 ] || echo "cannot run here, see above: ${left_out[*]}" >&2
[ ${#failed[@]} = 0 ] || {
    echo "error: failed: ${failed[*]}" >&2
    exit 1
}
