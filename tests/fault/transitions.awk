# transitions.awk - what a supervisor's log says of its partitions, against what may follow what.
#
#	partition.state partition=3 state=ready generation=17 ...
#
# A state belongs to a generation: ready only after pending of the same one.  A start begins anew.
BEGIN {
	allow("free", "pending stopped failed")
	allow("pending", "pending replaying ready failed draining parked free stopped")
	allow("replaying", "pending ready failed draining parked free stopped")
	allow("ready", "pending replaying failed draining parked free stopped")
	allow("draining", "free pending parked stopped")
	allow("parked", "free pending stopped draining failed")
	allow("failed", "free pending replaying ready draining parked stopped")
	allow("stopped", "")
}
function allow(from, list,    n, i, w) { n = split(list, w, " "); for (i = 1; i <= n; i++) may[from, w[i]] = 1 }
function value(key,    i) { for (i = 1; i <= NF; i++) if (index($i, key "=") == 1) return substr($i, length(key) + 2); return "" }
/ start\.done / { delete state; delete generation }
/ partition\.state / {
	p = value("partition"); s = value("state"); g = value("generation")
	from = p in state ? state[p] : "free"
	if (!((from, s) in may)) print "partition " p ": " from " -> " s
	if ((s == "ready" || s == "replaying") && g != generation[p]) print "partition " p ": " s " in generation " g ", pending was " generation[p]
	state[p] = s; generation[p] = g
}
