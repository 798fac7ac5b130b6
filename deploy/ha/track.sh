#!/bin/sh
# Writes 0 to the file that deploy/ha/keepalived.conf tracks while evenkeel is ready, else -254, at once. READY may be another command,
# with arguments.
file=${1:-/run/evenkeel-ready}
echo -254 >"$file"
${READY:-evenkeel ready} --follow | while read -r state _; do
    if [ "$state" = ready ]; then echo 0 >"$file"; else echo -254 >"$file"; fi
done
echo -254 >"$file"
