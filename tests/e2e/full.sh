#!/usr/bin/env bash
# A file system that is full: a push that finds no room says so and leaves
# nothing; forget and gc make room with nothing free.
. "$(dirname "$0")/lib.sh"
need_root
need mkfs.ext4 losetup

# with_disk OPTION...: ext4 of 64 MiB, made with these, as "disk".
with_disk() {
	truncate -s 64M image
	mkfs.ext4 -q -O ^has_journal -m 0 "$@" image || skip "mkfs.ext4 fails"
	mkdir -p disk
	mount -o loop image disk || skip "can not mount a loop device"
	mounts=("$PWD/disk")
	rmdir disk/lost+found
	sed -i "s|^path = .*|path = $PWD/disk/store|" "$CAIRN_CONFIG"
	cairn init disk/store 2>/dev/null
}
without_disk() {
	umount disk
	mounts=()
	rm image
}
free_bytes() { stat -f -c '%a' disk; }
free_inodes() { stat -f -c '%d' disk; }

# No bytes.
with_disk
data first $((20 * MIB))
data second $((20 * MIB))
data third $((40 * MIB))
ok cairn push --time 2001-01-01T00:00:00Z host/a a.img=first
ok cairn push --time 2001-01-02T00:00:00Z host/a a.img=second
also="s/(make directory|write) '[^']*'/make 'IT'/" # whichever finds no room
check 1 cairn push --time 2001-01-03T00:00:00Z host/a a.img=third <<'END'
! cairn: make 'IT': No space left on device; to make room: 'cairn forget SNAPSHOT' (or 'prune') what is not needed, then 'cairn gc --cutoff 0'
END
no_leftovers disk/store
ok cairn verify
ok cairn cat host/a/latest a.img
cmp "$out" second
# What it had stored until then is garbage.  Then no byte is left.
dd if=/dev/zero of=disk/filler bs=64K status=none 2>/dev/null || true
dd if=/dev/zero of=disk/filler2 bs=512 status=none 2>/dev/null || true
[ "$(free_bytes)" -eq 0 ] || fail "$(free_bytes) blocks are free"
check 1 cairn push --time 2001-01-03T00:00:00Z host/b a.img=third <<'END'
! cairn: make 'IT': No space left on device; to make room: 'cairn forget SNAPSHOT' (or 'prune') what is not needed, then 'cairn gc --cutoff 0'
END
check 1 cairn note host/a/latest 'no room for it' <<'END'
! cairn: make 'IT': No space left on device; to make room: 'cairn forget SNAPSHOT' (or 'prune') what is not needed, then 'cairn gc --cutoff 0'
END
ok cairn list
ok cairn cat host/a/latest a.img
cmp "$out" second
check 0 cairn forget host/a/2001-01-01T00:00:00Z <<'END'
forgot host/a/2001-01-01T00:00:00Z
! cairn: warning: this run can not be recorded in the history: make 'IT': No space left on device
END
also='s/(free space: +).*/\1FIGURES/; s/^(removed:|pending:) .*/\1 FIGURES/'
check 0 cairn gc --cutoff 0 <<'END'
removed: FIGURES
in use:        20 chunks, 20 MiB
referenced by: 1 index file, 20 MiB
deduplication: 1.00
free space:    FIGURES
! cairn: waiting 6 s, so that what was last used before this run can go
END
[ "$(free_bytes)" -gt 8000 ] || fail "only $(free_bytes) blocks are free"
ok cairn push --time 2001-01-04T00:00:00Z host/a a.img=first
ok cairn verify
sound disk/store
no_leftovers disk/store
without_disk

# No inodes: each chunk and each prefix directory is one.
with_disk -N 300
data many $((6 * MIB))
ok cairn push --time 2001-01-01T00:00:00Z --chunk-size 64K host/a a.img=many
data more $((24 * MIB))
also=
run cairn push --time 2001-01-02T00:00:00Z --chunk-size 64K host/a a.img=more
grep -q 'No space left on device' "$err" || fail "$(cat "$err")"
[ "$code" -eq 1 ] || fail "exit code $code"
no_leftovers disk/store
ok cairn verify
i=0
while : 2>/dev/null >"disk/file$i"; do i=$((i + 1)); done 2>/dev/null
[ "$(free_inodes)" -eq 0 ] || fail "$(free_inodes) inodes are free"
check 1 cairn push --time 2001-01-02T00:00:00Z host/b a.img=more <<'END'
! cairn: make directory 'host/b': No space left on device; to make room: 'cairn forget SNAPSHOT' (or 'prune') what is not needed, then 'cairn gc --cutoff 0'
END
ok cairn cat host/a/latest a.img
cmp "$out" many
check 0 cairn forget host/a/2001-01-01T00:00:00Z <<'END'
forgot host/a/2001-01-01T00:00:00Z
END
also='s/(free space: +).*/\1FIGURES/; s/^(removed:|pending:) .*/\1 FIGURES/'
check 0 cairn gc --cutoff 0 <<'END'
removed: FIGURES
in use:        0 chunks, 0 B
referenced by: 0 index files, 0 B
free space:    FIGURES
! cairn: waiting 6 s, so that what was last used before this run can go
END
[ "$(python3 "$reader" garbage disk/store | wc -l)" -eq 0 ] ||
	fail "garbage is left"
rm disk/file*
ok cairn push --time 2001-01-03T00:00:00Z --chunk-size 1M host/a a.img=many
ok cairn verify
sound disk/store
without_disk

# Restore to where there is no room.
with_disk
ok cairn push --time 2001-01-01T00:00:00Z host/a a.img=third
check 1 cairn restore host/a/latest a.img disk/restored <<'END'
! cairn: write 'disk/restored': No space left on device
END
[ -z "$(find disk -maxdepth 1 -name '*restore*')" ] || fail "half a file"
