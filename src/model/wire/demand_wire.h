/* SPDX-License-Identifier: Apache-2.0 */
/* Demand between the model and protobuf, for both ends of Shard.Session.
 *
 * Written by hand (wire/pack.h); `scratch` is for parts whose length comes before them. */
#ifndef MODEL_WIRE_DEMAND_WIRE_H
#define MODEL_WIRE_DEMAND_WIRE_H
#include "model/need.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_capacity.pb-c.h"

/* Views of the decoded message; the list is in the arena. ERR_INVALID: an operator number that is
 * none, as "requirements[2].operator: ..."; ERR_NOMEM. */
enum err read_requirements(struct arena *arena,
                           Bigfleet__V1alpha1__NodeSelectorRequirement *const *given, size_t count,
                           const struct requirement **ret_requirements, struct note *note);

/* repeated NodeSelectorRequirement `field`, in canonical order. */
void pack_requirements(struct pack *pack, uint32_t field, const struct profile *profile,
                       struct buf *scratch);
/* One entry of a map<string, string> `field`. */
void pack_pair(struct pack *pack, uint32_t field, struct str key, struct str value,
               struct buf *scratch);
/* map<string, string> `field`: name to quantity, by name. */
void pack_amounts(struct pack *pack, uint32_t field, const struct resource_sum *sum,
                  const struct dimensions *dimensions, struct buf *scratch);
/* A Resources message `field`; nothing at all when nothing is named. */
void pack_resources(struct pack *pack, uint32_t field, const struct resource_sum *sum,
                    const struct dimensions *dimensions, struct buf *body, struct buf *scratch);
/* The fields of a CapacityNeed. */
void pack_capacity_need(struct pack *pack, const struct profile *profile, struct str group,
                        const struct resource_sum *aggregate, const struct resources *min_unit,
                        const struct dimensions *dimensions, struct buf *scratch);
#endif
