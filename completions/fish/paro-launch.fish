# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-launch -s n -l ranks -r -d 'Start RANKS ranks (default: as many as the environment or the host file has slots)'
complete -c paro-launch -l hostfile -r -d 'Read the hosts from FILE, with lines such as \'node1 slots=8\''
complete -c paro-launch -l print -d 'Print the mpirun command and exit'
complete -c paro-launch -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c paro-launch -s V -l version -d 'Print the version'
complete -c paro-launch -l from -r -a 'slurm skypilot torchrun kubernetes hostfile' -d ' Read this environment (default: the only one that is found)'
complete -c paro-launch -l wait -r -d 'Fail if mpirun does not reach a waiting node within SECONDS (default: 600)'
