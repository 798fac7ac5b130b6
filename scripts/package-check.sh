#!/usr/bin/env bash
# Tries what `make package` has built: the .deb in a Debian of its own, the .rpm in there too, the image by Podman. Each is installed,
# serves a request with the configuration that it has, and is removed. `package-check.sh reproduce` builds everything once more from
# another folder, and compares the bytes. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$PWD/target/package
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
work=$(mktemp -d)
root=$work/debian
export LC_ALL=C

fail() {
    echo "error: $*" >&2
    exit 1
}

# Runs a function of this file on a network with nothing but a loopback, with processes and mounts of its own, which end with it.
apart() {
    unshare --net --mount --pid --fork --kill-child --mount-proc "$0" apart "$work" "$@"
}

# Polls for ten seconds.
eventually() {
    local tries=100
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "in ten seconds not: $*"
        read -rt 0.1 <> <(:) || true
    done
}

# An endpoint at 8081, and an evenkeel that must answer for it at 8080.
endpoint() {
    ip link set lo up
    mkdir "$work/endpoint"
    echo served >"$work/endpoint/index.html"
    # At each address of the loopback.
    python3 -m http.server --bind 0.0.0.0 --directory "$work/endpoint" 8081 >/dev/null 2>&1 &
    eventually curl -sf http://127.0.0.1:8081/
}
answers() {
    eventually curl -sf http://127.0.0.1:8080/
    [ "$(curl -s http://127.0.0.1:8080/)" = served ] || fail "$1 does not answer as its endpoint does"
    echo "$1: answers at 8080"
}

# The installed program, as the unit starts it: with the user and folders that systemd would have it have.
serve_installed() {
    endpoint
    mount -t proc proc "$root/proc"
    install -d -o "$(stat -c %u "$work/owned")" "$root/run/evenkeel"
    chroot --userspec=evenkeel:evenkeel "$root" /usr/bin/evenkeel run -c /etc/evenkeel/evenkeel.toml >"$work/log" 2>&1 &
    local evenkeel=$!
    answers "$1"
    installed ready >/dev/null || fail "ready fails"
    installed drain web 127.0.0.1:8081 >/dev/null || fail "it does not drain"
    installed undrain web >/dev/null || fail "it does not undrain"
    chroot "$root" /usr/bin/evenkeel reload -c /etc/evenkeel/evenkeel.toml >/dev/null || fail "it does not reload"
    upgrade_under_load "$1" "$evenkeel"
    kill "$(pid_installed)"
    eventually is_gone
    rm -rf "$root/run/evenkeel" "$work/endpoint"
}

# A command of the installed program, as its user.
installed() {
    chroot --userspec=evenkeel:evenkeel "$root" /usr/bin/evenkeel "$@"
}
pid_installed() {
    installed status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])'
}
is_gone() {
    ! installed ready
}

# Puts another copy of the program into its place, which takes over while requests are sent; none of them may fail.
upgrade_under_load() {
    cp "$root/usr/bin/evenkeel" "$root/usr/bin/evenkeel.new"
    mv "$root/usr/bin/evenkeel.new" "$root/usr/bin/evenkeel"
    begin_load
    installed upgrade -c /etc/evenkeel/evenkeel.toml >/dev/null || fail "it does not upgrade"
    wait "$2" || fail "the process before ended with $?: $(cat "$work/log")"
    end_load "$1"
}

# Four clients send requests until `end_load`: twenty on each connection.
begin_load() {
    clients=()
    rm -f "$work"/statuses.*
    touch "$work/loading"
    for client in 1 2 3 4; do
        while [ -e "$work/loading" ]; do
            curl -s -w '%{http_code}\n' $(printf -- '-o /dev/null http://127.0.0.1:8080/ %.0s' {1..20}) || true
        done >"$work/statuses.$client" &
        clients+=($!)
    done
    eventually is_under_load
}
is_under_load() {
    [ "$(cat "$work"/statuses.* | wc -l)" -gt 400 ]
}
end_load() {
    local before
    before=$(cat "$work"/statuses.* | wc -l)
    eventually is_beyond $((before + 400))
    rm "$work/loading"
    wait "${clients[@]}"
    if cat "$work"/statuses.* | grep -vx 200; then fail "$1: requests failed while a second build took over"; fi
    echo "$1: a second build took over during $(cat "$work"/statuses.* | wc -l) requests, none of which failed"
}
is_beyond() {
    [ "$(cat "$work"/statuses.* | wc -l)" -gt "$1" ]
}

# A program that is installed: its version, its check of the configuration, the owners of its files.
inspect() {
    local package=$1
    shift
    [ "$(chroot "$root" evenkeel --version)" = "evenkeel $version" ] || fail "$package: another version"
    chroot "$root" evenkeel check --elsewhere -c /etc/evenkeel/evenkeel.toml
    local foreign
    foreign=$(cd "$root" && printf '%s\n' "$@" | sed 's,^/,,' | xargs -I{} find {} -maxdepth 0 ! -type l \( ! -user root -o ! -group root -o -perm /022 \))
    [ -z "$foreign" ] || fail "$package: not of root alone: $foreign"
    chroot "$root" getent passwd evenkeel
    : >"$work/owned"
    chown "$(chroot "$root" id -u evenkeel)" "$work/owned"
    apart serve_installed "$package"
}

# Every file and every user, to see what remains; `inventory ! -type d` leaves folders out.
inventory() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./var/log -o -path ./var/cache \) -prune \
        -o ! -name '*-' ! -name .pwd.lock "$@" -print | sort && cat etc/passwd etc/group && ls var/log | grep -vx dpkg.log)
}

# What the service writes, with folders as systemd makes them for its unit; those of others stay.
leave_traces() {
    local folder
    for folder in lib cache log; do
        mkdir -p "$root/var/$folder/private/evenkeel"
        echo trace >"$root/var/$folder/private/evenkeel/trace"
        ln -sfn private/evenkeel "$root/var/$folder/evenkeel"
    done
}
traces() {
    (cd "$root/var" && find lib cache log -name evenkeel ! -path 'lib/dpkg/*')
}

check_deb() {
    local deb=$packages/evenkeel_$version-1_amd64.deb
    lintian --allow-root --fail-on error "$deb"
    mmdebstrap --quiet --variant=minbase bookworm "$root"
    inventory >"$work/before"
    inventory ! -type d >"$work/files"
    cp "$deb" "$root/package.deb"
    chroot "$root" dpkg -i /package.deb
    rm "$root/package.deb"
    local files
    mapfile -t files < <(chroot "$root" dpkg -L evenkeel | grep -v '^/\.$')
    inspect deb "${files[@]}"
    leave_traces
    chroot "$root" dpkg -r evenkeel
    [ ! -e "$root/usr/bin/evenkeel" ] || fail "removed, and the program is there"
    [ -e "$root/etc/evenkeel/evenkeel.toml" ] || fail "removed, and the configuration is gone"
    chroot "$root" dpkg -P evenkeel
    traces | { ! grep .; } || fail "purged, and this remains"
    rmdir "$root"/var/{lib,cache,log}/private
    inventory | diff "$work/before" - || fail "purged, and this remains"
    echo "deb: installs, serves, and leaves nothing"
}

# In the same Debian: it has the shell and the commands that scripts call. It is no system of RPM, so dependencies are not there.
check_rpm() {
    local rpm=$packages/evenkeel-$version-1.x86_64.rpm rpm_in=(rpm --root "$root" --dbpath /var/lib/rpm)
    rpm -qpi --requires --nosignature "$rpm"
    "${rpm_in[@]}" --nodeps -i "$rpm"
    "${rpm_in[@]}" -V --nodeps evenkeel
    local files
    mapfile -t files < <("${rpm_in[@]}" -ql evenkeel)
    inspect rpm "${files[@]}"
    leave_traces
    "${rpm_in[@]}" -e evenkeel
    traces | { ! grep cache; } || fail "erased, and this remains"
    traces | grep -q lib/evenkeel || fail "erased, and the state is gone"
    rm -rf "$root"/var/{lib,cache,log}/{private,evenkeel}
    # The user stays, as RPM has it. Folders of completions and licences belong to packages of those systems.
    chroot "$root" userdel evenkeel
    inventory ! -type d | diff "$work/files" - || fail "erased, and this remains"
    echo "rpm: installs, serves, and leaves nothing but its user"
}

serve_image() {
    podman=(podman --root "$work/store" --runroot "$work/run" --runtime runc --cgroup-manager cgroupfs --storage-driver vfs)
    endpoint
    "${podman[@]}" load --quiet --input "$packages/evenkeel-$version-image.tar"
    start_container first
    answers image
    "${podman[@]}" healthcheck run first || fail "ready fails"
    pid=$("${podman[@]}" inspect --format '{{.State.Pid}}' first)
    [ "$(stat -c %u "/proc/$pid")" = 65532 ] || fail "it does not run as 65532"
    sysctl -qw net.ipv4.tcp_migrate_req=1
    begin_load
    start_container second
    eventually "${podman[@]}" healthcheck run second
    stop_container first
    end_load image
    stop_container second
    documented
    echo "image: serves as user 65532, and stops"
}

# The commands of the guide that run a container, each with the endpoint of this script, and on the network of this script: ports are
# published by others. What operators do in a container has to work in all of them.
documented() {
    local commands command options
    mapfile -t commands < <(sed -n '/^## Image/,/^## Static/s/^podman run \(.*evenkeel:[0-9].*\)/\1/p' docs/guide/install.md)
    [ "${#commands[@]}" = 4 ] || fail "the guide has ${#commands[@]} commands that run a container, and this script knows 4"
    cp packaging/image/evenkeel.toml "$work/evenkeel.toml"
    for command in "${commands[@]}"; do
        command=${command%%  #*}
        command=${command//10.0.0.1:80/127.0.0.1:8081}
        command=${command//10.0.0.2:80/127.0.0.2:8081}
        command=$(sed "s,evenkeel:[0-9][0-9.]*,localhost/evenkeel:$version,; s,-p 8080:8080,--network host,; s,--name new ,," <<<"$command")
        # Words are those of a shell, with quotes.
        eval "options=($command)"
        (cd "$work" && "${podman[@]}" run --detach --name documented --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "${options[@]}") >/dev/null
        answers "podman run $command"
        operated documented
        [[ $command != *--health-cmd* ]] || "${podman[@]}" healthcheck run documented || fail "its health check fails"
        stop_container documented
    done
}

# What operators do by `podman exec`: status, and an endpoint that is drained and comes back.
operated() {
    local in=("${podman[@]}" exec "$1" evenkeel) place
    "${in[@]}" ready >/dev/null || fail "ready fails in the container"
    place=$("${in[@]}" status --json | python3 -c '
import json, sys
pool = json.load(sys.stdin)["pools"][0]
print(pool["name"], pool["endpoints"][0]["name"])')
    # Two words.
    "${in[@]}" drain $place >/dev/null || fail "an endpoint does not drain in the container"
    "${in[@]}" undrain ${place% *} >/dev/null || fail "an endpoint does not undrain in the container"
}
start_container() {
    "${podman[@]}" run --detach --name "$1" --network host --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
        --health-cmd "[\"/usr/bin/evenkeel\", \"ready\"]" --health-interval disable \
        "localhost/evenkeel:$version" >/dev/null
}
stop_container() {
    "${podman[@]}" stop --time 20 "$1" >/dev/null
    [ "$("${podman[@]}" inspect --format '{{.State.ExitCode}}' "$1")" = 0 ] || fail "container $1 was stopped and failed"
    "${podman[@]}" rm "$1" >/dev/null
}

# In another folder, with another folder for what is built; the clock is another anyway.
reproduce() {
    local other=$work/another/evenkeel
    mkdir -p "$work/another"
    git clone --quiet --no-hardlinks . "$other"
    CARGO_TARGET_DIR=$work/another/built "$other/scripts/package.sh" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "it does not build again"; }
    diff "$packages/SHA256SUMS" "$other/target/package/SHA256SUMS" || fail "these differ"
    echo "reproduced: every byte, from another folder"
}

if [ "${1:-}" = apart ]; then
    rm -rf "$work"
    work=$2
    root=$work/debian
    "${@:3}"
    exit
fi
[ "$(id -u)" = 0 ] || fail "what is tried here is installed and needs root"
[ -e "$packages/SHA256SUMS" ] || fail "no packages: make package"
trap 'rm -rf "$work"' EXIT
(cd "$packages" && sha256sum --check --quiet SHA256SUMS)
if [ "${1:-}" = reproduce ]; then
    reproduce
    exit
fi
check_deb
check_rpm
apart serve_image
echo "packages: all of them work"
