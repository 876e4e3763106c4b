/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets an answer, or the reason for its absence, from a launcher. */
#include "check/check_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"

enum {
    SPACE = 1 << 16, /* also the limit on kept output before the answer: its last part */
    /* Limit on an answer: a document names each port of 4096 hosts (2 MiB) and each pair with a
       low measurement, at level normal at most 15 per host (10 MiB). */
    MOST = 64 << 20,
    SLICE_MS = 100
};
/* A start takes a second on few hosts and some seconds on thousands; an end as long as Open MPI
   waits before it kills its ranks. */
static const double start_s = 10, leave_s = 5, term_s = 2, drain_s = 0.5;

struct launch {
    const char *name;
    pid_t pid;         /* also its process group */
    int ended, status; /* 128 + N: ended by signal N */
    int out, signals;  /* -1: closed */
    char *text;
    size_t bytes, space, seen; /* seen: there is no mark before */
    size_t begin, end;         /* range of the answer in it; 0: not yet known */
    /* overflowed: more than MOST bytes came after a mark, which is then ignored */
    int answered, overflowed;
};

/* ---- starting and stopping ---- */

/* Runs in the child: writes an error number to `fd`, which closes if exec succeeds. */
static void exec_launcher(char *const *argv, int out, int fd, pid_t parent,
                          const sigset_t *mask)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), why;

    setpgid(0, 0);
    /* Monitoring systems kill late commands: then no process remains. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    /* The caller relays the status, so mpirun need not report it: for Open MPI 4, and for 5,
       which lacks option -q. */
    setenv("OMPI_MCA_orte_execute_quiet", "1", 0);
    setenv("PRTE_MCA_prte_execute_quiet", "1", 0);
    if (getppid() == parent && null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1)
        execvp(argv[0], argv);
    why = errno;
    if (write(fd, &why, sizeof why) < 0)
        _exit(126);
    _exit(127);
}

static int start_launcher(struct launch *l, char *const *argv, const sigset_t *mask,
                          struct err *err)
{
    int out[2] = {-1, -1}, said[2] = {-1, -1}, why = 0;
    pid_t me = getpid();

    if (pipe2(out, O_CLOEXEC) || pipe2(said, O_CLOEXEC) || (l->pid = fork()) < 0)
        why = errno;
    else if (l->pid == 0)
        exec_launcher(argv, out[1], said[1], me, mask);
    close(out[1]);
    close(said[1]);
    l->out = out[0];
    if (l->pid > 0)
        setpgid(l->pid, l->pid); /* parent and child both do this, since either may run first */
    if (why == 0 && read(said[0], &why, sizeof why) == 0)
        why = 0;
    close(said[0]);
    errno = why;
    return why ? err_sys(err, "cannot run '%s'", l->name) : 0;
}

/* The launcher is not reaped yet, so that its pid, which is also its group's, is not reused. */
static int launch_has_ended(struct launch *l)
{
    siginfo_t how = {0};

    if (l->ended || waitid(P_PID, (id_t)l->pid, &how, WEXITED | WNOHANG | WNOWAIT) ||
        how.si_pid == 0)
        return l->ended;
    l->status = how.si_status + (how.si_code == CLD_EXITED ? 0 : 128);
    return l->ended = 1;
}

static void launch_wait_for(struct launch *l, double seconds)
{
    double end = tick_now_s() + seconds;

    while (!launch_has_ended(l) && tick_now_s() < end)
        tick_sleep_s(0.01);
}

/* Whether processes of the launcher's group still exist. */
static int has_group(const struct launch *l)
{
    return kill(-l->pid, 0) == 0 || errno != ESRCH;
}

/* A launcher that has answered gets time to end by itself. */
static void stop_launcher(struct launch *l, int answered)
{
    if (l->pid <= 0)
        return;
    launch_wait_for(l, answered ? leave_s : 0);
    kill(-l->pid, SIGTERM);
    double late = tick_now_s() + term_s;
    launch_wait_for(l, term_s);
    if (!l->ended)
        kill(-l->pid, SIGKILL);
    waitpid(l->pid, NULL, 0);
    l->ended = 1;
    while (has_group(l) && tick_now_s() < late)
        tick_sleep_s(0.01);
    if (has_group(l))
        kill(-l->pid, SIGKILL);
}

/* ---- reading its output ---- */

/* Drops output that is not an answer: a launcher may print any amount of any bytes; a mark
   without an answer is ordinary output. */
static void drop_words(struct launch *l)
{
    if (l->begin && !l->answered && l->bytes - l->begin > MOST) {
        l->begin = 0;
        l->overflowed = 1;
    }
    size_t words = l->begin ? l->begin - 2 : l->seen, ended = words > SPACE ? words - SPACE : 0;
    if (ended < SPACE)
        return;
    memmove(l->text, l->text + ended, l->bytes - ended);
    l->bytes -= ended;
    l->seen -= ended;
    l->begin -= l->begin ? ended : 0;
    l->end -= l->answered ? ended : 0;
}

/* 1: there is output; 0: end of file. */
static int read_output(struct launch *l, struct err *err)
{
    l->text = mem_grow(l->text, &l->space, l->bytes + SPACE, 1);
    ssize_t n = read(l->out, l->text + l->bytes, SPACE);
    if (n < 0)
        return errno == EINTR ? 1 : err_sys(err, "cannot read the output of '%s'", l->name);
    l->bytes += (size_t)n;
    /* Searches the new output; its last byte may be half of a mark. */
    const char *at = l->text + l->seen, *stop = l->text + l->bytes;
    while (!l->answered && (at = memchr(at, CHECK_LAUNCH_MARK, (size_t)(stop - at))) &&
           at + 1 < stop) {
        l->answered = l->begin && at[1] >= '0' && at[1] <= '3';
        l->end = (size_t)(at++ - l->text);
        if (*at == CHECK_LAUNCH_BEGIN)
            l->begin = l->end + 2;
    }
    l->seen = at ? (size_t)(at - l->text) : l->bytes;
    drop_words(l);
    return n > 0;
}

/* Reads until the end mark. */
static int gather_answer(struct launch *l, double seconds, struct err *err)
{
    double late = tick_now_s() + seconds + start_s;
    struct pollfd fd[2] = {{.fd = l->out, .events = POLLIN},
                           {.fd = l->signals, .events = POLLIN}};

    for (int done = 0; !done;) {
        int ready = poll(fd, 2, SLICE_MS), had_ended = l->ended;
        if (ready < 0 && errno != EINTR)
            return err_sys(err, "cannot wait for '%s'", l->name);
        if (ready > 0 && fd[1].revents)
            return err_set(err, ERR_PEER, "ended before '%s' had an answer", l->name);
        if (ready > 0 && fd[0].revents) {
            int rc = read_output(l, err);
            if (rc < 0)
                return -1;
            if (rc == 0)
                fd[0].fd = -1;
            if (l->answered)
                return 0;
        }
        if (launch_has_ended(l) &&
            !had_ended) /* it may have printed since; other processes may hold the pipe open */
            late = tick_now_s() + drain_s;
        else
            done = tick_now_s() >= late;
        done |= l->ended && fd[0].fd < 0;
    }
    if (!l->ended)
        return err_set(err, ERR_PEER, "no answer from '%s' within %.3g s", l->name,
                       seconds + start_s);
    int status = l->status;
    const char *by = status > 128 && status < 128 + 32 ? strsignal(status - 128) : NULL;
    return err_set(err, ERR_PEER, "'%s' ended with status %d%s%s%s before there was an answer",
                   l->name, status, by ? " (" : "", by ? by : "", by ? ")" : "");
}

int check_launch(char *const *argv, double seconds, char **text, int *status, struct err *err)
{
    struct launch l = {.name = argv[0], .out = -1, .signals = -1};
    struct signalfd_siginfo signal_info;
    sigset_t ends, mask;

    signal(SIGCHLD, SIG_DFL); /* if ignored, a child's status would be lost */
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &mask);
    l.signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    int rc = l.signals < 0 ? err_sys(err, "cannot create a signal descriptor") : 0;
    rc = rc ? rc : start_launcher(&l, argv, &mask, err);
    rc = rc ? rc : gather_answer(&l, seconds, err);
    stop_launcher(&l, rc == 0);
    close(l.out);
    while (read(l.signals, &signal_info, sizeof signal_info) > 0)
        ; /* discards pending signals, which would end this process before it has reported */
    close(l.signals);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    /* Without an answer the reason is the launcher's last output. */
    size_t words = rc == 0 ? l.begin - 2 : l.bytes,
           first = rc && words > SPACE ? words - SPACE : 0;
    if (words)
        fwrite(l.text + first, 1, words - first, stderr);
    if (rc && l.overflowed)
        err_suffix(err, " (its answer is longer than %d MiB)", MOST >> 20);
    if (rc) {
        mem_free(l.text);
        return -1;
    }
    *status = l.text[l.end + 1] - '0';
    l.text[l.end] = 0;
    memmove(l.text, l.text + l.begin, l.end + 1 - l.begin);
    *text = l.text;
    return 0;
}
