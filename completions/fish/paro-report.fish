# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-report -s o -l output -r -d 'Write the page to FILE (default: standard output)'
complete -c paro-report -l force -d 'Let --output replace FILE'
complete -c paro-report -l follow -d 'Write the page again every SECONDS (default: 5) until the first run has ended'
complete -c paro-report -l title -r -d 'Title of the page (default: the name of each DIR)'
complete -c paro-report -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c paro-report -s V -l version -d 'Print the version'
