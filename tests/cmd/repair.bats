#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints with copies: real damage of every kind, found, read around, repaired, or named.

bats_require_minimum_version 1.5.0
load mpi
load shard

setup_file() {
    export MODELS=$BATS_TEST_DIRNAME/../../examples/models
    PATH=$BIN:$PATH
    cd "$BATS_FILE_TMPDIR" || return
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o model
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 2 -o other
    echo 'not read, kept' > model/tokenizer.txt
    cp model/tokenizer.txt other
    paro-plan -m model/config.json -i synth:2x2 --strategy IIG > plan.yaml
    paro-plan -m model/config.json -i 'synth:[2,1,3]' > ragged.yaml
    paro-shard split model -p plan.yaml --copies 1 -o ckpt
    paro-shard split other -p plan.yaml --copies 1 -o other-ckpt
    paro-shard split model -p plan.yaml -o plain
}

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
    G=$BATS_FILE_TMPDIR # what setup_file made: never changed
    cp -r "$G/ckpt" bad
}

# heals TEXT: repair gives back the checkpoint as it was and says TEXT; then all is well.
heals() {
    rm -rf good
    paro-shard repair bad -o good > said
    [ "$(cat said)" = "$1" ] || { cat said; return 1; }
    diff -r "${2:-$G/ckpt}" good
    paro-shard verify good > said
    [ ! -s said ]
}

# refuses TEXT...: the status is 1, TEXT all that is said, and nothing is left.
refuses() {
    rm -rf good
    run -1 paro-shard repair bad -o good
    [ "$output" = "$1" ] || { echo "$output"; return 1; }
    [ ! -e good ] && [ ! -e .good.paro-tmp ]
}

@test "copies: where they lie, each the shard byte for byte" {
    [ "$(cd bad && ls -d shard*)" = "$(printf 'shard-%s.safetensors\n' 00000.copy-00002 00000 \
        00001.copy-00003 00001 00002.copy-00000 00002 00003.copy-00001 00003)" ]
    cmp bad/shard-00002.safetensors bad/shard-00000.copy-00002.safetensors
    cmp bad/manifest.json bad/copy-1/manifest.json
    diff -r bad/source bad/copy-1/source
    # Without copies the manifest has no word of them.
    run -1 grep copies "$G/plain/manifest.json"
    # And a config that was changed is seen there, too.
    cp -r "$G/plain" changed
    sed -i 's/"rope_theta": 10000.0/"rope_theta": 90000.0/' changed/config.json
    run -1 paro-shard verify changed
    [[ "$output" == *"config.json"*"is damaged: checksum "* ]]
    run -2 paro-shard split "$G/model" -p "$G/plan.yaml" --copies 4 -o no
    [ "$output" = "paro-shard: 4 copies, expected 0 to 3: each lies with another of 4 ranks" ]
}

@test "nothing is wrong: it is copied all the same, and that is said" {
    heals 'nothing is damaged: the copy is of what was there'
}

@test "a flipped bit: verify names it and its cure, repair heals it, of the shard or of the copy" {
    flip bad/shard-00002.safetensors 300000
    run -1 paro-shard verify bad
    [[ "$output" == "bad/shard-00002.safetensors: 'model.layers.1.mlp.gate_proj.weight' params, elements [0, 41600) are damaged: checksum "*"; can be repaired from 'shard-00000.copy-00002.safetensors'" ]]
    run -1 paro-shard verify --json bad
    echo "$output" | grep -q '"state":"params","first":0,"end":41600,"repairable":true,"repair_from":"shard-00000.copy-00002.safetensors"'
    paro-shard verify --quick bad > said
    [ ! -s said ]
    heals "shard-00002.safetensors: 'model.layers.1.mlp.gate_proj.weight' params, elements [0, 41600) rebuilt from 'shard-00000.copy-00002.safetensors'"
    rm -r bad && cp -r "$G/ckpt" bad
    flip bad/shard-00000.copy-00002.safetensors 300000
    heals "shard-00000.copy-00002.safetensors: 'model.layers.1.mlp.gate_proj.weight' params, elements [0, 41600) rebuilt from 'shard-00002.safetensors'"
}

@test "cut, gone, a header, small files: all at once, and each in --json" {
    truncate -s -1 bad/shard-00000.safetensors
    rm bad/shard-00003.copy-00001.safetensors bad/source/files/tokenizer.txt
    flip bad/shard-00002.safetensors 12
    flip bad/copy-1/source/headers/model.safetensors 3000
    flip bad/config.json 30
    run -1 paro-shard verify bad
    [ "${#lines[@]}" = 6 ]
    run -1 paro-shard verify --quick bad
    [ "${#lines[@]}" = 5 ] # a flipped bit of source/ has its size
    [ "${lines[1]}" = "bad/shard-00003.copy-00001.safetensors: is missing; can be repaired from 'shard-00001.safetensors'" ]
    heals "shard-00000.safetensors: rebuilt from 'shard-00002.copy-00000.safetensors'
shard-00003.copy-00001.safetensors: rebuilt from 'shard-00001.safetensors'
shard-00002.safetensors: header rebuilt from 'shard-00000.copy-00002.safetensors'
config.json: rebuilt from 'copy-1/config.json'
copy-1/source/headers/model.safetensors: rebuilt from 'source/headers/model.safetensors'
source/files/tokenizer.txt: rebuilt from 'copy-1/source/files/tokenizer.txt'"
    paro-shard repair --json bad -o again > said
    grep -q '^{"schema":"paro.shard.repair/1","lost":\[\],"rebuilt":\[{"file":"shard-00000.safetensors","part":"file","tensor":null,"from":"shard-00002.copy-00000.safetensors"},' said
    diff -r "$G/ckpt" again
}

@test "all that a group held is gone" {
    rm bad/shard-0000[23].*
    paro-shard repair bad -o good > said
    [ "$(wc -l < said)" = 4 ]
    diff -r "$G/ckpt" good
    rm -r bad && cp -r "$G/ckpt" bad
    rm -r bad/shard-0000[01].* bad/manifest.json bad/config.json bad/source
    paro-shard repair bad -o good2 > said
    diff -r "$G/ckpt" good2
}

@test "any two ranks of six in ragged groups, with two copies" {
    paro-shard split "$G/model" -p "$G/ragged.yaml" --copies 2 -o six
    local a b
    for a in 0 1 2 3 4; do
        for b in $(seq $((a + 1)) 5); do
            rm -rf bad good
            cp -r six bad
            rm bad/shard-0000["$a$b"].*
            paro-shard repair bad -o good > said
            diff -r six good
        done
    done
}

@test "another run's shard, manifest or copy of it is not believed" {
    cp "$G/other-ckpt/shard-00001.safetensors" bad/
    paro-shard repair bad -o good > said
    grep -q "^shard-00001.safetensors: 'model.embed_tokens.weight' params, elements " said
    diff -r "$G/ckpt" good
    rm -r bad good && cp -r "$G/ckpt" bad
    cp "$G/other-ckpt/manifest.json" bad/copy-1
    run -1 paro-shard verify bad
    [[ "$output" == "bad/copy-1/manifest.json: is damaged: checksum "*"; can be repaired from 'manifest.json'" ]]
    heals "copy-1/manifest.json: rebuilt from 'manifest.json'"
    rm -r bad && cp -r "$G/ckpt" bad
    cp "$G/other-ckpt/manifest.json" bad
    run -1 paro-shard verify bad
    [[ "$output" == "bad/manifest.json: is damaged: checksum "*"; can be repaired from 'copy-1/manifest.json'" ]]
    heals "manifest.json: rebuilt from 'copy-1/manifest.json'"
    local verb
    for verb in 'merge bad' "reshard bad -p $G/ragged.yaml"; do
        # shellcheck disable=SC2086
        run -2 paro-shard $verb -o no
        [ "$output" = "paro-shard: 'bad/manifest.json' is another checkpoint's, 'bad/copy-1/manifest.json' is that of these shards: paro-shard repair puts it right" ]
    done
    run -2 paro-shard diff bad "$G/ckpt"
    [[ "$output" == "paro-shard: 'bad/manifest.json' is another checkpoint's, "* ]]
    # Of one without copies, too, which does not say that there are any here.
    paro-shard split "$G/other" -p "$G/plan.yaml" -o alone
    cp alone/manifest.json bad
    run -1 paro-shard verify bad
    [[ "$output" == "bad/manifest.json: has "*"; can be repaired from 'copy-1/manifest.json'" ]]
    heals "manifest.json: rebuilt from 'copy-1/manifest.json'"
    run -2 paro-shard merge bad -o no
    [[ "$output" == "paro-shard: 'bad/manifest.json' is another checkpoint's, "* ]]
    # A block that no copy has is no fault of the manifest.
    rm -r bad && cp -r "$G/ckpt" bad
    flip bad/shard-00000.safetensors 1500
    flip bad/shard-00002.copy-00000.safetensors 1500
    run -2 paro-shard merge bad -o no
    [[ "$output" == "paro-shard: bad/shard-0000"*" are damaged: checksum "* ]]
    rm -r bad && cp -r "$G/ckpt" bad
    cp "$G/other-ckpt/manifest.json" bad
    # Alone it would be believed of nothing that is here.
    cp "$G/other-ckpt/manifest.json" bad/copy-1
    rm bad/manifest.json
    run -2 paro-shard merge bad -o no
}

@test "a manifest that is gone or cut" {
    rm bad/manifest.json
    paro-shard merge bad -o back 2> said
    diff -r "$G/model" back
    grep -q "^paro-shard: 'bad' is damaged: 0 blocks and 1 other file were read from copies, " said
    heals "manifest.json: rebuilt from 'copy-1/manifest.json'"
    cp "$G/ckpt/manifest.json" bad
    truncate -s -10 bad/manifest.json
    heals "manifest.json: rebuilt from 'copy-1/manifest.json'"
    # What is whole of one and of the other.
    rm bad/copy-1/config.json
    heals "manifest.json: rebuilt from 'copy-1/manifest.json'
copy-1/config.json: rebuilt from 'config.json'"
    rm bad/copy-1/manifest.json bad/manifest.json
    run -2 paro-shard repair bad -o no
    [ "$output" = "paro-shard: 'bad' has no manifest.json and no copy of one: it is no checkpoint" ]
}

@test "what is damaged in all copies is named, and nothing is written" {
    flip bad/shard-00002.safetensors 300000
    flip bad/shard-00000.copy-00002.safetensors 300000
    run -1 paro-shard verify bad
    [[ "${lines[0]}" == *"; no copy is good: it is lost" ]]
    refuses "shard-00002.safetensors: 'model.layers.1.mlp.gate_proj.weight' params, elements [0, 41600) lost"
    run -1 paro-shard repair --json bad -o good
    [ "$output" = '{"schema":"paro.shard.repair/1","lost":[{"file":"shard-00002.safetensors","part":"elements","tensor":"model.layers.1.mlp.gate_proj.weight","state":"params","first":0,"end":41600}],"rebuilt":[],"ok":false}' ]
    [ ! -e good ]
    # A shard and its copy: each of its tensors, once.
    rm -r bad && cp -r "$G/ckpt" bad
    rm bad/shard-00002.safetensors bad/shard-00000.copy-00002.safetensors
    rm bad/source/files/tokenizer.txt bad/copy-1/source/files/tokenizer.txt
    run -1 paro-shard repair bad -o good
    [ "${lines[0]}" = "shard-00002.safetensors: 'model.embed_tokens.weight' params, elements [8192, 16384) lost" ]
    [ "${lines[-1]}" = "source/files/tokenizer.txt: lost" ]
    [ ! -e good ]
    # One half of it here, the other there.
    rm -r bad && cp -r "$G/ckpt" bad
    flip bad/shard-00002.safetensors 300000
    flip bad/shard-00000.copy-00002.safetensors 600000
    paro-shard repair bad -o good > said
    diff -r "$G/ckpt" good
    # The same disk has an old target: it stays.
    rm -r bad good && cp -r "$G/ckpt" bad
    rm bad/shard-00002.* bad/shard-00000.*
    cp -r "$G/plain" good
    run -1 paro-shard repair bad --force -o good
    diff -r "$G/plain" good
}

@test "without copies: what can be told is rebuilt, the rest is named" {
    rm -r bad && cp -r "$G/plain" bad
    flip bad/shard-00003.safetensors 12
    run -1 paro-shard verify bad
    [[ "$output" == *"; can be written anew" ]]
    heals "shard-00003.safetensors: header written anew" "$G/plain"
    flip bad/shard-00002.safetensors 300000
    refuses "shard-00002.safetensors: 'model.layers.1.mlp.gate_proj.weight' params, elements [0, 41600) lost"
}

@test "onto itself with --force alone, and not inside itself" {
    flip bad/shard-00002.safetensors 300000
    run -2 paro-shard repair bad -o bad
    [ "$output" = "paro-shard: 'bad' exists, expected a new name (or --force)" ]
    run -2 paro-shard repair bad -o bad/in
    [ "$output" = "paro-shard: 'bad/in' lies inside 'bad', expected a place outside" ]
    paro-shard repair bad --force -o bad > said
    diff -r "$G/ckpt" bad
}

@test "who reads takes what is good, and says so once" {
    rm bad/shard-00001.safetensors
    flip bad/shard-00002.safetensors 300000
    flip bad/source/files/tokenizer.txt 1
    paro-shard merge bad -o back 2> said
    diff -r "$G/model" back
    [ "$(wc -l < said)" = 1 ]
    grep -q "^paro-shard: 'bad' is damaged: [0-9]* blocks and 1 other file were read from copies, paro-shard repair rebuilds them; the first: " said
    paro-shard reshard bad -p "$G/ragged.yaml" -o new 2> said
    [ "$(wc -l < said)" = 1 ]
    paro-shard merge new -o back2 2> said
    [ ! -s said ]
    diff -r "$G/model" back2
    paro-shard diff "$G/ckpt" bad > out 2> said
    [ ! -s out ] && [ "$(wc -l < said)" = 1 ]
    mv bad/manifest.json gone
    paro-shard ls bad 2> said | diff - <(paro-shard ls "$G/ckpt")
    grep -q "^paro-shard: 'bad' is damaged: 0 blocks and 1 other file were read from copies, " said
    mv gone bad/manifest.json
    flip bad/shard-00000.copy-00002.safetensors 300000
    run -2 paro-shard merge bad -o no
    [[ "$output" == "paro-shard: bad/shard-0000"*"'model.layers.1.mlp.gate_proj.weight' params, elements [0, 41600) are damaged"* ]]
}

@test "a run begins with what is good, bit for bit" {
    cat /usr/share/common-licenses/GPL-3 > text 2> /dev/null || seq 20000 > text
    run_it() {
        mpirun -np 4 paro-train "$G/plan.yaml" -d text --init "$1" -o "$2" --steps 2 --exact \
            2> "$2.said"
        sed 's/.*"state_hash"/"state_hash"/; s/,.*//' "$2/log.jsonl" > "$2.hash"
    }
    run_it "$G/ckpt" one
    grep -q state_hash one.hash
    rm bad/shard-00001.safetensors
    flip bad/shard-00002.safetensors 300000
    run_it bad two
    cmp one.hash two.hash
    run -1 grep damaged one.said
    [ "$(grep -c "^paro-train: 'bad' is damaged: 1 block and 0 other files were read from copies, " two.said)" = 1 ]
}

@test "too few open files are no damage" {
    # The copies, the originals and what is written: 8 files each, and 8 besides.
    for n in 12 14; do
        run -2 bash -c "ulimit -n $n; exec paro-shard repair '$G/ckpt' -o no"
        [[ "$output" == "paro-shard: cannot open "*": Too many open files" ]]
        [ ! -e no ] && [ ! -e .no.paro-tmp ]
        run bash -c "ulimit -n $n; exec paro-shard merge '$G/ckpt' -o merged"
        [[ "$output" != *damaged* ]]
    done
}
