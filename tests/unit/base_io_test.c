/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that files appear whole or not at all: what a reader, a second writer and a killed
 * writer leave to see.
 */
#include "unit.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "io_fixture.h"

static int lock_goes; /* removed between the next open and its lock, so many times */
static int lock_seen; /* another process has the lock for so many tries */

/* In the place of libc's. */
int flock(int fd, int how)
{
    if (lock_goes && lock_goes--)
        unlink("lock");
    if (lock_seen && lock_seen--) {
        errno = EWOULDBLOCK;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, how);
}

FOLDER_TEST(whole_reads_and_writes)
{
    unsigned char in[1000], out[1000];
    int64_t bytes = 0;
    int fd = open("f", O_RDWR | O_CREAT, 0666);

    for (int i = 0; i < 1000; i++)
        in[i] = (unsigned char)(i * 7);
    assert_ok(io_pwrite_all(fd, in, 1000, 5, &err));
    assert_ok(io_size(fd, &bytes, &err));
    assert_int_equal(bytes, 1005);
    assert_ok(io_pread_all(fd, out, 1000, 5, &err));
    assert_memory_equal(in, out, 1000);
    assert_error(io_pread_all(fd, out, 1000, 6, &err), ERR_INPUT);
    assert_string_equal(err.text, "ends at byte 1005, expected 1006");
    close(fd);
    fd = open(".", O_RDONLY);
    assert_int_equal(io_size(fd, &bytes, &err), -1);
    close(fd);
    fd = open("/dev/full", O_WRONLY);
    assert_error(io_pwrite_all(fd, in, 10, 0, &err), ERR_SYS);
    assert_non_null(strstr(err.text, "No space left"));
    close(fd);
}

/* Only what is a file is opened, and nothing is waited for. */
FOLDER_TEST(files_alone_are_opened)
{
    static const char *const others[] = {"pipe", "dir", "/dev/null"};
    int64_t bytes = 0;
    char *text = NULL;
    int fd = -1;

    put("f", "hello");
    assert_ok(io_open("f", &fd, &bytes, &err));
    assert_int_equal(bytes, 5);
    close(fd);
    assert_ok(io_open("f", &fd, NULL, &err));
    close(fd);
    assert_error(io_open("absent", &fd, NULL, &err), ERR_ABSENT);
    assert_string_equal(err.text, "cannot open 'absent': No such file or directory");
    assert_int_equal(mkfifo("pipe", 0666), 0);
    assert_int_equal(mkdir("dir", 0777), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char said[64];
        snprintf(said, sizeof said, "%s: is not a regular file", others[i]);
        assert_error(io_open(others[i], &fd, &bytes, &err), ERR_INPUT);
        assert_string_equal(err.text, said);
        assert_int_equal(io_read_file(others[i], 10, NULL, &text, &bytes, &err), -1);
        assert_string_equal(err.text, said);
    }
    assert_int_equal(io_read_file("f", 4, "--most", &text, &bytes, &err), -1);
    assert_string_equal(err.text, "'f' has more than 4 bytes (--most)");
    assert_ok(io_read_file("f", 5, NULL, &text, &bytes, &err));
    assert_string_equal(text, "hello");
    mem_free(text);
    put("-", "a name"); /* of a file, here */
    assert_ok(io_read_file("-", 10, NULL, &text, &bytes, &err));
    assert_string_equal(text, "a name");
    mem_free(text);
}

FOLDER_TEST(little_endian)
{
    unsigned char p[8];

    io_put_le64(p, 0x0102030405060708);
    assert_memory_equal(p, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    assert_true(io_le64(p) == 0x0102030405060708);
    assert_true(io_le64((const unsigned char *)"\xff\xff\xff\xff\xff\xff\xff\xff") ==
                UINT64_MAX);
}

FOLDER_TEST(texts_are_bounded)
{
    char *text = NULL;
    int64_t bytes = 0;

    put("f", "hello");
    expect("f", "hello");
    put("empty", "");
    expect("empty", "");
    assert_ok(io_read_text("f", 5, &text, &bytes, &err));
    mem_free(text);
    text = NULL;
    assert_int_equal(io_read_text("f", 4, &text, &bytes, &err), -1);
    assert_string_equal(err.text, "'f' has more than 4 bytes");
    assert_int_equal(io_read_text("/dev/zero", 1 << 20, &text, &bytes, &err), -1);
    assert_error(io_read_text("absent", 4, &text, &bytes, &err), ERR_ABSENT);
    assert_int_equal(io_read_text(".", 4, &text, &bytes, &err), -1);
    assert_null(text);
}

FOLDER_TEST(a_file_appears_at_commit)
{
    struct io_out out;
    struct stat st;

    assert_ok(io_create(&out, "f", 0, &err));
    assert_int_equal(stat("f", &st), -1);
    fputs("new", out.file);
    assert_ok(io_commit(&out, &err));
    expect("f", "new");
    assert_int_equal(names("."), 1);
}

/* A temporary that was put there before: with a second name, or, where that can be, another's.
 */
FOLDER_TEST(nobody_else_holds_what_is_written)
{
    struct io_out out;
    struct stat st;

    put("victim", "old");
    assert_int_equal(link("victim", ".f.paro-tmp"), 0);
    assert_ok(io_create(&out, "f", 0, &err));
    fputs("new", out.file);
    assert_ok(io_commit(&out, &err));
    expect("f", "new");
    expect("victim", "old");
    put(".g.paro-tmp", "planted");
    if (chown(".g.paro-tmp", 65534, 65534)) /* as root alone */
        return;
    int planted = open(".g.paro-tmp", O_WRONLY);
    assert_ok(io_create(&out, "g", 0, &err));
    fputs("new", out.file);
    assert_ok(io_commit(&out, &err));
    assert_int_equal(write(planted, "bad", 3), 3);
    close(planted);
    expect("g", "new");
    assert_true(stat("g", &st) == 0 && st.st_uid == geteuid());
}

FOLDER_TEST(file_and_fd_are_one)
{
    struct io_out out;

    assert_ok(io_create(&out, "f", 0, &err));
    fputs("head ", out.file);
    fflush(out.file);
    assert_ok(io_pwrite_all(out.fd, "tail", 4, 5, &err));
    assert_ok(io_commit(&out, &err));
    expect("f", "head tail");
}

FOLDER_TEST(an_existing_file_needs_force)
{
    struct io_out out;

    put("f", "old");
    assert_int_equal(io_create(&out, "f", 0, &err), -1);
    assert_string_equal(err.text, "'f' exists, expected a new name (or --force)");
    assert_ok(io_create(&out, "f", 1, &err));
    fputs("new", out.file);
    expect("f", "old");
    assert_ok(io_commit(&out, &err));
    expect("f", "new");
    /* It appears while another is being written: not replaced. */
    assert_ok(io_create(&out, "g", 0, &err));
    put("g", "theirs");
    assert_int_equal(io_commit(&out, &err), -1);
    expect("g", "theirs");
    assert_int_equal(names("."), 2);
}

FOLDER_TEST(abandoned_leaves_nothing)
{
    struct io_out out;

    put("f", "old");
    assert_ok(io_create(&out, "f", 1, &err));
    fputs("half", out.file);
    io_abandon(&out);
    expect("f", "old");
    assert_int_equal(names("."), 1);
    io_abandon(&out); /* a second time is fine */
    assert_error(io_create(&out, "no/such/folder", 1, &err), ERR_ABSENT);
}

FOLDER_TEST(force_replaces_like_by_like)
{
    struct io_out out;
    struct io_out dir;

    assert_int_equal(mkdir("d", 0777), 0);
    put("f", "old");
    assert_int_equal(mkfifo("p", 0666), 0);
    assert_says(io_create(&out, "d", 1, &err), "'d' is not a regular file");
    assert_int_equal(io_create(&out, "p", 1, &err), -1);
    assert_says(io_dir_create(&dir, "f", 1, &err), "'f' is not a folder");
    assert_int_equal(names("."), 3);
}

static void write_half_a_file(void)
{
    struct io_out out;

    if (io_create(&out, "f", 1, &err))
        _exit(1);
    fputs("half of something long", out.file);
    fflush(out.file);
}

FOLDER_TEST(a_killed_writers_rest_is_taken_over)
{
    struct io_out out;

    put("f", "old");
    killed(write_half_a_file);
    expect("f", "old");
    assert_int_equal(names("."), 2); /* its litter ... */
    assert_ok(io_create(&out, "f", 1, &err));
    fputs("new", out.file);
    assert_ok(io_commit(&out, &err));
    expect("f", "new");
    assert_int_equal(names("."), 1); /* ... the next one cleans */
}

FOLDER_TEST(two_writers_are_kept_apart)
{
    struct io_out a, b;
    struct io_out c, d;

    assert_ok(io_create(&a, "f", 0, &err));
    assert_error(io_create(&b, "f", 0, &err), ERR_MISMATCH);
    assert_string_equal(err.text, "'f' is being written by another process");
    fputs("a", a.file);
    assert_ok(io_commit(&a, &err));
    expect("f", "a");
    assert_ok(io_dir_create(&c, "d", 0, &err));
    assert_error(io_dir_create(&d, "d", 0, &err), ERR_MISMATCH);
    assert_ok(io_commit(&c, &err));
}

/* Many processes publish the same name: every reader sees one of them whole. */
FOLDER_TEST(a_crowd_of_writers)
{
    enum { CROWD = 8, TIMES = 40, LONG = 2000 };
    char *text = NULL;
    int64_t bytes = 0;
    pid_t pid[CROWD];

    put("f", "");
    for (int p = 0; p < CROWD; p++) {
        pid[p] = fork();
        if (pid[p])
            continue;
        for (int t = 0; t < TIMES; t++) {
            struct io_out out;
            if (io_create(&out, "f", 1, &err))
                continue; /* another has it */
            for (int i = 0; i < LONG; i++)
                putc('a' + p, out.file);
            if (io_commit(&out, &err))
                _exit(1);
            if (io_read_text("f", 1 << 20, &text, &bytes, &err) || bytes != LONG ||
                strspn(text, (char[]){text[0], 0}) != LONG)
                _exit(2);
            mem_free(text);
        }
        _exit(0);
    }
    for (int p = 0; p < CROWD; p++) {
        int status = 0;
        waitpid(pid[p], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(names("."), 1);
}

FOLDER_TEST(a_full_disk_keeps_the_old_file)
{
    struct rlimit was, small = {1000, 1000};
    struct io_out out;
    char big[4096] = {0};

    put("f", "old");
    assert_ok(io_create(&out, "f", 1, &err));
    getrlimit(RLIMIT_FSIZE, &was);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fwrite(big, 1, sizeof big, out.file);
    int rc = io_commit(&out, &err);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_int_equal(rc, -1);
    assert_string_equal(err.text, "cannot write 'f': File too large");
    expect("f", "old");
    assert_int_equal(names("."), 1);
}

FOLDER_TEST(removal_follows_no_link)
{
    assert_ok(io_mkdir("keep/a", NULL, &err));
    put("keep/a/f", "stays");
    assert_ok(io_mkdir("gone/b/c", NULL, &err));
    assert_int_equal(symlink("../../keep", "gone/b/link"), 0);
    put("gone/b/c/f", "x");
    assert_ok(io_remove_tree("gone", &err));
    expect("keep/a/f", "stays");
    assert_int_equal(names("."), 1);
    assert_ok(io_remove_tree("gone", &err)); /* absent is fine */
}

FOLDER_TEST(folders_with_their_parents)
{
    assert_ok(io_mkdir("a/b/c/", NULL, &err));
    assert_ok(io_mkdir("a/b/c", NULL, &err));
    put("f", "x");
    assert_says(io_mkdir("f", NULL, &err), "'f' exists and is not a folder");
    assert_int_equal(io_mkdir("f/g", NULL, &err), -1);
    assert_int_equal(io_mkdir("", NULL, &err), -1);
}

FOLDER_TEST(joins)
{
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};

    for (size_t i = 0; i < 4; i++) {
        char *path = io_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        mem_free(path);
    }
}

FOLDER_TEST(a_lock_has_one_holder)
{
    int a = -1, b = -1;

    assert_ok(io_lock("lock", &a, &err));
    assert_error(io_lock("lock", &b, &err), ERR_MISMATCH);
    assert_string_equal(err.text, "'lock' is held by another process");
    assert_int_equal(b, -1);
    close(a);
    lock_seen = 5;
    assert_ok(io_lock("lock", &b, &err));
    close(b);
}

/* A lock on a file that has been removed would keep nobody from the next one of that name. */
FOLDER_TEST(a_lock_that_was_removed_is_taken_anew)
{
    int a = -1, b = -1;

    lock_goes = 2;
    assert_ok(io_lock("lock", &a, &err));
    assert_error(io_lock("lock", &b, &err), ERR_MISMATCH);
    close(a);
}
