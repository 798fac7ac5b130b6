#!/usr/bin/env bash
# Builds evenkeel for release, guided by a profile: one that counts what it does, some minutes of work for it, and from these
# counts the one to use. A request takes a sixth fewer instructions than in a plain build. Leaves target/guided/evenkeel, and
# the JSON Schemas of its files.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/target/guided
host=$(rustc -vV | sed -n 's/^host: //p')
# The compiler's own: those of other versions may not read what it counts.
profdata=$(rustc --print target-libdir)/../bin/llvm-profdata
counting=$work/counting/$host/dist/evenkeel
lab=target/release/evenkeel-lab

# With a flag of the compiler, into a folder. `--target` keeps the flag from build scripts.
build() {
    CARGO_ENCODED_RUSTFLAGS=$1 cargo build --profile dist -p evenkeel --target "$host" --target-dir "$2"
}

# What it does in service: requests and sessions of each kind, every algorithm, things that break, new configurations.
# Whoever measures says how it went; here only errors matter.
exercise() {
    echo "exercising: $*"
    "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
}

mkdir -p "$work"
rm -rf "$work/counts"
cargo build --release -p evenkeel-lab --target-dir target
build "-Cprofile-generate=$work/counts" "$work/counting"

# Alone: others need no counts.
once=(--against "" --repeat 1 --seconds 2 --evenkeel "$counting")
exercise "$counting" demo --once
exercise "$lab" proxy-cost "${once[@]}" \
    --only keep-alive,client-closes,both-close,64k,1m,keep-alive-logged
exercise "$lab" l4-cost "${once[@]}" --only exchange,connect-exchange-close,bulk
exercise "$lab" udp-cost "${once[@]}"
exercise "$lab" dns-cost "${once[@]}"
exercise "$lab" failure --against "" --repeat 1 --seconds 20 --evenkeel "$counting"
exercise "$lab" reload --against "" --repeat 1 --reloads 10 --evenkeel "$counting"
exercise "$counting" sim sidecars --seeds 1

"$profdata" merge -o "$work/profile" "$work/counts"
build "-Cprofile-use=$work/profile" "$work/guided"
cp "$work/guided/$host/dist/evenkeel" "$work/evenkeel"
# For editors, beside the program that they are of.
"$work/evenkeel" config schema >"$work/evenkeel.schema.json"
"$work/evenkeel" sim --schema >"$work/scenario.schema.json"
echo "built: target/guided/evenkeel, and its schemas"
