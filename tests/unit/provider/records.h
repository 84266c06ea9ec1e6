/* SPDX-License-Identifier: Apache-2.0 */
/* Machines for the tests of src/provider: one with every field, and bytes built from fields. */
#ifndef TESTS_UNIT_PROVIDER_RECORDS_H
#define TESTS_UNIT_PROVIDER_RECORDS_H
#include "provider/machine_wire.h"

/* A struct str in a static table; may hold NUL. */
#define BYTES(literal)                                                                             \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
enum { BYTES_MAX = 64 << 20 };

/* Sets every field; texts are static, amounts belong to `dimensions`. */
void record_full(struct dimensions *dimensions, struct machine_record *ret_record);
/* Appends field `field` of wire type 2, with its head. */
void put_field(struct buf *into, uint32_t field, struct str bytes);
void put_record(struct buf *into, uint32_t field, const struct dimensions *dimensions,
                const struct machine_record *record);
#endif
