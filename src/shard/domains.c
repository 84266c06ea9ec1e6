/* SPDX-License-Identifier: Apache-2.0 */
/* The domains of a shard: the text of the domain file, and an index of its lines. A change creates,
 * parses and publishes a new text, and then replaces the old one. Loop's thread. */
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

struct domain_set {
    struct buf text;
    struct label *each; /* domains in `text`, sorted, without duplicates; NULL: no text was read */
    size_t count;
};
struct domains {
    struct fs *fs;
    char path[FS_PATH_CAP];
    struct domain_set set;
    bool given;
    bool unsynced; /* a power cut may revert the file to the old set */
};

static enum err domain_check(struct label domain, struct note *note)
{
    enum err err = id_check("topology_key", domain.key, LABEL_KEY_MAX, note);

    return err ? err : id_check("topology_value", domain.value, LABEL_VALUE_MAX, note);
}

static int domain_compare(const void *left, const void *right)
{
    const struct label *a = left, *b = right;
    int by_key = str_compare(a->key, b->key);

    return by_key ? by_key : str_compare(a->value, b->value);
}

static void set_free(struct domain_set *set)
{
    buf_deinit(&set->text);
    free(set->each);
}

/* -- the text -- */

static enum err line_read(struct str line, struct label *ret_domain, struct note *note)
{
    struct label domain = {.value = line};

    if (!str_split(&domain.value, '\t', &domain.key) || !domain.value.at)
        return note_fail(note, ERR_PARSE, "no tab in it");
    *ret_domain = domain;
    return domain_check(domain, note) ? ERR_PARSE : ERR_OK;
}

static void set_sort(struct domain_set *set)
{
    size_t kept = 0;

    if (set->count) qsort(set->each, set->count, sizeof *set->each, domain_compare);
    for (size_t i = 0; i < set->count; i++)
        if (!kept || domain_compare(&set->each[kept - 1], &set->each[i]))
            set->each[kept++] = set->each[i];
    set->count = kept;
}

static enum err set_read(struct domain_set *set, const char *path, struct note *note)
{
    struct str text = buf_peek(&set->text), line = STR_EMPTY;
    enum err err = ERR_OK;

    if (!str_starts(text, STR(FIRST_LINE)))
        return note_fail(note, ERR_PARSE, "%s: its first line is not ours", path);
    text = str_tail(text, strlen(FIRST_LINE));
    set->each = calloc(str_count(text, '\n') + 1, sizeof *set->each);
    if (!set->each) return ERR_NOMEM;
    while (!err && str_split(&text, '\n', &line) && text.at)
        err = line_read(line, &set->each[set->count++], note);
    if (!err && line.len) err = note_fail(note, ERR_PARSE, "cut short"); /* the line has no end */
    if (err) note_prefix(note, "%s: line %zu", path, set->count + 1);
    set_sort(set);
    if (err || set->count <= DOMAINS_MAX) return err;
    return note_fail(note, ERR_FULL, "%s: more than %d domains", path, DOMAINS_MAX);
}

/* Copies the text, with `domain` if `there`, else without it. */
static enum err set_change(const struct domain_set *set, struct label domain, bool there,
                           struct domain_set *ret_next)
{
    struct buf *text = &ret_next->text;
    enum err err;

    *ret_next = (struct domain_set){0};
    buf_init(text, FILE_BYTES_MAX);
    err = buf_append_c(text, FIRST_LINE);
    for (size_t i = 0; i < set->count && !err; i++)
        if (there || domain_compare(&set->each[i], &domain))
            err = buf_appendf(text, "%.*s\t%.*s\n", STR_ARG(set->each[i].key),
                              STR_ARG(set->each[i].value));
    if (!err && there)
        err = buf_appendf(text, "%.*s\t%.*s\n", STR_ARG(domain.key), STR_ARG(domain.value));
    return err;
}

/* -- the set -- */

enum err domains_open(struct fs *fs, const char *dir, struct domains **ret_domains,
                      struct note *note)
{
    struct domains *d = calloc(1, sizeof *d);
    enum err err;

    if (!d) return ERR_NOMEM;
    d->fs = fs;
    buf_init(&d->set.text, FILE_BYTES_MAX);
    err = fs_path(dir, "domains", d->path, note);
    if (!err) err = fs_read_whole(fs, d->path, FILE_BYTES_MAX, &d->set.text);
    d->given = !err;
    if (!err)
        err = set_read(&d->set, d->path, note);
    else if (err == ERR_NOT_FOUND)
        err = ERR_OK;
    else
        note_set(note, "%s: %s", d->path, err_text(err));
    if (err)
        domains_close(d);
    else
        *ret_domains = d;
    return err;
}

void domains_close(struct domains *domains)
{
    if (!domains) return;
    set_free(&domains->set);
    free(domains);
}

bool domains_given(const struct domains *domains)
{
    return domains->given;
}

const struct label *domains_list(const struct domains *domains, size_t *ret_count)
{
    *ret_count = domains->set.count;
    return domains->set.each;
}

enum err domains_set(struct domains *domains, struct str key, struct str value, bool there,
                     uint64_t unique, struct note *note)
{
    struct label domain = {key, value};
    const struct domain_set *set = &domains->set;
    struct domain_set next;
    enum err err = domain_check(domain, note);

    if (err) return err;
    if (!there && !domains->given)
        return note_fail(note, ERR_PRECONDITION,
                         "no domain was ever given to this shard: everything is its own");
    if (there == (set->count &&
                  bsearch(&domain, set->each, set->count, sizeof domain, domain_compare)) &&
        !domains->unsynced)
        return ERR_OK;
    err = set_change(set, domain, there, &next);
    if (!err) err = set_read(&next, domains->path, note);
    if (!err) {
        err = fs_publish(domains->fs, domains->path, buf_peek(&next.text), FILE_MODE, unique);
        if (err) note_set(note, "%s: %s", domains->path, err_text(err));
    }
    if (err && err != ERR_UNKNOWN) {
        set_free(&next);
        return err;
    }
    /* The new set is used even after ERR_UNKNOWN, because a restart would read the new file. */
    set_free(&domains->set);
    domains->set = next;
    domains->given = true;
    domains->unsynced = err == ERR_UNKNOWN;
    return err;
}
