#!/usr/bin/env bash
# Prints docs/lab/README.md: what became of each claim and of each prediction, from the JSON beside it.
set -euo pipefail
cd "$(dirname "$0")/../docs/lab"

cat <<'TEXT'
# The published experiments, run again

<!-- `make lab-report` writes this anew. -->

Each page has the verdict on every claim, the machines drawn, plots with 90 % intervals, every figure and run, the command, and the
machine. `evenkeel-lab NAME --help` says how each is measured. Verdicts: *reproduced*, the whole interval is where the claim says;
*not reproduced*, none of it is; *not distinguishable*, part of it is, as the rounds differ by more than what would tell; *not shown*, it was not
measured, and why.

## Prediction and measurement

What the [simulator](../guide/simulator.md) said of the same systems, and how far off it was: measured over predicted, less one. The cases
are below, by experiment.

| experiment | figure | cases | within 20 % | error in the middle | farthest off |
|---|---|---|---|---|---|
TEXT
# Figures are shown with as many digits as say something.
jq_words='
    def percent: (. * 100 | round) as $of | if $of == 0 then "0 %" elif $of < 0 then "\($of) %" else "+\($of) %" end;
    def digits: if . == null then "" elif . >= 100 then round | tostring
        elif . >= 1 then (. * 100 | round / 100) | tostring else (. * 1000 | round / 1000) | tostring end;'
for json in *.json; do
    jq -r --arg name "${json%.json}" "$jq_words"'
        [.predictions // [] | .[] | select(.error != null)] | group_by(.figure) | .[]
            | (map(.error) | sort) as $errors | max_by(.error | fabs) as $far
            | "| [\($name)](#\($name)) | \(.[0].figure) | \(length) | \([.[] | select((.error | fabs) <= 0.2)] | length) | "
                + "\($errors[($errors | length) / 2 | floor] | percent) | \($far.error | percent): \($far.case) |"' "$json"
done
for json in *.json; do
    name=${json%.json}
    jq -r --arg name "$name" "$jq_words"'
        "\n## \($name)\n",
        "\(.title) [The page](\($name).html), [as text](\($name).txt), [as JSON](\($name).json)."
            + " \(.date), \(.machine.cpu), \(.machine.cores) cores, commit \(.machine.commit).\n",
        "| verdict | claim | measured |", "|---|---|---|",
        (.findings[] | "| \(.verdict) | \(.claim) (\(.source)) | \(.measured) |"),
        (.predictions // [] | select(length > 0) |
            "\n| case | figure | predicted | measured | error |\n|---|---|---|---|---|",
            (.[] | "| \(.case) | \(.figure) | \(.predicted | digits) | \(.measured | digits)"
                + (if .low == null then "" else " (\(.low | digits) to \(.high | digits))" end)
                + " | \(if .error == null then "" else .error | percent end) |"),
            ([.[] | select(.why != null)] | group_by(.why)[]
                | "\n\(.[0].why) So it is for \([.[] | .case] | unique | join("; ")).") )' "$json"
done
