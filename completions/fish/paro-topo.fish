# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-topo -l diff -r -d 'Print where it differs from OLD instead; exit 1 if it does'
complete -c paro-topo -l format -r -d 'Print it as yaml (default), json or table'
complete -c paro-topo -s i -l input -r -d 'Read the fabric: a YAML file, - for standard input, or synth:SPEC'
complete -c paro-topo -l tolerance -r -d 'With --diff: rates and latencies this near to the old value are the same (default 0)'
complete -c paro-topo -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-topo -s h -l help -d 'Print this help'
complete -c paro-topo -s V -l version -d 'Print the version'
