# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-topo measuring: what a rank's machine has, as hwloc sees it; and wrong uses of --discover.
# hwloc can be given another machine's file in place of this one.

bats_require_minimum_version 1.5.0

setup() {
    DATA=$ROOT/tests/data/topo
    cd "$BATS_TEST_TMPDIR" || return
}

@test "devices of the machine: GPUs that compute, the fabric's network devices, NUMA nodes" {
    mpirun -np 2 env HWLOC_XMLFILE="$DATA/hwloc2-devices.xml" paro-topo >fabric
    cat fabric
    grep -qx '    numa_nodes: 2' fabric
    grep -qx '    gpus: 2' fabric # 3D controller, and VGA that cuda found; not the console's chip
    grep -qx '    nics: 1' fabric # the fabric's; not Ethernet beside it
    # every group has those of its host, however it was found
    mpirun -np 2 env HWLOC_XMLFILE="$DATA/hwloc2-devices.xml" paro-topo --discover >found
    grep -qx '    gpus: 2' found
    # without a fabric, Ethernet counts
    grep -v mlx5_0 "$DATA/hwloc2-devices.xml" >ethernet.xml
    mpirun -np 1 env HWLOC_XMLFILE=ethernet.xml paro-topo >fabric
    grep -qx '    nics: 2' fabric
}

@test "--discover measures: with -i, with words for files, without mpirun it is an error" {
    run -2 --separate-stderr paro-topo --discover -i synth:2x2
    [ -z "$output" ]
    grep -q -- "--discover and --input, expected" <<<"$stderr"
    run -2 --separate-stderr mpirun -np 2 paro-topo --discover -i synth:2x2
    [ "$(grep -c '^paro-topo: ' <<<"$stderr")" = 1 ]
    run -2 --separate-stderr mpirun -np 2 paro-topo --discover --nodes 2
    [ "$(grep -c '^paro-topo: ' <<<"$stderr")" = 1 ]
    run -2 --separate-stderr paro-topo --discover </dev/null
    [ "$stderr" = "paro-topo: --discover without a fabric to measure, expected mpirun" ]
}
