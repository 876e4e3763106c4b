/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

/*
 * Declares what NCCL looks up in a plugin by name, as far as libparo-nccl-plugin.so uses it.
 * The layouts are NCCL's binary interface: profiler and tuner of versions 4 (NCCL 2.27) and 5
 * (2.28).  NCCL takes the newest version that it knows: one that takes an older name is too
 * old.  Functions return ncclResult_t.
 */
enum { PLUGIN_OK, PLUGIN_USAGE = 5 };

enum {
    PLUGIN_COLLECTIVE = 1 << 1,
    PLUGIN_CHANNEL = 1 << 6
};                                 /* types of events, for the mask */
enum { PLUGIN_CHANNEL_ENDS = 22 }; /* a state; its argument is the GPU's time */

struct plugin_event {
    uint64_t type; /* of version 4 the first byte alone */
    void *parent;  /* handle of the event that this one is a part of */
    int rank;
    union {
        struct {
            uint64_t sequence; /* of this function on the communicator */
            const char *func;  /* "AllReduce" */
            const void *in;
            void *out;
            size_t count; /* of a rank's block, or of the vector */
            int root;
            const char *type; /* "ncclFloat32" */
            uint8_t channels; /* blocks of the kernel; 0: a kernel that reports none */
        } call;
        struct {
            uint8_t channel;
            uint64_t gpu_ns; /* the GPU's globaltimer when it began */
        } channel;
    } of;
};

/* The arguments of init depend on the version. */
struct plugin_profiler {
    const char *name;
    void (*init)(void);
    int (*start_event)(void *context, void **handle, const struct plugin_event *e);
    int (*stop_event)(void *handle);
    int (*record_state)(void *handle, int state, const uint64_t *args);
    int (*finalize)(void *context);
};

struct plugin_tuner {
    const char *name;
    void (*init)(void);
    /* costs: [algos][protos] predicted times, below 0: impossible; channels: may stay as is */
    int (*choose)(void *context, int func, size_t bytes, int ops, float *costs, int algos,
                  int protos, int registered, int *channels);
    int (*finalize)(void *context);
};

#endif
