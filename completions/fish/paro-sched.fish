# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-sched -n __fish_use_subcommand -a gen
complete -c paro-sched -n __fish_use_subcommand -a verify
complete -c paro-sched -n __fish_use_subcommand -a simulate
complete -c paro-sched -n __fish_use_subcommand -a draw
complete -c paro-sched -n __fish_use_subcommand -a ls
complete -c paro-sched -n __fish_use_subcommand -a pick
complete -c paro-sched -n __fish_use_subcommand -a pick
complete -c paro-sched -s b -l bytes -r -d 'With simulate and draw: size of the vector (default 64Mi); with pick: the smallest (default 1Ki)'
complete -c paro-sched -l chunks -r -d 'With gen, or simulate or draw OP ALGO: sub-chunks of each part (default 1)'
complete -c paro-sched -l format -r -d 'With gen: rows (default), or msccl, a program for MSCCL in XML'
complete -c paro-sched -s i -l input -r -d 'With simulate, draw and pick: the fabric, a file,'
complete -c paro-sched -l root -r -d 'Of a broadcast, with gen, simulate and draw: the rank that has it (default 0)'
complete -c paro-sched -s e -l max -r -d 'With pick: largest size (default 1Gi)'
complete -c paro-sched -s f -l factor -r -d 'With pick: each size is F times the one before (default 2)'
complete -c paro-sched -l op -r -d 'With pick: these operations, with commas between'
complete -c paro-sched -l table -d 'With pick: print a tuning table (YAML)'
complete -c paro-sched -l tuning -r -d 'With pick: read and print a tuning table'
complete -c paro-sched -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-sched -s h -l help -d 'Print this help'
complete -c paro-sched -s V -l version -d 'Print the version'
