/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a program's n-th system call of a kind is made to fail, to do half, or to be its
 * last: by ptrace, so that those within libc count too, and those of every thread.  Allocations
 * are fault_malloc.c's.  Counting begins at the program's first instruction: what the dynamic
 * linker does is not ours.  x86-64 alone. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"

enum { LIMIT_S = 30, THREADS = 4096, FILES = 1024 };

static const struct {
    const char *kind;
    int number;
} calls[] = {
    {"open", SYS_open},        {"open", SYS_openat},
    {"read", SYS_read},        {"read", SYS_pread64},
    {"read", SYS_readv},       {"read", SYS_preadv},
    {"write", SYS_write},      {"write", SYS_pwrite64},
    {"write", SYS_writev},     {"write", SYS_pwritev},
    {"write", SYS_sendfile},   {"write", SYS_copy_file_range},
    {"sync", SYS_fsync},       {"sync", SYS_fdatasync},
    {"sync", SYS_syncfs},      {"advice", SYS_sync_file_range},
    {"advice", SYS_fadvise64}, {"advice", SYS_madvise},
    {"rename", SYS_rename},    {"rename", SYS_renameat},
    {"rename", SYS_renameat2}, {"rename", SYS_link},
    {"rename", SYS_linkat},    {"rename", SYS_symlink},
    {"rename", SYS_symlinkat}, {"close", SYS_close},
    {"stat", SYS_stat},        {"stat", SYS_lstat},
    {"stat", SYS_fstat},       {"stat", SYS_newfstatat},
    {"stat", SYS_statx},       {"stat", SYS_access},
    {"stat", SYS_faccessat},   {"stat", SYS_faccessat2},
    {"stat", SYS_readlink},    {"stat", SYS_readlinkat},
    {"stat", SYS_getcwd},      {"list", SYS_getdents64},
    {"remove", SYS_unlink},    {"remove", SYS_unlinkat},
    {"remove", SYS_rmdir},     {"mkdir", SYS_mkdir},
    {"mkdir", SYS_mkdirat},    {"room", SYS_ftruncate},
    {"room", SYS_fallocate},   {"lock", SYS_flock},
    {"fcntl", SYS_fcntl},      {"map", SYS_mmap},
    {"map", SYS_mremap},       {"thread", SYS_clone},
    {"thread", SYS_clone3},
};

static int is_kind(uint64_t number, const char *kind)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if ((uint64_t)calls[i].number == number)
            return strcmp(calls[i].kind, kind) == 0;
    return 0;
}

/* After it a file system is another than before: between two of them it is one and the same,
 * wherever a kill comes.  What is said is none of it. */
static int is_change(uint64_t number, const uint64_t *arg)
{
    static const char *const kinds[] = {"rename", "remove", "mkdir", "room"};
    const uint64_t makes = O_CREAT | O_TRUNC;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_kind(number, kinds[i]))
            return 1;
    return (is_kind(number, "write") && arg[0] > 2) ||
           (number == SYS_open && (arg[1] & makes)) ||
           (number == SYS_openat && (arg[2] & makes));
}

/* What is said on stderr is how a failure is told: it arrives. */
static int is_of(const struct fault *f, uint64_t number, const uint64_t *arg)
{
    if (strcmp(f->kind, "any") == 0)
        return 1;
    if (strcmp(f->kind, "change") == 0)
        return is_change(number, arg);
    if (strcmp(f->kind, "write") == 0 && arg[0] == 2)
        return 0;
    return is_kind(number, f->kind);
}

static struct {
    dev_t dev;
    ino_t ino;
    off_t last; /* byte that was written; -1: the file's */
} dirty[FILES];

/* The name of a descriptor's file, if it is a plain one. */
static int file_of(pid_t pid, uint64_t fd, char path[64], struct stat *st)
{
    snprintf(path, 64, "/proc/%d/fd/%d", (int)pid, (int)fd);
    return stat(path, st) == 0 && S_ISREG(st->st_mode);
}

static int find_dirty(const struct stat *st)
{
    for (int i = 0; i < FILES; i++)
        if (dirty[i].ino == st->st_ino && dirty[i].dev == st->st_dev)
            return i;
    return -1;
}

static void note(pid_t pid, uint64_t number, const uint64_t *arg)
{
    uint64_t fd = arg[0];
    int writes = is_kind(number, "write");
    char path[64];
    struct stat st;

    if ((!writes && !is_kind(number, "sync")) || !file_of(pid, fd, path, &st))
        return;
    int at = find_dirty(&st);
    if (writes && at < 0)
        for (at = 0; at < FILES - 1 && dirty[at].ino; at++)
            ;
    if (at >= 0) {
        dirty[at].dev = st.st_dev;
        dirty[at].ino = writes ? st.st_ino : 0;
        dirty[at].last = number == SYS_pwrite64 ? (off_t)(arg[2] + arg[3]) - 1 : -1;
    }
}

/* What was not on the disk is not there: a bit of it is another. */
static void lose(pid_t pid, uint64_t fd)
{
    char path[64], last;
    struct stat st;
    int own = file_of(pid, fd, path, &st) && st.st_size ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (own < 0)
        return;
    int i = find_dirty(&st);
    off_t at = i >= 0 && dirty[i].last >= 0 ? dirty[i].last : st.st_size - 1;
    if (pread(own, &last, 1, at) == 1) {
        last ^= 1;
        if (pwrite(own, &last, 1, at) != 1)
            exit(2);
    }
    close(own);
}

/* What goes through a pipe or a socket is another library's business, where it comes with one.
 */
static int is_on_disk(pid_t pid, uint64_t number, uint64_t fd)
{
    char path[64];
    struct stat st;

    if (!is_kind(number, "read") && !is_kind(number, "write") && !is_kind(number, "close"))
        return 1;
    return file_of(pid, fd, path, &st);
}

/* A call of the kind; "lost" are those of close that are the last chance to hear of a write. */
static int counts(const struct fault *f, pid_t pid, uint64_t number, const uint64_t *arg,
                  struct fault_end *end)
{
    uint64_t fd = arg[0];
    char path[64];
    struct stat st;

    end->begun |= !f->from || is_kind(number, f->from);
    if (!end->begun || (f->from && !is_on_disk(pid, number, fd)))
        return 0;
    if (strcmp(f->kind, "lost"))
        return is_of(f, number, arg);
    note(pid, number, arg);
    return number == SYS_close && file_of(pid, fd, path, &st) && find_dirty(&st) >= 0;
}

static struct {
    pid_t tid;
    int late; /* its call's result is to be replaced */
} thread[THREADS];

static int *late_of(pid_t tid)
{
    int free_one = -1;

    for (int i = 0; i < THREADS && (thread[i].tid || free_one < 0); i++) {
        if (thread[i].tid == tid)
            return &thread[i].late;
        if (!thread[i].tid)
            free_one = i;
    }
    thread[free_one].tid = tid;
    thread[free_one].late = 0;
    return &thread[free_one].late;
}

enum amend { RESULT, SKIP, HALF };

/* RESULT: fails with error.  SKIP: is not made, no such number, and at its end the result is
   replaced.  HALF: of so many bytes. */
static void amend(pid_t tid, enum amend how, int error)
{
    struct user_regs_struct r;

    ptrace(PTRACE_GETREGS, tid, 0, &r);
    if (how == RESULT)
        r.rax = (unsigned long long)(long long)-error;
    else if (how == SKIP)
        r.orig_rax = (unsigned long long)-1;
    else
        r.rdx = r.rdx > 1 ? r.rdx / 2 : r.rdx;
    ptrace(PTRACE_SETREGS, tid, 0, &r);
}

/* 1: nothing more is to be seen. */
static int at_call(const struct fault *f, pid_t pid, pid_t tid, struct fault_end *end)
{
    struct __ptrace_syscall_info info;
    int *late = late_of(tid);

    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0)
        return 0;
    if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
        if (*late && f->mode == FAULT_KILLED)
            kill(pid, SIGKILL);
        else if (*late)
            amend(tid, RESULT, f->error);
        int done = *late && f->mode != FAULT_ON;
        *late = 0;
        return done;
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY ||
        !counts(f, pid, info.entry.nr, info.entry.args, end))
        return 0;
    int64_t n = ++end->count;
    if (f->mode == FAULT_NONE || n < f->n || (n > f->n && f->mode != FAULT_ON))
        return 0;
    end->hit = 1;
    if (strcmp(f->kind, "lost") == 0 || strcmp(f->kind, "sync") == 0)
        lose(pid, info.entry.args[0]);
    if (f->mode == FAULT_KILL)
        kill(pid, SIGKILL);
    else if (f->mode == FAULT_SHORT)
        amend(tid, HALF, 0);
    else if (f->mode == FAULT_FAIL || f->mode == FAULT_ON)
        amend(tid, SKIP, 0);
    *late = f->mode != FAULT_SHORT;
    return f->mode == FAULT_SHORT || f->mode == FAULT_KILL;
}

static volatile sig_atomic_t too_long;

static void on_alarm(int number)
{
    (void)number;
    too_long = 1;
}

static void become(char *const *argv, const char *out, const char *err)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    int in = open("/dev/null", O_RDONLY), o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666),
        e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || o < 0 || e < 0)
        _exit(126);
    dup2(in, 0);
    dup2(o, 1);
    dup2(e, 2);
    close(in);
    close(o);
    close(e);
    execvp(argv[0], argv);
    _exit(127);
}

static uint64_t entry_of(pid_t pid)
{
    char path[64];
    Elf64_auxv_t v;
    uint64_t entry = 0;

    snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fread(&v, sizeof v, 1, f) == 1)
        if (v.a_type == AT_ENTRY)
            entry = v.a_un.a_val;
    if (f)
        fclose(f);
    return entry;
}

/* From exec to the first instruction, by a breakpoint there.  Before it the constructors of
 * libraries run, which may make threads: their stops, and the event of their making, pass. */
static int to_entry(pid_t pid)
{
    struct user_regs_struct r;
    pid_t tid = pid;
    int status;

    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return -1;
    ptrace(PTRACE_SETOPTIONS, pid, 0,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
               PTRACE_O_EXITKILL);
    uint64_t at = entry_of(pid);
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
    if (at == 0 || errno || ptrace(PTRACE_POKETEXT, pid, at, (word & ~0xffL) | 0xcc))
        return -1;
    do {
        ptrace(PTRACE_CONT, tid, 0, 0);
        tid = waitpid(-1, &status, __WALL);
        if (tid < 0 || (tid == pid && !WIFSTOPPED(status)))
            return -1;
    } while (tid != pid || status >> 8 != SIGTRAP);
    ptrace(PTRACE_POKETEXT, pid, at, word);
    ptrace(PTRACE_GETREGS, pid, 0, &r);
    r.rip = at;
    return ptrace(PTRACE_SETREGS, pid, 0, &r) ? -1 : 0;
}

static void kill_all(void)
{
    for (int i = 0; i < THREADS; i++)
        if (thread[i].tid)
            kill(thread[i].tid, SIGKILL);
}

/* Until the first process has ended, and with it whatever it made. */
static void follow(const struct fault *f, pid_t pid, struct fault_end *end)
{
    int status, seen = !f->kind, ended = 0;

    for (pid_t tid;;) {
        tid = waitpid(-1, &status, __WALL);
        if (tid < 0 && errno == EINTR && !too_long)
            continue;
        if (tid < 0 && errno == EINTR) {
            end->hung = 1;
            too_long = 0;
            kill_all();
            continue;
        }
        if (tid < 0)
            break;
        if (!WIFSTOPPED(status)) {
            for (int i = 0; i < THREADS; i++)
                if (thread[i].tid == tid)
                    thread[i].tid = 0;
            if (tid == pid) {
                end->status = status;
                ended = 1;
                alarm(2); /* a child of its own that stays would be a hang */
            }
            continue;
        }
        int sig = WSTOPSIG(status), pass = 0;
        if (sig == (SIGTRAP | 0x80))
            seen |= at_call(f, pid, tid, end);
        else if (status >> 16 == 0 && sig != SIGSTOP && sig != SIGTRAP)
            pass = sig;
        ptrace(seen ? PTRACE_CONT : PTRACE_SYSCALL, tid, 0, pass);
    }
    if (!ended)
        end->hung = 1;
}

static struct fault_state *share(const struct fault *f)
{
    const char *path = getenv("FAULT_STATE");
    struct fault_state s = {.at = f->mode == FAULT_NONE ? 0 : f->n, .on = f->mode == FAULT_ON};
    int fd = path ? open(path, O_RDWR | O_CREAT, 0666) : -1;

    if (fd < 0 || pwrite(fd, &s, sizeof s, 0) != sizeof s) {
        fprintf(stderr, "campaign: no FAULT_STATE\n");
        exit(2);
    }
    void *p = mmap(NULL, sizeof s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p;
}

static void await(pid_t pid, struct fault_end *end)
{
    while (waitpid(pid, &end->status, 0) != pid) {
        if (!too_long)
            continue;
        end->hung = 1;
        too_long = 0;
        kill(pid, SIGKILL);
    }
}

int fault_run(const struct fault *f, char *const *argv, const char *out, const char *err,
              struct fault_end *end)
{
    struct sigaction act = {.sa_handler = on_alarm};
    int memory = f->kind && strcmp(f->kind, "malloc") == 0, rc = 0;
    struct fault_state *state = memory ? share(f) : NULL;

    *end = (struct fault_end){0};
    memset(thread, 0, sizeof thread);
    memset(dirty, 0, sizeof dirty);
    too_long = 0;
    sigaction(SIGALRM, &act, NULL);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        if (memory)
            setenv("LD_PRELOAD", getenv("FAULT_PRELOAD"), 1);
        else if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(125);
        become(argv, out, err);
    }
    alarm(LIMIT_S);
    if (memory) {
        await(pid, end);
        end->hit = state->hit;
        end->count = state->count;
        munmap(state, sizeof *state);
    } else if (to_entry(pid)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        rc = -1;
    } else {
        ptrace(f->kind ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, 0);
        follow(f, pid, end);
    }
    alarm(0);
    return rc;
}
