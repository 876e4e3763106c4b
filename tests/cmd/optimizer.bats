# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-shard split --optimizer: a run's state, handed over in a plain .safetensors file.

load train

# hand_over RUN'S_CHECKPOINT DIR: DIR/model, DIR/optimizer.safetensors of a run of one rank.
# A second reader of paro-checkpoint(5): the order of tensors in a unit is that of the weights
# file that merge writes.
hand_over() {
    mkdir "$2"
    paro-shard merge "$1" -o "$2/model"
    python3 - "$1" "$2" "${@:3}" << 'END'
import json, re, struct, sys

def read(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], raw[8 + n:][slice(*v["data_offsets"])])
            for k, v in head.items()}

def unit(name):
    m = re.match(r"model\.(layers\.\d+)\.", name)
    return m[1] if m else "embed" if "embed" in name else "head"

ckpt, out = sys.argv[1:3]
run = json.load(open(f"{ckpt}/manifest.json"))["run"]
shard, model = read(f"{ckpt}/shard-00000.safetensors"), read(f"{out}/model/model.safetensors")
tensors = {k: ("I64", [], struct.pack("<q", run[k])) for k in ("step", "tokens")}
at = {}
for name, (kind, shape, data) in model.items():
    lo = at.get(unit(name), 0)
    at[unit(name)] = lo + len(data)
    for state in ("master", "exp_avg", "exp_avg_sq"):
        part = shard[f"{unit(name)}/{state}"][2][lo:lo + len(data)]
        tensors[f"{name}/{state}"] = (kind, shape, part)
for change in sys.argv[3:]:  # drop=NAME, NAME=TYPE, NAME+=SHAPE, NAME~=TYPE (cut off)
    key, value = change.split("=", 1)
    if key == "drop":
        del tensors[value]
    elif key.endswith("~"):
        kind, shape, data = tensors[key[:-1]]
        high = [data[i + 2:i + 4] for i in range(0, len(data), 4)]
        low = b"" if value == "BF16" else bytes(2)  # of F32, and I32
        tensors[key[:-1]] = (value, shape, b"".join(low + h for h in high))
    elif key.endswith("+"):
        old = tensors[key[:-1]]
        tensors[key[:-1]] = (old[0], json.loads(value), old[2])
    elif value.lstrip("-").isdigit():
        tensors[key] = ("I64", [], struct.pack("<q", int(value)))
    else:
        tensors[key] = (value, [1], bytes(4))
head, body = {}, b""
for name, (kind, shape, data) in tensors.items():
    head[name] = dict(dtype=kind, shape=shape, data_offsets=[len(body), len(body) + len(data)])
    body += data
text = json.dumps(head).encode()
open(f"{out}/optimizer.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
END
}

setup_file() {
    runs_begin
    ! command -v python3 > /dev/null || hand_over ended/step-00000002 over
}

setup() {
    own_folder
    command -v python3 > /dev/null || skip "no python3 here"
}

split() { paro-shard split "$1/model" -p "$2" --optimizer "$1/optimizer.safetensors" -o "$3"; }

@test "split gives the run's own checkpoint again, and its run" {
    split "$G/over" "$G/one.yaml" ckpt
    paro-shard verify ckpt
    paro-shard diff "$G/ended/step-00000002" ckpt
    # Another program does not tell its data.
    stood() { sed -n 's/,"data":{[^}]*}//; s/^"run":\(.*}\),*$/\1/p' "$1/manifest.json"; }
    stood "$G/ended/step-00000002" > want
    [ -s want ]
    stood ckpt | cmp - want
    cmp "$G/ended/step-00000002/shard-00000.safetensors" ckpt/shard-00000.safetensors
}

@test "for another plan: it is what reshard makes, and merge gives the weights" {
    split "$G/over" "$G/two.yaml" ckpt
    paro-shard reshard "$G/ended/step-00000002" -p "$G/two.yaml" -o want
    for s in 0 1; do cmp ckpt/shard-0000$s.safetensors want/shard-0000$s.safetensors; done
    paro-shard merge ckpt -o back
    cmp "$G/over/model/model.safetensors" back/model.safetensors
}

@test "a run goes on from it with the same bits" {
    split "$G/over" "$G/one.yaml" ckpt
    paro-train "$G/one.yaml" -d "$TEXT" -o on --resume ckpt --steps 4 > out 2> said
    one_warning "paro-train: 'ckpt' not data"
    bits "$G/ended/log.jsonl" | tail -n 2 > want
    [ "$(wc -l < want)" = 2 ]
    bits on/log.jsonl | cmp - want
}

@test "where a part trains, the rest of the file is not needed, nor kept" {
    plan part synth:2x1 --strategy GGG --trainable "train=model.layers.3.*"
    split "$G/over" part.yaml ckpt
    paro-shard verify ckpt
    paro-shard ls ckpt > list
    grep -q '^model.layers.3.mlp.up_proj.weight/exp_avg ' list
    run ! grep '^model.layers.2.*/exp_avg' list
    paro-shard diff "$G/ended/step-00000002" ckpt > said || true
    run ! grep -v 'is in the first alone$' said
}

@test "a moment in bf16 is widened" {
    t=model.layers.1.mlp.up_proj.weight/exp_avg
    for kind in BF16 F32; do
        hand_over "$G/ended/step-00000002" $kind $t~=$kind
        split $kind "$G/two.yaml" ckpt-$kind
    done
    run -1 paro-shard diff ckpt-F32 "$G/ended/step-00000002"
    [ "$(wc -l <<< "$output")" = 1 ]
    [[ $output = "$t: "* ]]
    paro-shard diff ckpt-F32 ckpt-BF16
}

@test "behind an odd number of bf16 parameters, of more than a slice each" {
    local config='{"model_type":"gpt2","n_embd":255,"n_head":1,"n_layer":1,"vocab_size":300'
    paro-shard init -m <(echo "$config,\"n_positions\":16,\"torch_dtype\":\"bfloat16\"}") -o m
    paro-plan -m m -i synth:1x1 > p.yaml
    python3 - << 'END'
import json, struct

raw = open("m/model.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
model = json.loads(raw[8:8 + n])
model.pop("__metadata__", None)
assert (len(raw) - 8 - n) % 4 == 2
# The same values, exact in both: 1, 1.0078125, ...
for kind, form, shift in ("BF16", "H", 0), ("F32", "I", 16):
    head, body, at, seen = {}, [], 0, 0
    for name, was in model.items():
        elems = 1
        for d in was["shape"]:
            elems *= d
        for state in ("master", "exp_avg", "exp_avg_sq"):
            data = struct.pack(f"<{elems}{form}",
                               *(0x3f80 + (seen + i) % 127 << shift for i in range(elems)))
            seen += elems
            head[f"{name}/{state}"] = dict(dtype=kind, shape=was["shape"],
                                           data_offsets=[at, at + len(data)])
            at += len(data)
            body.append(data)
    for name in ("step", "tokens"):
        head[name] = dict(dtype="I64", shape=[], data_offsets=[at, at + 8])
        at += 8
        body.append(struct.pack("<q", 3))
    text = json.dumps(head).encode()
    open(kind, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(body))
END
    for kind in BF16 F32; do paro-shard split m -p p.yaml --optimizer $kind -o ckpt-$kind; done
    diff -r ckpt-BF16 ckpt-F32
}

@test "another type for the weights, copies: the state stays, and so does the run" {
    paro-shard split "$G/over/model" -p "$G/two.yaml" --optimizer "$G/over/optimizer.safetensors" \
        --type bf16 --copies 1 -o ckpt
    paro-shard verify ckpt
    paro-shard diff ckpt "$G/ended/step-00000002" > said || true
    [ "$(wc -l < said)" = "$(paro-shard ls "$G/over/model" | grep -c ' F32 ')" ]
    run ! grep -E '/(master|exp_avg|exp_avg_sq):' said
    grep -q '"run":{"step":2,' ckpt/manifest.json
}

@test "what is wrong with a file is told, and nothing is left" {
    f=bad/optimizer.safetensors t=model.norm.weight
    bad() { # WORDS CHANGE
        rm -rf bad
        hand_over "$G/ended/step-00000002" bad "$2"
        refuses 2 "$f: $1" paro-shard split bad/model -p "$G/two.yaml" --optimizer $f -o c
        [ ! -e c ]
        [ ! -e .c.paro-tmp ]
    }
    bad "'$t/exp_avg' '$t' trains" drop=$t/exp_avg
    bad "'step' I64" drop=step
    bad "'tokens' F32 [1] I64" tokens=F32
    bad "'step' -1 0 1e18" step=-1
    bad "'tokens' 1000000000000000001 0 1e18" tokens=1000000000000000001
    bad "'nobody/exp_avg' NAME/master NAME/exp_avg NAME/exp_avg_sq" nobody/exp_avg=F32
    bad "'$t/variance' NAME/master NAME/exp_avg NAME/exp_avg_sq" $t/variance=F32
    bad "'$t/master' F32 [64, 2] F32 [128]" "$t/master+=[64,2]"
    bad "'$t/master' I32 [1] F32 [128]" $t/master=I32
    # Whole numbers of its shape: its shape is not what is wrong.
    bad "'$t/master' I32 [128] F32 [128]" $t/master~=I32
}

@test "not beside adapters, not in another verb, not without a file" {
    plan lora synth:1x1 --trainable lora=4
    f=$G/over/optimizer.safetensors
    refuses 2 "adapters '$f'" paro-shard split "$G/over/model" -p lora.yaml --optimizer "$f" -o c
    refuses 2 "open 'none' No such file" \
        paro-shard split "$G/over/model" -p "$G/one.yaml" --optimizer none -o c
    [ ! -e c ]
    refuses 2 "'merge'" paro-shard merge "$G/ended/latest" --optimizer "$f" -o c
}

@test "the optimizer's file is never in what is replaced" {
    cp -r "$G/over" over
    refuses 2 "'over/optimizer.safetensors' inside 'over'" paro-shard split "$G/over/model" \
        -p "$G/two.yaml" --optimizer over/optimizer.safetensors -o over --force
    diff -r "$G/over" over
}
