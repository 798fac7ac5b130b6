#!/usr/bin/env bash
# Builds what a release consists of, into target/package: the static program with its debug symbols apart, a .deb, an .rpm, a container
# image, an SBOM and SHA256SUMS. The same commit, compiler and tools give the same bytes in any folder and at any time;
# scripts/package-check.sh tries all of it. With the argument `image`, builds only the image.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-musl
root=$PWD
packages=$root/target/package
stage=$packages/stage
build=${CARGO_TARGET_DIR:-$root/target}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

# Largest image, in bytes.
image_max=25000000

# The time of every file.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export LC_ALL=C TZ=UTC
umask 022

# Packs files in order, with one time and owner.
archive() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$@"
}

# No path of this machine enters the program, of Rust or of C.
program() {
    local remap="--remap-path-prefix=$root=/evenkeel --remap-path-prefix=$build=/target --remap-path-prefix=$cargo_home=/cargo"
    local maps="-ffile-prefix-map=$root=/evenkeel -ffile-prefix-map=$build=/target -ffile-prefix-map=$cargo_home=/cargo"
    CARGO_ENCODED_RUSTFLAGS=${remap// /$'\x1f'} CFLAGS_x86_64_unknown_linux_musl=$maps \
        cargo build --locked --profile dist -p evenkeel --target "$target" --target-dir "$build"
    local built=$build/$target/dist/evenkeel
    objcopy --only-keep-debug --compress-debug-sections "$built" "$stage/evenkeel.debug"
    objcopy --strip-unneeded --add-gnu-debuglink="$stage/evenkeel.debug" "$built" "$stage/evenkeel"
}

# What the program writes about itself.
pages() {
    mkdir "$stage/man"
    "$stage/evenkeel" man "$stage/man"
    gzip -n9 "$stage"/man/*
    local shell
    for shell in bash zsh fish; do
        "$stage/evenkeel" completions "$shell" >"$stage/evenkeel.$shell"
    done
    "$stage/evenkeel" config schema >"$stage/evenkeel.schema.json"
}

# Crates in the program, as NAME VERSION MANIFEST LICENCE between tabs: what builds it, and tests, are not in it, nor our own.
crates() {
    cargo metadata --locked --format-version 1 --filter-platform "$target" |
        jq -r '.packages[] | select(.source != null) | [.name + " " + .version, .manifest_path, .license] | @tsv' | sort |
        join -t $'\t' - <(cargo tree --locked -p evenkeel --target "$target" -e normal --prefix none --format '{p}' |
            sed 's/ v/ /; s/ (.*//' | sort -u)
}

# The licences of all that is linked in, which ask to be passed on. Many crates share one text: it is printed once.
licences() {
    local crate manifest licence file text
    declare -A seen=()
    while IFS=$'\t' read -r crate manifest licence; do
        echo "== $crate: $licence"
        for file in "${manifest%/*}"/{LICEN[CS]E,COPYING,COPYRIGHT,NOTICE,license}*; do
            [ -f "$file" ] || continue
            text=$(sha256sum <"$file")
            if [ -n "${seen[$text]:-}" ]; then
                echo "${file##*/}: as of ${seen[$text]}"
            else
                seen[$text]=$crate
                printf -- '-- %s\n\n' "${file##*/}"
                cat "$file"
                echo
            fi
        done
    done < <(crates)
}

# The bill of materials, as CycloneDX, of what is linked in. Its tool names crates of the workspace by their folder.
bill() {
    cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --target "$target" --manifest-path crates/evenkeel/Cargo.toml \
        --override-filename bill >/dev/null
    mv crates/evenkeel/bill.json "$packages/bill.json"
    rm -f crates/*/bill.json
    sed "s,$root,/evenkeel,g" "$packages/bill.json" | jq -S 'del(.serialNumber)' >"$packages/evenkeel-$version.cdx.json"
    rm "$packages/bill.json"
}

deb_package() {
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: evenkeel\n\n'
        printf 'Files: *\nCopyright: 2026 The evenkeel authors\nLicense: MIT or Apache-2.0\n'
        printf ' Apache-2.0 is in /usr/share/common-licenses/Apache-2.0; the crates that are linked in have theirs in\n'
        printf ' /usr/share/doc/evenkeel/third-party-licenses.txt.gz. MIT:\n .\n'
        sed 's/^$/./; s/^/ /' LICENSE-MIT
    } >"$stage/copyright"
    printf 'evenkeel (%s-1) stable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$version" \
        "See https://github.com/evenkeel/evenkeel/blob/v$version/CHANGELOG.md" \
        "The evenkeel authors <evenkeel@users.noreply.github.com>" "$(date -R -d "@$SOURCE_DATE_EPOCH")" >"$stage/changelog.Debian"
    cargo deb --quiet --locked -p evenkeel --target "$target" --no-build --no-strip --output "$packages/"
}

# Its tool takes over times of files that are older than the commit, so all of them get that of the commit.
rpm_package() {
    cp LICENSE-MIT LICENSE-APACHE packaging/evenkeel.{service,socket,toml,logrotate} "$stage/"
    find "$stage" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
    cargo generate-rpm -p crates/evenkeel --target "$target" --source-date "$SOURCE_DATE_EPOCH" --output "$packages/"
}

# An OCI image without a daemon. It has the authorities of the machine that builds it.
image() {
    local context=$stage/image store=(--storage-driver vfs --root "$packages/store" --runroot "$packages/run") name=evenkeel:$version
    mkdir -p "$context"/files/{usr/bin,etc/evenkeel,etc/ssl/certs,run,var/lib} "$context"/{run,state}
    cp "$stage/evenkeel" "$context/files/usr/bin/"
    cp packaging/image/evenkeel.toml "$context/files/etc/evenkeel/"
    cp /etc/ssl/certs/ca-certificates.crt "$context/files/etc/ssl/certs/"
    printf 'root:x:0:0:root:/:/\nevenkeel:x:65532:65532:evenkeel:/var/lib/evenkeel:/\n' >"$context/files/etc/passwd"
    printf 'root:x:0:\nevenkeel:x:65532:\n' >"$context/files/etc/group"
    buildah "${store[@]}" build --quiet --timestamp "$SOURCE_DATE_EPOCH" --format oci --isolation chroot \
        --label "org.opencontainers.image.version=$version" --tag "$name" --file packaging/image/Containerfile "$context" >/dev/null
    buildah "${store[@]}" push --quiet --format oci "$name" "oci:$stage/layout:$name"
    buildah "${store[@]}" rmi "$name" >/dev/null
    rm -rf "$packages"/{store,run}
    archive -C "$stage/layout" . >"$packages/evenkeel-$version-image.tar"
    local size
    size=$(stat -c %s "$packages/evenkeel-$version-image.tar")
    [ "$size" -lt "$image_max" ] || { echo "error: the image has $size bytes, more than $image_max" >&2; exit 1; }
}

rm -rf "$packages"
mkdir -p "$stage"
program
if [ "${1:-}" = image ]; then
    image
    rm -rf "$stage"
    ls -l "$packages"
    exit
fi
pages
licences | gzip -n9 >"$stage/third-party-licenses.txt.gz"
bill
deb_package
rpm_package
image
folder=evenkeel-$version-x86_64
mkdir "$stage/$folder"
cp -r "$stage"/{evenkeel,man,evenkeel.bash,evenkeel.zsh,evenkeel.fish,evenkeel.schema.json,third-party-licenses.txt.gz} \
    LICENSE-MIT LICENSE-APACHE packaging/evenkeel.{service,socket,toml} "$stage/$folder/"
archive -C "$stage" "$folder" | gzip -n9 >"$packages/$folder.tar.gz"
archive -C "$stage" evenkeel.debug | gzip -n9 >"$packages/$folder-debug.tar.gz"
cp "$stage/evenkeel" "$packages/evenkeel"
rm -rf "$stage"
cd "$packages"
sha256sum -- * >SHA256SUMS
ls -l
