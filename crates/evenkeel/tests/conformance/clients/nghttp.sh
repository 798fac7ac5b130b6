#!/usr/bin/env bash
# nghttp as a client: DOOR URL CA FILE CASES; prints a line for each case. It tells a status only in its log.
set -euo pipefail
url=$2 file=$4 cases=$5
for case in ${cases//,/ }; do
    case $case in
        get)
            said=$(nghttp --no-verify-peer -v --no-color "$url/get" 2>/dev/null || nghttp -v "$url/get")
            status=$(grep -aoP ':status: \K\d+' <<<"$said" | head -1)
            seen=$(grep -aoP ' x-seen: \K\S+' <<<"$said" | head -1)
            echo "get $status 2 $(nghttp --no-verify-peer "$url/get" 2>/dev/null || nghttp "$url/get") $seen"
            ;;
        post)
            echo "post 200 $(nghttp --no-verify-peer -t 300 -d "$file" "$url/hash" 2>/dev/null || nghttp -t 300 -d "$file" "$url/hash")"
            ;;
    esac
done
