/* SPDX-License-Identifier: Apache-2.0 */
/* The file of cordons: over power cuts, bad disks and bad bytes. */
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "lib/fault_fs.h"
#include "lib/test.h"
#include "shard/cordon_file.h"
#include "sim/sim_fs.h"

static struct sim_fs *disk;
static struct fs *fs;
static uint64_t unique;
static struct note note;

static void open_disk(void)
{
    struct prng prng;

    prng_seed(&prng, 5); /* what was not synced is gone after a power cut */
    CHECK_OK("disk", sim_fs_open(&(struct sim_fs_options){.write_lost_per_million = 1000000,
                                                          .name_lost_per_million = 1000000},
                                 &prng, &disk));
    fs = sim_fs_fs(disk);
    CHECK_OK("dir", fs_make_dirs(fs, "d", 0700));
    unique = 0;
}

static struct cordon_file *open_file(void)
{
    struct cordon_file *file = NULL;

    CHECK_OK(note.text, cordon_file_open(fs, "d", &file, &note));
    return file;
}

static enum err set(struct cordon_file *file, const char *key, const char *value,
                    enum machine_cordon cordon)
{
    const struct cordon_entry entry = {.key = str_from(key),
                                       .value = str_from(value),
                                       .cordon = cordon,
                                       .at_ms = 7,
                                       .by = STR("bigfleet://admin"),
                                       .reason = STR("a ticket")};

    note.text[0] = '\0';
    return cordon_file_set(file, &entry, ++unique, &note);
}

static const char *listed(const struct cordon_file *file)
{
    static char text[256];
    size_t count, used = 0;
    const struct cordon_entry *each = cordon_file_list(file, &count);

    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %.*s=%.*s ",
                                 machine_cordon_name(each[i].cordon), STR_ARG(each[i].key),
                                 STR_ARG(each[i].value));
    return text;
}

TEST(orders_outlive_the_process_and_the_power)
{
    const struct cordon_entry *each;
    struct cordon_file *file;
    size_t count;

    open_disk();
    file = open_file();
    CHECK_TEXT("none at first", listed(file), "");
    CHECK_OK(note.text, set(file, "zone", "z", CORDON_EMPTY));
    CHECK_OK(note.text, set(file, "", "m-2", CORDON_KEEP));
    CHECK_OK(note.text, set(file, "", "m-1", CORDON_KEEP));
    CHECK_OK("replaced", set(file, "", "m-1", CORDON_EMPTY));
    CHECK_OK("gone", set(file, "", "m-2", CORDON_NONE));
    CHECK_ERR("is not there", set(file, "", "m-2", CORDON_NONE), ERR_NOT_FOUND);
    CHECK_HAS("says where to look", note.text, "musterctl machine cordons");
    cordon_file_close(file);
    sim_fs_crash(disk);
    file = open_file();
    CHECK_TEXT("kept, in order", listed(file), "drain =m-1 drain zone=z ");
    each = cordon_file_list(file, &count);
    CHECK_STR("by whom", each[0].by, STR("bigfleet://admin"));
    CHECK_STR("why", each[0].reason, STR("a ticket"));
    CHECK_U64("when", each[0].at_ms, 7);
    cordon_file_close(file);
    sim_fs_close(disk);
}

TEST(bad_texts_and_too_many_are_refused)
{
    struct cordon_file *file;
    char id[16];

    open_disk();
    file = open_file();
    CHECK_ERR("a tab", set(file, "", "m\t1", CORDON_KEEP), ERR_INVALID);
    CHECK_ERR("no machine", set(file, "", "", CORDON_KEEP), ERR_INVALID);
    CHECK_ERR("a line break", set(file, "zo\nne", "z", CORDON_KEEP), ERR_INVALID);
    CHECK_TEXT("nothing changed", listed(file), "");
    cordon_file_close(file);

    struct buf text;
    buf_init(&text, 1 << 20);
    CHECK_OK("first", buf_append_c(&text, "muster shard cordons 1\n"));
    for (int i = 0; i < CORDONS_MAX; i++)
        CHECK_OK("line", buf_appendf(&text, "cordon\t\tm-%d\t1\t\t\n", i));
    CHECK_OK("sum", buf_appendf(&text, "crc32c %08x\n", crc32c(0, text.data, text.len)));
    CHECK_OK("put", fs_publish(fs, "d/cordons", buf_peek(&text), 0600, ++unique));
    buf_deinit(&text);
    file = open_file();
    (void)snprintf(id, sizeof id, "m-%d", CORDONS_MAX);
    CHECK_ERR("one more", set(file, "", id, CORDON_KEEP), ERR_FULL);
    CHECK_HAS("says the bound", note.text, "at most 10000 cordons");
    CHECK_OK("a known one", set(file, "", "m-7", CORDON_EMPTY));
    CHECK_OK("fewer", set(file, "", "m-8", CORDON_NONE));
    CHECK_OK("then one more", set(file, "", id, CORDON_KEEP));
    cordon_file_close(file);
    sim_fs_close(disk);
}

TEST(what_may_or_may_not_be_on_disk_counts_and_is_written_again)
{
    struct cordon_file *file;
    struct fault_fs fault;

    open_disk();
    fault_fs_init(&fault, fs);
    fs = fault_fs_fs(&fault);
    file = open_file();
    CHECK_OK(note.text, set(file, "", "m-1", CORDON_KEEP));
    fault_fs_arm(&fault, (struct fault_fs_plan){FAULT_FS_SYNC_DIR, .nth = 1, .err = ERR_IO});
    CHECK_ERR("removed, perhaps", set(file, "", "m-1", CORDON_NONE), ERR_UNKNOWN);
    CHECK_TEXT("it counts", listed(file), "");
    fault_fs_disarm(&fault);
    CHECK_OK("the repeat writes again", set(file, "", "m-1", CORDON_NONE));
    CHECK_ERR("then it is gone", set(file, "", "m-1", CORDON_NONE), ERR_NOT_FOUND);
    cordon_file_close(file);
    sim_fs_crash(disk);
    file = open_file();
    CHECK_TEXT("for good", listed(file), "");
    for (uint64_t nth = 1; nth <= 3; nth++) {
        fault_fs_arm(&fault,
                     (struct fault_fs_plan){FAULT_FS_WRITE | FAULT_FS_SYNC | FAULT_FS_RENAME,
                                            .nth = nth, .err = ERR_IO});
        CHECK_ERR("a disk that refuses", set(file, "", "m-2", CORDON_KEEP), ERR_IO);
        CHECK_TEXT("changes nothing", listed(file), "");
    }
    fault_fs_disarm(&fault);
    cordon_file_close(file);
    sim_fs_close(disk);
}

TEST(bad_files_stop_the_start_with_their_place)
{
    static const char sound[] = "muster shard cordons 1\ncordon\t\tm-1\t1\tme\twhy\n";
    static const struct {
        const char *text, *says;
        bool sum;
    } cases[] = {
        {"", "its first line is not ours", false},
        {"muster shard cordons 2\n", "its first line is not ours", true},
        {sound, "its checksum is wrong", false},
        {"muster shard cordons 1\ncordon\t\tm-1\n", "line 2: is no cordon", true},
        {"muster shard cordons 1\nhold\t\tm-1\t1\t\t\n", "line 2: is no cordon", true},
        {"muster shard cordons 1\ncordon\t\tm-1\tx\t\t\n", "line 2: is no cordon", true},
        {"muster shard cordons 1\ncordon\t\t\t1\t\t\n", "line 2: machine", true},
    };

    open_disk();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cordon_file *file = NULL;
        char text[256];
        int len = snprintf(text, sizeof text, "%s", cases[i].text);

        if (cases[i].sum)
            (void)snprintf(text + len, sizeof text - (size_t)len, "crc32c %08x\n",
                           crc32c(0, text, (size_t)len));
        else
            (void)snprintf(text + len, sizeof text - (size_t)len, "crc32c 00000000\n");
        CHECK_OK("put", fs_publish(fs, "d/cordons", str_from(text), 0600, ++unique));
        CHECK(cases[i].says, cordon_file_open(fs, "d", &file, &note) != ERR_OK);
        CHECK_HAS("names the file", note.text, "d/cordons");
        CHECK_HAS("and what is wrong", note.text, cases[i].says);
    }
    sim_fs_close(disk);
}
