#!/usr/bin/env bash
# Looking into trees and tars: ls, find, cat of a file, du, diff, and what
# verify says of files that are hurt.
. "$(dirname "$0")/lib.sh"
need tar

# Owners are those of whoever runs this.
owner=$(printf '%-8s %-8s' "$(id -un)" "$(id -gn)")
also="s/ $owner / USER GROUP /
	s/: [0-9]+ chunks?, [0-9.]+ [KM]iB read/: CHUNKS/
	s/chunk '.chunks.[^:]+:/chunk '.chunks\/LOST':/"

stamp() { touch -h -d "2001-01-01 00:00:${2:-00}" "$1"; }
make_tree() {
	umask 022
	mkdir -p tree/etc/ssh tree/empty
	printf 'root:x:0:0\n' >tree/etc/passwd
	printf '[main]\n' >tree/etc/main.conf
	printf 'Port 22\n' >tree/etc/ssh/sshd.conf
	printf 'odd' >$'tree/a\nb\xff'
	printf 'twice' >tree/one
	ln tree/one tree/two
	chmod 4755 tree/one
	ln -s $'etc/\tx' tree/link
	mkfifo tree/pipe
	: >tree/nothing
	truncate -s 300000 tree/sparse
	printf 'data' | dd of=tree/sparse bs=1 seek=200000 conv=notrunc status=none
	find tree -exec touch -h -d '2001-01-01 00:00:00' {} +
}
make_tree
ok cairn init store
export CAIRN_DATASTORE=./store
s=host/a/2001-01-01T00:00:00Z
ok cairn push --time 2001-01-01T00:00:00Z host/a root.tree=tree plain.raw=tree/etc/passwd

# A PATH may begin with a slash; one of before the push is understood.
check 0 cairn cat $s root.tree /etc/passwd <<'END'
root:x:0:0
END
check 1 cairn cat $s root.tree /tree/etc/passwd <<'END'
! cairn: 'host/a/2001-01-01T00:00:00Z/root.tree.catalog.fidx': '/tree' is not in it; paths begin at the archive's root: did you mean 'etc/passwd'?
END
for command in ls du; do
	run cairn $command $s root.tree /srv/tree/etc
	[ "$code" -eq 1 ] || fail "exit code $code"
	grep -q "did you mean 'etc'?" "$err" || fail "$(cat "$err")"
done
run cairn restore $s root.tree back /srv/tree/etc
grep -q "did you mean 'etc'?" "$err" || fail "$(cat "$err")"
[ ! -e back ] || fail "made for nothing"
check 1 cairn ls $s rot.tree <<'END'
! cairn: host/a/2001-01-01T00:00:00Z: no archive 'rot.tree', did you mean 'root.tree'? There is: root.tree, root.tree.catalog, plain.raw
END

# ls
check 0 cairn ls $s root.tree <<'END'
a\nb\xff
empty
etc
link
nothing
one
pipe
sparse
two
END
check 0 cairn ls -l $s root.tree <<'END'
-rw-r--r--   1 USER GROUP          3 2001-01-01T00:00:00Z a\nb\xff
drwxr-xr-x   - USER GROUP          - 2001-01-01T00:00:00Z empty
drwxr-xr-x   - USER GROUP          - 2001-01-01T00:00:00Z etc
lrwxrwxrwx   1 USER GROUP          - 2001-01-01T00:00:00Z link -> etc/\tx
-rw-r--r--   1 USER GROUP          0 2001-01-01T00:00:00Z nothing
-rwsr-xr-x   2 USER GROUP          5 2001-01-01T00:00:00Z one
prw-r--r--   1 USER GROUP          - 2001-01-01T00:00:00Z pipe
-rw-r--r--   1 USER GROUP     300000 2001-01-01T00:00:00Z sparse
-rwsr-xr-x   2 USER GROUP          5 2001-01-01T00:00:00Z two
END
check 0 cairn ls -R $s root.tree /etc/./ <<'END'
etc/main.conf
etc/passwd
etc/ssh
etc/ssh/sshd.conf
END
check 0 cairn ls $s root.tree etc <<'END'
main.conf
passwd
ssh
END
check 0 cairn ls $s root.tree empty </dev/null
check 0 cairn ls $s root.tree etc/passwd <<'END'
passwd
END
check 0 cairn ls -R $s root.tree etc/passwd <<'END'
etc/passwd
END
ok cairn ls -0 $s root.tree
printf 'a\nb\xff\0empty\0etc\0link\0nothing\0one\0pipe\0sparse\0two\0' | cmp - "$out"
ok cairn ls -lR0 $s root.tree
grep -qaz $' a\nb\xff$' "$out" || fail "no raw name"

ok cairn ls --json -R $s root.tree
python3 - "$out" <<'END'
import json, os, stat, sys
seen = {}
for entry in json.load(open(sys.argv[1])):
    path = entry["path"]
    name = bytes.fromhex(entry["path-hex"]) if "path-hex" in entry else os.fsencode(path)
    st = os.lstat(b"tree/" + name)
    assert int(entry["mode"], 8) == stat.S_IMODE(st.st_mode), path
    assert (entry["uid"], entry["gid"]) == (st.st_uid, st.st_gid), path
    assert entry["mtime-s"] == st.st_mtime and entry["mtime-ns"] == 0, path
    assert entry["mtime"] == "2001-01-01T00:00:00Z", path
    kinds = {"file": stat.S_ISREG, "dir": stat.S_ISDIR, "symlink": stat.S_ISLNK, "fifo": stat.S_ISFIFO}
    assert kinds[entry["kind"]](st.st_mode), path
    if entry["kind"] == "file":
        assert entry["size"] == st.st_size and entry["nlink"] == st.st_nlink, path
    seen[name] = entry
want = set()
for dir, dirs, files in os.walk(b"tree"):
    want.update(os.path.relpath(os.path.join(dir, x), b"tree") for x in dirs + files)
assert set(seen) == want, set(seen) ^ want
assert seen[b"a\nb\xff"]["path"] == "a\nb\ufffd"
assert seen[b"link"]["target"] == "etc/\tx"
assert seen[b"one"]["link"] == seen[b"two"]["link"]
END
check 0 cairn ls --json $s root.tree empty <<'END'
[]
END

check 1 cairn ls $s root.tree etc/none <<END
! cairn: '$s/root.tree.catalog.fidx': 'etc/none' is not in it
END
check 1 cairn ls $s root.tree etc/passwd/x <<END
! cairn: '$s/root.tree.catalog.fidx': 'etc/passwd' is no directory
END
check 2 cairn ls $s root.tree etc/../etc <<END
! cairn: '$s/root.tree.catalog.fidx': 'etc/..' has a '..', which is not followed
END
check 2 cairn ls $s plain.raw <<END
! cairn: '$s': 'plain.raw' has no catalog; want a '.tree' or '.tar'
END
check 2 cairn ls --json -0 $s root.tree <<'END'
! {"event":"error","exit-code":2,"text":"--null and --json exclude each other: JSON has names that are no text in hex"}
END
check 2 cairn ls $s <<'END'
! cairn: missing argument; want 'cairn ls SNAPSHOT ARCHIVE [PATH]'
END

# find
check 0 cairn find $s '*.conf' <<'END'
root.tree:etc/main.conf
root.tree:etc/ssh/sshd.conf
END
check 0 cairn find $s 'etc/*.conf' --type f <<'END'
root.tree:etc/main.conf
root.tree:etc/ssh/sshd.conf
END
check 0 cairn find $s '/etc/s*' --type d <<'END'
root.tree:etc/ssh
END
check 0 cairn find -l $s '[lp]*' --type l <<'END'
lrwxrwxrwx   1 USER GROUP          - 2001-01-01T00:00:00Z root.tree:link -> etc/\tx
END
check 0 cairn find $s 'a?b?' <<'END'
root.tree:a\nb\xff
END
check 0 cairn find $s nowhere </dev/null
check 0 cairn find --json $s nowhere <<'END'
[]
END
ok cairn find -0 $s 'o*'
printf 'root.tree:one\0' | cmp - "$out"
check 2 cairn find $s '*' --type x <<'END'
! cairn: --type 'x': want f (file), d (directory), l (symbolic link), p (FIFO), s (socket), c or b (device)
END
ok cairn push --time 2001-01-01T00:00:00Z host/b plain.raw=tree/etc/passwd
check 1 cairn find host/b/latest '*' <<'END'
! cairn: host/b/2001-01-01T00:00:00Z: no archive NAME.tree or NAME.tar to be searched
END

# cat
for path in etc/passwd one two nothing sparse $'a\nb\xff'; do
	ok cairn cat $s root.tree "$path"
	cmp "$out" "tree/$path"
done
check 2 cairn cat $s root.tree etc <<END
! cairn: '$s/root.tree.catalog.fidx': 'etc' is a directory, want a file
END
check 2 cairn cat $s root.tree link <<END
! cairn: '$s/root.tree.catalog.fidx': 'link' is a symbolic link, want a file
END
check 2 cairn cat $s root.tree pipe <<END
! cairn: '$s/root.tree.catalog.fidx': 'pipe' is a FIFO, want a file
END
check 1 cairn cat $s root.tree etc/none <<END
! cairn: '$s/root.tree.catalog.fidx': 'etc/none' is not in it
END

# du
check 0 cairn du $s root.tree etc --depth 2 <<'END'
      SIZE      STORED     FILES      DIRS  PATH
       8 B         8 B         1         1  etc/ssh
      26 B        26 B         3         2  etc
END
ok cairn du --json $s root.tree
python3 - "$out" <<'END'
import json, sys
sums = json.load(open(sys.argv[1]))
assert [x["path"] for x in sums] == ["empty", "etc", ""], sums
assert sums[0] == {"path": "empty", "size": 0, "stored": 0, "files": 0, "dirs": 1, "others": 0}
assert sums[2]["size"] == 26 + 3 + 5 + 300000, sums
assert 34 + 4 <= sums[2]["stored"] <= sums[2]["size"], sums
assert (sums[2]["files"], sums[2]["dirs"], sums[2]["others"]) == (7, 4, 3), sums
END
check 2 cairn du $s root.tree --depth -1 <<'END'
! cairn: --depth: '-1' is no whole number between 0 and 65536
END

# diff: the same, and each kind of change.
ok cairn push --time 2001-01-02T00:00:00Z host/a root.tree=tree plain.raw=tree/etc/passwd
t=host/a/2001-01-02T00:00:00Z
check 0 cairn diff $s $t </dev/null
check 0 cairn diff $s $t root.tree </dev/null
check 0 cairn diff --json $s $t <<'END'
[]
END
mv tree/etc/main.conf tree/etc/ssh/main2.conf
printf 'root:x:0:1\n' >tree/etc/passwd
stamp tree/etc/passwd 01
chmod 600 tree/etc/ssh/sshd.conf
rm tree/link tree/pipe
printf 'new' >tree/link
mkdir tree/new
printf 'n' >tree/new/n
mv tree/sparse tree/new/sparse
for path in tree/link tree/new/n tree/new tree/etc/ssh tree/etc tree; do stamp $path; done
ok cairn push --time 2001-01-03T00:00:00Z host/a root.tree=tree small.conf=tree/etc/passwd
u=host/a/2001-01-03T00:00:00Z
check 0 cairn diff $s $u root.tree <<'END'
M etc/passwd (content, mtime)
R etc/main.conf -> etc/ssh/main2.conf
M etc/ssh/sshd.conf (mode)
M link (type)
+ new
+ new/n
R sparse -> new/sparse
- pipe
END
check 0 cairn diff $u $s root.tree <<'END'
R etc/ssh/main2.conf -> etc/main.conf
M etc/passwd (content, mtime)
M etc/ssh/sshd.conf (mode)
M link (type)
- new
- new/n
+ pipe
R new/sparse -> sparse
END
check 0 cairn diff $s $u <<'END'
M root.tree:etc/passwd (content, mtime)
R root.tree:etc/main.conf -> root.tree:etc/ssh/main2.conf
M root.tree:etc/ssh/sshd.conf (mode)
M root.tree:link (type)
+ root.tree:new
+ root.tree:new/n
R root.tree:sparse -> root.tree:new/sparse
- root.tree:pipe
- plain.raw
+ small.conf
END
check 0 cairn diff $s $u root.tree etc/ssh <<'END'
+ etc/ssh/main2.conf
M etc/ssh/sshd.conf (mode)
END
check 0 cairn diff $s $u root.tree new <<'END'
+ new
+ new/n
+ new/sparse
END
check 0 cairn diff --json $s $u root.tree etc <<'END'
[
  {"change":"changed","path":"etc/passwd","kind":"file","old-size":11,"size":11,"what":["content","mtime"]},
  {"change":"moved","path":"etc/ssh/main2.conf","from":"etc/main.conf","kind":"file","old-size":7,"size":7,"what":[]},
  {"change":"changed","path":"etc/ssh/sshd.conf","kind":"file","old-size":8,"size":8,"what":["mode"]}
]
END
ok cairn diff -0 $s $u root.tree etc
printf 'M etc/passwd\0R etc/main.conf\0etc/ssh/main2.conf\0M etc/ssh/sshd.conf\0' |
	cmp - "$out"
check 1 cairn diff $s $u root.tree none <<END
! cairn: '$s/root.tree.catalog.fidx': 'none' is not in it
END

# A reader that has seen enough.
for command in "ls -R $s root.tree" "find $s '*'" "diff $s $u" "cat $s root.tree sparse"; do
	run bash -c "exec 3> >(exec sleep 0); wait \$!; cairn $command >&3"
	expect 141 </dev/null
done

# What a missing chunk hurts, by name, and what it does not: large files begin
# and end with chunks of their own.
mkdir big
for i in 1 2 3; do
	python3 -c "import random, sys
random.seed($i)
sys.stdout.buffer.write(random.randbytes(1500000))" >big/$i
done
printf 'small\n' >big/0
for i in {10..40}; do printf '%s\n' "$i" >"big/n$i"; done
v=host/a/2001-01-04T00:00:00Z
ok cairn push --time 2001-01-04T00:00:00Z host/a big.tree=big
chunk_at() { # INDEX OFFSET: the digest of the chunk that has it
	python3 - "$1" "$2" <<'END'
import struct, sys
data = open(sys.argv[1], "rb").read()[4096:]
for i in range(0, len(data), 40):
    if int(sys.argv[2]) < struct.unpack("<Q", data[i:i + 8])[0]:
        print(data[i + 8:i + 40].hex())
        break
END
}
lose() { # OFFSET: of the stream of big.tree
	local digest
	digest=$(chunk_at store/$v/big.tree.didx "$1")
	mv "store/.chunks/${digest:0:4}/$digest" aside
	lost=store/.chunks/${digest:0:4}/$digest
}
lose 1000000
check 4 cairn verify host/a/latest <<END
verified 1 snapshot: CHUNKS
chunks: 1 missing, 0 bad (renamed to .bad), 0 unreadable
hurt: $v
  big.tree:1
a push of the same data stores missing and bad chunks again; then verify once more
! cairn: warning: '$v/big.tree.didx': chunk '.chunks/LOST': missing
END
run cairn cat $v big.tree 1
[ "$code" -eq 4 ] || fail "exit code $code"
cmp -n "$(stat -c %s "$out")" "$out" big/1
grep -q "^cairn: '$v/big.tree.didx': chunk ${lost##*/} at offset " "$err" ||
	fail "no word of the chunk"
for i in 0 2 3 n10 n40; do
	ok cairn cat $v big.tree $i
	cmp "$out" big/$i
done
run cairn verify --json host/a/latest
[ "$code" -eq 4 ] || fail "exit code $code"
python3 - "$out" <<'END'
import json, sys
hurt = json.load(open(sys.argv[1]))["hurt"]
assert len(hurt) == 1 and hurt[0]["files"] == [{"archive": "big.tree", "path": "1"}], hurt
assert hurt[0]["files-more"] == 0, hurt
END
mv aside "$lost"
check 0 cairn verify host/a/latest <<'END'
verified 1 snapshot: CHUNKS
no damage found
END
lose 4500010
run cairn verify host/a/latest
[ "$code" -eq 4 ] || fail "exit code $code"
sed -n '/^hurt/,/more/p' "$out" >named
check 0 cat named <<END
hurt: $v
$(for i in {10..29}; do echo "  big.tree:n$i"; done)
  and 11 more files; --verbose lists more
END
run cairn verify --verbose host/a/latest
sed -n '/^hurt/,/n40/p' "$out" >named
check 0 cat named <<END
hurt: $v
$(for i in {10..40}; do echo "  big.tree:n$i"; done)
END

# A tar: the last member of a name counts, hard links have their content, and
# a directory without a member is known by name only.
pack() { tar --owner=0 --group=0 --numeric-owner --mtime='2001-01-01 00:00:00Z' "$@"; }
mkdir -p t/d t/none
printf 'first\n' >t/d/a
ln t/d/a t/d/hard
printf 'deep' >t/none/x
pack -C t --sort=name -cf t.tar d none/x
printf 'second\n' >t/d/a
pack -C t -rf t.tar d/a
w=host/t/2001-01-01T00:00:00Z
ok cairn push --time 2001-01-01T00:00:00Z host/t root.tar=t.tar
also=
check 0 cairn ls -lR $w root.tar <<'END'
drwxr-xr-x   - 0        0                 - 2001-01-01T00:00:00Z d
-rw-r--r--   - 0        0                 7 2001-01-01T00:00:00Z d/a
-rw-r--r--   - 0        0                 6 2001-01-01T00:00:00Z d/hard
d?????????   - -        -                 - -                    none
-rw-r--r--   - 0        0                 4 2001-01-01T00:00:00Z none/x
END
check 0 cairn ls --all $w root.tar d <<'END'
a (earlier member)
a
hard
END
ok cairn ls --json --all $w root.tar d
python3 - "$out" <<'END'
import json, sys
got = [(x["path"], x["size"], x.get("earlier")) for x in json.load(open(sys.argv[1]))]
assert got == [("d/a", 6, True), ("d/a", 7, None), ("d/hard", 6, None)], got
END
check 0 cairn cat $w root.tar d/a <<'END'
second
END
check 0 cairn cat $w root.tar d/hard <<'END'
first
END
check 0 cairn find $w 'no*' <<'END'
root.tar:none
END
check 0 cairn du $w root.tar <<'END'
      SIZE      STORED     FILES      DIRS  PATH
      13 B        13 B         2         1  d
       4 B         4 B         1         1  none
      17 B        17 B         3         3  .
END
rm t.tar
pack -C t --sort=name -cf t.tar .
ok cairn push --time 2001-01-02T00:00:00Z host/t root.tar=t.tar
check 0 cairn diff $w host/t/latest root.tar d <<'END'
M d/hard (content)
END

# One that was compressed has no catalog.
gzip -n t.tar
run cairn push --time 2001-01-03T00:00:00Z host/t root.tar=t.tar.gz other.tree=tree/new
[ "$code" -eq 3 ] || fail "exit code $code"
check 3 cairn find host/t/latest n <<'END'
other.tree:n
! cairn: warning: 'host/t/2001-01-03T00:00:00Z': archive 'root.tar' has no catalog
END
check 0 cairn diff host/t/2001-01-02T00:00:00Z host/t/latest <<'END'
M root.tar (content)
+ other.tree
END
