# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-sched -n __fish_use_subcommand -a gen
complete -c paro-sched -n __fish_use_subcommand -a verify
complete -c paro-sched -n __fish_use_subcommand -a simulate
complete -c paro-sched -n __fish_use_subcommand -a draw
complete -c paro-sched -n __fish_use_subcommand -a ls
complete -c paro-sched -s b -l bytes -r -d 'With simulate and draw: size of the vector (default 64Mi)'
complete -c paro-sched -l chunks -r -d 'With gen, or simulate or draw OP ALGO: sub-chunks of each part (default 1)'
complete -c paro-sched -s i -l input -r -d 'With simulate and draw: the fabric, a file, - or synth:SPEC'
complete -c paro-sched -l root -r -d 'Of a broadcast, with gen, simulate and draw: the rank that has it (default 0)'
complete -c paro-sched -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-sched -s h -l help -d 'Print this help'
complete -c paro-sched -s V -l version -d 'Print the version'
