/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile provider: its records, acks and Lists. What is taken comes back from
 * its own encoding; a List says the same however it is cut.
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

struct told {
    const struct dimensions *dimensions;
    struct machine_reader *second; /* the first is reading */
    uint64_t machines, refused, removed;
    uint32_t sum; /* over all ids, in order */
};

static void add(struct told *told, struct str id)
{
    for (size_t i = 0; i < id.len; i++) told->sum = told->sum * 31 + (unsigned char)id.at[i];
}

static enum err check_record(struct told *told, const struct machine_record *record)
{
    struct machine_record again;
    struct buf bytes;

    must(record->machine.state < MACHINE_STATE_COUNT);
    must(record->metadata_count <= 256);
    buf_init(&bytes, 16 << 20);
    must(machine_write(told->dimensions, record, &bytes) == ERR_OK);
    must(machine_read(told->second, buf_peek(&bytes), &again, NULL) == ERR_OK);
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
    struct told *told = context;

    told->machines++;
    add(told, record->machine.id);
    return check_record(told, record);
}

static void on_refused(void *context, struct str id, const char *why)
{
    struct told *told = context;

    told->refused++;
    must(why[0] != '\0');
    add(told, id);
}

static void on_removed(void *context, struct str id)
{
    struct told *told = context;

    told->removed++;
    add(told, id);
}

static enum err walk(struct machine_reader *reader, struct told *told, struct str bytes,
                     size_t piece)
{
    static const struct provider_list_events events = {on_machine, on_refused, on_removed};
    struct provider_list_end end;
    struct provider_list *list;
    enum err err = ERR_OK;

    must(provider_list_open(reader, &events, told, &list) == ERR_OK);
    while (!err && bytes.len > 0) {
        err = provider_list_feed(list, str_of(bytes.at, min_size(bytes.len, piece)), NULL);
        bytes = str_tail(bytes, piece);
    }
    if (!err) err = provider_list_finish(list, &end, NULL);
    if (!err) must(end.machines == told->machines && end.removed >= told->removed);
    provider_list_close(list);
    return err;
}

static void walk_twice(struct machine_reader *reader, struct told *told, struct str bytes,
                       size_t piece)
{
    struct told whole = *told;
    enum err err = walk(reader, told, bytes, piece);

    must(walk(reader, &whole, bytes, bytes.len + 1) == err);
    must(whole.sum == told->sum && whole.machines == told->machines);
    must(whole.refused == told->refused && whole.removed == told->removed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct machine_record record;
    struct str operation, bytes = str_of(data + 1, size - 1);
    struct told told = {.dimensions = &dimensions};

    if (size < 1) return 0;
    dimensions_init(&dimensions);
    must(machine_reader_open(&dimensions, &reader) == ERR_OK);
    must(machine_reader_open(&dimensions, &told.second) == ERR_OK);
    if (data[0] == 0) {
        if (machine_read(reader, bytes, &record, NULL) == ERR_OK) check_record(&told, &record);
        (void)machine_read_id(bytes);
    } else if (data[0] == 1) {
        if (machine_read_ack(reader, bytes, &operation, &record, NULL) == ERR_OK)
            check_record(&told, &record);
    } else {
        walk_twice(reader, &told, bytes, data[0]);
    }
    machine_reader_close(told.second);
    machine_reader_close(reader);
    dimensions_deinit(&dimensions);
    return 0;
}
