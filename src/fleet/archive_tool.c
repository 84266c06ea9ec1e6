/* SPDX-License-Identifier: Apache-2.0 */
/* Restores and verifies archives. Reports are text for people or JSON. Blocking. */
#include "fleet/archive_tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/ndjson.h"

static const char *const tables[FLEET_TABLES] = {"shards", "clusters",  "domains",
                                                 "quotas", "providers", "leaving"};

/* -- JSON -- */

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
    ndjson_u64(json, STR("index"), facts->index);
    ndjson_u64(json, STR("term"), facts->term);
    if (facts->kind == ARCHIVE_BACKUP) {
        ndjson_hex(json, STR("from_cluster"), facts->cluster_id);
        ndjson_u64(json, STR("created_unix_ms"), facts->created_ms);
    }
    ndjson_open_array(json, STR("sections"));
    for (size_t i = 0; i < facts->section_count; i++) {
        const struct archive_section *section = &facts->sections[i];
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("name"), section->name);
        ndjson_u64(json, STR("bytes"), section->bytes);
        ndjson_hex(json, STR("hash"), section->hash);
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

static enum err restored_json(const struct restore_request *wish, const struct archive_facts *facts,
                              const struct datadir *made, struct buf *out)
{
    struct ndjson json;

    ndjson_begin(&json, out, NDJSON_LINE);
    ndjson_c_string(&json, STR("result"), "restored");
    ndjson_c_string(&json, STR("data_dir"), wish->to.dir);
    ndjson_c_string(&json, STR("name"), wish->name);
    ndjson_c_string(&json, STR("raft_address"), wish->to.address);
    ndjson_hex(&json, STR("replica"), made->replica_id);
    ndjson_hex(&json, STR("cluster"), made->cluster_id);
    put_facts(&json, facts);
    return ndjson_end(&json);
}

/* -- text -- */

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

/* Warns if the clock is so early that a restore may repeat old numbers (base/recovery.h). */
static enum err say_clock(const struct archive_facts *facts, uint64_t wall_ms, struct buf *out)
{
    uint64_t created_ms = facts->created_ms;

    if (created_ms <= wall_ms) return ERR_OK;
    return buf_appendf(out,
                       "warning: the clock of this machine is %" PRIu64
                       " s behind the backup; set it right before this backup is restored again\n",
                       (created_ms - wall_ms) / 1000);
}

static enum err say_restored(const struct restore_request *wish, const struct archive_facts *facts,
                             struct buf *out)
{
    enum err err = buf_appendf(
        out, "restored snapshot index=%" PRIu64 " term=%" PRIu64 " into %s as single-voter %s\n",
        facts->index, facts->term, wish->to.dir, wish->name);

    if (!err)
        err = buf_append_c(out, "start this replica first; empty the data directories of all "
                                "others, so that they join it anew\n");
    if (!err) err = say_clock(facts, wish->to.wall_ms, out);
    return err ? err : say_gaps(facts, out);
}

static enum err say_verified(const char *path, const struct archive_facts *facts, struct buf *out)
{
    enum err err = buf_appendf(out, "verified %s index=%" PRIu64 " term=%" PRIu64 " in %s\n",
                               archive_kind_word(facts->kind), facts->index, facts->term, path);

    for (size_t i = 0; !err && i < facts->section_count; i++) {
        const struct archive_section *section = &facts->sections[i];
        err = buf_appendf(out, "section %s: %" PRIu64 " bytes, hash %016" PRIx64 "\n",
                          section->name, section->bytes, section->hash);
    }
    if (!err) err = say_counts("holds: ", &facts->rows, "\n", out);
    return err ? err : say_gaps(facts, out);
}

/* -- restore and verify -- */

/* A damaged archive is ERR_CORRUPT, because ERR_INVALID would blame the command line. */
static enum err open_archive(struct fs *fs, const char *path, const struct state_machine *more,
                             struct archive **ret_archive, struct note *note)
{
    enum err err = archive_open(fs, path, more, ret_archive, note);

    return err == ERR_PARSE || err == ERR_INVALID || err == ERR_TOO_LARGE ? ERR_CORRUPT : err;
}

static enum err may_replace(const struct restore_request *wish, struct note *note)
{
    struct datadir known;
    struct note own = {""};
    enum err err = datadir_read(wish->to.fs, wish->to.dir, &known, &own);

    /* An empty directory or an incomplete restore may be replaced. Other data may be in use. */
    if (wish->replaces || err == ERR_NOT_READY) return ERR_OK;
    if (err == ERR_NOT_FOUND) { /* a log without FORMAT may be the last copy */
        err = datadir_must_be_free(wish->to.fs, wish->to.dir, &own);
        return err ? note_fail(note, err, "%s; say --yes to remove it", own.text) : ERR_OK;
    }
    return note_fail(
        note, ERR_EXISTS,
        "%s holds the data of a replica, which a restore removes; say --yes if that is what "
        "you want",
        wish->to.dir);
}

enum err archive_tool_restore(const struct restore_request *wish, const struct state_machine *more,
                              struct buf *out, struct note *note)
{
    const struct archive_facts *facts;
    struct archive *archive;
    struct datadir made;
    enum err err = open_archive(wish->to.fs, wish->archive, more, &archive, note);

    if (err) return err;
    facts = archive_facts(archive);
    for (size_t i = 0; wish->warn && i < facts->lacks_count; i++) wish->warn(facts->lacks[i]);
    err = may_replace(wish, note);
    if (!err) err = archive_restore(archive, &wish->to, &made, note);
    if (!err)
        err = wish->json ? restored_json(wish, facts, &made, out) : say_restored(wish, facts, out);
    archive_close(archive);
    return err;
}

enum err archive_tool_verify(struct fs *fs, const char *path, bool as_json,
                             const struct state_machine *more, struct buf *out, struct note *note)
{
    struct archive *archive;
    struct ndjson json;
    enum err err = open_archive(fs, path, more, &archive, note);

    if (err) return err;
    if (as_json) {
        ndjson_begin(&json, out, NDJSON_LINE);
        ndjson_c_string(&json, STR("result"), "verified");
        put_facts(&json, archive_facts(archive));
        err = ndjson_end(&json);
    } else {
        err = say_verified(path, archive_facts(archive), out);
    }
    archive_close(archive);
    return err;
}
