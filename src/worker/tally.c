/* SPDX-License-Identifier: Apache-2.0 */
/* Two maps: totals by key, offsets by source. Processing thread. */
#include "worker/tally.h"

#include <stdlib.h>

static void tally_clear(struct partition_tally *tally)
{
    map_free(&tally->totals);
    map_free(&tally->sources);
    map_init(&tally->totals, TALLY_KEYS_MAX, 0);
    map_init(&tally->sources, TALLY_SOURCES_MAX, 0);
    tally->records = tally->rejected = 0;
}

enum err tally_open(struct partition_tally **ret_tally)
{
    struct partition_tally *tally = calloc(1, sizeof *tally);

    if (!tally) return ERR_NOMEM;
    tally_clear(tally);
    *ret_tally = tally;
    return ERR_OK;
}

void tally_close(struct partition_tally *tally)
{
    if (!tally) return;
    tally_clear(tally);
    free(tally);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

enum err tally_parse(struct str line, struct tally_record *ret_record)
{
    struct str rest = str_trim(line), number;
    size_t len = 0;

    if (rest.len == 0) return ERR_NOT_FOUND;
    while (len < rest.len && !is_blank(rest.at[len])) len++;
    if (len > TALLY_KEY_MAX || !str_is_utf8(str_of(rest.at, len)) || memchr(rest.at, '\0', len))
        return ERR_PARSE;
    number = str_trim(str_tail(rest, len));
    ret_record->number = 1;
    if (number.len && str_to_i64(number, &ret_record->number)) return ERR_PARSE;
    memcpy(ret_record->key, rest.at, len);
    ret_record->key[len] = '\0';
    ret_record->key_len = len;
    return ERR_OK;
}

static enum err total_of(struct map *map, struct str key, struct tally_total **ret_total)
{
    *ret_total = map_make(map, key, sizeof **ret_total);
    if (*ret_total) return ERR_OK;
    return map_count(map) == map->max ? ERR_FULL : ERR_NOMEM;
}

enum err tally_add(struct partition_tally *tally, const struct tally_record *record)
{
    struct tally_total *total;
    enum err err = total_of(&tally->totals, str_of(record->key, record->key_len), &total);
    int64_t sum;

    if (err) return err;
    if (__builtin_add_overflow(total->sum, record->number, &sum)) {
        tally->rejected++;
        return ERR_OK;
    }
    total->sum = sum;
    total->count++;
    tally->records++;
    return ERR_OK;
}

uint64_t tally_offset(const struct partition_tally *tally, struct str source)
{
    const struct tally_total *found = map_get(&tally->sources, source);
    return found ? found->count : 0;
}

enum err tally_set_offset(struct partition_tally *tally, struct str name, uint64_t offset)
{
    struct tally_total *source;
    enum err err;

    if (name.len == 0 || name.len > TALLY_SOURCE_MAX) return ERR_INVALID;
    err = total_of(&tally->sources, name, &source);
    if (!err) source->count = offset;
    return err;
}

/* -- writing and reading a record -- */

static int by_key(const void *left, const void *right)
{
    const struct map_entry *a = left, *b = right;
    return str_compare(a->key, b->key);
}

/* The entries sorted by key, in an array that the caller frees. NULL: no memory. */
static struct map_entry *sorted(const struct map *map)
{
    struct map_entry *list = calloc(map_count(map) + 1, sizeof *list), *entry;
    size_t count = 0;

    if (!list) return NULL;
    for (size_t at = 0; (entry = map_next(map, &at));) list[count++] = *entry;
    if (count > 1) qsort(list, count, sizeof *list, by_key);
    return list;
}

enum err tally_write(const struct partition_tally *tally, struct ndjson *into)
{
    struct map_entry *totals = sorted(&tally->totals), *sources = sorted(&tally->sources);

    if (!totals || !sources) {
        free(totals);
        free(sources);
        return ERR_NOMEM;
    }
    ndjson_open_object(into, STR("node_snapshots"));
    ndjson_open_object(into, STR("totals"));
    for (size_t i = 0; totals[i].value; i++) {
        const struct tally_total *total = totals[i].value;
        ndjson_open_array(into, totals[i].key);
        ndjson_u64(into, NDJSON_ITEM, total->count);
        ndjson_i64(into, NDJSON_ITEM, total->sum);
        ndjson_close_array(into);
    }
    ndjson_close_object(into);
    ndjson_u64(into, STR("rejected"), tally->rejected);
    ndjson_close_object(into);
    ndjson_open_object(into, STR("input_offsets"));
    for (size_t i = 0; sources[i].value; i++) {
        const struct tally_total *source = sources[i].value;
        ndjson_u64(into, sources[i].key, source->count);
    }
    ndjson_close_object(into);
    free(totals);
    free(sources);
    return ERR_OK;
}

static enum err read_totals(struct partition_tally *tally, const struct json *totals,
                            struct note *note)
{
    const struct json *pair;
    enum err err = ERR_OK;
    struct str key;

    for (void *cursor = NULL; !err && json_next(totals, &cursor, &key, &pair);) {
        struct tally_total *total;
        uint64_t count = 0;
        int64_t sum = 0;
        err = json_get_u64(pair, "0", &count, note);
        if (!err) err = json_get_i64(pair, "1", &sum, note);
        if (!err) err = total_of(&tally->totals, key, &total);
        if (err) break;
        total->count = count;
        total->sum = sum;
        tally->records += count;
    }
    return err;
}

static enum err read_offsets(struct partition_tally *tally, const struct json *offsets,
                             struct note *note)
{
    const struct json *value;
    enum err err = ERR_OK;
    struct str name;

    for (void *cursor = NULL; !err && json_next(offsets, &cursor, &name, &value);) {
        uint64_t offset = 0;
        err = json_get_u64(value, "", &offset, note);
        if (!err) err = tally_set_offset(tally, name, offset);
    }
    return err;
}

enum err tally_read(struct partition_tally *tally, const struct json *record, struct note *note)
{
    const struct json *totals, *offsets;
    enum err err = json_get_object(record, "node_snapshots.totals", &totals, note);

    tally_clear(tally);
    if (!err) err = json_get_object(record, "input_offsets", &offsets, note);
    if (!err) err = read_totals(tally, totals, note);
    if (!err) err = read_offsets(tally, offsets, note);
    if (!err) err = json_get_u64(record, "node_snapshots.rejected", &tally->rejected, note);
    if (err) tally_clear(tally);
    return err == ERR_NOT_FOUND || err == ERR_INVALID ? ERR_PARSE : err;
}
