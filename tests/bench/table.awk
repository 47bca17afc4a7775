# table.awk - rows.tsv and what was measured, as one table.
#
#	awk -f table.awk SCRIPTS=" 10-replay.sh ..." results.tsv rows.tsv
#
# ratio = ours / yardstick.  A target is of the ratio when it says so, else of ours.  A value that is
# not there: its script has failed, and so has the row; the exit code is 1 then.
BEGIN {
	FS = "\t"
	line = "%-82s %9s %10s %-11s %6s  %-14s %s\n"
	printf line, "what", "ours", "yardstick", "", "ratio", "target", "met"
}

function number(v) { return v >= 100 ? sprintf("%.0f", v) : sprintf("%.3g", v) }
function holds(value, op, bound,   ends)
{
	if (op == ">=") return value >= bound
	if (op == "<=") return value <= bound
	split(op, ends, "[.][.]")
	return value >= ends[1] && value <= ends[2]
}
function met(target, ours, ratio,   w, of_ratio)
{
	if (target == "-")
		return ""
	split(target, w, " ")
	of_ratio = w[1] == "ratio"
	return holds(of_ratio ? ratio : ours, w[1 + of_ratio], w[2 + of_ratio]) ? "yes" : "no"
}

/^#/ || NF == 0 { next }
FILENAME ~ /results/ { value[$1] = $2; next }
index(SCRIPTS, " " $1 " ") == 0 { next }
{
	what = $2
	while (match(what, /\{[^}]*\}/)) {
		key = substr(what, RSTART + 1, RLENGTH - 2)
		what = substr(what, 1, RSTART - 1) (key in value ? value[key] : "?") substr(what, RSTART + RLENGTH)
	}
	if (!($4 in value) || ($5 != "-" && !($5 in value))) {
		printf line, what, $4 in value ? number(value[$4]) : "-", "-", $3, "", $6 == "-" ? "" : $6, "failed"
		failed = 1
		next
	}
	ratio = $5 == "-" ? "" : value[$4] / value[$5]
	printf line, what, number(value[$4]), $5 == "-" ? "" : number(value[$5]), $3,
		ratio == "" ? "" : sprintf("%.2f", ratio), $6 == "-" ? "" : $6, met($6, value[$4], ratio)
}
END { exit failed }
