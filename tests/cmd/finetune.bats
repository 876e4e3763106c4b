# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/finetune.sh, short: each of its steps runs, and the adapters change what is said.

bats_require_minimum_version 1.5.0

@test "a base, adapters beside it, the folder of both" {
    cd "$ROOT" || return
    STEPS=60 BIN=$BIN sh examples/finetune.sh "$BATS_TEST_TMPDIR/f" > "$BATS_TEST_TMPDIR/out"
    cd "$BATS_TEST_TMPDIR" || return
    [ -s f/adapter/adapter_model.safetensors ]
    [ "$("$BIN/paro-shard" verify f/fused > /dev/null && echo whole)" = whole ]
    base=$(sed -n 's/^base: *//p' out) tuned=$(sed -n 's/^tuned: *//p' out)
    [ -n "$base" ]
    [ "$base" != "$tuned" ]
    # What the checkpoint says and what the fused weights say is one thing, but for rounding.
    "$BIN/paro-train" --generate 'the cat' --init f/lora.run/latest --length 8 > a
    "$BIN/paro-train" --generate 'the cat' --init f/fused --length 8 | cmp - a
}
