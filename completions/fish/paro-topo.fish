# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-topo -l diff -r -d 'Print where it differs from OLD instead; exit 1 if it does'
complete -c paro-topo -l discover -d 'Measuring: find the groups, and levels above them, by measurement, not by host names'
complete -c paro-topo -l format -r -d 'Print it as yaml (default), json, table, dot, svg, hostfile or rankfile'
complete -c paro-topo -l hosts -r -d 'Name the machines, as node[0-3]'
complete -c paro-topo -s i -l input -r -d 'Read the fabric from a file (YAML, XML of NCCL or hwloc, text of nvidia-smi topo -m or ibnetdiscover), from - (standard input), or from synth:SPEC'
complete -c paro-topo -l nodes -r -d 'Take N machines like the one that INPUT describes'
complete -c paro-topo -l ranks -r -d 'Take N ranks on each host, where INPUT counts no GPUs'
complete -c paro-topo -l set -r -d 'Give what INPUT does not state, or replace it: LEVEL=RATE[/rank][:LATENCY], nvlink=RATE, nic=RATE, memory=BYTES, flops=N, with commas'
complete -c paro-topo -l tolerance -r -d 'With --diff: rates and latencies this near to the old value are the same (default 0)'
complete -c paro-topo -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-topo -s h -l help -d 'Print this help'
complete -c paro-topo -s V -l version -d 'Print the version'
