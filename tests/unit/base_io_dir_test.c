/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that folders appear whole or not at all, and are closed to others until then. */
#include "unit.h"

#include <sys/stat.h>

#include "io_fixture.h"

static void fill_dir(struct io_out *dir, const char *text)
{
    char *path = io_join(dir->temp, "part");

    put(path, text);
    mem_free(path);
}

FOLDER_TEST(a_folder_appears_whole)
{
    struct io_out dir;
    struct stat st;

    assert_ok(io_dir_create(&dir, "d/", 0, &err));
    fill_dir(&dir, "one");
    assert_int_equal(stat("d", &st), -1);
    assert_ok(io_commit(&dir, &err));
    expect("d/part", "one");
    assert_int_equal(io_dir_create(&dir, "d", 0, &err), -1);
    /* With force: exchanged whole, what only the old one had is gone. */
    put("d/extra", "x");
    assert_ok(io_dir_create(&dir, "d", 1, &err));
    fill_dir(&dir, "two");
    expect("d/part", "one");
    assert_ok(io_commit(&dir, &err));
    expect("d/part", "two");
    assert_int_equal(names("d"), 1);
    assert_int_equal(names("."), 1);
    assert_ok(io_dir_create(&dir, "d", 1, &err));
    fill_dir(&dir, "three");
    io_abandon(&dir);
    expect("d/part", "two");
    assert_int_equal(names("."), 1);
    /* By what has come of it. */
    assert_ok(io_dir_create(&dir, "d", 1, &err));
    fill_dir(&dir, "four");
    assert_int_equal(io_end(&dir, -1, &err), -1);
    expect("d/part", "two");
    assert_int_equal(names("."), 1);
    assert_ok(io_dir_create(&dir, "d", 1, &err));
    fill_dir(&dir, "five");
    assert_ok(io_end(&dir, 0, &err));
    expect("d/part", "five");
    assert_int_equal(names("."), 1);
}

static void write_half_a_folder(void)
{
    struct io_out dir;

    if (io_dir_create(&dir, "d", 1, &err))
        _exit(1);
    fill_dir(&dir, "half");
    if (mkdir(".d.paro-tmp/deep", 0777))
        _exit(1);
    put(".d.paro-tmp/deep/file", "x");
}

FOLDER_TEST(a_killed_writers_folder_is_emptied)
{
    struct io_out dir;

    killed(write_half_a_folder);
    assert_ok(io_dir_create(&dir, "d", 0, &err));
    assert_int_equal(names(dir.temp), 0);
    assert_ok(io_commit(&dir, &err));
    assert_int_equal(names("d"), 0);
    assert_int_equal(names("."), 1);
}

static int mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

/* Whatever the umask or the folder's group bit: nobody else may enter it before it is whole. */
FOLDER_TEST(a_folder_is_closed_until_it_is_whole)
{
    static const struct {
        mode_t mask, above, killed; /* 0: none was */
    } cases[] = {{022, 0755, 0}, {002, 02775, 0}, {0, 0777, 0777}, {077, 0700, 0755}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct io_out dir;
        mode_t was = umask(cases[i].mask);
        assert_int_equal(mkdir("in", 0700), 0);
        assert_int_equal(chmod("in", cases[i].above), 0);
        assert_int_equal(mkdir("in/wanted", 0777), 0);
        if (cases[i].killed) {
            assert_int_equal(mkdir("in/.d.paro-tmp", 0700), 0);
            assert_int_equal(chmod("in/.d.paro-tmp", cases[i].killed), 0);
            put("in/.d.paro-tmp/left", "x");
        }
        assert_ok(io_dir_create(&dir, "in/d", 0, &err));
        assert_int_equal(mode_of(dir.temp) & 0777, 0700);
        assert_ok(io_dir_put(&dir, "a/b/part", "text", 4, &err));
        assert_ok(io_commit(&dir, &err));
        umask(was);
        expect("in/d/a/b/part", "text");
        assert_int_equal(names("in/d"), 1);
        assert_int_equal(mode_of("in/d"), mode_of("in/wanted"));
        assert_ok(io_remove_tree("in", &err));
    }
}

/* Entries in the temporary, or under its name by now, lead nobody elsewhere. */
FOLDER_TEST(a_folder_is_filled_through_its_descriptor)
{
    struct io_out dir;
    int fd = -1;

    put("victim", "old");
    assert_int_equal(mkdir("elsewhere", 0777), 0);
    assert_ok(io_dir_create(&dir, "d", 0, &err));
    assert_int_equal(symlink("../victim", ".d.paro-tmp/part"), 0);
    assert_int_equal(symlink("../elsewhere", ".d.paro-tmp/sub"), 0);
    assert_int_equal(io_dir_put(&dir, "part", "new", 3, &err), -1);
    assert_int_equal(io_dir_put(&dir, "sub/part", "new", 3, &err), -1);
    assert_int_equal(io_dir_open(&dir, ".d.paro-tmp/part", O_WRONLY, 0, &fd, &err), -1);
    assert_int_equal(rename(".d.paro-tmp", "away"), 0);
    assert_int_equal(mkdir(".d.paro-tmp", 0777), 0);
    assert_int_equal(symlink("../victim", ".d.paro-tmp/other"), 0);
    assert_ok(io_dir_put(&dir, "other", "new", 3, &err));
    expect("away/other", "new");
    expect("victim", "old");
    assert_int_equal(names("elsewhere"), 0);
    /* And what is published is what was written, or is not called so. */
    assert_error(io_commit(&dir, &err), ERR_MISMATCH);
    assert_non_null(strstr(err.text, "'d' was replaced"));
}
