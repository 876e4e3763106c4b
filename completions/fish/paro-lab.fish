# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-lab -s g -l groups -r -d 'Emulate GROUPS nodes (default: 2)'
complete -c paro-lab -s p -l procs -r -d 'Start PROCS ranks on each node; a list such as 3,2 gives one number per node (default: 2)'
complete -c paro-lab -s r -l rate -r -d 'Limit each node\'s data port to RATE in each direction, written as in tc(8), such as 500mbit (default: no limit)'
complete -c paro-lab -l slow -r -d 'Limit one node\'s port to other rates: OUT for what it sends, IN for what it receives (repeatable)'
complete -c paro-lab -l slow -r -d 'Limit the traffic between nodes A and B to RATE in each direction (repeatable)'
complete -c paro-lab -l cut -r -d 'Take a node\'s data port down SECONDS after COMMAND starts, to test a network failure (repeatable)'
complete -c paro-lab -l flap -r -d 'Leave a node\'s data port up for UP seconds and take it down for DOWN, in turn (repeatable)'
complete -c paro-lab -l map-by -r -d 'Fill one node with ranks before the next (slot), or deal them out in turn (node) (default: slot)'
complete -c paro-lab -l head -d 'Start COMMAND once, on a head node from which mpirun reaches the nodes, to try a job\'s script'
complete -c paro-lab -l mca -r -d 'Pass an Open MPI setting to mpirun (repeatable)'
complete -c paro-lab -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c paro-lab -s V -l version -d 'Print the version'
