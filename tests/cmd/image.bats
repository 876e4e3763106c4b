# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=long
# make image: the layout, and two ranks inside its root file system.

bats_require_minimum_version 1.5.0

@test "an image is written from the packages, and runs" {
    cd "$ROOT" || exit 1
    [ "$(id -u)" = 0 ] || skip "not root"
    for c in debootstrap dh; do
        command -v "$c" >/dev/null || skip "$c is not installed"
    done
    export O=$BATS_TEST_TMPDIR
    sh tests/packaging/dist --deb >"$O/log" 2>&1 || { tail "$O/log"; false; }
    sh tests/packaging/image
    run -0 sh tests/packaging/debian/try-image "$O/image"
    [ "${lines[-1]}" = "the image runs" ]
}
