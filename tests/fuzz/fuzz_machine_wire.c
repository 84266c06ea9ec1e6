/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile provider: its records, acks and Lists. An accepted record equals the reading of
 * its own encoding; a List has the same content for every cut.
 *
 * Input: a byte that chooses (0: Machine, 1: TransitionAck, else: MachineList, cut into pieces of
 * that many bytes), then the bytes. */
#include <stdlib.h>

#include "lib/machine_write.h"
#include "provider/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

struct reported {
    const struct dimensions *dimensions;
    struct machine_reader *second; /* the first is reading */
    uint64_t machines, refused, removed;
    uint32_t sum; /* over all ids, in order */
};

static void add(struct reported *reported, struct str id)
{
    for (size_t i = 0; i < id.len; i++)
        reported->sum = reported->sum * 31 + (unsigned char)id.at[i];
}

static enum err check_record(struct reported *reported, const struct machine_record *record)
{
    struct machine_record again;
    struct buf bytes;

    must(record->machine.state < MACHINE_STATE_COUNT);
    must(record->metadata_count <= 256);
    buf_init(&bytes, 16 << 20);
    must(machine_write(reported->dimensions, record, &bytes) == ERR_OK);
    must(machine_read(reported->second, buf_peek(&bytes), &again, NULL) == ERR_OK);
    must(str_equal(again.machine.id, record->machine.id));
    must(again.machine.state == record->machine.state);
    must(resources_equal(&again.machine.resources, &record->machine.resources));
    must(again.machine.attributes.label_count == record->machine.attributes.label_count);
    must(again.metadata_count == record->metadata_count);
    buf_deinit(&bytes);
    return ERR_OK;
}

static enum err on_machine(void *context, const struct machine_record *record)
{
    struct reported *reported = context;

    reported->machines++;
    add(reported, record->machine.id);
    return check_record(reported, record);
}

static void on_refused(void *context, struct str id, const char *why)
{
    struct reported *reported = context;

    reported->refused++;
    must(why[0] != '\0');
    add(reported, id);
}

static void on_removed(void *context, struct str id)
{
    struct reported *reported = context;

    reported->removed++;
    add(reported, id);
}

static enum err walk(struct machine_reader *reader, struct reported *reported, struct str bytes,
                     size_t piece)
{
    static const struct provider_list_events events = {on_machine, on_refused, on_removed};
    struct provider_list_end end;
    struct provider_list *list;
    enum err err = ERR_OK;

    must(provider_list_open(reader, &events, reported, &list) == ERR_OK);
    while (!err && bytes.len > 0) {
        err = provider_list_feed(list, str_of(bytes.at, min_size(bytes.len, piece)), NULL);
        bytes = str_tail(bytes, piece);
    }
    if (!err) err = provider_list_finish(list, &end, NULL);
    if (!err) must(end.machines == reported->machines && end.removed >= reported->removed);
    provider_list_close(list);
    return err;
}

static void walk_twice(struct machine_reader *reader, struct reported *reported, struct str bytes,
                       size_t piece)
{
    struct reported whole = *reported;
    enum err err = walk(reader, reported, bytes, piece);

    must(walk(reader, &whole, bytes, bytes.len + 1) == err);
    must(whole.sum == reported->sum && whole.machines == reported->machines);
    must(whole.refused == reported->refused && whole.removed == reported->removed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct machine_record record;
    struct str operation, bytes = str_of(data + 1, size - 1);
    struct reported reported = {.dimensions = &dimensions};

    if (size < 1) return 0;
    dimensions_init(&dimensions);
    must(machine_reader_open(&dimensions, &reader) == ERR_OK);
    must(machine_reader_open(&dimensions, &reported.second) == ERR_OK);
    if (data[0] == 0) {
        if (machine_read(reader, bytes, &record, NULL) == ERR_OK) check_record(&reported, &record);
        (void)machine_read_id(bytes);
    } else if (data[0] == 1) {
        if (machine_read_ack(reader, bytes, &operation, &record, NULL) == ERR_OK)
            check_record(&reported, &record);
    } else {
        walk_twice(reader, &reported, bytes, data[0]);
    }
    machine_reader_close(reported.second);
    machine_reader_close(reader);
    dimensions_deinit(&dimensions);
    return 0;
}
