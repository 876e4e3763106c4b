# SPDX-License-Identifier: BSD-3-Clause
# paro-train: where a run resumes, what it says of that, and a run that is only checked.

load train

setup_file() { runs_begin; }

t() { paro-train "$G/one.yaml" -d "$TEXT" "$@" > out 2> said; }

# hurt FILE: changes bytes in its middle, which a resume reads.
hurt() {
    printf 'xxxxxxxxxxxxxxxx' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") / 2)) conv=notrunc 2> /dev/null
}

@test "--resume takes no word that is the plan" {
    local i=0 words
    for words in "--resume one.yaml" "one.yaml --resume" "--resume=auto one.yaml" "--resume auto one.yaml" \
        "one.yaml --resume auto" "--resume run/step-00000004 one.yaml" "one.yaml --resume run/step-00000004" \
        "--resume one.yaml --json"; do
        rm -rf run
        cp -a "$G/ended" run
        cp "$G/one.yaml" .
        # shellcheck disable=SC2086 # words
        paro-train -d "$TEXT" -o run --steps 5 $words > out 2> said
        [ "$(readlink run/latest)" = step-00000005 ]
        grep -q "resumes from 'run/step-00000004' at step 5 of 5" said
        i=$((i + 1))
    done
    [ $i = 8 ]
    refuses 2 "'c' PLAN -d DATA -o DIR" paro-train --resume a b c -d x -o y
    refuses 2 "open 'auto' No such" paro-train --resume auto -d x -o y
    # Without a plan the word is the value, as ever.
    paro-train --print-config --resume auto -o run | cmp - run/settings.yaml
    paro-train --print-config --resume "$G/ended" | cmp - "$G/ended/settings.yaml"
}

@test "a run says in one line what it did and where its checkpoint is" {
    t -o run --steps 2
    [ "$(wc -l < said)" = 1 ]
    has_words "$(cat said)" "paro-train: done: steps 1 to 2, loss $(tail -n 1 out | awk '{ print substr($2, 1, 5) }') checkpoint 'run/step-00000002'"
    t -o run --resume --steps 3
    [ "$(wc -l < said)" = 2 ]
    has_words "$(tail -n 1 said)" "paro-train: done: step 3, checkpoint 'run/step-00000003'"
    t -o run --resume --steps 3
    [ "$(cat said)" = "paro-train: done before: step 3 of 3; checkpoint 'run/step-00000003'" ]
    [ ! -s out ]
    # Standard output is as it was.
    t -o json --steps 2 --json
    cmp out json/log.jsonl
}

@test "a resume says how the learning rate changes" {
    cp -a "$G/ended" run
    # Four steps of a cosine from 3e-4 to 3e-5 are over; of eight it is half way at the fifth.
    t -o run --resume --steps 8
    has_words "$(head -n 1 said)" "paro-train: resumes 'run/step-00000004' step 5 of 8; rate step 5: 3e-05 -> 0.000113338"
    grep -qE '^\{"step":5,.*"lr":(0.00011333|1.1333[0-9]*e-)' run/log.jsonl
    # The same settings, or others that leave the rate alone.
    t -o again --resume "$G/ended/step-00000002"
    [ "$(head -n 1 said)" = "paro-train: resumes from '$G/ended/step-00000002' at step 3 of 4" ]
    t -o save --resume "$G/ended/step-00000002" --save-every 1 --keep 9
    [ "$(head -n 1 said)" = "paro-train: resumes from '$G/ended/step-00000002' at step 3 of 4" ]
    # The rate and the schedule.
    t -o lr --resume "$G/ended/step-00000002" --schedule constant --lr 1e-3
    has_words "$(head -n 1 said)" "step 3 of 4; rate step 3: 6.95406e-05 -> 0.001"
    # With a constant rate more steps change nothing.
    t -o lr --resume --steps 6
    [ "$(head -n 1 said)" = "paro-train: resumes from 'lr/step-00000004' at step 5 of 6" ]
    # With wsd, of which half was decay: it rises again, and falls later.
    t -o wsd --steps 4 --schedule wsd --decay 0.5 --lr 1e-3 --min-lr 0
    t -o wsd --resume --steps 8
    has_words "$(head -n 1 said)" "rate step 5: 0 old -> 0.00075"
}

@test "a resume under another global batch says where the data continue" {
    cp -a "$G/ended" run
    plan twice synth:1x1 --seq 32 --accum 2
    paro-train twice.yaml -d "$TEXT" -o run --resume --steps 5 > out 2> said
    one_warning "'run/step-00000004' trained 4 sequences in 4 steps, plan 2 a step: data continue after 8"
    # The same batch in other parts is no other.
    paro-train twice.yaml -d "$TEXT" -o same --steps 2 > out
    plan whole synth:1x1 --seq 32 --micro-batch 2
    paro-train whole.yaml -d "$TEXT" -o same --resume --steps 3 > out 2> said
    no_warning said
}

@test "--resume=auto: a damaged newest checkpoint is skipped, and the one before it taken" {
    local how
    paro-train "$G/one.yaml" -d "$TEXT" -o whole --steps 6 --save-every 2 --keep 9 > out
    for how in hurt rm shard cut; do
        rm -rf run
        cp -a whole run
        case $how in
        hurt) hurt run/step-00000006/shard-00000.safetensors ;;
        rm) rm -r run/step-00000006 ;;
        shard) rm run/step-00000006/shard-00000.safetensors ;;
        cut) truncate -s -10 run/step-00000006/manifest.json ;;
        esac
        t -o run --resume --steps 6
        [ "$(wc -l < said)" = 3 ]
        has_words "$(head -n 1 said)" "paro-train: 'run/step-00000006' damaged, skipped: run/latest"
        has_words "$(sed -n 2p said)" "resumes 'run/step-00000004' step 5 of 6"
        # The same steps with the same bits, and the checkpoint is whole again.
        diff <(bits whole/log.jsonl) <(bits run/log.jsonl)
        paro-shard verify run
        paro-shard diff whole run
    done
    # What is damaged is named.
    rm -rf run
    cp -a whole run
    hurt run/step-00000006/shard-00000.safetensors
    hurt run/step-00000004/shard-00000.safetensors
    t -o run --resume --steps 7
    one_warning "paro-train: 'run/step-00000006' 1 older damaged, skipped: shard-00000.safetensors: 'lm_head.weight' elements checksum expected"
    [ "$(readlink run/latest)" = step-00000007 ]
    [ "$(bits run/log.jsonl | wc -l)" = 7 ]
    # Where none is whole, the newest is named, and nothing has changed.
    rm -rf run
    cp -a "$G/ended" run
    hurt run/step-00000002/shard-00000.safetensors
    hurt run/step-00000004/shard-00000.safetensors
    cp -a run before
    refuses 2 "run/latest/shard-00000.safetensors damaged" paro-train "$G/one.yaml" -d "$TEXT" -o run --resume
    diff -r before run
    # A checkpoint that is given is taken or refused.
    refuses 2 "shard-00000.safetensors damaged" \
        paro-train "$G/one.yaml" -d "$TEXT" -o run --resume run/step-00000004
    # Whole, but not what this run asks for: no damage, and no older one.
    refuses 2 "seed 1, expected 2" paro-train "$G/one.yaml" -d "$TEXT" -o whole --resume --seed 2
}

@test "--dry-run: everything is checked and summed up, nothing trained or written" {
    t -o run --dry-run --steps 1000 --schedule wsd
    [ ! -e run ]
    no_warning said
    [ "$(wc -l < out)" = 5 ]
    has_words "$(cat out)" 'plan NNN 1 rank 1 group; llama, data 108894 tokens sequences of 32; 32 tokens a step, 0.294 epochs 1000 steps
        rate 0.0003, 0 steps wsd 3e-05 memory MiB states MiB buffers start fresh seed 1'
    cp -a "$G/ended" run
    t -o run --dry-run --resume --steps 8
    diff -r "$G/ended" run
    has_words "$(tail -n 1 out)" "start step 5 of 8, 'run/step-00000004'; rate step 5: 3e-05 -> 0.000113338"
    t -o new --dry-run --init run --json
    [ "$(wc -l < out)" = 1 ]
    [ ! -e new ]
    perl -MJSON::PP -0e '$d = decode_json(<>);
        die unless $d->{schema} eq "paro.train.dry/1" && $d->{strategy} eq "NNN" && $d->{ranks} == 1 &&
            $d->{data_tokens} == 108894 && $d->{step_tokens} == 32 && $d->{first_step} == 1 &&
            $d->{steps} == 100 && $d->{checkpoint} eq "run/latest" && $d->{buffer_bytes} > 0' out
    # The states are what the run's log has.
    grep -q "\"state_bytes\":$(grep -oE '"state_bytes":[0-9]+' out | grep -oE '[0-9]+')," run/log.jsonl
    # All that a run refuses.
    local d=("$G/one.yaml" --dry-run)
    refuses 2 "'run' has run expected --resume=auto --force" paro-train "${d[@]}" -d "$TEXT" -o run
    refuses 2 "cannot open 'none' No such" paro-train "${d[@]}" -d none -o new
    refuses 2 "2 ranks 1" paro-train "$G/two.yaml" --dry-run -d "$TEXT" -o new
    refuses 2 "'run/none' No such" paro-train "${d[@]}" -d "$TEXT" -o new --init run/none
    sed 's/^accum: .*/accum: 1048576/' "$G/one.yaml" > many.yaml
    refuses 2 "1048576 micro-steps, expected at most" paro-train many.yaml --dry-run -d "$TEXT" -o new
    refuses 2 "seed 1, expected 2" paro-train "${d[@]}" -d "$TEXT" -o run --resume --seed 2
    [ ! -e new ]
    diff -r "$G/ended" run
}

@test "--dry-run: what the ranks of a host need together is there" {
    # More than any machine has, in memory that nobody touches.
    sed 's/^micro_batch: .*/micro_batch: 4096/; s/^accum: .*/accum: 1/' "$G/one.yaml" > big.yaml
    sed 's/^seq: .*/seq: 512/' big.yaml > huge.yaml
    local rc=0
    paro-train huge.yaml -d "$TEXT" -o new --dry-run > out 2> said || rc=$?
    [ $rc = 2 ] || skip "this machine has the memory"
    grep -qE '^paro-train: .*(of memory|bytes)' said
    [ ! -e new ] && [ ! -s out ]
}

# bats test_tags=full
@test "several ranks: a dry run, a resume past a damaged checkpoint" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o run --dry-run > out 2> said
    has_words "$(cat out)" "plan NGG 2 ranks 2 groups 128 tokens a step"
    [ "$(wc -l < out)" = 5 ]
    [ ! -e run ]
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o whole --steps 4 --save-every 2 > out 2> said
    for shard in 0 1; do
        rm -rf run
        cp -a whole run
        hurt run/step-00000004/shard-0000$shard.safetensors
        mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o run --resume > out 2> said
        grep -q "^paro-train: checkpoint 'run/step-00000004' is damaged, skipped: rank" said
        diff <(bits whole/log.jsonl) <(bits run/log.jsonl)
        paro-shard diff whole run
    done
}
