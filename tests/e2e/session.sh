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
! cairn: snapshot 'host/web1/2001-01-01T12:00:00Z' is protected
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
END
ok cairn cat host/web1/latest disk.img
cmp "$out" disk.img
no_leftovers store
sound store
python3 "$reader" restore store host/web1/2001-01-02T12:00:00Z \
	disk.img.fidx again.img
cmp again.img disk.img
