# members.sh - supervisors that share eight partitions: who has what, and a third that joins.
#
#	. "$(dirname "$0")/lib.sh"; . "$(dirname "$0")/members.sh"
#	broker partitions=8; start_group a b
#	who() { ... }			# a line for each partition: the test says what is in it
#	wait_settled 'two members' a b; two=$(who a b)
#	start_third			# $two is then what it was right before

# settled NAMES...: each partition is ready once, and everybody has some.
spread() { local i n; for i in "$@"; do n=$(INSTANCE=$i ready_count); [ "${n:-0}" -gt 0 ] || return 1; done; }
settled() { [ "$(ready_in_all "$*")" = 8 ] && spread "$@"; }
# wait_settled WHAT NAMES...
wait_settled()
{
	local what=$1
	shift
	wait_until "settled $*" '' 60
	note "$what:" "$(who "$@")"
}

# The third joins.  A rebalance that the broker does not get done is tried again, from two members on.
start_third()
{
	local try
	for try in 1 2 3; do
		start_tallyd c
		until_true 40 settled a b c && break
		[ $try != 3 ] || die 'the third was not let in in three starts'
		note "the broker's rebalance is stuck; starting the third again ($try)"
		stop_tallyd c
		wait_settled 'two members again' a b
		two=$(who a b)
	done
	wait_settled 'a third joined' a b c
}
