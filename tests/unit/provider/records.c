/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"
#include "lib/machine_write.h"

#include "lib/test.h"
#include "wire/pack.h"

void record_full(struct dimensions *dimensions, struct machine_record *ret_record)
{
    static const struct label labels[] = {{BYTES("rack"), BYTES("r7")},
                                          {BYTES("site"), BYTES("köln")},
                                          {BYTES("topology.kubernetes.io/region"), BYTES("eu")}};
    static const struct label metadata[] = {
        {BYTES("bigfleet.lucy.sh/assigned-group"), BYTES("rack\0gang-7")},
        {BYTES("bigfleet.lucy.sh/assigned-priority"), BYTES("900000")},
        {BYTES("x/empty"), BYTES("")}};
    static const struct label amounts[] = {{BYTES("cpu"), BYTES("16")},
                                           {BYTES("memory"), BYTES("64Gi")}};
    static const struct label less[] = {{BYTES("cpu"), BYTES("15500m")},
                                        {BYTES("memory"), BYTES("60Gi")}};

    *ret_record = (struct machine_record){
        .machine =
            {
                .id = STR("m-1"),
                .state = MACHINE_CONFIGURED,
                .host_provider = STR("aws"),
                .host_ref = STR("i-0abc"),
                .cluster = STR("prod"),
                .attributes = {STR("m5.4xlarge"), STR("eu-1a"), labels, ARRAY_LEN(labels)},
                .capacity_type = CAPACITY_SPOT,
                .price_per_hour = 0.77,
                .interruption_probability = 0.05,
                .last_error = STR("once it\nfailed"),
            },
        .metadata = metadata,
        .metadata_count = ARRAY_LEN(metadata),
    };
    CHECK_OK("amounts", resources_parse(dimensions, "resources", amounts, ARRAY_LEN(amounts),
                                        &ret_record->machine.resources, NULL));
    CHECK_OK("allocatable", resources_parse(dimensions, "allocatable", less, ARRAY_LEN(less),
                                            &ret_record->machine.allocatable, NULL));
}

void put_field(struct buf *into, uint32_t field, struct str bytes)
{
    struct pack pack = {into, ERR_OK};

    pack_bytes(&pack, field, bytes);
    CHECK_OK("a field", pack.err);
}

void put_record(struct buf *into, uint32_t field, const struct dimensions *dimensions,
                const struct machine_record *record)
{
    struct buf bytes;

    buf_init(&bytes, BYTES_MAX);
    CHECK_OK("a record", machine_write(dimensions, record, &bytes));
    put_field(into, field, buf_peek(&bytes));
    buf_deinit(&bytes);
}
