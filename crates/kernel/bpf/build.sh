#!/usr/bin/env bash
# Compiles the programs of eBPF: `build.sh` writes the objects beside their sources, `build.sh check` compiles them
# elsewhere and compares. The same sources and compiler give the same bytes in every folder.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$here
if [ "${1:-}" = check ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi
# Headers of the kernel's interface, which Debian keeps by architecture.
headers=/usr/include/$(cc -dumpmachine)
for source in "$here"/*.c; do
    object=$(basename "${source%.c}").o
    # Only BTF is kept of what -g adds: loaders read declarations of maps from it.
    (cd "$here" && clang-14 -O2 -target bpf -mcpu=v3 -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-const-variable \
        -ffile-prefix-map="$here"=. -isystem "$headers" -c "$(basename "$source")" -o "$out/$object")
    llvm-strip-14 -g "$out/$object"
    if [ "$out" != "$here" ]; then
        cmp "$out/$object" "$here/$object" || { echo "error: $object is not what its source gives; run make bpf" >&2; exit 1; }
    fi
done
