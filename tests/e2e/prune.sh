#!/usr/bin/env bash
# What a policy keeps, and why; what a removal would free; namespaces.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
push() { # GROUP TIME FILE
	ok cairn -q push --chunk-size 64K --time "$2" "$1" a.raw="$3"
}
# Each of 3 MiB has its own chunks, and some that all have.
data common $MIB
for i in 1 2 3 4 5 6; do
	data own $((2 * MIB)) $i
	cat own common >f$i
done

# How well manifests compress is none of our business.
also='s/[0-9.]+ [KMG]?i?B (of index files)/OWN \1/'

# Nothing is removed by mistake.
push host/a 2001-01-01T12:00:00Z f1
push host/a 2001-01-02T06:00:00Z f2
push host/a 2001-01-02T12:00:00Z f2
push host/a 2001-01-03T12:00:00Z f3
keep=store check 2 cairn prune <<'END'
! cairn: no --keep-... option, and no key keep-... in the config file: what is to be kept? 'cairn help prune' lists them
END
keep=store check 2 cairn prune --keep-last -1 <<'END'
! cairn: --keep-last: '-1' is no whole number between 0 and 4294967295
END
keep=store check 2 cairn prune --keep-daily=3d <<'END'
! cairn: --keep-daily: '3d' is no whole number between 0 and 4294967295
END
keep=store check 2 cairn prune --keep-within=2months <<'END'
! cairn: --keep-within: '2months' is no duration, want seconds or a sum like 1w2d3h4m5s
END
keep=store check 2 cairn prune --keep-minutely=1 <<'END'
! cairn: 'prune' has no option '--keep-minutely=1'; 'cairn help prune' lists them
END
keep=store check 2 cairn prune a --keep-last 1 <<'END'
! cairn: group 'a': want a type of ct, host or vm, a slash and an id
END
keep=store check 1 cairn prune host/none --keep-last 1 <<'END'
! cairn: policy: keep-last 1; time zone UTC
! cairn: group 'host/none' does not exist; there is: host/a
END
check 1 cairn prune --keep-last 0 <<'END'
SNAPSHOT                     ACTION  REASON
host/a/2001-01-01T12:00:00Z  left    no rule keeps it
host/a/2001-01-02T06:00:00Z  left    no rule keeps it
host/a/2001-01-02T12:00:00Z  left    no rule keeps it
host/a/2001-01-03T12:00:00Z  left    no rule keeps it
removed 0 of 4 snapshots
! cairn: policy: keep-last 0; time zone UTC
! cairn: group 'host/a': no finished snapshot would be left, so nothing is removed; --allow-empty allows it
END

# garbage: how many chunks and bytes a collection would remove.
old store
garbage() {
	ok cairn --json gc --dry-run
	json "$out" '"%d %d" % (d["removed-chunks"], d["removed-bytes"])'
}
[ "$(garbage)" = "0 0" ] || fail "garbage: $(garbage)"

# What would go, why, and what it holds that nothing else does.
keep=store check 0 cairn prune --keep-daily 2 --dry-run <<'END'
SNAPSHOT                     ACTION  REASON
host/a/2001-01-01T12:00:00Z  remove  no rule keeps it
host/a/2001-01-02T06:00:00Z  remove  keep-daily 2001-01-02 has a newer one
host/a/2001-01-02T12:00:00Z  keep    keep-daily 2001-01-02
host/a/2001-01-03T12:00:00Z  keep    keep-daily 2001-01-03
would remove 2 of 4 snapshots
exactly 30 chunks, 2.064 MiB, would become garbage; OWN of index files and the like would go at once
! cairn: policy: keep-daily 2; time zone UTC
END
run cairn --json prune --keep-daily 2 --dry-run
events "$err"
would=$(json "$out" '"%d %d" % (d["garbage"]["chunks"], d["garbage"]["bytes"])')
json "$out" '[d["dry-run"], d["policy"], d["time-zone"], d["snapshots"],
	d["removed"], d["garbage"]["precision"], d["groups"][0]["backup-id"],
	d["groups"][0]["refused"]] + [[s["time"][8:10], s["keep"], s["reason"],
	s["rule"], s["period"], s["action"]] for s in d["groups"][0]["snapshots"]]' |
	tr -d ' ' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
[True,{'keep-daily':2},'UTC',4,2,'exactly','a',False,['01',False,'no-rule',None,None,'remove'],['02',False,'covered','keep-daily','2001-01-02','remove'],['02',True,'rule','keep-daily','2001-01-02','keep'],['03',True,'rule','keep-daily','2001-01-03','keep']]
! {"event":"message","level":"note","text":"policy: keep-daily 2; time zone UTC"}
END
own=$(find store/host/a/2001-01-01T12:00:00Z store/host/a/2001-01-02T06:00:00Z \
	-type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
run cairn --json forget --dry-run host/a/2001-01-01T12:00:00Z \
	host/a/2001-01-02T06:00:00Z
json "$out" '[d["dry-run"], [s["time"] for s in d["snapshots"]],
	d["garbage"]["own-bytes"], "%d %d" % (d["garbage"]["chunks"],
	d["garbage"]["bytes"])]' >"$out.1"
mv "$out.1" "$out"
expect 0 <<END
[True, ['2001-01-01T12:00:00Z', '2001-01-02T06:00:00Z'], $own, '$would']
END
keep=store check 0 cairn forget --dry-run host/a/2001-01-01T12:00:00Z \
	host/a/2001-01-02T06:00:00Z host/a/2001-01-01T12:00:00Z <<'END'
would forget host/a/2001-01-01T12:00:00Z
would forget host/a/2001-01-02T06:00:00Z
exactly 30 chunks, 2.064 MiB, would become garbage; OWN of index files and the like would go at once
END
keep=store check 0 cairn forget --dry-run host/a/2001-01-02T06:00:00Z <<'END'
would forget host/a/2001-01-02T06:00:00Z
exactly 0 chunks, 0 B, would become garbage; OWN of index files and the like would go at once
END
check 0 cairn prune --keep-daily 2 <<'END'
SNAPSHOT                     ACTION   REASON
host/a/2001-01-01T12:00:00Z  removed  no rule keeps it
host/a/2001-01-02T06:00:00Z  removed  keep-daily 2001-01-02 has a newer one
host/a/2001-01-02T12:00:00Z  kept     keep-daily 2001-01-02
host/a/2001-01-03T12:00:00Z  kept     keep-daily 2001-01-03
removed 2 of 4 snapshots
! cairn: policy: keep-daily 2; time zone UTC
END
[ "$(garbage)" = "$would" ] || fail "garbage: $(garbage), want $would"
# Bounded memory: many passes, the same figure.
sed -i 's/^min-free.*/&\ngc-touch-batch = 1024/' "$CAIRN_CONFIG"
keep=store check 0 cairn -q forget --dry-run host/a/latest <<'END'
would forget host/a/2001-01-03T12:00:00Z
exactly 29 chunks, 2.206 MiB, would become garbage; OWN of index files and the like would go at once
END

# Protected, unfinished, of the future; two groups; a policy of the config file.
push host/a 2001-01-04T12:00:00Z f4
push host/a 2001-01-05T12:00:00Z f1
push host/a 9999-12-31T23:59:59Z f1
push vm/7 2001-01-01T12:00:00Z f1
mkdir -p store/host/a/2001-01-{03T13,06T00,07T00}:00:00Z
ok cairn protect host/a/2001-01-02T12:00:00Z
cat >>"$CAIRN_CONFIG" <<'END'
keep-last = 1
keep-within = 1d
END
times='(2001|9999)' keep=store check 0 cairn prune --dry-run <<'END'
SNAPSHOT                     ACTION  REASON
host/a/2001-01-02T12:00:00Z  keep    protected
host/a/2001-01-03T12:00:00Z  keep    keep-last
host/a/2001-01-03T13:00:00Z  remove  unfinished, there is a newer one
host/a/2001-01-04T12:00:00Z  keep    keep-within
host/a/2001-01-05T12:00:00Z  keep    keep-within
host/a/2001-01-06T00:00:00Z  remove  unfinished, there is a newer one
host/a/2001-01-07T00:00:00Z  keep    unfinished, the newest
host/a/9999-12-31T23:59:59Z  keep    dated in the future
vm/7/2001-01-01T12:00:00Z    keep    keep-within
would remove 2 of 9 snapshots
exactly 0 chunks, 0 B, would become garbage; OWN of index files and the like would go at once
! cairn: policy: keep-within 1d, keep-last 1; time zone UTC
END
# The command line stands for all of the config file.
times='(2001|9999)' check 0 cairn prune host/a --keep-last=1 <<'END'
SNAPSHOT                     ACTION   REASON
host/a/2001-01-02T12:00:00Z  kept     protected
host/a/2001-01-03T12:00:00Z  removed  no rule keeps it
host/a/2001-01-03T13:00:00Z  removed  unfinished, there is a newer one
host/a/2001-01-04T12:00:00Z  removed  no rule keeps it
host/a/2001-01-05T12:00:00Z  kept     keep-last
host/a/2001-01-06T00:00:00Z  removed  unfinished, there is a newer one
host/a/2001-01-07T00:00:00Z  kept     unfinished, the newest
host/a/9999-12-31T23:59:59Z  kept     dated in the future
removed 4 of 8 snapshots
! cairn: policy: keep-last 1; time zone UTC
END
# A protected one of some day is no reason to remove all others.
run cairn -q prune --keep-yearly 0 host/a
[ "$code" -eq 1 ] || fail "exit code $code"
grep -qF "group 'host/a': no finished snapshot but protected and damaged ones and those of the future would be left, so nothing is removed; --allow-empty allows it" "$err" ||
	fail "$(cat "$err")"
times='(2001|9999)' check 0 cairn -q prune --keep-yearly 0 --allow-empty host/a <<'END'
SNAPSHOT                     ACTION   REASON
host/a/2001-01-02T12:00:00Z  kept     protected
host/a/2001-01-05T12:00:00Z  removed  no rule keeps it
host/a/2001-01-07T00:00:00Z  kept     unfinished, the newest
host/a/9999-12-31T23:59:59Z  kept     dated in the future
removed 1 of 4 snapshots
END

# The last of a group goes only if that is said.
check 1 cairn -q prune vm/7 --keep-hourly 0 <<'END'
SNAPSHOT                   ACTION  REASON
vm/7/2001-01-01T12:00:00Z  left    no rule keeps it
removed 0 of 1 snapshot
! cairn: group 'vm/7': no finished snapshot would be left, so nothing is removed; --allow-empty allows it
END
check 0 cairn -q prune vm/7 --keep-hourly 0 --allow-empty <<'END'
SNAPSHOT                   ACTION   REASON
vm/7/2001-01-01T12:00:00Z  removed  no rule keeps it
removed 1 of 1 snapshot
END
[ ! -e store/vm/7 ] || fail "an empty group is left"

# One that is read, and one that can not be removed, keep no other.
push host/b 2001-01-01T12:00:00Z f1
push host/b 2001-01-02T12:00:00Z f5
push host/b 2001-01-03T12:00:00Z f3
push host/b 2001-01-04T12:00:00Z f4
mkfifo stuck
cairn -q cat host/b/2001-01-02T12:00:00Z a.raw >stuck &
pid=$!
exec 8<stuck
head -c 1000 <&8 >first
check 75 cairn prune host/b --keep-last=1 <<'END'
SNAPSHOT                     ACTION   REASON
host/b/2001-01-01T12:00:00Z  removed  no rule keeps it
host/b/2001-01-02T12:00:00Z  busy     no rule keeps it
host/b/2001-01-03T12:00:00Z  removed  no rule keeps it
host/b/2001-01-04T12:00:00Z  kept     keep-last
removed 2 of 4 snapshots
! cairn: policy: keep-last 1; time zone UTC
! cairn: snapshot 'host/b/2001-01-02T12:00:00Z' is in use: it is being written or read, or a backup is based on it; try again when that has ended
END
cat <&8 >/dev/null
exec 8<&-
wait "$pid"
mkdir store/host/b/2001-01-02T12:00:00Z/odd
push host/b 2001-01-05T12:00:00Z f6
check 1 cairn -q prune host/b --keep-last=1 <<'END'
SNAPSHOT                     ACTION   REASON
host/b/2001-01-02T12:00:00Z  failed   no rule keeps it
host/b/2001-01-04T12:00:00Z  removed  no rule keeps it
host/b/2001-01-05T12:00:00Z  kept     keep-last
removed 1 of 3 snapshots
! cairn: 'DIR/store/host/b/2001-01-02T12:00:00Z' contains a directory, want files only
END
rmdir store/host/b/2001-01-02T12:00:00Z/odd

# While a backup runs, what it may use is not known.
push_that_waits() {
	cairn -q push --chunk-size 64K host/c a.raw=- <pipe >/dev/null 2>&1 &
	pid=$!
	exec 7>pipe
	cat f5 >&7
	until_true 20 has_session
}
has_session() { [ -n "$(ls store/.cairn/sessions)" ]; }
mkfifo pipe
push_that_waits
check 0 cairn forget --dry-run host/b/2001-01-02T12:00:00Z <<'END'
would forget host/b/2001-01-02T12:00:00Z
at most 30 chunks, 2.039 MiB, would become garbage; OWN of index files and the like would go at once
! cairn: warning: a backup runs that may use some of these chunks
END
exec 7>&-
wait "$pid"
check 0 cairn forget --dry-run host/b/2001-01-02T12:00:00Z <<'END'
would forget host/b/2001-01-02T12:00:00Z
exactly 0 chunks, 0 B, would become garbage; OWN of index files and the like would go at once
END

# What can not be read.
ok cairn forget host/c/latest
cp store/host/b/2001-01-02T12:00:00Z/a.raw.didx keep
truncate -s 5000 store/host/b/2001-01-02T12:00:00Z/a.raw.didx
check 0 cairn forget --dry-run host/b/2001-01-02T12:00:00Z <<'END'
would forget host/b/2001-01-02T12:00:00Z
at least 0 chunks, 0 B, would become garbage; OWN of index files and the like would go at once
! cairn: warning: 'DIR/store/host/b/2001-01-02T12:00:00Z/a.raw.didx': 904 bytes behind the header, want a multiple of 40
END
check 0 cairn forget --dry-run host/b/latest <<'END'
would forget host/b/2001-01-05T12:00:00Z
at most 31 chunks, 2.206 MiB, would become garbage; OWN of index files and the like would go at once
! cairn: warning: 'DIR/store/host/b/2001-01-02T12:00:00Z/a.raw.didx': 904 bytes behind the header, want a multiple of 40
END
cp keep store/host/b/2001-01-02T12:00:00Z/a.raw.didx
ok cairn protect host/b/latest
keep=store check 1 cairn forget --dry-run host/b/latest \
	host/b/2001-01-02T12:00:00Z <<'END'
would forget host/b/2001-01-02T12:00:00Z
exactly 30 chunks, 2.039 MiB, would become garbage; OWN of index files and the like would go at once
! cairn: snapshot 'host/b/2001-01-05T12:00:00Z' is protected; 'cairn unprotect' lifts that
END

# A forget that was killed in the middle: whatever comes next in that group
# ends it; until then it keeps its chunks.
half() { # TIME: pushed, and forgotten by half
	push host/h "$1" f4
	echo "host/h/$1" >>store/.cairn/removed
	rm "store/host/h/$1/index.json.blob"
}
push host/h 2001-01-01T12:00:00Z f3
half 2001-01-02T12:00:00Z
keep=store check 0 cairn -q prune --dry-run host/h --keep-last 1 <<'END'
SNAPSHOT                     ACTION  REASON
host/h/2001-01-01T12:00:00Z  keep    keep-last
host/h/2001-01-02T12:00:00Z  remove  its removal was interrupted
would remove 1 of 2 snapshots
exactly 29 chunks, 2.039 MiB, would become garbage; OWN of index files and the like would go at once
END
check 0 cairn -q prune host/h --keep-last 1 <<'END'
SNAPSHOT                     ACTION   REASON
host/h/2001-01-01T12:00:00Z  kept     keep-last
host/h/2001-01-02T12:00:00Z  removed  its removal was interrupted
removed 1 of 2 snapshots
END
half 2001-01-02T12:00:00Z
check 0 cairn push --chunk-size 64K --time 2001-01-03T12:00:00Z host/h a.raw=f3 <<'END'
host/h/2001-01-03T12:00:00Z
  a.raw: 3 MiB in 40 chunks
  new: 0 of 40 chunks, 0 B, stored as 0 B
! cairn: removed the rest of 'host/h/2001-01-02T12:00:00Z', whose removal was interrupted
END
half 2001-01-04T12:00:00Z
old store
before=$(garbage)
ok cairn gc
grep -q "removed the rest of 'host/h/2001-01-04T12:00:00Z'" "$err" || fail "gc left it"
[ ! -e store/host/h/2001-01-04T12:00:00Z ] || fail "gc left it"
[ "$(sed -n 's/^removed: *\([0-9]*\) .*/\1/p' "$out")" = "${before% *}" ] ||
	fail "the dry run said $before"
half 2001-01-05T12:00:00Z
check 0 cairn forget host/h/2001-01-05T12:00:00Z <<'END'
forgot host/h/2001-01-05T12:00:00Z
END
ok cairn verify
sound store

# Namespaces.
ok cairn --ns prod/db push --time 2001-01-01T12:00:00Z host/x a.raw=f1
ok cairn --ns prod/db push --time 2001-01-02T12:00:00Z host/x a.raw=f1
check 0 cairn namespaces <<'END'
NAMESPACE  GROUPS
(root)          3
prod            0
prod/db         1
END
check 0 cairn --ns prod namespaces <<'END'
NAMESPACE  GROUPS
prod            0
prod/db         1
END
check 1 cairn --ns pro namespaces <<'END'
! cairn: namespace 'pro' does not exist; did you mean 'prod'?
END
run cairn --json --ns prod/db namespaces
json "$out" 'd == [{"namespace": "prod/db", "groups": 1}]' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
True
END
check 0 cairn -q --ns prod/db prune --keep-last 1 <<'END'
SNAPSHOT                               ACTION   REASON
[prod/db] host/x/2001-01-01T12:00:00Z  removed  no rule keeps it
[prod/db] host/x/2001-01-02T12:00:00Z  kept     keep-last
removed 1 of 2 snapshots
END
check 0 cairn -q --ns prod prune --keep-last 1 <<'END'
removed 0 of 0 snapshots
END

# A store of PBS, which stays one.
tar -xpzf "$here/../golden/pbs-store.tar.gz"
keep=pbs-store run cairn -q -d ./pbs-store prune --keep-last 1 --dry-run
sed -i '/^removed\|^would/!d' "$out"
expect 4 <<'END'
would remove 0 of 5 snapshots
! cairn: warning: 1 damaged snapshot: kept, and counted for no rule; 'cairn -d ./pbs-store verify' looks again, 'cairn -d ./pbs-store forget SNAPSHOT' removes
END
run cairn -q -d ./pbs-store prune vm/100 --keep-last 1
[ ! -e pbs-store/.cairn ] || fail "somebody made '.cairn'"

# Days and weeks are those of the datastore's zone, wherever it is run, and as
# date(1) sees them.
[ -e /usr/share/zoneinfo/Europe/Berlin ] || skip "no tzdata"
mkdir -p zones/.chunks
touch zones/.lock
python3 - <<'END'
import datetime, json, os, random, struct, zlib
r = random.Random(30)
now = int(datetime.datetime.now().timestamp()) - 86400
times = set(r.randrange(86400, now) for _ in range(400))
for change in (1774746000, 1792890000, 1325239200, 1300000000, 1173596400):
    times |= {t for t in (change + 1800 * i + r.randrange(1800)
                          for i in range(-20, 20)) if t < now}
with open("instants", "w") as f:
    for t in sorted(times):
        name = datetime.datetime.fromtimestamp(t, datetime.timezone.utc)
        path = "zones/host/z/" + name.strftime("%Y-%m-%dT%H:%M:%SZ")
        os.makedirs(path)
        text = json.dumps({"backup-type": "host", "backup-id": "z",
                           "backup-time": t, "files": [], "signature": None,
                           "unprotected": {}}).encode()
        with open(path + "/index.json.blob", "wb") as blob:
            blob.write(bytes((66, 171, 56, 7, 190, 131, 112, 161)) +
                       struct.pack("<I", zlib.crc32(text)) + text)
        print("@%d" % t, file=f)
END
for zone in Europe/Berlin Pacific/Apia Antarctica/Troll; do
	printf '[datastore "z"]\npath = %s/zones\ntime-zone = %s\n' "$PWD" \
		"$zone" >z.conf
	for rule in hourly:%Y-%m-%dT%H daily:%Y-%m-%d weekly:%G-W%V \
		monthly:%Y-%m yearly:%Y; do
		TZ=Asia/Tokyo run cairn --config z.conf --json prune --dry-run \
			"--keep-${rule%%:*}" 9999
		[ "$code" -eq 0 ] || fail "exit code $code"
		json "$out" '"\n".join(s["period"] + " " + s["action"]
			for s in d["groups"][0]["snapshots"])' >periods
		TZ=$zone date -f instants "+${rule#*:}" >dates
		sed 's/ .*//' periods | cmp - dates || fail "$zone, $rule"
		sed -n 's/ keep$//p' periods | sort |
			cmp - <(sort -u dates) || fail "$zone, $rule"
	done
done
