#!/usr/bin/env bash
# What the shells offer, asked from the shells themselves.
. "$(dirname "$0")/lib.sh"

ok cairn init store
echo data >file
ok cairn -d ./store push --time 2026-11-30T12:00:00Z host/web1 f.raw=file
mkdir tree
ok cairn -d ./store push --time 2026-11-30T13:00:00Z vm/7 f.raw=file t.tree=tree

for shell in bash zsh fish; do
	ok cairn completion "$shell"
	cp "$out" "$shell"
done
check 2 cairn completion tcsh <<'END'
! cairn: no completion for 'tcsh'; want bash, zsh or fish
END

# offers LINE: what bash offers behind it, sorted.
cat >offer.sh <<'END'
. ./bash
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_LINE=$1 COMP_POINT=${#1}
_cairn
printf '%s\n' "${COMPREPLY[@]}"
END
offers() { bash offer.sh "$1" | sort; }
check 0 offers 'cairn pus' <<'END'
push
END
check 0 offers 'cairn gc --d' <<'END'
--datastore
--dry-run
END
check 0 offers 'cairn push --sync-level ' <<'END'
file
filesystem
none
END
check 0 offers 'cairn push --sync-level=f' <<'END'
file
filesystem
END
check 0 offers 'cairn gc s' <<'END'
status
END
check 0 offers 'cairn -d ./store files ' <<'END'
host/web1/TIME
host/web1/latest
vm/7/TIME
vm/7/latest
END
# The names of the config file, which --config may name.
printf '[datastore "one"]\npath = %s/store\n  [datastore "two"]\npath = /two\n' "$PWD" >conf
check 0 offers 'cairn -d ' <<'END'
main
END
check 0 offers 'cairn --config ./conf -d ' <<'END'
one
two
END
check 0 offers 'cairn --config=./conf gc --datastore=t' <<'END'
two
END
check 0 offers 'cairn --config ./nowhere -d ' <<'END'

END
ok cairn --config ./conf -d one list
# Behind the last colon, as readline wants it.
check 0 offers 'cairn --datastore=./store files vm/7/2026-11-30T13:' <<'END'
00:00Z
END
check 0 offers 'cairn -d ./store push v' <<'END'
vm/7
END
# Archives, by the names that are typed.
check 0 offers 'cairn -d ./store restore vm/7/latest ' <<'END'
f.raw
t.tree
END
check 0 offers 'cairn -d ./store ls vm/7/latest t' <<'END'
t.tree
END
# No datastore: nothing, and no noise.
check 0 offers 'cairn -d ./nowhere files ' <<'END'

END

# Every command and every option of it is in each script.
ok cairn help
mapfile -t commands < <(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$out")
for command in "${commands[@]}"; do
	offers "cairn $command" >offered
	grep -qx -- "$command" offered || fail "bash does not know $command"
	offers "cairn $command --" >offered
	ok cairn help "$command"
	sed -n 's/^  .*\(--[a-z-]*\).*/\1/p' "$out" | while read -r option; do
		grep -qx -- "$option" offered ||
			fail "bash does not know $command $option"
		grep -q -- "-l ${option#--} " fish ||
			fail "fish does not know $command $option"
	done
done

if command -v fish >/dev/null; then
	in_fish() { fish -N -c "source fish; complete -C '$1'" | cut -f 1 | sort; }
	check 0 in_fish 'cairn pus' <<'END'
push
END
	check 0 in_fish 'cairn -d ./store files ' <<'END'
host/web1/TIME
host/web1/latest
vm/7/TIME
vm/7/latest
END
	check 0 in_fish 'cairn -d ./store ls vm/7/latest t' <<'END'
t.tree
END
	check 0 in_fish 'cairn -d ' <<'END'
main
store/
tree/
END
	check 0 in_fish 'cairn --config ./conf --datastore o' <<'END'
one
END
	check 0 in_fish 'cairn push --sync-level ' <<'END'
file
filesystem
none
END
else
	echo "fish is not installed: not tried"
fi

if command -v zsh >/dev/null; then
	in_zsh() {
		zsh -f -c '
			compdef() { :; }
			compadd() { shift; print -l -- "$@" }
			_files() { print files }
			. ./zsh
			words=("$@") CURRENT=$#
			_cairn' - "$@" | sort
	}
	check 0 in_zsh cairn push --sync-level '' <<'END'
file
filesystem
none
END
	check 0 in_zsh cairn --config ./conf -d '' <<'END'
files
one
two
END
	check 0 in_zsh cairn -d ./store files '' <<'END'
host/web1/TIME
host/web1/latest
vm/7/TIME
vm/7/latest
END
	check 0 in_zsh cairn -d ./store ls vm/7/latest '' <<'END'
f.raw
t.tree
END
	check 0 in_zsh cairn inspect '' <<'END'
files
END
else
	echo "zsh is not installed: not tried"
fi
