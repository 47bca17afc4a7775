# bash completion for tallyctl and tallyd.                                       -*- shell-script -*-
#
#	tallyctl ten<TAB>   tallyctl status --partition <TAB>   tallyctl tenant ac<TAB>
#
# Partitions and names of tenants are what the instance has just now: `tallyctl --json`, quietly, of
# the run directory that stands in the line.  Names that are not plain ASCII, or have a quote or a
# backslash, are not offered: what somebody else has sent is not typed for you unless it is harmless.

# Into COMPREPLY: those of the given words that begin as the current one does.
_tallyctl_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }

# What tallyctl says, or nothing.
_tallyctl_ask() { "${words[0]}" "${run_dir[@]}" --json "$@" 2>/dev/null </dev/null; }

_tallyctl_partitions()
{
	_tallyctl_words "$(_tallyctl_ask status | sed -n 's/^ *"partition": \([0-9]*\),$/\1/p')"
}

# Of tallyd, as they stand in its file.
_tallyctl_options()
{
	_tallyctl_words "$(_tallyctl_ask config | sed -n 's/^ *"name": "\([a-z0-9_.]*\)",\{0,1\}$/\1/p')"
}

# At most 200 of them: those that begin as the word does.
_tallyctl_tenants()
{
	local prefix=${cur//\\/} name quote=
	case $cur in [\'\"]*) quote=${cur:0:1} prefix=${cur:1} ;; esac
	while IFS= read -r name; do
		[[ $name == "$prefix"* ]] || continue
		case $quote in
		'') COMPREPLY+=("$(printf %q "$name")") ;;
		\') [[ $name == *\'* ]] || COMPREPLY+=("$name") ;;
		\") [[ $name == *[\$\`\!]* ]] || COMPREPLY+=("$name") ;;
		esac
	done < <(
		{
			[ -z "$prefix" ] || _tallyctl_ask tenant "$prefix"
			_tallyctl_ask tenants --limit 200 ${prefix:+--after "$prefix"}
		} | sed -n 's/^ *"tenant": "\([^"\\]*\)",\{0,1\}$/\1/p' | LC_ALL=C sort -u
	)
}

# In the words before the current one: the run directory, and where the command stands (0: not yet).
_tallyctl_command()
{
	local i
	run_dir=() command_at=0
	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		-d | --run-dir)
			[ $((i + 1)) -ge "$cword" ] || run_dir=(-d "${words[i + 1]/#\~\//$HOME/}")
			i=$((i + 1))
			;;
		--run-dir=*) run_dir=(-d "${words[i]#*=}") ;;
		-*) ;;
		*) command_at=$i; return ;;
		esac
	done
}

# How many words that are no options stand between the command and the current one.
_tallyctl_names_before()
{
	local i n=0
	for ((i = command_at + 1; i < cword; i++)); do
		case ${words[i]} in
		--policy | -p | --bytes | -b | --token-file | --cert-file | --limit | -l | --after | -a) i=$((i + 1)) ;;
		-*) ;;
		*) n=$((n + 1)) ;;
		esac
	done
	echo $n
}

_tallyctl_arguments()
{
	local options=$1
	if [[ $cur == -* ]]; then _tallyctl_words "$options --json --help"; return; fi
	case $command in
	tenant | explain | stream | streams | check) [ "$(_tallyctl_names_before)" != 0 ] || _tallyctl_tenants ;;
	esac
}

_tallyctl()
{
	local cur prev words cword run_dir command command_at
	COMPREPLY=()
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n =: cur prev words cword
	else
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
		cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	fi
	_tallyctl_command
	command=${words[command_at]}
	case $prev in
	-d | --run-dir) [ "$command_at" != 0 ] || { compopt -o dirnames; return; } ;;
	--token-file | --cert-file) compopt -o default; return ;;
	--partition) _tallyctl_partitions; return ;;
	--after) _tallyctl_tenants; return ;;
	--watch | --limit | --number | -n | -l | --policy | --bytes) return ;;
	esac
	if [ "$command_at" = 0 ]; then
		case $cur in
		-*) _tallyctl_words '-d --run-dir --json --version --help' ;;
		*) _tallyctl_words 'status tenants tenant streams stream top explain check config help' ;;
		esac
		return
	fi
	case $command in
	status) _tallyctl_arguments '--partition --watch' ;;
	tenants) _tallyctl_arguments '--after --limit' ;;
	streams) _tallyctl_arguments '--limit' ;;
	top) _tallyctl_arguments '--number --watch --once' ;;
	check) _tallyctl_arguments '--policy --admit --bytes --token-file --cert-file' ;;
	config)
		if [[ $cur == -* ]]; then _tallyctl_arguments '--changed'; else _tallyctl_options; fi
		;;
	tenant | stream | explain) _tallyctl_arguments '' ;;
	esac
	! declare -F __ltrim_colon_completions >/dev/null || __ltrim_colon_completions "$cur"
}

_tallyd()
{
	local cur=${COMP_WORDS[COMP_CWORD]}
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	-c | --config) compopt -o default; COMPREPLY=(); return ;;
	esac
	_tallyctl_words '-c --config -t --test --print-config --version -h --help'
}

complete -F _tallyctl tallyctl
complete -F _tallyd tallyd
