#!/bin/bash
# bench_gc_table.sh RESULTS: medians, spread and ratios of what bench_gc.sh ran.
set -euo pipefail
export LC_ALL=C
results=${1:?usage: bench_gc_table.sh RESULTS}

printf '%-10s %-6s %-6s %-9s %4s %9s %17s %9s %10s %9s %9s\n' row fs series variant runs \
	'median s' 'least..most' 'CPU s' reads 'MiB out' 'MiB anon'
sort -t '	' -k 1,4 "$results" | awk -F '\t' '
	function median(v, n,   i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
	}
	function show(   m, c, rd, wr, kb, lo, hi) {
		if (n == 0) return
		m = median(sec, n); lo = sec[1]; hi = sec[n]
		c = median(cpu, n); rd = median(rds, n); wr = median(out, n); kb = median(kib, n)
		printf "%-10s %-6s %-6s %-9s %4d %9.2f %8.2f..%-8.2f %8.2f %10d %9.1f %9.1f\n", p[1], p[2], p[3], p[4], n, m, lo, hi, c, rd, wr / 2048, kb / 1024
		if (notes != "") last[key] = notes
		if (calls != "") printf "%-10s   %s%s\n", "", calls, notes == "" ? "" : "; " notes
		n = 0
	}
	$1 == "floor" { next }
	{
		k = $1 FS $2 FS $3 FS $4
		if (k != key) { show(); key = k; split(k, p, FS) }
		n++
		sec[n] = $6; cpu[n] = $7; kib[n] = $8; rds[n] = $9; out[n] = $11; calls = $12; notes = $13
	}
	END { show() }'

# ratio ROW FS SERIES VARIANT AGAINST FIELD: the median of the ratios of pairs.
ratio() {
	awk -F '\t' -v r="$1" -v f="$2" -v s="$3" -v v="$4" -v a="$5" -v field="$6" '
		$1 == r && $2 == f && $3 == s && $4 == v { x[$5] = $field }
		$1 == r && $2 == f && $3 == s && $4 == a { y[$5] = $field }
		END {
			for (i in x) if (y[i] > 0) q[++n] = x[i] / y[i]
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && q[j - 1] > q[j]; j--) { t = q[j]; q[j] = q[j - 1]; q[j - 1] = t }
			if (n == 0) print "-"
			else printf "%.2f (%.2f..%.2f)", n % 2 ? q[(n + 1) / 2] : (q[n / 2] + q[n / 2 + 1]) / 2, q[1], q[n]
		}' "$results"
}

# verdict VALUE TARGET: "1.23 (1.00..1.50)" against "<=1.10".
verdict() {
	awk -v value="${1%% *}" -v target="$2" 'BEGIN {
		if (value == "-" || target == "report") exit
		sub(/^<=/, "", target)
		print value + 0 <= target + 0 ? "met" : "NOT MET"
	}'
}

printf '\nratios, median of pairs (least..most)\n'
# row, series, variant, against, field, what, targets ext4 xfs btrfs
while read -r row series variant against field what targets; do
	for fs in ext4 xfs btrfs; do
		value=$(ratio "$row" "$fs" "$series" "$variant" "$against" "$field")
		printf '%-34s %-6s %-6s %-22s want %-7s %s\n' "$what" "$fs" "$series" \
			"$value" "${targets%% *}" "$(verdict "$value" "${targets%% *}")"
		targets=${targets#* }
	done
done <<'TARGETS'
hot fresh batch ref 6 mark,hot <=1.00 <=1.00 <=1.00
hot aged batch ref 6 mark,hot <=0.85 <=1.00 <=1.00
hot fresh batch ref 7 mark,hot,CPU <=1.00 <=1.00 <=1.00
hot aged batch ref 7 mark,hot,CPU <=0.85 <=1.00 <=1.00
hot fresh batch off 6 mark,hot,against-off <=1.00 <=1.00 <=1.00
hot aged batch off 6 mark,hot,against-off <=1.00 <=1.00 <=1.00
cold fresh batch ref 6 mark,cold <=0.50 <=0.60 <=0.90
cold aged batch ref 6 mark,cold <=0.45 <=0.50 <=0.90
throttled fresh batch ref 6 mark,throttled <=0.35 <=0.50 report
throttled aged batch ref 6 mark,throttled <=0.35 <=0.50 report
throttled fresh batch ref 9 reads,throttled report report report
throttled aged batch ref 9 reads,throttled report report report
hot fresh batch ref 11 bytes-written,hot <=1.10 <=1.10 <=1.10
hot aged batch ref 11 bytes-written,hot <=1.10 <=1.10 <=1.10
cold fresh batch ref 11 bytes-written,cold <=1.10 <=1.10 <=1.10
cold aged batch ref 11 bytes-written,cold <=1.10 <=1.10 <=1.10
throttled fresh batch ref 11 bytes-written,throttled <=1.10 <=1.10 <=1.10
throttled aged batch ref 11 bytes-written,throttled <=1.10 <=1.10 <=1.10
hotsweep aged sweep refsweep 7 sweep,hot,CPU <=1.00 <=1.00 report
hotsweep aged sweep refsweep 6 sweep,hot <=1.00 <=1.00 report
coldsweep aged sweep refsweep 6 sweep,cold <=0.70 <=0.60 report
TARGETS

# Memory by the size of the batch, and the time of very many references.
awk -F '\t' '
	function said(ok) { return ok ? "met" : "NOT MET" }
	$1 == "batches" || $1 == "entries" {
		batch = $4 == "batch" ? 1048576 : $4 == "off" ? 0 : $4
		bound = 64 + 40 * batch / 1048576
		what = $1
		if (match($12 " " $13, /references=[0-9]+/)) what = what " " substr($12 " " $13, RSTART, RLENGTH)
		printf "%-34s %-6s batch %-8s %8.2f s %7.1f MiB anonymous want <=%.1f %s", what, $2, $4, $6, $8 / 1024, bound, said($8 / 1024 <= bound)
		if ($1 == "entries") printf ", want <=120 s %s", said($6 <= 120)
		print ""
	}' "$results"

# Reads against what there is to read: directory blocks and inode blocks.
awk -F '\t' '
	$1 == "floor" { split($3, v, " "); floor[$2] = v[1] + v[2] }
	$1 == "throttled" && $4 == "batch" { r[$2 FS $3] = $9 }
	END {
		for (k in r) {
			split(k, p, FS)
			if (floor[p[1]] > 0)
				printf "reads, throttled, against blocks       %s %s: %d of %d: %.2f (ext4: want <=1.30)\n", p[1], p[2], r[k], floor[p[1]], r[k] / floor[p[1]]
		}
	}' "$results"
