#!/usr/bin/env bash
# Writes the summaries of the lab's results to docs/lab: `lab-summary.sh FOLDER` makes NAME.md of each FOLDER/NAME.json, with the picture
# FOLDER/NAME.svg beside it, then README.md of all summaries, those of earlier runs included.
set -euo pipefail
cd "$(dirname "$0")/.."
from=${1:?the folder with the JSON}

# Figures are shown with as many digits as are significant; versions without the words around them.
jq_words='
    def percent: (. * 100 | round) as $of | if $of == 0 then "0 %" elif $of < 0 then "\($of) %" else "+\($of) %" end;
    def number: capture("(?<n>[0-9]+([.][0-9]+)+)").n // .;
    def rivals: {evenkeel: "evenkeel", haproxy: "HAProxy", nginx: "NGINX", envoy: "Envoy"} as $names
        | to_entries | map(select($names[.key]) | "\($names[.key]) \(.value | number)") | join(", ");
    def counts: group_by(.verdict) | map("\(length) \(.[0].verdict)") | join(", ");'

for json in "$from"/*.json; do
    name=$(basename "$json" .json)
    picture=
    if [ -f "$from/$name.svg" ]; then
        cp "$from/$name.svg" "docs/lab/$name.svg"
        picture=1
    fi
    jq -r --arg name "$name" --arg picture "$picture" "$jq_words"'
        "# \(.title)\n",
        "<!-- `make lab-report` writes this. -->\n",
        "`evenkeel-lab \($name)` on \(.date), \(.machine.cores) cores of \(.machine.cpu), commit \(.machine.commit | rtrimstr("+")): \(.versions | rivals).\n",
        (.lead.reading // "" | select(. != "") | "\(.)\n"),
        "Claims: \(.findings | counts).\n",
        (if $picture == "" then empty else "![\(.lead.title // "Medians and 90 % intervals")](\($name).svg)\n" end),
        "## Claims\n", "| verdict | claim | measured |", "|---|---|---|",
        (.findings[] | "| \(.verdict) | \(.claim) (\(.source)) | \(.measured) |"),
        (.predictions // [] | select(length > 0) |
            "\n## Prediction and measurement\n",
            "| figure | cases | within 20 % | median error | farthest off |", "|---|---|---|---|---|",
            ([.[] | select(.error != null)] | group_by(.figure) | .[]
                | (map(.error) | sort) as $errors | max_by(.error | fabs) as $far
                | "| \(.[0].figure) | \(length) | \([.[] | select((.error | fabs) <= 0.2)] | length) | "
                    + "\($errors[($errors | length) / 2 | floor] | percent) | \($far.error | percent): \($far.case) |"),
            ([.[] | select(.why != null)] | group_by(.why)[]
                | "\n\(.[0].why) This applies to \([.[] | .case] | unique | join("; "))."))' "$json" >"docs/lab/$name.md"
done

{
    cat <<'TEXT'
# The published experiments, run again

<!-- `make lab-report` writes this. -->

`evenkeel-lab NAME --help` describes how each is measured, and [the guide](../guide/lab.md) how to run them. Verdicts are by the 90 % interval
of what was measured: *reproduced*, the whole interval agrees with the claim; *not reproduced*, none of it does; *inconclusive*, part of it
does: rounds vary more than the effect; *not shown*, it was not measured, and the page states why.

`make lab-report` writes the full pages, with every plot, figure and run, to `target/lab-report`. Releases have them attached.

| experiment | question | claims |
|---|---|---|
TEXT
    for page in docs/lab/*.md; do
        name=$(basename "$page" .md)
        [ "$name" = README ] || echo "| [$name]($name.md) | $(sed -n '1s/^# //p' "$page") | $(sed -n 's/^Claims: \(.*\)\.$/\1/p' "$page") |"
    done
    cat <<'TEXT'

## Prediction and measurement

Difference between the [simulator](../guide/simulator.md)'s predictions and the measurements of the same systems: measured over predicted,
less one.

| experiment | figure | cases | within 20 % | median error | farthest off |
|---|---|---|---|---|---|
TEXT
    for page in docs/lab/*.md; do
        name=$(basename "$page" .md)
        [ "$name" = README ] || awk -v name="$name" '/^## /{ours = /Prediction/; next} ours && /^\| / && !/^\| figure/ {print "| [" name "](" name ".md) " $0}' "$page"
    done
} >docs/lab/README.md.new
mv docs/lab/README.md.new docs/lab/README.md
