# SPDX-License-Identifier: BSD-3-Clause
# paro-shard split and reshard: copies, other types, progress, links, files with holes.

load shard

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o model
    echo 'not read, kept' > model/tokenizer.txt
    paro-plan -m model -i synth:2x2 --strategy IIG > a.yaml
    paro-plan -m model -i 'synth:[2,1]' --strategy GGG > b.yaml
    paro-shard split model -p a.yaml -o split.a
    paro-shard split model -p b.yaml -o split.b
    # A folder of another type, made by merge from the checkpoint alone.
    for t in bf16 f16 f64; do paro-shard merge split.a --type $t -o as.$t; done
}

# splits_not WORDS ARGUMENT...: split to x is refused, and nothing of x is left.
splits_not() {
    refuses 2 "$1" paro-shard split "${@:2}" -o x
    [ -z "$(find . -name x -o -name .x.paro-tmp)" ]
}

@test "copies: each file again, of split and of reshard; without them what it was" {
    paro-shard split "$G/model" -p "$G/a.yaml" --copies 1 -o one
    [ "$(find one -name 'shard-*.copy-*' | wc -l)" = 4 ]
    for r in 00000 00001 00002 00003; do
        cmp "$G/split.a/shard-$r.safetensors" one/shard-$r.safetensors
        cmp one/shard-$r.safetensors one/shard-*.copy-$r.safetensors
    done
    cmp one/manifest.json one/copy-1/manifest.json
    paro-shard verify one
    paro-shard reshard "$G/split.b" -p "$G/a.yaml" --copies 1 -o two
    diff -r one two
    # Those of the source are not carried on, unless asked for.
    paro-shard reshard one -p "$G/b.yaml" -o none
    diff -r "$G/split.b" none
    splits_not '4 copies, 0 to 3' "$G/model" -p "$G/a.yaml" --copies 4
    refuses 2 '3 copies, 0 to 2' paro-shard reshard one -p "$G/b.yaml" --copies 3 -o x
    [ ! -e x ] && [ ! -e .x.paro-tmp ]
}

@test "another type: what a folder of that type would have given, but for what merge keeps" {
    local t
    for t in bf16 f16 f64; do
        paro-shard split "$G/as.$t" -p "$G/b.yaml" -o want
        paro-shard split "$G/model" -p "$G/b.yaml" --type $t -o x
        paro-shard reshard "$G/split.a" -p "$G/b.yaml" --type $t -o y
        diff -r x y
        for f in want/shard-*; do cmp "$f" "x/$(basename "$f")"; done
        cmp want/config.json x/config.json
        [ "$(cd x/source && find . -type f)" = ./files/tokenizer.txt ]
        paro-shard merge x -o back
        diff -r "$G/as.$t" back
        rm -r want x y back
    done
    # Its own type is no conversion.
    paro-shard split "$G/model" -p "$G/b.yaml" --type f32 -o x
    diff -r "$G/split.b" x
}

@test "files with holes give files with holes, of the same bytes" {
    cp -r "$G/model" holes
    local at
    at=$(($(od -An -tu8 -N 8 holes/model.safetensors) + 8))
    truncate -s "$at" holes/model.safetensors
    truncate -s "$(stat -c %s "$G/model/model.safetensors")" holes/model.safetensors
    cp --sparse=never -r holes full
    [ "$(stat -c '%b' holes/model.safetensors)" -lt "$(stat -c '%b' full/model.safetensors)" ] || skip "no holes on this disk"
    paro-shard split holes -p "$G/a.yaml" -o h
    paro-shard split full -p "$G/a.yaml" -o f
    diff -r h f
    [ $((4 * $(du -k h/shard-00000.safetensors | cut -f 1))) -lt "$(du -k f/shard-00000.safetensors | cut -f 1)" ]
    paro-shard reshard h -p "$G/b.yaml" -o hb
    paro-shard reshard f -p "$G/b.yaml" -o fb
    diff -r hb fb
    paro-shard merge hb -o back
    diff -r full back
    [ $((4 * $(du -k back/model.safetensors | cut -f 1))) -lt "$(du -k full/model.safetensors | cut -f 1)" ]
}

@test "a file that is written to while it is read is refused" {
    touched() { # FILE COMMAND...
        # The plan, which comes late, and the config are read before the weights are looked at.
        (while [ ! -e stop ]; do touch "$1"; done) &
        local rc=0
        for _ in 1 2 3 4 5; do
            rc=0
            "${@:2}" 2> said || rc=$?
            [ "$rc" != 2 ] || break
            rm -r x
        done
        : > stop
        wait
        rm stop
        [ "$rc" = 2 ]
        one_line "paro-shard: $1: changed"
        [ ! -e x ] && [ ! -e .x.paro-tmp ]
    }
    cp -r "$G/model" moving
    touched moving/model.safetensors paro-shard split moving -p "$G/a.yaml" -o x
    paro-plan -m "$G/model" -i synth:2x1 --trainable lora=2,targets=q_proj > lora.yaml
    paro-shard split "$G/model" -p lora.yaml -o lora
    paro-shard merge lora -o adapter
    touched adapter/adapter_model.safetensors \
        paro-shard split "$G/model" -p lora.yaml --adapter adapter -o x
}

@test "progress: whole lines where it is asked for, nothing where nobody looks" {
    paro-shard split "$G/model" -p "$G/a.yaml" -o from 2> said
    [ ! -s said ]
    paro-shard reshard from -p "$G/b.yaml" --progress always -o y 2> said
    # It may be over before half a second is.
    if grep -qvE '^reshard [0-9]+ %  ~[0-9]+:[0-9]{2}:[0-9]{2} left$' said; then return 1; fi
}

@test "memory stays bounded by the buffer and the headers, tensors of hundreds of megabytes or not" {
    [ -z "$SAN" ] || skip "sanitizers take memory of their own"
    VOCAB=100000 HIDDEN=1024 INNER=2816 LAYERS=24 OUT=$PWD sh "$BATS_TEST_DIRNAME/../bench/shard_memory.sh" > out
    cat out
    [ "$(grep -c '^[a-z]' out)" = 3 ]
}

@test "what is read is never in what is replaced" {
    mkdir a
    cp -r "$G/model" a
    refuses 2 "a/model' inside 'a'" paro-shard split a/model -p "$G/a.yaml" -o a --force
    refuses 2 "model.safetensors' inside 'a/model'" \
        paro-shard split a/model/model.safetensors -p "$G/a.yaml" -o a/model --force
    cp -r "$G/split.a" a
    refuses 2 "a/split.a' inside 'a'" paro-shard merge a/split.a -o a --force
    diff -r a/model "$G/model"
    paro-shard merge a/split.a -o a/model --force
    diff -r a/model "$G/model"
}

@test "adapters that are read are never in what is replaced" {
    paro-plan -m "$G/model" --trainable lora=2,alpha=2,targets=q_proj -i synth:1x1 > lora.yaml
    paro-shard split "$G/model" -p lora.yaml -o lora
    mkdir b
    paro-shard merge lora -o b/adapter
    cp -r b was
    refuses 2 "b/adapter' inside 'b'" \
        paro-shard split "$G/model" -p lora.yaml --adapter b/adapter -o b --force
    diff -r was b
}

# model_folder NAME: a folder of its own, which may be changed.
model_folder() {
    mkdir -p "$1"
    cp "$G/model/config.json" "$G/model/model.safetensors" "$1"
}

@test "a link that leads out of the folder is refused, weights and hub snapshots too" {
    model_folder m
    mkdir m/sub m-other
    echo secret > m-other/secret
    echo inside > m/sub/file
    ln -s sub/file m/near
    ln -s "$PWD/m/sub/file" m/whole
    paro-shard split m -p "$G/a.yaml" -o in
    paro-shard merge in -o back
    diff -r m back
    ln -s "$PWD" link
    paro-shard split link/m -p "$G/a.yaml" -o in2 # the folder itself is the user's word
    diff -r in in2
    local to
    for to in ../m-other/secret "$PWD/m-other/secret" /etc/passwd sub/../../m-other/secret; do
        ln -sfn "$to" m/out
        splits_not 'm/out: link out of folder' m -p "$G/a.yaml"
    done
    rm m/out
    mv m/model.safetensors m-other
    ln -s ../m-other/model.safetensors m/model.safetensors
    splits_not 'm/model.safetensors: link out of folder' m -p "$G/a.yaml"
    paro-shard split m/model.safetensors -p "$G/a.yaml" -o alone # named by the user
    paro-shard verify m
    # As the Hugging Face hub keeps a model.
    local hub=hub/models--org--name
    mkdir -p $hub/blobs $hub/snapshots/rev/sub $hub/refs hub/models--org--other/blobs
    cp "$G/model/config.json" $hub/blobs/1
    cp "$G/model/model.safetensors" $hub/blobs/2
    ln -s ../../blobs/1 $hub/snapshots/rev/config.json
    ln -s ../../blobs/2 $hub/snapshots/rev/model.safetensors
    ln -s ../../../blobs/1 $hub/snapshots/rev/sub/again.json
    paro-shard split $hub/snapshots/rev -p "$G/a.yaml" -o hub.ckpt
    paro-shard merge hub.ckpt -o hub.back
    diff -r $hub/snapshots/rev hub.back
    cp $hub/blobs/1 hub/models--org--other/blobs/1
    cp $hub/blobs/1 $hub/refs/main
    for to in ../../../models--org--other/blobs/1 ../../refs/main /etc/passwd; do
        ln -sfn $to $hub/snapshots/rev/out
        splits_not "$hub/snapshots/rev/out: link out of folder" $hub/snapshots/rev -p "$G/a.yaml"
    done
}

@test "links to folders, and more files than the limit, are refused before anything is read" {
    model_folder m
    mkdir m/a
    echo x > m/a/file
    ln -s a m/b
    splits_not 'm/b: link to a folder' m -p "$G/a.yaml"
    rm m/b
    # Each of these would be entered again below all the others.
    local i
    for i in $(seq 8); do
        ln -s . "m/a/loop$i"
    done
    splits_not 'm/a/loop link to a folder' m -p "$G/a.yaml"
    rm m/a/loop*
    paro-shard split m -p "$G/a.yaml" --max-files 3 -o kept # config.json, a, a/file
    splits_not "'m' 2 files (--max-files)" m -p "$G/a.yaml" --max-files 2
    mkdir -p m/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16
    paro-shard split m -p "$G/a.yaml" -o deep
    mkdir m/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17
    splits_not '16 folders deep' m -p "$G/a.yaml"
}

@test "what is copied keeps its mode, in the checkpoint, its copies and what is merged" {
    model_folder m
    echo secret > m/secret
    echo run > m/run.sh
    chmod 600 m/secret
    chmod 755 m/run.sh
    chmod 440 m/config.json
    umask 022
    paro-shard split m -p "$G/a.yaml" --copies 1 -o c
    paro-shard reshard c -p "$G/b.yaml" --copies 1 -o r
    paro-shard repair c -o whole > out
    paro-shard merge r -o back
    local dir
    for dir in c/source/files c/copy-1/source/files r/source/files whole/copy-1/source/files back; do
        [ "$(cd $dir && stat -c %a secret run.sh config.json | tr '\n' ' ')" = "600 755 440 " ] || {
            ls -l $dir
            return 1
        }
    done
}

@test "a signal ends a long copy of what lies beside the weights" {
    model_folder m
    truncate -s 1T m/holes || skip "no files of that size here"
    paro-shard split m -p "$G/a.yaml" -o x > out 2> said &
    local pid=$! rc=0
    soon test -s .x.paro-tmp/source/files/holes
    kill -TERM $pid
    gone() { ! kill -0 "$pid" 2> no; }
    soon gone || kill -KILL $pid # it went on
    wait $pid || rc=$?
    [ "$rc" = $((128 + 15)) ]
    [ ! -s said ]
    [ ! -e x ] && [ ! -e .x.paro-tmp ]
}
