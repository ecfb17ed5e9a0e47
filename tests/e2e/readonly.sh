#!/usr/bin/env bash
# A store on a file system that is mounted read-only: what reads works, what
# writes says why not.
. "$(dirname "$0")/lib.sh"
need_root

mkdir disk
mount -t tmpfs -o size=16m tmpfs disk || skip "can not mount a tmpfs"
mounts+=("$PWD/disk")
sed -i "s|^path = .*|path = $PWD/disk/store|" "$CAIRN_CONFIG"
cairn init disk/store 2>/dev/null
data a 500000
ok cairn push --time 2001-01-01T00:00:00Z host/a a.img=a
ok cairn verify
ok cairn gc
mount -o remount,ro disk

check 0 cairn list <<'END'
SNAPSHOT                          SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/a/2001-01-01T00:00:00Z  488.3 KiB      1  ok        -
END
ok cairn groups
ok cairn files host/a/latest
ok cairn cat host/a/latest a.img
cmp "$out" a
ok cairn restore host/a/latest a.img restored
cmp restored a
ok cairn note host/a/latest
ok cairn status
ok cairn gc status
check 0 cairn gc --dry-run <<'END'
would remove:  0 chunks, 0 B
               nothing is garbage: every chunk is referenced
in use:        1 chunk, 488.3 KiB
referenced by: 1 index file, 488.3 KiB
deduplication: 1.00
END
check 0 cairn push --dry-run --time 2001-01-02T00:00:00Z host/a a.img=a <<'END'
host/a/2001-01-02T00:00:00Z (dry run: nothing was stored)
  a.img: 488.3 KiB in 1 chunk
  would be new: 0 of 1 chunk, 0 B
END
ok cairn inspect disk/store/host/a/2001-01-01T00:00:00Z/a.img.fidx

check 1 cairn push --time 2001-01-02T00:00:00Z host/a a.img=a <<'END'
! cairn: open 'DIR/disk/store/.lock': Read-only file system; this command has to write to the datastore
END
check 1 cairn forget host/a/latest <<'END'
! cairn: open 'DIR/disk/store/.lock': Read-only file system; this command has to write to the datastore
END
check 1 cairn note host/a/latest text <<'END'
! cairn: open 'DIR/disk/store/.lock': Read-only file system; this command has to write to the datastore
END
check 1 cairn protect host/a/latest <<'END'
! cairn: open 'DIR/disk/store/.lock': Read-only file system; this command has to write to the datastore
END
check 1 cairn gc <<'END'
! cairn: open 'DIR/disk/store/.lock': Read-only file system; this command has to write to the datastore
END
keep=disk/store check 0 cairn verify <<'END'
verified 1 snapshot: 1 chunk, 488.3 KiB read
no damage found
! cairn: the file system is read-only: the result is not recorded
END

# Also a damaged chunk is told there.
mount -o remount,rw disk
chunk=$(find disk/store/.chunks -type f | sort | head -n 1)
printf X | dd of="$chunk" bs=1 seek=100 conv=notrunc status=none
mount -o remount,ro disk
find disk/store/.chunks -type f -exec cat {} + >/dev/null # access times
keep=disk/store check 4 cairn verify <<'END'
verified 1 snapshot: 1 chunk, 976.6 KiB read
chunks: 0 missing, 0 bad (renamed to .bad), 0 unreadable
chunks: 1 bad that could not be renamed
hurt: host/a/2001-01-01T00:00:00Z
  a.img
a push of the same data stores missing and bad chunks again; then verify once more
! cairn: the file system is read-only: the result is not recorded
! cairn: warning: 'host/a/2001-01-01T00:00:00Z/a.img.fidx': chunk '.chunks/b9b2/DIGEST' at offset 0: plain blob of 500012 bytes has CRC b61f563a, its header says a7029ac8
END
also='s/[0-9a-f]{8}(,|;|$)/XXXXXXXX\1/g'
keep=disk/store run cairn cat host/a/latest a.img
: >"$out"
expect 4 <<'END'
! cairn: warning: the damage could not be recorded: open 'DIR/disk/store/.cairn/damaged': Read-only file system
! cairn: 'host/a/2001-01-01T00:00:00Z/a.img.fidx': chunk DIGEST at offset 0: plain blob of 500012 bytes has CRC XXXXXXXX, its header says XXXXXXXX; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
END
mount -o remount,rw disk
check 4 cairn verify <<'END'
verified 1 snapshot: 1 chunk, 976.6 KiB read
chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
hurt: host/a/2001-01-01T00:00:00Z
  a.img
a push of the same data stores missing and bad chunks again; then verify once more
! cairn: warning: 'host/a/2001-01-01T00:00:00Z/a.img.fidx': chunk '.chunks/b9b2/DIGEST' at offset 0: plain blob of 500012 bytes has CRC XXXXXXXX, its header says XXXXXXXX
END
