#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The newcomer's promise: on a bare Debian with only this repository, `make test` passes and `make run`
# starts what exists. Makes a minimal system in build/bare with debootstrap, from the machine's own
# Debian source, clones the committed tree into it and runs both. Prints TAP. Needs root.
#   tests/long/bare.sh SOURCE_ROOT
set -u
source_root=$1
bare=$source_root/build/bare
log=$source_root/build/bare.log

skip() { echo "1..0 # SKIP $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "a chroot needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

number=0
failed=0
verdict() {
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then echo "ok $number - $2"
    else echo "not ok $number - $2"; failed=1; tail -40 "$log" | sed 's/^/# /'; fi
}

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | awk -v suite="$codename" '
    /^URIs:/   { uri = $2 }
    /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite) { print uri; exit } }
    $1 == "deb" { for (i = 2; i <= NF; i++) if ($i == suite) { print $(i - 1); exit } }')
[ -n "$mirror" ] || skip "no Debian source for $codename on this machine"

unmount() {
    for place in proc sys dev; do
        mountpoint -q "$bare/$place" && umount -R "$bare/$place"
    done
}
trap unmount EXIT
unmount
rm -rf --one-file-system "$bare"
debootstrap --variant=minbase --include=make,git,ca-certificates "$codename" "$bare" "$mirror" >"$log" 2>&1
verdict $? "a bare $codename with make and git"
[ "$failed" -eq 0 ] || { echo "1..$number"; exit 1; }

rm -f "$bare/etc/apt/sources.list"
cp /etc/apt/sources.list.d/debian.sources "$bare/etc/apt/sources.list.d/" 2>/dev/null ||
    cp /etc/apt/sources.list "$bare/etc/apt/sources.list"
cp /etc/resolv.conf /etc/hosts "$bare/etc/"
mount -t proc proc "$bare/proc"
mount -t sysfs sysfs "$bare/sys"
mount --rbind /dev "$bare/dev" && mount --make-rslave "$bare/dev"
git clone -q "$source_root" "$bare/muster" >>"$log" 2>&1
verdict $? "a clone of the committed tree"

chroot "$bare" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
    sh -c 'cd /muster && make test' >"$log" 2>&1
verdict $? "make test on the bare system: $(tail -1 "$log")"
grep -E '^(skipped|FAILED|took)' "$log" | sed 's/^/# /'

chroot "$bare" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C sh -c '
    cd /muster && make build || exit 1
    make run ARGS="--http-listen 127.0.0.1:0" >/tmp/run.log 2>&1 & fleet=$!
    for try in $(seq 150); do
        address=$(grep -o "http://127.0.0.1:[0-9]*" /tmp/run.log | head -1)
        [ -n "$address" ] && curl -sf "$address/healthz" && break
        sleep 0.2
    done
    curl -sf "$address/healthz"; answer=$?
    kill -TERM $fleet; wait $fleet
    cat /tmp/run.log
    exit $answer' >"$log" 2>&1
verdict $? "make run on the bare system answers /healthz"
echo "1..$number"
unmount
[ "$failed" -eq 0 ] && rm -rf --one-file-system "$bare"
exit $failed
