# SPDX-License-Identifier: BSD-3-Clause
# A folder in which several users may make names: what one of them has put there is refused by
# name, and leads nobody to write elsewhere.  65534 prepares, root and 65533 run the commands.
# shellcheck disable=SC2016,SC2086

load train
load shard

setup_file() {
    runs_begin
    paro-shard init -m "$MODELS/llama-tiny.json" --seed 1 -o model
    plan grid synth:2x1
    paro-shard split model -p grid.yaml --copies 1 -o ckpt
}

# Where all three users come: `open`, `sticky`, and `victim`, which all may write.
users_begin() {
    [ "$(id -u)" = 0 ] || skip "this takes root"
    command -v setpriv > /dev/null || skip "no setpriv here"
    open_place
    mkdir -m 777 open
    mkdir -m 1777 sticky
    cp "$BIN/paro-shard" "$BIN/paro-train" "$MODELS/llama-tiny.json" "$G/text" "$G"/*.yaml .
    cp -r "$G/model" "$G/ckpt" .
    PATH=$PWD:$PATH
    export TMPDIR=$PWD/sticky # a launcher's
    printf old > victim
    chmod 666 victim
    run_as_user paro-shard verify ckpt || skip "others cannot come to $PWD"
}

# refused WORDS COMMAND...: by root and by 65533; nobody's file is touched.
refused() {
    local uid
    for uid in 0 65533; do
        refuses 2 "$1" as $uid timeout -k 1 60 "${@:2}" || return
        [ "$(cat victim)" = old ] || { echo "written by $uid: ${*:2}"; return 1; }
    done
}

# writers FOLDER: a command for every verb that writes a folder, to FOLDER/x.
writers() {
    printf '%s -o %s/x\n' 'init -m llama-tiny.json' "$1" "split model -p grid.yaml" "$1" \
        "merge ckpt" "$1" "reshard ckpt -p grid.yaml" "$1" "repair ckpt" "$1"
}

@test "another user's temporary folder: refused by name, and left as it is" {
    users_begin
    for dir in open sticky; do
        trap=$dir/.x.paro-tmp
        run_as_user sh -c 'mkdir "$1" && cd "$1" && for f in config.json manifest.json source \
            model.safetensors shard-0000{0,1}.safetensors; do ln -s ../../victim $f; done' - $trap
        was=$(ls -lA --time-style=+ $trap)
        while read -r verb; do
            refused "'$trap' user 65534" paro-shard $verb
            [ ! -e $dir/x ]
            [ "$(ls -lA --time-style=+ $trap)" = "$was" ]
        done < <(writers $dir)
        # Held by him, too: nobody waits.
        (exec setpriv --reuid=65534 --clear-groups flock -F $trap sleep 60) 3>&- &
        until ! flock -n $trap true; do sleep 0.05; done
        refused "$trap" paro-shard init -m llama-tiny.json -o $dir/x
        refused "$trap" paro-shard init -m llama-tiny.json --force -o $dir/x
        kill $!
        wait $! || true
        # Closed to all but root, it is named, too; and a link is no folder.
        chmod 700 $trap
        refused "$trap" paro-shard merge ckpt -o $dir/x
        rm -r $trap
        run_as_user ln -s "$PWD/open" $trap
        refused "$trap" paro-shard merge ckpt -o $dir/x
        rm $trap
        quiet paro-shard merge ckpt -o $dir/x
        diff -r model $dir/x
    done
}

@test "the own temporary folder, which others may write: emptied, and closed to them" {
    users_begin
    mkdir -m 777 open/.x.paro-tmp
    run_as_user ln -s ../../victim open/.x.paro-tmp/config.json
    run_as_user mkdir open/.x.paro-tmp/source
    (umask 027 && quiet paro-shard init -m llama-tiny.json -o open/x)
    [ "$(cat victim)" = old ]
    [ "$(stat -c %a:%u open/x)" = 750:0 ]
    [ ! -L open/x/config.json ]
    [ ! -e open/x/source ]
    # What a killed one leaves nobody else can hold.
    for _ in 1 2 3 4 5 6 7 8; do
        paro-shard split model -p grid.yaml -o open/y &
        until [ -e open/.y.paro-tmp ] || ! kill -0 $! 2> no; do :; done
        kill -KILL $! 2> no || true
        wait $! 2> no || true
        [ ! -e open/.y.paro-tmp ] || break
        rm -rf open/y
    done
    if [ -e open/.y.paro-tmp ]; then
        run ! run_as_user flock -n open/.y.paro-tmp true
        quiet paro-shard split model -p grid.yaml --force -o open/y
        [ "$(stat -c %a open/y)" = 755 ]
    fi
}

@test "names that change while a command runs lead it nowhere else" {
    users_begin
    # Who may rename in the folder puts one of his own in the temporary's place.
    cat > swap << 'END'
while [ -e going ]; do
    mv open/.x.paro-tmp "open/moved.$((n += 1))" 2> /dev/null || continue
    mkdir open/.x.paro-tmp && for f in config.json manifest.json source model.safetensors \
        shard-00000.safetensors shard-00001.safetensors; do ln -s ../../victim open/.x.paro-tmp/$f; done
    sleep 0.01
    rm -rf open/.x.paro-tmp open/x
done
END
    touch going
    run_as_user bash swap 2> no 3>&- &
    for _ in 1 2 3; do
        while read -r verb; do
            rc=0
            timeout -k 1 60 paro-shard $verb > out 2> said || rc=$?
            [ $rc = 0 ] || [ $rc = 2 ] || { cat said; return 1; }
            [ "$(cat victim)" = old ] || { echo "written by $verb"; return 1; }
        done < <(writers open)
    done
    rm going
    wait $! || true
}

# bats test_tags=full
@test "another user's run folder or lock: refused by name, and nothing is put there" {
    users_begin
    train() { refused "$1" paro-train "${@:2}" one.yaml -d text -o open/run --steps 1; }
    for with in '' .lock '.lock log.jsonl latest settings.yaml'; do
        run_as_user sh -c 'mkdir -m 777 open/run && cd open/run && for f in $1; do
            if [ $f = .lock ]; then : > $f; else ln -s ../../victim $f; fi; done' - "$with"
        was=$(ls -lA --time-style=+ open/run)
        for how in '' --resume=auto --force; do
            train "'open/run' user 65534" $how
        done
        [ "$(ls -lA --time-style=+ open/run)" = "$was" ]
        rm -r open/run
    done
    # By a link that is his to what is not.
    mkdir mine
    run_as_user ln -s ../mine open/run
    train "'open/run' user 65534"
    [ -z "$(ls -A mine)" ]
    # A lock is what keeps two apart: not another's.
    mkdir -m 777 sticky/run
    (umask 0 && run_as_user touch sticky/run/.lock)
    refuses 2 "'sticky/run/.lock' user 65534" paro-train one.yaml -d text -o sticky/run --steps 1
    rm -r sticky/run
    # Its own nobody else can hold.
    paro-train one.yaml -d text -o sticky/run --steps 1 > out
    run ! run_as_user flock -n sticky/run/.lock true
    paro-train one.yaml -d text -o sticky/run --resume=auto --steps 2 > out
}

@test "what is written beside a run goes through no link, and waits for no pipe, of another user" {
    users_begin
    mkdir mine
    run_as_user ln -s ../mine open/link
    t=(one.yaml -d text -o open/own --force --steps 1)
    refused "'open/link' user 65534" paro-train "${t[@]}" --tensorboard open/link
    refused "'open/link' user 65534" paro-train "${t[@]}" --tensorboard open/link/sub
    refused "'open/link' user 65534" env PARO_METER=open/link paro-train "${t[@]}"
    [ -z "$(ls -A mine)" ]
    run_as_user mkfifo -m 666 open/pipe
    run_as_user ln -s /dev/null open/null
    run_as_user ln -s pipe open/log
    for name in pipe null log; do
        refused "log 'open/$name' user 65534" paro-train "${t[@]}" --log open/$name
    done
    # Links of this user's, or of the machine's, are fine.
    ln -s mine to
    paro-train "${t[@]}" --tensorboard to --log /dev/stdout | cat > out
    [ -n "$(ls -A mine)" ]
}

# bats test_tags=full
@test "a run's log is no link, and has no other name" {
    printf 'old\n' > victim
    for make in 'ln -s ../victim' 'ln -s ../absent' 'ln victim'; do
        cp -a "$G/ended" run
        rm run/log.jsonl
        [ "$make" != 'ln victim' ] || make='ln ../victim'
        (cd run && $make log.jsonl)
        refuses 2 "log 'run/log.jsonl'" paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto --steps 5
        # One that has no checkpoint yet.
        rm -r run/latest run/step-*
        refuses 2 "log 'run/log.jsonl'" paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 1
        [ "$(cat victim)" = old ]
        [ ! -e absent ]
        rm -r run
    done
    # Under a name of the user's own, likewise; what is no file is written as it is.
    ln -s victim mine.log
    refuses 2 "log 'mine.log'" paro-train "$G/one.yaml" -d "$TEXT" -o run --force --log mine.log --steps 1
    [ "$(cat victim)" = old ]
    paro-train "$G/one.yaml" -d "$TEXT" -o run --log >(cat > piped) --steps 1 > out
    paro-train "$G/one.yaml" -d "$TEXT" -o other --log /dev/null --steps 1 > out
}
