# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-sched -n __fish_use_subcommand -a gen
complete -c paro-sched -n __fish_use_subcommand -a verify
complete -c paro-sched -n __fish_use_subcommand -a simulate
complete -c paro-sched -n __fish_use_subcommand -a draw
complete -c paro-sched -n __fish_use_subcommand -a ls
complete -c paro-sched -n __fish_use_subcommand -a pick
complete -c paro-sched -s i -l input -r -d 'simulate, draw, pick: read the fabric from a file, - or synth:SPEC'
complete -c paro-sched -s b -l bytes -r -d 'simulate, draw: size of the vector (default: 64Mi); pick: smallest size (default: 1Ki)'
complete -c paro-sched -l chunks -r -d 'Divide each part of the vector into C sub-chunks: faster for large vectors (default: 1)'
complete -c paro-sched -l svg -d 'simulate, draw: draw a timeline as SVG to FILE or standard output'
complete -c paro-sched -l force -d 'Let --svg replace FILE'
complete -c paro-sched -l root -r -d 'gen, simulate, draw: broadcast from rank R (default: 0)'
complete -c paro-sched -l op -r -d 'Consider only these operations, a comma-separated list (default: all that ls prints)'
complete -c paro-sched -s e -l max -r -d 'pick: largest size (default: 1Gi)'
complete -c paro-sched -s f -l factor -r -d 'Multiply the size by F each time (default: 2)'
complete -c paro-sched -l table -d 'Print a tuning table (YAML) for paro-bench and paro-train'
complete -c paro-sched -l tuning -r -d 'Read this tuning table instead of simulating'
complete -c paro-sched -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-sched -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c paro-sched -s V -l version -d 'Print the version'
