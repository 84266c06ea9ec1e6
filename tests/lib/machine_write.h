/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes machines as a provider does, for tests and benches of their readers. */
#ifndef TESTS_LIB_MACHINE_WRITE_H
#define TESTS_LIB_MACHINE_WRITE_H
#include "model/wire/demand_wire.h"
#include "provider/machine_wire.h"

static inline void machine_pack_amounts(struct pack *pack, uint32_t field,
                                        const struct dimensions *dimensions,
                                        const struct resources *resources, struct buf *message,
                                        struct buf *scratch)
{
    struct resource_sum sum;

    if (!resources->mask) return;
    resource_sum_clear(&sum);
    resource_sum_add(&sum, resources);
    pack_resources(pack, field, &sum, dimensions, message, scratch);
}

static inline void machine_pack(struct pack *pack, const struct dimensions *dimensions,
                                const struct machine_record *record, struct buf *message,
                                struct buf *scratch)
{
    const struct machine *m = &record->machine;
    struct pack host = pack_begin(scratch);

    pack_text(pack, 1, m->id);
    pack_u64(pack, 2, m->state);
    pack_text(&host, 1, m->host_provider);
    pack_text(&host, 2, m->host_ref);
    if (m->host_provider.len + m->host_ref.len > 0) pack_row(pack, 3, &host);
    pack_text(pack, 4, m->attributes.instance_type);
    pack_text(pack, 5, m->attributes.zone);
    pack_u64(pack, 6, m->capacity_type);
    pack_double(pack, 7, m->price_per_hour);
    pack_double(pack, 8, m->interruption_probability);
    machine_pack_amounts(pack, 9, dimensions, &m->resources, message, scratch);
    for (size_t i = 0; i < m->attributes.label_count; i++)
        pack_pair(pack, 10, m->attributes.labels[i].key, m->attributes.labels[i].value, scratch);
    pack_text(pack, 12, m->last_error);
    machine_pack_amounts(pack, 13, dimensions, &m->allocatable, message, scratch);
    pack_text(pack, 14, m->cluster);
    for (size_t i = 0; i < record->metadata_count; i++)
        pack_pair(pack, 15, record->metadata[i].key, record->metadata[i].value, scratch);
}

/* Appends the encoding of a Machine. ERR_NOMEM, ERR_FULL of the buffer: then the buffer is
 * unchanged. */
static inline enum err machine_write(const struct dimensions *dimensions,
                                     const struct machine_record *record, struct buf *into)
{
    enum { SCRATCH_MAX_ = 1 << 20 }; /* larger than any message that is written */
    struct pack pack = {into, ERR_OK};
    struct buf message, scratch;
    size_t before = into->len;

    buf_init(&message, SCRATCH_MAX_);
    buf_init(&scratch, SCRATCH_MAX_);
    machine_pack(&pack, dimensions, record, &message, &scratch);
    if (pack.err) into->len = before;
    buf_deinit(&scratch);
    buf_deinit(&message);
    return pack.err;
}
#endif
