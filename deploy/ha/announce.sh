#!/bin/sh
# Announces the address of deploy/ha/bird.conf while evenkeel is ready, and withdraws it before evenkeel stops: set
# runtime.shutdown_delay to a few seconds. READY and BIRDC may be other commands, with arguments.
${READY:-evenkeel ready} --follow | while read -r state _; do
    if [ "$state" = ready ]; then want=enable; else want=disable; fi
    ${BIRDC:-birdc} "$want" vip
done
