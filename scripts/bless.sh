#!/usr/bin/env bash
# Writes every page anew that is generated from tables, and shows what changed. Only the binaries with tests that
# compare pages are built: those that use `committed.rs`.
set -euo pipefail
cd "$(dirname "$0")/.."

# Where such pages are.
pages=(ARCHITECTURE.md docs/reference crates/config/tests/wrong crates/config/tests/foreign crates/convert/tests)

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -r --parents "${pages[@]}" "$before"

arguments=()
for crate in $(grep -l '^mod committed;' crates/*/tests/main.rs | cut -d/ -f2); do
    [ "$crate" = evenkeel ] || crate=evenkeel-$crate
    arguments+=(-p "$crate")
done
EVENKEEL_BLESS=1 cargo test --quiet --test all --test tidy -p evenkeel-lab "${arguments[@]}" -- committed >"$before/said" 2>&1 || { cat "$before/said" >&2; exit 1; }

for folder in "${pages[@]}"; do
    git --no-pager diff --no-index -U0 --dst-prefix= "$before/$folder" "$folder" || true
done | sed -n -e 's/^+++ /\n/p' -e '/^--- /d' -e '/^[-+]/p' >"$before/changes"
if [ -s "$before/changes" ]; then
    head -n 200 "$before/changes"
    [ "$(wc -l <"$before/changes")" -le 200 ] || echo "... and more: git diff"
else
    echo "bless: every page was as it is generated"
fi
