#!/usr/bin/env bash
# curl as a client: DOOR URL CA FILE CASES; prints a line for each case.
set -euo pipefail
door=$1 url=$2 ca=$3 file=$4 cases=$5
case $door in
    h2) version=--http2 ;;
    h2c) version=--http2-prior-knowledge ;;
    *) version=--http1.1 ;;
esac
body=$(mktemp)
trap 'rm -f "$body"' EXIT
ask() {
    curl -sS --max-time 300 --cacert "$ca" "$version" -H Expect: "$@"
}
for case in ${cases//,/ }; do
    case $case in
        get)
            said=$(ask -o "$body" -w '%{http_code} %{http_version} %header{x-seen}' "$url/get")
            read -r status spoken seen <<<"$said"
            echo "get $status $spoken $(cat "$body") $seen"
            ;;
        post) echo "post $(ask -o "$body" -w '%{http_code}' --data-binary "@$file" "$url/hash") $(cat "$body")" ;;
        # From a pipe, so without a length.
        echo)
            status=$(ask -o "$body" -w '%{http_code}' -X POST -T - "$url/echo" <"$file")
            echo "echo $status $(sha256sum <"$body" | cut -d' ' -f1)"
            ;;
        kept)
            said=$(ask -o /dev/null -w '%{http_code} %{num_connects}\n' "$url/get?[1-20]")
            echo "kept $(grep -c '^200 ' <<<"$said")"
            ;;
    esac
done
