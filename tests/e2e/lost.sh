#!/usr/bin/env bash
# Lost: a manifest, all chunks, or the chunk that many files need.  What is
# said names the next step.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
export CAIRN_DATASTORE=$PWD/store
a=host/a/2001-01-01T00:00:00Z
data disk 300000
mkdir tree
for i in 1 2 3; do echo "file $i" >tree/$i; done
ok cairn push --time 2001-01-01T00:00:00Z host/a disk.img=disk root.tree=tree
ok cairn push --time 2001-01-02T00:00:00Z host/b disk.img=disk

# A store without a chunk that needs none.
cairn init blobs 2>/dev/null
echo text >text
ok cairn -d ./blobs push host/a text.conf=text
run cairn -d ./blobs status
[ "$code" -eq 0 ] || fail "exit code $code: $(cat "$out")"
! grep -q damage "$out" || fail "$(cat "$out")"

# A manifest.  A push that never ended looks the same.
mv store/$a/index.json.blob away
for command in 'restore SNAPSHOT disk.img there' 'cat SNAPSHOT disk.img' \
	'files SNAPSHOT' 'ls SNAPSHOT root.tree'; do
	# shellcheck disable=SC2086
	check 1 cairn ${command/SNAPSHOT/$a} <<END
! cairn: '$a/index.json.blob': the snapshot is unfinished: its push has not ended, never did, or the manifest was removed; 'cairn list host/a' names the snapshots that are finished
END
done
[ ! -e there ] || fail "a target was made"
also='s/[0-9.]+ KiB read/SIZE read/' check 0 cairn verify <<'END'
verified 1 snapshot: 1 chunk, SIZE read
passed over: 1 unfinished (without a manifest; 'cairn list --all' names it)
no damage found
END
# Its data is kept: put back, the manifest makes it whole.
ok cairn gc --cutoff 0
mv away store/$a/index.json.blob
ok cairn verify
ok cairn cat $a disk.img
cmp "$out" disk

# A chunk of a tree: each file that needs it is named, the rest is given.
digest=$(python3 -c '
import sys
with open(sys.argv[1], "rb") as f:
    f.seek(4096 + 8)
    print(f.read(32).hex())' store/$a/root.tree.didx)
chunk=store/.chunks/${digest:0:4}/$digest
mv "$chunk" away
run cairn restore $a root.tree there
[ "$code" -eq 3 ] || fail "exit code $code"
[ "$(grep -c "^cairn: warning: 'there/[123]'" "$err")" -eq 3 ] ||
	fail "not each file was named"
[ "$(grep -c "names all that is damaged" "$err")" -eq 1 ] ||
	fail "the next step was not said once"
grep -qF "'cairn verify $a' names all that is damaged, and a push of the same data mends its chunks; 'cairn list host/a' names the snapshots that may have it whole" "$err" ||
	fail "not the next step"
mv away "$chunk"

mv "$chunk" away
run cairn export $a root.tree
[ "$code" -eq 3 ] || fail "exit code $code"
[ "$(grep -c "names all that is damaged" "$err")" -eq 1 ] ||
	fail "the next step was not said once"
mv away "$chunk"

# All chunks, as if another file system were missing.
mv store/.chunks chunks
mkdir store/.chunks
also='s/(file system: ).*/\1FIGURES/; s/(chunks then: ).*/\1FIGURES/' check 4 cairn status <<'END'
datastore:   DIR/store
file system: FIGURES
snapshots:   2 in 2 groups, newest of 2001-01-02T00:00:00Z
damage:      no chunk is there at all: was '.chunks' emptied, or is its file system not mounted?
damage:      1 chunk is missing or bad; 'cairn verify' names what it hurts
gc:          last ended TIME, removed 0 B
chunks then: FIGURES
verify:      last ran TIME, 2 snapshots: no damage
END
run cairn --json status
[ "$(json "$out" 'd["chunks-gone"]')" = True ] || fail "$(cat "$out")"
rmdir store/.chunks
mv chunks store/.chunks

# A catalog.
digest=$(python3 -c '
import sys
with open(sys.argv[1], "rb") as f:
    f.seek(4096)
    print(f.read(32).hex())' store/$a/root.tree.catalog.fidx)
chunk=store/.chunks/${digest:0:4}/$digest
mv "$chunk" away
for command in 'ls SNAPSHOT root.tree' 'du SNAPSHOT root.tree' \
	'cat SNAPSHOT root.tree 1' 'export SNAPSHOT root.tree'; do
	# shellcheck disable=SC2086
	run cairn ${command/SNAPSHOT/$a}
	[ "$code" -eq 4 ] || fail "exit code $code: $command"
	[ "$(grep -c "'cairn verify $a' names all that is damaged" "$err")" -eq 1 ] ||
		fail "the next step was not said once: $command"
done
mv away "$chunk"

# A chunk that is bad: what stays of it, and until when.
digest=$(python3 -c '
import sys
with open(sys.argv[1], "rb") as f:
    f.seek(4096)
    print(f.read(32).hex())' store/$a/disk.img.fidx)
chunk=store/.chunks/${digest:0:4}/$digest

printf x >"$chunk"
run cairn verify
[ "$code" -eq 4 ] || fail "exit code $code"
run cairn gc --full
grep -qxF 'bad:           0 removed, 1 kept of the chunk files that are bad: until a push stores that chunk again, or nothing references it' "$out" ||
	fail "not said why it is kept"
ok cairn push host/c disk.img=disk
ok cairn forget host/c/latest
ok cairn verify

# A clock that was wrong.
ok cairn push --time 2999-01-01T00:00:00Z host/a disk.img=disk
run cairn list host/a
grep -qxF "cairn: warning: 1 snapshot is dated in the future, as 'host/a/2999-01-01T00:00:00Z': was a clock wrong? 'latest' means it, and 'prune' sets it aside" "$err" ||
	fail "nothing is said of the future"
ok cairn forget host/a/2999-01-01T00:00:00Z

# All chunks.
mv store/.chunks chunks-away
mkdir store/.chunks
run cairn verify
[ "$code" -eq 4 ] || fail "exit code $code"
grep -qxF "no chunk is there at all: was '.chunks' emptied, or is its file system not mounted?" "$out" ||
	fail "nothing is said of what may be the reason"
! grep -q 'a push of the same data' "$out" || fail "advised to push"
