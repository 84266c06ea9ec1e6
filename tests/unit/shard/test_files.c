/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a shard: its epoch (wire.md F5, F6), its domains, and pools without stock. */
#include <stdio.h>
#include <string.h>

#include "lib/fault_fs.h"
#include "lib/test.h"
#include "shard/domains.h"
#include "shard/epoch.h"
#include "shard/pools_file.h"
#include "sim/sim_fs.h"

static struct sim_fs *disk;
static struct fs *fs;
static uint64_t unique;

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

static void put(const char *path, const char *text)
{
    CHECK_OK(path, fs_publish(fs, path, str_from(text), 0600, ++unique));
}

static struct note note;

static enum err next(uint64_t *ret_epoch)
{
    note.text[0] = '\0';
    return epoch_next(fs, "d", ++unique, ret_epoch, &note);
}

TEST(f5_every_start_counts)
{
    uint64_t epoch = 0;

    open_disk();
    for (uint64_t want = 1; want <= 5; want++) {
        CHECK_OK(note.text, next(&epoch));
        CHECK_U64("counts", epoch, want);
        sim_fs_crash(disk);
    }
    sim_fs_close(disk);
}

TEST(f6_what_is_no_number_is_fatal)
{
    static const char *const bad[] = {"not-a-number", "", " \n", "-1", "1 2", "0x10", "1e3"};
    struct fs_info info;
    uint64_t epoch = 77;

    open_disk();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put("d/epoch", bad[i]);
        CHECK_ERR(bad[i], next(&epoch), ERR_PARSE);
        CHECK_HAS("names the file", note.text, "d/epoch");
    }
    put("d/epoch", "9223372036854775807");
    CHECK_ERR("the last there is", next(&epoch), ERR_TOO_LARGE);
    put("d/epoch", "99999999999999999999");
    CHECK_ERR("past it", next(&epoch), ERR_TOO_LARGE);
    CHECK_U64("nothing was answered", epoch, 77);
    put("d/epoch", " \t41\r\n\n");
    CHECK_OK(note.text, next(&epoch));
    CHECK_U64("blanks around it are fine", epoch, 42);
    CHECK_OK("there", fs_stat(fs, "d/epoch", &info));
    CHECK_U64("nobody else's", info.mode & 0777, 0600);
    sim_fs_close(disk);
}

static enum err raise_to(uint64_t at_least)
{
    note.text[0] = '\0';
    return epoch_set(fs, "d", at_least, ++unique, &note);
}

TEST(an_epoch_that_went_back_is_refused)
{
    uint64_t epoch = 0;

    open_disk();
    put("d/epoch", "40");
    CHECK_OK(note.text, next(&epoch));
    put("d/epoch", "4");
    CHECK_ERR("an older copy", next(&epoch), ERR_PRECONDITION);
    CHECK_HAS("both numbers", note.text, "d/epoch went back from 41 to 4");
    CHECK_HAS("what to do", note.text, "set-epoch --data-dir d 41");
    CHECK_OK("removed", fs_remove(fs, "d/epoch"));
    CHECK_ERR("none at all", next(&epoch), ERR_PRECONDITION);
    CHECK_OK("the remedy", raise_to(41));
    CHECK_OK(note.text, next(&epoch));
    CHECK_U64("goes on above it", epoch, 42);
    sim_fs_close(disk);
}

TEST(an_epoch_is_set_higher_and_never_lower)
{
    uint64_t epoch = 0;

    open_disk();
    CHECK_OK("no file: its directory was lost", raise_to(41));
    sim_fs_crash(disk);
    CHECK_OK(note.text, next(&epoch));
    CHECK_U64("above what was named, over a power cut", epoch, 42);
    CHECK_ERR("lower", raise_to(41), ERR_PRECONDITION);
    CHECK_HAS("names both", note.text, "d/epoch holds 42, which is above 41");
    CHECK_OK("the same", raise_to(42));
    CHECK_OK("higher", raise_to(1000));
    CHECK_OK(note.text, next(&epoch));
    CHECK_U64("counts on", epoch, 1001);
    CHECK_ERR("no room to count", raise_to(INT64_MAX - 1), ERR_INVALID);
    CHECK_ERR("past the wire", raise_to(UINT64_MAX), ERR_INVALID);
    put("d/epoch", "not-a-number");
    CHECK_ERR("not over a file that says nothing", raise_to(5000), ERR_PARSE);
    sim_fs_close(disk);
}

static struct domains *open_set(void)
{
    struct domains *set = NULL;

    CHECK_OK(note.text, domains_open(fs, "d", &set, &note));
    return set;
}

static enum err set_one(struct domains *set, const char *key, const char *value, bool there)
{
    note.text[0] = '\0';
    return domains_set(set, str_from(key), str_from(value), there, ++unique, &note);
}

static const char *listed(const struct domains *set)
{
    static char text[256];
    size_t count, len = 0;
    const struct label *each = domains_list(set, &count);

    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s=%.*s ", STR_ARG(each[i].key),
                                STR_ARG(each[i].value));
    return text;
}

TEST(domains_outlive_the_process_and_the_power)
{
    struct domains *set;

    open_disk();
    set = open_set();
    CHECK_TEXT("none at first", listed(set), "");
    CHECK_OK(note.text, set_one(set, "zone", "b", true));
    CHECK_OK(note.text, set_one(set, "rack", "r-2", true));
    CHECK_OK(note.text, set_one(set, "rack", "r-1", true));
    CHECK_OK("twice is once", set_one(set, "rack", "r-1", true));
    CHECK_OK("what is not there goes", set_one(set, "rack", "r-9", false));
    CHECK_OK(note.text, set_one(set, "rack", "r-2", false));
    domains_close(set);
    sim_fs_crash(disk);
    set = open_set();
    CHECK_TEXT("kept, in order", listed(set), "rack=r-1 zone=b ");
    domains_close(set);
    sim_fs_close(disk);
}

TEST(no_domain_ever_and_no_domain_left_are_two_things)
{
    struct domains *set;

    open_disk();
    set = open_set();
    CHECK("never given one: everything", !domains_given(set));
    CHECK_ERR("nothing to take away", set_one(set, "zone", "b", false), ERR_PRECONDITION);
    CHECK_HAS("says why", note.text, "everything");
    CHECK("and none was given by that", !domains_given(set));
    CHECK_OK(note.text, set_one(set, "zone", "b", true));
    CHECK_OK("the last one goes", set_one(set, "zone", "b", false));
    CHECK("none is left", domains_given(set) && !*listed(set));
    domains_close(set);
    sim_fs_crash(disk);
    set = open_set();
    CHECK("after a restart, too", domains_given(set) && !*listed(set));
    CHECK_OK("what is not there goes", set_one(set, "zone", "b", false));
    domains_close(set);
    sim_fs_close(disk);
}

/* A restart reads what is visible, so that is what counts. */
TEST(what_may_or_may_not_be_on_disk_counts)
{
    struct fault_fs fault;
    struct domains *set;

    open_disk();
    fault_fs_init(&fault, fs);
    fs = fault_fs_fs(&fault);
    set = open_set();
    fault_fs_arm(&fault, (struct fault_fs_plan){FAULT_FS_SYNC_DIR, .nth = 1, .err = ERR_IO});
    CHECK_ERR("nobody knows", set_one(set, "rack", "r-1", true), ERR_UNKNOWN);
    CHECK_TEXT("it counts", listed(set), "rack=r-1 ");
    fault_fs_arm(&fault, (struct fault_fs_plan){FAULT_FS_SYNC_DIR, .nth = 1, .err = ERR_IO});
    CHECK_ERR("nobody knows", set_one(set, "rack", "r-1", false), ERR_UNKNOWN);
    CHECK_TEXT("it does not count", listed(set), "");
    domains_close(set);
    set = open_set();
    CHECK("as a restart reads it", domains_given(set) && !*listed(set));
    domains_close(set);
    sim_fs_close(disk);
}

/* ERR_OK is what the coordinator gives the domain to another shard for. */
TEST(what_may_or_may_not_be_on_disk_is_written_again)
{
    struct fault_fs fault;
    struct domains *set;

    open_disk();
    fault_fs_init(&fault, fs);
    fs = fault_fs_fs(&fault);
    set = open_set();
    CHECK_OK(note.text, set_one(set, "rack", "r-1", true));
    for (int i = 0; i < 2; i++) {
        fault_fs_arm(&fault, (struct fault_fs_plan){FAULT_FS_SYNC_DIR, .nth = 1, .err = ERR_IO});
        CHECK_ERR("nobody knows", set_one(set, "rack", "r-1", false), ERR_UNKNOWN);
    }
    fault_fs_disarm(&fault);
    CHECK_OK("written again", set_one(set, "rack", "r-1", false));
    domains_close(set);
    sim_fs_crash(disk);
    set = open_set();
    CHECK_TEXT("the power does not bring it back", listed(set), "");
    domains_close(set);
    sim_fs_close(disk);
}

TEST(a_disk_that_refuses_changes_nothing)
{
    struct domains *set;

    open_disk();
    set = open_set();
    CHECK_OK(note.text, set_one(set, "rack", "r-1", true));
    CHECK_OK("full", sim_fs_set_options(disk, &(struct sim_fs_options){.capacity = 1}));
    CHECK_ERR("add", set_one(set, "rack", "r-2", true), ERR_NO_SPACE);
    CHECK_TEXT("as it was", listed(set), "rack=r-1 ");
    CHECK_ERR("take away", set_one(set, "rack", "r-1", false), ERR_NO_SPACE);
    CHECK_TEXT("as it was", listed(set), "rack=r-1 ");
    domains_close(set);
    sim_fs_close(disk);
}

TEST(bad_domains_are_refused_with_their_place)
{
    static const char *const bad[][2] = {
        {"nothing of ours", "first line"},
        {"muster shard domains 1\nrack r-1\n", "line 2: no tab"},
        {"muster shard domains 1\nrack\tr-1\n\tx\n", "line 3: topology_key"},
        {"muster shard domains 1\nrack\tr-1", "cut short"},
    };
    struct domains *set = NULL;

    open_disk();
    set = open_set();
    CHECK_ERR("no key", set_one(set, "", "v", true), ERR_INVALID);
    CHECK_ERR("a tab", set_one(set, "a\tb", "v", true), ERR_INVALID);
    domains_close(set);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put("d/domains", bad[i][0]);
        set = NULL;
        CHECK_ERR(bad[i][1], domains_open(fs, "d", &set, &note), ERR_PARSE);
        CHECK_HAS("says where", note.text, bad[i][1]);
    }
    sim_fs_close(disk);
}

/* --- capacity pools without stock --- */

#define POOLS_HEAD "muster shard sold-out pools 1\n"

static void pools_give(const char *text, const char *want)
{
    struct core_options options = {.machines_max = 10};
    struct arena arena;
    struct core *core;
    struct buf out;

    arena_init(&arena, 1 << 20);
    buf_init(&out, POOLS_FILE_MAX);
    CHECK_OK("core", core_open(&options, &core));
    pools_file_read(core, str_from(text), (mono_time){50000}, (wall_time){1000000});
    CHECK_OK("write",
             pools_file_write(core, (mono_time){50000}, (wall_time){1000000}, &arena, &out));
    CHECK_STR(text, buf_peek(&out), str_from(want));
    buf_deinit(&out);
    core_close(core);
    arena_deinit(&arena);
}

TEST(pools_are_a_hint_and_lines_that_cannot_be_read_are_ignored)
{
    const char two[] = POOLS_HEAD "3\t1090000\t4\tm5.large\teu-1a\n1\t1000000\t3\t\teu-1b\n";

    pools_give(two, two);
    pools_give("", POOLS_HEAD);
    pools_give("another file\n1\t2\t3\ta\tb\n", POOLS_HEAD);
    pools_give(POOLS_HEAD "x\n1\t2\n-1\t2\t3\ta\tb\n1\t2\t99\ta\tb\n1\t1000001\t4\ta\tb\n1\t2",
               POOLS_HEAD "1\t1000001\t4\ta\tb\n");
    /* A pause that ended long ago is over now; one that is too long ends within --rest-most. */
    pools_give(POOLS_HEAD "1\t5\t4\ta\tb\n1\t99999999999\t4\tc\td\n",
               POOLS_HEAD "1\t1000000\t4\ta\tb\n1\t4600000\t4\tc\td\n");
}
