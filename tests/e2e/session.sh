#!/usr/bin/env bash
# The session of the README: what a person does first, from an empty
# directory to a store that is collected and verified.
. "$(dirname "$0")/lib.sh"

# The machine to back up: a disk with much nothing on it, a small file, logs.
truncate -s 24M disk.img
bytes disk $((3 * MIB)) | dd of=disk.img bs=1M seek=4 conv=notrunc status=none
printf 'role = web\n' >machine.conf
data logs.tar $((2 * MIB)) logs

# A datastore, and a first backup.
check 0 cairn init store <<'END'
! cairn: datastore made in 'store'
END
export CAIRN_DATASTORE=$PWD/store
in=logs.tar check 0 cairn push --time 2001-01-01T12:00:00Z host/web1 \
	disk.img=disk.img machine.conf=machine.conf logs.raw=- <<'END'
host/web1/2001-01-01T12:00:00Z
  disk.img: 24 MiB in 24 chunks, 21 MiB of it holes
  machine.conf: 11 B
  logs.raw: 2 MiB in 2 chunks
  new: 6 of 26 chunks, 6 MiB, stored as 5 MiB
END

# One day later little has changed, and little is stored.
bytes change $MIB | dd of=disk.img bs=1M seek=16 conv=notrunc status=none
check 0 cairn push --time 2001-01-02T12:00:00Z --note 'before the upgrade' \
	host/web1 disk.img=disk.img machine.conf=machine.conf \
	logs.raw=logs.tar <<'END'
host/web1/2001-01-02T12:00:00Z
  disk.img: 24 MiB in 24 chunks, 20 MiB of it holes
  machine.conf: 11 B
  logs.raw: 2 MiB in 2 chunks
  new: 1 of 26 chunks, 1 MiB, stored as 1 MiB
END

# A program's output.
check 0 cairn push --time 2001-01-02T13:00:00Z host/db1 \
	--command 'echo create table t; echo insert' dump.raw <<'END'
host/db1/2001-01-02T13:00:00Z
  dump.raw: 22 B in 1 chunk
  new: 1 of 1 chunk, 22 B, stored as 34 B
END

# A directory, then one that comes from elsewhere as a tar; in a store of
# their own, since their sizes differ from machine to machine.
cairn init trees 2>/dev/null
export CAIRN_DATASTORE=$PWD/trees
mkdir -p etc/nginx
echo 'user www;' >etc/nginx/nginx.conf
echo web1 >etc/hostname
ok cairn push --time 2001-01-02T14:00:00Z host/tree etc.tree=etc
rm etc/hostname
echo 'user web;' >etc/nginx/nginx.conf
ok cairn push --time 2001-01-02T15:00:00Z host/tree etc.tree=etc
check 0 cairn ls host/tree/latest etc.tree nginx <<'END'
nginx.conf
END
check 0 cairn diff host/tree/2001-01-02T14:00:00Z host/tree/latest etc.tree <<'END'
M . (mtime)
- hostname
M nginx/nginx.conf (content, mtime)
END
check 0 cairn cat host/tree/2001-01-02T14:00:00Z etc.tree hostname <<'END'
web1
END
ok cairn restore host/tree/latest etc.tree etc.back
diff -r etc etc.back
ok cairn restore host/tree/2001-01-02T14:00:00Z etc.tree part hostname
check 0 ls part <<'END'
hostname
END
ok cairn export host/tree/latest etc.tree
tar -df "$out" -C etc
# "ssh web2 tar c /", where sh is the other machine.
sh -c 'tar cf - -C etc .' | cairn push --time 2001-01-02T14:00:00Z host/web2 \
	root.tar=- >/dev/null 2>&1
check 0 cairn cat host/web2/latest root.tar nginx/nginx.conf <<'END'
user web;
END
also='s/^(exactly) .*/\1 FIGURES/'
check 0 cairn prune --keep-last 1 --dry-run host/tree <<'END'
SNAPSHOT                        ACTION  REASON
host/tree/2001-01-02T14:00:00Z  remove  no rule keeps it
host/tree/2001-01-02T15:00:00Z  keep    keep-last
would remove 1 of 2 snapshots
exactly FIGURES
! cairn: policy: keep-last 1; time zone UTC
END
also=
sound trees
export CAIRN_DATASTORE=$PWD/store

# What there is.
check 0 cairn list <<'END'
SNAPSHOT                          SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/db1/2001-01-02T13:00:00Z     22 B      1  -         -
host/web1/2001-01-01T12:00:00Z  26 MiB      3  -         -
host/web1/2001-01-02T12:00:00Z  26 MiB      3  -         -          before the upgrade
END
check 0 cairn groups <<'END'
GROUP      SNAPSHOTS  UNFINISHED  LATEST                OWNER
host/db1           1           0  2001-01-02T13:00:00Z  root@pam
host/web1          2           0  2001-01-02T12:00:00Z  root@pam
END
check 0 cairn files host/web1/latest <<'END'
ARCHIVE       FILE                 SIZE     BYTES  ENCRYPTION  CHECKSUM
disk.img      disk.img.fidx      24 MiB  25165824  none        DIGEST
machine.conf  machine.conf.blob    23 B        23  none        DIGEST
logs.raw      logs.raw.didx       2 MiB   2097152  none        DIGEST
END

# Back again: to standard output, to a file, into a directory.
check 0 cairn cat host/web1/latest machine.conf <<'END'
role = web
END
ok cairn cat host/web1/2001-01-01T12:00:00Z logs.raw
cmp "$out" logs.tar
check 0 cairn restore host/web1/latest disk.img restored.img <<'END'
'restored.img': 24 MiB restored, 4 MiB written
END
cmp restored.img disk.img
mkdir back
check 0 cairn restore host/web1/latest logs.raw back <<'END'
'back/logs.raw': 2 MiB restored, 2 MiB written
END
cmp back/logs.raw logs.tar
check 3 cairn restore host/web1/latest disk.img restored.img <<'END'
! cairn: warning: 'restored.img' exists and was left alone; --overwrite=changed or always writes it
END

# Marks.
check 0 cairn note host/web1/latest <<'END'
before the upgrade
END
check 0 cairn note host/web1/2001-01-01T12:00:00Z 'the first one' </dev/null
check 0 cairn protect host/web1/2001-01-01T12:00:00Z <<'END'
protected host/web1/2001-01-01T12:00:00Z
END
check 1 cairn forget host/web1/2001-01-01T12:00:00Z <<'END'
! cairn: snapshot 'host/web1/2001-01-01T12:00:00Z' is protected; 'cairn unprotect' lifts that
END
check 0 cairn list host/web1 <<'END'
SNAPSHOT                          SIZE  FILES  VERIFIED  PROTECTED  NOTE
host/web1/2001-01-01T12:00:00Z  26 MiB      3  -         yes        the first one
host/web1/2001-01-02T12:00:00Z  26 MiB      3  -         -          before the upgrade
END
check 0 cairn unprotect host/web1/2001-01-01T12:00:00Z <<'END'
unprotected host/web1/2001-01-01T12:00:00Z
END
check 0 cairn forget host/web1/2001-01-01T12:00:00Z host/db1/latest <<'END'
forgot host/web1/2001-01-01T12:00:00Z
forgot host/db1/2001-01-02T13:00:00Z
END

# Garbage: what would go, what goes after a day, what goes now.
old store
keep=store check 0 cairn gc --dry-run <<'END'
would remove:  1 chunk, 34 B
in use:        7 chunks, 6 MiB
referenced by: 2 index files, 26 MiB
deduplication: 4.33
END
also='s/(free space: +).*/\1FIGURES/'
touch -a store/.chunks/*/*
check 0 cairn gc <<'END'
removed:       0 chunks, 0 B
pending:       1 chunk, 34 B
               kept by the safety margin until TIME
in use:        7 chunks, 6 MiB
referenced by: 2 index files, 26 MiB
deduplication: 4.33
free space:    FIGURES
to free the pending 34 B now: cairn gc --cutoff 0
END
check 0 cairn gc --cutoff 0 <<'END'
removed:       1 chunk, 34 B
in use:        7 chunks, 6 MiB
referenced by: 2 index files, 26 MiB
deduplication: 4.33
free space:    FIGURES
! cairn: waiting 6 s, so that what was last used before this run can go
END
check 0 cairn gc status <<'END'
last run:      ended TIME
removed:       1 chunk, 34 B
in use:        7 chunks, 6 MiB
referenced by: 2 index files, 26 MiB
deduplication: 4.33
free space:    FIGURES
END

# Everything is there that should be.
check 0 cairn verify <<'END'
verified 1 snapshot: 7 chunks, 6 MiB read
no damage found
END
also='s/(file system: ).*/\1FIGURES/'
check 0 cairn status <<'END'
datastore:   DIR/store
file system: FIGURES
snapshots:   1 in 1 group, newest of 2001-01-02T12:00:00Z
gc:          last ended TIME, removed 34 B
chunks then: 7, 6 MiB, holding 26 MiB (deduplication 4.33)
verify:      last ran TIME, 1 snapshot: no damage
END
ok cairn cat host/web1/latest disk.img
cmp "$out" disk.img
no_leftovers store
sound store
python3 "$reader" restore store host/web1/2001-01-02T12:00:00Z \
	disk.img.fidx again.img
cmp again.img disk.img
