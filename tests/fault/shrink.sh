#!/bin/bash
# shrink.sh - a schedule that fails, made short: tests/fault/shrink.sh FILE [TRIES]
#
#	drop halves, quarters, ... single steps -> still fails? -> keep what is left
#
# FILE.short holds the shortest that still failed; TRIES runs at most (20).
cd "$(dirname "$0")/../.." || exit 2
file=$1 tries=${2:-20}
short=$file.short
head -n 1 "$file" >"$file.head"
sed 1d "$file" >"$file.steps"

fails()
{
	cat "$file.head" "$1" >"$file.try"
	grep -qx check "$1" || echo check >>"$file.try"
	! tests/fault/run.sh "$file.try" >"$file.trylog" 2>&1
}

chunk=$((($(wc -l <"$file.steps") + 1) / 2))
while [ "$chunk" -ge 1 ] && [ "$tries" -gt 0 ]; do
	at=1 dropped=
	while [ "$at" -le "$(wc -l <"$file.steps")" ] && [ "$tries" -gt 0 ]; do
		sed "$at,$((at + chunk - 1))d" "$file.steps" >"$file.less"
		tries=$((tries - 1))
		if [ -s "$file.less" ] && fails "$file.less"; then
			mv "$file.less" "$file.steps"; dropped=1
			echo "# $(wc -l <"$file.steps") steps still fail"
		else
			at=$((at + chunk))
		fi
	done
	[ -n "$dropped" ] && [ "$chunk" = 1 ] || chunk=$((chunk / 2))
done
cat "$file.head" "$file.steps" >"$short"
grep -qx check "$file.steps" || echo check >>"$short"
rm -f "$file".{head,steps,less,try,trylog}
echo "# to see it fail: B=${B:-build} tests/fault/run.sh $short"
