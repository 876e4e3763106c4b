# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c horing-watch -s w -l warning -r -d 'Report WARNING when a rank\'s lateness in percent leaves RANGE (default: 5)'
complete -c horing-watch -s c -l critical -r -d 'Report CRITICAL when that percentage leaves RANGE (default: 25)'
complete -c horing-watch -l hang -r -d 'Report a wait of more than SECONDS as a hang (default: 60)'
complete -c horing-watch -l follow -d 'Read again every SECONDS (10), and print what changes, until the run ends'
complete -c horing-watch -s v -l verbose -d 'Print a line per finding, clock and late rank; -vv: all ranks'
complete -c horing-watch -l prom -r -d 'Also write FILE for the textfile collector of node_exporter'
complete -c horing-watch -l svg -d 'Draw ranks over time as SVG to FILE or standard output'
complete -c horing-watch -l force -d 'Let --svg replace FILE'
complete -c horing-watch -l json -d 'Print JSON (errors too, on standard error)'
complete -c horing-watch -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c horing-watch -s V -l version -d 'Print the version'
