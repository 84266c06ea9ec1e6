/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile shard_metadata: for any input the parsed part is valid, is written again, and
 * reads back to the same bytes without an error.
 *
 * Input: entries ended by 0x1E, key and value parted by 0x1F. */
#include <stdlib.h>

#include "model/metadata.h"
#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct label pairs[METADATA_READ_MAX + 8];
    struct label first[METADATA_MAX], second[METADATA_MAX];
    struct machine_metadata m = {0}, again = {0};
    struct str rest = str_of(data, size), entry;
    struct note note = {"before"};
    struct arena arena;
    size_t count = 0, first_count, second_count;
    enum err err;

    while (count < ARRAY_LEN(pairs) && str_split(&rest, '\x1E', &entry)) {
        size_t at = str_find(entry, '\x1F');
        pairs[count++] = (struct label){str_of(entry.at, at), str_tail(entry, at + 1)};
    }
    err = metadata_decode(pairs, count, &m, &note);
    must((err != ERR_OK) == (note.text[0] != '\0'));
    must(m.stamp.interruption_dollars >= 0 && m.stamp.reclamation_dollars >= 0);
    must(m.stamp.fingerprint.len <= FINGERPRINT_MAX && m.stamp.group.len <= GROUP_MAX);
    arena_init(&arena, 1 << 16);
    must(metadata_encode(&arena, &m, first, &first_count) == ERR_OK);
    must(metadata_decode(first, first_count, &again, &note) == ERR_OK);
    must(metadata_encode(&arena, &again, second, &second_count) == ERR_OK);
    must(first_count == second_count);
    for (size_t i = 0; i < first_count; i++)
        must(str_equal(first[i].key, second[i].key) && str_equal(first[i].value, second[i].value));
    arena_deinit(&arena);
    return 0;
}
