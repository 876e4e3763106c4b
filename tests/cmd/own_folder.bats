# SPDX-License-Identifier: BSD-3-Clause
# Examples that empty their folder: one that they did not make is left as it is.

load refuses

# A network that cannot be made, so that an example ends after it has its folder.
example() { BIN=$PWD/tools timeout 20 sh "$ROOT/examples/$1.sh" "${@:2}"; }

@test "a folder without the marker of the example is refused, whatever names it" {
    mkdir tools finetune demo other
    kept() { # NAME DIR OPERAND...: the example ends with one line, and the folder is as it was
        run -2 example "$1" "${@:3}"
        has_words "$output" "'$2' exists was not made by ${1##*/}.sh expected a new name"
        [ "${#lines[@]}" = 1 ]
    }
    printf '#!/bin/sh\nexit 9\n' | tee tools/paro-lab tools/paro-plan tools/paro-topo tools/mpirun tools/paro-shard > tools/ompi_info
    chmod 755 tools/*
    for name in demo finetune; do
        echo 'chapter 1' > $name/thesis
        echo 'chapter 1' > other/thesis
        kept $name $name
        kept $name other other
        OUT=other kept $name $name
        [ "$(cat $name/thesis other/thesis)" = $'chapter 1\nchapter 1' ]
        ln -s other link
        kept $name link link
        rm link
    done
    for name in mpirun tuning/measure-ompi; do
        kept $name other other
        [ "$(ls -A other)" = thesis ]
    done
}

@test "a folder of an earlier run is emptied, and no link is followed" {
    mkdir tools keep
    echo 'chapter 1' > keep/thesis
    printf '#!/bin/sh\nexit 9\n' > tools/paro-plan
    chmod 755 tools/*
    run -9 example finetune new
    touch new/old
    ln -s ../keep new/link
    # Another example's is not this one's.
    run -2 example demo new
    [ -e new/old ]
    run -9 example finetune new
    [ ! -e new/old ]
    [ ! -L new/link ]
    [ "$(cat keep/thesis)" = 'chapter 1' ]
    # What makes a marker count is its owner and kind.
    mkdir fake
    ln -s "$PWD/keep/thesis" fake/.made-by-finetune.sh
    run -2 example finetune fake
}
