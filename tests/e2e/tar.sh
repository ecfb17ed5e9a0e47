#!/usr/bin/env bash
# NAME.tar: streams that come back as they were, and what their catalogs say;
# archives as trees; trees and tars as archives.
. "$(dirname "$0")/lib.sh"
need tar gzip

cairn init store 2>/dev/null
push() { cairn push --time "2001-01-01T00:00:$(printf '%02d' "$1")Z" "${@:2}"; }

# A tree with what tars find hard, but nothing that needs rights.
mkdir -p src/d/sub src/deep
(
	cd src
	printf one >f
	ln f d/link
	ln -s ../f d/symlink
	mkfifo d/fifo
	printf 'NFD' >$'d/e\xcc\x81'
	printf 'NFC!' >$'d/\xc3\xa9'
	printf 'bytes' >$'d/\xff\n'
	printf '' >d/empty
	truncate -s 1M d/sparse
	printf A | dd of=d/sparse bs=1 seek=524288 conv=notrunc status=none
	truncate -s 300K d/hole
	chmod 4755 f
	long=$(printf '%0120d' 0)
	mkdir -p "deep/$long/$long/$long"
	printf deep >"deep/$long/$long/$long/file"
)
data src/d/large 700000
find src -exec touch -h -d '2001-02-03 04:05:06.5' {} +
members=$(find src -printf . | wc -c)

# What ssh sends is a tar; it comes back to the byte.
mkdir bin
cat >bin/ssh <<'END'
#!/bin/sh
shift
exec sh -c "$*"
END
chmod +x bin/ssh
PATH=$PWD/bin:$PATH
pack=(ssh host tar --format=gnu --sort=name --owner=0 --group=0 --numeric-owner -c -C src .)
"${pack[@]}" >sent
also='s|chunks/[0-9a-f]{4}|chunks/PREFIX|; s/, stored as .*//; s/\<1[0-9]{2} B/SIZE/g'
"${pack[@]}" >piped
in=piped check 0 push 1 host/web1 root.tar=- <<'END'
host/web1/2001-01-01T00:00:01Z
  root.tar: 1.982 MiB in 4 chunks, 19 members
  root.tar.catalog: 36 KiB in 1 chunk
  new: 5 of 5 chunks, 2.018 MiB
END
in=
ok cairn cat host/web1/latest root.tar
cmp -s "$out" sent || fail "not what was sent"
check 0 cairn ls -lR host/web1/latest root.tar d <<'END'
-rw-r--r--   - 0        0                 0 2001-02-03T04:05:06Z d/empty
-rw-r--r--   - 0        0                 3 2001-02-03T04:05:06Z d/é
prw-r--r--   - 0        0                 - 2001-02-03T04:05:06Z d/fifo
-rw-r--r--   - 0        0            307200 2001-02-03T04:05:06Z d/hole
-rw-r--r--   - 0        0            700000 2001-02-03T04:05:06Z d/large
-rwsr-xr-x   - 0        0                 3 2001-02-03T04:05:06Z d/link
-rw-r--r--   - 0        0           1048576 2001-02-03T04:05:06Z d/sparse
drwxr-xr-x   - 0        0                 - 2001-02-03T04:05:06Z d/sub
lrwxrwxrwx   - 0        0                 - 2001-02-03T04:05:06Z d/symlink -> ../f
-rw-r--r--   - 0        0                 4 2001-02-03T04:05:06Z d/é
-rw-r--r--   - 0        0                 5 2001-02-03T04:05:06Z d/\xff\n
END
for file in f d/link d/empty d/sparse d/hole d/large $'d/e\xcc\x81' $'d/\xff\n'; do
	ok cairn cat host/web1/latest root.tar "$file"
	cmp -s "$out" "src/$file" || fail "$file is not what it was"
done
ok cairn --json push --dry-run host/web1 root.tar=sent
[ "$(json "$out" 'd["archives"][0]["members"]')" = "$members" ] ||
	fail "not all members"

# The catalogs of tars of all makes, beside another program's view of them.
python3 -c 'import sqlite3' 2>/dev/null || skip "Python has no sqlite3"
catalog() { # TAR NUMBER
	ok push "$2" host/makes root.tar="$1"
	ok cairn cat "host/makes/2001-01-01T00:00:$2Z" root.tar.catalog
	cp "$out" catalog.db
	python3 "$here/tarcheck.py" "$1" catalog.db || fail "$1"
}
number=10
for make in 'v7 --exclude=deep --exclude=fifo' oldgnu gnu 'ustar --exclude=deep' posix \
	'oldgnu -S' 'gnu -S' 'posix -S --sparse-version=0.0' \
	'posix -S --sparse-version=0.1' 'posix -S --sparse-version=1.0' \
	'posix --pax-option=delete=mtime'; do
	# shellcheck disable=SC2086
	tar -C src --format=$make -cf made.tar .
	catalog made.tar $number
	number=$((number + 1))
done >counts
check 0 sort -u counts <<'END'
13
14
19
END
for format in USTAR GNU PAX; do
	python3 -c '
import sys, tarfile
with tarfile.open("made.tar", "w", format=getattr(tarfile, sys.argv[1])) as t:
    t.add("src/d", "/abs/d")
    t.add("src/f", "./f")
    t.add("src/f", "f")' ${format}_FORMAT
	catalog made.tar $number
	number=$((number + 1))
done >counts

# Ends that are none, come early or late; what is no tar.
head -c 5000 sent >short.tar
check 3 push 40 host/ends root.tar=short.tar <<'END'
host/ends/2001-01-01T00:00:40Z
  root.tar: 4.883 KiB in 2 chunks, 6 members
  root.tar.catalog: 36 KiB in 1 chunk
  new: 2 of 3 chunks, 37.38 KiB
! cairn: warning: 'short.tar': member './d/hole' is not whole: Truncated tar archive
! cairn: warning: 'short.tar' can not be read as a tar behind offset 5000: Truncated tar archive; all of it is stored, but its catalog ends there
END
check 3 cairn ls host/ends/latest root.tar d <<'END'
empty
é
fifo
hole
! cairn: warning: 'host/ends/2001-01-01T00:00:40Z/root.tar.catalog.fidx': the tar ended, or could not be read, at offset 5000 when it was pushed; what may be behind is not listed
END
cut="'host/ends/2001-01-01T00:00:40Z/root.tar.catalog.fidx': the tar ended, or could not be read, at offset 5000 when it was pushed; what may be behind is not listed"
check 3 cairn diff host/ends/latest host/ends/latest root.tar <<END
! cairn: warning: $cut
! cairn: warning: $cut
END
check 3 cairn find host/ends/latest hole <<'END'
root.tar:d/hole
! cairn: warning: 'host/ends/2001-01-01T00:00:40Z/root.tar.catalog.fidx': the tar ended, or could not be read, at offset 5000 when it was pushed; what may be behind is not listed
END
# What it was cut in is given as far as it goes, and named; so is the stream.
shorter="shorter than it was: the tar ended in it, or could not be read, when it was pushed"
check 3 cairn restore host/ends/latest root.tar cut.d d/hole d/empty <<END
'cut.d': 3 entries restored, 1.383 KiB
! cairn: warning: $cut
! cairn: warning: 'cut.d/d/hole': $shorter
END
check 3 cairn restore host/ends/latest root.tar cut.tar <<END
'cut.tar': 4.883 KiB restored, 3.5 KiB written
! cairn: warning: $cut
END
cmp -s cut.tar short.tar || fail "not what was sent"
check 3 sh -c 'cairn cat host/ends/latest root.tar >cut.cat' <<END
! cairn: warning: $cut
END
cmp -s cut.cat short.tar || fail "not what was sent"
check 3 sh -c 'cairn export host/ends/latest root.tar >cut.export' <<END
! cairn: warning: $cut
! cairn: 4.883 KiB exported, as it was pushed
END
cmp -s cut.export short.tar || fail "not what was sent"
check 0 sh -c 'cairn cat host/ends/latest root.tar.catalog >catalog' </dev/null
check 3 sh -c 'cairn export host/ends/latest root.tar d/hole >hole.tar' <<END
! cairn: warning: $cut
! cairn: warning: 'd/hole' is not whole: $shorter
! cairn: 1 entry exported, 1.383 KiB
END
check 3 sh -c 'cairn cat host/ends/latest root.tar d/hole >cut.hole' <<END
! cairn: warning: $cut
! cairn: warning: 'd/hole': $shorter
END
check 0 sh -c "cairn cat host/ends/latest root.tar d/empty >whole" <<END
! cairn: warning: $cut
END
python3 -c '
import sys
data = open("sent", "rb").read().rstrip(b"\0")
sys.stdout.buffer.write(data + bytes(-len(data) % 512))' >unmarked
check 3 push 41 host/ends root.tar=unmarked <<'END'
host/ends/2001-01-01T00:00:41Z
  root.tar: 1.977 MiB in 4 chunks, 19 members
  root.tar.catalog: 36 KiB in 1 chunk
  new: 2 of 5 chunks, 1.045 MiB
! cairn: warning: 'unmarked' ends at offset 2072576 without an end-of-archive marker; it may have been cut off
END
tar -cf a.tar -C src f
tar -rf a.tar -C src f
tar -cf b.tar -C src d/empty
cat a.tar b.tar >c.tar
check 3 push 42 host/ends root.tar=c.tar <<'END'
host/ends/2001-01-01T00:00:42Z
  root.tar: 20 KiB in 1 chunk, 2 members
  root.tar.catalog: 36 KiB in 1 chunk
  new: 2 of 2 chunks, 56 KiB
! cairn: warning: 'c.tar' has 17408 bytes behind its end, at offset 3072, that its catalog does not show (see --ignore-zeros)
END
check 0 cairn ls -R --all host/ends/latest root.tar <<'END'
f (earlier member)
f
END
check 0 push 43 host/ends --ignore-zeros root.tar=c.tar <<'END'
host/ends/2001-01-01T00:00:43Z
  root.tar: 20 KiB in 1 chunk, 3 members
  root.tar.catalog: 36 KiB in 1 chunk
  new: 1 of 2 chunks, 36 KiB
END
gzip -nk a.tar
check 3 push 44 host/ends root.tar=a.tar.gz <<'END'
host/ends/2001-01-01T00:00:44Z
  root.tar: SIZE in 1 chunk
  new: 1 of 1 chunk, SIZE
! cairn: warning: 'a.tar.gz' is compressed (gzip): stored as it is, without a catalog
END
data noise 100000
check 3 push 45 host/ends root.tar=noise <<'END'
host/ends/2001-01-01T00:00:45Z
  root.tar: 97.66 KiB in 1 chunk
  new: 1 of 1 chunk, 97.66 KiB
! cairn: warning: 'noise' is no tar: stored as it is, without a catalog
END
in=/dev/null check 1 push 45 host/nothing root.tar=- <<'END'
! cairn: '-': nothing came, and no tar has no bytes; a producer that can fail is best run by --command
END
[ ! -e store/host/nothing ] || fail "nothing was stored"
ok cairn cat host/ends/latest root.tar
cmp -s "$out" noise || fail "the noise is not what it was"
check 1 cairn ls host/ends/latest root.tar <<'END'
! cairn: 'host/ends/2001-01-01T00:00:45Z': archive 'root.tar' has no catalog
END

# Archives become trees, whatever they are packed with, and come from a pipe.
check 0 push 46 host/tree root.tree=a.tar.gz <<'END'
host/tree/2001-01-01T00:00:46Z
  root.tree: 3 B in 1 chunk, 2 members
  root.tree.catalog: 32 KiB in 1 chunk
  new: 2 of 2 chunks, 32 KiB
END
# As on a tape, zeros follow.
{
	gzip -c sent
	head -c 5000 /dev/zero
} >sent.gz
in=sent.gz ok push 47 host/tree root.tree=-
in=
ok cairn restore host/tree/latest root.tree back
same() { # DIR DIR
	diff -r --no-dereference -x fifo "$1" "$2" || fail "$1 and $2 differ"
	(cd "$1" && find . -printf '%P %y %m %s %l %n\n' | sort) >one
	(cd "$2" && find . -printf '%P %y %m %s %l %n\n' | sort) >two
	diff one two || fail "$1 and $2 differ"
}
same src back
check 1 push 48 host/tree root.tree=noise <<'END'
! cairn: 'noise' is neither a directory nor an archive of a kind that is known
END
printf '#mtree\n./a type=file\n' >f.mtree
check 1 push 48 host/tree root.tree=f.mtree <<'END'
! cairn: 'f.mtree' is neither a directory nor an archive of a kind that is known
END

# And trees and tars archives: all, or a path.
ok cairn export host/web1/latest root.tar
cmp -s "$out" sent || fail "the export is not what was sent"
check 0 sh -c 'cairn export host/web1/latest root.tar >whole' <<'END'
! cairn: 1.982 MiB exported, as it was pushed
END
check 0 sh -c 'cairn -q export host/web1/latest root.tar d/sub >whole' </dev/null
for archive in "tree/latest root.tree" "web1/latest root.tar ."; do
	rm -rf back
	mkdir back
	# shellcheck disable=SC2086
	ok cairn export host/$archive
	tar -xf "$out" -C back 2>/dev/null || fail "tar can not read the export"
	same src back
done
check 1 cairn export host/web1/latest root.tar no/such/path <<'END'
! cairn: 'host/web1/2001-01-01T00:00:01Z/root.tar.catalog.fidx': 'no' is not in it
END
ok cairn export host/web1/latest root.tar d/sub
cp "$out" sub.tar
check 0 tar -tf sub.tar <<'END'
d/sub/
END
check 3 sh -c 'cairn export host/web1/latest root.tar --format zip d/fifo >out.zip' <<'END'
! cairn: warning: 'd/fifo' is left out: a zip has files, directories and symbolic links only
! cairn: 0 entries exported, 0 B; 1 left out
END
run cairn export host/web1/latest root.tar --format zip
[ "$code" -eq 3 ] || fail "a zip has no FIFO"
cp "$out" out.zip
check 0 python3 -c '
import zipfile
z = zipfile.ZipFile("out.zip")
print(z.testzip(), len(z.namelist()), z.read("d/large") == open("src/d/large", "rb").read())' <<'END'
None 17 True
END
if command -v cpio >/dev/null; then
	ok cairn export host/web1/latest root.tar --format cpio
	rm -rf back
	mkdir back
	(cd back && cpio -idm --quiet --no-absolute-filenames) <"$out" ||
		fail "cpio can not read the export"
	same src back
fi
check 2 cairn export host/web1/latest root.tar --format rar <<'END'
! cairn: --format 'rar': want tar, zip or cpio
END
NO_COLOR=1 run python3 -c '
import os, pty, sys
status = pty.spawn(["cairn", "export", "host/web1/latest", "root.tar"])
sys.exit(os.waitstatus_to_exitcode(status))'
[ "$code" -eq 2 ] || fail "a terminal was taken"
cp "$out" said
in=said check 0 tr -d '\r' <<'END'
cairn: standard output is a terminal; send it to a file or a command
END
in=

# Damage does not go out unnoticed.
find store/.chunks -type f -size +500k -delete
check 3 sh -c 'cairn export host/web1/latest root.tar d/large >out.tar' <<'END'
! cairn: warning: 'd/large' is left out: 'host/web1/2001-01-01T00:00:01Z/root.tar.didx': chunk DIGEST at offset 311296: 'DIR/store/.chunks/PREFIX/DIGEST' does not exist
! cairn: 0 entries exported, 0 B; 1 left out
! cairn: 'cairn verify host/web1/2001-01-01T00:00:01Z' names all that is damaged, and a push of the same data mends its chunks; 'cairn list host/web1' names the snapshots that may have it whole
END
no_leftovers store
