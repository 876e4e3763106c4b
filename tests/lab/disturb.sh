# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# What can happen to the emulated nodes of a run in the folder `run`, for scripts under paro-lab --head.
# shellcheck disable=SC2046

after() { until grep -q "\"step\":$1[,}]" run/log.jsonl 2>/dev/null; do sleep 0.05; done; }
ranks_of() { # NODE
    for p in $(pgrep -f 'paro-train .*plan.yaml'); do
        [ "$(nsenter -t "$p" -u hostname 2>/dev/null)" != "$1" ] || echo "$p"
    done
}
# No agent reaches it, and its ranks are gone.
lose_node() { # NODE
    mount --bind /dev/null "/dev/shm/.paro-lab/$1.uts"
    kill -9 $(ranks_of "$1")
}
return_node() { umount "/dev/shm/.paro-lab/$1.uts"; }

in_node() { # NODE COMMAND...
    node=/dev/shm/.paro-lab/$1
    shift
    nsenter --net="$node.net" --uts="$node.uts" "$@"
}
# Nothing reaches it, and all its processes are gone.
cut_node() { # NODE
    ip link set "c${1#node}" down
    ip link set "d${1#node}" down
    kill -9 $(find /proc -mindepth 3 -maxdepth 3 -path '/proc/*/ns/net' -lname \
        "net:\[$(stat -L -c %i "/dev/shm/.paro-lab/$1.net")\]" 2>/dev/null | cut -d / -f 3)
}
