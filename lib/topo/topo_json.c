/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows a fabric as JSON, "paro.topo/1". */
#include "base/jout.h"
#include "topo/topo_print.h"

/* What may be unknown, and is left out then. */
static void json_known(struct jout *j, const char *key, double v)
{
    if (v > 0)
        jout_num(j, key, v);
}

static void json_count(struct jout *j, const char *key, int count)
{
    if (count > 0)
        jout_int(j, key, count);
}

static void json_level(struct jout *j, const struct topo_level *level)
{
    jout_open(j, NULL, '{');
    jout_text(j, "name", level->name);
    jout_num(j, "latency_s", level->latency_s);
    jout_num(j, "port_Bps", level->port_Bps);
    jout_num(j, "flow_Bps", level->flow_Bps);
    jout_num(j, "member_Bps", level->member_Bps);
    json_known(j, "message_s", level->message_s);
    json_known(j, "latency_err_s", level->latency_err_s);
    json_known(j, "port_err_Bps", level->port_err_Bps);
    json_known(j, "flow_err_Bps", level->flow_err_Bps);
    json_known(j, "member_err_Bps", level->member_err_Bps);
    json_known(j, "rate_left", level->rate_left);
    json_known(j, "compute_left", level->compute_left);
    json_known(j, "use_lost_s", level->use_lost_s);
    if (level->rate_source[0])
        jout_text(j, "rate_source", level->rate_source);
    if (level->latency_source[0])
        jout_text(j, "latency_source", level->latency_source);
    jout_close(j, '}');
}

static void json_group(struct jout *j, const struct topo *t, int k)
{
    const struct groups *g = &t->groups;

    jout_open(j, NULL, '{');
    jout_int(j, "group", k);
    jout_text(j, "host", t->host[k][0] ? t->host[k] : NULL);
    jout_open(j, "ranks", '[');
    for (int i = 0; i < g->members[k]; i++)
        jout_int(j, NULL, groups_rank(g, k, i));
    jout_close(j, ']');
    jout_num(j, "port_out_Bps", t->port[k].out_Bps);
    jout_num(j, "port_in_Bps", t->port[k].in_Bps);
    jout_open(j, "blocks", '[');
    for (int l = 0; l < t->levels - 2; l++)
        jout_int(j, NULL, t->block[l * g->count + k]);
    jout_close(j, ']');
    json_count(j, "numa_nodes", t->devices[k].numa_nodes);
    json_count(j, "gpus", t->devices[k].gpus);
    json_count(j, "nics", t->devices[k].nics);
    if (t->devices[k].gpu_name[0])
        jout_text(j, "gpu_name", t->devices[k].gpu_name);
    jout_close(j, '}');
}

void topo_print_json(const struct topo *t, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.topo/1");
    jout_int(&j, "ranks", t->groups.ranks);
    jout_text(&j, "device", topo_device_name(t->device));
    if (t->transport != TOPO_OVER_MPI)
        jout_text(&j, "transport", topo_transport_name(t->transport));
    if (t->memory_bytes)
        jout_int(&j, "memory_bytes", t->memory_bytes);
    else
        jout_null(&j, "memory_bytes");
    if (t->flops > 0)
        jout_num(&j, "flops", t->flops);
    else
        jout_null(&j, "flops");
    jout_text(&j, "compute_type", dtype_name(t->compute_type));
    if (t->memory_Bps > 0)
        jout_num(&j, "memory_Bps", t->memory_Bps);
    else
        jout_null(&j, "memory_Bps");
    jout_open(&j, "levels", '[');
    for (int l = 0; l < t->levels; l++)
        json_level(&j, &t->level[l]);
    jout_close(&j, ']');
    jout_open(&j, "groups", '[');
    for (int k = 0; k < t->groups.count; k++)
        json_group(&j, t, k);
    jout_close(&j, ']');
    jout_close(&j, '}');
}
