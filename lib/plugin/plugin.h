/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

/*
 * Declares the part of NCCL's plugin interface that libparo-nccl-plugin.so uses; NCCL looks
 * plugins up by symbol name.  The layouts are NCCL's binary interface: profiler and tuner of
 * versions 4 (NCCL 2.27) and 5 (2.28).  NCCL uses the newest version that it knows; an NCCL
 * that only knows older names is too old.  Functions return ncclResult_t.
 */
enum { PLUGIN_OK, PLUGIN_USAGE = 5 };

enum {
    PLUGIN_COLLECTIVE = 1 << 1,
    PLUGIN_CHANNEL = 1 << 6
};                                 /* types of events, for the mask */
enum { PLUGIN_CHANNEL_ENDS = 22 }; /* a state; its argument is the GPU's time */

struct plugin_event {
    uint64_t type; /* in version 4 only the first byte */
    void *parent;  /* handle of the enclosing event */
    int rank;
    union {
        struct {
            uint64_t sequence; /* count of this function on the communicator */
            const char *func;  /* "AllReduce" */
            const void *in;
            void *out;
            size_t count; /* elements of a rank's block, or of the vector */
            int root;
            const char *type; /* "ncclFloat32" */
            uint8_t channels; /* blocks of the kernel; 0: the kernel reports none */
        } call;
        struct {
            uint8_t channel;
            uint64_t gpu_ns; /* the GPU's globaltimer at the beginning */
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
    /* costs: [algos][protos] predicted times, below 0: impossible; channels: may stay
       unchanged */
    int (*choose)(void *context, int func, size_t bytes, int ops, float *costs, int algos,
                  int protos, int registered, int *channels);
    int (*finalize)(void *context);
};

#endif
