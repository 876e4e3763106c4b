/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what a user who asks for choices wants to see: a list, a table, or a table of his own.
 */
#include "pick/pick_table.h"

#include "base/mem.h"

static int report_table(const struct pick_table *t, int yaml, int json, FILE *out)
{
    pick_table_print(t, json ? PICK_JSON : yaml ? PICK_YAML : PICK_TEXT, out);
    return 0;
}

static int report_own(const struct pick_request *r, FILE *out, struct err *err)
{
    struct pick_table table;

    if (pick_table_read(&table, r->tuning, err))
        return -1;
    report_table(&table, r->table, r->json, out);
    pick_table_release(&table);
    return 0;
}

static int report_made(const struct pick_request *r, const struct topo *t,
                       const struct pick_ask *a, FILE *out, struct err *err)
{
    struct pick_answer *list = NULL;
    struct pick_table table;
    int answers = 0;

    if (r->table) {
        if (pick_table_make(t, a, &table, err))
            return -1;
        report_table(&table, 1, r->json, out);
        pick_table_release(&table);
        return 0;
    }
    if (pick_list(t, a, &list, &answers, err))
        return -1;
    (r->json ? pick_list_print_json : pick_list_print)(t, list, answers, out);
    mem_free(list);
    return 0;
}

int pick_report(const struct pick_request *r, FILE *out, struct err *err)
{
    struct pick_ask ask;
    struct topo t;

    if (r->tuning)
        return report_own(r, out, err);
    pick_ask_init(&ask);
    ask.min_bytes = r->min_bytes ? r->min_bytes : ask.min_bytes;
    ask.max_bytes = r->max_bytes ? r->max_bytes : ask.max_bytes;
    ask.factor = r->factor ? (int)r->factor : ask.factor;
    if (pick_ask_check(&ask, err))
        return -1;
    if (r->ops && pick_ask_parse(&ask, r->ops, err))
        return -1;
    if (topo_read(&t, r->topo, err))
        return -1;
    if (r->table && !r->ops)
        pick_ask_moves(&ask, &t.groups);
    int rc = report_made(r, &t, &ask, out, err);
    topo_release(&t);
    return rc;
}
