# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Runs that drop easy sequences.  Which ones are easy: tests/unit/easy_test.c.

load train

setup_file() {
    runs_begin
    head -c 3000 text > short # 92 sequences of 32
}
setup() {
    own_folder
    SHORT=$G/short
}

# planned NAME SHAPE STRATEGY ACCUM OPTION...
planned() {
    paro-plan -m "$MODELS/llama-tiny.json" -i "synth:$2" --seq 32 --strategy "$3" --accum "$4" "${@:5}" \
        > "$1.yaml"
}

# hashes NAME RANKS ARGS...: of the states after each step
hashes() {
    ranks "$2" paro-train "$1.yaml" -d "$SHORT" -o "$1" --exact --steps 20 --json "${@:3}" |
        sed -n 's/.*"state_hash":"\([0-9a-f]*\)".*/\1/p'
}

EASY=(--drop-easy 60 --drop-easy-at 16) # 92 sequences of 12 a step: 16 steps are two epochs

@test "one hash on any number of ranks, and after a resume before and after the drop" {
    planned one 1x1 NNN 12
    hashes one 1 "${EASY[@]}" --save-every 8 --keep 9 > want
    [ "$(sort -u want | wc -l)" = 20 ]
    planned other '[2,1]' IGG 4 --layered 3
    hashes other 3 "${EASY[@]}" | cmp - want
    for step in 8 16; do
        planned next '[3,2]' GGG 3 --global-batch 12 # 15 places
        rm -rf next
        hashes next 5 --resume "one/step-000000$(printf %02d $step)" > got
        tail -n $((20 - step)) want | cmp - got
    done
    [ "$(stat -c %s next/latest/source/files/sequence-losses.f32)" = $((4 * 16 * 12)) ]
    # Steps up to the drop are those of a run that drops others; then they differ.
    planned fewer 1x1 NNN 12
    hashes fewer 1 --drop-easy 30 --drop-easy-at 16 > got
    head -n 16 want | cmp - <(head -n 16 got)
    [ "$(tail -n 4 want)" != "$(tail -n 4 got)" ]
    paro-shard merge other/latest -o merged
    [ ! -e merged/sequence-losses.f32 ]
}

@test "what is dropped is printed" {
    planned one 1x1 NNN 12
    run -0 --separate-stderr paro-train one.yaml -d "$SHORT" -o one --steps 17 "${EASY[@]}"
    [[ $stderr =~ 'step 16: dropped the 60 easiest of 92 sequences ('[0-9]+' never forgotten, ' ]]
}

@test "impossible drops, and resumes that would drop others" {
    planned one 1x1 NNN 12
    plain=(paro-train one.yaml -d "$SHORT" -o out --steps 20)
    refuses 2 "--drop-easy without --drop-easy-at" "${plain[@]}" --drop-easy 3
    refuses 2 "--drop-easy-at without --drop-easy" "${plain[@]}" --drop-easy-at 30
    refuses 2 "92, expected at most 91" "${plain[@]}" --drop-easy 92 --drop-easy-at 30
    refuses 2 "15, expected at least 16" "${plain[@]}" --drop-easy 3 --drop-easy-at 15
    refuses 2 "expected at most 5592405" "${plain[@]}" --drop-easy 3 --drop-easy-at 1e7
    paro-train one.yaml -d "$SHORT" -o run --steps 18 "${EASY[@]}" --save-every 9 2> /dev/null
    next=(paro-train one.yaml -d "$SHORT" --steps 20 --resume)
    refuses 2 "--drop-easy is 61, expected 60" "${next[@]}" run/step-00000018 -o out --drop-easy 61
    refuses 2 "192 sequences, expected 204" \
        "${next[@]}" run/step-00000018 -o out --drop-easy-at 17
    refuses 2 "192 sequences, expected 0" \
        "${next[@]}" run/step-00000018 -o out --drop-easy 0 --drop-easy-at 0
    refuses 2 "--new-data with --drop-easy" "${next[@]}" run/step-00000009 -o out --new-data
    paro-train one.yaml -d "$SHORT" -o plain --steps 2
    refuses 2 "0 sequences, expected 24" "${next[@]}" plain/latest -o out "${EASY[@]}"
    # A new run with the weights alone has none of them.
    paro-train one.yaml -d "$SHORT" -o new --steps 1 --init run/latest
    [ ! -e new/latest/source/files/sequence-losses.f32 ]
}
