/* SPDX-License-Identifier: Apache-2.0 */
/* Memory ends at every place of reading a List and of writing a record. */
#include "lib/fault_alloc.h"
#include "lib/machine_write.h"
#include "lib/test.h"
#include "provider/list.h"
#include "records.h"

struct world {
    struct dimensions dimensions;
    struct buf bytes;
    uint64_t machines, removed;
};

static enum err on_machine(void *context, const struct machine_record *record)
{
    struct world *w = context;

    CHECK_STR("whole or not at all", record->machine.cluster, STR("prod"));
    w->machines++;
    return ERR_OK;
}

static void on_refused(void *context, struct str id, const char *why)
{
    (void)context;
    (void)id;
    (void)why;
    CHECK("out of memory is no fault of a record", false);
}

static void on_removed(void *context, struct str id)
{
    (void)id;
    ((struct world *)context)->removed++;
}

static enum err read_list(struct world *w, struct machine_reader *reader)
{
    static const struct provider_list_events events = {on_machine, on_refused, on_removed};
    struct provider_list_end end;
    struct provider_list *list = NULL;
    enum err err = provider_list_open(reader, &events, w, &list);

    if (err) return err;
    for (size_t at = 0; !err && at < w->bytes.len; at += 100)
        err = provider_list_feed(list, str_of(w->bytes.data + at, min_size(100, w->bytes.len - at)),
                                 NULL);
    if (!err) err = provider_list_finish(list, &end, NULL);
    provider_list_close(list);
    return err;
}

TEST(a_list_without_memory_is_given_up_and_leaks_nothing)
{
    struct machine_record record;
    struct world w = {0};

    dimensions_init(&w.dimensions);
    buf_init(&w.bytes, BYTES_MAX);
    record_full(&w.dimensions, &record);
    for (int i = 0; i < 3; i++) put_record(&w.bytes, 1, &w.dimensions, &record);
    put_field(&w.bytes, 100, STR("gone"));
    FAULT_SWEEP_ALLOC(k)
    {
        struct machine_reader *reader = NULL;
        struct dimensions fresh;
        enum err err;
        dimensions_init(&fresh);
        w.machines = w.removed = 0;
        err = machine_reader_open(&fresh, &reader);
        if (!err) err = read_list(&w, reader);
        if (fault_alloc_fired())
            CHECK_ERR("out of memory is returned", err, ERR_NOMEM);
        else
            CHECK_U64("all of it", w.machines + w.removed, err ? 99 : 4);
        machine_reader_close(reader);
        dimensions_deinit(&fresh);
    }
    dimensions_deinit(&w.dimensions);
    buf_deinit(&w.bytes);
}

TEST(a_record_that_cannot_be_written_leaves_the_buffer_alone)
{
    struct machine_record record;
    struct dimensions dimensions;

    dimensions_init(&dimensions);
    record_full(&dimensions, &record);
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf bytes;
        enum err err;
        buf_init(&bytes, BYTES_MAX);
        err = machine_write(&dimensions, &record, &bytes);
        CHECK_ERR("out of memory is returned", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) CHECK_SIZE("nothing", bytes.len, 0);
        buf_deinit(&bytes);
    }
    dimensions_deinit(&dimensions);
}
