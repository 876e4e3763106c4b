/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests reports of a run in the light of those before it.  The oracle is a table: minutes, what
 * each run saw, and what is to be reported and printed of it, worked out by hand from the
 * rules:
 *
 *   CRITICAL takes two runs in a row, or one that looked twice
 *   what was said stays said for 10 minutes after it was last seen as bad
 *   a change is printed once; a reminder when it is due; the end of what was printed, too
 */
#include "unit.h"

#include <sys/stat.h>

#include "health/health_parts.h"
#include "fleet_fixture.h"
#include "temp_fixture.h"

enum { HOSTS = 3, RUNS_MOST = 12 };
static const int64_t start_s = 1795000000;

/* A run: at a minute, codes of what was seen: "C" CRITICAL, "c" CRITICAL that a second look
 * confirmed, "W" WARNING, "U" UNKNOWN (code 902: nothing could be measured), "-" nothing. */
struct run {
    int minute;
    char saw;
    enum health_state said;
    const char *printed; /* "": nothing; "new", "cleared", "remind" */
};

#define OK_  HEALTH_OK
#define WARN HEALTH_WARNING
#define CRIT HEALTH_CRITICAL
#define UNKN HEALTH_UNKNOWN

static const struct story {
    const char *name;
    struct run run[RUNS_MOST];
} stories[] = {
    {"nothing is ever wrong", {{0, '-', OK_, ""}, {5, '-', OK_, ""}, {10, '-', OK_, ""}}},
    {"once is a warning, twice is critical",
     {{0, 'C', WARN, "new"}, {5, 'C', CRIT, "new"}, {10, 'C', CRIT, ""}}},
    {"a second look makes it critical at once", {{0, 'c', CRIT, "new"}, {5, 'c', CRIT, ""}}},
    {"a run without it begins the counting anew",
     {{0, 'C', WARN, "new"}, {5, '-', WARN, ""}, {9, 'C', WARN, ""}, {14, 'C', CRIT, "new"}}},
    {"kept for ten minutes, then over",
     {{0, 'c', CRIT, "new"},
      {5, '-', CRIT, ""},
      {9, '-', CRIT, ""},
      {10, '-', OK_, "cleared"},
      {15, '-', OK_, ""}}},
    {"runs an hour apart: over at the first that does not see it",
     {{0, 'c', CRIT, "new"}, {60, '-', OK_, "cleared"}, {120, 'c', CRIT, "new"}}},
    {"seen again within the ten minutes: they begin anew",
     {{0, 'c', CRIT, "new"},
      {9, '-', CRIT, ""},
      {12, '-', OK_, "cleared"},
      {13, 'c', CRIT, "new"},
      {20, 'c', CRIT, ""},
      {29, '-', CRIT, ""},
      {30, '-', OK_, "cleared"}}},
    {"better, but not well: the worse is said for ten minutes",
     {{0, 'c', CRIT, "new"}, {5, 'W', CRIT, ""}, {10, 'W', WARN, "new"}, {15, 'W', WARN, ""}}},
    {"who could not look clears nothing",
     {{0, 'c', CRIT, "new"},
      {20, 'U', CRIT, "new"},
      {40, 'U', CRIT, ""},
      {45, '-', OK_, "cleared"}}},
    {"not known is over as soon as it is known",
     {{0, 'U', UNKN, "new"}, {5, 'U', UNKN, ""}, {6, '-', OK_, "cleared"}}},
    {"a reminder when it is due, and no sooner",
     {{0, 'W', WARN, "new"},
      {700, 'W', WARN, ""},
      {720, 'W', WARN, "remind"},
      {725, 'W', WARN, ""},
      {1440, 'W', WARN, "remind"}}},
    {"nobody is reminded of nothing", {{0, '-', OK_, ""}, {720, '-', OK_, ""}}},
};

static void see(struct health_verdict *v, char saw)
{
    struct health_finding f = health_finding_new(saw == 'W'   ? HEALTH_WARNING
                                                 : saw == 'U' ? HEALTH_UNKNOWN
                                                              : HEALTH_CRITICAL,
                                                 saw == 'U' ? 902 : 301);

    if (saw == '-')
        return;
    f.host = 1;
    f.way = saw == 'U' ? -1 : HEALTH_OUT;
    f.confirmed = saw == 'c';
    snprintf(f.text, sizeof f.text, "node1 out is slow");
    health_verdict_add(v, &f);
}

static const char *print_of(const struct health_news *n)
{
    return n->clear.count ? "cleared" : n->changed ? "new" : n->due ? "remind" : "";
}

/* Through a text each time: what is not written down is not remembered. */
static void through_text(struct health_memory *m)
{
    size_t bytes = 0;
    char *text = store_text(&health_memory_store, m, &bytes);

    health_memory_close(m);
    assert_ok(store_parse(&health_memory_store, text, bytes, m));
    free(text);
}

static void tell(const struct story *s)
{
    struct health_memory m = {.lock = -1};
    struct health_options o;
    struct health_data d;

    health_options_init(&o);
    o.notify = 1;
    o.remind_s = 12 * 3600;
    health_data_init(&d, HOSTS, NULL);
    for (int i = 0; i < RUNS_MOST && s->run[i].saw; i++) {
        const struct run *r = &s->run[i];
        struct health_verdict v = {.hosts = HOSTS};
        struct health_news news = {0};
        d.when_s = start_s + 60 * r->minute;
        see(&v, r->saw);
        health_reconcile(&m, &d, &v, &o, r->saw != 'U', &news);
        if (v.state != r->said)
            fail_msg("%s, minute %d: said %s, expected %s", s->name, r->minute,
                     health_state_name(v.state), health_state_name(r->said));
        if (strcmp(print_of(&news), r->printed) != 0)
            fail_msg("%s, minute %d: printed '%s', expected '%s'", s->name, r->minute,
                     print_of(&news), r->printed);
        if (news.changed || news.due)
            health_reconcile_printed(&m, &v, d.when_s);
        health_news_release(&news);
        health_verdict_release(&v);
        through_text(&m);
    }
    health_memory_close(&m);
    health_data_release(&d);
}

TEST(runs_and_what_is_said)
{
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++)
        tell(&stories[i]);
}

/* Two ports, one of which is mended: the other's news are its own. */
TEST(each_for_itself)
{
    struct health_memory m = {.lock = -1};
    struct health_options o;
    struct health_data d;

    health_options_init(&o);
    health_data_init(&d, HOSTS, NULL);
    for (int minute = 0; minute <= 20; minute += 20) {
        struct health_verdict v = {.hosts = HOSTS};
        struct health_news news = {0};
        d.when_s = start_s + 60 * minute;
        for (int k = minute ? 1 : 0; k < 2; k++) {
            see(&v, 'c');
            v.finding[v.findings - 1].host = k;
        }
        health_reconcile(&m, &d, &v, &o, 1, &news);
        assert_int_equal(v.findings, minute ? 1 : 2);
        assert_int_equal(news.fresh.count, minute ? 0 : 2);
        assert_int_equal(news.clear.count, minute ? 1 : 0);
        health_reconcile_printed(&m, &v, d.when_s);
        health_news_release(&news);
        health_verdict_release(&v);
    }
    health_memory_close(&m);
    health_data_release(&d);
}

/* A state is a file: no sum of what it may hold is more than a number has room for. */
TEST(numbers_that_can_be_added_up)
{
    static const struct {
        int64_t runs, n;
        int rc;
    } row[] = {{1, HEALTH_EVENT_MOST, 0},
               {INT64_MAX - 1, 1, 0},
               {INT64_MAX, 1, -1},
               {1, HEALTH_EVENT_MOST + 1, -1},
               {1, INT64_MAX / HEALTH_EVENTS, -1}};

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct health_memory m = {.lock = -1, .runs = row[i].runs}, got = {.lock = -1};
        struct health_known *k = &HEALTH_ADD(&m.nics);
        size_t bytes = 0;

        *k = (struct health_known){.last.name = "eth0", .losses = 1, .recents = 1};
        k->loss[0].n = k->recent[0].n = k->recent[0].packets = row[i].n;
        char *text = store_text(&health_memory_store, &m, &bytes);
        assert_int_equal(store_parse(&health_memory_store, text, bytes, &got), row[i].rc);
        free(text);
        health_memory_close(&got);
        health_memory_close(&m);
    }
}

/* Errors give the value found, and the one expected. */
TEST(errors_say_what_is_there)
{
    static const char *const row[][3] = {
        {"\"runs\":0", "\"runs\":-1",
         "file:1: 'runs' is '-1', expected a whole number from 0 to"},
        {"\"runs\":0", "\"runs\":1.5", "file:1: 'runs' is '1.5', expected a whole number"},
        {"\"boot\":\"\"", "\"boot\":[]", "file:1: 'boot' is a list, expected a text"},
        {"\"Bps\":[]", "\"Bps\":[1,\"2\"]",
         "file:3: 'Bps[1]' is the text '2', expected a number"},
        {"\"Bps\":[]", "\"Bps\":null", "file:3: 'Bps' is null, expected a value"},
        {"\"Bps\":[]", "\"Bps\":[1,2,3,4,5,6,7,8,9]", "has 9 items, expected 8 at most"},
        {"\"loss\":[]", "\"loss\":[1,2,3,4]", "has 4 numbers, expected a multiple of 3"},
        {"-1],\"loss\"", "-1,-1],\"loss\"", "has 9 items, expected 8 at most"},
    };
    struct health_memory m = {.lock = -1}, got = {.lock = -1};
    char changed[1200], tail[HEALTH_TAIL];
    size_t bytes = 0;

    HEALTH_ADD(&m.nics) = (struct health_known){.last.name = "eth0"};
    m.nics.at[0].last.counter[HEALTH_COUNTERS - 1] = -1;
    HEALTH_ADD(&m.rates) = (struct health_rate){.host = "node0"};
    char *text = store_text(&health_memory_store, &m, &bytes);
    bytes -= (size_t)health_store_tail(&health_memory_store, text, 0, tail);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *at = strstr(text, row[i][0]);
        assert_non_null(at);
        int n = snprintf(changed, sizeof changed, "%.*s%s%.*s", (int)(at - text), text,
                         row[i][1], (int)(text + bytes - at - (long)strlen(row[i][0])),
                         at + strlen(row[i][0]));
        assert_in_range(n, 1, (int)sizeof changed - HEALTH_TAIL);
        n += health_store_tail(&health_memory_store, changed, n, changed + n);
        assert_says(store_parse(&health_memory_store, changed, (size_t)n, &got), row[i][2]);
        health_memory_close(&got);
    }
    free(text);
    health_memory_close(&m);
}

/* Names that differ by a mark of direction alone. */
TEST(names_come_back_as_they_were)
{
    struct health_memory m = {.lock = -1};
    char ltr[HEALTH_NIC_NAME], rtl[HEALTH_NIC_NAME];

    health_name_make("a\xe2\x80\x8e", ltr, sizeof ltr);
    health_name_make("a\xe2\x80\x8f", rtl, sizeof rtl);
    memcpy(m.host, ltr, sizeof ltr);
    HEALTH_ADD(&m.nics) = (struct health_known){.want_up = 1};
    HEALTH_ADD(&m.nics) = (struct health_known){.want_up = 0};
    memcpy(m.nics.at[0].last.name, ltr, sizeof ltr);
    memcpy(m.nics.at[1].last.name, rtl, sizeof rtl);
    through_text(&m);
    assert_string_equal(m.host, ltr);
    assert_int_equal(m.nics.count, 2);
    assert_string_equal(m.nics.at[0].last.name, ltr);
    assert_string_equal(m.nics.at[1].last.name, rtl);
    health_memory_close(&m);
}

/* A state may name a problem that no check has, of another version: an ignore is none of it. */
TEST(a_code_that_no_check_has)
{
    struct health_ignore all = {.until_s = INT64_MAX};
    struct health_memory m = {.lock = -1};
    struct health_verdict v = {.hosts = HOSTS};
    struct health_news news = {0};
    struct health_options o;
    struct health_data d;

    health_options_init(&o);
    o.config.ignore = &all;
    o.config.ignores = 1;
    health_data_init(&d, HOSTS, NULL);
    d.when_s = start_s;
    assert_null(health_check_find(305));
    HEALTH_ADD(&m.problems) = (struct health_problem){
        .code = 305, .way = -1, .reported = HEALTH_WARNING, .last_s = start_s, .host = "node1"};
    health_reconcile(&m, &d, &v, &o, 1, &news);
    assert_int_equal(v.findings, 1);
    assert_int_equal(v.finding[0].code, 305);
    health_news_release(&news);
    health_verdict_release(&v);
    health_memory_close(&m);
    health_data_release(&d);
}

/* A process that can open a temporary could lock it, and nobody would write the file any
   more. */
TEST(a_temporary_is_its_writers_alone)
{
    char dir[TEMP_PATH], *path;
    struct io_out out;
    struct stat st;

    temp_folder(dir, "health");
    path = io_join(dir, "file");
    mode_t mask = umask(022);
    assert_ok(io_create(&out, path, IO_FORCE | IO_CLOSED, &err));
    assert_int_equal(fstat(out.fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(io_commit(&out, &err));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    umask(mask);
    mem_free(path);
    assert_ok(io_remove_tree(dir, &err));
}

/* A name may hold what a shell would take for its own. */
TEST(a_line_for_a_scheduler)
{
    static const char *const names[2] = {"node1", "node1;reboot"};
    struct health_finding f = health_finding_new(HEALTH_CRITICAL, 201);
    struct health_data d;
    char line[700];

    health_data_init(&d, 2, names);
    f.host = 0;
    snprintf(f.text, sizeof f.text, "lost '$(reboot)' \"`x`\" \\ 90 %% \n end");
    assert_int_equal(health_suggest(&d, &f, line, sizeof line), 0);
    assert_string_equal(line, "scontrol update NodeName=node1 State=DRAIN"
                              " Reason=\"horing: HC-201 lost (reboot) x  90 %  end\"");
    f.host = 1; /* without some of its characters it were another node */
    assert_int_equal(health_suggest(&d, &f, line, sizeof line), -1);
    f.host = 0;
    f.state = HEALTH_WARNING;
    assert_int_equal(health_suggest(&d, &f, line, sizeof line), -1);
    health_data_release(&d);
}
