# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints with copies: real damage of every kind, found, read around, repaired, or named.

load shard

setup_file() {
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
    cd "$BATS_TEST_TMPDIR" || return
    G=$BATS_FILE_TMPDIR # what setup_file made: never changed
    begin ckpt
}

# begin NAME: bad is a copy of it again, and good is absent.
begin() {
    rm -rf bad good
    cp -r "$G/$1" bad
}

# heals WORDS [LIKE]: repair gives back the checkpoint as it was, by a line for each of WORDS;
# then all is well.
heals() {
    rm -rf good
    paro-shard repair bad -o good > said
    [ "$(wc -l < said)" = "$(wc -l <<< "$1")" ] || { cat said; return 1; }
    has_words "$(cat said)" "$1"
    diff -r "${2:-$G/ckpt}" good
    quiet paro-shard verify good
}

# loses WORDS: repair's answer is no, in one line, and nothing is left.
loses() {
    rm -rf good
    finds "$1" paro-shard repair bad -o good
    [ ! -e good ] && [ ! -e .good.paro-tmp ]
}

# The block that flip hits, and its copy.
B41600="'model.layers.1.mlp.gate_proj.weight' params [0, 41600)"

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
    finds "config.json damaged checksum" paro-shard verify changed
    refuses 2 "4 copies, 0 to 3 4 ranks" paro-shard split "$G/model" -p "$G/plan.yaml" --copies 4 -o no
}

@test "nothing is wrong: it is copied all the same, and that is said" {
    heals 'nothing damaged'
}

@test "a flipped bit: verify names it and its cure, repair heals it, of the shard or of the copy" {
    flip bad/shard-00002.safetensors 300000
    finds "bad/shard-00002.safetensors: $B41600 damaged checksum repaired 'shard-00000.copy-00002.safetensors'" \
        paro-shard verify bad
    run -1 paro-shard verify --json bad
    echo "$output" | grep -q '"state":"params","first":0,"end":41600,"repairable":true,"repair_from":"shard-00000.copy-00002.safetensors"'
    quiet paro-shard verify --quick bad
    heals "shard-00002.safetensors: $B41600 'shard-00000.copy-00002.safetensors'"
    begin ckpt
    flip bad/shard-00000.copy-00002.safetensors 300000
    heals "shard-00000.copy-00002.safetensors: $B41600 'shard-00002.safetensors'"
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
    has_words "${lines[1]}" "bad/shard-00003.copy-00001.safetensors: missing repaired 'shard-00001.safetensors'"
    heals "shard-00000.safetensors: 'shard-00002.copy-00000.safetensors'
shard-00003.copy-00001.safetensors: 'shard-00001.safetensors'
shard-00002.safetensors: header 'shard-00000.copy-00002.safetensors'
config.json: 'copy-1/config.json'
copy-1/source/headers/model.safetensors: 'source/headers/model.safetensors'
source/files/tokenizer.txt: 'copy-1/source/files/tokenizer.txt'"
    paro-shard repair --json bad -o again > said
    grep -q '^{"schema":"paro.shard.repair/1","lost":\[\],"rebuilt":\[{"file":"shard-00000.safetensors","part":"file","tensor":null,"from":"shard-00002.copy-00000.safetensors"},' said
    diff -r "$G/ckpt" again
}

@test "all that a group held is gone" {
    rm bad/shard-0000[23].*
    paro-shard repair bad -o good > said
    [ "$(wc -l < said)" = 4 ]
    diff -r "$G/ckpt" good
    begin ckpt
    rm -r bad/shard-0000[01].* bad/manifest.json bad/config.json bad/source
    paro-shard repair bad -o good > said
    diff -r "$G/ckpt" good
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
    grep -q "^shard-00001.safetensors: 'model.embed_tokens.weight' " said
    diff -r "$G/ckpt" good
    begin ckpt
    cp "$G/other-ckpt/manifest.json" bad/copy-1
    finds "bad/copy-1/manifest.json: damaged checksum repaired 'manifest.json'" paro-shard verify bad
    heals "copy-1/manifest.json: 'manifest.json'"
    begin ckpt
    cp "$G/other-ckpt/manifest.json" bad
    finds "bad/manifest.json: damaged checksum repaired 'copy-1/manifest.json'" paro-shard verify bad
    heals "manifest.json: 'copy-1/manifest.json'"
    local verb another="'bad/manifest.json' another checkpoint"
    for verb in 'merge bad' "reshard bad -p $G/ragged.yaml"; do
        # shellcheck disable=SC2086
        refuses 2 "$another 'bad/copy-1/manifest.json' paro-shard repair" paro-shard $verb -o no
    done
    refuses 2 "$another" paro-shard diff bad "$G/ckpt"
    # Of one without copies, too, which does not say that there are any here.
    paro-shard split "$G/other" -p "$G/plan.yaml" -o alone
    cp alone/manifest.json bad
    finds "bad/manifest.json: bytes, repaired 'copy-1/manifest.json'" paro-shard verify bad
    heals "manifest.json: 'copy-1/manifest.json'"
    refuses 2 "$another" paro-shard merge bad -o no
    # A block that no copy has is no fault of the manifest.
    begin ckpt
    flip bad/shard-00000.safetensors 1500
    flip bad/shard-00002.copy-00000.safetensors 1500
    refuses 2 "bad/shard-0000 damaged checksum" paro-shard merge bad -o no
    begin ckpt
    cp "$G/other-ckpt/manifest.json" bad
    # Alone it would be believed of nothing that is here.
    cp "$G/other-ckpt/manifest.json" bad/copy-1
    rm bad/manifest.json
    refuses 2 '' paro-shard merge bad -o no
}

@test "a manifest that is gone or cut" {
    rm bad/manifest.json
    paro-shard merge bad -o back 2> said
    diff -r "$G/model" back
    one_line "paro-shard: 'bad' damaged: 0 blocks 1 other copies"
    heals "manifest.json: 'copy-1/manifest.json'"
    cp "$G/ckpt/manifest.json" bad
    truncate -s -10 bad/manifest.json
    heals "manifest.json: 'copy-1/manifest.json'"
    # What is whole of one and of the other.
    rm bad/copy-1/config.json
    heals "manifest.json: 'copy-1/manifest.json'
copy-1/config.json: 'config.json'"
    rm bad/copy-1/manifest.json bad/manifest.json
    refuses 2 "'bad' no manifest.json copy" paro-shard repair bad -o no
}

@test "what is damaged in all copies is named, and nothing is written" {
    flip bad/shard-00002.safetensors 300000
    flip bad/shard-00000.copy-00002.safetensors 300000
    run -1 paro-shard verify bad
    has_words "${lines[0]}" "no copy lost"
    loses "shard-00002.safetensors: $B41600 lost"
    run -1 paro-shard repair --json bad -o good
    [ "$output" = '{"schema":"paro.shard.repair/1","lost":[{"file":"shard-00002.safetensors","part":"elements","tensor":"model.layers.1.mlp.gate_proj.weight","state":"params","first":0,"end":41600}],"rebuilt":[],"ok":false}' ]
    [ ! -e good ]
    # A shard and its copy: each of its tensors, once.
    begin ckpt
    rm bad/shard-00002.safetensors bad/shard-00000.copy-00002.safetensors
    rm bad/source/files/tokenizer.txt bad/copy-1/source/files/tokenizer.txt
    run -1 paro-shard repair bad -o good
    has_words "${lines[0]}" "shard-00002.safetensors: 'model.embed_tokens.weight' params [8192, 16384) lost"
    has_words "${lines[-1]}" "source/files/tokenizer.txt: lost"
    [ ! -e good ]
    # One half of it here, the other there.
    begin ckpt
    flip bad/shard-00002.safetensors 300000
    flip bad/shard-00000.copy-00002.safetensors 600000
    paro-shard repair bad -o good > said
    diff -r "$G/ckpt" good
    # The same disk has an old target: it stays.
    begin ckpt
    rm bad/shard-00002.* bad/shard-00000.*
    cp -r "$G/plain" good
    run -1 paro-shard repair bad --force -o good
    diff -r "$G/plain" good
}

@test "without copies: what can be told is rebuilt, the rest is named" {
    begin plain
    flip bad/shard-00003.safetensors 12
    finds 'shard-00003.safetensors: header manifest' paro-shard verify bad
    heals 'shard-00003.safetensors: header manifest' "$G/plain"
    flip bad/shard-00002.safetensors 300000
    loses "shard-00002.safetensors: $B41600 lost"
}

@test "onto itself with --force alone, and not inside itself" {
    flip bad/shard-00002.safetensors 300000
    refuses 2 "'bad' exists, --force" paro-shard repair bad -o bad
    refuses 2 "'bad/in' inside 'bad'" paro-shard repair bad -o bad/in
    paro-shard repair bad --force -o bad > said
    diff -r "$G/ckpt" bad
}

@test "who reads takes what is good, and says so once" {
    rm bad/shard-00001.safetensors
    flip bad/shard-00002.safetensors 300000
    flip bad/source/files/tokenizer.txt 1
    paro-shard merge bad -o back 2> said
    diff -r "$G/model" back
    one_line "paro-shard: 'bad' damaged: blocks 1 other copies, paro-shard repair first:"
    paro-shard reshard bad -p "$G/ragged.yaml" -o new 2> said
    [ "$(wc -l < said)" = 1 ]
    paro-shard merge new -o back2 2> said
    [ ! -s said ]
    diff -r "$G/model" back2
    paro-shard diff "$G/ckpt" bad > out 2> said
    [ ! -s out ]
    [ "$(wc -l < said)" = 1 ]
    mv bad/manifest.json gone
    paro-shard ls bad 2> said | diff - <(paro-shard ls "$G/ckpt")
    one_line "paro-shard: 'bad' damaged: 0 blocks 1 other copies"
    mv gone bad/manifest.json
    flip bad/shard-00000.copy-00002.safetensors 300000
    refuses 2 "bad/shard-0000 $B41600 damaged" paro-shard merge bad -o no
}

# bats test_tags=full
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
    grep '^paro-train: ' two.said > said
    one_warning "'bad' damaged: 1 block 0 other copies"
}

@test "too few open files are no damage" {
    # The copies, the originals and what is written: 8 files each, and 8 besides.
    for n in 12 14; do
        refuses 2 'cannot open Too many open files' \
            bash -c "ulimit -n $n; exec paro-shard repair '$G/ckpt' -o no"
        [ ! -e no ]
        [ ! -e .no.paro-tmp ]
        run bash -c "ulimit -n $n; exec paro-shard merge '$G/ckpt' -o merged"
        [[ "$output" != *damaged* ]]
    done
}
