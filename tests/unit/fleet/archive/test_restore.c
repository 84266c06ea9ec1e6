/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a fleet, read back and restored: exports, backups, archives of the original. */
#include <stdio.h>
#include <string.h>

#include "archive_rig.h"
#include "fleet/format/tar.h"
#include "fleet/machine.h"
#include "log/snapfile.h"

static const struct sim_fs_options perfect = {0};
struct bed {
    struct sim_fs *disk;
    struct fs *fs;
    struct sample_entropy entropy;
};

static void bed_open(struct bed *bed)
{
    struct prng prng;

    prng_seed(&prng, 1);
    CHECK_OK("a disk", sim_fs_open(&perfect, &prng, &bed->disk));
    bed->fs = sim_fs_fs(bed->disk);
    sample_entropy_init(&bed->entropy, 3);
}

/* Builds a tar of the original's two entries. */
static void put_tar(struct bed *bed, const char *path, struct str meta, struct str state)
{
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    for (int i = 0; i < 2; i++) {
        struct str content = i ? state : meta;
        char block[TAR_BLOCK], zeros[TAR_BLOCK] = {0};
        CHECK_OK("header", tar_header(i ? "state" : "meta.json", content.len, block));
        CHECK_OK("header", buf_append(&bytes, str_of(block, sizeof block)));
        CHECK_OK("content", buf_append(&bytes, content));
        CHECK_OK("padding", buf_append(&bytes, str_of(zeros, tar_padding(content.len))));
    }
    sample_put(bed->fs, path, buf_peek(&bytes));
    buf_deinit(&bytes);
}

#define D3_META STR("{\"ID\":\"2-12-1749700000000\",\"Index\":12,\"Term\":2}")

static enum err restore(struct bed *bed, struct archive *archive, struct datadir *ret,
                        struct note *note)
{
    struct archive_restore_options options = {
        .fs = bed->fs, .entropy = &bed->entropy.base, .dir = "/data", .address = "192.0.2.7:7791"};
    return archive_restore(archive, &options, ret, note);
}

TEST(an_archive_of_the_original_is_opened_as_it_was_saved)
{
    struct bed bed;
    struct archive *archive;
    struct note note = {""};

    bed_open(&bed);
    put_tar(&bed, "/d3.tar", D3_META, STR("{\"shards\":[{\"id\":\"shard-a\"}]}"));
    enum err err = archive_open(bed.fs, "/d3.tar", NULL, &archive, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("opens", err);
    const struct archive_facts *facts = archive_facts(archive);
    CHECK("a snapshot", facts->kind == ARCHIVE_SNAPSHOT);
    CHECK_U64("index", facts->index, 12);
    CHECK_U64("term", facts->term, 2);
    CHECK_U64("one shard", facts->rows.of[FLEET_SHARDS], 1);
    CHECK_U64("lacks the fields that the original does not have", facts->lacks_count, 1);
    CHECK_TEXT("by name", facts->lacks[0], "roster");
    archive_close(archive);
    sim_fs_close(bed.disk);
}

TEST(fields_that_the_original_lacks_are_left_out_and_reported)
{
    struct bed bed;
    struct archive *archive;
    struct note note = {""};

    bed_open(&bed);
    put_tar(&bed, "/old.tar", D3_META,
            STR("{\"shards\":[{\"id\":\"shard-a\",\"address\":\"h:1\"}],"
                "\"cluster_to_shard\":{\"x\":\"shard-a\",\"y\":\"gone\"},"
                "\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},"
                "\"shard\":\"gone\"}],\"quotas\":null,\"providers\":null}"));
    enum err err = archive_open(bed.fs, "/old.tar", NULL, &archive, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("opens", err);
    const struct archive_facts *facts = archive_facts(archive);
    CHECK_U64("a cluster stays", facts->rows.of[FLEET_CLUSTERS], 1);
    CHECK_U64("one is left out", facts->dropped.of[FLEET_CLUSTERS], 1);
    CHECK_U64("and a domain", facts->dropped.of[FLEET_DOMAINS], 1);
    archive_close(archive);
    sim_fs_close(bed.disk);
}

TEST(tables_may_come_before_the_shards_they_need)
{
    struct bed bed;
    struct archive *archive;
    struct note note = {""};

    bed_open(&bed);
    put_tar(&bed, "/sorted.tar", D3_META,
            STR("{\"cluster_to_shard\":{\"x\":\"shard-a\",\"y\":\"gone\"},"
                "\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},"
                "\"shard\":\"shard-a\"}],\"providers\":[{\"Name\":\"p\"}],"
                "\"shards\":[{\"id\":\"shard-a\"}]}"));
    CHECK_OK(note.text, archive_open(bed.fs, "/sorted.tar", NULL, &archive, &note));
    const struct archive_facts *facts = archive_facts(archive);
    CHECK_U64("a cluster", facts->rows.of[FLEET_CLUSTERS], 1);
    CHECK_U64("one is left out", facts->dropped.of[FLEET_CLUSTERS], 1);
    CHECK_U64("a domain", facts->rows.of[FLEET_DOMAINS], 1);
    CHECK_U64("once", facts->rows.of[FLEET_PROVIDERS], 1);
    archive_close(archive);
    sim_fs_close(bed.disk);
}

TEST(a_file_that_is_no_archive_is_refused_with_its_name)
{
    static const struct {
        const char *why, *meta, *state, *says;
        enum err want;
    } cases[] = {
        {"index 0", "{\"Index\":0,\"Term\":2}", "{}", "not a valid coordinator snapshot",
         ERR_INVALID},
        {"term 0", "{\"Index\":1}", "{}", "not a valid coordinator snapshot", ERR_INVALID},
        {"meta is no JSON", "meta", "{}", "/bad.tar", ERR_PARSE},
        {"state is no JSON", "{\"Index\":1,\"Term\":2}", "{\"shards\":[}", "state", ERR_PARSE},
        {"state ends early", "{\"Index\":1,\"Term\":2}", "{\"shards\":[", "/bad.tar", ERR_PARSE},
        {"another size", "{\"Index\":1,\"Term\":2,\"Size\":9}", "{}", "meta.json says 9",
         ERR_CORRUPT},
    };
    struct bed bed;
    struct archive *archive;

    bed_open(&bed);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        put_tar(&bed, "/bad.tar", str_from(cases[i].meta), str_from(cases[i].state));
        CHECK_ERR(cases[i].why, archive_open(bed.fs, "/bad.tar", NULL, &archive, &note),
                  cases[i].want);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
        CHECK_HAS(cases[i].why, note.text, "/bad.tar");
    }
    struct note note = {""};
    CHECK_ERR("absent", archive_open(bed.fs, "/none", NULL, &archive, &note), ERR_NOT_FOUND);
    CHECK_HAS("by name", note.text, "/none");
    sample_put(bed.fs, "/text", STR("something else altogether"));
    CHECK_ERR("no tar", archive_open(bed.fs, "/text", NULL, &archive, &note), ERR_PARSE);
    CHECK_HAS("by name", note.text, "/text");
    sim_fs_close(bed.disk);
}

TEST(an_export_and_a_saved_file_have_the_original_content)
{
    static const char *const no_files[] = {"", "/", "/out/", ".", "/out/.."};
    struct bed bed;
    struct note note = {""};

    bed_open(&bed);
    CHECK_OK("export", export_dir_open(bed.fs, "/out/exports", &note));
    CHECK_OK("export", sample_export(bed.fs, "/out/exports", 3, &note));
    CHECK_U64("latest", sample_index_of(bed.fs, "/out/exports/latest", &note), 3);
    CHECK_U64("by its name",
              sample_index_of(bed.fs, "/out/exports/20261115-174003-2-3-1794764400003", &note), 3);
    CHECK_OK("export", sample_export(bed.fs, "/out/exports", 4, &note));
    CHECK_U64("latest", sample_index_of(bed.fs, "/out/exports/latest", &note), 4);
    CHECK_OK("save", sample_save(bed.fs, "/out/s.tar", SAVE_SNAPSHOT, 5, &note));
    CHECK_U64("saved", sample_index_of(bed.fs, "/out/s.tar", &note), 5);
    CHECK_OK("again", sample_save(bed.fs, "/out/s.tar", SAVE_SNAPSHOT, 6, &note));
    CHECK_U64("replaced", sample_index_of(bed.fs, "/out/s.tar", &note), 6);
    CHECK_OK("backup", sample_save(bed.fs, "/out/b.muster", SAVE_BACKUP, 7, &note));
    CHECK_U64("saved", sample_index_of(bed.fs, "/out/b.muster", &note), 7);
    CHECK_ERR("a directory", sample_save(bed.fs, "/out", SAVE_BACKUP, 8, &note), ERR_EXISTS);
    for (size_t i = 0; i < ARRAY_LEN(no_files); i++) {
        CHECK_ERR(no_files[i], sample_save(bed.fs, no_files[i], SAVE_BACKUP, 8, &note),
                  ERR_INVALID);
        CHECK_HAS(no_files[i], note.text, "not the name of a file");
    }
    sim_fs_close(bed.disk);
}

static void count_name(void *context, const char *name, enum fs_kind kind)
{
    size_t *counts = context;
    counts[kind]++;
    if (name[0] == '.') counts[3]++;
}

TEST(exports_are_pruned_by_count_and_nothing_else_is_touched)
{
    struct bed bed;
    struct note note = {""};
    size_t counts[4] = {0};
    uint32_t removed = 0;
    struct fs_info info;

    bed_open(&bed);
    CHECK_OK("open", export_dir_open(bed.fs, "/x", &note));
    CHECK_OK("another's", fs_make_dirs(bed.fs, "/x/keep-me", 0755));
    for (uint64_t i = 1; i <= 5; i++) CHECK_OK("export", sample_export(bed.fs, "/x", i, &note));
    CHECK_OK("prune",
             export_prune(bed.fs, "/x", 2, "20261115-174001-2-1-1794764400001", &removed, &note));
    CHECK_U64("all but two", removed, 3);
    CHECK_OK("the one that must stay, though the oldest by name",
             fs_stat(bed.fs, "/x/20261115-174001-2-1-1794764400001/state", &info));
    CHECK_OK("the newest", fs_stat(bed.fs, "/x/20261115-174005-2-5-1794764400005/state", &info));
    CHECK_OK("list", fs_list(bed.fs, "/x", count_name, counts));
    CHECK_U64("two, and another's", counts[FS_DIRECTORY], 3);
    CHECK_U64("no temporaries", counts[3], 0);
    sim_fs_close(bed.disk);
}

TEST(a_damaged_archive_is_refused_wherever_the_damage_is)
{
    struct bed bed;
    struct archive *archive;
    struct buf bytes;

    bed_open(&bed);
    buf_init(&bytes, 1 << 20);
    sample_backup(3, &bytes);
    for (size_t i = 0; i < bytes.len; i += 7) {
        struct note note = {""};
        bytes.data[i] = (char)(bytes.data[i] ^ 0x20);
        sample_put(bed.fs, "/b", buf_peek(&bytes));
        enum err err = archive_open(bed.fs, "/b", NULL, &archive, &note);
        CHECK("refused",
              err == ERR_CORRUPT || (i < 8 && err == ERR_PARSE)); /* then it is no backup */
        CHECK_HAS("file", note.text, "/b");
        if (i >= 8) CHECK_HAS("offset", note.text, "offset ");
        bytes.data[i] = (char)(bytes.data[i] ^ 0x20);
    }
    buf_deinit(&bytes);
    sim_fs_close(bed.disk);
}

/* The hash of the tables with which a replica would start. */
static uint64_t restored_hash(struct bed *bed)
{
    struct fleet_machine_options options = {0};
    struct fleet_machine *fleet;
    struct state_machine machine;
    struct snap_reader *reader;
    struct snap_head head;
    struct buf chunk;
    struct note note = {""};
    uint32_t section = 0;
    uint64_t hash;

    CHECK_OK("fleet", fleet_machine_open(&options, &fleet));
    machine = fleet_machine_registration(fleet);
    CHECK_OK("snapshot", snap_open(bed->fs, "/data/snap/0000000000000009-0000010000000002.snap",
                                   &reader, &head, &note));
    CHECK_OK("begin", machine.ops->restore_begin(machine.state, head.mark.index, &note));
    buf_init(&chunk, SNAP_CHUNK_MAX);
    while (snap_read(reader, &chunk, &section, &note) == ERR_OK && section != UINT32_MAX) {
        CHECK_U64("only the fleet's tables: replicas are not restored", section, FLEET_MACHINE_ID);
        CHECK_ERR(note.text, machine.ops->restore_next(machine.state, buf_peek(&chunk), &note),
                  ERR_OK);
    }
    CHECK_U64("to its end", section, UINT32_MAX);
    CHECK_ERR(note.text, machine.ops->restore_end(machine.state, &note), ERR_OK);
    hash = machine.ops->hash(machine.state);
    buf_deinit(&chunk);
    snap_close(reader);
    fleet_machine_close(fleet);
    return hash;
}

TEST(restored_rows_are_those_that_were_backed_up)
{
    static const char *const paths[] = {"/x/latest", "/s.tar", "/b"};
    struct bed bed;
    struct note note = {""};

    bed_open(&bed);
    CHECK_OK("export", export_dir_open(bed.fs, "/x", &note));
    CHECK_OK("export", sample_export(bed.fs, "/x", 9, &note));
    CHECK_OK("save", sample_save(bed.fs, "/s.tar", SAVE_SNAPSHOT, 9, &note));
    CHECK_OK("backup", sample_save(bed.fs, "/b", SAVE_BACKUP, 9, &note));
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct archive *archive;
        struct datadir made;
        struct buf report;
        CHECK_OK(paths[i], archive_open(bed.fs, paths[i], NULL, &archive, &note));
        CHECK_OK(paths[i], restore(&bed, archive, &made, &note));
        CHECK_OK("and again", restore(&bed, archive, &made, &note));
        archive_close(archive);
        buf_init(&report, 1 << 16);
        CHECK_OK(paths[i], datadir_check(bed.fs, "/data", &report, &note));
        buf_deinit(&report);
        CHECK_U64(paths[i], restored_hash(&bed), sample_hash(9));
        CHECK("another identity", made.replica_id != 5 && made.cluster_id != 0xc1);
    }
    sim_fs_close(bed.disk);
}

TEST(a_backup_that_is_cut_short_is_refused_wherever_it_ends)
{
    struct bed bed;
    struct archive *archive;
    struct buf bytes;

    bed_open(&bed);
    buf_init(&bytes, 1 << 20);
    sample_backup(2, &bytes);
    for (size_t len = SNAP_MAGIC_BYTES; len < bytes.len; len++) {
        struct note note = {""};
        sample_put(bed.fs, "/b", str_of(bytes.data, len));
        CHECK_ERR("refused", archive_open(bed.fs, "/b", NULL, &archive, &note), ERR_CORRUPT);
        CHECK_HAS("offset", note.text, "/b: offset ");
    }
    CHECK_OK("one byte more", buf_append_byte(&bytes, 'x'));
    sample_put(bed.fs, "/b", buf_peek(&bytes));
    CHECK_ERR("is found", archive_open(bed.fs, "/b", NULL, &archive, &(struct note){""}),
              ERR_CORRUPT);
    buf_deinit(&bytes);
    sim_fs_close(bed.disk);
}

TEST(a_backup_of_a_later_release_is_refused_completely)
{
    static const struct {
        const char *why;
        uint32_t level, section;
        const char *says;
    } cases[] = {
        {"a level we do not speak", CLUSTER_LEVEL + 1, FLEET_MACHINE_ID, "cluster level"},
        {"a machine we do not have", 1, 7, "section 7: not known"},
    };
    struct bed bed;

    bed_open(&bed);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct snap_head head = {.mark = {.index = 1, .term = 1}, .level = cases[i].level};
        struct snap_stream stream;
        struct archive *archive;
        struct note note = {""};
        struct buf bytes;
        buf_init(&bytes, 1 << 16);
        CHECK_OK("head", snap_stream_begin(&stream, &head, &bytes));
        CHECK_OK("chunk", snap_stream_chunk(&stream, cases[i].section, STR("{"), &bytes));
        CHECK_OK("end", snap_stream_end(&stream, &bytes));
        sample_put(bed.fs, "/later", buf_peek(&bytes));
        buf_deinit(&bytes);
        CHECK_ERR(cases[i].why, archive_open(bed.fs, "/later", NULL, &archive, &note), ERR_VERSION);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
        CHECK_HAS(cases[i].why, note.text, "/later");
    }
    sim_fs_close(bed.disk);
}
