#!/usr/bin/env bash
# Runs a command that needs tools beyond those of `make test`, as in `with.sh lint make deny`: installs them first by setup.sh. Where
# they cannot be had, as without a network, warns that this was not checked, and does not fail.
set -euo pipefail
tools=$1
shift
if "$(dirname "$0")/setup.sh" "$tools"; then
    exec "$@"
fi
echo "warning: no tools for $tools here; this was not checked: $*" >&2
