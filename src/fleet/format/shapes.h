/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the tables as JSON: the same in commands and in the state. Inside of fleet/format. */
#ifndef FLEET_FORMAT_SHAPES_H
#define FLEET_FORMAT_SHAPES_H
#include "fleet/format/record.h"

/* Fields of a shape, from text slot `at` on; put them in braces. */
#define SHARD_FIELDS(at)                                                                           \
    {"ID", SHAPE_TEXT, (at), NULL}, {"Address", SHAPE_TEXT, (at) + 1, NULL},                       \
        {"RegisteredAt", SHAPE_TEXT, (at) + 2, NULL},                                              \
    {                                                                                              \
        "LastHeartbeat", SHAPE_TEXT, (at) + 3, NULL                                                \
    }
#define TWO_FIELDS(first, second, at)                                                              \
    {first, SHAPE_TEXT, (at), NULL},                                                               \
    {                                                                                              \
        second, SHAPE_TEXT, (at) + 1, NULL                                                         \
    }
#define PROVIDER_FIELDS(at)                                                                        \
    {"Name", SHAPE_TEXT, (at), NULL}, {"Address", SHAPE_TEXT, (at) + 1, NULL},                     \
    {                                                                                              \
        "Region", SHAPE_TEXT, (at) + 2, NULL                                                       \
    }

/* What was read, from texts[at] on. ERR_PARSE: a time that is none. */
enum err shard_of(const struct record *record, size_t at, struct fleet_shard *ret_shard,
                  struct note *note);

/* Each appends what the word says, in the order of the specification. ERR_INVALID: not UTF-8, or a
 * time out of range. */
enum err shard_put(struct buf *into, const struct fleet_shard *shard, bool heartbeat);
enum err domain_put(struct buf *into,
                    const struct fleet_domain *domain); /* {"Key":..,"Value":..} */
enum err leaving_put(
    struct buf *into,
    const struct fleet_leaving *leaving); /* {"domain":{..},"shard":..,"since":n} */
enum err quota_put(struct buf *into,
                   const struct fleet_quota *quota); /* {"key":..,"per_shard":..} */
enum err provider_put(struct buf *into, const struct fleet_provider *provider);
#endif
