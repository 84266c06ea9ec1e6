/* SPDX-License-Identifier: Apache-2.0 */
/* Certificate files: reading, writing, listing, and the lock of an authority's directory. A file is
 * written atomically with its final mode. A buffer that held a key is overwritten before its memory
 * is freed. Calls block; any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/rand.h>

#include "cert/internal.h"

enum {
    LOCK_TRIES = 500,
    LOCK_PAUSE_NS = 10000000
}; /* together at most five seconds; creating a CA takes milliseconds */

enum err cert_read(struct fs *fs, const char *path, struct buf *into, struct note *note)
{
    enum err err = fs_read_whole(fs, path, CERT_FILE_MAX, into);
    struct fs_info info;

    if (err && err != ERR_NOT_FOUND && !fs_stat(fs, path, &info) && info.kind == FS_DIRECTORY)
        return note_fail(note, err, "read %s: is a directory", path);
    return fs_noted(err, "read", path, note);
}

enum err cert_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                      struct note *note)
{
    uint64_t unique;
    enum err err = ERR_INTERNAL;

    if (RAND_bytes((unsigned char *)&unique, sizeof unique) == 1)
        err = fs_publish(fs, path, content, mode, unique);
    return fs_noted(err, "write", path, note);
}

static enum err publish_pem(struct fs *fs, const char *path, enum err err, struct buf *own_pem,
                            uint32_t mode, struct note *note)
{
    if (err)
        note_set(note, "%s: %s", path, err_text(err));
    else
        err = cert_publish(fs, path, buf_peek(own_pem), mode, note);
    tls_wipe(own_pem);
    return err;
}

enum err cert_publish_key(struct fs *fs, const char *path, const EVP_PKEY *key, struct note *note)
{
    struct buf pem;

    buf_init(&pem, CERT_FILE_MAX);
    return publish_pem(fs, path, cert_put_key_pem(key, &pem), &pem, CERT_MODE_SECRET, note);
}

enum err cert_publish_list(struct fs *fs, const char *path, X509 *const *list, size_t count,
                           struct note *note)
{
    struct buf pem;
    enum err err = ERR_OK;

    buf_init(&pem, CERT_FILE_MAX);
    for (size_t i = 0; !err && i < count; i++) err = cert_put_pem(list[i], &pem);
    return publish_pem(fs, path, err, &pem, CERT_MODE_PUBLIC, note);
}

enum err cert_lock(struct fs *fs, const char *dir, struct fs_lock **ret_lock, struct note *note)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    enum err err = ERR_BUSY;

    for (int i = 0; i < LOCK_TRIES && err == ERR_BUSY; i++) {
        if (i > 0) nanosleep(&pause, NULL);
        err = fs_lock_dir(fs, dir, ret_lock, note);
    }
    return err;
}

/* -- leaves in a directory --------------------------------------------------------------------- */

static bool may_be_leaf(struct str name, enum fs_kind kind)
{
    return kind != FS_DIRECTORY && name.at[0] != '.' && str_ends(name, STR(".pem")) &&
           !str_ends(name, STR(".key.pem")) && !str_equal(name, STR(CERT_CA_FILE));
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum err cert_list_leaves(struct fs *fs, const char *dir, const char ***ret_paths,
                          size_t *ret_count, struct note *note)
{
    const char **paths = NULL;
    size_t count, i = 0;
    struct buf names;
    char *text;
    enum err err;

    buf_init(&names, CERT_LEAVES_BYTES_MAX);
    err = fs_names(fs, dir, may_be_leaf, &names, note);
    count = str_count(buf_peek(&names), '\0');
    if (!err) {
        paths = malloc(count * (sizeof *paths + strlen(dir) + 1) + names.len + 1);
        if (!paths) err = note_fail(note, ERR_NOMEM, "list %s: %s", dir, err_text(ERR_NOMEM));
    }
    if (!err) {
        text = (char *)(paths + count);
        for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1) {
            paths[i++] = text;
            text += sprintf(text, "%s/%s", dir, names.data + at) + 1;
        }
        qsort(paths, count, sizeof *paths, compare_paths);
        *ret_paths = paths;
        *ret_count = count;
    }
    buf_deinit(&names);
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}
