#!/usr/bin/env bash
# The Debian package: what is in it, and that dpkg can install it, use it, keep
# a config file that was edited, and take everything away again; in a root of
# its own.
. "$(dirname "$0")/lib.sh"
need_root
need cpack dpkg dpkg-deb dpkg-shlibdeps file gzip
build=$(dirname "$(command -v cairn)")
! grep -q '^CAIRN_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" ||
	skip "built with a sanitizer"

export SOURCE_DATE_EPOCH=1000000000
ok cpack --config "$build/CPackConfig.cmake" -B packed
set -- packed/cairn_*.deb
[ $# -eq 1 ] || fail "not one package: $*"
deb=$1

# A page for each command, beside what package.txt lists.
ok cairn help
{
	cat "$here/package.txt"
	sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$out" |
		grep -vE '^(help|version)$' |
		sed 's|.*|-rw-r--r-- root/root ./usr/share/man/man1/cairn-&.1.gz|'
} | sort -k 3 >wanted
dpkg-deb -c "$deb" | awk '{print $1, $2, $6}' | sort -k 3 | diff wanted - ||
	fail "other contents than package.txt says"

field() { dpkg-deb -f "$deb" "$1"; }
[ "$(field Package) $(field Version)" = "$(cairn version)-1" ] ||
	fail "version: $(field Version)"
for library in libarchive13 libc6 libinih1 libjansson4 libsqlite3-0 libssl3 \
	libzstd1 zlib1g; do
	field Depends | tr , '\n' | grep -qE "^ ?$library(t64)? \(>= " ||
		fail "does not depend on $library: $(field Depends)"
done

root=$PWD/root
mkdir -p root/var/lib/dpkg/updates root/var/lib/dpkg/info
touch root/var/lib/dpkg/status root/var/lib/dpkg/available
# The libraries are this machine's; its settings may leave out documents.
in_root() {
	ok dpkg --root="$root" --log="$PWD/log" --force-depends \
		--path-include='/*' "$@"
}
in_root --install "$deb"
installed=$root/usr/bin/cairn
dpkg-deb -x "$deb" unpacked
diff -r unpacked/etc root/etc
diff -r unpacked/usr root/usr
cmp "$here/../../etc/conf/cairn.conf" root/etc/cairn/cairn.conf
# What the documents link to is there.
(
	cd root/usr/share/doc/cairn
	grep -ohE '\]\([^)#]+' ./*.md | sed 's/^](//; /^https*:/d' | sort -u
) >links
[ "$(wc -l <links)" -ge 10 ] || fail "links: $(cat links)"
while read -r link; do
	[ -f "root/usr/share/doc/cairn/$link" ] || fail "link to '$link'"
done <links
gzip -dc root/usr/share/man/man1/cairn-gc.1.gz |
	cmp - "$here/../../etc/man/cairn-gc.1"
"$installed" completion zsh |
	cmp - root/usr/share/zsh/vendor-completions/_cairn

# The config file as it comes is a valid one, and names no datastore.
run "$installed" --config root/etc/cairn/cairn.conf -d main list
[ "$code" -eq 2 ] || fail "exit code $code"
grep -q "no datastore 'main'" "$err" ||
	fail "the config file is not valid: $(cat "$err")"
data file $MIB
ok "$installed" init store
ok "$installed" -d ./store push host/a file.raw=file
ok "$installed" -d ./store cat host/a/latest file.raw
cmp "$out" file

# What was edited stays, through an upgrade and a removal; not a purge.
echo '# ours' >>root/etc/cairn/cairn.conf
in_root --install "$deb"
grep -q '^# ours' root/etc/cairn/cairn.conf || fail "the edit is gone"
in_root --remove cairn
check 0 find root -path root/var -prune -o ! -type d -print <<'END'
root/etc/cairn/cairn.conf
END
in_root --purge cairn
check 0 find root -path root/var -prune -o -print <<'END'
root
END
