#!/usr/bin/env bash
# Who may do what at the same time as whom: 75, and who is in the way.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
data a 200000
ok cairn push --time 2001-01-01T00:00:00Z host/a a.raw=a
ok cairn push --time 2001-01-02T00:00:00Z host/a a.raw=a

# A push that waits for more input, until its pipe is closed.
mkfifo pipe
push_that_waits() { # GROUP TIME
	cairn push --time "$2" --chunk-size 64K "$1" a.raw=- <pipe >"$out.p" \
		2>"$err.p" &
	pid=$!
	exec 7>pipe
	bytes more $MIB >&7
	until_true 20 chunks_of "$1/$2"
}
chunks_of() {
	[ -e "store/$1" ] && [ "$(find store/.chunks -type f | wc -l)" -gt 3 ]
}
it_ends() {
	exec 7>&-
	code=0
	wait "$pid" || code=$?
	mv "$out.p" "$out"
	mv "$err.p" "$err"
}

push_that_waits host/b 2001-01-01T00:00:00Z
check 75 cairn push host/b a.raw=a <<'END'
! cairn: group 'host/b' is in use by push of host/b (host HOST, pid PID, since TIME); try again when that has ended
END
check 75 cairn forget host/b/2001-01-01T00:00:00Z <<'END'
! cairn: snapshot 'host/b/2001-01-01T00:00:00Z' is in use: it is being written or read, or a backup is based on it; at work in its group: push of host/b (host HOST, pid PID, since TIME); try again when that has ended
END
check 1 cairn cat host/b/latest a.raw <<'END'
! cairn: group 'host/b' has no finished snapshot
END
check 75 cairn cat host/b/2001-01-01T00:00:00Z a.raw <<'END'
! cairn: snapshot 'host/b/2001-01-01T00:00:00Z' is being written or removed; at work in its group: push of host/b (host HOST, pid PID, since TIME); try again when that has ended
END
check 0 cairn list host/b </dev/null
check 0 cairn list --all host/b <<'END'
SNAPSHOT                     SIZE  FILES  VERIFIED    PROTECTED  NOTE
host/b/2001-01-01T00:00:00Z     -      -  unfinished  -
END
check 0 cairn push --time 2001-01-03T00:00:00Z host/a a.raw=a <<'END'
host/a/2001-01-03T00:00:00Z
  a.raw: 195.3 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
END
check 0 cairn forget host/a/2001-01-03T00:00:00Z <<'END'
forgot host/a/2001-01-03T00:00:00Z
END
also='s/(file system: ).*/\1FIGURES/; s/(free space: +).*/\1FIGURES/'
check 0 cairn status <<'END'
datastore:   DIR/store
file system: FIGURES
snapshots:   2 in 2 groups, 1 unfinished, newest of 2001-01-02T00:00:00Z
open backup: host/b by pid PID on HOST, since TIME
gc:          never ended here
verify:      never ran here
END
run cairn --json status
json "$out" '[sorted(s.items())[0:2] for s in d["sessions"]]' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
[[('command', 'push'), ('group', 'host/b')]]
END

# GC beside it, even without a margin, keeps what it has stored.
also="$also; s/[0-9]+ chunks, [0-9.]+ [KM]iB\$/CHUNKS/" \
	check 0 cairn gc --full --cutoff 0 <<'END'
removed:       0 chunks, 0 B
pending:       CHUNKS
               kept for the open backup push of host/b (host HOST, pid PID, since TIME)
               no command frees it before that backup has ended; then run gc again
in use:        1 chunk, 195.3 KiB
referenced by: 2 index files, 390.6 KiB
deduplication: 2.00
free space:    FIGURES
! cairn: waiting 6 s, so that what was last used before this run can go
END
it_ends
expect 0 <<'END'
host/b/2001-01-01T00:00:00Z
  a.raw: 1 MiB in 15 chunks
  new: 15 of 15 chunks, 1 MiB, stored as 1 MiB
END
ok cairn cat host/b/latest a.raw
bytes more $MIB | cmp - "$out"
sound store

# One whose registration somebody removed can not be sure of its chunks.
push_that_waits host/c 2001-01-01T00:00:00Z
rm store/.cairn/sessions/*
it_ends
expect 75 <<'END'
! cairn: registration 'DIR/store/.cairn/sessions/UUID' was removed: garbage collection may not have known of this session; the backup has to be repeated
END
[ ! -e store/host/c ] || fail "it published"

# A reader holds its snapshot.
mkfifo stuck
data large $((4 * MIB))
ok cairn push --time 2001-01-01T00:00:00Z host/r a.raw=large
cairn -q cat host/r/latest a.raw >stuck &
pid=$!
exec 8<stuck
head -c 1000 <&8 >/dev/null
check 75 cairn forget host/r/latest <<'END'
! cairn: snapshot 'host/r/2001-01-01T00:00:00Z' is in use: it is being written or read, or a backup is based on it; try again when that has ended
END
check 0 cairn note host/r/latest 'while it is read' </dev/null
check 0 cairn protect host/r/latest <<'END'
protected host/r/2001-01-01T00:00:00Z
END
check 0 cairn unprotect host/r/latest <<'END'
unprotected host/r/2001-01-01T00:00:00Z
END
ok cairn verify host/r
cat <&8 >/dev/null
exec 8<&-
wait "$pid"
check 0 cairn forget host/r/latest <<'END'
forgot host/r/2001-01-01T00:00:00Z
END

# A restore that has begun finishes, whatever is forgotten meanwhile: it can
# not be.  (And a stopped one keeps its lock.)
ok cairn push --time 2001-01-01T00:00:00Z host/r a.raw=large
cairn -q cat host/r/latest a.raw >stuck &
pid=$!
exec 8<stuck
head -c 1 <&8 >first
kill -STOP "$pid"
check 75 cairn forget host/r/latest <<'END'
! cairn: snapshot 'host/r/2001-01-01T00:00:00Z' is in use: it is being written or read, or a backup is based on it; try again when that has ended
END
old store
ok cairn gc --cutoff 1h
kill -CONT "$pid"
cat first - <&8 >all
exec 8<&-
wait "$pid"
cmp all large

# Two collections.
cairn gc --cutoff 0 >"$out.p" 2>"$err.p" &
pid=$!
until_true 20 test -s "$err.p"
check 75 cairn gc <<'END'
! cairn: 'DIR/store' is in use by garbage collection of cairn (host HOST, pid PID, since TIME); try again when that has ended
END
check 75 cairn gc --cutoff 0 <<'END'
! cairn: 'DIR/store' is in use by garbage collection of cairn (host HOST, pid PID, since TIME); try again when that has ended
END
ok cairn gc --dry-run
check 0 cairn gc status <<'END'
running:       garbage collection of cairn (host HOST, pid PID, since TIME)
phase:         gc: begin
last attempt:  busy, begun TIME by pid PID on HOST
               'DIR/store' is in use by garbage collection of cairn (host HOST, pid PID, since TIME); try again when that has ended
last run:      ended TIME
removed:       0 chunks, 0 B
               nothing is garbage: every chunk is referenced, also those of what was removed
in use:        20 chunks, 5.191 MiB
referenced by: 4 index files, 5.381 MiB
deduplication: 1.04
free space:    FIGURES
END
run cairn --json gc status
json "$out" 'sorted(d), "pid" in d["running"], d["phase"]' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
(['failed', 'last', 'percent', 'percent-at', 'phase', 'running', 'running-host', 'running-pid', 'running-since'], True, 'gc: begin')
END
check 0 cairn push --time 2001-01-04T00:00:00Z host/a a.raw=a <<'END'
host/a/2001-01-04T00:00:00Z
  a.raw: 195.3 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
END
check 0 cairn forget host/a/2001-01-04T00:00:00Z <<'END'
forgot host/a/2001-01-04T00:00:00Z
END
wait "$pid"
sound store

# Proxmox Backup Server locks the whole file: shared where it writes,
# exclusively where it collects.
lock() { # EXCLUSIVE|SHARED: hold that until unlock
	mkfifo held release
	python3 -c '
import fcntl, sys
f = open("store/.lock", "r+")
fcntl.lockf(f, fcntl.LOCK_EX if sys.argv[1] == "EXCLUSIVE" else fcntl.LOCK_SH)
open("held", "w").close()
open("release").read()' "$1" &
	pid=$!
	cat held
}
unlock() {
	: >release
	wait "$pid"
	rm held release
}
for how in SHARED EXCLUSIVE; do
	lock $how
	check 75 cairn push host/a a.raw=a <<'END'
! cairn: datastore 'DIR/store' is in use by another program that locks all of it, as PBS does; try again when that has ended
END
	check 75 cairn forget host/a/latest <<'END'
! cairn: datastore 'DIR/store' is in use by another program that locks all of it, as PBS does; try again when that has ended
END
	run cairn gc
	grep -q "another program" "$err" || fail "$(cat "$err")"
	sed -i 's/ by .*//' "$err"
	expect 75 <<'END'
! cairn: 'DIR/store' is in use
END
	check 75 cairn verify <<'END'
! cairn: datastore 'DIR/store' is in use by another program that locks all of it, as PBS does; try again when that has ended
END
	check 75 cairn note host/a/latest x <<'END'
! cairn: datastore 'DIR/store' is in use by another program that locks all of it, as PBS does; try again when that has ended
END
	check 0 cairn list host/a <<'END'
SNAPSHOT                          SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/a/2001-01-01T00:00:00Z  195.3 KiB      1  -         -
host/a/2001-01-02T00:00:00Z  195.3 KiB      1  -         -
END
	ok cairn cat host/a/latest a.raw
	cmp "$out" a
	ok cairn status
	ok cairn gc --dry-run
	unlock
done
ok cairn push --time 2001-01-05T00:00:00Z host/a a.raw=a

# While a collection lists, who publishes or removes waits, and says for whom.
tree_lock() { # hold it as a collection does, until $holder is killed
	python3 -c '
import fcntl, struct, time
f = open("store/.lock", "r+")
lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2, 1, 0)
fcntl.fcntl(f, 37, lock)  # F_OFD_SETLK
open("locked", "w").close()
time.sleep(1000)' &
	holder=$!
	until_true 20 test -e locked
	rm locked
}
waiting() { # COMMAND...: in the background, until it says that it waits
	: >"$err"
	env --default-signal=INT "$@" >"$out" 2>"$err" &
	pid=$!
	until_true 60 grep -q 'waits for the tree lock' "$err"
}
waited() {
	code=0
	wait "$pid" || code=$?
}
tree_lock
waiting cairn push --time 2001-01-06T00:00:00Z host/a a.raw=a
kill "$holder"
waited
expect 0 <<'END'
host/a/2001-01-06T00:00:00Z
  a.raw: 195.3 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
! cairn: push waits for the tree lock of 'DIR/store', which garbage collection holds while it lists snapshots (unknown)
END
tree_lock
waiting cairn forget host/a/2001-01-06T00:00:00Z
kill "$holder"
waited
expect 0 <<'END'
forgot host/a/2001-01-06T00:00:00Z
! cairn: forget waits for the tree lock of 'DIR/store', which garbage collection holds while it lists snapshots (unknown)
END
tree_lock
waiting cairn push host/e a.raw=a
kill -INT "$pid"
waited
kill "$holder"
expect 130 <<'END'
! cairn: push waits for the tree lock of 'DIR/store', which garbage collection holds while it lists snapshots (unknown)
! cairn: warning: what is left of the unfinished snapshot is removed by the next push or garbage collection: lock byte 2 of 'DIR/store/.lock' is held
! cairn: stopped by SIGINT; no snapshot was made, and the next push reuses what was stored until then
END
ok cairn push --time 2001-01-06T00:00:00Z host/a a.raw=a
no_leftovers store

# And the other way round.
try_lock() { # 0: got it
	python3 -c '
import fcntl, sys
f = open("store/.lock", "r+")
try:
    fcntl.lockf(f, fcntl.LOCK_NB |
        (fcntl.LOCK_EX if sys.argv[1] == "EXCLUSIVE" else fcntl.LOCK_SH))
except OSError:
    sys.exit(1)' "$1"
}
try_lock EXCLUSIVE || fail "a lock is left"
push_that_waits host/d 2001-01-01T00:00:00Z
! try_lock EXCLUSIVE || fail "PBS could collect while cairn writes"
! try_lock SHARED || fail "PBS could write while cairn writes"
it_ends
[ "$code" -eq 0 ] || fail "$(cat "$err")"
cairn gc --cutoff 0 >"$out.p" 2>"$err.p" &
pid=$!
until_true 20 test -s "$err.p"
! try_lock EXCLUSIVE || fail "PBS could collect while cairn collects"
! try_lock SHARED || fail "PBS could write while cairn collects"
wait "$pid"
try_lock EXCLUSIVE || fail "a lock is left"
sound store
no_leftovers store
