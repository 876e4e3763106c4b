# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# make dist and make deb, in a copy of the tree: the tarball, and the packages as their users have them.

bats_require_minimum_version 1.5.0
load skip

setup_file() {
    cd "$ROOT" || exit 1
    command -v git >/dev/null || { skip_file "git is not installed"; return; }
    export T=$BATS_FILE_TMPDIR TREE=$BATS_FILE_TMPDIR/tree
    mkdir -p "$TREE" "$T/tarball"
    sh tests/files >"$T/files"
    tar -cT "$T/files" | tar -xC "$TREE"
    cd "$TREE" || exit 1
    git init -q && git add -A &&
        git -c user.name=a -c user.email=a@localhost commit -q -m one --date=2026-01-02T03:04:05Z &&
        O=$T/git sh tests/packaging/dist && tar -xf "$T"/git/paro-*.tar.gz -C "$T/tarball" || return 1
    TARBALL=$(echo "$T"/tarball/paro-*)
    export TARBALL
}

setup() {
    skip_test
    cd "$TREE" || exit 1
}

packages() {
    [ -z "${SAN-}" ] || skip "packages have no sanitizers"
    for c in dpkg-buildpackage dh apt-ftparchive lintian; do
        command -v "$c" >/dev/null || skip "$c is not installed: sh tests/packaging/deps --deb"
    done
}

@test "a commit gives one tarball, whatever the umask, the times and stray files are" {
    touch Makefile stray
    (umask 077 && O=$T/again sh tests/packaging/dist)
    cmp "$T"/git/*.tar.gz "$T"/again/*.tar.gz
    rm stray
    tar -tf "$T"/git/*.tar.gz | sed -n 's,^[^/]*/\(.*[^/]\)$,\1,p' | grep -v ^debian/ | sort | diff <(sort "$T/files") -
}

@test "an unpacked tarball gives the same tarball, without git" {
    cd "$TARBALL"
    mkdir -p bin build/x
    touch bin/x build/x/y
    PATH=$(no_git):$PATH O=$T/self sh tests/packaging/dist
    cmp "$T"/git/*.tar.gz "$T"/self/*.tar.gz
}

# A folder whose git fails.
no_git() {
    mkdir -p "$T/no_git"
    printf '#!/bin/sh\nexit 9\n' >"$T/no_git/git"
    chmod 755 "$T/no_git/git"
    echo "$T/no_git"
}

@test "Maintainer and Homepage are those of the variables, also in the tarball of a tarball" {
    mkdir "$T/named"
    MAINTAINER='Jo Doe <jo@example.org>' HOMEPAGE=https://example.org/paro O=$T/named sh tests/packaging/dist
    tar -xf "$T"/named/*.tar.gz -C "$T/named"
    cd "$T"/named/paro-*/
    grep -qx 'Maintainer: Jo Doe <jo@example.org>' debian/control
    grep -qx 'Homepage: https://example.org/paro' debian/control
    grep -q '^ -- Jo Doe <jo@example.org>  ' debian/changelog
    PATH=$(no_git):$PATH O=$T/named/self sh tests/packaging/dist
    cmp "$T"/named/*.tar.gz "$T"/named/self/*.tar.gz
    run ! grep -E '@[A-Z]|example.org|Homepage' "$TARBALL/debian/control" # without them: an invalid address
    grep -q '^Maintainer: .*\.invalid>$' "$TARBALL/debian/control"
    run -2 env MAINTAINER=Jo O="$T/refused" sh tests/packaging/dist
    [ "$output" = "tests/packaging/dist: MAINTAINER is 'Jo', expected 'NAME <USER@HOST>'" ]
    run -2 env HOMEPAGE=$'https://a\nb' O="$T/refused" sh tests/packaging/dist
    [[ "$output" == "tests/packaging/dist: HOMEPAGE is 'https://a"*", expected https://..." ]]
    [ -z "$(find "$T/refused" -type f)" ]
}

@test "the packages build without git, and lintian finds nothing" {
    packages
    cd "$TARBALL"
    PATH=$(no_git):$PATH sh tests/packaging/dist --deb >"$T/log" 2>&1 || { tail -n 40 "$T/log"; false; }
    (cd build/deb && ls ./*.deb)
    [ "$(cd build/deb && for d in *.deb; do dpkg-deb -f "$d" Package; done | sort | paste -sd' ')" = \
        "libparo-dev libparo0 paro paro-doc paro-preload python3-paro" ]
    [ "$(dpkg-deb -c build/deb/python3-paro_*_all.deb | grep -oE "/dist-packages/paro/[^/]+$|/man7/[^/]+$" | sort | paste -sd' ')" = \
        "/dist-packages/paro/__init__.py /dist-packages/paro/native.py /dist-packages/paro/torch.py /man7/paro-torch.7.gz" ]
    run -0 lintian --allow-root --fail-on error,warning build/deb/*.changes
    [ -z "$output" ]
    dpkg-deb -f build/deb/paro_*.deb Description >"$T/described"
    for c in $(cd "$BIN" && ls -d paro-* horing-check horing-watch); do
        grep -q "^ *\* ${c}[, ]" "$T/described"
    done
}

@test "apt finds the packages and their source in the repository" {
    packages
    mkdir -p "$T/apt/lists" "$T/apt/cache"
    echo "deb [trusted=yes] file:$TARBALL/build/deb ./
deb-src [trusted=yes] file:$TARBALL/build/deb ./" >"$T/apt/list"
    cd "$T/apt"
    apt() {
        apt-get -o Dir::Etc::SourceList="$PWD/list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$PWD/lists" \
            -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
    }
    run -0 apt update
    [[ "$output" != *W:* ]]
    apt install -s paro >said || { cat said; false; }
    grep -q '^Inst paro (' said
    apt source --download-only paro
    cmp paro_*.dsc "$TARBALL"/build/deb/*.dsc
}

@test "programs and libraries of the packages are hardened" {
    packages
    cd "$TARBALL/build/deb"
    for p in paro libparo0 paro-preload; do dpkg-deb -x "$p"_*.deb x; done
    for f in x/usr/bin/paro-plan x/usr/lib/paro/horing-rounds x/usr/lib/*/libparo.so.0 x/usr/lib/*/paro/libparo-mpi.so; do
        readelf -hdlW "$f" >elf
        grep -q 'Type: *DYN' elf   # position-independent
        grep -q GNU_RELRO elf
        grep -q BIND_NOW elf
        nm -D "$f" | grep -q __stack_chk_fail
        nm -D "$f" | grep -qE '__(v?snprintf|memcpy|v?asprintf|vfprintf)_chk'
    done
}

@test "the packages are installed, used and purged" {
    packages
    mkdir "$T/root"
    as=''
    [ "$(id -u)" = 0 ] || as='unshare -r'
    $as true || skip "no user namespaces here"
    # shellcheck disable=SC2086
    run -0 $as sh tests/packaging/debian/try "$TARBALL/build/deb" "$T/root"
    [ "${lines[-1]}" = "installed, used, purged" ]
}
