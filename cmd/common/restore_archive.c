/* SPDX-License-Identifier: Apache-2.0 */
#include "common/restore_archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet/restore.h"
#include "member/machine.h"
#include "store/machine.h"
#include "text/ndjson.h"

static const char *const tables[FLEET_TABLES] = {"shards", "clusters",  "domains",
                                                 "quotas", "providers", "leaving"};

/* -- for programs -- */

static void put_hex(struct ndjson *json, struct str key, uint64_t value)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, value);
    ndjson_c_string(json, key, text);
}

static void put_counts(struct ndjson *json, struct str key, const struct fleet_counts *counts)
{
    ndjson_open_object(json, key);
    for (unsigned t = 0; t < FLEET_TABLES; t++)
        ndjson_u64(json, str_from(tables[t]), counts->of[t]);
    ndjson_close_object(json);
}

static void put_facts(struct ndjson *json, const struct archive_facts *facts)
{
    ndjson_c_string(json, STR("kind"), archive_kind_word(facts->kind));
    ndjson_u64(json, STR("index"), facts->head.index);
    ndjson_u64(json, STR("term"), facts->head.term);
    if (facts->kind == ARCHIVE_BACKUP) {
        put_hex(json, STR("from_cluster"), facts->head.cluster_id);
        ndjson_u64(json, STR("created_unix_ms"), facts->head.created_ms);
    }
    ndjson_open_array(json, STR("sections"));
    for (size_t i = 0; i < facts->head.section_count; i++) {
        const struct backup_section *section = &facts->head.sections[i];
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("name"), section->name);
        ndjson_u64(json, STR("bytes"), section->bytes);
        put_hex(json, STR("hash"), section->hash);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
    put_counts(json, STR("rows"), &facts->rows);
    put_counts(json, STR("left_out"), &facts->dropped);
    ndjson_open_array(json, STR("lacks"));
    for (size_t i = 0; i < facts->lacks_count; i++)
        ndjson_c_string(json, NDJSON_ITEM, facts->lacks[i]);
    ndjson_close_array(json);
}

static enum err restored_json(const struct restore_wish *wish, const struct archive_facts *facts,
                              const struct datadir *made, struct buf *out)
{
    struct ndjson json;

    ndjson_begin(&json, out, NDJSON_LINE);
    ndjson_c_string(&json, STR("result"), "restored");
    ndjson_c_string(&json, STR("data_dir"), wish->data_dir);
    ndjson_c_string(&json, STR("name"), wish->name);
    ndjson_c_string(&json, STR("raft_address"), wish->address);
    put_hex(&json, STR("replica"), made->replica_id);
    put_hex(&json, STR("cluster"), made->cluster_id);
    put_facts(&json, facts);
    return ndjson_end(&json);
}

/* -- for people -- */

static enum err say_counts(const char *before, const struct fleet_counts *counts, const char *after,
                           struct buf *out)
{
    enum err err = ERR_OK;
    bool any = false;

    for (unsigned t = 0; !err && t < FLEET_TABLES; t++) {
        if (counts->of[t] == 0) continue;
        err = buf_appendf(out, "%s%" PRIu32 " %s", any ? ", " : before, counts->of[t], tables[t]);
        any = true;
    }
    return err || !any ? err : buf_append_c(out, after);
}

/* What a reader of the archive should know before counting on it. */
static enum err say_gaps(const struct archive_facts *facts, struct buf *out)
{
    enum err err =
        say_counts("left out: ", &facts->dropped,
                   ", which no coordinator could hold (their shard is not in the archive)\n", out);

    for (size_t i = 0; !err && i < facts->lacks_count; i++)
        err = buf_appendf(out, "lacks: %s%s\n", facts->lacks[i],
                          strcmp(facts->lacks[i], "roster") == 0
                              ? " (the replicas make themselves known again)"
                              : "");
    return err;
}

/* See base/recovery.h: with such a clock a second restore might hand out what the first did. */
static enum err say_clock(const struct archive_facts *facts, uint64_t wall_ms, struct buf *out)
{
    uint64_t created_ms = facts->head.created_ms;

    if (created_ms <= wall_ms) return ERR_OK;
    return buf_appendf(out,
                       "warning: the clock of this machine is %" PRIu64
                       " s behind the backup; set it right before this backup is restored again\n",
                       (created_ms - wall_ms) / 1000);
}

static enum err say_restored(const struct restore_wish *wish, const struct archive_facts *facts,
                             uint64_t wall_ms, struct buf *out)
{
    enum err err = buf_appendf(
        out, "restored snapshot index=%" PRIu64 " term=%" PRIu64 " into %s as single-voter %s\n",
        facts->head.index, facts->head.term, wish->data_dir, wish->name);

    if (!err)
        err = buf_append_c(out, "start this replica first; empty the data directories of all "
                                "others, so that they join it anew\n");
    if (!err) err = say_clock(facts, wall_ms, out);
    return err ? err : say_gaps(facts, out);
}

static enum err say_verified(const char *path, const struct archive_facts *facts, struct buf *out)
{
    enum err err =
        buf_appendf(out, "verified %s index=%" PRIu64 " term=%" PRIu64 " in %s\n",
                    archive_kind_word(facts->kind), facts->head.index, facts->head.term, path);

    for (size_t i = 0; !err && i < facts->head.section_count; i++) {
        const struct backup_section *section = &facts->head.sections[i];
        err = buf_appendf(out, "section %s: %" PRIu64 " bytes, hash %016" PRIx64 "\n",
                          section->name, section->bytes, section->hash);
    }
    if (!err) err = say_counts("holds: ", &facts->rows, "\n", out);
    return err ? err : say_gaps(facts, out);
}

/* -- the two -- */

struct opened {
    struct store_machine *store;
    struct member_machine *member;
    struct archive *archive;
};

static void close_archive(struct opened *opened)
{
    archive_close(opened->archive);
    store_machine_close(opened->store);
    member_machine_close(opened->member);
}

/* An archive that is no good is not a wrong command line. */
static enum err open_archive(const char *path, struct opened *opened, struct note *note)
{
    struct machine more[] = {{.id = 0}, {.id = 0}, {.id = 0}};
    enum err err =
        store_machine_open(&(struct store_machine_options){.owner = NULL}, &opened->store);

    opened->archive = NULL;
    opened->member = NULL;
    if (err) return err;
    err = member_machine_open(&(struct member_machine_options){.owner = NULL}, &opened->member);
    if (!err) {
        more[0] = store_machine_registration(opened->store);
        more[1] = member_machine_registration(opened->member);
        err = archive_open(fs_real(), path, more, &opened->archive, note);
    }
    if (err) close_archive(opened);
    return err == ERR_PARSE || err == ERR_INVALID || err == ERR_TOO_LARGE ? ERR_CORRUPT : err;
}

static enum err may_replace(const struct restore_wish *wish, struct note *note)
{
    struct datadir known;
    struct note own = {""};
    enum err err = datadir_read(fs_real(), wish->data_dir, &known, &own);

    /* Half restored, or nothing: a restore is what it waits for. Anything else is somebody's. */
    if (wish->replaces || err == ERR_NOT_FOUND || err == ERR_NOT_READY) return ERR_OK;
    note_set(note,
             "%s holds the data of a replica, which a restore removes; say --yes if that is what "
             "you want",
             wish->data_dir);
    return ERR_EXISTS;
}

enum err restore_archive(const struct restore_wish *wish, struct buf *out, struct note *note)
{
    struct archive_restore_options options = {.fs = fs_real(),
                                              .entropy = entropy_real(),
                                              .dir = wish->data_dir,
                                              .address = wish->address,
                                              .wall_ms = clock_wall(clock_real()).ms};
    struct opened opened;
    struct datadir made;
    enum err err = may_replace(wish, note);

    if (!err) err = open_archive(wish->archive, &opened, note);
    if (err) return err;
    err = archive_restore(opened.archive, &options, &made, note);
    if (!err)
        err = wish->json ? restored_json(wish, archive_facts(opened.archive), &made, out)
                         : say_restored(wish, archive_facts(opened.archive), options.wall_ms, out);
    close_archive(&opened);
    return err;
}

enum err verify_archive(const char *path, bool json, struct buf *out, struct note *note)
{
    struct opened opened;
    struct ndjson line;
    enum err err = open_archive(path, &opened, note);

    if (err) return err;
    if (json) {
        ndjson_begin(&line, out, NDJSON_LINE);
        ndjson_c_string(&line, STR("result"), "verified");
        put_facts(&line, archive_facts(opened.archive));
        err = ndjson_end(&line);
    } else {
        err = say_verified(path, archive_facts(opened.archive), out);
    }
    close_archive(&opened);
    return err;
}
