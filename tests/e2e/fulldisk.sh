#!/usr/bin/env bash
# fulldisk.sh PROGRAM KIND: a real file system without one free byte, or one
# free inode: what is not needed any more can be forgotten and collected,
# afterwards all that is needed is there, and pushes work.
. "$(dirname "$0")/lib.sh"
need_root
need losetup

# a_disk SIZE MKFS...: a file system of its own, as "disk", with a store.
a_disk() {
	local size=$1
	shift
	need "$1"
	truncate -s "$size" image
	mkdir disk
	"$@" image >"$out" 2>&1 || skip "$1 fails: $(tail -n 1 "$out")"
	mount -o loop image disk 2>"$err" || skip "$1: $(cat "$err")"
	mounts=("$PWD/disk")
	sed -i "s|^path = .*|path = $PWD/disk/store|" "$CAIRN_CONFIG"
	cairn init disk/store 2>/dev/null
}

push() { # DAY GROUP FILE
	ok cairn push --time "2001-01-0$1T00:00:00Z" --chunk-size 256K "$2" "a.img=$3"
}
restores() { # SNAPSHOT FILE
	ok cairn cat "$1" a.img
	cmp "$out" "$2"
}

# fill NUMBER: until not one more byte is taken, in no size.
fill() {
	local size
	for size in 1M 64K 512; do
		dd if=/dev/zero of="disk/filler$size$1" bs="$size" \
			status=none 2>/dev/null || true
		sync -f disk
	done
}

# fill_inodes: small files, until there can not be one more.
fill_inodes() {
	local i=0
	while : 2>/dev/null >"disk/file$i"; do i=$((i + 1)); done 2>/dev/null
	[ "$(stat -f -c '%d' disk)" -eq 0 ] || fail "inodes are free"
}

data first $((8 * MIB))
data second $((4 * MIB))
data new $((2 * MIB))
{
	head -c $((2 * MIB)) second
	bytes third $((2 * MIB))
} >both

case ${2-} in
ext4) a_disk 64M mkfs.ext4 -q -m 0 ;;
inodes) a_disk 64M mkfs.ext4 -q -m 0 -N 300 ;;
xfs) a_disk 300M mkfs.xfs -q ;;
btrfs) a_disk 110M mkfs.btrfs -q -m dup -d single ;;
# Data and metadata share what there is: no time can be set either.
btrfs_mixed) a_disk 64M mkfs.btrfs -q -M ;;
*) fail "which file system?" ;;
esac
push 1 host/a first
push 2 host/a second
push 2 host/b both
if [ "$2" = inodes ]; then
	fill_inodes
else
	fill 1
	fill 2
fi
run cairn push --time 2001-01-03T00:00:00Z host/c a.img=new
if [ "$code" -ne 1 ] || ! grep -q 'No space left on device; to make room' "$err"; then
	show
	fail "a push where there is no room: exit code $code"
fi
ok cairn forget host/a/2001-01-01T00:00:00Z
unrecorded=$(grep -c "no room to record that 'host/a/2001-01-01T00:00:00Z' was" \
	"$err" || true)
if [ "$2" = inodes ]; then
	fill_inodes
else
	fill 3
fi
restores host/a/latest second

# It is collected, with nothing but what forget has said to say.
run cairn gc --cutoff 0
if [ "$unrecorded" -ne 0 ] && [ "$code" -eq 1 ]; then
	grep -q -e '--accept-missing' "$err" || fail "$(cat "$err")"
	run cairn gc --cutoff 0 --accept-missing
fi
[ "$code" -eq 0 ] || {
	show
	fail "gc: exit code $code"
}
grep -q '^removed: *32 chunks, 8 MiB' "$out" || {
	show
	fail "not what was garbage"
}
if [ "$2" = btrfs_mixed ]; then
	grep -q 'too full to set access times' "$err" ||
		printf 'here times could be set all the same\n'
fi
[ "$(python3 "$reader" garbage disk/store | wc -l)" -eq 0 ] ||
	fail "garbage is left"
restores host/a/latest second
restores host/b/latest both

# And there is room: not more is taken away than what was garbage.
[ "$2" != inodes ] || rm disk/file?
push 4 host/a new
restores host/a/latest new
restores host/a/2001-01-02T00:00:00Z second
ok cairn verify
ok cairn history
grep -q ' gc ' "$out" || fail "the run is not in the history: $(cat "$out")"
sound disk/store
no_leftovers disk/store
