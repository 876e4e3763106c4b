# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c horing-check -s b -l baseline -r -d 'Compare with the rates in FILE (made by --learn)'
complete -c horing-check -s c -l critical -r -d 'CRITICAL when it leaves RANGE (default 75:)'
complete -c horing-check -l learn -d 'Measure and print a baseline instead of checking'
complete -c horing-check -l level -r -d 'quick: this host\'s links, milliseconds, no MPI; normal: some 3 s; deep: some 6 s'
complete -c horing-check -l prom -r -d 'Write FILE for node_exporter\'s textfile collector too'
complete -c horing-check -s t -l timeout -r -d 'UNKNOWN when there is no answer by then (default 10)'
complete -c horing-check -s w -l warning -r -d 'WARNING when a port\'s percentage of what is expected leaves RANGE (default 90:)'
complete -c horing-check -l json -d 'Print JSON (errors too, on standard error)'
complete -c horing-check -s h -l help -d 'Print this help'
complete -c horing-check -s V -l version -d 'Print the version'
