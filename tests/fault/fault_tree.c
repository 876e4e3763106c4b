/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what lies in a folder, and nothing of what it means.  Shares no code with the library.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"

static void lost(const char *what, const char *path)
{
    fprintf(stderr, "campaign: cannot %s '%s': ", what, path);
    perror("");
    exit(2);
}

/* FNV-1a */
static uint64_t mix(uint64_t sum, const char *data, size_t bytes, int mask)
{
    for (size_t i = 0; i < bytes; i++) {
        if (mask && isdigit((unsigned char)data[i])) {
            if (i > 0 && isdigit((unsigned char)data[i - 1]))
                continue;
            sum = (sum ^ '#') * 0x100000001b3u;
            continue;
        }
        sum = (sum ^ (unsigned char)data[i]) * 0x100000001b3u;
    }
    return sum;
}

static uint64_t mix_file(uint64_t sum, const char *path, int mask)
{
    static char block[1 << 20];
    int fd = open(path, O_RDONLY);
    ssize_t n;

    if (fd < 0)
        lost("open", path);
    while ((n = read(fd, block, sizeof block)) > 0)
        sum = mix(sum, block, (size_t)n, mask);
    close(fd);
    return sum;
}

static int no_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
}

static uint64_t mix_tree(uint64_t sum, const char *path, int mask)
{
    struct dirent **name = NULL;
    struct stat st;
    char text[PATH_MAX];

    if (lstat(path, &st))
        return 0;
    sum = mix(sum, (const char *)&st.st_mode, sizeof st.st_mode, 0);
    if (S_ISREG(st.st_mode))
        return mix_file(sum, path, mask);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(path, text, sizeof text);
        return mix(sum, text, n > 0 ? (size_t)n : 0, mask);
    }
    int count = S_ISDIR(st.st_mode) ? scandir(path, &name, no_dots, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s/%s", path, name[i]->d_name);
        sum = mix(sum, name[i]->d_name, strlen(name[i]->d_name) + 1, mask);
        sum = mix_tree(sum, text, mask);
        free(name[i]);
    }
    free(name);
    return mix(sum, "/", 1, 0);
}

uint64_t tree_hash(const char *path, int mask)
{
    return mix_tree(0xcbf29ce484222325u, path, mask);
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
    static char block[1 << 20];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, mode & 07777);
    ssize_t n = 0;

    if (in < 0 || out < 0)
        lost("copy", from);
    while ((n = read(in, block, sizeof block)) > 0)
        if (write(out, block, (size_t)n) != n)
            lost("write", to);
    close(in);
    close(out);
}

void tree_copy(const char *from, const char *to)
{
    struct stat st;
    char a[PATH_MAX], b[PATH_MAX];

    if (lstat(from, &st))
        lost("copy", from);
    if (S_ISREG(st.st_mode)) {
        copy_file(from, to, st.st_mode);
    } else if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(from, a, sizeof a - 1);
        a[n > 0 ? n : 0] = 0;
        if (symlink(a, to))
            lost("link", to);
    } else {
        DIR *d = opendir(from);
        if (!d || mkdir(to, st.st_mode & 07777))
            lost("copy", from);
        for (struct dirent *e; (e = readdir(d));)
            if (no_dots(e)) {
                snprintf(a, sizeof a, "%s/%s", from, e->d_name);
                snprintf(b, sizeof b, "%s/%s", to, e->d_name);
                tree_copy(a, b);
            }
        closedir(d);
    }
}

void tree_remove(const char *path)
{
    struct stat st;
    char text[PATH_MAX];

    if (lstat(path, &st))
        return;
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (no_dots(e)) {
            snprintf(text, sizeof text, "%s/%s", path, e->d_name);
            tree_remove(text);
        }
    if (d)
        closedir(d);
    rmdir(path);
}

char *tree_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (f && text)
        text[fread(text, 1, (1 << 20) - 1, f)] = 0;
    if (f)
        fclose(f);
    return text;
}
