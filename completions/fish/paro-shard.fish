# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-shard -n __fish_use_subcommand -a init
complete -c paro-shard -n __fish_use_subcommand -a split
complete -c paro-shard -n __fish_use_subcommand -a merge
complete -c paro-shard -n __fish_use_subcommand -a reshard
complete -c paro-shard -n __fish_use_subcommand -a repair
complete -c paro-shard -n __fish_use_subcommand -a verify
complete -c paro-shard -n __fish_use_subcommand -a ls
complete -c paro-shard -n __fish_use_subcommand -a diff
complete -c paro-shard -l adapter -r -d 'split: a PEFT folder with the plan\'s adapters'
complete -c paro-shard -l buffer -r -d 'split, merge, reshard, repair: bytes in flight (default 64Mi)'
complete -c paro-shard -l copies -r -d 'split, reshard: K more of each file, in other groups first (default 0)'
complete -c paro-shard -l force -d 'Replace DIR if it is there'
complete -c paro-shard -l fuse -d 'merge: add the adapters into the weights'
complete -c paro-shard -s j -l jobs -r -d 'split, merge, reshard, repair: threads (default one per processor, 4 to 16)'
complete -c paro-shard -l max-shard -r -d 'merge: several files, each of at most BYTES'
complete -c paro-shard -s m -l model -r -d 'init: the config.json, or a folder with one'
complete -c paro-shard -l optimizer -r -d 'split: a .safetensors file with its state'
complete -c paro-shard -s o -l output -r -d 'The folder to write'
complete -c paro-shard -s p -l plan -r -d 'split, reshard: the plan, - for standard input'
complete -c paro-shard -l quick -d 'verify: sizes and headers, not the data'
complete -c paro-shard -l seed -r -d 'init, split: which values to draw (default 1)'
complete -c paro-shard -l type -r -d 'split, merge, reshard: convert the weights to f32, bf16, f16 or f64'
complete -c paro-shard -l max-files -r -d 'Most files of an index, or kept beside weights (default 10000)'
complete -c paro-shard -l max-header -r -d 'Longest header or index (default 100MB)'
complete -c paro-shard -l max-manifest -r -d 'Longest manifest (default 256Mi)'
complete -c paro-shard -l max-name -r -d 'Longest name of a tensor (default 4096)'
complete -c paro-shard -l max-tensors -r -d 'Most tensors in a file (default 1e6)'
complete -c paro-shard -l progress -r -a 'auto always never' -d 'How far it is, on standard error (default auto: where that is a terminal)'
complete -c paro-shard -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-shard -s h -l help -d 'Print this help'
complete -c paro-shard -s V -l version -d 'Print the version'
