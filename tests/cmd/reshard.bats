# SPDX-License-Identifier: BSD-3-Clause
# paro-shard reshard: any plan's checkpoint into any other's, and a run continues from it; damage,
# wrong plans and signals leave nothing, of the other verbs either.

load shard

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o model
    echo 'not read, kept' > model/tokenizer.txt
    mkdir -p model/sub/deep
    : > model/sub/deep/empty
    plan a 2x2 IIG --accum 3
    plan b '[2,1]' GGG --accum 4
    plan c '[3,2,4]' NIG
    plan d 1x1 NNN
    for p in a b c d; do paro-shard split model -p $p.yaml -o split.$p; done
    # Params in bf16 and three states in f32 behind them; twelve micro-batches a step.
    mpirun -np 4 paro-train a.yaml -d text --init split.a -o run --steps 6 --save-every 3 --keep 9 --exact \
        --log run.jsonl > out
}

plan() {
    paro-plan -m model/ -i "synth:$2" --seq 32 --param-type bf16 --strategy "$3" "${@:4}" > "$1.yaml"
}

# fails WORDS ARGUMENT...: reshard to x is refused, and of x nothing is left.
fails() {
    refuses 2 "$1" paro-shard reshard "${@:2}" -o x
    [ -z "$(find . -name x -o -name .x.paro-tmp)" ]
}

# states DIR: a sum of each state of each unit, put together from the shards by their headers and
# the manifest's elements alone.
states() {
    perl -MJSON::PP -MDigest::MD5=md5_hex -e '
        my ($dir) = @ARGV;
        sub slurp { local $/; open my $f, "<:raw", $_[0] or die "$_[0]: $!"; <$f> }
        my $m = decode_json(slurp("$dir/manifest.json"));
        my %width = (f32 => 4, bf16 => 2, f16 => 2, f64 => 8);
        my %type = map { $_->{name} => $width{$_->{type}} } @{$m->{states}};
        my %all;
        for my $file (@{$m->{files}}) {
            my $raw = slurp("$dir/$file->{name}");
            my $n = unpack "Q<", $raw;
            my $head = decode_json(substr $raw, 8, $n);
            for my $t (@{$file->{tensors}}) {
                my $key = "$t->{unit}/$t->{state}";
                my ($at, $end) = @{$head->{$key}{data_offsets}};
                for my $b (@{$t->{blocks}}) {
                    my $bytes = ($b->[1] - $b->[0]) * $type{$t->{state}};
                    push @{$all{$key}}, [$b->[0], $b->[1], substr $raw, 8 + $n + $at, $bytes];
                    $at += $bytes;
                }
                die "$file->{name} $key ends at $at, not $end" if $at != $end;
            }
        }
        for my $key (sort keys %all) {
            my ($at, $data) = (0, "");
            for my $b (sort { $a->[0] <=> $b->[0] } @{$all{$key}}) {
                die "$key: a hole at $at" if $b->[0] != $at;
                $at = $b->[1];
                $data .= $b->[2];
            }
            print "$key $at ", md5_hex($data), "\n";
        }' "$1"
}

@test "from any plan to any other: what split would have written, byte for byte" {
    local a b
    for a in a b c d; do
        for b in a b c d; do
            quiet paro-shard reshard "$G/split.$a" -p "$G/$b.yaml" -o x
            diff -r "$G/split.$b" x
            rm -r x
        done
    done
    quiet paro-shard reshard "$G/split.c" -p "$G/b.yaml" -o x
    quiet paro-shard merge x -o back
    diff -r "$G/model" back
}

@test "split, reshard: the least buffer, one thread or many: the same bytes" {
    local least from
    for from in "split $G/model" "reshard $G/split.c"; do
        # shellcheck disable=SC2086 # a verb and its operand
        with() { paro-shard $from -p "$G/b.yaml" -o x --buffer "$@"; }
        refuses 2 'buffer of 1 bytes, at least' with 1
        [[ $refusal =~ at\ least\ ([0-9]+) ]]
        least=${BASH_REMATCH[1]}
        refuses 2 "buffer of $((least - 1)) bytes, at least $least (--buffer)" with $((least - 1))
        [ -z "$(find . -name x -o -name .x.paro-tmp)" ]
        for jobs in 1 2 3 32; do
            quiet with "$least" --jobs $jobs
            diff -r "$G/split.b" x
            rm -r x
        done
    done
}

@test "a run's checkpoint: all states as they were, to the same plan every byte" {
    quiet paro-shard reshard "$G/run/latest" -p "$G/a.yaml" -o same
    diff -r "$G/run/latest/" same
    states "$G/run/latest" > want
    [ "$(cut -d / -f 2 want | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')" = 'exp_avg exp_avg_sq master params ' ]
    for p in b c d; do
        quiet paro-shard reshard "$G/run/latest" -p "$G/$p.yaml" -o $p
        quiet paro-shard reshard $p -p "$G/a.yaml" -o back
        diff -r "$G/run/latest/" back
        rm -r back
        states $p | diff want -
        paro-shard verify $p
        paro-shard merge $p -o m.$p
        paro-shard ls $p | grep -q "^checkpoint of .*, strategy $(sed -n 's/^strategy: //p' "$G/$p.yaml")"
    done
    paro-shard merge "$G/run/latest" -o m
    for p in b c d; do diff -r m m.$p; done
}

# bats test_tags=full
@test "a run goes on from it, on other ranks, in other groups: the same bits" {
    quiet paro-shard reshard "$G/run/step-00000003" -p "$G/b.yaml" -o three
    mpirun -np 3 paro-train "$G/b.yaml" -d "$G/text" -o b --resume three --steps 6 --exact > out
    hashes() { grep -oE '"(step|loss|state_hash)":[^,}]*' "$1"; }
    hashes "$G/run.jsonl" | tail -n 9 > want
    grep -q '^"state_hash":"[0-9a-f]\{16\}"' want
    hashes b/log.jsonl | diff want -
    paro-shard reshard b/latest -p "$G/a.yaml" -o again
    diff -r "$G/run/latest/" again
}

@test "more files than are kept open" {
    paro-plan -m "$G/model" -i synth:13x10 --strategy GGG --seq 32 --param-type bf16 > many.yaml
    paro-plan -m "$G/model" -i 'synth:[9,60,50]' --strategy IIG --seq 32 --param-type bf16 > other.yaml
    quiet paro-shard reshard "$G/run/latest" -p many.yaml -o many
    quiet paro-shard reshard many -p other.yaml -o other
    paro-shard verify other
    states "$G/run/latest" > want
    states other | diff want -
    quiet paro-shard reshard other -p "$G/a.yaml" -o back
    diff -r "$G/run/latest/" back
}

# bats test_tags=full
@test "what trains in part, and adapters" {
    local what
    for what in 'train=*.mlp.*' 'lora=4,alpha=8,targets=q_proj+v_proj'; do
        rm -rf from x back ./*.yaml
        paro-plan -m "$G/model" -i synth:1x2 --seq 32 --trainable "$what" > two.yaml
        paro-plan -m "$G/model" -i 'synth:[2,3]' --seq 32 --strategy IGG --trainable "$what" > five.yaml
        paro-shard split "$G/model" -p two.yaml -o from
        mpirun -np 2 paro-train two.yaml -d "$G/text" --init from -o run --steps 1 > out
        quiet paro-shard reshard run/latest -p five.yaml -o x
        states run/latest > want
        states x | diff want -
        quiet paro-shard reshard x -p two.yaml -o back
        diff -r run/latest/ back
        rm -r x run
        fails "from: '$what', plan 'all'" from -p "$G/a.yaml"
    done
    fails "split.a: 'all', plan '$what'" "$G/split.a" -p two.yaml
}

@test "the wrong plan, the wrong folder, the wrong place" {
    sed 's/10000.0/500.0/' "$G/model/config.json" > other.json
    paro-plan -m other.json -i synth:2x2 > other.yaml
    fails "split.a: 'rope_theta' 10000 config.json, 500 plan" "$G/split.a" -p other.yaml
    paro-plan -m params=7e6 -i 'synth:2x2,memory=80e9' > bare.yaml
    fails "plan number of parameters, config.json" "$G/split.a" -p bare.yaml
    fails "/model' manifest.json checkpoint" "$G/model" -p "$G/b.yaml"
    fails "cannot open 'nowhere': No such file or directory" nowhere -p "$G/b.yaml"
    cp -r "$G/split.a" in
    refuses 2 "'in/x' inside 'in'" paro-shard reshard in -p "$G/b.yaml" -o in/x
    ln -s in link
    refuses 2 "'in/source/x' inside 'link'" paro-shard reshard link -p "$G/b.yaml" -o in/source/x
    mkdir out.er
    mv in out.er/
    refuses 2 "'out.er/in' inside 'out.er'" paro-shard reshard out.er/in -p "$G/b.yaml" --force -o out.er
    diff -r "$G/split.a" out.er/in
    [ "$(names)" = "$(printf '%s\n' bare.yaml link other.json other.yaml out.er)" ]
}

@test "a target that is there: refused, with --force exchanged whole, the source itself too" {
    mkdir there
    echo mine > there/file
    refuses 2 "'there' exists, --force" paro-shard reshard "$G/split.a" -p "$G/b.yaml" -o there
    [ "$(cat there/file)" = mine ]
    quiet paro-shard reshard --force "$G/split.a" -p "$G/b.yaml" -o there
    diff -r "$G/split.b" there
    quiet paro-shard reshard --force there -p "$G/c.yaml" -o there
    diff -r "$G/split.c" there
    [ "$(names)" = there ]
}

@test "damage in the source: its file, tensor and elements, and no target" {
    cp -r "$G/run/latest/" bad
    flip bad/shard-00002.safetensors 300000
    run -1 paro-shard verify bad
    fails "$output" bad -p "$G/b.yaml"
    has_words "$output" "bad/shard-00002.safetensors: 'model.layers. [ ) damaged checksum"
    run -2 --separate-stderr paro-shard reshard --json bad -p "$G/b.yaml" -o x
    [[ "$output:$stderr" == ':{"error":{"code":"mismatch",'*'"file":"bad/shard-00002.safetensors",'* ]]
    [ ! -e x ]
    [ ! -e .x.paro-tmp ]
    truncate -s -1 bad/shard-00002.safetensors
    fails "bad/shard-00002.safetensors: bytes, expected" bad -p "$G/b.yaml"
    rm bad/shard-00002.safetensors
    fails "cannot open 'bad/shard-00002.safetensors': No such file" bad -p "$G/b.yaml"
    rm -r bad
    cp -r "$G/split.a" bad
    flip bad/source/files/tokenizer.txt 3
    fails "bad/source/files/tokenizer.txt: damaged checksum" bad -p "$G/b.yaml"
    flip bad/source/files/tokenizer.txt 3
    flip bad/manifest.json 30
    fails "bad/manifest.json: damaged" bad -p "$G/b.yaml"
}

# ended SIGNAL DELAY COMMAND...: its status; it is gone.  timeout is killed by its own KILL, and
# what runs beside a shell ignores INT.
ended() {
    [ "$1" = KILL ] || { timeout -s "$1" "${@:2}" > out 2> said; return; }
    "${@:3}" > out 2> said &
    sleep "$2"
    kill -9 $! 2> dd.log || true
    wait $!
}

# stops LEAST DELAYS COMMAND...: ended at any of these moments it leaves no x or a whole one, and says
# nothing; so many times at least it is ended.
stops() {
    local least=$1 delays=$2 signal delay rc stopped=0
    shift 2
    for signal in INT TERM HUP KILL; do
        for delay in $delays; do
            rc=0
            ended $signal "$delay" "$@" -o x || rc=$?
            if [ "$rc" = 0 ] || [ -e x ]; then
                paro-shard verify x
                rm -r x
            fi
            [ "$signal" = KILL ] || [ ! -e .x.paro-tmp ]
            [ ! -s out ]
            [ ! -s said ] # the signal's own end: no words
            [ "$rc" = 0 ] || stopped=$((stopped + 1))
        done
    done
    [ "$stopped" -ge "$least" ]
    "$@" -o x
    [ ! -e .x.paro-tmp ]
    paro-shard verify x
    rm -r x
}

@test "stopped or killed at any moment: nothing, or all of it; the source as it was" {
    paro-plan -m "$MODELS/llama-10m.json" -i synth:2x2 > plan.yaml
    paro-plan -m "$MODELS/llama-10m.json" -i 'synth:[4,3]' > other.yaml
    stops 3 '0.005 0.03' paro-shard init -m "$MODELS/llama-10m.json"
    paro-shard init -m "$MODELS/llama-10m.json" -o big
    stops 3 '0.01 0.02 0.04 0.08 0.15' paro-shard split big -p plan.yaml
    paro-shard split big -p plan.yaml -o from
    rm -r big
    stops 5 '0.001 0.01 0.02 0.03 0.05 0.08' paro-shard reshard from -p other.yaml
    stops 0 '0.001 0.01 0.02 0.05' paro-shard merge from --type f64
    paro-shard verify from
}
