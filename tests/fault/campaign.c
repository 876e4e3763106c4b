/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one command again and again, each time with one thing going wrong, for n = 1 until a run
 * passes untouched, and judges what each run leaves (tests/fault/run).
 *
 *     campaign [-n NAME] [-t TARGET] [-o OLD] [-k KINDS] [-b KIND] [-s N] [-e STATUS]
 *              [-f STATUS] [-d] [-a ALL] COMMAND...
 *
 * It is run in a folder with
 *
 *     in/    what the command reads: not a byte of it may change
 *     out/   where TARGET appears, emptied before each run; with -o it begins as a copy of OLD
 *
 * A run ends with STATUS and the whole result, or with 2 and one line on stderr and the old
 * target or the new one, whole; or, where memory for a control structure was refused, by abort
 * and one line.  Beside the target nothing may be but its temporary, and only where the run was
 * killed, or where it could not remove it; the next run removes it.
 *
 *     -n NAME    the first column of the line that is printed
 *     -k KINDS   of calls that fail, separated by commas; "change": SIGKILL before those that
 *                change a file system
 *     -b KIND    start to count at the first KIND; of reads, writes and closes count those
 *                of regular files only: other libraries have pipes
 *     -s N       not every n: the first and last N, and N between
 *     -e STATUS  of a run that succeeds (default: 0)
 *     -f STATUS  of a run that fails (default: 2)
 *     -d         results differ in their digits from run to run
 *     -a ALL     TARGET is a run's folder: every checkpoint in it equals that of the same name
 *                in ALL, `latest` names one of them, and the run can be resumed to ALL's last.
 *                A COMMAND with --force starts again in OLD, another run: the next run finds
 *                OLD to the last bit, or only what is ALL's.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"

enum { WORDS = 64, TOLD = 12 };

static struct {
    const char *target, *old, *kinds, *all, *name, *from;
    int sample, status, failed, mask, anew;
    char **argv;
    /* What an untouched run needs and gives. */
    uint64_t in, before, after;
    char *said;
    /* What has been seen. */
    int64_t runs, good, refused, aborted, killed, litter, wrong;
} c = {.kinds = "all", .name = "command", .failed = 2};

static const struct {
    const char *kind;
    enum fault_mode mode;
    int error;
    const char *what;
} plans[] = {
    {"malloc", FAULT_FAIL, 12, "ENOMEM"},
    {"malloc", FAULT_ON, 12, "ENOMEM on"},
    {"open", FAULT_FAIL, 24, "EMFILE"},
    {"open", FAULT_FAIL, 5, "EIO"},
    {"open", FAULT_FAIL, 28, "ENOSPC"},
    {"open", FAULT_FAIL, 4, "EINTR"},
    {"read", FAULT_FAIL, 5, "EIO"},
    {"read", FAULT_FAIL, 4, "EINTR"},
    {"read", FAULT_SHORT, 0, "short"},
    {"write", FAULT_FAIL, 28, "ENOSPC"},
    {"write", FAULT_ON, 28, "ENOSPC on"},
    {"write", FAULT_FAIL, 5, "EIO"},
    {"write", FAULT_FAIL, 4, "EINTR"},
    {"write", FAULT_SHORT, 0, "short"},
    {"sync", FAULT_FAIL, 5, "EIO"},
    {"sync", FAULT_FAIL, 28, "ENOSPC"},
    {"sync", FAULT_FAIL, 4, "EINTR"},
    {"advice", FAULT_FAIL, 5, "EIO"},
    {"rename", FAULT_FAIL, 5, "EIO"},
    {"rename", FAULT_FAIL, 28, "ENOSPC"},
    {"rename", FAULT_FAIL, 22, "EINVAL"},
    {"rename", FAULT_LATE, 5, "EIO when done"},
    {"close", FAULT_LATE, 5, "EIO"},
    {"close", FAULT_LATE, 28, "ENOSPC"},
    {"close", FAULT_LATE, 4, "EINTR"},
    {"lost", FAULT_LATE, 5, "EIO"},
    {"lost", FAULT_LATE, 28, "ENOSPC"},
    {"stat", FAULT_FAIL, 5, "EIO"},
    {"stat", FAULT_FAIL, 13, "EACCES"},
    {"list", FAULT_FAIL, 5, "EIO"},
    {"remove", FAULT_FAIL, 5, "EIO"},
    {"remove", FAULT_LATE, 5, "EIO when done"},
    {"remove", FAULT_ON, 16, "EBUSY on"},
    {"mkdir", FAULT_FAIL, 28, "ENOSPC"},
    {"mkdir", FAULT_LATE, 5, "EIO when done"},
    {"room", FAULT_FAIL, 28, "ENOSPC"},
    {"room", FAULT_FAIL, 95, "EOPNOTSUPP"},
    {"lock", FAULT_FAIL, 37, "ENOLCK"},
    {"lock", FAULT_FAIL, 4, "EINTR"},
    {"map", FAULT_FAIL, 12, "ENOMEM"},
    {"thread", FAULT_FAIL, 11, "EAGAIN"},
    {"change", FAULT_KILL, 0, "SIGKILL before"},
    {"any", FAULT_KILL, 0, "SIGKILL before"},
    {"any", FAULT_KILLED, 0, "SIGKILL behind"},
};

static void die(const char *why)
{
    fprintf(stderr, "campaign: %s: %s\n", c.name, why);
    exit(2);
}

static void reset(void)
{
    if (!c.target)
        return;
    tree_remove("out");
    if (mkdir("out", 0777))
        die("no folder to write to");
    if (c.old)
        tree_copy(c.old, c.target);
}

/* But for those that tell where a run resumes and what it did. */
static int lines_in(const char *text)
{
    static const char *const of_runs[] = {"paro-train: resumes from ", "paro-train: done"};
    int n = 0;

    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        n++;
        for (size_t i = 0; i < sizeof of_runs / sizeof *of_runs; i++)
            n -= strncmp(text, of_runs[i], strlen(of_runs[i])) == 0;
    }
    return n;
}

static int is_step(const struct dirent *e)
{
    return strncmp(e->d_name, "step-", 5) == 0;
}

static const char *judge_steps(void)
{
    static char why[PATH_MAX];
    struct dirent **e = NULL;
    char here[PATH_MAX], there[PATH_MAX];
    struct stat st;
    int n = scandir(c.target, &e, is_step, alphasort);

    why[0] = 0;
    for (int i = 0; i < n; i++) {
        snprintf(here, sizeof here, "%s/%s", c.target, e[i]->d_name);
        snprintf(there, sizeof there, "%s/%s", c.all, e[i]->d_name);
        if (tree_hash(here, 0) != tree_hash(there, 0))
            snprintf(why, sizeof why, "%.200s is not whole", here);
        free(e[i]);
    }
    free(e);
    snprintf(here, sizeof here, "%s/latest", c.target);
    if (lstat(here, &st) == 0 && stat(here, &st))
        return "latest names nothing";
    if (c.old && lstat(here, &st))
        return "latest is gone";
    return why[0] ? why : NULL;
}

/* The command with `more`, or, with NULL, without its --force. */
static int run_again(const char *more, struct fault_end *end)
{
    const struct fault none = {.kind = NULL};
    char *argv[WORDS + 2];
    int n = 0;

    for (int i = 0; c.argv[i] && n < WORDS; i++)
        if (more || strcmp(c.argv[i], "--force"))
            argv[n++] = c.argv[i];
    if (more && *more)
        argv[n++] = (char *)more;
    argv[n] = NULL;
    if (fault_run(&none, argv, "again.out", "again.err", end))
        die("cannot be traced");
    return end->hung || !WIFEXITED(end->status) ? -1 : WEXITSTATUS(end->status);
}

static uint64_t last_step(const char *run)
{
    char latest[PATH_MAX], target[PATH_MAX];

    snprintf(latest, sizeof latest, "%s/latest", run);
    return realpath(latest, target) ? tree_hash(target, 0) : 0;
}

/* Its last checkpoint is one of ALL's, under whatever name. */
static int is_of_all(uint64_t now)
{
    char step[PATH_MAX];
    struct dirent **e = NULL;
    int n = scandir(c.all, &e, is_step, alphasort), is = 0;

    for (int i = 0; i < n; i++) {
        snprintf(step, sizeof step, "%s/%s", c.all, e[i]->d_name);
        is |= tree_hash(step, 0) == now;
        free(e[i]);
    }
    free(e);
    return is;
}

/* But for what is out of sight, and what was said by one that came to no checkpoint. */
static uint64_t run_hash(void)
{
    char path[PATH_MAX];
    struct dirent **e = NULL;

    tree_remove("seen");
    tree_copy(c.target, "seen");
    int n = scandir("seen", &e, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "seen/%s", e[i]->d_name);
        if (strstr(e[i]->d_name, ".old.paro-tmp") || !strcmp(e[i]->d_name, "log.failed.jsonl"))
            tree_remove(path);
        free(e[i]);
    }
    free(e);
    return tree_hash("seen", 0);
}

/* --force: `latest` leads to a whole checkpoint, the old run's or the new one's, as it is left;
 * a run that is asked for nothing finds one of them, of which nothing is lost. */
static const char *judge_begun_anew(int killed)
{
    struct fault_end end;
    uint64_t now = last_step(c.target);

    if (now != last_step(c.old) && !is_of_all(now))
        return "latest leads to no whole checkpoint";
    if (killed && run_again(NULL, &end) != c.failed)
        return "the next run finds neither the old run nor the new one";
    return run_hash() == tree_hash(c.old, 0) ? NULL : judge_steps();
}

static uint64_t hash_now(void)
{
    return c.all ? last_step(c.target) : tree_hash(c.target, c.mask);
}

static int litter_in(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += strstr(e->d_name, ".paro-tmp") != NULL;
    if (d)
        closedir(d);
    return n;
}

/* Beside the target: its temporary alone.  *there: that it is. */
static const char *judge_beside(int *there)
{
    const char *name = strrchr(c.target, '/') + 1;
    char temp[PATH_MAX];
    DIR *d = opendir("out");
    const char *why = NULL;

    snprintf(temp, sizeof temp, ".%s.paro-tmp", name);
    *there = c.all ? litter_in(c.target) : 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            strcmp(e->d_name, name) == 0)
            continue;
        if (strcmp(e->d_name, temp))
            why = "something else lies beside the target";
        else
            *there = 1;
    }
    if (d)
        closedir(d);
    return why;
}

/* A monitoring plugin, whose status is 3 then, speaks on stdout alone. */
static const char *judge_words(const struct fault_end *end, const char *out, const char *said)
{
    int n = lines_in(said), status = WIFEXITED(end->status) ? WEXITSTATUS(end->status) : -1;

    /* What is read from copies in place of what cannot be read is said, and all is well. */
    if (status == c.status && n == 1 && strstr(said, "were read from copies"))
        return NULL;
    if (status == c.status || status == 1)
        return n && !c.all ? "words on stderr of a run that ends well" : NULL;
    if (c.failed == 3 && status == 3)
        return n + lines_in(out) == 1 ? NULL : "not one line on stdout, or on stderr";
    if (n != 1)
        return n ? "more than a line on stderr" : "no line on stderr";
    if (strncmp(said, "paro", 4) && strncmp(said, "horing", 6) &&
        strncmp(said, "{\"error\"", 8))
        return "a line on stderr that is not ours";
    return NULL;
}

/* A disk that does not give a file, or a part of one: there may be a copy. */
static int is_unread(const struct fault *f)
{
    int kind = strcmp(f->kind, "read") == 0 || strcmp(f->kind, "open") == 0 ||
               strcmp(f->kind, "stat") == 0;

    return kind && (f->error == EIO || f->error == ENOSPC || f->error == EACCES);
}

static const char *judge_status(const struct fault *f, const struct fault_end *end,
                                const char *out)
{
    int status = end->status;

    if (end->hung)
        return "it hangs";
    if (f->mode == FAULT_KILL || f->mode == FAULT_KILLED)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? NULL
               : WIFEXITED(status) && WEXITSTATUS(status) == c.status
                   ? NULL /* the last call of all */
                   : "not killed";
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
        return strcmp(f->kind, "malloc") == 0 || strcmp(f->kind, "map") == 0
                   ? NULL
                   : "it aborts where no memory was refused";
    if (WIFSIGNALED(status))
        return "it is ended by a signal";
    /* What the disk cannot read is what verify is to find, and a block lost to repair. */
    if (WEXITSTATUS(status) == 1 && is_unread(f) &&
        (strstr(out, strerror(f->error)) || strstr(out, " lost\n")))
        return NULL;
    return WEXITSTATUS(status) == c.status || WEXITSTATUS(status) == c.failed
               ? NULL
               : "another status";
}

static const char *judge_result(const struct fault *f, const struct fault_end *end,
                                const char *out)
{
    int well = WIFEXITED(end->status) && WEXITSTATUS(end->status) == c.status;
    uint64_t now = c.target ? hash_now() : 0;

    /* What cannot be read may be had from a copy: that is said. */
    if (well && strcmp(out, c.said) && !c.all && !c.mask && !is_unread(f))
        return "it ends well, with other words on stdout";
    if (!c.target)
        return NULL;
    if (well)
        return now == c.after ? NULL : "it ends well, without the whole result";
    if (c.all)
        return NULL; /* any of its steps */
    return now == c.before || now == c.after ? NULL : "neither the old target nor the new one";
}

/* With nothing wrong any more: the result is there, and nothing else. */
static const char *run_on(void)
{
    const char *force = c.anew ? "" : c.all ? "--resume=auto" : "--force";
    struct fault_end end;
    int there = 0;

    if (c.failed == 3 || (!hash_now() && !c.all)) /* the plugin replaces its file unasked */
        force = "";
    if (run_again(force, &end) != c.status)
        return "the run after it does not end well";
    if (hash_now() != c.after)
        return "the run after it does not give the result";
    const char *why = judge_beside(&there);
    return why ? why : there ? "the run after it leaves the litter" : NULL;
}

static int may_litter(const struct fault *f, const struct fault_end *end)
{
    static const char *const removing[] = {"remove", "open", "list", "stat",
                                           "malloc", "map",  "lock", "mkdir"};

    /* A rename that was made and says that it was not: nobody knows what lies where. */
    if (WIFSIGNALED(end->status) || (strcmp(f->kind, "rename") == 0 && f->mode == FAULT_LATE))
        return 1;
    for (size_t i = 0; i < sizeof removing / sizeof *removing; i++)
        if (strcmp(removing[i], f->kind) == 0)
            return 1;
    return 0;
}

static const char *judge(const struct fault *f, const struct fault_end *end)
{
    char *out = tree_text("out.txt"), *said = tree_text("err.txt");
    int killed = WIFSIGNALED(end->status), there = 0;
    const char *why = judge_status(f, end, out);

    if (!why && (!killed || WTERMSIG(end->status) == SIGABRT))
        why = judge_words(end, out, said);
    if (!why && tree_hash("in", 0) != c.in)
        why = "the source has changed";
    if (!why)
        why = judge_result(f, end, out);
    if (!why && c.target)
        why = judge_beside(&there);
    if (!why && c.all)
        why = c.anew ? judge_begun_anew(killed) : judge_steps();
    if (!why && there && !may_litter(f, end))
        why = "litter";
    c.litter += there;
    if (!why && (there || (c.all && killed)))
        why = run_on();
    free(out);
    free(said);
    return why;
}

static void tally(const struct fault_end *end)
{
    c.runs++;
    if (WIFSIGNALED(end->status)) {
        c.aborted += WTERMSIG(end->status) == SIGABRT;
        c.killed += WTERMSIG(end->status) == SIGKILL;
    } else {
        c.good += WEXITSTATUS(end->status) == c.status;
        c.refused += WEXITSTATUS(end->status) == c.failed;
    }
}

static void run_one(const struct fault *f, struct fault_end *end)
{
    reset();
    if (fault_run(f, c.argv, "out.txt", "err.txt", end))
        die("cannot be traced");
}

/* 0: the n-th did not come. */
static int try(const struct fault *f, const char *what)
{
    struct fault_end end;

    run_one(f, &end);
    if (!end.hit && !end.hung)
        return 0;
    tally(&end);
    const char *why = judge(f, &end);
    if (why && ++c.wrong <= TOLD) {
        char *said = tree_text("err.txt");
        fprintf(stderr, "%s: %s %ld %s: %s (status %#x): %.300s\n", c.name, f->kind, (long)f->n,
                what, why, (unsigned)end.status, said);
        free(said);
    }
    return 1;
}

static int64_t count_of(const char *kind)
{
    const struct fault f = {.kind = kind, .from = c.from};
    struct fault_end end;

    run_one(&f, &end);
    return end.count;
}

/* The next n of a sample of N at the begin, N at the end, N between. */
static int64_t next_of(int64_t n, int64_t count)
{
    int64_t s = c.sample, step = (count - 2 * s) / (s + 1);

    if (!s || count <= 3 * s || n < s || n >= count - s)
        return n + 1;
    return n + step > count - s + 1 ? count - s + 1 : n + (step > 1 ? step : 1);
}

static int is_chosen(const char *kind)
{
    size_t n = strlen(kind);

    if (strcmp(c.kinds, "all") == 0)
        return strcmp(kind, "change") != 0; /* "any" has those too */
    for (const char *p = c.kinds; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
        if (strncmp(p, kind, n) == 0 && (p[n] == ',' || p[n] == 0))
            return 1;
    return 0;
}

static void run_plans(void)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct fault f = {.kind = plans[i].kind,
                          .from = c.from,
                          .mode = plans[i].mode,
                          .error = plans[i].error};
        if (!is_chosen(f.kind))
            continue;
        int64_t count = count_of(f.kind);
        /* Behind a call is before the next, but for threads. */
        for (f.n = next_of(0, count); try(&f, plans[i].what); f.n = next_of(f.n, count))
            if (f.n > 100 * count + 1000)
                die("no end");
    }
}

/* What an untouched run gives: all else is compared with it. */
static void run_untouched(void)
{
    const struct fault f = {.kind = NULL};
    struct fault_end end;

    c.in = tree_hash("in", 0);
    reset();
    c.before = c.target ? hash_now() : 0;
    run_one(&f, &end);
    if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != c.status) {
        char *said = tree_text("err.txt");
        fprintf(stderr, "campaign: %s: wait status 0x%x%s: %s\n", c.name, (unsigned)end.status,
                end.hung ? ", hung" : "", said);
        die("does not end as expected when nothing is wrong");
    }
    c.after = c.target ? hash_now() : 0;
    c.said = tree_text("out.txt");
    if (c.target && (c.after == 0 || c.after == c.before))
        die("an untouched run makes nothing new");
}

int main(int argc, char **argv)
{
    const char **const word[128] = {['t'] = &c.target, ['o'] = &c.old,  ['k'] = &c.kinds,
                                    ['a'] = &c.all,    ['n'] = &c.name, ['b'] = &c.from};
    int *const number[128] = {['s'] = &c.sample, ['e'] = &c.status, ['f'] = &c.failed};

    for (int o; (o = getopt(argc, argv, "+t:o:s:k:e:f:da:n:b:")) != -1;) {
        if (o == '?')
            return 2;
        if (word[o])
            *word[o] = optarg;
        else if (number[o])
            *number[o] = atoi(optarg);
        else
            c.mask = 1;
    }
    c.argv = argv + optind;
    if (!*c.argv || (c.target && strncmp(c.target, "out/", 4)))
        die("no command, or a target outside of out/");
    for (int i = 0; c.all && c.old && c.argv[i]; i++)
        c.anew |= strcmp(c.argv[i], "--force") == 0;
    run_untouched();
    run_plans();
    printf("%-28s %7ld %7ld %7ld %7ld %7ld %7ld %7ld\n", c.name, (long)c.runs, (long)c.good,
           (long)c.refused, (long)c.aborted, (long)c.killed, (long)c.litter, (long)c.wrong);
    return c.wrong || c.runs == 0;
}
