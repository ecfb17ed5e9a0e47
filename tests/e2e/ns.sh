#!/usr/bin/env bash
# Namespaces: the same ids in each, chunks shared by all.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
data a 500000
data b 500000
ok cairn push --time 2001-01-01T00:00:00Z vm/100 a.img=a
check 0 cairn --ns prod push --time 2001-01-01T00:00:00Z vm/100 a.img=a <<'END'
[prod] vm/100/2001-01-01T00:00:00Z
  a.img: 488.3 KiB in 1 chunk
  new: 0 of 1 chunk, 0 B, stored as 0 B
! cairn: new namespace 'prod'
END
check 0 cairn --ns prod/db push --time 2001-01-02T00:00:00Z host/db1 b.img=b <<'END'
[prod/db] host/db1/2001-01-02T00:00:00Z
  b.img: 488.3 KiB in 1 chunk
  new: 1 of 1 chunk, 488.3 KiB, stored as 488.3 KiB
! cairn: new namespace 'prod/db'
END
find store -name '*.fidx' | sort >"$out"
: >"$err"
code=0
expect 0 <<'END'
store/ns/prod/ns/db/host/db1/2001-01-02T00:00:00Z/b.img.fidx
store/ns/prod/vm/100/2001-01-01T00:00:00Z/a.img.fidx
store/vm/100/2001-01-01T00:00:00Z/a.img.fidx
END

check 0 cairn list <<'END'
SNAPSHOT                          SIZE  FILES  VERIFIED  PROTECTED  NOTE
vm/100/2001-01-01T00:00:00Z  488.3 KiB      1  -         -
END
check 0 cairn --ns prod list <<'END'
SNAPSHOT                                 SIZE  FILES  VERIFIED  PROTECTED  NOTE
[prod] vm/100/2001-01-01T00:00:00Z  488.3 KiB      1  -         -
END
check 0 cairn --ns prod/db groups <<'END'
GROUP               SNAPSHOTS  UNFINISHED  LATEST                OWNER
[prod/db] host/db1          1           0  2001-01-02T00:00:00Z  root@pam
END
check 1 cairn --ns prod/none list <<'END'
! cairn: namespace 'prod/none' does not exist; there is: prod, prod/db
END
check 1 cairn --ns prod list host/db1 <<'END'
! cairn: group '[prod] host/db1' does not exist; it is in namespace 'prod/db': --ns prod/db
END
check 0 cairn --ns prod/db files host/db1/latest <<'END'
ARCHIVE  FILE             SIZE   BYTES  ENCRYPTION  CHECKSUM
b.img    b.img.fidx  488.3 KiB  500000  none        DIGEST
END
ok cairn --ns prod/db cat host/db1/latest b.img
cmp "$out" b
ok cairn --ns prod restore vm/100/latest a.img restored
cmp restored a
run cairn --json --ns prod/db list
json "$out" '[s["namespace"] for s in d]' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
['prod/db']
END
also='s/(file system: ).*/\1FIGURES/'
check 0 cairn status <<'END'
datastore:   DIR/store
file system: FIGURES
snapshots:   3 in 3 groups of 3 namespaces, newest of 2001-01-02T00:00:00Z
gc:          never ended here
verify:      never ran here
END
also=

# Verify: all, or one of them.
check 0 cairn verify <<'END'
verified 3 snapshots: 2 chunks, 976.6 KiB read
no damage found
END
check 0 cairn --ns prod verify <<'END'
verified 1 snapshot: 1 chunk, 488.3 KiB read
no damage found
END
check 0 cairn --ns prod/db verify host/db1 <<'END'
verified 1 snapshot: 1 chunk, 488.3 KiB read
no damage found
END

# Names, and how deep.
deep=a/b/c/d/e/f/g
ok cairn --ns $deep push --time 2001-01-01T00:00:00Z host/x b.img=b
check 2 cairn --ns $deep/h push host/x b.img=b <<'END'
! cairn: --ns: namespace 'a/b/c/d/e/f/g/h': 8 levels, want at most 7
END
check 2 cairn --ns ../x push host/x b.img=b <<'END'
! cairn: --ns: namespace '../x': want names of letters, digits and ._- with / between them
END
check 2 cairn --ns /prod list <<'END'
! cairn: --ns: namespace '/prod': want names of letters, digits and ._- with / between them
END
check 2 cairn --ns "$(printf '%0260d/x' 0 | tr 0 y)" list <<'END'
! cairn: --ns: namespace 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...': 262 characters, want at most 256
END

# GC sees all of them; forget only the one that is named.
old store
check 0 cairn forget vm/100/latest <<'END'
forgot vm/100/2001-01-01T00:00:00Z
END
ok cairn --ns prod list
grep -q vm/100 "$out" || fail "gone from another namespace"
ok cairn gc
[ "$(python3 "$reader" garbage store | wc -l)" -eq 0 ] || fail "garbage"
ok cairn --ns prod cat vm/100/latest a.img
cmp "$out" a
check 0 cairn --ns prod forget vm/100/latest <<'END'
forgot [prod] vm/100/2001-01-01T00:00:00Z
END
old store
ok cairn gc
grep -q '^removed:  *[1-9]' "$out" || fail "nothing was removed"
ok cairn verify
sound store
