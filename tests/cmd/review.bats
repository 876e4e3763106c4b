# SPDX-License-Identifier: BSD-3-Clause
# paro-plan --review: ten configurations as others write them, the changes that it proposes, and what it
# refuses.  tests/unit/plan_review_test.c reads back what --emit prints.
# shellcheck disable=SC2086

load refuses
load expect

ON="-m params=8e9 -i synth:8x8,intra=250GB/s,inter=25GB/s,flops=400e12,memory=80e9,device=cuda,compute_type=bf16"

of() { # of FILE [OPTION...]: its review
    paro-plan $ON --review "$@" 2> said
}

@test "ten configurations: letters, what is not priced or has no effect, figures, and cheaper neighbours" {
    cd "$ROOT/tests/data/review"
    for file in zero1-hf.json zero2-offload.json zero3.json zeropp-hpz.json mics.json paro.json fsdp1.yaml \
        hsdp2.yaml titan-hsdp.toml megatron.txt; do
        model="$ON"
        [ $file != fsdp1.yaml ] || model="${ON/params=8e9/$ROOT/examples/models/llama-10m.json}"
        paro-plan $model --review $file 2> "$BATS_TEST_TMPDIR/said"
    done | grep -v '^$\|^   .* \(params\|GiB\) ' | expect configurations
}

@test "the figures are those of --list with the strategy and the settings that the file has" {
    of "$ROOT/tests/data/review/mics.json" | grep '^[*]' > reviewed
    paro-plan $ON --strategy mics --micro-batch 2 --accum 4 --grad-type bf16 --list 2> said | grep '^[*]' |
        cmp - reviewed
    of "$ROOT/tests/data/review/mics.json" --json | perl -MJSON::PP -0777 -ne '
        my $d = decode_json($_); $d->{schema} eq "paro.plan.review/1" && $d->{tool} eq "deepspeed" &&
        $d->{strategy} eq "III" && $d->{cheaper}[0]{strategy} eq "NNG" &&
        exists $d->{cheaper}[0]{settings}{"zero_optimization.mics_shard_size"} or die $_'
}

# Each change of a proposal is made in the file, whose review is then of the proposed strategy.
@test "a file with the proposed changes is what was proposed" {
    cp "$ROOT/tests/data/review/zero3.json" c.json
    of c.json | grep -A 1 '^  III: ' | grep -qx '      zero_optimization.mics_shard_size: 8'
    sed -i 's/"stage": 3,/"stage": 3, "mics_shard_size": 8,/' c.json
    of c.json | grep -q '^c.json: III for DeepSpeed'
    sed 's/SHARD_GRAD_OP/FULL_SHARD/' "$ROOT/tests/data/review/fsdp1.yaml" > c.yaml
    of c.yaml | grep -A 1 '^  III: ' | grep -qx '      fsdp_config.fsdp_sharding_strategy: HYBRID_SHARD (line 9)'
    sed -i 's/FULL_SHARD/HYBRID_SHARD/' c.yaml
    of c.yaml | grep -q '^c.yaml: III for accelerate'
    of "$ROOT/tests/data/review/megatron.txt" > m
    sed -n '/^  IIG: /,/^  [A-Z]/s/^      \(--[^(]*\).*/\1/p' m > others
    [ "$(wc -l < others)" = 2 ]
    cat "$ROOT/tests/data/review/megatron.txt" others > c.txt
    of c.txt | grep -q '^c.txt: IIG for Megatron-LM'
}

@test "groups of the file select the level of the fabric where groups end" {
    for m in 8 32; do
        echo "{\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": $m}}" > c.json
        paro-plan -m params=8e9 -i synth:4x4x8,level2=10GB/s --review c.json 2> said |
            grep -q "^parameters .* shared by the $m ranks of a group"
    done
}

# Lines of other systems, quotes, and an accelerate configuration in JSON.
@test "layouts of files" {
    printf -- '--a "#1 run"\t--bf16 --s "it'"'"'s"\r\n# --fp16\n--micro-batch-size=2 \\\n--use-distributed-optimizer\r\n' > c
    of c | grep -q '^c: NNG for Megatron-LM.* parameters bf16'
    of c | grep -q '^no effect: --a (line 1), --s (line 1)$'
    of c | grep -q 'micro-batch 2 x'
    printf '{"distributed_type": "FSDP", "mixed_precision": "bf16"}' | of - | grep -q '^stdin: GGG for accelerate'
    printf '[training] # c\r\nseq_len = 8_192 # c\r\na = [1,\n  2 # x\n]\n' > c
    of c | grep -q 'micro-batch 8 x 8192'
}

@test "a configuration that does not fit is reviewed with status 1, with neighbours that fit" {
    rc=0
    of "$ROOT/tests/data/review/zero1-hf.json" --mem 30GB > out || rc=$?
    [ $rc = 1 ]
    grep -q '^ NNG .* no ' out
    grep -q '^  III: step' out
}

@test "what cannot be read, or contradicts itself, the fabric or an option, is an error" {
    no() { # no WORDS TEXT [OPTION...]
        local words=$1
        printf '%b' "$2" > c
        shift 2
        refuses 2 "$words" paro-plan $ON --review c "$@"
    }
    no "c:1: 'zero_optimization.stage' 7 expected 0, 1, 2, 3" '{"zero_optimization": {"stage": 7}}'
    no "c:1: mics_shard_size' 8 expected -1 with stage 2" '{"zero_optimization": {"stage": 2, "mics_shard_size": 8}}'
    no "c:1: mics_shard_size' 16 expected -1, 8, 64 8x8" '{"zero_optimization": {"stage": 3, "mics_shard_size": 16}}'
    no "c:1: stage' states what line 1 does" '{"zero_optimization": {"stage": 3, "stage": 2}}'
    no "c:1: paro_strategy' NIN expected NNG" '{"zero_optimization": {"paro_strategy": "NIN"}}'
    no "train_batch_size' 100 expected 128 64 ranks" '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}'
    no "--micro-batch 3 'c' 2 expected one" '{"train_micro_batch_size_per_gpu": 2}' --micro-batch 3
    no "--review --strategy" '{"zero_optimization": {"stage": 3}}' --strategy III
    no "not JSON" '{"zero_optimization": '
    no "begins with expected DeepSpeed accelerate torchtitan Megatron-LM" '{"model_type": "llama"}'
    no "begins with 'hello' expected DeepSpeed" 'hello\n'
    no "begins with '' expected DeepSpeed" ''
    no "c:2: not YAML" 'distributed_type: FSDP\n  a: ['
    no "distributed_type' MEGATRON_LM expected" 'distributed_type: MEGATRON_LM\n'
    no "c:2: num_processes' 8 expected 64" 'distributed_type: FSDP\nnum_processes: 8\n'
    no "c:3: states what line 2 does" 'distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD,\n fsdp_reshard_after_forward: FULL_SHARD}\n'
    no "deepspeed_config_file' z.json expected --review" 'distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: z.json}\n'
    no "c:2: tensor_parallel_degree' 8 expected 1" '[parallelism]\ntensor_parallel_degree = 8\n'
    no "c:1: [[x]] expected table" '[[x]]\n'
    no "c:2: seq_len text of one line" '[training]\nseq_len = """\n1"""\n'
    no "c:1: {b = 1} expected" 'a = {b = 1}\n'
    no "c:1: instances' 8 expected 1" '--bf16 --num-distributed-optimizer-instances 8\n'
    no "c:1: '4 x' whole number" '--micro-batch-size 4 x\n'
    no "c:2: --seq-length' states what line 1 does" '--seq-length 4\n--seq-length 8\n'
    no "c:3: states what line 2 does" '[training]\nbatch_size = 1\nlocal_batch_size = 2\n'
    no "has several values" '{"zero_optimization": {"stage": {"a": 1}}}'
    no "c:1: quote that does not end" '--bf16 --a "x\n--b 1'
    no "begins with '[a]'" '[a]\000\nb = 1'
    no "c:1: is '[training] x'" '[training] x\nseq_len = 1\n'
    refuses 2 "cannot open 'absent'" paro-plan $ON --review absent
    refuses 2 "several standard input" paro-plan -m params=8e9 -i - --review - < /dev/null
}
