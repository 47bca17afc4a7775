# 37-completion.sh - the shells complete tallyctl's words, its partitions and its tenants' names, and
# type nothing that a hostile name would have them type.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/term.sh"

command -v zsh >/dev/null && ZSH=1 || ZSH=
broker partitions=4
start_tallyd
wait_ready 4
wait_until http_address '[0-9]'
hash=0
for name in acme 'ac me' "\$(touch $T/owned)" $'acx\033[2J' "ac'quote" acb:colon; do
	ctl check --admit "$name" $((++hash)) >/dev/null || fail "tenant $name is let in"
done

# completes NAME TYPED PATTERN: what stands on the screen after the last word was completed.
completes()
{
	type_keys C-e C-u C-l # no Ctrl-C: bash would take it for one of the completion's
	until_true 5 hides 'tallyctl|tallyd'
	tmux send-keys -t t -l "$2"
	type_keys Tab
	until_true 1 shows "$3" || type_keys Tab # a second one lists what there is
	sees "$1" "$3" 10
}

# What both shells do.  Candidates may stand in columns or one below the other.
in_shell()
{
	completes "$1: a command" 'tallyctl ten' '^.{0,9}tallyctl tenant'
	completes "$1: commands" 'tallyctl st' 'streams'
	completes "$1: an option" 'tallyctl status --par' 'tallyctl status --partition'
	completes "$1: partitions" 'tallyctl status --partition ' '(^|[^0-9])0 +1 +2 +3'
	completes "$1: a tenant" 'tallyctl explain acm' 'tallyctl explain acme$'
	completes "$1: a name with a blank is quoted" 'tallyctl tenant ac\ m' 'tallyctl tenant ac\\ me'
	completes "$1: of another run directory" "TALLY_RUN_DIR= tallyctl -d $(run_dir) explain acm" ' explain acme$'
	completes "$1: nothing, quietly, where there is no instance" "tallyctl -d $T/none explain ac" ' explain ac *$'
	completes "$1: an option of tallyd" 'tallyctl config window.act' 'config window\.active$'
	completes "$1: tallyd's options" 'tallyd --print' 'tallyd --print-config'
	completes "$1: a hostile name is typed as it is, or not at all" 'tallyctl tenant \$' '(\\\$\\\(touch\\ |tenant \\\$ *$)'
	[ -e "$T/owned" ]; isnt $? 0 "$1: ... and is not run"
	completes "$1: what a terminal must not get is not offered" 'tallyctl tenant acx' 'tenant acx *$'
}

term 100 30
run ". $PWD/etc/completion/tallyctl.bash"
in_shell bash
if [ -e /usr/share/bash-completion/bash_completion ]; then
	run ". /usr/share/bash-completion/bash_completion"
	completes 'bash-completion: a name with a colon' 'tallyctl tenant acb:c' 'tenant acb:colon'
fi

if [ -n "$ZSH" ]; then
	mkdir "$T/fpath"
	cp etc/completion/_tallyctl "$T/fpath/"
	term 100 30 PS1='$ ' zsh -f -i
	run "fpath=($T/fpath \$fpath); autoload -Uz compinit; compinit -u -d $T/zcompdump; bindkey -e; LISTMAX=0"
	run 'echo loaded'
	wait_screen '^loaded' 30
	in_shell zsh
	completes 'zsh: commands with what they do' 'tallyctl st' 'status +-- the instance and its partitions'
else
	skip 'zsh is not installed'
fi
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
