/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the files of all options in one pass over the option table, then the certificates. Runs
 * before the loop. */
#include "common/files.h"

#include <stdio.h>
#include <string.h>

#include "io/tls.h"

/* Files that are used only while option `by` has this value. */
static const struct {
    const char *file, *by, *value;
} used_by[] = {
    {"events.file", "events.sink", "file"},
    {"events.worker_file", "events.worker_sink", "file"},
    {"catalogue", "backend", "catalogue"},
};
/* TLS options whose files are checked together, as the roles open them later. */
static const struct {
    const char *what, *cert, *key, *ca; /* errors name the option `what` */
} tls_files[] = {
    {"tls.cert-file", "tls.cert-file", "tls.key-file", "tls.ca-file"},
    {"etcd-ca-file", "tls.cert-file", "tls.key-file", "etcd-ca-file"},
    {"dashboard.cert-file", "dashboard.cert-file", "dashboard.key-file", "tls.ca-file"},
    {"transport.cert_file", "transport.cert_file", "transport.key_file", "transport.ca_file"},
};

/* NULL: the option is not set, or the role does not have it. */
static const char *files_text_of(const struct option_table *table, const struct conf *conf,
                                 const char *name)
{
    return option_find(table, name) ? conf_text(conf, name) : NULL;
}

static bool files_is_used(const struct option_table *table, const struct conf *conf,
                          const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(used_by); i++) {
        const struct option *by = option_find(table, used_by[i].by);
        if (strcmp(used_by[i].file, name) != 0 || !by) continue;
        if (strcmp(by->choices[conf_choice(conf, by->name)], used_by[i].value) != 0) return false;
    }
    return conf_is_set(conf, name);
}

/* Accepts any file but a directory. A pipe is not opened here, because it can be read only once. */
static enum err files_check_input(struct fs *fs, const char *name, const char *path,
                                  struct note *note)
{
    struct fs_file *file = NULL;
    struct fs_info info;
    enum err err = fs_stat(fs, path, &info);

    if (!err && info.kind == FS_DIRECTORY)
        return note_fail(note, ERR_INVALID, "%s %s: it is a directory", name, path);
    if (!err && info.kind == FS_REGULAR) err = fs_open(fs, path, FS_READ, 0, &file);
    fs_close(fs, file);
    if (err) note_set(note, "%s %s: %s", name, path, err_text(err));
    return err;
}

/* `base` NULL: the given path. */
static enum err files_join_path(const char *name, const char *base, const char *given,
                                char path[FS_PATH_CAP], struct note *note)
{
    bool below = base && given[0] != '/';
    int len = snprintf(path, FS_PATH_CAP, "%s%s%s", below ? base : "", below ? "/" : "", given);

    if (len < FS_PATH_CAP) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%s: the path is longer than %d bytes", name,
                     FS_PATH_CAP - 1);
}

enum err files_below_data_dir(const struct conf *conf, const char *name, const char *given,
                              char path[FS_PATH_CAP], struct note *note)
{
    return files_join_path(name, conf_text(conf, "data-dir"), given, path, note);
}

/* Refuses an existing file without JSON lines, because the file may be muster's own: LOCK, FORMAT,
 * the epoch. After a power cut, a file of lines may begin with zeros. */
static enum err files_check_lines(struct fs *fs, const char *name, const char *path,
                                  struct note *note)
{
    char first = str_ends(str_from(path), STR("/LOCK")) ? 'p' : '{';
    struct fs_file *file;
    size_t got;

    if (fs_open(fs, path, FS_READ, 0, &file)) return ERR_OK; /* the role reports the error */
    (void)fs_read_at(fs, file, 0, &first, 1, &got);
    fs_close(fs, file);
    if (first == '{' || first == '\0') return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "%s %s: the file has other content than lines of JSON; name a new file", name,
                     path);
}

/* Checks that an output file could be written. `base`, the directory of the file, may be NULL; a
 * missing one is made later. */
static enum err files_check_output(struct fs *fs, const char *name, const char *given,
                                   const char *base, struct note *note)
{
    bool below = base && given[0] != '/';
    char path[FS_PATH_CAP];
    struct fs_info info;
    const char *slash;
    enum err err = files_join_path(name, base, given, path, note);

    if (err) return err;
    if (!fs_stat(fs, path, &info)) {
        if (info.kind == FS_DIRECTORY)
            return note_fail(note, ERR_INVALID, "%s %s: it is a directory", name, given);
        return base && info.kind == FS_REGULAR ? files_check_lines(fs, name, path, note) : ERR_OK;
    }
    slash = strrchr(path, '/');
    if (!slash || (below && !strchr(given, '/'))) return ERR_OK;
    path[slash == path ? 1 : slash - path] = '\0';
    err = fs_stat(fs, path, &info);
    if (!err && info.kind == FS_DIRECTORY) return ERR_OK;
    note_set(note, "%s %s: its directory: %s", name, given,
             err ? err_text(err) : "it is not a directory");
    return err ? err : ERR_INVALID;
}

static enum err files_check_option(const struct option_table *table, const struct option *option,
                                   const struct conf *conf, struct fs *fs, struct note *note)
{
    enum err err = ERR_OK;

    switch (option->file) {
    case OPTION_FILE_NONE:
    case OPTION_FILE_OTHER: return ERR_OK;
    case OPTION_FILE_INPUT:
        if (option->kind == OPTION_LIST) {
            struct option_value list = conf_list(conf, option->name);
            for (size_t i = 0; i < list.item_count && !err; i++)
                err = files_check_input(fs, option->name, list.items[i].at, note);
            return err;
        }
        return files_check_input(fs, option->name, conf_text(conf, option->name), note);
    case OPTION_FILE_OUTPUT:
        return files_check_output(fs, option->name, conf_text(conf, option->name), NULL, note);
    case OPTION_FILE_OUTPUT_BELOW:
        return files_check_output(fs, option->name, conf_text(conf, option->name),
                                  files_text_of(table, conf, "data-dir"), note);
    }
    return ERR_INTERNAL;
}

/* Exports and their removal must not meet the files of a replica. A data directory, its log/ and
 * its snap/ have a file FORMAT. */
static enum err files_check_export(const struct option_table *table, const struct conf *conf,
                                   struct fs *fs, struct note *note)
{
    const char *dir = files_text_of(table, conf, "snapshot-export-dir");
    char path[FS_PATH_CAP];
    struct fs_info info;
    enum err err = dir ? fs_path(dir, "FORMAT", path, note) : ERR_OK;

    if (err || !dir) return err;
    if (fs_stat(fs, path, &info) && strcmp(dir, conf_text(conf, "data-dir")) != 0) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "snapshot-export-dir %s: it belongs to a replica; name a directory of its own",
                     dir);
}

static enum err files_check_tls(const struct option_table *table, const struct conf *conf,
                                size_t which, struct fs *fs, struct note *note)
{
    struct tls_options options = {
        .side = TLS_SERVER,
        .version_min = TLS_V1_2,
        .cert_file = files_text_of(table, conf, tls_files[which].cert),
        .key_file = files_text_of(table, conf, tls_files[which].key),
        .ca_files = {files_text_of(table, conf, tls_files[which].ca)},
        .peer_optional = true,
    };
    struct tls_context *tls = NULL;
    enum err err;

    if (!options.cert_file || !files_text_of(table, conf, tls_files[which].what)) return ERR_OK;
    err = tls_context_open(fs, &options, &tls, note);
    tls_context_unref(tls);
    if (err) note_prefix(note, "%s", tls_files[which].what);
    return err;
}

enum err files_check(const struct option_table *table, const struct conf *conf, struct fs *fs,
                     struct note *note)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < table->count && !err; i++)
        if (files_is_used(table, conf, table->options[i].name))
            err = files_check_option(table, &table->options[i], conf, fs, note);
    if (!err) err = files_check_export(table, conf, fs, note);
    for (size_t i = 0; i < ARRAY_LEN(tls_files) && !err; i++)
        err = files_check_tls(table, conf, i, fs, note);
    return err;
}
