#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Convert a checkpoint of PyTorch or DeepSpeed into plain .safetensors files for paro-shard.

    python3 import_torch.py SOURCE... -m CONFIG -o DIR

SOURCE is a folder written by torch.distributed.checkpoint (.metadata, __0_0.distcp, ...) or a
universal checkpoint of DeepSpeed's ds_to_universal (zero/NAME/fp32.pt, ...).  Give several if the
model and the optimizer are in different folders.  CONFIG is the Hugging Face config.json of the
model, of the Llama or the GPT-2 family.  DIR appears whole or not at all, with

    model/config.json, model/model.safetensors      a Hugging Face folder
    optimizer.safetensors                           if SOURCE has optimizer state

It needs only torch.  README.md in this folder has the details.
"""
import argparse
import contextlib
import ctypes
import io
import json
import math
import os
import pickle
import shutil
import signal
import struct
import sys
import zipfile

try:
    import torch
except ImportError:
    print("import_torch.py: Python package torch is missing: pip install torch",
          file=sys.stderr)
    sys.exit(2)

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16",
         torch.float64: "F64"}
MOMENTS = ("exp_avg", "exp_avg_sq")
STATES = ("master",) + MOMENTS
# Prefixes that programs and wrappers add to a parameter's name, in any number and order ...
BEFORE = {"model", "module", "_orig_mod", "optim", "optimizer", "state", "state_dict", "app",
          "_forward_module"}
# ... and infixes that wrappers of a layer add.
WITHIN = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


class Wrong(Exception):
    """What was found and what was expected, in one line."""


# ---- The model ---------------------------------------------------------------------------

def llama_tensors(c):
    hidden, ffn, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    dim = c.get("head_dim") or hidden // heads
    q, kv = heads * dim, (c.get("num_key_value_heads") or heads) * dim
    attention, mlp = c.get("attention_bias", False), c.get("mlp_bias", False)
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "post_attention_layernorm.weight", (hidden,)
        for name, rows, columns, bias in (
                ("self_attn.q_proj", q, hidden, attention),
                ("self_attn.k_proj", kv, hidden, attention),
                ("self_attn.v_proj", kv, hidden, attention),
                ("self_attn.o_proj", hidden, q, attention), ("mlp.gate_proj", ffn, hidden, mlp),
                ("mlp.up_proj", ffn, hidden, mlp), ("mlp.down_proj", hidden, ffn, mlp)):
            yield at + name + ".weight", (rows, columns)
            if bias:
                yield at + name + ".bias", (rows,)
    yield "model.norm.weight", (hidden,)
    if not c.get("tie_word_embeddings", False):
        yield "lm_head.weight", (c["vocab_size"], hidden)


def gpt2_tensors(c):
    hidden = c["n_embd"]
    ffn = c.get("n_inner") or 4 * hidden
    yield "transformer.wte.weight", (c["vocab_size"], hidden)
    yield "transformer.wpe.weight", (c["n_positions"], hidden)
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        for name, shape in (("ln_1", (hidden,)), ("attn.c_attn", (hidden, 3 * hidden)),
                            ("attn.c_proj", (hidden, hidden)), ("ln_2", (hidden,)),
                            ("mlp.c_fc", (hidden, ffn)), ("mlp.c_proj", (ffn, hidden))):
            yield at + name + ".weight", shape
            yield at + name + ".bias", shape[-1:]
    yield "transformer.ln_f.weight", (hidden,)
    yield "transformer.ln_f.bias", (hidden,)
    if not c.get("tie_word_embeddings", True):
        yield "lm_head.weight", (c["vocab_size"], hidden)


# Each family: its tensors, the tensor its head is tied to, the prefix that the names of its bare
# model lack, and suffixes of buffers.
FAMILIES = {
    "llama": (llama_tensors, "model.embed_tokens.weight", "model.", ("rotary_emb.inv_freq",)),
    "gpt2": (gpt2_tensors, "transformer.wte.weight", "transformer.",
             ("attn.bias", "attn.masked_bias")),
}


class Model:
    """The tensors that a config.json requires, by name, and the lookup of other spellings."""

    def __init__(self, path):
        self.path = os.path.join(path, "config.json") if os.path.isdir(path) else path
        with open(self.path, "rb") as f:
            self.config = f.read()
        try:
            config = json.loads(self.config)
            family = config["model_type"]
            if family not in FAMILIES:
                raise Wrong(f"'{self.path}' has model_type '{family}', expected "
                            + " or ".join(FAMILIES))
            tensors, self.tied_to, self.bare, self.buffers = FAMILIES[family]
            self.shapes = dict(tensors(config))
        except KeyError as e:
            raise Wrong(f"'{self.path}' has no key {e}, expected a model's config.json") from e
        except (TypeError, ValueError, AttributeError) as e:
            raise Wrong(f"'{self.path}' is not a config.json of a model: {e}") from e

    def find(self, key):
        """Return (tensor's name, its prefix) for a checkpoint's name, or (None, None)."""
        parts = [p for p in key.split(".") if p not in WITHIN]
        for start in range(len(parts)):
            name = ".".join(parts[start:])
            for full in (name, self.bare + name):
                if full in self.shapes or full == "lm_head.weight":
                    return full, ".".join(parts[:start])
            if parts[start] not in BEFORE:
                break
        return None, None


# ---- Reading -----------------------------------------------------------------------------

class Safe(pickle.Unpickler):
    """Unpickle the classes of a .metadata file and reject every other name."""

    ALLOWED = {
        "torch.distributed.checkpoint.metadata": {
            "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
            "TensorProperties", "_MEM_FORMAT_ENCODING", "MetadataIndex", "StorageMeta"},
        "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
        "torch.serialization": {"_get_layout"},
        "torch": {"Size"} | {str(d)[6:] for d in vars(torch).values()
                             if isinstance(d, torch.dtype)},
        "collections": {"OrderedDict"},
    }

    def find_class(self, module, name):
        if module.startswith("pathlib"): # path of the writer; unused
            return lambda *parts: parts
        if name not in self.ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


@contextlib.contextmanager
def errors_about(path):
    """Report any library error about a file in one line."""
    try:
        yield
    except (Wrong, OSError):
        raise
    except Exception as e: # torch and pickle raise many kinds
        why = str(e).strip().splitlines() or [type(e).__name__]
        raise Wrong(f"cannot read '{path}': {why[0]}") from e


def check_sums(file):
    """Check the CRC-32 that torch.save writes for each record; torch.load does not."""
    if not zipfile.is_zipfile(file):
        return # before PyTorch 1.6
    with zipfile.ZipFile(file) as z:
        for record in z.infolist():
            if record.CRC: # 0: the writer stored none
                with z.open(record) as f:
                    while f.read(1 << 20):
                        pass


class Piece:
    """A tensor of a checkpoint: its shape (one dimension if flattened) and load()."""

    def __init__(self, where, shape, dtype, load):
        self.where, self.shape, self.dtype, self.load = where, tuple(shape), dtype, load


def read_universal(root):
    """Yield (name, state, Piece) for each zero/NAME/STATE.pt."""
    zero, with_step = os.path.join(root, "zero"), False

    def load(path, look=False):
        with errors_about(path):
            if not look:
                check_sums(path)
            # Mapped, not read: inspecting a tensor takes no memory.
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return found["param"] if isinstance(found, dict) and "param" in found else found

    for name in sorted(os.listdir(zero)):
        if not os.path.isdir(os.path.join(zero, name)):
            continue # optimizer_state.pt is not needed
        for state in ("fp32", "step") + MOMENTS:
            path = os.path.join(zero, name, state + ".pt")
            if not os.path.exists(path):
                continue
            t = load(path, look=True)
            if state == "step":
                t = torch.as_tensor(t)
            if not isinstance(t, torch.Tensor):
                raise Wrong(f"'{path}' has a {type(t).__name__}, expected a tensor")
            with_step |= state == "step"
            yield name, state.replace("fp32", ""), Piece(
                path, t.shape, t.dtype,
                (lambda t=t: t) if state == "step" else (lambda path=path: load(path)))
    if not with_step:
        yield None, "step", Piece(root, (), torch.int64, lambda: zero3_steps(root))


def zero3_steps(root):
    """The step of ZeRO 3, which stores none in zero/: read it from *model_states.pt."""
    names = sorted(n for n in os.listdir(root) if n.endswith("model_states.pt"))
    if not names:
        raise Wrong(f"'{root}' has no file *model_states.pt")
    path = os.path.join(root, names[0])
    with errors_about(path):
        check_sums(path)
        try:
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except pickle.UnpicklingError as e:
            raise Wrong(f"'{path}' needs unrestricted unpickling") from e
        if not isinstance(found, dict):
            raise Wrong(f"'{path}' has a {type(found).__name__}, expected a dictionary")
        # Steps skipped because of a non-finite number do not count for the optimizer.
        steps = [found.get(k) for k in ("global_steps", "skipped_steps")]
    if not all(type(s) is int for s in steps) or not 0 <= steps[1] <= steps[0]:
        raise Wrong(f"'{path}' has global_steps {steps[0]} and skipped_steps {steps[1]}, "
                    "expected two counts, the second no more than the first")
    return steps[0] - steps[1]


def read_distcp(root):
    """Yield (name, state, Piece) for each tensor that .metadata lists."""
    path = os.path.join(root, ".metadata")
    with errors_about(path), open(path, "rb") as f:
        metadata = Safe(f).load()
        at = {(i.fqn, tuple(i.offset or ())): s for i, s in metadata.storage_data.items()}
        entries = {k: v for k, v in metadata.state_dict_metadata.items() if hasattr(v, "chunks")}
    for key, entry in entries.items():
        with errors_about(path):
            parts = [(tuple(c.offsets), tuple(c.sizes), at[key, tuple(c.offsets)])
                     for c in entry.chunks]
            check_parts(root, key, tuple(entry.size), parts)
        name, _, last = key.rpartition(".")
        state = last if last in MOMENTS + ("step",) else ""
        yield name if state else key, state, Piece(
            f"{root}: {key}", entry.size, entry.properties.dtype,
            lambda k=key, e=entry, p=parts: load_parts(root, k, e, p))


def check_parts(root, key, shape, parts):
    """Parts must lie inside the tensor, cover it, and fit into their files."""
    for offset, size, info in parts:
        file = info.relative_path
        if os.path.isabs(file) or ".." in file.split("/"):
            raise Wrong(f"'{key}' is in '{file}', expected a file of '{root}'")
        if getattr(info, "transform_descriptors", None):
            raise Wrong(f"'{key}' is compressed, expected uncompressed tensors")
        bytes_ = os.path.getsize(os.path.join(root, file))
        if bytes_ < info.offset + info.length:
            raise Wrong(f"'{os.path.join(root, file)}' has {bytes_} bytes, expected at least "
                        f"{info.offset + info.length} for '{key}'")
        if any(o + s > n for o, s, n in zip(offset, size, shape)):
            raise Wrong(f"'{key}' of shape {list(shape)} has a part at {list(offset)} of shape "
                        f"{list(size)}")
    if sum(math.prod(size) for _, size, _ in parts) != math.prod(shape):
        raise Wrong(f"'{key}' has parts that do not cover it")


def load_part(path, key, size, info):
    with errors_about(path):
        with open(path, "rb") as f:
            f.seek(info.offset)
            held = io.BytesIO(f.read(info.length))
        check_sums(held)
        held.seek(0)
        part = torch.load(held, map_location="cpu", weights_only=True)
        if not isinstance(part, torch.Tensor) or tuple(part.shape) != size:
            raise Wrong(f"'{path}' has a different part of '{key}', expected shape {list(size)}")
    return part


def load_parts(root, key, entry, parts):
    out = None
    for offset, size, info in parts:
        part = load_part(os.path.join(root, info.relative_path), key, size, info)
        if size == tuple(entry.size):
            return part
        if out is None:
            out = torch.empty(tuple(entry.size), dtype=entry.properties.dtype)
        out[tuple(slice(o, o + n) for o, n in zip(offset, size))] = part
    return out


def read_source(root):
    names = os.listdir(root)
    if ".metadata" in names:
        return read_distcp(root)
    if "zero" in names:
        return read_universal(root)
    if "latest_universal" in names:
        with open(os.path.join(root, "latest_universal"), encoding="utf-8") as f:
            return read_universal(os.path.join(root, os.path.basename(f.read().strip())))
    what = ("it has neither .metadata nor zero/, expected a checkpoint of "
            "torch.distributed.checkpoint or a universal one of DeepSpeed")
    if any(n.endswith(".distcp") for n in names):
        what = "it has .distcp files but no .metadata: writing it was interrupted"
    elif any("zero_pp_rank_" in n for n in names):
        what = "it is a sharded DeepSpeed checkpoint: convert it with ds_to_universal"
    raise Wrong(f"'{root}': {what}")


# ---- Matching ----------------------------------------------------------------------------

class Found:
    """Contents of the sources by the model's names: weights[NAME], state[STATE][NAME], step."""

    def __init__(self, model, sources, ignore):
        self.model, self.ignore = model, ignore
        self.weights, self.state, self.before = {}, {s: {} for s in MOMENTS}, set()
        self.steps, self.step_sources, unknown = {}, [], []
        for root in sources:
            for key, state, piece in read_source(root):
                self.take(key, state, piece, unknown)
        self.check_unknown(unknown)

    def take(self, key, state, piece, unknown):
        if key is None:
            self.step_sources.append(piece)
            return
        if any(key.startswith(i) for i in self.ignore):
            return
        name, before = self.model.find(key)
        if name is None:
            unknown.append((key, state, piece))
            return
        if state == "step":
            self.steps[name] = int(piece.load())
            return
        if not state:
            self.before.add(before)
        into = self.state[state] if state else self.weights
        if name in into:
            raise Wrong(f"'{name}' appears twice, in {piece.where} and {into[name].where}")
        into[name] = piece

    def check_unknown(self, unknown):
        """Reject unknown tensors among the weights and unknown optimizer states."""
        for key, state, piece in unknown:
            sibling = any(key.startswith(b + "." if b else "") for b in self.before)
            weight = not state and sibling and key.split(".")[0] not in BEFORE - {"model"}
            buffer = key.endswith(self.model.buffers)
            if state or (weight and len(piece.shape) and not buffer):
                what = f"of shape {list(piece.shape)} " if not state else "of the optimizer "
                raise Wrong(f"'{key}' {what}is not a tensor of '{self.model.path}'; --ignore="
                            f"{key} skips it")

    def check(self, want_state):
        """Check names, shapes and types; optimizer state must be complete or absent."""
        self.check_tied()
        has_state = want_state and any(self.state.values())
        for what, into in [("", self.weights)] + (
                [("/" + s, self.state[s]) for s in MOMENTS] if has_state else []):
            for name, shape in self.model.shapes.items():
                if name not in into:
                    more = "; --weights-only skips the optimizer state" if what else ""
                    raise Wrong(f"'{name}{what}' is missing, expected shape {list(shape)}"
                                + more)
                have = into[name].shape
                if have not in (shape, (math.prod(shape),)):
                    raise Wrong(f"'{name}{what}' has shape {list(have)} in {into[name].where}, "
                                f"expected {list(shape)}, by '{self.model.path}'")
                if into[name].dtype not in NAMES:
                    raise Wrong(f"'{name}{what}' is {into[name].dtype}, expected floats")
        return has_state

    def check_tied(self):
        """Skip an output head that the config ties, if it equals the embedding."""
        head, at = "lm_head.weight", self.model.tied_to
        if head in self.model.shapes:
            return
        twice = self.weights.pop(head, None)
        if twice and at in self.weights and not torch.equal(
                twice.load().flatten(), self.weights[at].load().flatten()):
            raise Wrong(f"'{head}' in {twice.where} differs from '{at}', to which "
                        f"'{self.model.path}' ties it")
        for into in self.state.values():
            if into.pop(head, None):
                raise Wrong(f"'{head}' has a state of its own, but '{self.model.path}' ties it "
                            f"to '{at}'")

    def step(self, given):
        steps, why = set(self.steps.values()), ""
        for piece in self.step_sources if given is None and not steps else ():
            try:
                steps.add(piece.load())
            except Wrong as e:
                why = f": {e}"
        if len(steps) > 1:
            raise Wrong(f"steps {min(steps)} and {max(steps)} in one checkpoint, expected one")
        if given is not None and steps - {given}:
            raise Wrong(f"--step {given}, but the checkpoint is of step {min(steps)}")
        if given is None and not steps:
            raise Wrong("the checkpoint states no step, expected --step N" + why)
        return given if given is not None else min(steps)


# ---- Writing -----------------------------------------------------------------------------

def write_tensor(f, t, size):
    assert t.numel() * t.element_size() == size
    f.write((ctypes.c_char * size).from_address(t.data_ptr()))


def write_safetensors(path, items):
    """items: (name, type's name, shape, bytes, load); holds one tensor in memory at a time."""
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, type_, shape, size, _ in items:
        head[name] = dict(dtype=type_, shape=list(shape), data_offsets=[at, at + size])
        at += size
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, size, load in items:
            write_tensor(f, load().contiguous(), size)
        f.flush()
        os.fsync(f.fileno())


def item(name, piece, shape, dtype):
    """An item of write_safetensors: the model's shape, another type."""
    size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    return name, NAMES[dtype], shape, size, lambda: piece.load().reshape(shape).to(dtype)


def number(name, value):
    return name, "I64", (), 8, lambda: torch.tensor(value, dtype=torch.int64)


def write_all(to, found, dtype, run):
    shapes = found.model.shapes
    os.makedirs(f"{to}/model")
    with open(f"{to}/model/config.json", "wb") as f:
        f.write(found.model.config)
        f.flush()
        os.fsync(f.fileno())
    write_safetensors(f"{to}/model/model.safetensors", [
        item(n, found.weights[n], shape, dtype or found.weights[n].dtype)
        for n, shape in shapes.items()])
    if run:
        states = {"master": found.weights, **found.state}
        write_safetensors(f"{to}/optimizer.safetensors", [number(*r) for r in run.items()] + [
            item(f"{n}/{s}", states[s][n], shape, torch.float32)
            for s in STATES for n, shape in shapes.items()])


def sync_folder(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def write_folder(out, *what):
    """Write a temporary folder next to the target, then rename it."""
    out = out.rstrip("/")
    parent, name = os.path.split(os.path.abspath(out))
    temporary = os.path.join(parent, f".{name}.import-tmp")
    shutil.rmtree(temporary, ignore_errors=True) # left by a killed run
    try:
        os.mkdir(temporary)
        write_all(temporary, *what)
        sync_folder(f"{temporary}/model")
        sync_folder(temporary)
        if os.path.lexists(out):
            raise Wrong(f"'{out}' exists, expected a new name")
        os.rename(temporary, out)
        sync_folder(parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# ---- The command -------------------------------------------------------------------------

def whole(text):
    value = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= value < 1 << 63:
        raise argparse.ArgumentTypeError(f"'{text}', expected a whole number, 0 or more")
    return value


def parse():
    p = argparse.ArgumentParser(
        prog="import_torch.py", allow_abbrev=False,
        description="Convert a checkpoint of PyTorch (.distcp) or DeepSpeed (universal) into "
                    "plain .safetensors files for paro-shard.")
    p.add_argument("source", nargs="+", metavar="SOURCE", help="folder of the checkpoint")
    p.add_argument("-m", "--model", required=True, metavar="CONFIG",
                   help="config.json of the model, or a folder that has one")
    p.add_argument("-o", "--output", required=True, metavar="DIR",
                   help="folder to write; must not exist")
    p.add_argument("--dtype", choices=TYPES,
                   help="type of the weights (default: the type they are saved in)")
    p.add_argument("--step", type=whole, metavar="N",
                   help="steps so far, if the checkpoint does not state them")
    p.add_argument("--tokens", type=whole, default=0, metavar="N",
                   help="tokens so far, for the log (default: 0)")
    p.add_argument("--weights-only", action="store_true", help="skip the optimizer state")
    p.add_argument("--ignore", action="append", default=[], metavar="PREFIX",
                   help="skip names that begin with PREFIX; may be repeated")
    return p.parse_args()


def run(args):
    if os.path.lexists(args.output.rstrip("/")):
        raise Wrong(f"'{args.output}' exists, expected a new name")
    found = Found(Model(args.model), args.source, args.ignore)
    has_state = found.check(not args.weights_only)
    dtypes = {p.dtype for p in found.weights.values()}
    if len(dtypes) > 1 and not args.dtype:
        raise Wrong("weights of the types " + " and ".join(sorted(NAMES[d] for d in dtypes))
                    + ", expected --dtype to choose one")
    numbers = has_state and {"step": found.step(args.step), "tokens": args.tokens}
    write_folder(args.output, found, TYPES.get(args.dtype), numbers)
    what = f"step {numbers['step']}, with" if numbers else "without"
    print(f"{args.output}: {len(found.model.shapes)} tensors, {what} optimizer state",
          file=sys.stderr)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = parse()
    try:
        run(args)
    except Wrong as e:
        print(f"import_torch.py: {e}", file=sys.stderr)
        sys.exit(2)
    except OSError as e:
        what = f"cannot use '{e.filename}'" if e.filename else "cannot write"
        print(f"import_torch.py: {what}: {e.strerror or e}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
