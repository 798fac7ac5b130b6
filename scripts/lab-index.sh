#!/usr/bin/env bash
# Prints docs/lab/README.md: what became of each claim, from the JSON beside it.
set -euo pipefail
cd "$(dirname "$0")/../docs/lab"

cat <<'TEXT'
# The published experiments, run again

<!-- `make lab-report` writes this anew. -->

Each page has the verdict on every claim, the machines drawn, plots with 90 % intervals, every figure and run, the command, and the
machine. `evenkeel-lab NAME --help` says how each is measured. Verdicts: *reproduced*, the whole interval is where the claim says;
*not reproduced*, none of it is; *not distinguishable*, part of it is; *not shown*, it was not measured, and why.
TEXT
for json in *.json; do
    name=${json%.json}
    jq -r --arg name "$name" '
        "\n## \($name)\n",
        "\(.title) [The page](\($name).html), [as text](\($name).txt), [as JSON](\($name).json)."
            + " \(.date), \(.machine.cpu), \(.machine.cores) cores, commit \(.machine.commit).\n",
        "| verdict | claim | measured |", "|---|---|---|",
        (.findings[] | "| \(.verdict) | \(.claim) (\(.source)) | \(.measured) |")' "$json"
done
