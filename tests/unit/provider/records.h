/* SPDX-License-Identifier: Apache-2.0 */
/* Machines for the tests of src/provider: one with everything, and bytes made of fields by hand. */
#ifndef TESTS_UNIT_PROVIDER_RECORDS_H
#define TESTS_UNIT_PROVIDER_RECORDS_H
#include "provider/machine_wire.h"

/* A struct str in a static table; may hold NUL. */
#define BYTES(literal)                                                                             \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
enum { BYTES_MAX = 64 << 20 };

/* Every field set; texts are static, amounts belong to `dimensions`. */
void record_full(struct dimensions *dimensions, struct machine_record *ret_record);
/* Field `field` of wire type 2, with its head. */
void put_field(struct buf *into, uint32_t field, struct str bytes);
void put_record(struct buf *into, uint32_t field, const struct dimensions *dimensions,
                const struct machine_record *record);
#endif
