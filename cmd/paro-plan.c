/* SPDX-License-Identifier: BSD-3-Clause */
/* Predicts the cost of every PaRO strategy on a fabric, and prints the best plan. */
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_hub.h"
#include "plan/plan_request.h"
#include "plan/plan_scale.h"

struct args {
    struct cli cli;
    struct plan_request request;
};

/* Indexed by enum plan_request_what; strict modes read plans, which contain the search's
   settings. */
static const struct cli_mode modes[] = {
    [PLAN_REQUEST_PLAN] = {"a plan", "-m MODEL", 0, 0, "model", 0},
    [PLAN_REQUEST_LIST] = {"--list", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_WHY] = {"--why", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_WHAT_IF] = {"--what-if", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_CHECK] = {"--check", "--check=LOG [PLAN]", 0, 1, NULL, 1},
    [PLAN_REQUEST_COMPARE] = {"--compare", "--compare PLAN PLAN", 2, 2, NULL, 1},
    [PLAN_REQUEST_EMIT] = {"--emit", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_TIMELINE] = {"--timeline", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_STEPS] = {"--steps", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_SCALE] = {"--scale", NULL, 0, 0, "model", 0},
    [PLAN_REQUEST_REVIEW] = {"--review", NULL, 0, 0, "model", 0},
    {0}};

#define CLI_ARGS struct args
CLI_PARSER(plan_request_global)
CLI_PARSER(plan_request_headroom)
CLI_PARSER(plan_request_trainable)
CLI_PARSER(plan_request_storage)
CLI_PARSER(plan_request_keep)
CLI_PARSER(plan_strategy_parse)
CLI_PARSER(plan_outer_parse)
CLI_PARSER(plan_algo_parse)
CLI_PARSER(dtype_parse_compute)
CLI_PARSER(plan_scale_parse)
CLI_PARSER(plan_budget_parse)

static const struct cli_option options[] = {
    {.text = "The model, the fabric and the batch:"},
    {"model", 'm', "MODEL", CLI_EVERYDAY,
     "Plan for MODEL: a config.json, a folder with one, -, or params=7e9",
     CLI_TEXT(request.model)},
    {"input", 'i', "TOPO", CLI_EVERYDAY,
     "Read the fabric from TOPO: a file, synth:2x8, machines as 16xaws-p5, or - (default: -)",
     CLI_TEXT(request.topo)},
    {"mem", 0, "BYTES", CLI_EVERYDAY,
     "Use at most BYTES of memory per rank, such as 80e9 or 64Gi (default: 90 % of what the"
     " fabric states)",
     CLI_BYTES(request.memory_bytes, PLAN_REQUEST_MEMORY_MIN, PLAN_REQUEST_MEMORY_MAX),
     .excludes = "headroom"},
    {"headroom", 0, "PERCENT", 0,
     "Leave PERCENT of the memory that the fabric states free, for what is not counted, such as"
     " libraries (default: 10)",
     CLI_PARSED(plan_request_headroom, request.headroom)},
    {"micro-batch", 0, "B", CLI_EVERYDAY,
     "Train on B sequences per rank and micro-step; auto: the fastest that fits (default: 1)",
     CLI_INT(request.micro_batch, 1, PLAN_BATCH_MAX), .word = "auto"},
    {"accum", 0, "S", 0, "Accumulate gradients over S micro-steps per step (default: 1)",
     CLI_INT(request.accum, 1, PLAN_BATCH_MAX), .word = "auto"},
    {"layered", 0, "L", 0,
     "Run L micro-batches through a layer before the next layer, for less traffic that overlaps"
     " more; each keeps its activations; a number or auto (default: 1)",
     CLI_INT(request.layered, 1, PLAN_BATCH_MAX), .word = "auto",
     .word_value = PLAN_REQUEST_AUTO},
    {"global-batch", 0, "COUNT", CLI_EVERYDAY,
     "Train on COUNT sequences per step, or tokens, such as 4Mtokens: sets --micro-batch and"
     " --accum",
     CLI_PARSED(plan_request_global, request)},
    {"seq", 0, "T", CLI_EVERYDAY,
     "Train on sequences of T tokens (default: 256, or the model's maximum if that is less)",
     CLI_INT(request.seq, 1, PLAN_SEQ_MAX)},
    {"trainable", 0, "WHAT", 0,
     "Train a part of the model, for example to plan fine-tuning: all, train=PATTERN,"
     " freeze=PATTERN, lora=RANK, sparse=S, a fraction, or params=COUNT (default: all)",
     CLI_PARSED(plan_request_trainable, request)},
    {.text = "Print something else instead of the plan:"},
    {"list", 0, NULL, CLI_EVERYDAY, "Print memory, traffic and time of all strategies",
     CLI_NOTED},
    {"why", 0, NULL, 0, "Print what makes each strategy lose to the best one, and by how much",
     CLI_NOTED},
    {"what-if", 0, NULL, 0,
     "Print which network rate, accumulation or memory would make another strategy win",
     CLI_NOTED},
    {"check", 0, "LOG", 0,
     "Compare the log of a run with PLAN, to see how good the prediction was (default:"
     " plan.yaml next to the log)",
     CLI_TEXT(request.log)},
    {"compare", 0, NULL, 0,
     "Compare two plans: the settings in which they differ, and their predictions", CLI_NOTED},
    {"emit", 0, "TARGET", 0,
     "Print settings for another tool, with the nearest strategy that it can run; TARGET is"
     " deepspeed, fsdp or megatron",
     CLI_CHOICE(request.target, "deepspeed|fsdp|megatron")},
    {"review", 0, "FILE", 0,
     "Print what a configuration of DeepSpeed, accelerate, torchtitan or Megatron-LM costs, and"
     " which changes to it are cheaper",
     CLI_TEXT(request.review),
     .excludes = "strategy keep param-type grad-type wire-type global-batch"},
    {"timeline", 0, NULL, 0,
     "Print when each piece of work in the predicted step runs, to see what overlaps",
     CLI_NOTED},
    {"steps", 0, NULL, 0,
     "Print the step as rows: what each lane does in which buffer, after which rows",
     CLI_NOTED},
    {"scale", 0, "FROM..TO", 0,
     "Print the predicted throughput on FROM ranks, twice as many, and so on up to TO, such as"
     " 16..4096",
     CLI_PARSED(plan_scale_parse, request.scale)},
    {CLI_OPTION_SVG("Draw --scale or --timeline as SVG to FILE or standard output", 0),
     .modes = 1 << PLAN_REQUEST_TIMELINE | 1 << PLAN_REQUEST_SCALE, .excludes = "json"},
    {CLI_OPTION_SVG_FORCE},
    {.text = "Restrict the search, describe the machine:"},
    {"strategy", 0, "XYZ", CLI_EVERYDAY,
     "Plan only this strategy: three letters of N, I, G, such as IIG, or an alias, such as"
     " zero3",
     CLI_PARSED(plan_strategy_parse, request.strategy)},
    {"group-level", 0, "LEVEL", 0,
     "End the groups at this level of the fabric, counted from 0; auto tries all of them"
     " (default: auto)",
     CLI_INT(request.group_level, 0, TOPO_LEVELS_MAX - 2), .word = "auto",
     .word_value = PLAN_REQUEST_AUTO},
    {"algo", 0, "ALGO", 0,
     "Use only ALGO for collectives over all ranks: ring, two-level, ho-ring, or auto for the"
     " fastest (default: auto)",
     CLI_PARSED(plan_algo_parse, request.algo)},
    {"device", 0, "KIND", 0,
     "Plan for cpu or cuda: memory and types differ (default: the fabric's device; synth: is"
     " cpu unless it says device=cuda)",
     CLI_CHOICE(request.device, "cpu|cuda")},
    {"storage", 0, "RATE", 0,
     "Predict the time of a checkpoint when each host writes at RATE, such as 2GB/s, or all"
     " together, such as 100GB/s/all",
     CLI_PARSED(plan_request_storage, request)},
    {.text = "Price the whole run, failures of nodes, and saves:"},
    {"tokens", 0, "COUNT", 0, "Predict the hours that a run of COUNT tokens takes, such as 20B",
     CLI_COUNT(request.tokens, 1, INT64_MAX)},
    {"price", 0, "PRICE", 0,
     "Predict what the run costs when a host, or a rank, costs PRICE an hour, such as 32.77/h"
     " or 2.10EUR/rank/h",
     CLI_PARSED(plan_budget_parse, request.budget)},
    {"mtbf", 0, "HOURS", 0,
     "Choose by useful throughput where a node fails every HOURS on average, and predict the"
     " best intervals between saves, and their copies",
     CLI_NUMBER(request.mtbf_h, 1e-3, 1e9)},
    {"restart", 0, "SECONDS", 0,
     "A restart takes SECONDS from a failure until ranks read their states (default: 60)",
     CLI_NUMBER(request.restart_s, 0, 1e6), .needs = "mtbf"},
    {"local-storage", 0, "RATE", 0,
     "Each host writes at RATE to storage of its own (default: 2GB/s)",
     CLI_RATE(request.local_Bps, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS), .needs = "mtbf"},
    {"copies", 0, "C", 0,
     "Make C copies of local saves on nodes of other groups, 0 to save in the shared folder"
     " alone, or auto (default: auto)",
     CLI_INT(request.copies, 0, PLAN_COPIES_MAX), .word = "auto",
     .word_value = PLAN_REQUEST_AUTO, .needs = "mtbf"},
    {.text = "Trade memory against traffic and computing:"},
    {"prefetch", 0, "UNITS", 0,
     "Gather parameters this many units (layers) ahead; more hide latency and need memory"
     " (default: 1)",
     CLI_INT(request.prefetch, 0, PLAN_PREFETCH_MAX)},
    {"buckets", 0, "COUNT", 0,
     "Keep up to COUNT gradient buckets in flight, one per unit; the backward pass waits when"
     " all are in use (default: 2)",
     CLI_INT(request.buckets, 1, PLAN_BUCKETS_MAX)},
    {"keep", 0, "USES", 0,
     "Keep the last USES gathered units of the forward pass for the backward pass, for less"
     " traffic; a number, all or auto (default: 0)",
     CLI_PARSED(plan_request_keep, request.keep)},
    {"recompute", 0, "WHEN", OPTION_ARG_OPTIONAL,
     "Keep only the input of each layer and recompute the rest in the backward pass, to save"
     " memory; WHEN is yes, no or auto (default: no)",
     CLI_CHOICE_FROM(request.recompute, PLAN_REQUEST_AUTO, "auto|no|yes"), .absent = "yes"},
    {"sync-every", 0, "H", 0,
     "Train the groups apart for H steps, then let them meet in an outer step, for 1/H of the"
     " traffic between groups; it is another optimizer; auto: H so large that outer steps take"
     " a tenth of the time (default: every step is of all ranks)",
     CLI_INT(request.sync_every, 1, PLAN_SYNC_EVERY_MAX), .word = "auto",
     .word_value = PLAN_REQUEST_AUTO},
    {"fragments", 0, "F", 0,
     "Let the units take their outer steps in F turns of a period, each overlapped with a step,"
     " instead of all at its end; auto: a turn for each unit (default: auto with --sync-every"
     " auto)",
     CLI_INT(request.fragments, 1, PLAN_SYNC_EVERY_MAX), .word = "auto",
     .word_value = PLAN_REQUEST_AUTO, .needs = "sync-every"},
    {"outer", 0, "LETTER", 0,
     "Divide the outer state among all ranks (G), or among those of each group (I) (default:"
     " G)",
     CLI_PARSED(plan_outer_parse, request.outer), .needs = "sync-every"},
    {.text = "Types of numbers:"},
    {"param-type", 0, "TYPE", 0,
     "Store parameters as TYPE, bf16 or f32 (default: bf16, "
     "or f32 if that keeps frozen weights exact)",
     CLI_PARSED(dtype_parse_compute, request.param_type)},
    {"grad-type", 0, "TYPE", 0, "Accumulate gradients as TYPE, f32 or bf16 (default: f32)",
     CLI_PARSED(dtype_parse_compute, request.grad_type)},
    {"wire-type", 0, "TYPE", 0,
     "Send gradients as TYPE, bf16 or f32, and parameters as the narrower of TYPE and their own"
     " (default: as for --param-type)",
     CLI_PARSED(dtype_parse_compute, request.wire_type)},
    {"moments", 0, "TYPE", 0,
     "Store AdamW's moments as TYPE: f32, bf16 (rounded stochastically) or int8 (8-bit blocks),"
     " for 12, 8 or 6 bytes of optimizer state (default: f32)",
     CLI_CHOICE(request.moments, "f32|bf16|int8")},
    {"compute-type", 0, "TYPE", 0,
     "Round the operands of matrix products to TYPE, f32 or bf16; auto: the faster one of those"
     " that the fabric was measured with (default: the fabric's compute_type)",
     CLI_CHOICE_FROM(request.compute_type, PLAN_REQUEST_AUTO, "auto|f32|bf16")},
    {"slow-params", 0, "TYPE", 0,
     "Send parameters between groups as TYPE: same (the wire type), bf16, or int8 for about"
     " half of bf16's traffic (default: same)",
     CLI_CHOICE(request.slow_params, "same|bf16|int8")},
    {"slow-grads", 0, "TYPE", 0,
     "Send gradients between groups as TYPE: same (the wire type), bf16, or int8 for about"
     " half of bf16's traffic (default: same)",
     CLI_CHOICE(request.slow_grads, "same|bf16|int8")},
    {0}};

static int check(void *args)
{
    struct args *a = args;
    struct plan_request *request = &a->request;

    request->what = (enum plan_request_what)a->cli.mode;
    request->json = a->cli.json;
    request->svg = a->cli.svg != NULL;
    request->fixed = cli_given(&a->cli, "strategy") != NULL;
    for (int i = 0; i < a->cli.words; i++)
        request->plan[i] = a->cli.word[i];
    if (request->accum == 0 && !request->global_batch)
        return cli_usage(&a->cli, "--accum=auto, expected --global-batch with it: without a"
                                  " bound more accumulation is always faster");
    if (request->global_batch && request->micro_batch > 0 && request->accum > 0)
        return cli_usage(&a->cli, "--global-batch, --micro-batch and --accum, expected two of"
                                  " them");
    return 0;
}

static const struct cli_command command = {
    options, modes,
    "Predict the cost of training under each of the 27 PaRO strategies on a fabric, and"
    " print the fastest plan that fits into memory.",
    check};

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-plan"), .request = PLAN_REQUEST_INIT};
    char note[PLAN_NOTE], hub[CLI_HUB_PATH];
    struct io_out file;
    struct err err;
    FILE *out;
    int found;

    cli_parse(&a.cli, &command, argc, argv);
    a.request.model = cli_hub(a.request.model, hub);
    if (cli_svg_open(&a.cli, &file, &out, &err))
        return cli_fail(&a.cli, &err);
    if (cli_svg_close(&file, plan_request_answer(&a.request, out, note, &found, &err), &err))
        return cli_fail(&a.cli, &err);
    /* If standard output cannot be written, prints only that error. */
    for (char *line = fflush(stdout) ? NULL : strtok(note, "\n"); line;
         line = strtok(NULL, "\n"))
        cli_say(&a.cli, "%s", line);
    if (found)
        return cli_finish(&a.cli, 0);
    cli_fail(&a.cli, &err);
    return cli_finish(&a.cli, 1);
}
