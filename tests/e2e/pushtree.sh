#!/usr/bin/env bash
# cairn push NAME.tree=DIR: what is stored of a directory, what is left out, and
# what is said.
. "$(dirname "$0")/lib.sh"
also='s|stored as [1-9][0-9.]* [KM]?i?B|stored as SIZE|'

gentree=$here/gentree.py
treerows=$here/treerows.py
cairn init store 2>/dev/null
push() { cairn push --time "2001-01-01T00:00:$(printf '%02d' "$1")Z" "${@:2}"; }

# names SNAPSHOT [ARCHIVE]: the paths that are stored, in walk order.
names() {
	cairn cat "$1" "${2:-root.tree}.catalog" >catalog.db 2>/dev/null
	python3 - <<'END'
import os, sqlite3
rows = {}
for parent, name, i, kind in sqlite3.connect("catalog.db").execute(
        "select parent, name, id, kind from entry order by parent, name"):
    rows.setdefault(parent, []).append((name, i, kind))
def show(parent, path):
    for name, i, kind in rows.get(parent, []):
        p = path + os.fsdecode(name)
        print(p + ("/" if kind == "dir" else ""))
        show(i, p + "/")
show(1, "")
END
}

# A small tree, to the letter.
mkdir -p small/dir/empty
data small/a 1000
data small/dir/b 1000 small/a
data small/dir/c 2000
ln -s a small/link
ln small/a small/dir/hard
check 0 push 1 host/web1 root.tree=small <<'END'
host/web1/2001-01-01T00:00:01Z
  root.tree: 2.93 KiB in 1 chunk, 4 files, 3 directories, 1 other entry
    1 file, 1000 B, like others
  root.tree.catalog: 32 KiB in 1 chunk
  new: 2 of 2 chunks, 34.93 KiB, stored as SIZE
END
check 0 names host/web1/latest <<'END'
a
dir/
dir/b
dir/c
dir/empty/
dir/hard
link
END

# The same again: nothing but the indexes and the manifest.
check 0 push 2 host/web1 root.tree=small/ <<'END'
host/web1/2001-01-01T00:00:02Z
  root.tree: 2.93 KiB in 1 chunk, 4 files, 3 directories, 1 other entry
    1 file, 1000 B, like others
  root.tree.catalog: 32 KiB in 1 chunk
  new: 0 of 2 chunks, 0 B, stored as 0 B
END

# JSON.
ok cairn --json push --time 2001-01-01T00:00:03Z host/web1 root.tree=small
cp "$out" pushed.json
check 0 json pushed.json \
	'[sorted(d["archives"][0]), sorted(d["archives"][0]["catalog"])]' <<'END'
[['archive', 'catalog', 'changed', 'changed-files', 'chunks', 'csum', 'directories', 'entries', 'excluded', 'filename', 'files', 'hole-bytes', 'same-bytes', 'same-files', 'size', 'unreadable', 'vanished'], ['chunks', 'csum', 'filename', 'size']]
END
check 0 json pushed.json '([d["archives"][0][k] for k in ("archive", "filename",
	"entries", "files", "directories", "same-files", "same-bytes",
	"excluded", "unreadable", "changed-files", "vanished", "size")] +
	[d["archives"][0]["catalog"]["filename"], d["incomplete"]])' <<'END'
['root.tree', 'root.tree.didx', 8, 4, 3, 1, 1000, 0, 0, 0, 0, 3000, 'root.tree.catalog.fidx', False]
END

# A dry run reads all and stores nothing.
keep=store check 0 push 4 --dry-run host/web1 root.tree=small <<'END'
host/web1/2001-01-01T00:00:04Z (dry run: nothing was stored)
  root.tree: 2.93 KiB in 1 chunk, 4 files, 3 directories, 1 other entry
    1 file, 1000 B, like others
  root.tree.catalog: 32 KiB in 1 chunk
  would be new: 0 of 2 chunks, 0 B
END

# An empty directory; another archive beside it.
mkdir none
check 0 push 5 host/web1 none.tree=none small.tree=small a.raw=small/a <<'END'
host/web1/2001-01-01T00:00:05Z
  none.tree: 0 B, 0 files, 1 directory
  none.tree.catalog: 32 KiB in 1 chunk
  small.tree: 2.93 KiB in 1 chunk, 4 files, 3 directories, 1 other entry
    1 file, 1000 B, like others
  small.tree.catalog: 32 KiB in 1 chunk
  a.raw: 1000 B in 1 chunk
  new: 2 of 4 chunks, 32.98 KiB, stored as SIZE
END

# What is left out.
mkdir -p src/cache src/tmp src/home/tmp src/home/keep
for f in src/a.o src/keep.o src/tmp/x src/home/tmp/y src/home/keep/z \
	src/cache/thing src/home/a.o; do
	echo "$f" >$f
done
printf 'Signature: 8a477f597d28d172789f06886806bc55\n' >src/cache/CACHEDIR.TAG
check 0 push 6 --exclude '*.o' --exclude '!keep.o' --exclude /tmp/ \
	--exclude-caches host/web1 root.tree=src <<'END'
host/web1/2001-01-01T00:00:06Z
  root.tree: 86 B in 1 chunk, 4 files, 5 directories
    4 left out
  root.tree.catalog: 32 KiB in 1 chunk
  new: 2 of 2 chunks, 32.08 KiB, stored as SIZE
END
check 0 names host/web1/latest <<'END'
cache/
cache/CACHEDIR.TAG
home/
home/keep/
home/keep/z
home/tmp/
home/tmp/y
keep.o
END
printf '# mine\n*.o\n\n/home/*\n' >patterns
ok push 7 --exclude-file patterns --exclude '!keep.o' --exclude '!/home/keep' \
	host/web1 root.tree=src
check 0 names host/web1/latest <<'END'
cache/
cache/CACHEDIR.TAG
cache/thing
home/
home/keep/
home/keep/z
keep.o
tmp/
tmp/x
END
# Options in their order: the last one decides.
ok push 8 --exclude '!keep.o' --exclude-file patterns host/web1 root.tree=src
check 0 names host/web1/latest <<'END'
cache/
cache/CACHEDIR.TAG
cache/thing
home/
tmp/
tmp/x
END
keep=store check 2 push 9 --exclude 'a[' host/web1 root.tree=src <<'END'
! cairn: --exclude 'a[': '[' without its ']', or an unknown [:class:]
END
printf 'ok\na\\\n' >wrong
keep=store check 2 push 9 --exclude-file wrong host/web1 root.tree=src <<'END'
! cairn: --exclude-file: wrong:2: nothing stands behind the last '\'
END
keep=store check 1 push 9 --exclude-file missing host/web1 root.tree=src <<'END'
! cairn: --exclude-file: 'missing': No such file or directory
END

# Sources that are none.
check 1 push 9 host/web1 root.tree=small/a <<'END'
! cairn: 'small/a' is neither a directory nor an archive of a kind that is known
END
no_leftovers store
keep=store check 1 push 9 host/web1 root.tree=nowhere <<'END'
! cairn: 'nowhere': No such file or directory
END

# What can not be read is told, and the rest is stored.
if [ "$(id -u)" -ne 0 ]; then
	mkdir -p locked/dir
	: >locked/dir/x
	echo secret >locked/file
	echo open >locked/open
	chmod 000 locked/dir locked/file
	check 3 push 10 host/web1 root.tree=locked <<'END'
host/web1/2001-01-01T00:00:10Z
  root.tree: 5 B in 1 chunk, 2 files, 2 directories
    2 unreadable
  root.tree.catalog: 32 KiB in 1 chunk
  new: 2 of 2 chunks, 32 KiB, stored as SIZE
! cairn: warning: 'locked/dir' can not be read; what is in it is missing: open the directory: Permission denied
! cairn: warning: 'locked/file' can not be read; its content is missing: open it: Permission denied
END
	chmod 700 locked/dir locked/file
fi

# Everything there is: each column, and each byte, as another program sees it;
# also with few descriptors.
all=$PWD/all
remove_all() {
	local code=$?
	python3 "$gentree" --remove "$all"
	return "$code"
}
trap 'if remove_all; then clean_up; else clean_up; fi' EXIT
python3 "$gentree" all | sed 's/^skipped:/left out:/'
(
	ulimit -n 200
	ok push 20 host/web2 root.tree=all
)
cairn cat host/web2/latest root.tree >content 2>/dev/null
cairn cat host/web2/latest root.tree.catalog >catalog.db 2>/dev/null
python3 "$treerows" all catalog.db content ||
	fail "the catalog does not say what is there"
cp catalog.db before.db
# The same when what waited in memory was written meanwhile.
sync -f all
ok push 21 host/web2 root.tree=all
cairn cat host/web2/latest root.tree.catalog >catalog.db 2>/dev/null
cmp before.db catalog.db || fail "the same tree, another catalog"
python3 "$gentree" --remove all

# Mounts.
if [ "$(id -u)" -eq 0 ]; then
	mkdir -p mnt/at mnt/other
	if mount -t tmpfs none mnt/at 2>/dev/null; then
		mounts+=("$PWD/mnt/at")
		echo inside >mnt/at/file
		ok push 30 host/web3 root.tree=mnt
		check 0 names host/web3/latest <<'END'
at/
at/file
other/
END
		python3 - >"$out" <<'END'
import sqlite3
db = sqlite3.connect("catalog.db")
for row in db.execute("select id, dev, path from mount order by id"):
    print(*row)
for row in db.execute("select name, mount from entry order by id"):
    print(*row)
END
		: >"$err"
		expect 0 <<'END'
1 None b''
2 None b'at'
b'' 1
b'at' 2
b'other' 1
b'file' 2
END
		check 0 push 31 --one-file-system host/web3 root.tree=mnt <<'END'
host/web3/2001-01-01T00:00:31Z
  root.tree: 0 B, 0 files, 3 directories
  root.tree.catalog: 32 KiB in 1 chunk
  new: 1 of 1 chunk, 32 KiB, stored as SIZE
END
		check 0 names host/web3/latest <<'END'
at/
other/
END
	else
		echo "skipped in part: nothing can be mounted here"
	fi
fi

no_leftovers store
sound store
