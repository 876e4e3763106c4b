# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of documents and conversations share.

# A byte-level tokenizer: 256 bytes and three special tokens.
make_tokenizer() {
    mkdir "$1"
    perl -e '
        my ($next, @piece) = (256);
        for my $b (0 .. 255) {
            my $seen = ($b > 32 && $b < 127) || ($b > 160 && $b != 173);
            push @piece, sprintf "\"\\u%04x\":%d", $seen ? $b : $next++, $b;
        }
        my @special = map { sprintf "{\"id\":%d,\"content\":\"%s\",\"single_word\":false," .
            "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}",
            256 + $_, ("<|im_start|>", "<|im_end|>", "<|endoftext|>")[$_] } 0 .. 2;
        printf "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[%s]," .
            "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\"," .
            "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}," .
            "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"}," .
            "\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[]}}\n",
            join(",", @special), join(",", @piece);' > "$1/tokenizer.json"
}
