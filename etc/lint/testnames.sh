#!/usr/bin/env bash
# testnames: what README.md and gc-safety.md say is tested, is: each test they
# name is there and known to ctest, each case stands in it, each mutant has its
# patch and each patch its line.  And what any document links to or names by its path is there.
. "$(dirname "$0")/lib.sh"

# ticked FILE: what stands between backticks, one a line, a line's end in it
# being a blank.
# shellcheck disable=SC2016
ticked() { tr '\n' ' ' <"$1" | grep -oE '`[^`]+`' | tr -d '`' | tr -s ' ' || true; }

# source_of TEST: the file that ctest runs, or what it is made from.
source_of() {
	case $1 in
	test_*) set -- "tests/unit/$1.c" ;;
	e2e_*) set -- "tests/e2e/${1#e2e_}.sh" ;;
	lint_*) set -- "etc/lint/${1#lint_}.sh" ;;
	golden_*) set -- "tests/golden/test_${1#golden_}.c" ;;
	crash_*) set -- "tests/crash/$1.c" "tests/crash/${1#crash_}.sh" ;;
	*) set -- "tests/${1%%_*}/$1.c" ;;
	esac
	list "$@"
}

check_test() { # DOCUMENT TEST CASE...
	local document=$1 name=$2 file word least=1
	shift 2
	file=$(source_of "$name")
	[ -n "$file" ] || {
		complain "$document: no such test: $name"
		return
	}
	[ ! -e CMakeLists.txt ] ||
		grep -qwE "$name|${name#*_}" CMakeLists.txt etc/cmake/*.cmake ||
		complain "$document: ctest does not know $name"
	# a function that nobody calls does not count
	case $file in *.c) least=2 ;; esac
	for word; do
		[ "$(grep -ow -- "$word" "$file" | wc -l)" -ge "$least" ] ||
			complain "$document: no case '$word' in $name"
	done
}

kinds='test|race|torture|crash|e2e|golden|fuzz|lint'
# shellcheck disable=SC2016
for document in README.md etc/doc/gc-safety.md; do
	[ -e "$document" ] || continue
	while IFS= read -r words; do
		# shellcheck disable=SC2086
		check_test "$document" ${words//[:,]/ }
	done < <(ticked "$document" |
		grep -E "^($kinds)_[a-z0-9_]+(: [a-z0-9_, ]+)?\$" || true)
	while IFS= read -r mutant; do
		[ -e "tests/mutants/$mutant.patch" ] ||
			complain "$document: no such mutant: $mutant"
	done < <(tr '\n' ' ' <"$document" |
		grep -oE 'mutants? (`[a-z0-9_]+`(, | and )?)+' |
		grep -oE '`[^`]+`' | tr -d '`')
done

while IFS= read -r patch; do
	mutant=$(basename "$patch" .patch)
	grep -qs "mutant \`$mutant\`" etc/doc/gc-safety.md ||
		complain "etc/doc/gc-safety.md: does not name the mutant $mutant"
done < <(list 'tests/mutants/*.patch')

while IFS= read -r document; do
	while IFS= read -r path; do
		[ -e "$path" ] || [ -e "${document%/*}/$path" ] ||
			complain "$document: no such file: $path"
	done < <(
		grep -oE '\]\([^)#: ]+\)' "$document" | tr -d '])(' || true
		ticked "$document" |
			grep -E '^(\./etc/[a-z]+|(tests|etc|datastore|index|gc|cli)/[a-z0-9_./-]+\.[a-z0-9]+)$' || true
	)
done < <(list README.md 'etc/doc/*.md' 'tests/*.md')
verdict
