/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_RECORD_H
#define TRAIN_TRAIN_RECORD_H

#include <stdint.h>

/*
 * Lists the values logged for a step, once: key, kind (I a whole number, F a real one, B yes or
 * no), the group of TensorBoard's tag, the name in Prometheus after "paro_train_", the factor
 * to its base unit, meaning.  The keys are those of log.jsonl (paro-train(1)).
 */
#define TRAIN_METRICS(X)                                                                       \
    X(step, I, "run", "step", 1, "Last step that is done")                                     \
    X(loss, F, "loss", "loss", 1, "Mean loss of the step, in nats, before the update")         \
    X(grad_norm, F, "optimizer", "gradient_norm", 1, "Norm of the gradient before clipping")   \
    X(lr, F, "optimizer", "learning_rate", 1, "Learning rate of the update")                   \
    X(tokens, I, "throughput", "step_tokens", 1, "Tokens of the step, on all ranks")           \
    X(targets, I, "throughput", "step_targets", 1, "Of them, those whose target counts")       \
    X(step_s, F, "time", "step_seconds", 1, "Time of the step on rank 0")                      \
    X(tokens_per_s, F, "throughput", "tokens_per_second", 1, "Tokens per second of the step")  \
    X(compute_s, F, "time", "compute_seconds", 1, "Part of the step in which rank 0 computes") \
    X(exposed_comm_s, F, "time", "exposed_communication_seconds", 1,                           \
      "Part of the step in which rank 0 waits for its communication")                          \
    X(idle_s, F, "time", "idle_seconds", 1,                                                    \
      "Part of the step in which rank 0 waits for the other ranks")                            \
    X(update_s, F, "time", "update_seconds", 1, "Time of the optimizer on rank 0")             \
    X(gather_wait_s, F, "time", "gather_wait_seconds", 1,                                      \
      "Part of the exposed communication that is for parameters")                              \
    X(grads_wait_s, F, "time", "gradients_wait_seconds", 1,                                    \
      "Part of the exposed communication that is for gradients")                               \
    X(sync_wait_s, F, "time", "sync_wait_seconds", 1,                                          \
      "Part of the exposed communication that is for the sync of parameters")                  \
    X(bound_share, F, "time", "bound_ratio", 1,                                                \
      "Time that the plan has for a step's longest resource alone, over that of the step")     \
    X(slow_bytes, I, "traffic", "step_slow_bytes", 1,                                          \
      "Bytes through the busiest group port in the step")                                      \
    X(fast_bytes, I, "traffic", "step_fast_bytes", 1,                                          \
      "Bytes inside its group by the rank that sends most, in the step")                       \
    X(state_bytes, I, "memory", "state_bytes", 1,                                              \
      "Parameters, gradients and optimizer state on rank 0")                                   \
    X(buffer_bytes, I, "memory", "buffer_bytes", 1, "Everything else that rank 0 allocated")   \
    X(gflops, F, "throughput", "flops_per_second", 1e9,                                        \
      "Operations per second in matrix products, on rank 0")                                   \
    X(mfu, F, "throughput", "mfu_ratio", 1, "Share of the peak that the products use")         \
    X(skipped, B, "optimizer", "skipped", 1, "1: no rank updated its parameters in the step")  \
    X(save_s, F, "time", "save_seconds", 1, "Pause for the last checkpoint")                   \
    X(eval_loss, F, "loss", "eval_loss", 1, "Mean loss of the last evaluation, in nats")       \
    X(eval_bits_per_byte, F, "loss", "eval_bits_per_byte", 1,                                  \
      "Loss of the last evaluation, in bits per byte of text")                                 \
    X(eval_s, F, "time", "eval_seconds", 1, "Time of the last evaluation")                     \
    X(critical_path_s, F, "time", "critical_path_seconds", 1,                                  \
      "Critical path of rank 0 in the traced step")

enum train_metric {
#define X_METRIC(key, kind, group, prom, scale, help) TRAIN_METRIC_##key,
    TRAIN_METRICS(X_METRIC)
#undef X_METRIC
        TRAIN_METRICS_COUNT
};

struct train_metric_row {
    const char *key;
    char kind;
    const char *group, *prom;
    double scale;
    const char *help;
};
extern const struct train_metric_row train_metrics[TRAIN_METRICS_COUNT];

struct train_record {
    double value[TRAIN_METRICS_COUNT]; /* the last step's, or an earlier one's if it has none */
    char now[TRAIN_METRICS_COUNT];     /* whether the last step has it */
    char ever[TRAIN_METRICS_COUNT];
};

#endif
