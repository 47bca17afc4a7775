# commands.pl FILE...: the commands that README.md and man pages show, one a line, as one would type them.
#
#	blocks (``` and .nf)	lines that begin with a command, "\" at the end joined
#	in a sentence		`tallyctl ...` of Markdown, .B and .BR "..." of man: those of PROGRAMS with an argument
use strict;
use warnings;

my $words = qr/(?:(?:sudo|make|tally(?:ctl|d|-queryd|-load|-broker)|curl|kcat|openssl|echo|cc|kafka-\w+\.sh|systemctl|systemd-\w+|journalctl|apt-get|mount|docker)(?! pid )(?=\s|$)|[A-Z]+=\$\()/;
my $inline = qr/(?:tallyctl|tallyd|tally-queryd|curl|kcat|systemctl|journalctl|mount|make) \S/;
my %seen;

sub plain {	# what man shows for it
	my $text = shift;
	$text =~ s/\\\(aq/'/g;
	$text =~ s/\\\(dq/"/g;
	$text =~ s/\\f[A-Z]//g;
	$text =~ s/\\-/-/g;
	$text =~ s/\\e/\\/g;
	$text =~ s/\\&//g;
	return $text;
}

sub show {
	my $command = shift;
	$command =~ s/\s+#\s.*//;
	$command =~ s/\s+/ /g;
	$command =~ s/^ | $//g;
	print "$command\n" unless $seen{$command}++;
}

for my $file (@ARGV) {
	my $man = $file =~ /\.\d$/;
	my ($block, $begun) = (0, '');
	open my $in, '<', $file or die "$file: $!\n";
	while (my $line = <$in>) {
		chomp $line;
		if ($man ? $line =~ /^\.(nf|fi|EX|EE)/ : $line =~ /^```/) {
			$block = $man ? $line =~ /^\.(nf|EX)/ : !$block;
			next;
		}
		$line = plain($line) if $man;
		if ($block) {
			$line =~ s/^\$ //;	# the prompt
			next if $man && $line =~ /^\./;
			# Several in a row, far from each other, stand side by side.
			next unless $begun ne '' or $line =~ /^\s*$words/;
			$begun .= " $line";
			next if $begun =~ s/\s*\\$//;
			$begun =~ s/\s+#\s.*//;
			show($_) for $begun =~ /\S {4,}\S/ && $begun =~ /^ *make/ ? split(/ {4,}/, $begun) : $begun;
			$begun = '';
		} elsif ($man) {
			show($1) if $line =~ /^\.BR? "($inline[^"]*)"/ or $line =~ /^\.B ($inline.*)/;
		} else {
			show($1) while $line =~ /`($inline[^`]*)`/g;
		}
	}
}
