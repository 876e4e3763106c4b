/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how to have an answer, or a reason, from a program that starts others. */
#include "cli/cli_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"

enum {
    ROOM = 1 << 16,
    MOST =
        1 << 30, /* of a text: 4096 hosts have 16 M pairs, all of which a document may name */
    SLICE_MS = 100
};
/* A start takes a second on few hosts and some on thousands; an end as long as Open MPI leaves
 * its ranks before it kills them. */
static const double start_s = 10, leave_s = 5, term_s = 2, drain_s = 0.5;

struct launch {
    const char *name;
    pid_t pid; /* and its process group */
    int gone, wait;
    int out, signals;  /* -1: closed */
    char *text, *mark; /* the mark in it, or NULL */
    size_t bytes, room;
};

/* ---- start and end ---- */

/* The child: what it could not do goes into `fd`, which closes when it could. */
static void become(char *const *argv, int out, int fd, pid_t parent, const sigset_t *mask)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), why;

    setpgid(0, 0);
    /* Monitoring systems kill what is late: then nothing is left behind. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (getppid() == parent && null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1)
        execvp(argv[0], argv);
    why = errno;
    if (write(fd, &why, sizeof why) < 0)
        _exit(126);
    _exit(127);
}

static int begin(struct launch *l, char *const *argv, const sigset_t *mask, struct err *err)
{
    int out[2] = {-1, -1}, said[2] = {-1, -1}, why = 0;
    pid_t me = getpid();

    if (pipe2(out, O_CLOEXEC) || pipe2(said, O_CLOEXEC) || (l->pid = fork()) < 0)
        why = errno;
    else if (l->pid == 0)
        become(argv, out[1], said[1], me, mask);
    close(out[1]);
    close(said[1]);
    l->out = out[0];
    if (l->pid > 0)
        setpgid(l->pid, l->pid); /* whoever is first */
    if (why == 0 && read(said[0], &why, sizeof why) == 0)
        why = 0;
    close(said[0]);
    errno = why;
    return why ? err_sys(err, "cannot run '%s'", l->name) : 0;
}

static int is_gone(struct launch *l)
{
    if (!l->gone)
        l->gone = waitpid(l->pid, &l->wait, WNOHANG) != 0;
    return l->gone;
}

static void wait_for(struct launch *l, double seconds)
{
    double end = tick_now_s() + seconds;

    while (!is_gone(l) && tick_now_s() < end)
        tick_sleep_s(0.01);
}

/* Who has answered may leave by itself. */
static void end(struct launch *l, int answered)
{
    if (l->pid <= 0)
        return;
    wait_for(l, answered ? leave_s : 0);
    if (l->gone)
        return;
    kill(-l->pid, SIGTERM);
    wait_for(l, term_s);
    if (l->gone)
        return;
    kill(-l->pid, SIGKILL);
    waitpid(l->pid, &l->wait, 0);
    l->gone = 1;
}

/* ---- what it says ---- */

/* In what came from `from` on, or in the byte before. */
static void find_mark(struct launch *l, size_t from)
{
    char *end = l->text + l->bytes, *at = l->text + (from ? from - 1 : 0);

    at = memchr(at, CLI_LAUNCH_MARK, (size_t)(end - at));
    l->mark = at && at + 1 < end && at[1] >= '0' && at[1] <= '3' ? at : NULL;
}

/* 1: something came; 0: the end. */
static int more(struct launch *l, struct err *err)
{
    size_t before = l->bytes;

    l->text = mem_grow(l->text, &l->room, l->bytes + ROOM, 1);
    ssize_t n = read(l->out, l->text + l->bytes, ROOM);
    if (n < 0)
        return errno == EINTR ? 1 : err_sys(err, "cannot read what '%s' says", l->name);
    l->bytes += (size_t)n;
    if (l->bytes > MOST)
        return err_set(err, ERR_PEER, "'%s' says more than %d MiB", l->name, MOST >> 20);
    find_mark(l, before);
    return n > 0;
}

static int say_ended(const struct launch *l, struct err *err)
{
    int status = WIFEXITED(l->wait) ? WEXITSTATUS(l->wait) : 128 + WTERMSIG(l->wait);
    const char *by = status > 128 && status < 128 + 32 ? strsignal(status - 128) : NULL;

    return err_set(err, ERR_PEER, "'%s' ended with status %d%s%s%s before there was an answer",
                   l->name, status, by ? " (" : "", by ? by : "", by ? ")" : "");
}

/* Until the mark is there. */
static int gather(struct launch *l, double seconds, struct err *err)
{
    double late = tick_now_s() + seconds + start_s;
    struct pollfd fd[2] = {{.fd = l->out, .events = POLLIN},
                           {.fd = l->signals, .events = POLLIN}};

    while (tick_now_s() < late) {
        int ready = poll(fd, 2, SLICE_MS), was_gone = l->gone;
        if (ready < 0 && errno != EINTR)
            return err_sys(err, "cannot wait for '%s'", l->name);
        if (ready > 0 && fd[1].revents)
            return err_set(err, ERR_PEER, "ended before '%s' had an answer", l->name);
        if (ready > 0 && fd[0].revents) {
            int rc = more(l, err);
            if (rc < 0)
                return -1;
            if (rc == 0)
                fd[0].fd = -1;
            if (l->mark)
                return 0;
        }
        if (is_gone(l) && fd[0].fd < 0)
            break;
        if (l->gone && !was_gone) /* somebody else may hold its end */
            late = tick_now_s() + drain_s;
    }
    return l->gone ? say_ended(l, err)
                   : err_set(err, ERR_PEER, "no answer from '%s' within %.3g s", l->name,
                             seconds + start_s);
}

int cli_launch(char *const *argv, double seconds, char **text, int *status, struct err *err)
{
    struct launch l = {.name = argv[0], .out = -1, .signals = -1};
    struct signalfd_siginfo told;
    sigset_t ends, mask;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &mask);
    l.signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    int rc = l.signals < 0 ? err_sys(err, "cannot have signals told") : 0;
    rc = rc ? rc : begin(&l, argv, &mask, err);
    rc = rc ? rc : gather(&l, seconds, err);
    end(&l, rc == 0);
    close(l.out);
    while (read(l.signals, &told, sizeof told) > 0)
        ; /* else they would end this process before it has said so */
    close(l.signals);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (rc) {
        mem_free(l.text);
        return -1;
    }
    *status = l.mark[1] - '0';
    *l.mark = 0;
    *text = l.text;
    return 0;
}
