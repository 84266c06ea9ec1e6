/* SPDX-License-Identifier: Apache-2.0 */
/* The table of penalty buckets. Pure. */
#include "model/penalty.h"

#include <math.h>

static const char *const labels[PENALTY_BUCKET_COUNT] = {
    "unspecified", "0",      "0.5",     "1",       "2",       "4",       "8",
    "16",          "32",     "64",      "128",     "256",     "512",     "1024",
    "2048",        "4096",   "8192",    "16384",   "32768",   "65536",   "131072",
    "262144",      "524288", "1048576", "2097152", "4194304", "8388608", "pinned",
};

enum err penalty_from_dollars(double dollars, uint8_t *ret_bucket)
{
    uint8_t bucket = PENALTY_ZERO;

    if (isnan(dollars)) return ERR_INVALID;
    while (bucket < PENALTY_PINNED && penalty_dollars(bucket) < dollars) bucket++;
    *ret_bucket = bucket;
    return ERR_OK;
}

double penalty_dollars(uint8_t bucket)
{
    assert(bucket < PENALTY_BUCKET_COUNT);
    if (bucket <= PENALTY_ZERO) return 0;
    if (bucket == PENALTY_HALF_DOLLAR) return 0.5;
    if (bucket == PENALTY_PINNED) return (double)INFINITY;
    return (double)(1u << (bucket - PENALTY_DOLLAR));
}

const char *penalty_label(uint8_t bucket)
{
    assert(bucket < PENALTY_BUCKET_COUNT);
    return labels[bucket];
}

enum err penalty_check(const char *field, uint32_t bucket, struct note *note)
{
    if (bucket < PENALTY_BUCKET_COUNT) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%s: unknown bucket %u", field, (unsigned)bucket);
}
