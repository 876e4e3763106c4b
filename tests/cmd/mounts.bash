# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Mounts that nobody else sees.

# In a test: from here on "${ALONE[@]}" COMMAND... may mount; skips where nobody may.
mounts_begin() {
    ALONE=(unshare -m)
    [ "$(id -u)" = 0 ] || ALONE=(unshare -Ur -m)
    mkdir -p mounted
    "${ALONE[@]}" mount -t tmpfs none mounted 2> why || skip "no mounts here"
    rmdir mounted
    rm why
}

# small_disk RUN AFTER: from here on "${ALONE[@]}" sh inside SIZE ARG... has a disk of SIZE in
# `full`, does RUN with ARG..., then AFTER, and ends with the status of RUN.
small_disk() {
    mounts_begin
    # shellcheck disable=SC2016 # its own shell's
    printf 'mkdir full && mount -t tmpfs -o "size=$1" none full || exit 77\nshift\n%s\nrc=$?\n%s\nexit $rc\n' \
        "$1" "$2" > inside
}
