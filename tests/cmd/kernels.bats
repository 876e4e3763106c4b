# SPDX-License-Identifier: BSD-3-Clause
# Every kernel of a device against the double reference: tests/gpu/kern_check.c, here of the
# processor; on a machine with a GPU: build/gpu/kern_check cuda.

@test "the processor's kernels agree with their reference" {
    run "$B/gpu/kern_check" cpu
    [ "$status" = 0 ] || { echo "$output" | grep -v '^ok'; false; }
    [ "$(echo "$output" | grep -c '^ok')" -gt 500 ]
}

@test "kern_check says what it cannot do" {
    run "$B/gpu/kern_check" cpu nothing
    [ "$status" = 1 ]
    echo "$output" | grep -x "Bail out! no group begins with 'nothing'"
}
