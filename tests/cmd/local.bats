# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train --local-save: what a run resumes from what its hosts keep.  All ranks are on one host here, so
# that one folder has all shards and copies; tests/lab/run_local.bats has several.  The oracle is a run that
# nothing disturbs: with --exact both have the same bits.

load train
load mounts

STEPS=300

setup_file() {
    runs_begin
    local batch=(--seq 32 --global-batch 4 --micro-batch 1)
    plan alone synth:1x1,flops=1e9 "${batch[@]}"
    plan four synth:2x2,flops=1e9 "${batch[@]}" --strategy IGG
    plan ragged 'synth:[2,1],flops=1e9' "${batch[@]}" --strategy NIG
    paro-train alone.yaml -d text -o whole --exact --steps $STEPS --schedule constant > out
    hashes whole > want
    # An earlier state, for the run's folder to have.
    paro-train alone.yaml -d text -o early --exact --steps 4 --schedule constant > out
    # Killed when the hosts have a state of some step, and the run's folder has none.
    G=$BATS_FILE_TMPDIR train 4 four.yaml --save-every 1000 > out 2> said &
    soon has_state
    pkill -KILL -n -f "^paro-train four.yaml -d $BATS_FILE_TMPDIR/text"
    wait $! || true
    has_state
}

hashes() { sed -n 's/.*"step":\([0-9]*\).*"state_hash":"\([0-9a-f]*\)".*/\1 \2/p' "$1/log.jsonl"; }
train() { ranks "$1" paro-train "$2" -d "$G/text" -o run --exact --steps "$STEPS" --schedule constant --local-save local --local-every 5 "${@:3}"; }
kept() { find local -path "*/step-*/manifest.json" | sort | tail -n 1 | xargs -r dirname; }
step_of() { echo $((10#${1##*-})); }

has_state() { [ -n "$(kept)" ]; }

# A copy of what setup_file left.
killed() { cp -a "$G/run" "$G/local" .; }
resumes() { # RANKS PLAN WORDS
    train "$1" "$G/$2" --resume=auto > out 2> said
    grep -q "^paro-train: resumes from " said
    has_words "$(grep '^paro-train: resumes from ' said)" "$3" || { cat said; return 1; }
    cmp "$G/want" <(hashes run)
    [ -z "$(find local -mindepth 1)" ] # the run's last checkpoint is in its folder
}
hurt() { printf xxxxxxxxxxxxxxxx | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") / 2)) conv=notrunc 2> /dev/null; }

@test "killed, and resumed from its host to the last bit; half-written steps are no states" {
    killed
    mkdir "$(kept | sed 's/step-.*/.step-00000299.paro-tmp/')" "$(kept | sed 's/[0-9]*$/00000298/')"
    resumes 4 four.yaml "local copies of 1 host (0 of 4 shards from copies) at step $(($(step_of "$(kept)") + 1)) of $STEPS; lost"
    no_warning said
}

@test "on one rank, on a ragged group, and checked before" {
    killed
    train 1 "$G/alone.yaml" --resume=auto --dry-run > out 2> said
    has_words "$(tail -n 1 out)" "start step $(($(step_of "$(kept)") + 1)) of $STEPS, from local copies of 1 host"
    diff -r "$G/local" local
    resumes 1 alone.yaml "local copies of 1 host"
    rm -rf run local
    killed
    resumes 3 ragged.yaml "local copies of 1 host"
}

@test "a shard that is gone or damaged is read from its copy" {
    killed
    rm "$(kept)/shard-00001.safetensors"
    resumes 4 four.yaml "1 of 4 shards from copies"
    rm -rf run local
    killed
    hurt "$(kept)/shard-00002.safetensors"
    resumes 4 four.yaml "0 of 4 shards from copies"
    grep -qE "is damaged: [1-9][0-9]* blocks? and 0 other files were read from copies" said
}

@test "a shard and its copy are gone: what is lost is read from the same step in the run's folder" {
    killed
    local name
    name=$(basename "$(kept)")
    cp -a "$(kept)" "run/$name"
    ln -s "$name" run/latest
    rm "$(kept)"/shard-00001.safetensors "$(kept)"/shard-*.copy-00001.safetensors
    resumes 4 four.yaml "1 from the run's folder) at step $(($(step_of "$name") + 1))"
}

@test "a shard and its copy are gone, or both damaged: an older step in the run's folder, with a line" {
    killed
    local newest
    newest=$(basename "$(kept)")
    cp -a "$G/early/step-00000004" run
    ln -s step-00000004 run/latest
    cp -a run before
    cp -a local kept
    rm local/*/step-*/shard-00001.safetensors local/*/step-*/shard-*.copy-00001.safetensors
    resumes 4 four.yaml "'run/step-00000004' at step 5 of"
    one_warning "local checkpoint step is not used: 1 of its 4 shards are on no host"
    rm -rf run local
    mv before run
    mv kept local
    hurt "$(kept)/shard-00001.safetensors"
    hurt "$(find "$(kept)" -name 'shard-*.copy-00001.safetensors')"
    resumes 4 four.yaml "'run/step-00000004' at step 5 of"
    one_warning "local checkpoint '$newest' damaged, skipped: rank safetensors checksum"
}

@test "a shard and its copy are damaged, and the run's folder has no checkpoint: a new run from step 1" {
    killed
    find local -name 'shard-00001.safetensors' | while read -r shard; do hurt "$shard"; done
    find local -name 'shard-*.copy-00001.safetensors' | while read -r shard; do hurt "$shard"; done
    train 4 "$G/four.yaml" --resume=auto > out 2> said
    grep -q "starts a new run" said
    grep -q "^paro-train: local checkpoint 'step-[0-9]*' is damaged, skipped: rank" said
    cmp "$G/want" <(hashes run)
}

@test "a full disk, or one that is gone: the run continues without local checkpoints" {
    # shellcheck disable=SC2016 # the other shell's
    small_disk 'mpirun -np 4 paro-train "$1/four.yaml" -d "$1/text" -o run --exact --steps 100 --schedule constant --local-save full --local-every 5' ':'
    "${ALONE[@]}" sh inside 1m "$G" > out 2> said
    [ "$(grep -c "^paro-train: no local checkpoint of step 5: rank [0-9].*No space left on device" said)" = 1 ]
    [ "$(grep -c '^paro-train: no local' said)" = 1 ]
    cmp <(head -n 100 "$G/want") <(hashes run)
}

@test "a new run, and one that has not saved so meanwhile, do not take what an earlier one left" {
    killed
    rm -r run
    train 4 "$G/four.yaml" --resume=auto > out 2> said
    grep -q "starts a new run" said
    cmp "$G/want" <(hashes run)
    rm -r run local
    killed
    ranks 4 paro-train "$G/four.yaml" -d "$G/text" -o run --exact --steps 5 --schedule constant --resume=auto > out 2> said
    train 4 "$G/four.yaml" --resume=auto > out 2> said
    grep -q "resumes from 'run/step-00000005' at step 6" said
    cmp "$G/want" <(hashes run)
}

@test "two runs in one folder; what a dead one left goes, what a living one has stays" {
    killed
    local dead living
    dead=$(dirname "$(kept)")
    living=${dead%.*}.0123456789abcdef
    cp -a "$dead" "$living"
    cp -a "$dead" "${dead%.*}"
    flock "$living/.lock" mpirun -np 4 paro-train "$G/four.yaml" -d "$G/text" -o other --steps 5 --local-save local > out 2> said
    [ ! -e "$dead" ]
    [ -e "$living/$(basename "$(kept)")/manifest.json" ]
    [ -e "${dead%.*}" ]
}

@test "a link, another user's folder, and one that is no run's are neither cleared nor removed" {
    killed
    local base other
    base=$(dirname "$(kept)")
    other=${base%.*}.0123456789abcdef
    mkdir "$other"
    : > "$other/precious"
    mv "$base" elsewhere
    : > elsewhere/precious
    ln -s ../elsewhere "$base"
    refuses 2 "'$base' is a link, a file or another user's, expected a folder" train 4 "$G/four.yaml" --resume=auto
    [ -e elsewhere/precious ]
    rm "$base"
    mv elsewhere "$base"
    train 4 "$G/four.yaml" --resume=auto > out 2> said
    grep -q "resumes from local copies" said
    [ -e "$other/precious" ] && [ ! -e "$base" ]
}

@test "the run's newest checkpoint is damaged, the host's is whole: it is resumed, and saved anew" {
    killed
    cp -a "$G/early/step-00000004" run
    ln -s step-00000004 run/latest
    : > run/latest/manifest.json
    resumes 4 four.yaml "local copies of 1 host"
    rm -rf run local
    killed
    local name
    name=$(basename "$(kept)")
    cp -a "$(kept)" "run/$name"
    ln -s "$name" run/latest
    hurt "run/$name/shard-00000.safetensors"
    STEPS=$(step_of "$name") train 4 "$G/four.yaml" --resume=auto > out 2> said
    grep -q "done before: step $(step_of "$name") of" said
    paro-shard verify run/latest > out
}

@test "a run that stops in good order leaves nothing on its hosts" {
    train 4 "$G/four.yaml" > out 2> said &
    soon has_state
    : > run/STOP
    ends 3 wait $!
    [ -z "$(find local -mindepth 1)" ]
}

@test "what cannot be is refused before the first step, on all ranks" {
    : > file
    refuses 2 "paro-train: rank 0 cannot make folder 'file" ranks 4 paro-train "$G/four.yaml" -d "$G/text" -o run --local-save file
    [ ! -e run ]
    refuses 2 "--local-save '' expected folder" paro-train "$G/one.yaml" -d "$G/text" -o run --local-save ''
    refuses 2 "--local-save --drop-easy" paro-train "$G/one.yaml" -d "$G/text" -o run --local-save local \
        --drop-easy 10 --drop-easy-at 9000 --steps 9001
    [ ! -e local ]
}
