# SPDX-License-Identifier: BSD-3-Clause
# Compares manifests with tests/data/kubernetes.tsv, the part of the published schemas that they
# use:
#
#   perl kubernetes.pl ROWS MANIFEST...             prints what is wrong, one line each
#   perl kubernetes.pl --mutants ROWS MANIFEST...   misspells each field in turn, prints what is not noticed
use strict;
use warnings;
use JSON::PP;
use YAML::XS;

$YAML::XS::Boolean = 'JSON::PP';
my $mutants = $ARGV[0] eq '--mutants' && shift;
my (%row, @wrong);
open my $rows, '<', shift or die "cannot open the rows: $!\n";
while (<$rows>) {
    my ($kind, $path, $types, $rule) = /^([^#\t]+)\t([^\t]+)\t([^\t]+)\t(.*)$/ or next;
    $row{"$kind $path"} = [$types, split /,/, $rule];
}

sub type_of {
    my $v = shift;
    return 'object' if ref $v eq 'HASH';
    return 'array' if ref $v eq 'ARRAY';
    return 'boolean' if JSON::PP::is_bool($v);
    return JSON::PP->new->allow_nonref->encode($v) =~ /^"/ ? 'string' : 'integer';
}

# The path of a field's row: by its name, or * where users choose names.
sub path_of {
    my ($kind, $path, $name) = @_;
    my $head = $path eq '.' ? '' : "$path.";
    return $row{"$kind $head$name"} ? "$head$name" : $row{"$kind $head*"} ? "$head*" : undef;
}

sub walk {
    my ($kind, $path, $v) = @_;
    my ($types, @rule) = @{$row{"$kind $path"} || return push @wrong, "$kind: unknown '$path'"};
    my $type = type_of($v);
    push @wrong, "$kind $path: $type, expected $types" unless grep { $_ eq $type } split /\|/, $types;
    if ($type eq 'object') {
        exists $v->{$_} or push @wrong, "$kind $path: lacks '$_'" for @rule;
        for my $name (sort keys %$v) {
            my $child = path_of($kind, $path, $name);
            if ($child) { walk($kind, $child, $v->{$name}) }
            else { push @wrong, "$kind $path: unknown field '$name'" }
        }
    } elsif ($type eq 'array') {
        walk($kind, "$path\[]", $_) for @$v;
    } elsif (@rule && !grep { $_ eq $v } @rule) {
        push @wrong, "$kind $path: '$v', expected one of @rule";
    }
}

# Each field under another name, and back; $top is the manifest.
sub mutate {
    my ($top, $kind, $path, $v) = @_;
    mutate($top, $kind, "$path\[]", $_) for ref $v eq 'ARRAY' ? @$v : ();
    for my $name (ref $v eq 'HASH' ? sort keys %$v : ()) {
        my $child = path_of($kind, $path, $name);
        mutate($top, $kind, $child, $v->{$name});
        next if $child =~ /\*$/;
        $v->{"${name}x"} = delete $v->{$name};
        @wrong = ();
        walk($kind, '.', $top);
        print "$kind: '$child' under another name is not noticed\n" unless @wrong;
        $v->{$name} = delete $v->{"${name}x"};
    }
}

my $count = 0;
for my $file (@ARGV) {
    for my $manifest (YAML::XS::LoadFile($file)) {
        $count++;
        @wrong = ();
        walk($manifest->{kind}, '.', $manifest);
        print "$file: $_\n" for @wrong;
        mutate($manifest, $manifest->{kind}, '.', $manifest) if $mutants;
    }
}
print "no manifest\n" unless $count;
