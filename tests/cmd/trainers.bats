# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints of other trainers, read without Python.  tests/data/trainers.tar.gz has, of a tiny
# Llama model, what PyTorch and DeepSpeed wrote (KIND/from) and what is in it, by Hugging Face's
# names, as the safetensors package wrote it (KIND/want); tests/reference/make_imports.py made
# both.  tests/cmd/imports.bats continues such runs.

load refuses
load swap

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    tar xzf "$ROOT/tests/data/trainers.tar.gz"
    paro-plan -m config.json -i synth:2x2 --strategy NGG > plan.yaml 2> /dev/null
    perl -e 'print pack "C*", map { $_ * 7 % 32 } 0 .. 199' > data
}

# comes_in KIND STEP [OPTION...]: weights, states and step are those that were saved.
comes_in() {
    paro-shard split "$1/from" -p plan.yaml "${@:3}" -o weights
    paro-shard verify weights
    paro-shard diff weights "$1/want/model.safetensors"
    [ "$2" != none ] || return 0
    paro-shard split "$1/from" -p plan.yaml --optimizer "$1/from" "${@:3}" -o states
    paro-shard verify states
    paro-shard diff states "$1/want/states.safetensors"
    paro-shard ls states | grep -q ", step $2\$"
}

@test "DCP, of FSDP2 on two ranks: weights and optimizer" { comes_in fsdp2 2; }

@test "DCP with tied weights under the head's name alone" {
    # The embedding gets the head's name, and the head that of a constant, which is no parameter.
    python3 - fsdp2/from/.metadata << 'PY'
import pickletools, sys
raw = open(sys.argv[1], "rb").read()
at = [(op.name, arg, pos) for op, arg, pos in pickletools.genops(raw)] + [("", "", len(raw))]
out = b""
for (op, name, first), (_, _, end) in zip(at, at[1:]):
    if op == "SHORT_BINUNICODE":
        name = name.replace("lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq")
        name = name.replace("model.embed_tokens.weight", "lm_head.weight").encode()
        out += b"\x8c" + bytes([len(name)]) + name
    elif op != "FRAME":  # which has a size, and may lack
        out += raw[first:end]
open(sys.argv[1], "wb").write(out)
PY
    run -0 paro-shard ls fsdp2/from
    [[ $output == *$'\nlm_head.weight '* ]]
    [[ $output != *embed_tokens* ]]
    refuses 2 "'model.embed_tokens.weight' is missing" paro-shard split fsdp2/from -p plan.yaml -o weights
    sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' config.json
    paro-plan -m config.json -i synth:2x2 --strategy NGG > plan.yaml 2> /dev/null
    paro-shard split fsdp2/from -p plan.yaml -o weights
    paro-shard edit fsdp2/want/model.safetensors --drop '^lm_head' -o tied
    paro-shard diff weights tied
}

@test "DCP in safetensors, of boxes on four ranks: weights" { comes_in grid-hf none; }

@test "DeepSpeed's universal, of ZeRO-3: the step is that of the model's states" { comes_in deepspeed-3 2; }

@test "DeepSpeed's universal, with the sizes and places of records where those of 4 GiB have them" {
    find deepspeed-3/from -name '*.pt' > archives
    python3 - << 'PY'
import struct, zipfile
for path in open("archives").read().split():
    raw = open(path, "rb").read()
    end = raw[-98:]  # the end of the list, its place, and the short end
    records, size, at = struct.unpack_from("<QQQ", end, 32)
    out, p = raw[:at], at
    for _ in range(records):
        packed, whole, name, extra, comment = struct.unpack_from("<IIHHH", raw, p + 20)
        wide = struct.pack("<HH3s", 0x4246, 3, b"pad")
        wide += struct.pack("<HHQQQ", 1, 24, whole, packed, struct.unpack_from("<I", raw, p + 42)[0])
        head = bytearray(raw[p:p + 46])
        struct.pack_into("<IIHH", head, 20, 0xffffffff, 0xffffffff, name, extra + len(wide))
        struct.pack_into("<I", head, 42, 0xffffffff)
        out += head + raw[p + 46:p + 46 + name + extra] + wide + raw[p + 46 + name + extra:][:comment]
        p += 46 + name + extra + comment
    end = bytearray(end)
    struct.pack_into("<Q", end, 40, len(out) - at)
    struct.pack_into("<Q", end, 56 + 8, len(out))
    struct.pack_into("<I", end, 76 + 12, len(out) - at)
    open(path, "wb").write(out + end)
    assert zipfile.ZipFile(path).testzip() is None
PY
    comes_in deepspeed-3 2
}

@test "DeepSpeed's universal, of ZeRO-1 in bf16" { comes_in deepspeed-1-bf16 2 --type bf16; }

@test "the optimizer's folder has the master copy, wherever the weights are from" {
    paro-shard edit deepspeed-3/want/model.safetensors --cast '.*=bf16' -o rounded
    paro-shard split rounded/model.safetensors -p plan.yaml --type f32 --optimizer deepspeed-3/from -o ckpt
    run -1 paro-shard diff ckpt deepspeed-3/want/states.safetensors # in its weights alone
    [[ $output != */master* ]] || { echo "$output"; return 1; }
}

@test "a link out of the optimizer's folder is refused" {
    mv deepspeed-3/from/zero/model.norm.weight/exp_avg.pt .
    ln -s "$PWD/exp_avg.pt" deepspeed-3/from/zero/model.norm.weight
    refuses 2 "exp_avg.pt symbolic link out" \
        paro-shard split deepspeed-3/want/model.safetensors -p plan.yaml --optimizer deepspeed-3/from -o ckpt
}

@test "a parameter with .pt in its name, and the step's form" {
    mkdir deepspeed-3/from/zero/model.norm.ptx
    cp deepspeed-3/from/zero/model.norm.weight/* deepspeed-3/from/zero/model.norm.ptx
    paro-shard ls deepspeed-3/from | grep -q '^norm.ptx '
    # step.pt: what torch.save writes of a tensor, or of a number.
    step() {
        python3 "$ROOT/tests/cmd/torch_step.py" "$@" > deepspeed-1-bf16/from/zero/model.norm.weight/step.pt
        paro-shard split deepspeed-1-bf16/from -p plan.yaml --type bf16 --optimizer deepspeed-1-bf16/from -o ckpt
    }
    refuses 2 "tensor of 2 elements" step LongStorage 2 0
    refuses 2 "tensor of 0 elements" step LongStorage 0 0
    refuses 2 "whole number tensor" step float
    refuses 2 "step -3 expected 0 to" step ShortStorage 1 -3
    step IntStorage 1 2
}

@test "ls, diff and verify take such a folder" {
    paro-shard ls fsdp2/from > list
    grep -q '^layers.0.mlp.up_proj.weight  *F32 \[20, 12\] ' list
    grep -q '^norm.weight/exp_avg_sq  *F32 \[12\] ' list
    [ "$(tail -n 1 list)" = "36 tensors, 22.4 KiB" ]
    paro-shard ls --json grid-hf/from | perl -MJSON::PP -0777 -ne '
        my $d = decode_json($_);
        exit !($d->{kind} eq "folder" && @{$d->{tensors}} == 12 && !$d->{tensors}[0]{file});'
    paro-shard split grid-hf/from -p plan.yaml -o ckpt
    paro-shard diff grid-hf/from ckpt
    cp config.json grid-hf/from
    paro-shard verify grid-hf/from
    sed -i 's/"hidden_size": 12/"hidden_size": 24/' grid-hf/from/config.json
    run -1 paro-shard verify grid-hf/from
}

@test "the tokenizer comes along, what else is there does not" {
    cp config.json fsdp2/from
    echo '{}' > fsdp2/from/tokenizer.json
    echo note > fsdp2/from/note
    paro-shard split fsdp2/from -p plan.yaml -o ckpt
    paro-shard merge ckpt -o back
    [ "$(ls back)" = "$(printf '%s\n' config.json model.safetensors tokenizer.json)" ]
    paro-shard diff back/model.safetensors fsdp2/want/model.safetensors
}

@test "paro-train begins with it as with the same weights in one file" {
    paro-plan -m config.json -i synth:1x1 --strategy NNN --seq 16 > plan.yaml 2> /dev/null
    for from in fsdp2/from fsdp2/want/model.safetensors; do
        paro-train plan.yaml -d data --init "$from" -o run --steps 2 --exact --force 2> said || { cat said; return 1; }
        grep -o '"state_hash":"[^"]*"' run/log.jsonl > "hash.${from##*/}"
    done
    [ "$(wc -l < hash.from)" = 2 ]
    cmp hash.from hash.model.safetensors
}

split() { paro-shard split "$1/from" -p plan.yaml -o ckpt; }

@test "a .metadata that names a function is rejected, and nothing is executed" {
    printf '\200\002cos\nsystem\n(X\013\000\000\000touch pwnedtR.' > fsdp2/from/.metadata
    refuses 2 "fsdp2/from/.metadata 'os.system' nothing was executed" paro-shard ls fsdp2/from
    printf '\200\004\214\002os\214\006system\223\214\013touch pwned\205R.' > fsdp2/from/.metadata
    refuses 2 "'os.system'" split fsdp2
    paro-plan -m config.json -i synth:1x1 --strategy NNN --seq 16 > plan.yaml 2> /dev/null
    refuses 2 "'os.system'" paro-train plan.yaml -d data --init fsdp2/from -o run
    [ ! -e pwned ]
    [ ! -e ckpt ]
}

@test "what is damaged or missing in a .distcp folder is named" {
    bytes=$(stat -c %s fsdp2/from/__1_0.distcp)
    truncate -s $((bytes - 1)) fsdp2/from/__1_0.distcp
    refuses 2 "fsdp2/from/__1_0.distcp $((bytes - 1)) bytes" split fsdp2
    truncate -s $((bytes - 200)) fsdp2/from/__1_0.distcp
    truncate -s "$bytes" fsdp2/from/__1_0.distcp
    refuses 2 "fsdp2/from/__1_0.distcp archive of torch.save" split fsdp2
    rm fsdp2/from/__1_0.distcp
    refuses 2 "fsdp2/from/__1_0.distcp No such file" split fsdp2
    truncate -s 5000 fsdp2/from/.metadata
    refuses 2 "fsdp2/from/.metadata ends at byte 5000" split fsdp2
    rm fsdp2/from/.metadata
    refuses 2 "fsdp2/from .metadata" split fsdp2
    # Files elsewhere.
    tar xzf "$ROOT/tests/data/trainers.tar.gz"
    sed -i 's/__0_0.distcp/..\/x.distcp/g' fsdp2/from/.metadata
    refuses 2 "../x.distcp file of this folder" split fsdp2
}

@test "shards that leave a gap, overlap or differ are named" {
    shard=grid-hf/from/shard-00001-model-00001-of-00001.safetensors
    mv $shard kept
    refuses 2 "embed_tokens.weight F32 [32, 12] 288 of 384 elements" split grid-hf
    cp kept $shard
    cp kept grid-hf/from/shard-00005-model-00001-of-00001.safetensors # the same again
    split grid-hf
    paro-shard diff ckpt grid-hf/want/model.safetensors
    rm -r ckpt
    head -c -1 kept > grid-hf/from/shard-00005-model-00001-of-00001.safetensors
    printf '\377' >> grid-hf/from/shard-00005-model-00001-of-00001.safetensors
    refuses 2 "different values shard-00001 shard-00005" split grid-hf
    rm grid-hf/from/shard-00005-model-00001-of-00001.safetensors
    perl -0777 -pi -e 's/\\"saved_offsets\\": \[0, 0\]/\\"saved_offsets\\": [1, 0]/ or die' $shard
    refuses 2 "pieces that overlap shard-00001" split grid-hf
    cp kept $shard
    perl -0pi -e 's/saved_offsets/saved_offsetz/' $shard
    refuses 2 "saved_offsets DCP_SHARDING_INFO" split grid-hf
}

@test "what a universal folder lacks is named" {
    t=model.norm.weight
    optimizer() { paro-shard split deepspeed-3/from -p plan.yaml --optimizer deepspeed-3/from -o ckpt; }
    rm deepspeed-3/from/*model_states.pt
    refuses 2 "deepspeed-3/from step" optimizer
    rm deepspeed-3/from/zero/$t/exp_avg.pt
    refuses 2 "'$t/exp_avg' missing" optimizer
    rm deepspeed-3/from/zero/$t/fp32.pt
    refuses 2 "'$t' missing" optimizer
    refuses 2 "is missing" paro-shard split fsdp2/from -p plan.yaml --optimizer grid-hf/from -o ckpt
}

# pieces BOX...: a tensor of 6 x 6 x 5 numbers in whole.safetensors, and in pieces/ its boxes, each
# "ROW COLUMN ROWS COLUMNS", a file each.
pieces() {
    rm -rf pieces
    mkdir pieces
    python3 - "$@" << 'PY'
import json, struct, sys
def put(path, shape, values, meta):
    head = json.dumps({"__metadata__": meta, "w": {"dtype": "F32", "shape": shape,
                       "data_offsets": [0, 4 * len(values)]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + struct.pack("<%df" % len(values), *values))
put("whole.safetensors", [6, 6, 5], range(180), {"format": "pt"})
for i, box in enumerate(sys.argv[1:]):
    r, c, rows, cols = map(int, box.split())
    put("pieces/shard-%05d-model-00001-of-00001.safetensors" % (i + 1), [rows, cols, 5],
        [(y * 6 + x) * 5 + z for y in range(r, r + rows) for x in range(c, c + cols) for z in range(5)],
        {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": [r, c, 0]}})})
PY
}

@test "pieces of any arrangement: columns, rows within columns, a wheel that no cut divides, none" {
    local wheel=("0 0 2 4" "0 4 4 2" "4 2 2 4" "2 0 4 2" "2 2 2 2")
    pieces "0 0 6 1" "0 1 6 2" "0 3 6 0" "0 3 6 3"
    paro-shard diff pieces whole.safetensors
    pieces "0 3 1 3" "1 3 5 2" "0 0 2 3" "2 0 4 3" "1 5 5 1"
    paro-shard diff pieces whole.safetensors
    pieces "${wheel[@]}" "2 2 2 2" "0 0 2 4"
    paro-shard diff pieces whole.safetensors
    pieces "${wheel[@]}" "2 2 2 3"
    refuses 2 "'w' pieces that overlap shard-00002 shard-00006" paro-shard ls pieces
    pieces "${wheel[@]:0:4}"
    refuses 2 "'w' 160 of 180 elements" paro-shard ls pieces
}

@test "an archive of torch.save whose pickle is damaged, or was not summed" {
    local at file=deepspeed-3/from/zero/model.norm.weight/fp32.pt
    at=$(grep -abo -m1 '_rebuild_tensor_v2' $file | head -n 1 | cut -d: -f1)
    printf X | dd of=$file bs=1 seek="$at" conv=notrunc status=none
    refuses 2 "fp32.pt damaged checksum" paro-shard ls deepspeed-3/from
    printf _ | dd of=$file bs=1 seek="$at" conv=notrunc status=none
    perl -0777 -pi -e 's/(PK\x01\x02.{12}).{4}/$1\0\0\0\0/gs' $file
    paro-shard ls deepspeed-3/from > listed
}

# [RECORD=NAME] flip FILE WORDS: one bit of the last tensor, or NAME, of FILE is another one; what reads
# its values says so.
flip() {
    python3 - "$1" "${RECORD-/data/}" <<'PY'
import sys
raw = bytearray(open(sys.argv[1], "rb").read())
at, data = 0, []
while (at := raw.find(b"PK\3\4", at)) >= 0:
    n, extra = (int.from_bytes(raw[at + o:at + o + 2], "little") for o in (26, 28))
    if sys.argv[2].encode() in raw[at + 30:at + 30 + n]:
        data.append(at + 30 + n + extra)
    at += 4
raw[data[-1] + 1] ^= 4
open(sys.argv[1], "wb").write(raw)
PY
    shift
    refuses 2 "$1 damaged checksum expected" paro-shard split "${@:2}" -p plan.yaml -o flipped
}

@test "a bit of a tensor that is another one: the checksum of its record, of .pt and .distcp" {
    local zero=deepspeed-3/from/zero f
    for f in fp32 exp_avg exp_avg_sq; do
        cp $zero/model.norm.weight/$f.pt kept
        flip $zero/model.norm.weight/$f.pt "$f.pt" deepspeed-3/from --optimizer deepspeed-3/from
        cp kept $zero/model.norm.weight/$f.pt
    done
    paro-shard split deepspeed-3/from -p plan.yaml --optimizer deepspeed-3/from -o good
    f=fsdp2/from/__0_0.distcp
    cp $f kept
    for RECORD in /data/ /data.pkl /byteorder; do
        flip "$f" "${f##*/}" fsdp2/from --optimizer fsdp2/from
        cp kept $f
    done
    unset RECORD
    f=deepspeed-1-bf16/from/zero/model.norm.weight/step.pt
    flip $f step.pt deepspeed-1-bf16/from
}

@test "a file of pieces that is exchanged between its header and its data, or between two pieces" {
    local kind file after
    build_swap
    while read -r kind file; do
        for after in 1 2; do
            rm -rf now
            cp -r "$kind/from" now
            cp "now/$file" evil
            SWAP=now/$file AFTER=$after LD_PRELOAD=$PWD/swap.so \
                refuses 2 "'now/$file' changed while it was read" split_now
        done
    done << 'KINDS'
fsdp2 __0_0.distcp
deepspeed-3 zero/model.norm.weight/fp32.pt
grid-hf shard-00001-model-00001-of-00001.safetensors
KINDS
}
split_now() { paro-shard split now -p plan.yaml -o ckpt; }

@test "a tied head that was stored alone is the embedding: weights and optimizer" {
    sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' config.json
    grep -q '"tie_word_embeddings": true' config.json
    paro-plan -m config.json -i synth:2x2 --strategy NGG > plan.yaml 2> /dev/null
    cp -r deepspeed-3/from head
    rm -r head/zero/model.embed_tokens.weight
    cp -r head embed
    mv embed/zero/lm_head.weight embed/zero/model.embed_tokens.weight
    for f in head embed; do
        paro-shard split $f -p plan.yaml --optimizer $f -o $f.ckpt
        paro-shard verify $f.ckpt
    done
    paro-shard diff head.ckpt embed.ckpt
    refuses 2 "'lm_head.weight' to which it is tied" paro-shard split deepspeed-3/from -p plan.yaml -o no
}
