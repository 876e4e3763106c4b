# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train --exact: the same micro-batches give the same bits, whatever the strategy, the ranks
# and how they are placed, the algorithm, and what is gathered ahead and kept.

load refuses

export DATA=$ROOT/tests/data

# exact RANKS SHAPE MODEL PARAM WIRE: three steps of 40 micro-batches under all 27 strategies; how
# the rest goes round over them is another one each time.
exact() {
    turn=$((${turn:-0} + 1))
    timeout 100 mpirun -np "$1" "$B/mpi/exact_check" "$2" "$DATA/${family-llama_}$3.json" "$4" "$5" 40 3 $turn "${moments:-f32}"
}

# same REFERENCE EXACT-ARGUMENTS: the lines of another launch.
same() {
    exact "${@:2}" > out || { cat out; return 1; }
    [ "$(wc -l < out)" = 3 ]
    diff "$1" out
}

@test "one hash: bf16, ranks 1, 2, 4, 5, 8" {
    exact 1 1x1 untied bf16 bf16 > one
    [ "$(cut -d ' ' -f 2 one | grep -cE '^[0-9a-f]{16}$')" = 3 ]
    [ "$(cut -d ' ' -f 2 one | sort -u | wc -l)" = 3 ] # every step changes the states
    same one 2 2x1 untied bf16 bf16
    same one 4 2x2 untied bf16 bf16
    same one 5 '[3,2]' untied bf16 bf16
    same one 8 4x2 untied bf16 bf16
}

@test "one hash: f32, tied embeddings, ranks 1, 2, 4, 5, 8" {
    exact 1 1x1 tied f32 f32 > one
    same one 2 1x2 tied f32 f32
    same one 4 2x2 tied f32 f32
    same one 5 '[3,2]' tied f32 f32
    same one 8 4x2 tied f32 f32
}

@test "one hash: ranks placed by node" {
    exact 1 1x1 untied f32 f32 > one
    same one 4 0,1,0,1 untied f32 f32
    same one 5 0,1,0,1,0 untied f32 f32
    same one 8 0,1,2,3,0,1,2,3 untied f32 f32
}

# dealt SHAPE RANKS COUNTS: 40 micro-batches, so many to each rank, some to nobody.
dealt() { timeout 100 mpirun -np "$2" "$B/mpi/exact_check" "$1" "$DATA/llama_untied.json" bf16 bf16 40 3 ${#3} f32 0 "$3"; }

@test "one hash: ranks with unequal numbers of micro-batches" {
    exact 1 1x1 untied bf16 bf16 > one
    for counts in 20,1,13,6 0,0,0,40; do
        diff one <(dealt 2x2 4 $counts)
    done
    for counts in 12,3,9,0,16 8,8,8,9,7 1,2,30,4,3; do
        diff one <(dealt '[3,2]' 5 $counts)
    done
    run -2 dealt 2x2 4 20,1,13,5 # not the step's
}

@test "one hash: layers without rotary positions, and matrices in one" {
    for family in smollm3 phi3 gemma3; do
        exact 1 1x1 '' f32 f32 > one
        same one 4 2x2 '' f32 f32
        same one 5 '[3,2]' '' f32 f32
    done
}

# The narrower of the two is what every strategy rounds parameters to: the other may be as it is.
@test "one hash: parameters of one type at rest and of another on the wire" {
    exact 1 1x1 tied bf16 bf16 > one
    same one 1 1x1 tied f32 bf16
    same one 4 2x2 tied bf16 f32
    same one 4 2x2 tied f32 bf16
    same one 5 '[3,2]' tied bf16 f32
    same one 5 '[3,2]' tied f32 bf16
    exact 1 1x1 tied f32 f32 > wide
    run -1 diff one wide # and the types do enter
    run -1 diff one <(exact 1 1x1 untied bf16 bf16)
}

# Groups that train apart: the shape is then a part of the computation.
@test "one hash: periods, of all strategies" {
    while read -r n shape model types samples moments periods; do
        timeout 100 mpirun -np "$n" "$B/mpi/exact_check" "$shape" "$DATA/llama_$model.json" "$types" "$types" \
            "$samples" 4 1 "$moments" "$periods" > out < /dev/null
        local ends=1
        [ "$periods" != 2 ] || ends=2
        [ "$(grep -cE '^[24] [0-9a-f]{16} ' out)" = 2 ]
        [ "$(cut -d ' ' -f 2 out | sort -u | wc -l)" = $((ends + 1)) ]
    done << END
4 2x2 untied bf16 40 f32 2
5 [3,2] tied f32 40 int8 2
6 3x2 tied bf16 48 bf16 2
6 3x2 tied f32 48 f32 2
4 2x2 untied bf16 40 f32 4/2
6 3x2 tied f32 48 f32 3/3
END
}

# Groups are equal in a step that ends, which a checkpoint adds after the agreement, and a stop.
@test "fragments: a resumed run has the bits of one that went on" {
    seq 1 20000 > text
    plan turns 2x2 1 IIG --sync-every 4 --fragments 2
    plan other 2x2 1 NNI --sync-every 4 --fragments 2 --outer I --prefetch 0
    plan whole 2x2 1 GGG
    local t=(-d text --exact --lr 1e-2 --steps 12)
    mpirun -np 4 paro-train turns.yaml "${t[@]}" -o a --save-every 3 > out
    [ "$(cd a && echo step-*)" = 'step-00000009 step-00000012' ]
    steps() { grep "$1" a/log.jsonl | grep -o '"step":[0-9]*' | cut -d : -f 2 | xargs; }
    [ "$(steps state_hash)" = '5 9 12' ]
    # Turns are in steps 1, 3, 5, ...; 5, 9 and 12 end.
    [ "$(steps '"slow_bytes":0,')" = '2 4 6 8 10' ]
    mpirun -np 4 paro-train other.yaml "${t[@]}" -o b --resume a/step-00000009 > out
    diff <(bits a/log.jsonl | tail -n 3) <(bits b/log.jsonl | tail -n 3)
    paro-shard verify a/step-00000009
    mpirun -np 4 paro-train whole.yaml -d text -o c --steps 12 --resume a/step-00000009 > out
    timeout -s INT 60 mpirun -np 4 paro-train turns.yaml -d text -o d --steps 100000000 > out &
    until grep -qs '"step":3' d/log.jsonl; do sleep 0.1; done
    touch d/STOP
    wait %+ || [ $? = 3 ]
    last=$(grep -o '"step":[0-9]*' d/log.jsonl | tail -n 1 | cut -d : -f 2)
    [ $((last % 4)) = 1 ]
    paro-shard verify d
    plan bad 2x2 1 IIG --sync-every 4
    sed 's/^sync_every: 4/&\nfragments: 5/' bad.yaml > worse.yaml
    run -2 paro-train worse.yaml -d text -o e
    [[ $output == *"'fragments' is 5, expected at most sync_every, 4"* ]]
    sed 's/slow_grads: same/slow_grads: bf16/' bad.yaml > worse.yaml
    run -2 paro-train worse.yaml -d text -o e
    [[ $output == *"'outer' is G with gradients in bf16, expected I"* ]]
    run -2 paro-plan -m "$DATA/llama_tied.json" -i synth:2x2 --sync-every 4 --fragments 5
    [[ $output == *"--fragments 5 with --sync-every 4, expected at most as many"* ]]
}

@test "outer steps are of the groups' mean, by Nesterov's momentum" {
    n=4
    for shape in 2x2 '[3,2]' 3x2 0,1,0,1,0,1,0; do
        timeout 100 mpirun -np "$n" "$B/mpi/periods_check" "$shape" "$DATA/llama_tied.json"
        n=$((n + 1))
    done
}

# The bits that round bf16 are a hash of step, unit, element and moment; blocks of int8 lie on a
# grid that every layout's cuts keep to.
@test "one hash: moments in bf16 and int8, ranks 1, 2, 4, 5, 8, placed by slot and by node" {
    for moments in bf16 int8; do
        exact 1 1x1 untied bf16 bf16 > $moments
        same $moments 2 2x1 untied bf16 bf16
        same $moments 4 2x2 untied bf16 bf16
        same $moments 5 '[3,2]' untied bf16 bf16
        same $moments 5 0,1,0,1,0 untied bf16 bf16
        same $moments 8 4x2 untied bf16 bf16
        [ "$(cut -d ' ' -f 2 $moments | sort -u | wc -l)" = 3 ]
    done
    run -1 diff bf16 int8
    run -1 diff bf16 <(moments=f32 exact 1 1x1 untied bf16 bf16)
}

# plan NAME SHAPE ACCUM STRATEGY OPTION...: of the tiny model.
plan() {
    paro-plan -m "$MODELS/llama-tiny.json" -i "synth:$2" --seq 32 --accum "$3" --strategy "$4" \
        "${@:5}" > "$1.yaml"
}

bits() { grep -oE '"(step|loss|grad_norm|state_hash)":[^,}]*' "$1"; }

@test "paro-train: state_hash in the log, on 1, 2 and 4 ranks, and after a resume" {
    seq 1 20000 > text
    plan one 1x1 4 NNN
    plan two 2x1 2 IGG --prefetch 0 --keep 1 --layered 2
    plan four 2x2 1 GGG --prefetch 3 --buckets 1 --keep all --recompute
    local t=(-d text --exact --lr 1e-2)
    paro-train one.yaml "${t[@]}" -o a --steps 4 > out
    [ "$(grep -c '"state_hash":"[0-9a-f]\{16\}"' a/log.jsonl)" = 4 ]
    mpirun -np 2 paro-train two.yaml "${t[@]}" -o b --steps 4 --algo two-level > out
    mpirun -np 4 paro-train four.yaml "${t[@]}" -o c --steps 4 > out
    diff <(bits a/log.jsonl) <(bits b/log.jsonl)
    diff <(bits a/log.jsonl) <(bits c/log.jsonl)
    # The second half on other ranks: `steps` shapes the learning rate, so it is 4 there too.
    mpirun -np 2 paro-train two.yaml "${t[@]}" -o d --steps 4 --save-every 2 > out
    mpirun -np 4 paro-train four.yaml -d text --exact -o e --resume d/step-00000002 --steps 4 > out
    diff <(bits a/log.jsonl | tail -n 8) <(bits e/log.jsonl)
    # Ranks that do not share the global batch equally: 9 of 9 sequences, 9 of 10, 9 of 12.
    plan whole 1x1 9 NNN
    plan third '[2,1]' 3 GGG --global-batch 9 --layered 2 --recompute # 2 micro-batches, 1
    plan fourth 2x2 3 NIG --global-batch 9 --layered 3
    plan fifth '[3,2]' 2 IGG --global-batch 9
    paro-train whole.yaml "${t[@]}" -o g --steps 3 > out
    local n=3
    for p in third fourth fifth; do
        grep -qx 'global_batch: 9' $p.yaml
        mpirun -np $n paro-train $p.yaml "${t[@]}" -o $p --steps 3 > out
        diff <(bits g/log.jsonl) <(bits $p/log.jsonl)
        n=$((n + 1))
    done
    # Ranks of unequal rates, of which one has nothing to compute; a stop, and a resume on equal ones.
    plan slow '[2,1],flops=1e9,flops1=1e8' 3 IGG --global-batch 9 --layered 2
    grep -qx 'micro_batches: \[5, 4, 0\]' slow.yaml
    mpirun -np 3 paro-train slow.yaml "${t[@]}" -o slow --steps 3 --save-every 2 --log slow.jsonl > out
    diff <(bits g/log.jsonl) <(bits slow.jsonl)
    mpirun -np 4 paro-train fourth.yaml -d text --exact -o h --resume slow/step-00000002 --steps 3 > out
    diff <(bits g/log.jsonl | tail -n 4) <(bits h/log.jsonl)
    # Without, sums are as they come, and nothing is said of bits.
    paro-train one.yaml -d text -o f --lr 1e-2 --steps 1 > out
    run -1 grep state_hash f/log.jsonl
}

# A checkpoint has them in f32, from which every layout gets the same bits again.
@test "moments in bf16 and int8: bits after a resume, on other ranks, from and to f32" {
    seq 1 20000 > text
    local t=(-d text --exact --steps 4) at=step-00000002
    plan f32 '[2,1]' 3 IGG --global-batch 4
    mpirun -np 3 paro-train f32.yaml "${t[@]}" --lr 1e-2 -o f32 --save-every 2 > out
    for m in bf16 int8; do
        plan $m 1x1 4 NNN --moments $m
        plan $m-4 2x2 1 GGG --moments $m
        plan $m-3 '[2,1]' 2 NIN --moments $m --global-batch 4 # copies share the reading
        paro-train $m.yaml "${t[@]}" --lr 1e-2 -o $m > out
        mpirun -np 3 paro-train $m-3.yaml "${t[@]}" --lr 1e-2 -o $m-3 --save-every 2 > out
        diff <(bits $m/log.jsonl) <(bits $m-3/log.jsonl)
        mpirun -np 4 paro-train $m-4.yaml "${t[@]}" -o $m-4 --resume $m-3/$at > out
        diff <(bits $m/log.jsonl | tail -n 8) <(bits $m-4/log.jsonl)
        paro-shard verify $m-3/$at
        mpirun -np 4 paro-train $m-4.yaml "${t[@]}" -o $m-a --resume f32/$at > out
        mpirun -np 3 paro-train $m-3.yaml "${t[@]}" -o $m-b --resume f32/$at > out
        diff <(bits $m-a/log.jsonl) <(bits $m-b/log.jsonl)
        run -1 diff <(bits $m/log.jsonl | tail -n 8) <(bits $m-a/log.jsonl)
        mpirun -np 3 paro-train f32.yaml "${t[@]}" -o $m-c --resume $m-3/$at > out
        [ "$(bits $m-c/log.jsonl | wc -l)" = 8 ]
        printf X | dd of=$m-3/$at/shard-00001.safetensors bs=1 seek=20 conv=notrunc status=none
        run -1 paro-shard verify $m-3/$at # int8: the header of shards on the grid
        [[ $output == *'header is damaged'*'can be repaired from the manifest'* ]]
    done
}

# Gradients of 4 bytes and parameters of 2: the bytes that are counted are the plan's.
@test "parameters are sent no wider than they are stored" {
    seq 1 20000 > text
    for s in NNG GGG; do
        plan mixed 2x2 2 $s --param-type bf16 --wire-type f32 --layered 2
        plan narrow 2x2 2 $s --layered 2
        mpirun -np 4 paro-train mixed.yaml -d text -o $s --steps 2 > out
        paro-plan --check $s/log.jsonl
        slow=$(sed -n 's/^  slow_bytes: //p' mixed.yaml)
        awk -v a="$slow" -v b="$(sed -n 's/^  slow_bytes: //p' narrow.yaml)" -v s=$s \
            'BEGIN { exit !(a / b > (s == "NNG" ? 1.499 : 1.332) && a / b < (s == "NNG" ? 1.501 : 1.334)) }'
    done
}

# Without clipping and without skipping, a unit is updated as soon as its own gradient is there.
@test "units that are updated at once get the same bits" {
    seq 1 20000 > text
    plan four 2x2 2 IIG
    local t=(four.yaml -d text --exact --lr 1e-2 --clip 0 --steps 3)
    mpirun -np 4 paro-train "${t[@]}" -o a > out
    mpirun -np 4 paro-train "${t[@]}" -o b --skip-nonfinite 0 > out
    [ "$(bits a/log.jsonl | wc -l)" = 12 ]
    diff <(bits a/log.jsonl) <(bits b/log.jsonl)
    [ "$(grep -o '"slow_bytes":[0-9]*' a/log.jsonl)" = "$(grep -o '"slow_bytes":[0-9]*' b/log.jsonl)" ]
}

# A checkpoint has the moments of each group: what resumes goes on as if it had not ended, under
# other letters, from shards of other ranks, and from a local save.  In other groups it goes on.
@test "periods: a resumed run has the bits of one that went on" {
    seq 1 20000 > text
    plan apart 2x2 1 IIG --sync-every 4
    plan other 2x2 1 NNI --sync-every 4 --outer I --prefetch 0
    plan third '[2,1]' 1 IIG --sync-every 2
    plan whole 2x2 1 GGG
    plan more 3x2 1 GGG
    local t=(-d text --exact --lr 1e-2 --steps 12)
    mpirun -np 4 paro-train apart.yaml "${t[@]}" -o a --save-every 3 > out # due within a period
    ls -d a/step-*
    [ "$(cd a && echo step-*)" = 'step-00000008 step-00000012' ]
    [ "$(grep -c state_hash a/log.jsonl)" = 3 ]
    [ "$(grep -c '"slow_bytes":0,' a/log.jsonl)" = 9 ]
    mpirun -np 4 paro-train other.yaml "${t[@]}" -o b --resume a/step-00000008 > out
    diff <(bits a/log.jsonl | tail -n 5) <(bits b/log.jsonl | tail -n 5)
    paro-shard verify a/step-00000008
    paro-shard reshard a/step-00000008 -p more.yaml -o c
    paro-shard verify c
    paro-shard diff a/step-00000008 c
    run -1 paro-shard diff a/step-00000008 a/step-00000012
    [[ $output == *"/exp_avg.1"* ]]
    mpirun -np 4 paro-train apart.yaml "${t[@]}" -o d --resume c > out
    diff <(bits a/log.jsonl | tail -n 5) <(bits d/log.jsonl | tail -n 5)
    mpirun -np 3 paro-train third.yaml -d text -o e --steps 12 --resume a/step-00000008 > out
    [ "$(grep -c '"slow_bytes":0,' e/log.jsonl)" = 2 ]
    mpirun -np 4 paro-train whole.yaml -d text -o f --steps 12 --resume a/step-00000008 > out
    run -1 grep '"slow_bytes":0,' f/log.jsonl
}

@test "periods: what needs all ranks at each step is refused" {
    seq 1 2000 > text
    plan apart 2x2 1 IIG --sync-every 4
    for with in --against=NNN --trace-step=2 --drop-easy=1; do
        run -2 mpirun -np 4 paro-train apart.yaml -d text -o a --steps 4 "$with"
        [[ $output == *"${with%%=*} with a plan whose groups train apart (sync_every 4), expected one without"* ]]
    done
}
