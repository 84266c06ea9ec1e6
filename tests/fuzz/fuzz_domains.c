/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a shard's file of domains.
 *
 * Invariants: it is refused with a note, or its domains are valid, in order and unique; the written
 * file reads back as the same; and any existing file means that the shard was assigned a domain
 * once. */
#include <stdlib.h>
#include <string.h>

#include "shard/domains.h"
#include "sim/sim_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static struct domains *open_set(struct fs *fs)
{
    struct note note = {""};
    struct domains *set = NULL;
    enum err err = domains_open(fs, "d", &set, &note);

    must(err ? !set && note.text[0] : set && domains_given(set));
    return set;
}

static void check_order(const struct domains *set)
{
    size_t count;
    const struct label *each = domains_list(set, &count);

    must(count <= DOMAINS_MAX);
    for (size_t i = 0; i < count; i++) {
        int by_key = i ? str_compare(each[i - 1].key, each[i].key) : -1;

        must(!id_check("key", each[i].key, LABEL_KEY_MAX, NULL));
        must(!id_check("value", each[i].value, LABEL_VALUE_MAX, NULL));
        must(by_key < 0 || (by_key == 0 && str_compare(each[i - 1].value, each[i].value) < 0));
    }
}

static bool same(const struct domains *a, const struct domains *b)
{
    size_t count, other;
    const struct label *x = domains_list(a, &count), *y = domains_list(b, &other);

    if (count != other) return false;
    for (size_t i = 0; i < count; i++)
        if (!str_equal(x[i].key, y[i].key) || !str_equal(x[i].value, y[i].value)) return false;
    return true;
}

/* Writes the file with one more domain, and removes that domain again. */
static void write_back(struct fs *fs, struct domains *set)
{
    struct note note = {""};
    struct domains *again;
    size_t before, after;

    (void)domains_list(set, &before);
    if (domains_set(set, STR("fuzz"), STR("one more"), true, 1, &note)) return; /* it is full */
    again = open_set(fs);
    must(again && same(set, again));
    domains_close(again);
    (void)domains_list(set, &after);
    must(!domains_set(set, STR("fuzz"), STR("one more"), false, 2, &note));
    again = open_set(fs);
    must(again && same(set, again));
    domains_close(again);
    must(after == before || after == before + 1); /* it may have been there */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_fs *disk;
    struct prng prng;
    struct domains *set;
    struct fs *fs;

    prng_seed(&prng, 1);
    if (sim_fs_open(&(struct sim_fs_options){0}, &prng, &disk)) return 0;
    fs = sim_fs_fs(disk);
    must(!fs_make_dirs(fs, "d", 0700));
    must(!fs_publish(fs, "d/domains", str_of(data, size), 0600, 7));
    set = open_set(fs);
    if (set) {
        check_order(set);
        write_back(fs, set);
        check_order(set);
    }
    domains_close(set);
    sim_fs_close(disk);
    return 0;
}
