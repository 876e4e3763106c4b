# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
#
# The backend "paro" of torch.distributed (lib/python).  The oracle is gloo.

bats_require_minimum_version 1.5.0

setup() {
    PYTHON=${PARO_PYTHON:-python3}
    "$PYTHON" -c 'import torch.distributed.fsdp' 2>/dev/null || skip "no Python package torch here"
    [ -z "${SAN-}" ] || skip "a sanitizer must come first in the process"
    export PARO_LIBRARY=$B/libparo.so PYTHONPATH=$ROOT/lib/python OMP_NUM_THREADS=1
    cd "$BATS_TEST_TMPDIR" || return
}

torch() { # RANKS WHAT...
    mpirun -np "$1" "$PYTHON" "$ROOT/tests/reference/torch_backend.py" "${@:2}"
}

@test "every collective, type and size gives what gloo gives: 1, 2 and 3 ranks" {
    for n in 1 2 3; do torch $n collectives lists errors; done
}

@test "two groups with many calls in flight" {
    torch 4 flight
}

@test "DTensor, checkpoints, hooks and sharded optimizers give what gloo gives" {
    torch 3 libraries
}

@test "DDP, FSDP2 and HSDP train as with gloo, and give the same bits again" {
    torch 4 training
}

@test "a rank that raises ends the job; so does one that is killed" {
    cat >end.py <<'END'
import os, signal, sys
import paro.torch, torch, torch.distributed as dist
dist.init_process_group("paro")
dist.all_reduce(torch.ones(9))
if dist.get_rank() == 1:
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise SystemError("of rank 1")
dist.all_reduce(torch.ones(9))
END
    run ! timeout 60 mpirun -np 2 "$PYTHON" end.py raise
    [[ $output == *"SystemError: of rank 1"* ]]
    run ! timeout 60 mpirun -np 2 "$PYTHON" end.py kill
}

@test "a program that does not destroy its group ends; torchrun is told what to type" {
    echo 'import paro.torch, torch, torch.distributed as dist
dist.init_process_group("paro")
dist.all_reduce(torch.ones(9))' >end.py
    timeout 60 mpirun -np 2 "$PYTHON" end.py
    run ! env -u OMPI_COMM_WORLD_RANK -u PMIX_RANK -u SLURM_PROCID WORLD_SIZE=2 RANK=0 "$PYTHON" end.py
    [[ $output == *"type 'mpirun -np RANKS python3 SCRIPT'"* ]]
}

@test "cpu:paro,cuda:nccl needs no GPU for tensors in host memory" {
    cat >both.py <<'END'
import paro.torch, torch, torch.distributed as dist
dist.init_process_group("cpu:paro,cuda:nccl")
total = torch.ones(4)
dist.all_reduce(total)
dist.all_reduce(total, group=dist.new_group([0, 1]))
assert total.tolist() == [4, 4, 4, 4]
dist.destroy_process_group()
END
    timeout 120 mpirun -np 2 "$PYTHON" both.py
}

@test "an older PyTorch is refused; PARO_STATS knows the share of the bound on rank 0" {
    run ! "$PYTHON" -c 'import torch; torch.__version__ = "1.13.1"; import paro.torch'
    [[ $output == *"ImportError: PyTorch 1.13.1, expected 2.0 or newer" ]]
    cat >stats.py <<'END'
import paro.torch, torch, torch.distributed as dist
dist.init_process_group("paro")
for _ in range(3):
    dist.all_reduce(torch.ones(1000000))
END
    PARO_STATS=1 PARO_TOPOLOGY=synth:2x1,inter=1GB/s mpirun -np 2 "$PYTHON" stats.py 2>out
    grep -q '^paro: rank 1: sent 12000000 bytes to other groups, 0 inside, in [0-9.]* s with a collective in flight$' out
    grep -q '^paro: rank 0: sent 12000000 .* in flight, 0\.[0-9]* of the bound: the rate between groups allows 0\.012 s$' out
}

@test "a rank that does not come, and with PARO_CHECK a call that differs, raise on the others" {
    cat >late.py <<'END'
import datetime, time
import paro.torch, torch, torch.distributed as dist
dist.init_process_group("paro", timeout=datetime.timedelta(seconds=2))
big, rank = torch.ones(3 << 20), dist.get_rank()  # several pieces
for _ in range(4):  # until all handles are prepared
    dist.all_reduce(big)
call = (lambda: dist.all_reduce(big)), (lambda: dist.all_reduce(big, async_op=True).wait())
if rank == 1:
    time.sleep(30)
call[rank // 2]()
END
    run ! timeout 60 mpirun -np 3 "$PYTHON" late.py
    [[ $output == *"DistBackendError: rank 2 "*": no data from rank 1 "* ]]
    cat >differ.py <<'END'
import paro.torch, torch, torch.distributed as dist
dist.init_process_group("paro")
for n in (9, 5):
    dist.all_reduce(torch.ones(n))
try:
    dist.all_reduce(torch.ones(5 if dist.get_rank() else 9))
except ValueError as e:
    print("said:", e, flush=True)
END
    PARO_CHECK=1 timeout 60 mpirun -np 2 "$PYTHON" differ.py >out
    [ "$(grep -c '^said: rank . calls all-reduce of [59] elements of torch.float32, .*; rank . all-reduce of [59] ' out)" = 2 ]
}

@test "horing-watch names the rank that works longest between its calls" {
    cat >slow.py <<'END'
import time
import paro.torch, torch, torch.distributed as dist
dist.init_process_group("paro")
for _ in range(60):
    time.sleep(0.05 if dist.get_rank() == 1 else 0.005)
    dist.all_reduce(torch.ones(1000))
END
    PARO_METER=$PWD/meter mpirun -np 3 "$PYTHON" slow.py
    run horing-watch meter
    [[ $output == "WATCH CRITICAL - rank 1 "*"in "*"of all-reduces: its own compute"* ]]
}

example_setup() {
    "$PYTHON" -c 'import transformers' 2>/dev/null || skip "no Python package transformers here"
    sed 's/"num_hidden_layers": 4/"num_hidden_layers": 2/' "$ROOT/examples/models/llama-tiny.json" >model.json
    seq 3000 >text
}

module() { # STRATEGY OPTION...: a module for 2x2 ranks and f32
    paro-plan -m model.json -i synth:2x2 --accum 2 --seq 32 --param-type f32 --wire-type f32 --strategy "$1" \
        --emit=fsdp "${@:2}"
}

# One process imports and starts once for all plans.  A loss is a function of summed gradients:
# other orders of sums change the last bits alone.
@test "the example trains all strategies that --emit=fsdp expresses as gloo trains DDP" {
    example_setup
    local s port all=(NNN NNG NGG GNG GGG NNI NII INI III)
    for s in "${all[@]}"; do
        module "$s" >"$s.py"
        grep -q "^# $s on 2x2 ranks, as planned" "$s.py"
    done
    module III --prefetch 2 >III2.py
    port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
    MASTER_ADDR=127.0.0.1 MASTER_PORT=$port mpirun -np 4 "$PYTHON" "$ROOT/examples/torch/train.py" NNN.py text \
        -m model.json -b gloo -n 3 >by-gloo
    cat >all.py <<'END'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import train
train.start("paro")
train.start = train.dist.destroy_process_group = lambda *_: None
for name in sys.argv[2:]:
    sys.argv = ["train.py", name + ".py", "text", "-m", "model.json", "-n", "3"] + ["--overlap"] * (name == "III2")
    train.main()
END
    mpirun -np 4 "$PYTHON" all.py "$ROOT/examples/torch" "${all[@]}" III2 >by-paro
    sed -n 's/^step [123]: loss \([0-9.]*\), .*/\1/p' by-gloo by-paro >losses
    # gloo's three, three for each strategy, and III's again: gathers ahead that do not block change no bit.
    awk 'NR <= 3 { want[NR] = $1; next }
        { w = want[NR % 3 ? NR % 3 : 3]; d = $1 / w - 1; if (d > 1e-5 || d < -1e-5) { print NR ": " $1 ", gloo " w; bad = 1 } }
        END { exit bad || NR != 33 || want[3] > 0.99 * want[1] }' losses
    [ "$(tail -n 3 losses)" = "$(tail -n 6 losses | head -n 3)" ]
}

@test "the example: one process, and errors of one line" {
    example_setup
    local train=$ROOT/examples/torch/train.py
    paro-plan -m model.json -i synth:1x1 --seq 32 --param-type f32 --wire-type f32 --emit=fsdp >one.py
    "$PYTHON" "$train" one.py text -m model.json -n 2 >out
    grep -q '^step 2: loss [0-9.]*, [0-9.]* s$' out
    run -1 --separate-stderr "$PYTHON" "$train" none.py text -m model.json
    [ "$stderr" = "train.py: [Errno 2] No such file or directory: 'none.py'" ]
    module III >III.py
    run -1 --separate-stderr "$PYTHON" "$train" III.py text -m model.json -b gloo
    [ "${#stderr_lines[@]}" = 1 ]
    [[ $stderr == "train.py: "*4\ ranks* ]]
    run -1 --separate-stderr env WORLD_SIZE=2 RANK=0 "$PYTHON" "$train" one.py text -m model.json -b gloo
    [ "$stderr" = "train.py: MASTER_ADDR is not set, which gloo needs: expected rank 0's host" ]
}
