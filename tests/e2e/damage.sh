#!/usr/bin/env bash
# Damage: chunks, indexes, manifests and files of .cairn that are missing, cut
# or wrong.  It is told with the path, the rest stays usable, and a push heals
# what can be healed.
. "$(dirname "$0")/lib.sh"

cairn init sound-store 2>/dev/null
export CAIRN_DATASTORE=$PWD/store
data disk 300000
data other 200000
echo conf >conf
ok cairn -d ./sound-store push --time 2001-01-01T00:00:00Z --chunk-size 64K \
	host/a disk.img=disk data.raw=disk x.conf=conf
ok cairn -d ./sound-store push --time 2001-01-02T00:00:00Z host/b data.raw=other
ok cairn -d ./sound-store verify
ok cairn -d ./sound-store gc
fresh() {
	rm -rf store
	cp -a sound-store store
}
a=host/a/2001-01-01T00:00:00Z
index=store/$a/disk.img.fidx

# Chunks.  The second one of the image, and what is done to it.
fresh
digest=$(python3 -c '
import sys
with open(sys.argv[1], "rb") as f:
    f.seek(4096 + 32)
    print(f.read(32).hex())' "$index")
chunk=store/.chunks/${digest:0:4}/$digest
cat >spoil.py <<'END'
import subprocess, sys, struct, zlib
how, path = sys.argv[1:]
raw = open(path, "rb").read()
if how == "empty":
    raw = b""
elif how == "header":
    raw = raw[:11]
elif how == "short":
    raw = raw[:len(raw) // 2]
elif how == "zeros":
    raw = bytes(len(raw))
elif how == "bit":
    raw = raw[:1000] + bytes([raw[1000] ^ 1]) + raw[1001:]
elif how == "other":
    data = bytes(65536)
    raw = raw[:8] + struct.pack("<I", zlib.crc32(data)) + data
elif how == "bomb":
    frame = subprocess.run(["sh", "-c", "head -c 67108864 /dev/zero | zstd -c"],
                           stdout=subprocess.PIPE).stdout
    magic = bytes.fromhex("31b958426fb6a37f")
    raw = magic + struct.pack("<I", zlib.crc32(frame)) + frame
open(path, "wb").write(raw)
END
spoil() { # HOW
	case $1 in
	missing) rm "$chunk" ;;
	link) mv "$chunk" away && ln -s "$PWD/away" "$chunk" ;;
	*) python3 spoil.py "$1" "$chunk" ;;
	esac
}
said=$scratch/shell/said
: >"$said"
say() { # what was said, behind a heading, for one transcript of many
	printf '%s: %d\n' "$1" "$code"
	{
		cat "$out"
		sed 's/^/! /' "$err"
	} | sed -E "s/^/    /; s/$digest/THE-CHUNK/g"
} >>"$said"
for how in missing empty header short zeros bit other bomb link; do
	printf '%s\n' "-- $how" >>"$said"
	fresh
	spoil $how
	run cairn -q cat $a disk.img
	[ "$(wc -c <"$out")" -eq 65536 ] || fail "not what was before it"
	cmp -n 65536 "$out" disk
	: >"$out"
	say cat
	rm -f target
	run cairn -q restore $a disk.img target
	say restore
	[ ! -e target ] || fail "half a file was restored"
	ok cairn cat host/b/latest data.raw
	cmp "$out" other
	run cairn -q verify
	say verify
	ok cairn verify host/b
	# Whatever the reason, a push of the data stores it again.
	[ "$how" != link ] || continue
	ok cairn push --time 2001-01-03T00:00:00Z --chunk-size 64K host/c \
		disk.img=disk
	grep -q "new: 1 of 5 chunks" "$out" || fail "not healed: $(cat "$out")"
	ok cairn verify
	ok cairn cat $a disk.img
	cmp "$out" disk
	sound store
done
# What is left of a stream: zeros for what is damaged, by the range.
fresh
spoil missing
{
	head -c 65536 disk
	head -c 65536 /dev/zero
	tail -c +131073 disk
} >left
check 4 cairn restore --skip-damaged $a disk.img target <<'END'
'target': 293 KiB restored, 229 KiB written
  damaged: 64 KiB in 1 range, zeros in the target
! cairn: warning: 'target': bytes 65536 to 131071 are damaged, and zeros now: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk DIGEST at offset 65536: 'DIR/store/.chunks/345b/DIGEST' does not exist
END
cmp target left
# In place, what is there may be the last copy.
head -c "$(stat -c %s disk)" /dev/zero | tr '\0' x >target
{
	head -c 65536 disk
	head -c 65536 target
	tail -c +131073 disk
} >kept
check 4 cairn restore --skip-damaged --overwrite=changed $a disk.img target <<'END'
'target': 293 KiB restored, 229 KiB written
  damaged: 64 KiB in 1 range, not restored: the target keeps what it had there
! cairn: warning: 'target': bytes 65536 to 131071 are damaged, and not restored: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk DIGEST at offset 65536: 'DIR/store/.chunks/345b/DIGEST' does not exist
END
cmp target kept
run cairn --json restore --skip-damaged --overwrite=always $a disk.img target
[ "$code" -eq 4 ] || fail "exit code $code"
json "$out" '[d["damaged-bytes"], d["damaged-ranges"], d["damaged-at"]]' >ranges
grep -qF "[65536, 1, [{'start': 65536, 'end': 131072}]]" ranges || fail "$(cat ranges)"
check 0 cairn restore --skip-damaged host/b/latest data.raw whole <<'END'
'whole': 195.3 KiB restored, 195.3 KiB written
END
cmp whole other
# All but the last chunk: one range.
find store/.chunks -type f -size 65548c -delete
rm target whole
check 4 cairn restore --skip-damaged $a disk.img target <<'END'
'target': 293 KiB restored, 36.97 KiB written
  damaged: 256 KiB in 1 range, zeros in the target
! cairn: warning: 'target': bytes 0 to 262143 are damaged, and zeros now: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk DIGEST at offset 0: 'DIR/store/.chunks/649b/DIGEST' does not exist
END
cmp -n 262144 target /dev/zero
rm target

# Of very many snapshots the first are named.
fresh
for i in {10..59}; do
	cp -a store/host/b/2001-01-02T00:00:00Z store/host/b/2001-03-01T00:00:"${i}"Z
	cp -a store/host/b/2001-01-02T00:00:00Z store/host/b/2001-03-01T00:01:"${i}"Z
done
rm -rf store/host/a
find store/.chunks -type f -delete
run cairn -q verify
[ "$code" -eq 4 ] || fail "exit code $code"
[ "$(grep -c '^hurt: host/b/' "$out")" -eq 100 ] || fail "not 100 are named"
[ "$(grep -c '^  data.raw$' "$out")" -eq 100 ] || fail "not 100 archives"
grep -qx 'hurt: 1 more snapshot; --verbose names them' "$out" ||
	fail "the rest is not counted"
run cairn -q verify --verbose
[ "$(grep -c '^hurt: host/b/' "$out")" -eq 101 ] || fail "not all are named"

told() { # see expect
	mv "$said" "$out"
	: >"$err"
	: >"$said"
	code=0
}
told
expect 0 <<'END'
-- missing
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' does not exist; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' does not exist; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 717.4 KiB read
    chunks: 1 missing, 0 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: missing
-- empty
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' is empty, want at least 12 bytes; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' is empty, want at least 12 bytes; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 717.4 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: blob of 0 bytes, want at least 12
-- header
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 717.4 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: blob of 11 bytes, want at least 12
-- short
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: plain blob of 32774 bytes has CRC 7655c877, its header says 421f48da; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: plain blob of 32774 bytes has CRC 7655c877, its header says 421f48da; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 781.4 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: plain blob of 32774 bytes has CRC 7655c877, its header says 421f48da
-- zeros
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: blob with unknown magic 0000000000000000; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: blob with unknown magic 0000000000000000; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 845.4 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: blob with unknown magic 0000000000000000
-- bit
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: plain blob of 65548 bytes has CRC c476d52d, its header says 421f48da; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: plain blob of 65548 bytes has CRC c476d52d, its header says 421f48da; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 845.4 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: plain blob of 65548 bytes has CRC c476d52d, its header says 421f48da
-- other
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: the content has another digest than the name; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: the content has another digest than the name; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 845.4 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: the content has another digest than the name
-- bomb
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: zstd data expands to more than 16777216 bytes; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: zstd data expands to more than 16777216 bytes; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 721.5 KiB read
    chunks: 0 missing, 1 bad (renamed to .bad), 0 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    a push of the same data stores missing and bad chunks again; then verify once more
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: zstd data expands to more than 16777216 bytes
-- link
cat: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' is a symbolic link, want a regular file; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
restore: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk THE-CHUNK at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' is a symbolic link, want a regular file; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'restore --skip-damaged' gives the rest, and a push of the same data mends it
verify: 4
    verified 2 snapshots: 10 chunks, 717.4 KiB read
    chunks: 0 missing, 0 bad (renamed to .bad), 1 unreadable
    hurt: host/a/2001-01-01T00:00:00Z
      disk.img
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': chunk '.chunks/345b/THE-CHUNK' at offset 65536: 'DIR/store/.chunks/345b/THE-CHUNK' is a symbolic link, want a regular file
END

# Without a verify before it, a push sees what a look at the file shows.
for how in missing empty header zeros bit; do
	fresh
	spoil $how
	run cairn push --time 2001-01-03T00:00:00Z --chunk-size 64K host/c \
		disk.img=disk
	[ "$code" -eq 0 ] || fail "exit code $code"
	grep 'new:' "$out" >"$out.new"
	mv "$out.new" "$out"
	: >"$err"
	say "$how"
	run cairn -q verify
	: >"$out"
	: >"$err"
	say "then verify"
done
told
expect 0 <<'END'
missing: 0
      new: 1 of 5 chunks, 64 KiB, stored as 64.01 KiB
then verify: 0
empty: 0
      new: 1 of 5 chunks, 64 KiB, stored as 64.01 KiB
then verify: 0
header: 0
      new: 1 of 5 chunks, 64 KiB, stored as 64.01 KiB
then verify: 0
zeros: 0
      new: 0 of 5 chunks, 0 B, stored as 0 B
then verify: 4
bit: 0
      new: 0 of 5 chunks, 0 B, stored as 0 B
then verify: 4
END

# Files of a snapshot, cut and wrong, and what each command says to it.
usable() { # the other snapshot
	ok cairn cat host/b/latest data.raw
	cmp "$out" other
	ok cairn push --time 2001-01-03T00:00:00Z host/b data.raw=other
	ok cairn forget host/b/2001-01-03T00:00:00Z
}
answers() { # HEADING: each command's exit code, and its messages
	local command
	printf '%s\n' "-- $1" >>"$said"
	for command in "list host/a" "files $a" "cat $a disk.img" \
		"restore $a disk.img target" "cat $a data.raw" \
		"cat $a x.conf" "verify host/a" gc "note $a text" \
		"protect $a"; do
		# shellcheck disable=SC2086
		run cairn -q $command
		: >"$out"
		say "$command"
		[ "$code" -lt 76 ] || fail "$command: exit code $code"
		! grep -q Sanitizer "$err" || fail "$(cat "$err")"
		rm -f target
	done
	usable
}
cut_to() { truncate -s "$2" "store/$a/$1"; }
whole=$(stat -c %s "sound-store/$a/disk.img.fidx")
for size in 0 4095 4096 $((whole - 1)) $((whole + 1)); do
	fresh
	cut_to disk.img.fidx "$size"
	answers "index of $size bytes"
done
told
expect 0 <<'END'
-- index of 0 bytes
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 0 bytes, want at least 4096; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 0 bytes, want at least 4096; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 0 bytes, want at least 4096
gc: 1
    ! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': 0 bytes, want at least 4096
    ! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
-- index of 4095 bytes
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 4095 bytes, want at least 4096; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 4095 bytes, want at least 4096; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 4095 bytes, want at least 4096
gc: 1
    ! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': 4095 bytes, want at least 4096
    ! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
-- index of 4096 bytes
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': nothing behind the header, want at least one entry; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': nothing behind the header, want at least one entry; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': nothing behind the header, want at least one entry
gc: 1
    ! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': nothing behind the header, want at least one entry
    ! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
-- index of 4255 bytes
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 159 bytes behind the header, want a multiple of 32; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 159 bytes behind the header, want a multiple of 32; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 159 bytes behind the header, want a multiple of 32
gc: 1
    ! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': 159 bytes behind the header, want a multiple of 32
    ! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
-- index of 4257 bytes
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 161 bytes behind the header, want a multiple of 32; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 161 bytes behind the header, want a multiple of 32; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': 161 bytes behind the header, want a multiple of 32
gc: 1
    ! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': 161 bytes behind the header, want a multiple of 32
    ! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
END
fresh
printf '\377' | dd of="$index" bs=1 seek=40 conv=notrunc status=none
answers "index with a wrong checksum"
fresh
rm "$index"
answers "no index"
told
expect 0 <<'END'
-- index with a wrong checksum
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': checksum DIGEST, index.json.blob lists DIGEST; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': checksum DIGEST, index.json.blob lists DIGEST; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': checksum DIGEST, want DIGEST
gc: 1
    ! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': checksum DIGEST, want DIGEST
    ! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
-- no index
list host/a: 0
files host/a/2001-01-01T00:00:00Z: 0
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists 'disk.img.fidx', which does not exist; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists 'disk.img.fidx', which does not exist; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 0
cat host/a/2001-01-01T00:00:00Z x.conf: 0
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists 'disk.img.fidx', which does not exist
gc: 0
    ! cairn: warning: 1 index file that the last run read is gone and nobody recorded the removal, the first one is 'host/a/2001-01-01T00:00:00Z/disk.img.fidx': was it removed by hand, or is something not mounted?
note host/a/2001-01-01T00:00:00Z text: 0
protect host/a/2001-01-01T00:00:00Z: 0
END
for size in 0 4096 4135; do
	fresh
	cut_to data.raw.didx $size
	run cairn -q cat $a data.raw
	say "didx of $size bytes"
	ok cairn cat $a disk.img
done
for size in 0 11 12; do
	fresh
	cut_to x.conf.blob $size
	run cairn -q cat $a x.conf
	say "blob of $size bytes"
	run cairn -q verify host/a
	say "blob of $size bytes: verify"
done
told
expect 0 <<'END'
didx of 0 bytes: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/data.raw.didx': 0 bytes, want at least 4096; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
didx of 4096 bytes: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/data.raw.didx': size 0, index.json.blob lists 300000; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
didx of 4135 bytes: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/data.raw.didx': 39 bytes behind the header, want a multiple of 40; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
blob of 0 bytes: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': size 0, index.json.blob lists 17; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
blob of 0 bytes: verify: 4
    verified 1 snapshot: 9 chunks, 586 KiB read
    hurt: host/a/2001-01-01T00:00:00Z
      x.conf
    no push mends a manifest, index or blob: 'cairn list' shows the snapshots that may have the data whole, then 'cairn forget SNAPSHOT' removes a damaged one
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': size 0, 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists 17
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': checksum DIGEST, 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists DIGEST
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': blob of 0 bytes, want at least 12
blob of 11 bytes: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': size 11, index.json.blob lists 17; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
blob of 11 bytes: verify: 4
    verified 1 snapshot: 9 chunks, 586.1 KiB read
    hurt: host/a/2001-01-01T00:00:00Z
      x.conf
    no push mends a manifest, index or blob: 'cairn list' shows the snapshots that may have the data whole, then 'cairn forget SNAPSHOT' removes a damaged one
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': size 11, 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists 17
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': checksum DIGEST, 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists DIGEST
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': blob of 11 bytes, want at least 12
blob of 12 bytes: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': size 12, index.json.blob lists 17; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
blob of 12 bytes: verify: 4
    verified 1 snapshot: 9 chunks, 586.1 KiB read
    hurt: host/a/2001-01-01T00:00:00Z
      x.conf
    no push mends a manifest, index or blob: 'cairn list' shows the snapshots that may have the data whole, then 'cairn forget SNAPSHOT' removes a damaged one
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': size 12, 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists 17
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': checksum DIGEST, 'host/a/2001-01-01T00:00:00Z/index.json.blob' lists DIGEST
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/x.conf.blob': plain blob of 12 bytes has CRC 00000000, its header says eacedec0
END
manifest=$(stat -c %s "sound-store/$a/index.json.blob")
also='s/[0-9]+ bytes has CRC [0-9a-f]+, its header says [0-9a-f]+/N bytes has CRC X, not Y/'
also="$also; s/manifest of [0-9]+/manifest of N/"
for size in 0 11 $((manifest - 1)) $((manifest + 1)); do
	fresh
	cut_to index.json.blob "$size"
	answers "manifest of $size bytes"
done
told
expect 0 <<'END'
-- manifest of N bytes
list host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12
files host/a/2001-01-01T00:00:00Z: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z x.conf: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12
gc: 0
note host/a/2001-01-01T00:00:00Z text: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12
protect host/a/2001-01-01T00:00:00Z: 0
-- manifest of N bytes
list host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12
files host/a/2001-01-01T00:00:00Z: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z x.conf: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12
gc: 0
note host/a/2001-01-01T00:00:00Z text: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 11 bytes, want at least 12
protect host/a/2001-01-01T00:00:00Z: 0
-- manifest of N bytes
list host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y
files host/a/2001-01-01T00:00:00Z: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z x.conf: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y
gc: 0
note host/a/2001-01-01T00:00:00Z text: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y
protect host/a/2001-01-01T00:00:00Z: 0
-- manifest of N bytes
list host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y
files host/a/2001-01-01T00:00:00Z: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z disk.img: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
restore host/a/2001-01-01T00:00:00Z disk.img target: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z data.raw: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
cat host/a/2001-01-01T00:00:00Z x.conf: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y; 'cairn verify host/a/2001-01-01T00:00:00Z' names all that is damaged, 'cairn list host/a' the snapshots that may have it whole
verify host/a: 4
    ! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y
gc: 0
note host/a/2001-01-01T00:00:00Z text: 4
    ! cairn: 'host/a/2001-01-01T00:00:00Z/index.json.blob': zstd blob of N bytes has CRC X, not Y
protect host/a/2001-01-01T00:00:00Z: 0
END
also=
fresh
cut_to index.json.blob 0
check 4 cairn list <<'END'
SNAPSHOT                          SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/a/2001-01-01T00:00:00Z          -      -  damaged   -
host/b/2001-01-02T00:00:00Z  195.3 KiB      1  ok        -
! cairn: warning: 'host/a/2001-01-01T00:00:00Z/index.json.blob': blob of 0 bytes, want at least 12
END
run cairn --json list
[ "$code" -eq 4 ] || fail "exit code $code"
[ "$(json "$out" 'd[0]["damaged"]')" = True ] || fail "not told"
events "$err"
check 0 cairn forget $a <<'END'
forgot host/a/2001-01-01T00:00:00Z
END
fresh
cut_to disk.img.fidx 10
check 1 cairn gc <<'END'
! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': 10 bytes, want at least 4096
! cairn: garbage collection could not read or touch all that it has to in 'DIR/store': 1 problem, see the warning; nothing is removed; 'forget' removes a broken snapshot, 'gc --ignore' sets it aside
END
also='s/(free space: +).*/\1FIGURES/' \
	check 0 cairn gc --ignore $a <<'END'
removed:       0 chunks, 0 B
pending:       5 chunks, 293 KiB
               kept by the safety margin until TIME
in use:        5 chunks, 488.3 KiB
referenced by: 2 index files, 488.3 KiB
deduplication: 1.00
free space:    FIGURES
to free the pending 293 KiB now: cairn gc --cutoff 0
! cairn: warning: 'DIR/store/host/a/2001-01-01T00:00:00Z/disk.img.fidx': 10 bytes, want at least 4096
END
check 0 cairn forget $a <<'END'
forgot host/a/2001-01-01T00:00:00Z
END
ok cairn gc
sound store

# An index that is found broken leaves a target as it is.
fresh
printf X | dd of="$index" bs=1 seek=4100 conv=notrunc status=none
echo precious >target
run cairn -q restore --overwrite=changed $a disk.img target
[ "$code" -eq 4 ] || fail "exit code $code"
grep -qx precious target || fail "the target was changed"

# What the program keeps for itself: whatever is in these files, no command
# crashes, and reading goes on.
fresh
ok cairn forget host/b/latest
ok cairn gc
rm -f "$chunk"
run cairn verify
run cairn cat $a disk.img
ok cairn push --time 2001-01-05T00:00:00Z host/b data.raw=other
ok cairn forget host/b/latest
cp -a store used
own() { # FILE HOW: each command's exit code; none of them crashes
	local command codes=
	for command in list "cat $a x.conf" status \
		"push --time 2001-01-04T00:00:00Z host/b data.raw=other" \
		"verify host/b" gc; do
		# shellcheck disable=SC2086
		run cairn -q $command
		codes="$codes $code"
		[ "$code" -lt 76 ] || fail "$command: exit code $code"
		! grep -q Sanitizer "$err" || fail "$(cat "$err")"
	done
	printf '%s %s:%s\n' "$1" "$2" "$codes" >>"$said"
}
for file in $(cd used && find .cairn .gc-status -type f | sort); do
	whole=$(stat -c %s "used/$file")
	for how in 0:empty $((whole / 2)):half $((whole - 1)):short junk:junk; do
		[ "$whole" -gt 0 ] || [ "$how" = junk:junk ] || continue
		rm -rf store
		cp -a used store
		if [ "$how" = junk:junk ]; then
			bytes junk 5000 >"store/$file"
		else
			truncate -s "${how%:*}" "store/$file"
		fi
		own "$file" "${how#*:}"
	done
done
told
expect 0 <<'END'
.cairn/added empty: 0 0 4 0 0 3
.cairn/added half: 0 0 4 0 0 3
.cairn/added short: 0 0 4 0 0 3
.cairn/added junk: 0 0 4 0 0 3
.cairn/damaged empty: 0 0 4 0 0 3
.cairn/damaged half: 0 0 4 0 0 3
.cairn/damaged short: 0 0 4 0 0 3
.cairn/damaged junk: 0 0 4 0 0 3
.cairn/format empty: 4 4 4 1 4 4
.cairn/format half: 4 4 4 1 4 4
.cairn/format short: 0 0 4 0 0 3
.cairn/format junk: 4 4 4 1 4 4
.cairn/gc.last empty: 0 0 4 0 0 3
.cairn/gc.last half: 0 0 4 0 0 3
.cairn/gc.last short: 0 0 4 0 0 3
.cairn/gc.last junk: 0 0 4 0 0 3
.cairn/gc.running empty: 0 0 4 0 0 3
.cairn/gc.running half: 0 0 4 0 0 3
.cairn/gc.running short: 0 0 4 0 0 3
.cairn/gc.running junk: 0 0 4 0 0 3
.cairn/history.db empty: 0 0 4 0 0 3
.cairn/history.db half: 0 0 4 0 0 3
.cairn/history.db short: 0 0 4 0 0 3
.cairn/history.db junk: 0 0 4 0 0 3
.cairn/history.db-journal junk: 0 0 4 0 0 3
.cairn/index/base-2.cix empty: 0 0 4 0 0 3
.cairn/index/base-2.cix half: 0 0 4 0 0 3
.cairn/index/base-2.cix short: 0 0 4 0 0 3
.cairn/index/base-2.cix junk: 0 0 4 0 0 3
.cairn/index/base-2.gone empty: 0 0 4 0 0 3
.cairn/index/base-2.gone half: 0 0 4 0 0 3
.cairn/index/base-2.gone short: 0 0 4 0 0 3
.cairn/index/base-2.gone junk: 0 0 4 0 0 3
.cairn/index/control.json empty: 0 0 4 0 0 3
.cairn/index/control.json half: 0 0 4 0 0 3
.cairn/index/control.json short: 0 0 4 0 0 3
.cairn/index/control.json junk: 0 0 4 0 0 3
.cairn/index/lock junk: 0 0 4 0 0 3
.cairn/removed empty: 0 0 4 0 0 3
.cairn/removed half: 0 0 4 0 0 3
.cairn/removed short: 0 0 4 0 0 3
.cairn/removed junk: 0 0 4 0 0 3
.cairn/roots empty: 0 0 4 0 0 3
.cairn/roots half: 0 0 4 0 0 3
.cairn/roots short: 0 0 4 0 0 3
.cairn/roots junk: 0 0 4 0 0 3
.gc-status empty: 0 0 4 0 0 3
.gc-status half: 0 0 4 0 0 3
.gc-status short: 0 0 4 0 0 3
.gc-status junk: 0 0 4 0 0 3
END

# Lines of the damage list that say nothing are told, until a verify wrote it
# anew.
rm -rf store
cp -a used store
printf 'one\n\ntwo\n' >>store/.cairn/damaged
odd="cairn: warning: 'DIR/store/.cairn/damaged': 2 lines can not be read: a chunk that was recorded there as damaged may be reused until 'cairn verify' of all snapshots has found it again"
for command in status verify; do
	run cairn -q $command
	normalise <"$err" | grep -qxF "$odd" || fail "$command: $(cat "$err")"
done
run cairn -q status
! grep -q 'can not be read' "$err" || fail "$(cat "$err")"

# What is said to the two that matter.
rm -rf store
cp -a used store
: >store/.cairn/format
check 4 cairn list <<'END'
! cairn: 'DIR/store/.cairn/format': no JSON: line 1 column 0: unexpected token near end of file; put a copy of it back, or remove it: the next push makes a new one
END
rm store/.cairn/format
ok cairn list
ok cairn push --time 2001-01-04T00:00:00Z host/b data.raw=other
json store/.cairn/format
printf '{"format": 2}' >store/.cairn/format
check 1 cairn list <<'END'
! cairn: 'DIR/store/.cairn/format': the datastore needs a cairn of format 2, this version knows formats up to 1
END
rm -rf store
cp -a used store
printf '{' >store/.gc-status
also='s/(file system: ).*/\1FIGURES/' check 4 cairn status <<'END'
datastore:   DIR/store
file system: FIGURES
snapshots:   1 in 1 group, newest of 2001-01-01T00:00:00Z
damage:      1 chunk is missing or bad; 'cairn verify' names what it hurts
gc:          see the warning
verify:      last ran TIME, 1 snapshot: found damage
! cairn: warning: 'DIR/store/.gc-status': no JSON: line 1 column 1: string or '}' expected near end of file; the next garbage collection writes it anew
END
check 4 cairn gc status <<'END'
! cairn: 'DIR/store/.gc-status': no JSON: line 1 column 1: string or '}' expected near end of file; the next garbage collection writes it anew
END
run cairn --json status
[ "$code" -eq 4 ] || fail "exit code $code"
json "$out"
run cairn gc
ok cairn gc status
