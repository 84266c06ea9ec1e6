/* SPDX-License-Identifier: Apache-2.0 */
/* The cordons of a shard: the text of their file, and an index of its lines. A change creates,
 * parses and publishes a new text, and then replaces the old one. Loop's thread. */
#include "shard/cordon_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/hex.h"

#define CORDONS_FIRST_LINE "muster shard cordons 1\n"
#define CORDONS_CHECKSUM   "crc32c "
enum {
    CORDON_FILE_MODE = 0600,
    CORDONS_CHECKSUM_BYTES =
        sizeof CORDONS_CHECKSUM - 1 + 8 + 1, /* with the digits and the line's end */
    CORDON_LINE_MAX = LABEL_KEY_MAX + LABEL_VALUE_MAX + 2 * CORDON_TEXT_MAX + 40,
};
#define CORDON_FILE_MAX                                                                            \
    (sizeof CORDONS_FIRST_LINE + CORDONS_CHECKSUM_BYTES +                                          \
     (size_t)(CORDONS_MAX + 1) * CORDON_LINE_MAX)

struct cordon_set {
    struct buf text;
    struct cordon_entry *each; /* sorted; their texts are in `text` */
    size_t count;
};
struct cordon_file {
    struct fs *fs;
    char path[FS_PATH_CAP];
    struct cordon_set set;
    bool unsynced; /* a power cut may revert the file to the old set */
};

static int cordon_entry_compare(const void *left, const void *right)
{
    const struct cordon_entry *a = left, *b = right;
    int by_key = str_compare(a->key, b->key);

    return by_key ? by_key : str_compare(a->value, b->value);
}

static void cordon_set_free(struct cordon_set *set)
{
    buf_deinit(&set->text);
    free(set->each);
}

static enum err cordon_entry_check(const struct cordon_entry *e, struct note *note)
{
    enum err err = e->key.len ? id_check("label key", e->key, LABEL_KEY_MAX, note) : ERR_OK;

    if (!err) err = id_check(e->key.len ? "label value" : "machine", e->value, ID_MAX, note);
    if (!err) err = text_check("by", e->by, CORDON_TEXT_MAX, note);
    return err ? err : text_check("reason", e->reason, CORDON_TEXT_MAX, note);
}

/* -- the text -- */

static enum err cordon_line_read(struct str line, struct cordon_entry *e, struct note *note)
{
    struct str word, at, rest = line;
    bool whole = str_split(&rest, '\t', &word) && str_split(&rest, '\t', &e->key) &&
                 str_split(&rest, '\t', &e->value) && str_split(&rest, '\t', &at) &&
                 str_split(&rest, '\t', &e->by) && rest.at;

    e->reason = rest;
    for (int cordon = CORDON_KEEP; whole && cordon < CORDON_COUNT; cordon++)
        if (str_equal(word, str_from(machine_cordon_name((enum machine_cordon)cordon))))
            e->cordon = (enum machine_cordon)cordon;
    if (!whole || !e->cordon || str_to_u64(at, &e->at_ms))
        return note_fail(note, ERR_PARSE, "is no cordon");
    return cordon_entry_check(e, note) ? ERR_PARSE : ERR_OK;
}

static void checksum_of(struct str text, char line[CORDONS_CHECKSUM_BYTES + 1])
{
    snprintf(line, CORDONS_CHECKSUM_BYTES + 1, CORDONS_CHECKSUM "%08" PRIx32 "\n",
             crc32c(0, text.at, text.len));
}

/* Returns the text between the first line and the checksum. */
static enum err cordon_lines(struct str whole, struct str *ret_lines, struct note *note)
{
    char checksum[CORDONS_CHECKSUM_BYTES + 1];
    struct str body;

    if (!str_starts(whole, STR(CORDONS_FIRST_LINE)) ||
        whole.len < sizeof CORDONS_FIRST_LINE - 1 + CORDONS_CHECKSUM_BYTES)
        return note_fail(note, ERR_PARSE, "its first line is not ours, or it is cut short");
    body = str_of(whole.at, whole.len - CORDONS_CHECKSUM_BYTES);
    checksum_of(body, checksum);
    if (!str_ends(whole, str_from(checksum)))
        return note_fail(note, ERR_CORRUPT, "its checksum is wrong");
    *ret_lines = str_tail(body, sizeof CORDONS_FIRST_LINE - 1);
    return ERR_OK;
}

static enum err cordon_set_read(struct cordon_set *set, struct note *note)
{
    struct str lines, line;
    enum err err = cordon_lines(buf_peek(&set->text), &lines, note);

    if (err) return err;
    set->each = calloc(str_count(lines, '\n') + 1, sizeof *set->each);
    if (!set->each) return ERR_NOMEM;
    while (!err && lines.len && str_split(&lines, '\n', &line)) {
        err = cordon_line_read(line, &set->each[set->count++], note);
        if (err) note_prefix(note, "line %zu", set->count + 1);
    }
    if (set->count) qsort(set->each, set->count, sizeof *set->each, cordon_entry_compare);
    return err;
}

static enum err cordon_write(struct buf *text, const struct cordon_entry *e)
{
    return buf_appendf(text, "%s\t%.*s\t%.*s\t%" PRIu64 "\t%.*s\t%.*s\n",
                       machine_cordon_name(e->cordon), STR_ARG(e->key), STR_ARG(e->value), e->at_ms,
                       STR_ARG(e->by), STR_ARG(e->reason));
}

/* Copies the text with the changed entry. */
static enum err cordon_set_change(const struct cordon_set *set, const struct cordon_entry *entry,
                                  struct cordon_set *ret_next)
{
    struct buf *text = &ret_next->text;
    char checksum[CORDONS_CHECKSUM_BYTES + 1];
    enum err err;

    *ret_next = (struct cordon_set){0};
    buf_init(text, CORDON_FILE_MAX);
    err = buf_append_c(text, CORDONS_FIRST_LINE);
    for (size_t i = 0; i < set->count && !err; i++)
        if (cordon_entry_compare(&set->each[i], entry)) err = cordon_write(text, &set->each[i]);
    if (!err && entry->cordon) err = cordon_write(text, entry);
    if (err) return err;
    checksum_of(buf_peek(text), checksum);
    return buf_append_c(text, checksum);
}

/* -- the set -- */

enum err cordon_file_open(struct fs *fs, const char *dir, struct cordon_file **ret_file,
                          struct note *note)
{
    struct cordon_file *file = calloc(1, sizeof *file);
    enum err err;

    if (!file) return ERR_NOMEM;
    file->fs = fs;
    buf_init(&file->set.text, CORDON_FILE_MAX);
    err = fs_path(dir, "cordons", file->path, note);
    if (err) goto fail;
    err = fs_read_whole(fs, file->path, CORDON_FILE_MAX, &file->set.text);
    if (!err)
        err = cordon_set_read(&file->set, note);
    else if (err == ERR_NOT_FOUND)
        err = ERR_OK;
    else
        note_set(note, "%s", err_text(err));
    if (err) {
        note_prefix(note, "%s", file->path);
        goto fail;
    }
    *ret_file = file;
    return ERR_OK;

fail:
    cordon_file_close(file);
    return err;
}

void cordon_file_close(struct cordon_file *file)
{
    if (!file) return;
    cordon_set_free(&file->set);
    free(file);
}

const struct cordon_entry *cordon_file_list(const struct cordon_file *file, size_t *ret_count)
{
    *ret_count = file->set.count;
    return file->set.each;
}

static enum err cordon_may_set(const struct cordon_file *file, const struct cordon_entry *entry,
                               bool known, struct note *note)
{
    enum err err = cordon_entry_check(entry, note);

    if (err) return err;
    if (!known && !entry->cordon)
        return note_fail(note, ERR_NOT_FOUND,
                         "no cordon of exactly this: `musterctl machine cordons` lists all");
    if (!known && file->set.count >= CORDONS_MAX)
        return note_fail(note, ERR_FULL,
                         "a shard keeps at most %d cordons: uncordon some, or cordon a label",
                         CORDONS_MAX);
    return ERR_OK;
}

enum err cordon_file_set(struct cordon_file *file, const struct cordon_entry *entry,
                         uint64_t unique, struct note *note)
{
    const struct cordon_set *set = &file->set;
    const struct cordon_entry *known = NULL;
    struct cordon_set next;
    enum err err;

    if (set->count)
        known = bsearch(entry, set->each, set->count, sizeof *entry, cordon_entry_compare);
    err = cordon_may_set(file, entry, known, note);
    /* A removal whose file may be reverted is repeated, although the entry is gone. */
    if (err == ERR_NOT_FOUND && file->unsynced) err = ERR_OK;
    if (err) return err;
    err = cordon_set_change(set, entry, &next);
    if (!err) err = cordon_set_read(&next, note);
    if (!err) {
        err = fs_publish(file->fs, file->path, buf_peek(&next.text), CORDON_FILE_MODE, unique);
        if (err) note_set(note, "%s: %s", file->path, err_text(err));
    }
    if (err && err != ERR_UNKNOWN) {
        cordon_set_free(&next);
        return err;
    }
    /* The new set is used even after ERR_UNKNOWN, because a restart would read the new file. */
    cordon_set_free(&file->set);
    file->set = next;
    file->unsynced = err == ERR_UNKNOWN;
    return err;
}
