/* SPDX-License-Identifier: Apache-2.0 */
/* Converts demand between the model and protobuf, for both ends of Shard.Session. `scratch` holds
 * parts while their length is unknown. */
#ifndef MODEL_WIRE_DEMAND_WIRE_H
#define MODEL_WIRE_DEMAND_WIRE_H
#include "model/need.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_capacity.pb-c.h"

/* The list is in the arena, with views of the decoded message. ERR_INVALID for an unknown operator
 * ("requirements[2].operator: ..."); ERR_NOMEM. */
enum err read_requirements(struct arena *arena,
                           Bigfleet__V1alpha1__NodeSelectorRequirement *const *given, size_t count,
                           const struct requirement **ret_requirements, struct note *note);
/* The list is in the arena, with views of the entries. NULL if memory runs out. */
struct label *read_labels(struct arena *arena, ProtobufCMessage *const *entries, size_t count);

void pack_requirements(struct pack *pack, uint32_t field, const struct profile *profile,
                       struct buf *scratch);
void pack_pair(struct pack *pack, uint32_t field, struct str key, struct str value,
               struct buf *scratch);
/* Writes a map<string, string> from name to quantity, sorted by name. */
void pack_amounts(struct pack *pack, uint32_t field, const struct resource_sum *sum,
                  const struct dimensions *dimensions, struct buf *scratch);
/* Writes a Resources message; nothing if no dimension is named. */
void pack_resources(struct pack *pack, uint32_t field, const struct resource_sum *sum,
                    const struct dimensions *dimensions, struct buf *body, struct buf *scratch);
void pack_capacity_need(struct pack *pack, const struct profile *profile, struct str group,
                        const struct resource_sum *aggregate, const struct resources *min_unit,
                        const struct dimensions *dimensions, struct buf *scratch);
#endif
