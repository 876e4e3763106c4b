#!/usr/bin/perl
# SPDX-License-Identifier: BSD-3-Clause
# A second opinion on paro-bench --emit, which shares nothing with it:
#   emit.pl rows TARGET SEED            rows as --json prints them, of random times
#   emit.pl check TARGET ROWS EMITTED N reads what was emitted as the library would, and asks it
#                                       for every size that was measured, N at least, and for others
# Numbers of Open MPI's algorithms are those that ompi_info tells (its output is in OMPI_INFO).
use strict;
use warnings;
use JSON::PP;

my %ways = (
    ompi => {
        "MPI_Allgather" => [qw(linear bruck recursive_doubling ring neighbor tuned-6)],
        "MPI_Allgatherv" => [qw(default bruck tuned-3 neighbor)],
        "MPI_Allreduce" => [qw(basic_linear nonoverlapping ring segmented_ring tuned-6)],
        "MPI_Bcast" => [qw(basic_linear chain pipeline tuned-6 knomial scatter_allgather_ring)],
        "MPI_Reduce_scatter" => [qw(non-overlapping recursive_halving tuned-3 butterfly)],
        "MPI_Reduce_scatter_block" => [qw(basic_linear recursive_doubling tuned-3 butterfly)],
    });
my @nccl = qw(ring/ll ring/ll128 ring/simple tree/ll nvls/simple collnet_direct/simple pat/simple);
my @ucc = qw(ucc-knomial ucc-ring ucc-bruck ucc-sra_knomial ucc-dbt);

sub call_of {
    my $r = shift;
    my $even = $r->{count} % $r->{ranks} == 0;
    return $even ? "MPI_Allgather" : "MPI_Allgatherv" if $r->{op} eq "all-gather";
    return $even ? "MPI_Reduce_scatter_block" : "MPI_Reduce_scatter" if $r->{op} eq "reduce-scatter";
    return $r->{op} eq "broadcast" ? "MPI_Bcast" : "MPI_Allreduce";
}

sub kind { return $_[0] =~ /^ompi/ ? "ompi" : $_[0] =~ /^ucc/ ? "ucc" : "nccl" }

sub rows {
    my ($kind, $seed) = (kind($_[0]), $_[1]);
    srand $seed;
    for my $op (qw(all-gather reduce-scatter all-reduce broadcast)) {
        for my $shape (["2x2", 4], ["[2,1]", 3], ["2x3", 6], ["2x4", 8]) {
            my ($groups, $ranks) = @$shape;
            next if rand() < 0.2;
            my %count = map { int(2**(rand(20))) + 8 => 1 } 1 .. 1 + int rand 12;
            $count{$ranks * $_} = 1 for map { int(2**rand(18)) + 2 } 1 .. 1 + int rand 12;
            for my $count (sort { $a <=> $b } keys %count) {
                # two sizes that are one to a library that divides by the ranks are no test
                my $row = {op => $op, algo => $kind eq "nccl" ? "nccl" : "mpi", groups => $groups,
                    ranks => $ranks, count => $count, bytes => 4 * $count, type => "f32",
                    redop => $op =~ /reduce/ ? "sum" : "none", root => $op eq "broadcast" ? 0 : undef,
                    slow_bytes => undef, limit_s => undef, wrong => 0};
                my $call = call_of($row);
                my @all = (undef, $kind eq "ompi" ? @{$ways{ompi}{$call}} : $kind eq "ucc" ? ("ucc", @ucc) : @nccl);
                for my $way (grep { rand() < ($seed % 3 ? 0.7 : 0.3) } @all) {
                    my $t = (1 + int rand 200) * 1e-6;
                    print encode_json({%$row, setting => $way, time_s => {min => $t, median => $t, max => $t}}), "\n";
                }
                # ours, and settings that have no name there, are of no account
                for my $other (["ring", undef], [$row->{algo}, "else"]) {
                    my $t = 1e-9;
                    print encode_json({%$row, algo => $other->[0], setting => $other->[1],
                        time_s => {min => $t, median => $t, max => $t}}), "\n";
                }
            }
        }
    }
}

# ---- what the libraries do with it ----

my %ompi_key = (MPI_Allgather => [0, "allgather"], MPI_Allgatherv => [1, "allgatherv"],
    MPI_Allreduce => [2, "allreduce"], MPI_Bcast => [7, "bcast"],
    MPI_Reduce_scatter => [12, "reduce_scatter"], MPI_Reduce_scatter_block => [13, "reduce_scatter_block"]);

# Names by number, from ompi_info: 4:"ring" in Open MPI 4, 4|ring in 5.
sub ompi_names {
    my ($key, %name) = @_;
    open my $f, "<", $ENV{OMPI_INFO} or die;
    local $/ = "\n";
    my $here = 0;
    while (my $line = <$f>) {
        $here = $line =~ /"coll_tuned_\Q$key\E_algorithm"/ if $line =~ /parameter|informational/;
        %name = $line =~ /(\d+)(?::"|\|)([\w-]+)/g if $here && $line =~ /Valid values/;
    }
    die "no names of $key" unless %name;
    return \%name;
}

sub ompi_ask {
    my $text = shift;
    $text =~ s/#.*//g;
    my @n = split ' ', $text;
    die "not a number" if grep { !/^\d+$/ } @n;
    my (%rule, $colls);
    for ($colls = shift @n; $colls > 0; $colls--) {
        my ($id, $sizes) = splice @n, 0, 2;
        die "twice" if $rule{$id};
        for (1 .. $sizes) {
            my ($comm, $lines) = splice @n, 0, 2;
            my @line = map { [splice @n, 0, 4] } 1 .. $lines;
            die "begins at $line[0][0]" if $line[0][0];
            push @{$rule{$id}}, [$comm, @line];
        }
    }
    die "more behind the end: @n" if @n;
    return sub {
        my ($call, $ranks, $bytes) = @_;
        my ($id, $key) = @{$ompi_key{$call}};
        my $size = $call eq "MPI_Allgatherv" ? int($bytes / $ranks) : $bytes;
        return "" unless $rule{$id};
        my $comm = $rule{$id}[0];
        for (@{$rule{$id}}) { last if $_->[0] > $ranks; $comm = $_ }
        my (undef, @line) = @$comm;
        my $at = $line[0];
        for (@line) { last if $_->[0] > $size; $at = $_ }
        die "segment" if $at->[3];
        die "fan-out $at->[2]" if $at->[2] != ($id == 7 && $at->[1] == 2 ? 4 : 0);
        return $at->[1] ? ompi_names($key)->{$at->[1]} // die "no number $at->[1]" : "";
    };
}

sub ompi_json_ask {
    my $d = decode_json(shift);
    die unless $d->{rule_file_version} == 3 && $d->{module} eq "tuned" && keys %$d == 3;
    return sub {
        my ($call, $ranks, $bytes) = @_;
        my ($id, $key) = @{$ompi_key{$call}};
        my $size = $call eq "MPI_Allgatherv" ? int($bytes / $ranks) : $bytes;
        for my $c (@{$d->{collectives}{$key} // []}) {
            next if $ranks < $c->{comm_size_min} || $ranks > $c->{comm_size_max};
            for my $r (@{$c->{rules}}) {
                next if $size < $r->{msg_size_min} || $size > $r->{msg_size_max};
                return ompi_names($key)->{$r->{alg}} // die;
            }
            return "";
        }
        return "";
    };
}

sub nccl_ask {
    my %key = (MPI_Allgather => "allgather", MPI_Allreduce => "allreduce", MPI_Bcast => "broadcast",
        MPI_Reduce_scatter_block => "reducescatter");
    my @rule;
    for (split /\n/, shift) {
        die "line of " . length if length > 254;
        next if /^#/ || /^$/;
        my @f = split /,/;
        die "$_: " . @f unless @f == 10 && $f[5] == -1 && $f[8] == -1 && $f[9] == -1;
        push @rule, \@f;
    }
    return sub {
        my ($call, $ranks, $bytes, $groups) = @_;
        my $nodes = $groups =~ /^(\d+)x/ ? $1 : 1 + ($groups =~ tr/,//);
        return "" unless $key{$call};
        for my $f (@rule) {
            return "$f->[3]/$f->[4]" if $f->[0] eq $key{$call} && $bytes >= $f->[1] && $bytes <= $f->[2] &&
                ($f->[6] == -1 || $f->[6] == $nodes) && ($f->[7] == -1 || $f->[7] == $ranks);
        }
        return "";
    };
}

sub ucc_ask {
    my $text = join "", grep { !/^#/ } split /^/, shift;
    my %key = (MPI_Allgather => "allgather", MPI_Allgatherv => "allgatherv", MPI_Allreduce => "allreduce",
        MPI_Bcast => "bcast", MPI_Reduce_scatter => "reduce_scatterv",
        MPI_Reduce_scatter_block => "reduce_scatter");
    my @rule;
    if ($text ne "") {
        $text =~ s/^UCC_TL_UCP_TUNE=// && $text =~ s/\n\z// or die $text;
        for (split /#/, $text) {
            /^([a-z_]+):(\d+)-(\d+):host:\[(\d+)-(\d+)\]:inf:@([a-z0-9_]+)$/ && $2 < $3 or die $_;
            push @rule, [$1, $2, $3, $4, $5, $6];
        }
    }
    return sub {
        my ($call, $ranks, $bytes) = @_;
        my $size = $call eq "MPI_Reduce_scatter_block" ? $bytes / $ranks : $bytes;
        for my $f (reverse @rule) { # of two that share an end the upper has it
            return "ucc-$f->[5]" if $f->[0] eq $key{$call} && $size >= $f->[1] && $size <= $f->[2] &&
                $ranks >= $f->[3] && $ranks <= $f->[4];
        }
        return "";
    };
}

# What a row's setting is called when it is asked for; undef: of no account.
sub name_of {
    my ($target, $r) = @_;
    my ($kind, $s, $call) = (kind($target), $r->{setting} // "", call_of($r));
    return undef if $r->{algo} ne ($kind eq "nccl" ? "nccl" : "mpi") || $s eq "else";
    return $s eq "" ? undef : $s eq "ucc" ? "" : $s if $kind eq "ucc";
    return undef if $kind eq "nccl" && $call =~ /v$|scatter$/;
    return $s if $kind eq "nccl";
    return $s =~ /^tuned-(\d+)$/ ? ompi_names($ompi_key{$call}[1])->{$1} : $s;
}

sub check {
    my ($target, $rows, $emitted, $least) = @_;
    local $/;
    open my $f, "<", $emitted or die;
    my %ask = ("ompi-tuned" => \&ompi_ask, "ompi-tuned-json" => \&ompi_json_ask,
        "nccl-tuner" => \&nccl_ask, "ucc-tune" => \&ucc_ask);
    my $ask = $ask{$target}->(scalar <$f>);
    open $f, "<", $rows or die;
    my (%time, %shape, $asked, $chosen);
    for (map { decode_json($_) } split /\n/, scalar <$f>) {
        my $name = name_of($target, $_);
        next unless defined $name;
        my $at = $time{call_of($_)}{$_->{ranks}}{$_->{bytes}} //= {};
        my $t = $_->{time_s}{median};
        $at->{$name} = $t if !defined $at->{$name} || $t < $at->{$name};
        $shape{$_->{ranks}} = $_->{groups};
    }
    for my $call (keys %time) {
        for my $ranks (keys %{$time{$call}}) {
            my $sizes = $time{$call}{$ranks};
            my @sizes = sort { $a <=> $b } keys %$sizes;
            # Sizes that are one to the library: the larger counts.
            @sizes = grep { my $b = $_; !grep { $_ > $b && int($_ / $ranks) == int($b / $ranks) } @sizes } @sizes
                if $call =~ /v$/;
            for my $bytes (@sizes) {
                my $at = $sizes->{$bytes};
                my ($best) = sort { $a <=> $b } values %$at;
                my $got = $ask->($call, $ranks, $bytes, $shape{$ranks});
                $asked++;
                if (keys %$at < 2) {
                    $got eq "" or die "$call $ranks $bytes: $got of one setting alone";
                } else {
                    $chosen++ if $got ne "";
                    defined $at->{$got} && $at->{$got} == $best
                        or die "$call $ranks $bytes: '$got', but " . encode_json($at);
                }
            }
            my $far = 2 * $ranks;
            for my $probe ([$ranks, $sizes[0] - $far], [$ranks, $sizes[-1] + $far],
                (map { [$_, $sizes[0]], [$_, $sizes[-1]] } grep { !$time{$call}{$_} } 1, 2, 5, 7, 9, 1000)) {
                my ($n, $bytes) = @$probe;
                next if $bytes < 0;
                my $got = $ask->($call, $n, $bytes, $shape{$ranks});
                $got eq "" or die "$call $n $bytes: $got, which was not measured";
            }
        }
    }
    print "$asked asked, $chosen chosen\n";
    return $asked >= $least;
}

my $verb = shift;
exit !($verb eq "rows" ? (rows(@ARGV) // 1) || 1 : check(@ARGV));
