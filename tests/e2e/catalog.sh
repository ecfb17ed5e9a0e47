#!/usr/bin/env bash
# Catalogs as plain databases: what cat and restore give is one that anybody
# can ask, and the same tree gives the same one.
. "$(dirname "$0")/lib.sh"

mkdir -p tree/dir tree/empty
printf 'one' >tree/dir/a
printf 'one' >tree/dir/b
printf 'odd' >$'tree/x\ny\xff'
ln -s dir/a tree/link

cat >ask.py <<'END'
import sqlite3, sys

db = sqlite3.connect(sys.argv[1])
print(db.execute('pragma integrity_check').fetchone()[0],
      hex(db.execute('pragma application_id').fetchone()[0]),
      db.execute('pragma user_version').fetchone()[0])
for parent, name, kind, size in db.execute(
        'select parent, name, kind, size from entry order by parent, name'):
    print(parent, name, kind, size)
END

ok cairn init store
export CAIRN_DATASTORE=./store
ok cairn push --time 2001-01-01T00:00:00Z host/a root.tree=tree
ok cairn push --time 2001-01-01T00:00:01Z host/a root.tree=tree
s=host/a/2001-01-01T00:00:00Z

cairn cat $s root.tree.catalog >c.db 2>>log
check 0 python3 ask.py c.db <<'END'
ok 0x43524e31 1
0 b'' dir None
1 b'dir' dir None
1 b'empty' dir None
1 b'link' symlink None
1 b'x\ny\xff' file 3
2 b'a' file 3
2 b'b' file 3
END

# By its whole name, restored, and of the second push: the same bytes.
cairn cat $s root.tree.catalog.fidx >whole.db 2>>log
cmp c.db whole.db
ok cairn restore $s root.tree.catalog restored.db
cmp c.db restored.db
cairn cat host/a/2001-01-01T00:00:01Z root.tree.catalog >again.db 2>>log
cmp c.db again.db
