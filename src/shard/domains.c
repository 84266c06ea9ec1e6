/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/domains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "muster shard domains 1\n"
enum {
    FILE_MODE = 0600,
    LINE_MAX_BYTES = LABEL_KEY_MAX + LABEL_VALUE_MAX + 2,
};
#define FILE_BYTES_MAX (sizeof FIRST_LINE + (size_t)DOMAINS_MAX * LINE_MAX_BYTES)

struct domains {
    struct fs *fs;
    char path[FS_PATH_CAP];
    struct label *each; /* sorted; texts of their own */
    size_t count, cap;
    bool given;
    bool unsynced; /* the file has what the set has, and a power cut may take it back */
};

static enum err check(struct str key, struct str value, struct note *note)
{
    enum err err = id_check("topology_key", key, LABEL_KEY_MAX, note);

    return err ? err : id_check("topology_value", value, LABEL_VALUE_MAX, note);
}

static int compare(const struct label *domain, struct str key, struct str value)
{
    int by_key = str_compare(domain->key, key);

    return by_key ? by_key : str_compare(domain->value, value);
}

/* Where it is, or belongs. */
static size_t place_of(const struct domains *d, struct str key, struct str value, bool *ret_there)
{
    size_t low = 0, high = d->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(&d->each[middle], key, value) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_there = low < d->count && compare(&d->each[low], key, value) == 0;
    return low;
}

static void open_gap(struct domains *d, size_t at, struct label domain)
{
    memmove(d->each + at + 1, d->each + at, (d->count - at) * sizeof *d->each);
    d->each[at] = domain;
    d->count++;
}

static struct label close_gap(struct domains *d, size_t at)
{
    struct label gone = d->each[at];

    d->count--;
    memmove(d->each + at, d->each + at + 1, (d->count - at) * sizeof *d->each);
    return gone;
}

static void free_texts(struct label domain)
{
    free((char *)domain.key.at);
    free((char *)domain.value.at);
}

static enum err insert(struct domains *d, size_t at, struct str key, struct str value)
{
    struct label copy;

    if (d->count == DOMAINS_MAX) return ERR_FULL;
    if (d->count == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 16;
        struct label *more = realloc(d->each, cap * sizeof *more);

        if (!more) return ERR_NOMEM;
        d->each = more;
        d->cap = cap;
    }
    copy = (struct label){{str_dup(key), key.len}, {str_dup(value), value.len}};
    if (!copy.key.at || !copy.value.at) {
        free_texts(copy);
        return ERR_NOMEM;
    }
    open_gap(d, at, copy);
    return ERR_OK;
}

/* -- the file -- */

static enum err write_file(const struct domains *d, uint64_t unique, struct note *note)
{
    struct buf text;
    enum err err;

    buf_init(&text, FILE_BYTES_MAX);
    err = buf_append_c(&text, FIRST_LINE);
    for (size_t i = 0; !err && i < d->count; i++)
        err =
            buf_appendf(&text, "%.*s\t%.*s\n", STR_ARG(d->each[i].key), STR_ARG(d->each[i].value));
    if (!err) err = fs_publish(d->fs, d->path, buf_peek(&text), FILE_MODE, unique);
    buf_deinit(&text);
    if (err) note_set(note, "%s: %s", d->path, err_text(err));
    return err;
}

static enum err read_line(struct domains *d, struct str line, struct note *note)
{
    struct str key = STR_EMPTY, value = line;
    bool there;
    size_t at;

    if (!str_split(&value, '\t', &key) || !value.at)
        return note_fail(note, ERR_PARSE, "no tab in it");
    if (check(key, value, note)) return ERR_PARSE;
    at = place_of(d, key, value, &there);
    return there ? ERR_OK : insert(d, at, key, value);
}

static enum err read_text(struct domains *d, struct str text, struct note *note)
{
    size_t number = 1;
    struct str line = STR_EMPTY;
    enum err err = ERR_OK;

    if (!str_starts(text, STR(FIRST_LINE)))
        return note_fail(note, ERR_PARSE, "%s: its first line is not ours", d->path);
    text = str_of(text.at + strlen(FIRST_LINE), text.len - strlen(FIRST_LINE));
    while (!err && str_split(&text, '\n', &line) && text.at) {
        number++;
        err = read_line(d, line, note);
    }
    if (!err && line.len) { /* what stands behind the last end of a line */
        note_set(note, "cut short");
        err = ERR_PARSE;
    }
    if (err) note_prefix(note, "%s: line %zu", d->path, number);
    return err;
}

/* -- the set -- */

enum err domains_open(struct fs *fs, const char *dir, struct domains **ret_domains,
                      struct note *note)
{
    struct domains *d = calloc(1, sizeof *d);
    struct buf text;
    enum err err;

    if (!d) return ERR_NOMEM;
    d->fs = fs;
    if (snprintf(d->path, sizeof d->path, "%s/domains", dir) >= (int)sizeof d->path) {
        note_set(note, "data-dir: too long a path");
        free(d);
        return ERR_INVALID;
    }
    buf_init(&text, FILE_BYTES_MAX);
    err = fs_read_whole(fs, d->path, FILE_BYTES_MAX, &text);
    d->given = !err;
    if (!err)
        err = read_text(d, buf_peek(&text), note);
    else if (err == ERR_NOT_FOUND)
        err = ERR_OK;
    else
        note_set(note, "%s: %s", d->path, err_text(err));
    buf_deinit(&text);
    if (err)
        domains_close(d);
    else
        *ret_domains = d;
    return err;
}

void domains_close(struct domains *domains)
{
    if (!domains) return;
    while (domains->count) free_texts(close_gap(domains, domains->count - 1));
    free(domains->each);
    free(domains);
}

bool domains_given(const struct domains *domains)
{
    return domains->given;
}

const struct label *domains_list(const struct domains *domains, size_t *ret_count)
{
    *ret_count = domains->count;
    return domains->each;
}

enum err domains_set(struct domains *domains, struct str key, struct str value, bool there,
                     uint64_t unique, struct note *note)
{
    enum err err = check(key, value, note);
    struct label gone = {STR_EMPTY, STR_EMPTY};
    bool was;
    size_t at;

    if (err) return err;
    if (!there && !domains->given)
        return note_fail(note, ERR_PRECONDITION,
                         "no domain was ever given to this shard: everything is its own");
    at = place_of(domains, key, value, &was);
    if (was == there) {
        if (domains->unsynced) err = write_file(domains, unique, note);
        if (!err) domains->unsynced = false;
        return err;
    }
    if (there)
        err = insert(domains, at, key, value);
    else
        gone = close_gap(domains, at);
    if (err) return err;
    err = write_file(domains, unique, note);
    if (!err || err == ERR_UNKNOWN) {
        /* What a restart would read counts, although a power cut may take it back. */
        domains->given = true;
        domains->unsynced = err == ERR_UNKNOWN;
        if (!there) free_texts(gone);
    } else if (there) {
        free_texts(close_gap(domains, at));
    } else {
        open_gap(domains, at, gone);
    }
    return err;
}
