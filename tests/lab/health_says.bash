# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # LAB and CHECK are the file's
# How horing-check's answers on emulated fabrics are compared.

# says STATUS PATTERN LAB-OPTION... -- OPTION...: paro-lab with LAB's options and these runs CHECK,
# whose answer has the status and a line of the pattern ("": any), and with ONE_LINE that alone.
says() {
    local want=$1 pattern=$2 lab=() rc=0
    shift 2
    while [ "$1" != -- ]; do
        lab+=("$1")
        shift
    done
    shift
    timeout 60 paro-lab "${LAB[@]}" "${lab[@]}" -- "${CHECK[@]}" "$@" >out 2>said || rc=$?
    if [ $rc = "$want" ] && { [ -z "${ONE_LINE-}" ] || [ "$(wc -l <out)" = 1 ]; } &&
        { [ -z "$pattern" ] || grep -qE -- "$pattern" out; }; then return; fi
    echo "status $rc, expected $want and $pattern:"
    cat out said
    return 1
}
