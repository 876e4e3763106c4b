/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ensures an answer in time if everything else hangs, is stopped, or is killed.
 *
 * The reporter is a separate process, started before there are threads, so signals that stop or
 * kill the command do not reach it.  Other ranks do not know the answer; a thread of the
 * command would be stopped with it, and when the launcher wakes it to end it there may be no
 * time left.  Each rank is ended by a thread of its own.
 *
 *     deadline   +1 s             +1.25 s                +1.5 s
 *                a line           rank 0 ends all        any other rank does
 */
#include "check/check_deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/tick.h"
#include "cli/cli_world.h"

static const double line_s = 1, rank_0_s = 1.25, others_s = 1.5;

struct check_deadline { /* shared with the reporter; lives as long as both */
    struct cli *cli;
    check_deadline_fail *fail;
    void *arg;
    double seconds, end_s;
    const char *volatile where;
    atomic_int claimed; /* one of the two is about to answer */
    atomic_int status;  /* -1: the command has not answered */
    pid_t reporter;     /* not waited for, so that its pid is not reused; 0: none */
    _Atomic(struct world *) world;
};

/* ---- the end of the ranks ---- */

/* Must end: it keeps standard output open, so the launcher or a pipe would wait for end of
   file. */
static void end_reporter(const struct check_deadline *w)
{
    if (w->reporter > 0)
        kill(w->reporter, SIGKILL);
}

/* Runs also if the reporter has answered, since its answer is still being written. */
static void *end_in_time(void *arg)
{
    struct check_deadline *w = arg;
    double end = w->end_s + (w->cli->silent ? others_s : rank_0_s);

    for (double left; (left = end - tick_now_s()) > 0;)
        tick_sleep_s(left);
    int status = atomic_load(&w->status);
    /* A silent rank has no answer: rank 0 ends all ranks earlier, unless it cannot. */
    end_reporter(w);
    cli_end_ranks(atomic_load(&w->world),
                  status < 0 || w->cli->silent ? w->cli->status : status);
    return NULL;
}

/* ---- the reporter ---- */

static int claim(struct check_deadline *w)
{
    int nobody = 0;

    return atomic_compare_exchange_strong(&w->claimed, &nobody, 1);
}

static void woken(int signal)
{
    (void)signal;
}

/*
 * Waits for the deadline (returns 1), the end of the command (the pipe's other end is closed)
 * or a signal to end.  A launcher that ends a job signals all of its processes.
 */
static int wait_for_end(const struct check_deadline *w, int pipe)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = woken};
    struct pollfd end = {.fd = pipe};
    sigset_t blocked, open;

    sigemptyset(&blocked);
    for (int i = 0; i < 3; i++)
        sigaddset(&blocked, signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &open);
    for (int i = 0; i < 3; i++) {
        sigaction(signals[i], &action, NULL);
        sigdelset(&open, signals[i]);
    }
    for (double left; (left = w->end_s + line_s - tick_now_s()) > 0;) {
        struct timespec wait = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};
        if (ppoll(&end, 1, &wait, &open))
            return 0;
    }
    return 1;
}

static void report_late(struct check_deadline *w, int pipe)
{
    struct err err;
    int late = wait_for_end(w, pipe);

    if (!claim(w))
        _exit(0);
    if (late)
        err_set(&err, ERR_PEER, "no answer within %.3g s, while %s", w->seconds, w->where);
    else
        err_set(&err, ERR_PEER, "ended before there was an answer, while %s", w->where);
    _exit(w->fail(w->arg, &err));
}

/* ---- the command ---- */

int check_deadline_start(struct check_deadline **out, struct cli *cli, double seconds,
                         check_deadline_fail *fail, void *arg, struct err *err)
{
    struct check_deadline *w =
        mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;

    if (w == MAP_FAILED)
        return err_sys(err, "cannot allocate shared memory");
    w->cli = cli;
    w->fail = fail;
    w->arg = arg;
    w->seconds = seconds;
    w->end_s = tick_now_s() + seconds;
    w->where = "starting";
    atomic_init(&w->claimed, 0);
    atomic_init(&w->status, -1);
    if (!cli->silent) {
        /* Only the command holds the writing end, until it ends. */
        int fd[2];

        if (pipe2(fd, O_CLOEXEC))
            return err_sys(err, "cannot make a pipe");
        signal(SIGCHLD, SIG_DFL); /* if ignored, a child's pid could be reused soon */
        pid_t pid = fork();
        if (pid == 0) {
            close(fd[1]);
            report_late(w, fd[0]);
        }
        close(fd[0]);
        w->reporter = pid;
        if (pid < 0) {
            err_sys(err, "cannot start a process");
            close(fd[1]);
            return -1;
        }
    }
    errno = pthread_create(&thread, NULL, end_in_time, w);
    if (errno)
        return err_sys(err, "cannot start a thread");
    pthread_detach(thread);
    *out = w;
    return 0;
}

const char *volatile *check_deadline_where(struct check_deadline *watch)
{
    return &watch->where;
}

void check_deadline_world(struct check_deadline *watch, struct world *world)
{
    atomic_store(&watch->world, world);
}

void check_deadline_claim(struct check_deadline *watch)
{
    if (!watch->cli->silent && !claim(watch))
        end_in_time(watch);
}

void check_deadline_answered(struct check_deadline *watch, int status)
{
    atomic_store(&watch->status, status);
    end_reporter(watch);
}
