/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-plan: predicts the cost of every PaRO strategy on a fabric, prints the best plan. */
#include <string.h>

#include "base/num.h"
#include "cli/cli.h"
#include "plan/ask.h"
#include "plan/scale.h"

enum {
    KEY_LIST = 1,
    KEY_WHY,
    KEY_WHAT_IF,
    KEY_CHECK,
    KEY_COMPARE,
    KEY_EMIT,
    KEY_TIMELINE,
    KEY_STEPS,
    KEY_SCALE,
    KEY_STRATEGY,
    KEY_GROUP_LEVEL,
    KEY_STORAGE,
    KEY_ALGO,
    KEY_MEM,
    KEY_HEADROOM,
    KEY_DEVICE,
    KEY_BATCH,
    KEY_ACCUM,
    KEY_GLOBAL,
    KEY_SEQ,
    KEY_TRAINABLE,
    KEY_PARAM_TYPE,
    KEY_WIRE_TYPE,
    KEY_GRAD_TYPE,
    KEY_COMPUTE_TYPE,
    KEY_SLOW_PARAMS,
    KEY_SLOW_GRADS,
    KEY_PREFETCH,
    KEY_BUCKETS,
    KEY_KEEP,
    KEY_RECOMPUTE
};

struct args {
    struct cli cli;
    int searching; /* an option was given that only a search has a use for */
    struct plan_ask ask;
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "The model, the fabric and the batch:", 1},
    {"model", 'm', "MODEL", CLI_EVERYDAY,
     "Plan for MODEL: a config.json, a folder with one, -, or params=7e9", 0},
    {"input", 'i', "TOPO", CLI_EVERYDAY,
     "Read the fabric from TOPO: a file, synth:SPEC, such as synth:2x8, or - (default: standard"
     " input)",
     0},
    {"mem", KEY_MEM, "BYTES", CLI_EVERYDAY,
     "Use at most BYTES of memory per rank, such as 80e9 or 64Gi (default: 90 % of what the"
     " fabric states)",
     0},
    {"headroom", KEY_HEADROOM, "PERCENT", 0,
     "Leave PERCENT of the memory that the fabric states free, for what is not counted, such as"
     " libraries (default: 10)",
     0},
    {"micro-batch", KEY_BATCH, "B", CLI_EVERYDAY,
     "Train on B sequences per rank and micro-step; auto: the fastest that fits (default: 1)",
     0},
    {"accum", KEY_ACCUM, "S", 0,
     "Accumulate gradients over S micro-steps per step (default: 1)", 0},
    {"global-batch", KEY_GLOBAL, "COUNT", CLI_EVERYDAY,
     "Train on COUNT sequences per step, or tokens, such as 4Mtokens: sets --micro-batch and"
     " --accum",
     0},
    {"seq", KEY_SEQ, "T", CLI_EVERYDAY,
     "Train on sequences of T tokens (default: 256, or the model's maximum if that is less)",
     0},
    {"trainable", KEY_TRAINABLE, "WHAT", 0,
     "Train a part of the model, for example to plan fine-tuning: all, train=PATTERN,"
     " freeze=PATTERN, lora=RANK, a fraction, or params=COUNT (default: all)",
     0},
    {0, 0, 0, 0, "Print something else instead of the plan:", 2},
    {"list", KEY_LIST, 0, CLI_EVERYDAY, "Print memory, traffic and time of all strategies", 0},
    {"why", KEY_WHY, 0, 0,
     "Print what makes each strategy lose to the best one, and by how much", 0},
    {"what-if", KEY_WHAT_IF, 0, 0,
     "Print which network rate, accumulation or memory would make another strategy win", 0},
    {"check", KEY_CHECK, "LOG", 0,
     "Compare the log of a run with PLAN, to see how good the prediction was (default:"
     " plan.yaml next to the log)",
     0},
    {"compare", KEY_COMPARE, 0, 0,
     "Compare two plans: the settings in which they differ, and their predictions", 0},
    {"emit", KEY_EMIT, "TARGET", 0,
     "Print settings for another tool, with the nearest strategy that it can run; TARGET is"
     " deepspeed, fsdp or megatron",
     0},
    {"timeline", KEY_TIMELINE, 0, 0,
     "Print when each piece of work in the predicted step runs, to see what overlaps", 0},
    {"steps", KEY_STEPS, 0, 0,
     "Print the step as rows: what each lane does in which buffer, after which rows", 0},
    {"scale", KEY_SCALE, "FROM..TO", 0,
     "Print the predicted throughput on FROM ranks, twice as many, and so on up to TO, such as"
     " 16..4096",
     0},
    CLI_OPTIONS_SVG("Draw --scale or --timeline as SVG to FILE or standard output", 0, 0),
    {0, 0, 0, 0, "Restrict the search, describe the machine:", 3},
    {"strategy", KEY_STRATEGY, "XYZ", CLI_EVERYDAY,
     "Plan only this strategy: three letters of N, I, G, such as IIG, or an alias, such as"
     " zero3",
     0},
    {"group-level", KEY_GROUP_LEVEL, "LEVEL", 0,
     "End the groups at this level of the fabric, counted from 0; auto tries all of them"
     " (default: auto)",
     0},
    {"algo", KEY_ALGO, "ALGO", 0,
     "Use only ALGO for collectives over all ranks: ring, two-level, ho-ring, or auto for the"
     " fastest (default: auto)",
     0},
    {"device", KEY_DEVICE, "KIND", 0,
     "Count the memory that ranks need on KIND, cpu or cuda (default: what the fabric was"
     " measured on)",
     0},
    {"storage", KEY_STORAGE, "RATE", 0,
     "Predict the time of a checkpoint when each host writes at RATE, such as 2GB/s", 0},
    {0, 0, 0, 0, "Trade memory against traffic and computing:", 4},
    {"prefetch", KEY_PREFETCH, "UNITS", 0,
     "Gather parameters this many units (layers) ahead; more hide latency and need memory"
     " (default: 1)",
     0},
    {"buckets", KEY_BUCKETS, "COUNT", 0,
     "Keep up to COUNT gradient buckets in flight, one per unit; the backward pass waits when"
     " all are in use (default: 2)",
     0},
    {"keep", KEY_KEEP, "USES", 0,
     "Keep the last USES gathered units of the forward pass for the backward pass, for less"
     " traffic; a number, all or auto (default: 0)",
     0},
    {"recompute", KEY_RECOMPUTE, "WHEN", OPTION_ARG_OPTIONAL,
     "Keep only the input of each layer and recompute the rest in the backward pass, to save"
     " memory; WHEN is yes, no or auto (default: no)",
     0},
    {0, 0, 0, 0, "Types of numbers:", 5},
    {"param-type", KEY_PARAM_TYPE, "TYPE", 0,
     "Store parameters as TYPE, bf16 or f32 (default: bf16, "
     "or f32 if that keeps frozen weights exact)",
     0},
    {"grad-type", KEY_GRAD_TYPE, "TYPE", 0,
     "Accumulate gradients as TYPE, f32 or bf16 (default: f32)", 0},
    {"wire-type", KEY_WIRE_TYPE, "TYPE", 0,
     "Send parameters and gradients as TYPE, bf16 or f32 (default: as for --param-type)", 0},
    {"compute-type", KEY_COMPUTE_TYPE, "TYPE", 0,
     "Round the operands of matrix products to TYPE, f32 or bf16 (default: the type that the"
     " fabric was measured with, or f32)",
     0},
    {"slow-params", KEY_SLOW_PARAMS, "TYPE", 0,
     "Send parameters between groups as TYPE: same (the wire type), or int8 for about half of"
     " bf16's traffic (default: same)",
     0},
    {"slow-grads", KEY_SLOW_GRADS, "TYPE", 0,
     "Send gradients between groups as TYPE: same (the wire type), or int8 for about half of"
     " bf16's traffic (default: same)",
     0},
    CLI_OPTIONS,
    {0}};

/* One answer at a time. */
static error_t ask_for(struct args *a, enum plan_ask_what what)
{
    if (a->ask.what != PLAN_ASK_PLAN && a->ask.what != what)
        return cli_usage(&a->cli, "--list, --why, --what-if, --check, --compare, --emit, "
                                  "--scale, --steps and --timeline, expected one of them");
    a->ask.what = what;
    return 0;
}

/* Which answer is wanted. */
static error_t parse_answer(struct args *a, int key, char *arg)
{
    struct plan_ask *ask = &a->ask;
    struct err *err = &a->cli.err;

    switch (key) {
    case KEY_LIST:
        return ask_for(a, PLAN_ASK_LIST);
    case KEY_WHY:
        return ask_for(a, PLAN_ASK_WHY);
    case KEY_WHAT_IF:
        return ask_for(a, PLAN_ASK_WHAT_IF);
    case KEY_CHECK:
        ask->log = arg;
        return ask_for(a, PLAN_ASK_CHECK);
    case KEY_COMPARE:
        return ask_for(a, PLAN_ASK_COMPARE);
    case KEY_TIMELINE:
        return ask_for(a, PLAN_ASK_TIMELINE);
    case KEY_STEPS:
        return ask_for(a, PLAN_ASK_STEPS);
    case KEY_EMIT:
        if (cli_check(&a->cli, plan_target_parse(arg, &ask->target, err), "--emit"))
            return EINVAL;
        return ask_for(a, PLAN_ASK_EMIT);
    default: /* KEY_SCALE */
        if (cli_check(&a->cli, plan_scale_parse(arg, &ask->from, &ask->to, err), "--scale"))
            return EINVAL;
        return ask_for(a, PLAN_ASK_SCALE);
    }
}

static error_t check_words(struct args *a)
{
    struct plan_ask *ask = &a->ask;
    int compare = ask->what == PLAN_ASK_COMPARE, plans = !!ask->plan[0] + !!ask->plan[1];

    ask->svg = a->cli.svg != NULL;
    if (compare && plans < 2)
        return cli_usage(&a->cli, "--compare with %s, expected two plans",
                         plans ? "one plan" : "no plan");
    if (plans > (compare ? 2 : ask->log ? 1 : 0))
        return cli_usage(&a->cli,
                         "'%s', expected plans only with --check=LOG [PLAN] and"
                         " --compare PLAN PLAN",
                         ask->plan[plans - 1]);
    if (ask->svg && ask->what != PLAN_ASK_SCALE && ask->what != PLAN_ASK_TIMELINE)
        return cli_usage(&a->cli, "--svg, expected it with --scale or --timeline");
    if (cli_check_svg(&a->cli))
        return EINVAL;
    if (!ask->model && !ask->log && !compare)
        return cli_usage(&a->cli, "no model, expected -m MODEL (see --help)");
    if (ask->memory_bytes && !isnan(ask->headroom))
        return cli_usage(&a->cli, "--mem and --headroom, expected one of them");
    if (ask->accum == 0 && !ask->global_batch)
        return cli_usage(&a->cli, "--accum=auto, expected --global-batch with it: without a"
                                  " bound more accumulation is always faster");
    if (ask->global_batch && ask->micro_batch > 0 && ask->accum > 0)
        return cli_usage(&a->cli, "--global-batch, --micro-batch and --accum, expected two of"
                                  " them");
    if ((ask->log || compare) && a->searching)
        return cli_usage(&a->cli,
                         "--%s and options of a search, expected one of them: "
                         "the plan states what was searched",
                         compare ? "compare" : "check");
    return 0;
}

/* What numbers are, at rest and on their way; and what every command has. */
static error_t parse_type(struct args *a, int key, char *arg, struct argp_state *state)
{
    struct plan_ask *ask = &a->ask;
    struct err *err = &a->cli.err;
    enum dtype type;

    switch (key) {
    case KEY_PARAM_TYPE:
    case KEY_WIRE_TYPE:
        if (dtype_parse_compute(arg, &type, err))
            return cli_check(&a->cli, -1,
                             key == KEY_PARAM_TYPE ? "--param-type" : "--wire-type");
        *(key == KEY_PARAM_TYPE ? &ask->param_type : &ask->wire_type) = (int)type;
        return 0;
    case KEY_COMPUTE_TYPE:
        if (dtype_parse_compute(arg, &type, err))
            return cli_check(&a->cli, -1, "--compute-type");
        ask->compute_type = (int)type;
        return 0;
    case KEY_GRAD_TYPE:
        return cli_check(&a->cli, dtype_parse_compute(arg, &ask->grad_type, err),
                         "--grad-type");
    case KEY_SLOW_PARAMS:
        return cli_check(&a->cli, plan_slow_parse(arg, &ask->slow_params, err),
                         "--slow-params");
    case KEY_SLOW_GRADS:
        return cli_check(&a->cli, plan_slow_parse(arg, &ask->slow_grads, err), "--slow-grads");
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    struct plan_ask *ask = &a->ask;
    struct err *err = &a->cli.err;
    enum device_kind device;

    if (key >= KEY_LIST && key <= KEY_SCALE)
        return parse_answer(a, key, arg);
    a->searching |= key == 'm' || key == 'i' || (key >= KEY_STRATEGY && key <= KEY_RECOMPUTE);
    switch (key) {
    case 'm':
        ask->model = arg;
        return 0;
    case 'i':
        ask->topo = arg;
        return 0;
    case KEY_STRATEGY:
        ask->fixed = 1;
        return cli_check(&a->cli, plan_strategy_parse(arg, &ask->strategy, err), "--strategy");
    case KEY_GROUP_LEVEL:
        return cli_check(&a->cli, plan_ask_level(arg, &ask->group_level, err), "--group-level");
    case KEY_STORAGE:
        return cli_check(&a->cli, plan_ask_storage(arg, &ask->storage_Bps, err), "--storage");
    case KEY_ALGO:
        return cli_check(&a->cli, plan_algo_parse(arg, &ask->algo, err), "--algo");
    case KEY_MEM:
        return cli_check(
            &a->cli, num_bytes(arg, 1, PLAN_ASK_MEMORY_MAX, &ask->memory_bytes, err), "--mem");
    case KEY_HEADROOM:
        return cli_check(&a->cli, plan_ask_headroom(arg, &ask->headroom, err), "--headroom");
    case KEY_DEVICE:
        if (plan_device_parse(arg, &device, err))
            return cli_check(&a->cli, -1, "--device");
        ask->device = (int)device;
        return 0;
    case KEY_BATCH:
        return cli_check(&a->cli, plan_ask_batch(arg, &ask->micro_batch, err), "--micro-batch");
    case KEY_ACCUM:
        return cli_check(&a->cli, plan_ask_batch(arg, &ask->accum, err), "--accum");
    case KEY_GLOBAL:
        return cli_check(&a->cli, plan_ask_global(arg, ask, err), "--global-batch");
    case KEY_SEQ:
        return cli_check(&a->cli, num_i64(arg, 1, PLAN_SEQ_MAX, &ask->seq, err), "--seq");
    case KEY_TRAINABLE:
        return cli_check(&a->cli, plan_ask_trainable(arg, ask, err), "--trainable");
    case KEY_PREFETCH:
        return cli_check(&a->cli, num_i64(arg, 0, PLAN_PREFETCH_MAX, &ask->prefetch, err),
                         "--prefetch");
    case KEY_BUCKETS:
        return cli_check(&a->cli, num_i64(arg, 1, PLAN_BUCKETS_MAX, &ask->buckets, err),
                         "--buckets");
    case KEY_KEEP:
        return cli_check(&a->cli, plan_ask_keep(arg, &ask->keep, err), "--keep");
    case KEY_RECOMPUTE:
        return cli_check(&a->cli, plan_ask_recompute(arg, &ask->recompute, err), "--recompute");
    case ARGP_KEY_ARG:
        if (ask->plan[1])
            return cli_usage(&a->cli, "'%s', expected no operand after '%s'", arg,
                             ask->plan[1]);
        ask->plan[ask->plan[0] != NULL] = arg;
        return 0;
    case ARGP_KEY_END:
        return check_words(a);
    default:
        return parse_type(a, key, arg, state);
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "-m MODEL\n--check=LOG [PLAN]\n--compare PLAN PLAN",
        "Predict the cost of training under each of the 27 PaRO strategies on a fabric, and"
        " print the fastest plan that fits into memory.",
        0,
        0,
        0};
    struct args a = {.cli = CLI_INIT("paro-plan"), .ask = PLAN_ASK_INIT};
    char note[PLAN_NOTE];
    struct io_out file;
    struct err err;
    FILE *out;
    int found;

    cli_parse(&a.cli, &argp, argc, argv);
    a.ask.json = a.cli.json;
    if (cli_svg_open(&a.cli, &file, &out, &err))
        return cli_fail(&a.cli, &err);
    if (cli_svg_close(&file, plan_ask_answer(&a.ask, out, note, &found, &err), &err))
        return cli_fail(&a.cli, &err);
    for (char *line = strtok(note, "\n"); line; line = strtok(NULL, "\n"))
        cli_say(&a.cli, "%s", line);
    if (found)
        return cli_finish(&a.cli, 0);
    cli_fail(&a.cli, &err);
    return cli_finish(&a.cli, 1);
}
