#!/usr/bin/env bash
# File systems that keep access times in their own way:
# noatime, relatime, lazytime, whole seconds only, dates up to 2038 only.  What
# is needed stays, garbage goes, also right behind a push; and mounted
# read-only, what reads works and what writes says why not.
. "$(dirname "$0")/lib.sh"
need_root
need losetup

data a $((2 * MIB))
data b $((2 * MIB))
data c $((2 * MIB))
ran=0

# a_disk SIZE OPTIONS MKFS...: a file system of its own, as "disk"; not 0 if
# this machine has none such.
a_disk() {
	local size=$1 options=$2
	shift 2
	rm -f image
	truncate -s "$size" image
	mkdir -p disk
	if ! command -v "$1" >/dev/null || ! "$@" image >why 2>&1 ||
		! mount -o "loop,$options" image disk 2>why; then
		printf 'left out: %s (%s)\n' "$*" "$options"
		return 1
	fi
	mounts=("$PWD/disk")
	sed -i "s|^path = .*|path = $PWD/disk/store|" "$CAIRN_CONFIG"
	cairn init disk/store 2>/dev/null
	ran=$((ran + 1))
}
without_disk() {
	umount disk
	mounts=()
}
push() { ok cairn push --time "2001-01-0$1T00:00:00Z" --chunk-size 64K host/a "a.img=$2"; }

# collects: what is garbage goes, what is needed stays, though nothing but
# utimensat sets times here.
collects() {
	push 1 a
	push 2 b
	push 3 a
	ok cairn forget host/a/2001-01-01T00:00:00Z host/a/2001-01-02T00:00:00Z
	old disk/store
	ok cairn gc
	grep -q '^removed: *32 chunks' "$out" || { show; fail "not b's chunks"; }
	mount -o remount disk
	ok cairn cat host/a/latest a.img
	cmp "$out" a
	sound disk/store
}

# behind_a_push: collections without a margin next to pushes that use what
# would be garbage, many times.
behind_a_push() {
	local i gc
	for i in 4 5 6 7; do
		push "$i" c
		ok cairn forget "host/a/2001-01-0${i}T00:00:00Z"
	done
	cairn gc --cutoff 0 >gc.out 2>gc.err &
	gc=$!
	while kill -0 $gc 2>/dev/null; do
		push 8 c
		ok cairn cat host/a/latest a.img
		cmp "$out" c
		ok cairn forget host/a/2001-01-08T00:00:00Z
	done
	wait $gc || fail "gc: $(cat gc.err)"
	push 9 c
	ok cairn gc --cutoff 0
	ok cairn verify
	sound disk/store
}

# read_only: what reads works.
read_only() {
	mount -o remount,ro disk
	ok cairn list
	ok cairn cat host/a/latest a.img
	ok cairn restore host/a/latest a.img restored
	rm restored
	keep=disk/store run cairn verify
	[ "$code" -eq 0 ] || fail "verify: exit code $code: $(cat "$err")"
	keep=disk/store run cairn gc --dry-run --cutoff 0
	[ "$code" -eq 0 ] || fail "dry run: exit code $code: $(cat "$err")"
	check 1 cairn gc <<'END'
! cairn: open 'DIR/disk/store/.lock': Read-only file system; this command has to write to the datastore
END
}
one() { # FUNCTION... -- SIZE OPTIONS MKFS...
	local steps=()
	while [ "$1" != -- ]; do
		steps+=("$1")
		shift
	done
	shift
	a_disk "$@" || return 0
	local step
	for step in "${steps[@]}"; do
		$step
	done
	without_disk
}
one collects read_only -- 64M noatime mkfs.ext4 -q
one collects -- 64M relatime,lazytime mkfs.ext4 -q
# Dates up to 2038.
one collects read_only -- 300M noatime,lazytime mkfs.xfs -q -m bigtime=0
one collects read_only -- 128M noatime mkfs.btrfs -q
# Whole seconds.
one collects behind_a_push -- 64M noatime mkfs.ext4 -q -I 128
[ "$ran" -gt 0 ] || skip "no file system can be loop-mounted"
