#!/usr/bin/perl
# SPDX-License-Identifier: BSD-3-Clause
# A second opinion on paro-sched gen --format msccl, which shares nothing with it: reads the
# program as MSCCL does and carries it out on sets of contributions.
#   msccl.pl FILE ROOT
# Held are: what MSCCL's readers refuse (limits, bounds, peers, numbers of steps); that sends and
# receipts of a connection agree; no deadlock though nothing is buffered; that two steps of a rank
# that touch one chunk, one of them writing, are ordered by waits and messages (vector clocks);
# and that each rank ends with what the operation promises - all of it in place and not.
use strict;
use warnings;
use List::Util qw(shuffle);

my ($file, $root) = @ARGV;
open my $f, "<", $file or die "$file: $!";
my (%algo, @gpu);
while (<$f>) {
    my %a = /(\w+)="([^"]*)"/g;
    if (/^<algo /) { %algo = %a }
    elsif (/^\s*<gpu /) { $a{id} == @gpu or die "gpu $a{id}"; push @gpu, {%a, tb => []} }
    elsif (/^\s*<tb /) { $a{id} == @{$gpu[-1]{tb}} or die "tb $a{id}"; push @{$gpu[-1]{tb}}, {%a, step => []} }
    elsif (/^\s*<step /) { push @{$gpu[-1]{tb}[-1]{step}}, {%a} }
    elsif (!m{^\s*</(?:algo|gpu|tb)>$}) { die "line $.: $_" }
}
my ($n, $all, $coll) = @algo{qw(ngpus nchunksperloop coll)};
$n == @gpu && $algo{proto} eq "Simple" && length $algo{name} <= 63 && $algo{nchannels} <= 32 or die "algo";
$algo{inplace} == 1 && $algo{outofplace} == 1 && $algo{minBytes} == 0 or die "algo";

# ---- what the readers refuse ----

my $per = $all / $n;
my %size = (allgather => [$per, $all], reducescatter => [$all, $per], allreduce => [$all, $all], broadcast => [$all, $all]);
my %need = map { $_ => 1 } qw(s srcoff srcbuf dstoff dstbuf cnt type depid deps hasdep);
my %known = map { $_ => 1 } qw(s r rrc cpy re nop);
for my $g (@gpu) {
    $g->{i_chunks} == $size{$coll}[0] && $g->{o_chunks} == $size{$coll}[1] or die "chunks of gpu $g->{id}";
    @{$g->{tb}} <= 128 or die "threadblocks";
    my (%way, %peers);
    for my $b (@{$g->{tb}}) {
        $b->{send} != $g->{id} && $b->{recv} != $g->{id} && $b->{send} < $n && $b->{recv} < $n or die "peer";
        $b->{chan} >= 0 && $b->{chan} < $algo{nchannels} or die "channel";
        for my $d (qw(send recv)) {
            next if $b->{$d} == -1;
            !$way{"$d $b->{$d} $b->{chan}"}++ or die "two threadblocks for $d $b->{$d}";
            ++$peers{"$d $b->{chan}"} <= 32 or die "peers";
        }
        my @step = @{$b->{step}};
        @step <= 256 or die "steps";
        for my $i (0 .. $#step) {
            my $s = $step[$i];
            keys %$s == 10 && !grep { !$need{$_} } keys %$s or die "attributes: @{[%$s]}";
            $s->{s} == $i && $known{$s->{type}} && $s->{cnt} < 72 && $s->{hasdep} =~ /^[01]$/ or die "step $i";
            $s->{type} ne "s" || $b->{send} >= 0 or die "send without a peer";
            $s->{type} !~ /^r|^rrc/ || $s->{type} eq "re" || $b->{recv} >= 0 or die "receipt without a peer";
            if ($s->{type} eq "nop") { # carries a wait, and what follows carries another
                $s->{depid} >= 0 && !$s->{hasdep} && $step[$i + 1]{depid} >= 0 or die "nop";
            } else {
                $s->{cnt} > 0 or die "count";
                for my $e (qw(src dst)) {
                    my $room = {i => $g->{i_chunks}, o => $g->{o_chunks}, s => $g->{s_chunks}}->{$s->{"${e}buf"}};
                    $s->{"${e}off"} >= 0 && $s->{"${e}off"} + $s->{cnt} <= $room or die "bounds of step $i of $b->{id}";
                }
                $s->{type} =~ /^(?:s)$/ || $s->{dstbuf} ne "i" or die "the input is written";
            }
            next if $s->{depid} < 0;
            my $to = $g->{tb}[$s->{depid}]{step}[$s->{deps}];
            $s->{depid} != $b->{id} && $to && $to->{type} ne "nop" && $to->{hasdep} or die "waits for nothing";
        }
    }
}

# ---- carried out ----

my (@id, $clocks); # a clock of each threadblock
for my $g (@gpu) { $id[$g->{id}][$_->{id}] = $clocks++ for @{$g->{tb}} }

sub join_clock { my ($a, $b) = @_; for (keys %$b) { $a->{$_} = $b->{$_} if ($a->{$_} // -1) < $b->{$_} } }

sub carry_out {
    my ($in_place, $seed) = @_;
    srand $seed;
    my (@mem, @wrote, @read, @clock, @at, @done, %wire);
    my $cell = sub { # one name for one place of memory
        my ($g, $buf, $off) = @_;
        return "$buf$off" if !$in_place || $buf eq "s";
        return "m" . ($buf eq "i" ? $off + $g * $per : $off) if $coll eq "allgather";
        return "m" . ($buf eq "o" ? $off + $g * $per : $off) if $coll eq "reducescatter";
        return "m$off";
    };
    for my $g (0 .. $n - 1) {
        next if $coll eq "broadcast" && $g != $root;
        for my $k (0 .. $size{$coll}[0] - 1) {
            my $chunk = $coll eq "allgather" ? $g * $per + $k : $k;
            $mem[$g]{$cell->($g, "i", $k)} = {chunk => $chunk, from => {$g => 1}};
        }
    }
    my $touch = sub { # memory in this order, or it is a race
        my ($g, $b, $name, $writes, $step) = @_;
        my ($me, $now) = ($id[$g][$b], $clock[$g][$b]);
        for my $past ($wrote[$g]{$name} // (), $writes ? values %{$read[$g]{$name} // {}} : ()) {
            my ($who, $when) = @$past;
            $who == $me || ($now->{$who} // -1) >= $when
                or die "gpu $g: $name is touched by step $step of threadblock $b and, in no order, by another";
        }
        if ($writes) { $wrote[$g]{$name} = [$me, $step]; $read[$g]{$name} = {} }
        else { $read[$g]{$name}{$me} = [$me, $step] }
    };
    my $fetch = sub {
        my ($g, $b, $s, $e, $k, $i) = @_;
        my $name = $cell->($g, $s->{"${e}buf"}, $s->{"${e}off"} + $k);
        $touch->($g, $b, $name, 0, $i);
        return $mem[$g]{$name} // die "gpu $g reads nothing at $name";
    };
    my $put = sub {
        my ($g, $b, $s, $k, $v, $i) = @_;
        my $name = $cell->($g, $s->{dstbuf}, $s->{dstoff} + $k);
        $touch->($g, $b, $name, 1, $i);
        $mem[$g]{$name} = $v;
    };
    my $add = sub {
        my ($x, $y) = @_;
        $x->{chunk} == $y->{chunk} or die "chunks $x->{chunk} and $y->{chunk} are added";
        my %from = %{$x->{from}};
        $from{$_} += $y->{from}{$_} for keys %{$y->{from}};
        return {chunk => $x->{chunk}, from => \%from};
    };
    my @todo = map { my $g = $_; map { [$g, $_] } 0 .. $#{$gpu[$g]{tb}} } 0 .. $n - 1;
    my %peer; # who receives what a threadblock sends
    for my $p (@todo) {
        my ($g, $b) = @$p;
        my $tb = $gpu[$g]{tb}[$b];
        $peer{"$tb->{recv} $g $tb->{chan}"} = $p if $tb->{recv} >= 0;
        $at[$g][$b] = 0;
        $clock[$g][$b] = {};
    }
    my $waits = sub { # whether the next step must still wait
        my ($g, $b) = @_;
        my $s = $gpu[$g]{tb}[$b]{step}[$at[$g][$b]] or return 1;
        return $s->{depid} >= 0 && $at[$g][$s->{depid}] <= $s->{deps};
    };
    my $begin = sub {
        my ($g, $b) = @_;
        my $s = $gpu[$g]{tb}[$b]{step}[$at[$g][$b]];
        join_clock($clock[$g][$b], $done[$g][$s->{depid}][$s->{deps}]) if $s->{depid} >= 0;
        $clock[$g][$b]{$id[$g][$b]} = $at[$g][$b];
        return $s;
    };
    my $end = sub {
        my ($g, $b) = @_;
        $done[$g][$b][$at[$g][$b]++] = {%{$clock[$g][$b]}};
    };
    while (@todo) {
        my $moved = 0;
        for my $p (shuffle(@todo)) {
            my ($g, $b) = @$p;
            next if $waits->($g, $b);
            my $tb = $gpu[$g]{tb}[$b];
            my $s = $tb->{step}[$at[$g][$b]];
            next if $s->{type} =~ /^(?:r|rrc)$/; # done with its send
            if ($s->{type} eq "s") {
                my $q = $peer{"$g $tb->{send} $tb->{chan}"} or die "nobody receives from $g on gpu $tb->{send}";
                next if $waits->(@$q);
                my $r = $gpu[$q->[0]]{tb}[$q->[1]]{step}[$at[$q->[0]][$q->[1]]];
                next if $r->{type} eq "nop";
                $r->{type} =~ /^(?:r|rrc)$/ && $r->{cnt} == $s->{cnt} or die "a send meets $r->{type} of $r->{cnt}";
                $begin->($g, $b);
                $begin->(@$q);
                my @data = map { $fetch->($g, $b, $s, "src", $_, $at[$g][$b]) } 0 .. $s->{cnt} - 1;
                join_clock($clock[$q->[0]][$q->[1]], $clock[$g][$b]);
                for my $k (0 .. $r->{cnt} - 1) {
                    my $v = $data[$k];
                    $v = $add->($fetch->(@$q, $r, "src", $k, $at[$q->[0]][$q->[1]]), $v) if $r->{type} eq "rrc";
                    $put->(@$q, $r, $k, $v, $at[$q->[0]][$q->[1]]);
                }
                $end->(@$q);
            } else {
                $begin->($g, $b);
                for my $k (0 .. $s->{cnt} - 1) {
                    my $v = $fetch->($g, $b, $s, "src", $k, $at[$g][$b]);
                    $v = $add->($fetch->($g, $b, $s, "dst", $k, $at[$g][$b]), $v) if $s->{type} eq "re";
                    $put->($g, $b, $s, $k, $v, $at[$g][$b]);
                }
            }
            $end->($g, $b);
            $moved++;
        }
        @todo = grep { $at[$_->[0]][$_->[1]] < @{$gpu[$_->[0]]{tb}[$_->[1]]{step}} } @todo;
        $moved or !@todo or die "deadlock: " . join ", ", map { "$_->[0]/$_->[1] at $at[$_->[0]][$_->[1]]" } @todo;
    }
    for my $g (0 .. $n - 1) {
        for my $k (0 .. $size{$coll}[1] - 1) {
            my $chunk = $coll eq "reducescatter" ? $g * $per + $k : $k;
            my @from = $coll eq "allgather" ? int($k / $per) : $coll eq "broadcast" ? $root : 0 .. $n - 1;
            my $v = $mem[$g]{$cell->($g, "o", $k)} or die "gpu $g: output $k is empty";
            $v->{chunk} == $chunk or die "gpu $g: output $k is chunk $v->{chunk}";
            my $got = join " ", map { "$_:$v->{from}{$_}" } sort { $a <=> $b } keys %{$v->{from}};
            $got eq join " ", map { "$_:1" } @from or die "gpu $g: output $k has $got";
        }
    }
}

carry_out($_ & 1, $_) for 1 .. 4;
