#!/usr/bin/env bash
# The manual: a page for each command, with exactly the options it has.
. "$(dirname "$0")/lib.sh"
man=$here/../../etc/man

# options_of TEXT: "--name ARG" of each option that help shows, sorted.
options_of() {
	sed -n "/^$1:/,/^\$/p" "$out" |
		sed -nE 's/^  (-., |    )(--[a-z-]+)( ([^ ]+))?.*/\2 \4/p' |
		sed 's/ $//' | sort
}
# documented PAGE: the same of a page.
documented() {
	sed -nE 's/^\.It (Fl [A-Za-z0-9] , )?Fl -([a-z-]+)( Ar (.+))?$/--\2 \4/p' "$1" |
		sed 's/ $//' | sort
}

ok cairn help
cp "$out" overview
options_of 'global options' >global
[ "$(wc -l <global)" -ge 5 ] || fail "no global options"
documented "$man/cairn.1" | diff global - || fail "cairn.1: other options"
mapfile -t commands < <(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' overview)
[ ${#commands[@]} -ge 16 ] || fail "only ${#commands[*]}"
for command in "${commands[@]}"; do
	case $command in
	help | version)
		grep -q "Cm $command" "$man/cairn.1" ||
			fail "cairn.1 does not tell of $command"
		continue
		;;
	esac
	page=$man/cairn-$command.1
	[ -e "$page" ] || fail "no page for $command"
	grep -q "^.Xr cairn-$command 1" "$man/cairn.1" ||
		fail "cairn.1 does not refer to $command"
	ok cairn help "$command"
	options_of options >has
	documented "$page" | diff has - || fail "$page: other options"
	# Each is in the synopsis, too.
	while read -r option _; do
		sed -n '/^\.Sh SYN/,/^\.Sh DES/p' "$page" |
			grep -qE "Fl -${option#--}( |\$)" ||
			fail "$page: no $option in the synopsis"
	done <has
	# The summary is the table's.
	summary=$(sed -n "s/^  $command  *//p" overview)
	grep -qxF ".Nd $summary" "$page" || fail "$page: not '$summary'"
done
# And none for what is no command.
for page in "$man"/cairn-*.1; do
	name=${page##*/cairn-}
	cairn help "${name%.1}" >/dev/null || fail "$page: no such command"
done

# cairn.conf(5): every key that the sample has, and no other.
sed -nE 's/^#?([a-z-]+) = .*/\1/p' "$here/../../etc/conf/cairn.conf" | sort -u >keys
sed -nE 's/^\.It Ic ([a-z-]+)( .*)?$/\1/p' "$man/cairn.conf.5" | sort -u |
	diff keys - || fail "cairn.conf.5: other keys"

if command -v mandoc >/dev/null; then
	(cd "$man" && mandoc -T lint -W style -- *.1 *.5) || fail "mandoc"
else
	echo "mandoc is not installed: not linted"
fi
