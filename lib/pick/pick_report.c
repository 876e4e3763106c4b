/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what a user who asks for choices wants to see: a list, a table, or a table of his own.
 */
#include "pick/pick_table.h"

#include "base/mem.h"

int pick_report(const struct pick_request *r, FILE *out, struct err *err)
{
    struct pick_answer *list = NULL;
    struct pick_table table = {0};
    struct pick_ask ask;
    struct topo t = {0};
    int answers = 0, rc = 0;

    pick_ask_init(&ask);
    ask.min_bytes = r->min_bytes ? r->min_bytes : ask.min_bytes;
    ask.max_bytes = r->max_bytes ? r->max_bytes : ask.max_bytes;
    ask.factor = r->factor ? (int)r->factor : ask.factor;
    if (!r->tuning &&
        (pick_ask_check(&ask, err) || (r->ops && pick_ask_parse(&ask, r->ops, err)) ||
         topo_read(&t, r->topo, err)))
        return -1;
    if (r->tuning) {
        rc = pick_table_read(&table, r->tuning, err);
    } else if (r->table) {
        if (!r->ops)
            pick_ask_moves(&ask, &t.groups);
        rc = pick_table_make(&t, &ask, &table, err);
    } else {
        rc = pick_list(&t, &ask, &list, &answers, err);
        if (rc == 0)
            (r->json ? pick_list_print_json : pick_list_print)(&t, list, answers, out);
    }
    if (rc == 0 && !list)
        pick_table_print(&table, r->json ? PICK_JSON : r->table ? PICK_YAML : PICK_TEXT, out);
    mem_free(list);
    pick_table_release(&table);
    topo_release(&t);
    return rc;
}
