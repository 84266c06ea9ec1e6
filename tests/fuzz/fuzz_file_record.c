/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of a file store.
 *
 *   byte 0   which: head, lease record, lock record, epoch, floor, group record, FORMAT;
 *            bit 7: the checksum is fixed first, so that the code behind it is reached
 *   then     the file
 *
 * Invariants: the result is one that the header names, nothing is read behind the end, and a record
 * that was read is written again to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "prim/file/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) { abort(); }
}

static void fix_checksum(char *at, size_t len, size_t crc_at, const char *magic)
{
    if (len < crc_at + 4) { return; }
    memcpy(at, magic, 8);
    store_le32(at + crc_at, 0);
    store_le32(at + crc_at, crc32c(0, at, len));
}

static void try_head(char *at, size_t len, bool fixed)
{
    struct head head;
    if (fixed) { fix_checksum(at, len, 156, "CRDHEAD1"); }
    enum err err = head_decode(str_of(at, len), &head);
    must(err == ERR_OK || err == ERR_CORRUPT);
    if (err != ERR_OK) { return; }
    must(head_size(&head) == len && head.revision > 0);
    char *again = malloc(len);
    must(again != NULL);
    head_encode(&head, again);
    must(memcmp(again, at, len) == 0);
    free(again);
}

static void try_small(int which, char *at, size_t len, bool fixed)
{
    char again[FORMAT_CAP];
    struct lease_record lease;
    struct lock_record lock;
    struct epoch_record epoch;
    struct group_value group;
    struct floor_record floor;
    coord_id id;
    switch (which) {
    case 1:
        if (fixed) { fix_checksum(at, len, 124, "CRDLEAS1"); }
        if (record_decode(&lease_shape, str_of(at, len), &lease) != ERR_OK) { return; }
        record_encode(&lease_shape, &lease, again);
        break;
    case 2:
        if (fixed) { fix_checksum(at, len, 60, "CRDLOCK1"); }
        if (record_decode(&lock_shape, str_of(at, len), &lock) != ERR_OK) { return; }
        record_encode(&lock_shape, &lock, again);
        break;
    case 3:
        if (fixed) { fix_checksum(at, len, 60, "CRDEPOC1"); }
        if (record_decode(&epoch_shape, str_of(at, len), &epoch) != ERR_OK) { return; }
        record_encode(&epoch_shape, &epoch, again);
        break;
    case 4:
        if (fixed) { fix_checksum(at, len, 60, "CRDFLOR1"); }
        if (record_decode(&floor_shape, str_of(at, len), &floor) != ERR_OK) { return; }
        record_encode(&floor_shape, &floor, again);
        break;
    case 5:
        if (group_value_decode(str_of(at, len), &group) != ERR_OK) { return; }
        group_value_encode(&group, again);
        break;
    default:
        if (format_decode(str_of(at, len), &id) != ERR_OK) { return; }
        must(format_encode(&id, again) == len);
        break;
    }
    must(memcmp(again, at, len) == 0);
}

static void try_names(char *at, size_t len)
{
    char name[LAYOUT_NAME_CAP], temp_name[LAYOUT_TEMP_CAP];
    struct layout_temp temp;
    coord_id id;
    layout_name(str_of(at, len), name);
    must(name[0] != '\0' && strchr(name, '/') == NULL && name[0] != '.');
    char *text = str_dup(str_of(at, len));
    must(text != NULL);
    (void)layout_lease_id(text, &id);
    if (layout_temp_parse(text, &temp)) { layout_temp(&temp, temp_name); }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) { return 0; }
    size_t len = size - 1;
    char *at = malloc(len > 0 ? len : 1); /* exact size, so that a read behind the end is found */
    must(at != NULL);
    memcpy(at, data + 1, len);
    bool fixed = (data[0] & 0x80) != 0;
    int which = data[0] % 8;
    if (which == 0) {
        try_head(at, len, fixed);
    } else if (which == 7) {
        try_names(at, len);
    } else {
        try_small(which, at, len, fixed);
    }
    free(at);
    return 0;
}
