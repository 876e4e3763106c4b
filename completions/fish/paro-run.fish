# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-run -s i -l input -r -d 'Hosts, ranks and ports, as paro-topo measured them'
complete -c paro-run -s m -l model -r -d 'Train MODEL: a config.json, or a folder with one'
complete -c paro-run -s o -l output -r -d 'Use DIR as the run folder'
complete -c paro-run -l plan -r -d 'Pass OPTIONS to paro-plan, such as \'--seq 1024\''
complete -c paro-run -l use -r -d 'Train on N hosts; the others are spares (default: all)'
complete -c paro-run -l grow -r -d 'Look every SECONDS for hosts that have returned; take them at a checkpoint (default: at a restart)'
complete -c paro-run -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c paro-run -s V -l version -d 'Print the version'
complete -c paro-run -l least -r -d 'Stop if fewer than N hosts are healthy (default: 1)'
complete -c paro-run -l restarts -r -d 'Stop after N restarts (default: 100)'
complete -c paro-run -l stall -r -d 'Restart if no step ends for SECONDS, of the first step for ten times as long (default: 120)'
complete -c paro-run -l log -r -d 'Append the messages to FILE, too'
