#!/usr/bin/env bash
# --json: each command prints what etc/doc/json.md says, and nothing else.
. "$(dirname "$0")/lib.sh"
document=$here/../../etc/doc/json.md

n=0
# prints SECTION COMMAND...: and compares; events are kept for the end.
declare -A files
prints() {
	local section=$1
	shift
	n=$((n + 1))
	code=0
	"$@" >"json.$n" 2>>events || code=$?
	[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || [ "$code" -eq 4 ] ||
		fail "$*: exit code $code"
	files[$section]+=" json.$n"
}

prints init cairn --json init store
export CAIRN_DATASTORE=$PWD/store
mkdir -p tree/sub
echo one >tree/file
ln tree/file tree/name
ln -s file tree/link
mkfifo tree/fifo
head -c 300000 /dev/urandom >tree/big
cp tree/big tree/sub/same
tar cf tree.tar tree
head -c 3000000 /dev/urandom >image
prints push cairn --json push --note text --time 2026-11-30T12:00:00Z host/a \
	root.tree=tree root2.tar=tree.tar disk.img=image s.raw=image c.conf=tree/file
prints push cairn --json push --dry-run host/a c.conf=tree/file
echo two >>tree/file
mv tree/big tree/moved
rm tree/fifo
prints push cairn --json push --time 2026-11-30T13:00:00Z host/a root.tree=tree
prints list cairn --json list
prints list cairn --json list --all
prints groups cairn --json groups
prints files cairn --json files host/a/latest
prints ls cairn --json ls host/a/latest root.tree
prints ls cairn --json ls -R host/a/2026-11-30T12:00:00Z root.tree
prints ls cairn --json find host/a/latest '*'
prints du cairn --json du host/a/latest root.tree
prints diff cairn --json diff host/a/2026-11-30T12:00:00Z host/a/latest
prints diff cairn --json diff host/a/2026-11-30T12:00:00Z host/a/latest root.tree
prints restore cairn --json restore host/a/latest root.tree out
prints restore cairn --json restore host/a/latest root.tree out
prints restore cairn --json restore host/a/2026-11-30T12:00:00Z disk.img image.out
prints namespaces cairn --json namespaces
prints 'forget --dry-run' cairn --json forget --dry-run host/a/latest
prints prune cairn --json prune --keep-last 1 --dry-run
prints note cairn --json note host/a/latest
prints note cairn --json note host/a/latest 'another text'
prints forget cairn --json protect host/a/latest
prints forget cairn --json unprotect host/a/latest
prints status cairn --json status
prints gc cairn --json gc --dry-run
prints gc cairn --json gc
prints status cairn --json status
prints 'gc status' cairn --json gc status
prints 'index status' cairn --json index status
prints 'index status' cairn --json index rebuild
prints 'index check' cairn --json index check --files
prints inspect cairn --json inspect store/host/a/2026-11-30T13:00:00Z/index.json.blob
prints inspect cairn --json inspect store/host/a/2026-11-30T13:00:00Z/root.tree.didx
prints inspect cairn --json inspect store/host/a/2026-11-30T12:00:00Z/disk.img.fidx
chunk=$(find store/.chunks -type f -size +100k | sort | head -n 1)
prints inspect cairn --json inspect "$chunk"
prints verify cairn --json verify
rm "$chunk"
prints verify cairn --json verify
prints gc cairn --json gc
prints forget cairn --json forget host/a/2026-11-30T12:00:00Z
prints prune cairn --json prune --keep-daily 1 --keep-within 1d
prints gc cairn --json gc --cutoff 0
prints history cairn --json history
run=$(cairn --json history --kind gc --limit 1 | sed -n 's/.*"run":\([0-9]*\).*/\1/p')
prints 'history RUN' cairn --json history "$run"
prints 'history RUN' cairn --json history "$((run - 1))"
prints 'history RUN --digests' cairn --json history "$run" --digests
prints version cairn --json version
cairn --json list host/none 2>>events && fail "a group that is none"
files[Events]=events

bad=0
for section in "${!files[@]}"; do
	# shellcheck disable=SC2086
	python3 "$here/jsondoc.py" "$document" "$section" ${files[$section]} ||
		bad=1
done
# Every section was looked at.
sed -n 's/^## //p' "$document" | while read -r section; do
	[ "$section" = 'Names of a snapshot' ] ||
		[ -n "${files[$section]-}" ] || fail "nothing prints '$section'"
done
[ "$bad" -eq 0 ] || fail "see above"
