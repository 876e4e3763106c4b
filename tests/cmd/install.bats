# SPDX-License-Identifier: BSD-3-Clause
# make install and uninstall, into a folder; the commands run from there.

bats_require_minimum_version 1.5.0

setup() {
    cd "$ROOT" || exit 1
    D=$BATS_TEST_TMPDIR/root
    put() { BIN=$BIN B=$B PREFIX=/usr DESTDIR=$D sh tests/packaging/install "$@"; }
}

# bats test_tags=full
@test "what is installed is there, runs and can be removed" {
    put
    for c in $(cd "$BIN" && ls -d paro-* horing-check horing-watch 2>/dev/null); do
        "$D/usr/bin/$c" --version | grep -q "^$c "
        [ -f "$D/usr/share/bash-completion/completions/$c" ]
        [ -f "$D/usr/share/zsh/vendor-completions/_$c" ]
        [ -f "$D/usr/share/fish/vendor_completions.d/$c.fish" ]
        ls "$D"/usr/share/man/man[18]/"$c".[18]
    done
    [ -f "$D/usr/lib/libparo.a" ]
    [ -f "$D/usr/include/paro.h" ]
    cmp "$D/usr/lib/libparo.so" "$B/libparo.so" # by way of libparo.so.0, as programs are linked
    [ "$(readlink "$D/usr/lib/libparo.so")" = libparo.so.0 ]
    [[ "$(readlink "$D/usr/lib/libparo.so.0")" =~ ^libparo\.so\.[0-9]+\.[0-9]+\.[0-9]+$ ]]
    grep -qx prefix=/usr "$D/usr/lib/pkgconfig/paro.pc"
    [ -x "$D/usr/lib/paro/libparo-mpi.so" ]
    [ -x "$D/usr/lib/paro/libparo-nccl-plugin.so" ]
    [ "$(PKG_CONFIG_PATH=$D/usr/lib/pkgconfig pkg-config --variable=preloaddir paro)" = /usr/lib/paro ]
    [ -f "$D/usr/share/man/man7/libparo-mpi.7" ]
    [ "$(grep -c @ "$D/usr/lib/pkgconfig/paro.pc")" = 0 ]
    [ -f "$D/usr/share/man/man7/paro.7" ]
    [ -f "$D/usr/share/man/man7/paro-method.7" ]
    [ -f "$D/usr/share/man/man3/paro.3" ]
    (cd "$D/usr/share/doc/paro" && "$D/usr/bin/paro-plan" -m examples/models/llama-tiny.json -i synth:2x2 --list >/dev/null)
    local want=$BATS_TEST_TMPDIR/examples
    cp -r examples "$want"
    sed -i 's|/usr/local/bin/|/usr/bin/|' "$want/health/horing-check.service" "$want/health/nagios.cfg"
    diff -r "$want" "$D/usr/share/doc/paro/examples"
    grep -q '^ExecStart=/usr/bin/horing-check ' "$D/usr/share/doc/paro/examples/health/horing-check.service"
    # Alone it measures nothing, and it takes the part that loads MPI to say so.
    run -3 "$D/usr/bin/horing-check"
    [[ "$output" == "HORING UNKNOWN - one host ('"* ]]
    rm "$D/usr/lib/paro/horing-rounds"
    run -3 "$D/usr/bin/horing-check"
    [[ "$output" == "HORING UNKNOWN - cannot run '"*"/lib/paro/horing-rounds', which measures: No such"* ]]
    put --remove
    [ -z "$(find "$D" ! -type d)" ]
    [ ! -e "$D/usr/share/doc/paro" ]
}

@test "files of others stay when the commands are removed" {
    mkdir -p "$D/usr/bin" "$D/usr/share/fish/vendor_completions.d"
    touch "$D/usr/bin/other" "$D/usr/share/fish/vendor_completions.d/other.fish"
    put
    put --remove
    [ "$(find "$D" -type f | wc -l)" = 2 ]
    [ -d "$D/usr/bin" ]
}

@test "a prefix that is no absolute path is refused" {
    run -2 env PREFIX=here DESTDIR="$D" sh tests/packaging/install
    [ "$output" = "tests/packaging/install: PREFIX is 'here', expected an absolute path" ]
}

@test "a wheel has libparo.so next to the package's files, and the version of the tree" {
    W=$BATS_TEST_TMPDIR
    version=$(sed -n 's/^VERSION *:= *//p' Makefile)
    cp "$B/libparo.so" "$W"
    run -0 python3 lib/python/make_wheel.py "$W"
    [[ "$output" == "$W/paro-$version-py3-none-linux_"*.whl ]]
    mv "$output" "$W/first.whl"
    python3 lib/python/make_wheel.py "$W"
    cmp "$W/first.whl" "$output"
    python3 -m zipfile -e "$output" "$W/in"
    cmp "$B/libparo.so" "$W/in/paro/libparo.so"
    rm "$W/in/paro/libparo.so"
    diff -r -x __pycache__ lib/python/paro "$W/in/paro"
    grep -qx "Version: $version" "$W/in/paro-$version.dist-info/METADATA"
}

# bats test_tags=full
@test "pip installs the wheel, and the folder, in a fresh environment without a network" {
    [ -z "${SAN-}" ] || skip "a sanitizer must come first in the process"
    W=$BATS_TEST_TMPDIR
    python3 -m venv "$W/env" >"$W/log" 2>&1 || skip "cannot make an environment: $(tail -n 1 "$W/log")"
    pip() { "$W/env/bin/pip" --disable-pip-version-check "$@" --no-index --no-cache-dir -q; }
    loaded() { (cd "$W" && env -u PYTHONPATH -u PARO_LIBRARY "$@" "$W/env/bin/python" -c 'import paro.native as p; print(p.lib._name)'); }
    cp "$B/libparo.so" "$W"
    pip install "$(python3 lib/python/make_wheel.py "$W")"
    [[ "$(loaded)" == "$W/env/lib/python3"*/site-packages/paro/libparo.so ]]
    "$W/env/bin/pip" check
    pip install --force-reinstall ./lib/python
    ln -s libparo.so "$W/libparo.so.0"
    [ "$(loaded LD_LIBRARY_PATH="$W")" = libparo.so.0 ]
    pip install --force-reinstall -e ./lib/python
    [[ "$(loaded PARO_LIBRARY="$W/libparo.so")" == "$W/libparo.so" ]]
}
