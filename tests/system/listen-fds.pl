# listen-fds.pl NAME=ADDRESS:PORT... -- PROGRAM ARGUMENTS: opens sockets, and hands them to PROGRAM
# as a service manager does (sd_listen_fds(3)).  "udp" in front of an address: one that is no listener.
use strict;
use warnings;
use IO::Socket::INET;
use POSIX qw(dup2);

my (@names, @sockets);
while (@ARGV and (my $word = shift @ARGV) ne '--') {
	my ($name, $udp, $address) = $word =~ /^(\w+)=(udp:)?(.*)$/ or die "$word: not NAME=ADDRESS:PORT\n";
	push @names, $name;
	push @sockets, IO::Socket::INET->new(LocalAddr => $address, ReuseAddr => 1,
		$udp ? (Proto => 'udp') : (Proto => 'tcp', Listen => 100)) // die "$address: $!\n";
}
# From 3 on; these numbers may be in use, so by way of higher ones.  dup2 clears close-on-exec.
dup2(fileno $sockets[$_], 100 + $_) // die "dup2: $!\n" for 0 .. $#sockets;
for (0 .. $#sockets) {
	dup2(100 + $_, 3 + $_) // die "dup2: $!\n";
	POSIX::close(100 + $_);
}
$ENV{LISTEN_PID} = $$;
$ENV{LISTEN_FDS} = scalar @names;
$ENV{LISTEN_FDNAMES} = join ':', @names;
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\n";
