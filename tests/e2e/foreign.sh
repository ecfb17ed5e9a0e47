#!/usr/bin/env bash
# Stores that Proxmox Backup Server could have made: read as they are, without
# a trace; written into as their own.
. "$(dirname "$0")/lib.sh"

tar -xpzf "$here/../golden/pbs-store.tar.gz"
mv pbs-store store
cat >described.py <<'END'
import json, sys
d = json.load(open("pbs-store.json"))
for s in d["snapshots"]:
    for a in s["archives"] if s["finished"] else []:
        print(s["ns"] or "-", "%s/%s/%s" % (s["type"], s["id"], s["time"]),
              a["filename"], a["crypt-mode"], a["sha256"])
END
times=2026-07 # those of the stores

# What is in it.
keep=store check 0 cairn list <<'END'
SNAPSHOT                             SIZE  FILES  VERIFIED  PROTECTED  NOTE
ct/200/2026-07-15T08:32:00Z       176 KiB      3  -         -          encrypted
host/elsa/2026-07-15T08:31:00Z  303.1 KiB      4  -         -
vm/100/2026-07-14T08:30:00Z     8.325 MiB      3  ok        -          first full backup
vm/100/2026-07-15T08:30:00Z     332.2 KiB      2  failed    yes
END
keep=store check 0 cairn list --all vm/101 <<'END'
SNAPSHOT                     SIZE  FILES  VERIFIED    PROTECTED  NOTE
vm/101/2026-07-16T00:00:00Z     -      -  unfinished  -
END
keep=store check 0 cairn --ns prod list <<'END'
SNAPSHOT                                 SIZE  FILES  VERIFIED  PROTECTED  NOTE
[prod] vm/100/2026-07-15T09:00:00Z  4.138 MiB      2  -         -
END
keep=store check 0 cairn --ns prod/db list <<'END'
SNAPSHOT                                      SIZE  FILES  VERIFIED  PROTECTED  NOTE
[prod/db] host/db1/2026-07-15T10:00:00Z  132.4 KiB      2  -         -          Größe: 1 „MiB“
[prod/db] host/db1/2026-07-16T10:00:00Z  134.3 KiB      2  -         -          Größe: 1 „MiB“
END
keep=store check 0 cairn groups <<'END'
GROUP      SNAPSHOTS  UNFINISHED  LATEST                OWNER
ct/200             1           0  2026-07-15T08:32:00Z  root@pam
host/elsa          1           0  2026-07-15T08:31:00Z  backup@pbs!client-1
vm/100             2           0  2026-07-15T08:30:00Z  root@pam
vm/101             0           1  -                     root@pam!token1
END
keep=store check 0 cairn files vm/100/2026-07-14T08:30:00Z <<'END'
ARCHIVE             FILE                          SIZE    BYTES  ENCRYPTION  CHECKSUM
drive-scsi0.img     drive-scsi0.img.fidx     332.1 KiB   340025  none        DIGEST
drive-efidisk0.img  drive-efidisk0.img.fidx  8.001 MiB  8389842  none        DIGEST
qemu-server.conf    qemu-server.conf.blob         35 B       35  none        DIGEST
END
keep=store check 0 cairn files ct/200/latest <<'END'
ARCHIVE    FILE                 SIZE   BYTES  ENCRYPTION  CHECKSUM
root.pxar  root.pxar.didx  175.8 KiB  180065  encrypt     DIGEST
pct.conf   pct.conf.blob        77 B      77  encrypt     DIGEST
fw.conf    fw.conf.blob         45 B      45  encrypt     DIGEST
END
keep=store check 0 cairn note vm/100/2026-07-14T08:30:00Z <<'END'
first full backup
END
also='s/(file system: ).*/\1FIGURES/' keep=store check 0 cairn status <<'END'
datastore:   DIR/store
file system: FIGURES
snapshots:   7 in 6 groups of 3 namespaces, 1 unfinished, newest of 2026-07-16T10:00:00Z
gc:          never ended here
verify:      never ran here
END
keep=store check 0 cairn gc status <<'END'
no garbage collection has ended here
END

# Read once, the files have access times that a second reading leaves alone.
find store -type f -exec cat {} + >/dev/null

# Each archive that is not encrypted comes back; of the others that is said.
python3 described.py >described
freeze store
plain=0
while read -r ns snapshot file mode sha256; do
	[ "$ns" != - ] || ns=
	run cairn -q --ns "$ns" cat "$snapshot" "$file"
	if [ "$mode" = encrypt ]; then
		[ "$code" -eq 1 ] || fail "$snapshot $file: exit code $code"
		grep -q encrypted "$err" || fail "$(cat "$err")"
		[ ! -s "$out" ] || fail "$snapshot $file: something was written"
	else
		[ "$code" -eq 0 ] || fail "$snapshot $file: $(cat "$err")"
		[ "$(sha256sum <"$out")" = "$sha256  -" ] ||
			fail "$snapshot $file: another content"
		plain=$((plain + 1))
	fi
done <described
[ "$plain" -ge 8 ] || fail "only $plain archives were compared"
for file in $(find store -name '*.blob' -o -name '*.?idx') \
	$(find store/.chunks -type f -name '????????????????????????????????????????????????????????????????'); do
	ok cairn inspect "$file"
done
frozen store

# What a collection would do, with the garbage as old as described.
python3 -c '
import json
d = json.load(open("pbs-store.json"))["garbage"]
for c in d["old"]:
    print("store/.chunks/%s/%s" % (c["digest"][:4], c["digest"]))
for p in d["bad"] + d["tmp"]:
    print("store/" + p)' >garbage
xargs touch -a -d '3 days ago' <garbage
keep=store check 0 cairn gc --dry-run <<'END'
would remove:  2 chunks, 7.608 KiB
pending:       1 chunk, 2.252 KiB
               kept by the safety margin until TIME
in use:        28 chunks, 256.8 KiB
referenced by: 12 index files, 13.64 MiB
deduplication: 54.38
bad:           1 would be removed, 0 kept of the chunk files that are bad
to free the pending 2.252 KiB now: cairn gc --cutoff 0
END
[ ! -e store/.cairn ] || fail "somebody made '.cairn'"

# Removing needs no .cairn either.
cp -a store pruned
export CAIRN_DATASTORE=$PWD/pruned
check 1 cairn forget vm/100/2026-07-15T08:30:00Z <<'END'
! cairn: snapshot 'vm/100/2026-07-15T08:30:00Z' is protected; 'cairn unprotect' lifts that
END
check 0 cairn unprotect vm/100/2026-07-15T08:30:00Z <<'END'
unprotected vm/100/2026-07-15T08:30:00Z
END
check 0 cairn forget vm/100/2026-07-15T08:30:00Z ct/200/latest \
	vm/101/2026-07-16T00:00:00Z <<'END'
forgot vm/100/2026-07-15T08:30:00Z
forgot ct/200/2026-07-15T08:32:00Z
forgot vm/101/2026-07-16T00:00:00Z
END
check 0 cairn --ns prod/db note host/db1/latest 'ours' </dev/null
[ ! -e pruned/.cairn ] || fail "forget made '.cairn'"
[ ! -e pruned/ct/200 ] || fail "an empty group is left"
sound pruned
also='s/(free space: +).*/\1FIGURES/' check 0 cairn gc <<'END'
removed:       2 chunks, 7.608 KiB
pending:       8 chunks, 54 KiB
               kept by the safety margin until TIME
in use:        21 chunks, 205.1 KiB
referenced by: 9 index files, 13.02 MiB
deduplication: 65.01
bad:           1 removed, 0 kept of the chunk files that are bad
free space:    FIGURES
to free the pending 54 KiB now: cairn gc --cutoff 0
END
[ -e pruned/.cairn ] || fail "gc made no '.cairn'"
sound pruned
ok cairn verify

# Verify reads all, encrypted chunks included, and leaves signed parts alone.
cp -a store verified
export CAIRN_DATASTORE=$PWD/verified
check 0 cairn verify <<'END'
verified 7 snapshots: 27 chunks, 250.2 KiB read
passed over: 1 unfinished (without a manifest; 'cairn list --all' names it)
no damage found
END
cat >manifests.py <<'END'
import json, os, subprocess, sys
for dir, _, names in sorted(os.walk(sys.argv[1])):
    if "index.json.blob" in names:
        raw = open(os.path.join(dir, "index.json.blob"), "rb").read()
        text = raw[12:]
        if raw[:8].hex() == "31b958426fb6a37f":
            text = subprocess.run(["zstd", "-dcq"], input=text, check=True,
                                  stdout=subprocess.PIPE).stdout
        d = json.loads(text)
        u = d.pop("unprotected", {})
        u.pop("verify_state", None)
        print(json.dumps([d, u], sort_keys=True))
END
python3 manifests.py store >before
python3 manifests.py verified >after
cmp before after
sound verified

# A backup into it, and one of cairn's beside PBS's in one group.
export CAIRN_DATASTORE=$PWD/store
data a 300000
check 0 cairn push --time 2026-07-20T00:00:00Z --chunk-size 64K vm/100 \
	drive-scsi0.img=a <<'END'
vm/100/2026-07-20T00:00:00Z
  drive-scsi0.img: 293 KiB in 5 chunks
  new: 5 of 5 chunks, 293 KiB, stored as 293 KiB
END
check 1 cairn push --time 2026-07-14T08:30:00Z vm/100 x.raw=a <<'END'
! cairn: snapshot 'vm/100/2026-07-14T08:30:00Z' is already there
END
ok cairn cat vm/100/latest drive-scsi0.img
cmp "$out" a
json store/.cairn/format >/dev/null
find store -path '*/vm/100/2026-07-20T00:00:00Z/*' -printf '%P %m\n' -o \
	-path store/.cairn -printf '%P %m\n' | sort >"$out"
: >"$err"
code=0
expect 0 <<'END'
.cairn 755
vm/100/2026-07-20T00:00:00Z/drive-scsi0.img.fidx 644
vm/100/2026-07-20T00:00:00Z/index.json.blob 644
END
sound store
old store
ok cairn gc
[ "$(python3 "$reader" garbage store | wc -l)" -eq 0 ] || fail "garbage is left"
ok cairn verify
sound store

# Each defect of the broken ones is found and named; a reader makes nothing.
tar -xpzf "$here/../golden/pbs-bad.tar.gz"
while IFS=$'\t' read -r name path _; do
	export CAIRN_DATASTORE=$PWD/pbs-bad/$name
	! python3 "$reader" check "$CAIRN_DATASTORE" >/dev/null ||
		fail "$name: the reader is blind"
	keep=$CAIRN_DATASTORE run cairn -q list
	said="$name: list $code"
	keep=$CAIRN_DATASTORE run cairn -q gc --dry-run
	said="$said, gc $code"
	run cairn -q verify
	said="$said, verify $code"
	printf '%s\n' "$said" >>said
	! grep -q Sanitizer "$err" || fail "$(cat "$err")"
	grep -qF "$(basename "$path")" "$err" || fail "$name: $(cat "$err")"
done <pbs-bad/EXPECT.tsv
mv said "$out"
: >"$err"
code=0
expect 0 <<'END'
fidx-10-bytes: list 0, gc 1, verify 4
fidx-header-only: list 0, gc 1, verify 4
fidx-byte-short: list 0, gc 1, verify 4
fidx-byte-long: list 0, gc 1, verify 4
fidx-magic: list 0, gc 1, verify 4
fidx-csum: list 0, gc 1, verify 4
didx-partial-entry: list 0, gc 1, verify 4
didx-csum: list 0, gc 1, verify 4
fidx-size-mismatch: list 0, gc 1, verify 4
fidx-size-zero: list 0, gc 1, verify 4
fidx-chunk-size: list 0, gc 1, verify 4
fidx-size-2p63: list 4, gc 1, verify 4
didx-decreasing: list 0, gc 1, verify 4
blob-crc: list 0, gc 0, verify 4
chunk-crc: list 0, gc 0, verify 4
chunk-content: list 0, gc 0, verify 4
chunk-empty: list 0, gc 0, verify 4
chunk-bomb: list 0, gc 0, verify 4
chunk-missing: list 0, gc 3, verify 4
manifest-not-json: list 4, gc 0, verify 4
manifest-missing-file: list 0, gc 0, verify 4
manifest-other-snapshot: list 4, gc 0, verify 4
manifest-dotdot: list 4, gc 0, verify 4
manifest-csum: list 0, gc 0, verify 4
manifest-crypt-mode: list 0, gc 0, verify 4
index-unlisted: list 0, gc 0, verify 4
group-symlink: list 4, gc 1, verify 4
END
