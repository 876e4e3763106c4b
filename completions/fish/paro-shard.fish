# SPDX-License-Identifier: BSD-3-Clause
# Made by completions/generate.
complete -c paro-shard -n __fish_use_subcommand -a init
complete -c paro-shard -n __fish_use_subcommand -a split
complete -c paro-shard -n __fish_use_subcommand -a merge
complete -c paro-shard -n __fish_use_subcommand -a reshard
complete -c paro-shard -n __fish_use_subcommand -a repair
complete -c paro-shard -n __fish_use_subcommand -a edit
complete -c paro-shard -n __fish_use_subcommand -a verify
complete -c paro-shard -n __fish_use_subcommand -a ls
complete -c paro-shard -n __fish_use_subcommand -a diff
complete -c paro-shard -s o -l output -r -d 'Write to the folder DIR; of gguf a file'
complete -c paro-shard -s m -l model -r -d 'init: the model, a config.json or its folder'
complete -c paro-shard -s p -l plan -r -d 'split, reshard: the plan; - is standard input'
complete -c paro-shard -l type -r -d 'split, merge, reshard: convert the weights to f32, bf16, f16, f64, or of gguf q8_0'
complete -c paro-shard -l force -d 'Replace DIR if it exists'
complete -c paro-shard -l quick -d 'verify: check sizes and headers only; faster, but does not read the data'
complete -c paro-shard -l format -r -a 'safetensors gguf' -d 'merge: write safetensors, or gguf for llama.cpp (default: safetensors)'
complete -c paro-shard -l seed -r -d 'init, split: seed of initial values (default: 1)'
complete -c paro-shard -l adapter -r -d 'split: read the adapters from a PEFT folder, to continue training them'
complete -c paro-shard -l optimizer -r -d 'split: read the optimizer\'s state from a .safetensors file or another program\'s checkpoint, to resume its run'
complete -c paro-shard -l copies -r -d 'split, reshard: write K additional copies of each file, in other groups first, to survive the loss of nodes (default: 0)'
complete -c paro-shard -l fuse -d 'merge: add the adapters to the weights, for programs that do not load adapters'
complete -c paro-shard -l max-shard -r -d 'merge: split the weights into files of at most BYTES (default: one file)'
complete -c paro-shard -l drop -r -d 'edit: leave out the tensors whose names match'
complete -c paro-shard -l rename -r -d 'edit: replace the match in names by TEXT, in which $1 is the first group'
complete -c paro-shard -l cast -r -d 'edit: convert the tensors whose names match to f32, bf16, f16 or f64'
complete -c paro-shard -l dry-run -d 'edit: print what would be done, and write nothing'
complete -c paro-shard -l buffer -r -d 'Hold at most BYTES of states in memory (default: 64Mi)'
complete -c paro-shard -s j -l jobs -r -d 'Read and write with N threads (default: one per processor, 4 to 16)'
complete -c paro-shard -l progress -r -a 'auto always never' -d 'Show progress on standard error (default: auto, if that is a terminal)'
complete -c paro-shard -l max-header -r -d 'Accept headers and indexes up to BYTES (default: 100MB)'
complete -c paro-shard -l max-tensors -r -d 'Accept up to N tensors in a file (default: 1e6)'
complete -c paro-shard -l max-name -r -d 'Accept tensor names up to BYTES (default: 4096)'
complete -c paro-shard -l max-files -r -d 'Accept up to N files in an index, or next to the weights (default: 10000)'
complete -c paro-shard -l max-manifest -r -d 'Accept a manifest up to BYTES (default: 256Mi)'
complete -c paro-shard -l json -d 'Print JSON (errors too, on standard error)'
complete -c paro-shard -s h -l help -a 'all' -d 'Print the everyday options, or all of them'
complete -c paro-shard -s V -l version -d 'Print the version'
