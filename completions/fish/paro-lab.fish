# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-lab -l cut -r -d 'Take GROUP\'s data port down after so many SECONDS of COMMAND (repeatable)'
complete -c paro-lab -l flap -r -d 'Leave GROUP\'s data port up for UP seconds, then down for DOWN, in turn (repeatable)'
complete -c paro-lab -s g -l groups -r -d 'Number of nodes (default 2)'
complete -c paro-lab -l map-by -r -d 'Place ranks by slot (default) or by node'
complete -c paro-lab -l mca -r -d 'Pass a setting on to mpirun (repeatable)'
complete -c paro-lab -s p -l procs -r -d 'Ranks on each node (default 2), or a list, one number for each node: 3,2'
complete -c paro-lab -s r -l rate -r -d 'Shape each data port to RATE both ways, as tc(8) writes it: 500mbit (default: unshaped)'
complete -c paro-lab -l slow -r -d 'Give GROUP\'s port another rate (repeatable)'
complete -c paro-lab -l slow -r -d 'Give what groups A and B send each other another rate (repeatable)'
complete -c paro-lab -l help -d 'Give this help list'
complete -c paro-lab -s V -l version -d 'Print program version'
