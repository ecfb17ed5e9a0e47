#!/usr/bin/env bash
# cairn push: sources, names and options, the wrong ones too.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
push() { cairn push --time "2001-01-01T00:00:$(printf '%02d' "$1")Z" "${@:2}"; }
data a 300000
data b 100

# What is refused is refused before anything is made.
refused() { keep=store check "$1" cairn push "${@:2}"; }

# Groups.
refused 2 web1 a.raw=a <<'END'
! cairn: group 'web1': want a type of ct, host or vm, a slash and an id
END
refused 2 machine/web1 a.raw=a <<'END'
! cairn: group 'machine/web1': want a type of ct, host or vm, a slash and an id
END
refused 2 host/ a.raw=a <<'END'
! cairn: group 'host/': '' is no id, want 1 to 255 letters, digits and ._- beginning with a letter, a digit or _
END
refused 2 host/web1/extra a.raw=a <<'END'
! cairn: group 'host/web1/extra': 'web1/extra' is no id, want 1 to 255 letters, digits and ._- beginning with a letter, a digit or _
END
refused 2 host/.. a.raw=a <<'END'
! cairn: group 'host/..': '..' is no id, want 1 to 255 letters, digits and ._- beginning with a letter, a digit or _
END
refused 2 $'host/a\nb' a.raw=a <<'END'
! cairn: group 'host/a\nb': 'a\nb' is no id, want 1 to 255 letters, digits and ._- beginning with a letter, a digit or _
END

# Names of archives.
refused 2 host/web1 <<'END'
! cairn: missing argument; want 'cairn push GROUP ARCHIVE=SOURCE...'
END
refused 2 host/web1 a <<'END'
! cairn: 'a': want ARCHIVE=SOURCE, as in root.img=/dev/sda1
END
refused 2 host/web1 a=a <<'END'
! cairn: 'a': the name must end in .tree, .tar, .img, .raw or .conf to say how it is stored
END
refused 2 host/web1 a.txt=a <<'END'
! cairn: 'a.txt': the name must end in .tree, .tar, .img, .raw or .conf to say how it is stored
END
refused 2 host/web1 .raw=a <<'END'
! cairn: '.raw': a name begins with a letter, digit or '_' and has only these, '.' and '-'
END
refused 2 host/web1 =a <<'END'
! cairn: '': the name must end in .tree, .tar, .img, .raw or .conf to say how it is stored
END
refused 2 host/web1 a.raw= <<'END'
! cairn: 'a.raw=': no source behind '='
END
refused 2 host/web1 ../a.raw=a <<'END'
! cairn: '../a.raw': a name begins with a letter, digit or '_' and has only these, '.' and '-'
END
refused 2 host/web1 $'a\e[31mb.raw=a' <<'END'
! cairn: 'a\x1b[31mb.raw': a name begins with a letter, digit or '_' and has only these, '.' and '-'
END
refused 2 host/web1 a.raw=a a.raw=b <<'END'
! cairn: 'a.raw' and 'a.raw' are both named 'a': what stands before the last dot must differ within a snapshot
END
refused 2 host/web1 a.raw=a a.img=b <<'END'
! cairn: 'a.raw' and 'a.img' are both named 'a': what stands before the last dot must differ within a snapshot
END
refused 2 host/web1 a.raw=- b.raw=- <<'END'
! cairn: 'a.raw' and 'b.raw' both want standard input
END
refused 2 host/web1 a.img=- <<'END'
! cairn: 'a.img': an image is read from a file or device; store a stream as .raw
END
long=$(printf '%0300d' 0 | tr 0 x)
refused 2 host/web1 "$long.raw=a" <<'END'
! cairn: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...': a name of 304 bytes, want at most 200
END

# Sources.
mkdir dir
mkfifo fifo
: >empty
refused 1 host/web1 a.raw=none <<'END'
! cairn: 'none': No such file or directory
END
refused 2 host/web1 a.raw=dir <<'END'
! cairn: 'dir' is a directory, want a file; a directory is stored as .tree
END
refused 2 host/web1 a.img=dir <<'END'
! cairn: 'dir' is a directory, want a file; a directory is stored as .tree
END
refused 2 host/web1 a.img=/dev/null <<'END'
! cairn: '/dev/null' is no regular file or block device; store a stream as .raw
END
refused 1 host/web1 a.raw=a b.raw=none <<'END'
! cairn: 'none': No such file or directory
END
check 1 cairn push host/web1 a.img=empty <<'END'
! cairn: 'empty': an image of 0 bytes, want at least 1
END
truncate -s 16777217 large
check 1 cairn push host/web1 a.conf=large <<'END'
! cairn: 'large' has more than 16777216 bytes, the most that a '.conf' may have
END
no_leftovers store
[ ! -e store/host/web1 ] || fail "a group without snapshots was left"
if [ "$(id -u)" -ne 0 ]; then
	(umask 777 && : >secret)
	refused 1 host/web1 a.raw=secret <<'END'
! cairn: 'secret': Permission denied
END
fi

# Options.
refused 2 --time yesterday host/web1 a.raw=a <<'END'
! cairn: --time 'yesterday': want UTC as in TIME
END
refused 2 --time 2001-02-30T00:00:00Z host/web1 a.raw=a <<'END'
! cairn: --time '2001-02-30T00:00:00Z': want UTC as in TIME
END
refused 2 --chunk-size 32K host/web1 a.raw=a <<'END'
! cairn: --chunk-size: '32K': want a power of two from 64K to 4M
END
refused 2 --chunk-size 8M host/web1 a.raw=a <<'END'
! cairn: --chunk-size: '8M': want a power of two from 64K to 4M
END
refused 2 --chunk-size 100000 host/web1 a.raw=a <<'END'
! cairn: --chunk-size: '100000': want a power of two from 64K to 4M
END
refused 2 --chunk-size big host/web1 a.raw=a <<'END'
! cairn: --chunk-size: 'big' is no size, want a number of bytes below 16 EiB with or without K, M, G, T or P behind it
END
refused 2 --level 0 host/web1 a.raw=a <<'END'
! cairn: --level: '0' is no whole number between 1 and 19
END
refused 2 --level 20 host/web1 a.raw=a <<'END'
! cairn: --level: '20' is no whole number between 1 and 19
END
refused 2 --level fast host/web1 a.raw=a <<'END'
! cairn: --level: 'fast' is no whole number between 1 and 19
END
refused 2 --sync-level maybe host/web1 a.raw=a <<'END'
! cairn: --sync-level 'maybe': want none, filesystem or file
END
refused 2 --note one --note two host/web1 a.raw=a <<'END'
! cairn: option '--note' is given twice
END
refused 2 --note $'\xff' host/web1 a.raw=a <<'END'
! cairn: --note '\xff': want UTF-8
END
refused 2 --note <<'END'
! cairn: option '--note' needs a value: TEXT
END

# The smallest ones, and a conf of exactly 16 MiB.
truncate -s 16777216 conf
printf x >one
check 0 push 1 host/small empty.raw=empty one.raw=one none.conf=empty \
	1.img=one large.conf=conf null.raw=/dev/null <<'END'
host/small/2001-01-01T00:00:01Z
  empty.raw: 0 B
  one.raw: 1 B in 1 chunk
  none.conf: 0 B
  1.img: 1 B in 1 chunk
  large.conf: 16 MiB
  null.raw: 0 B
  new: 1 of 2 chunks, 1 B, stored as 13 B
END
check 0 cairn files host/small/latest <<'END'
ARCHIVE     FILE              SIZE  BYTES  ENCRYPTION  CHECKSUM
empty.raw   empty.raw.didx     0 B      0  none        DIGEST
one.raw     one.raw.didx       1 B      1  none        DIGEST
none.conf   none.conf.blob    12 B     12  none        DIGEST
1.img       1.img.fidx         1 B      1  none        DIGEST
large.conf  large.conf.blob  543 B    543  none        DIGEST
null.raw    null.raw.didx      0 B      0  none        DIGEST
END
# Of what ended before its first byte nobody knows how: no snapshot.
in=/dev/null check 1 push 2 host/small x.raw=- <<'END'
! cairn: '-': nothing came; no snapshot is made of a stream without a byte
END
check 1 push 2 host/small --command true x.conf <<'END'
! cairn: 'true': nothing came; no snapshot is made of a stream without a byte
END
for name in empty.raw none.conf null.raw; do
	check 0 cairn cat host/small/latest $name </dev/null
done
ok cairn cat host/small/latest large.conf
cmp "$out" conf

# The same again stores nothing; a taken time is refused, whoever has it.
check 0 push 2 host/a a.raw=a b.conf=b <<'END'
host/a/2001-01-01T00:00:02Z
  a.raw: 293 KiB in 1 chunk
  b.conf: 100 B
  new: 1 of 1 chunk, 293 KiB, stored as 293 KiB
END
check 0 push 3 host/a a.raw=a b.conf=b <<'END'
host/a/2001-01-01T00:00:03Z
  a.raw: 293 KiB in 1 chunk
  b.conf: 100 B
  new: 0 of 1 chunk, 0 B, stored as 0 B
END
check 1 push 3 host/a a.raw=a <<'END'
! cairn: snapshot 'host/a/2001-01-01T00:00:03Z' is already there
END
check 0 push 3 host/b a.raw=a <<'END'
host/b/2001-01-01T00:00:03Z
  a.raw: 293 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
END
check 0 push 1 host/a a.raw=a <<'END'
host/a/2001-01-01T00:00:01Z
  a.raw: 293 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
END
[ "$(cairn list host/a | wc -l)" -eq 4 ] || fail "not three snapshots"

# Two within one second: the second one takes the next.
ok cairn push host/now a.raw=a
ok cairn push host/now a.raw=a
[ "$(cairn list host/now | wc -l)" -eq 3 ] || fail "not two snapshots"

# A dry run reads all and changes nothing.
keep=store check 0 cairn push --dry-run --time 2001-01-01T00:00:01Z \
	host/dry a.raw=a b.img=b c.conf=b <<'END'
host/dry/2001-01-01T00:00:01Z (dry run: nothing was stored)
  a.raw: 293 KiB in 1 chunk
  b.img: 100 B in 1 chunk
  c.conf: 100 B
  would be new: 1 of 2 chunks, 100 B
END
keep=store check 0 cairn push --dry-run --time 2001-01-01T00:00:04Z \
	--chunk-size 64K host/a a.raw=a <<'END'
host/a/2001-01-01T00:00:04Z (dry run: nothing was stored)
  a.raw: 293 KiB in 4 chunks
  would be new: 4 of 4 chunks, 293 KiB
END
keep=store check 1 cairn push --dry-run --time 2001-01-01T00:00:03Z \
	host/a a.raw=a <<'END'
! cairn: snapshot 'host/a/2001-01-01T00:00:03Z' is already there
END

# Notes.
check 0 push 5 --note $'two\nlines' host/a a.raw=a <<'END'
host/a/2001-01-01T00:00:05Z
  a.raw: 293 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
END
check 0 cairn note host/a/latest <<'END'
two
lines
END

# Holes are neither read nor stored: time follows data, not size.
truncate -s 100G sparse
printf tail >>sparse
before=$SECONDS
check 0 push 6 --chunk-size 4M host/sparse disk.img=sparse <<'END'
host/sparse/2001-01-01T00:00:06Z
  disk.img: 100 GiB in 25601 chunks, 100 GiB of it holes
  new: 2 of 25601 chunks, 4 MiB, stored as 175 B
END
[ $((SECONDS - before)) -lt 60 ] || fail "holes were read"
ok cairn restore host/sparse/latest disk.img sparse-again
[ "$(stat -c %s sparse-again)" -eq $((100 * 1024 * MIB + 4)) ] || fail "size"
[ "$(stat -c %b sparse-again)" -lt 1024 ] || fail "zeros were written"
[ "$(tail -c 4 sparse-again)" = tail ] || fail "the tail is lost"
rm sparse-again

# Boundaries: one chunk less a byte, exactly, and a byte more.
head -c 65535 a >less
head -c 65536 a >exact
head -c 65537 a >longer
check 0 push 7 --chunk-size 64K host/edges less.img=less exact.img=exact \
	longer.img=longer <<'END'
host/edges/2001-01-01T00:00:07Z
  less.img: 64 KiB in 1 chunk
  exact.img: 64 KiB in 1 chunk
  longer.img: 64 KiB in 2 chunks
  new: 3 of 4 chunks, 128 KiB, stored as 128 KiB
END
for name in less exact longer; do
	ok cairn cat host/edges/latest $name.img
	cmp "$out" $name
done

# Zeros: the chunker finds no cut in them.
head -c 2000000 /dev/zero >zeros
check 0 push 7 --chunk-size 64K host/zeros z.raw=zeros z2.img=zeros <<'END'
host/zeros/2001-01-01T00:00:07Z
  z.raw: 1.907 MiB in 8 chunks
  z2.img: 1.907 MiB in 31 chunks
  new: 4 of 39 chunks, 514.3 KiB, stored as 140 B
END
ok cairn cat host/zeros/latest z.raw
cmp "$out" zeros
ok cairn cat host/zeros/latest z2.img
cmp "$out" zeros

# A program's output, if it ends well.
check 0 push 8 host/cmd --command 'printf "%s" "a b"' x.raw b.conf=b <<'END'
host/cmd/2001-01-01T00:00:08Z
  x.raw: 3 B in 1 chunk
  b.conf: 100 B
  new: 1 of 1 chunk, 3 B, stored as 15 B
END
run cairn cat host/cmd/latest x.raw
printf '\n' >>"$out"
expect 0 <<'END'
a b
END
commands() { check "$1" push 9 host/fail --command "$2" x.raw "${@:3}"; }
commands 1 'exit 3' <<'END'
! cairn: --command 'exit 3' failed with exit code 3; nothing is stored
END
commands 1 'cat a; exit 1' <<'END'
! cairn: --command 'cat a; exit 1' failed with exit code 1; nothing is stored
END
commands 1 'cat a; kill -9 $$' <<'END'
! cairn: --command 'cat a; kill -9 $$' was ended by signal 9; nothing is stored
END
commands 1 'no-such-program 2>/dev/null' <<'END'
! cairn: --command 'no-such-program 2>/dev/null' failed with exit code 127; nothing is stored
END
commands 1 'exec >&-; sleep 0.2; exit 4' <<'END'
! cairn: --command 'exec >&-; sleep 0.2; exit 4' failed with exit code 4; nothing is stored
END
refused 2 host/fail --command true a.raw=a <<'END'
! cairn: --command: want exactly one archive without =SOURCE, found 0
END
refused 2 host/fail --command true x.raw y.raw <<'END'
! cairn: --command: want exactly one archive without =SOURCE, found 2
END
refused 2 host/fail --command true x.img <<'END'
! cairn: 'x.img': an image is read from a file or device; store a stream as .raw
END
refused 2 host/fail x.raw <<'END'
! cairn: 'x.raw': want ARCHIVE=SOURCE, as in root.img=/dev/sda1
END
[ ! -e store/host/fail ] || fail "a failed command left something"

# A source that shrinks ends it; one that grows is stored and told.
slow() { # FILE ARCHIVE CHANGE...: change FILE while it is being read
	local before
	before=$(find store/.chunks -type f | wc -l)
	"${one_cpu[@]}" cairn push --level 19 --chunk-size 64K --time 2001-01-01T00:01:00Z host/changing \
		"$2=$1" >"$out" 2>"$err" &
	pid=$!
	until_true 60 eval "[ \"\$(find store/.chunks -type f | wc -l)\" -gt $before ]"
	kill -STOP $pid
	"${@:3}"
	kill -CONT $pid
	code=0
	wait $pid || code=$?
}
data shrinks $((4 * MIB))
slow shrinks x.img truncate -s 1M shrinks
also='s/[0-9]+ bytes/N bytes/' expect 1 <<'END'
! cairn: 'shrinks' shrank while it was read: N bytes, want 4194304
END
[ ! -e store/host/changing ] || fail "half a snapshot is there"
data grows $((4 * MIB))
cp grows first
slow grows x.img sh -c 'echo more >>grows'
expect 3 <<'END'
host/changing/2001-01-01T00:01:00Z
  x.img: 4 MiB in 64 chunks
  new: 64 of 64 chunks, 4 MiB, stored as 4.001 MiB
! cairn: warning: 'grows' changed while it was read; 'x.img' is what was read
END
ok cairn cat host/changing/latest x.img
cmp "$out" first
ok cairn forget host/changing/latest
data grows $((4 * MIB)) stream
slow grows x.raw sh -c 'echo more >>grows'
expect 3 <<'END'
host/changing/2001-01-01T00:01:00Z
  x.raw: 4 MiB in 59 chunks
  new: 59 of 59 chunks, 4 MiB, stored as 4.001 MiB
! cairn: warning: 'grows' changed while it was read; 'x.raw' is what was read
END

# Standard input that is closed, a limit on the size of files.
run sh -c 'cairn push host/closed a.raw=- 0<&-'
expect 1 <<'END'
! cairn: read '-' at offset 0: Bad file descriptor
END
data limit 300000
run bash -c 'ulimit -f 100; exec cairn push host/limit a.raw=limit'
also="s/write '.*'/write 'IT'/" expect 1 <<'END'
! cairn: write 'IT': File too large
END
no_leftovers store

# Not below min-free.
sed -i 's/min-free = 0/min-free = 100%/' "$CAIRN_CONFIG"
also='s/[0-9.]+ [KMGTP]iB \(([0-9.]+ %)?/FIGURES (/; s/[0-9.]+ [KMGTP]iB/SIZE/g'
also="$also; s/[0-9.]+ ?%/SHARE/g"
keep=store/.chunks check 1 cairn push host/web1 a.raw=a <<'END'
! cairn: datastore 'DIR/store': FIGURES (SHARE) free, min-free wants SIZE (SHARE); 'cairn forget' or 'prune', then 'cairn gc --cutoff 0' make room
END
no_leftovers store
sed -i 's/min-free = 100%/min-free = 0/' "$CAIRN_CONFIG"

# For machines.
run cairn --json push --time 2001-01-01T00:02:00Z host/json a.raw=a b.img=b
json "$out" '[sorted(d), [sorted(a) for a in d["archives"]]]' >"$out.keys"
json "$out" '[d["chunks"], d["new-chunks"], d["bytes"], d["changed"]]' \
	>>"$out.keys"
mv "$out.keys" "$out"
events "$err"
: >"$err"
expect 0 <<'END'
[['archives', 'backup-id', 'backup-time', 'backup-type', 'bytes', 'changed', 'chunks', 'dry-run', 'incomplete', 'namespace', 'new-bytes', 'new-chunks', 'stored-bytes', 'time'], [['archive', 'changed', 'chunks', 'csum', 'filename', 'hole-bytes', 'size'], ['archive', 'changed', 'chunks', 'csum', 'filename', 'hole-bytes', 'size']]]
[2, 1, 300100, False]
END

no_leftovers store
sound store
