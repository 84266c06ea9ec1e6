/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: N slots as ordinary keys of the group's bucket, and one record that fixes N.
 *
 * All three calls hold the bucket lock alone, so that choosing a slot, changing N and listing are
 * each one step for the whole group. */
#ifndef PRIM_FILE_SLOTS_H
#define PRIM_FILE_SLOTS_H
#include "prim/backend.h"

coord_result file_acquire(struct prim_backend *backend, const struct prim_call *call,
                          const struct prim_acquire *in, struct prim_grant *ret_grant);
coord_result file_resize(struct prim_backend *backend, const struct prim_call *call,
                         struct str group, uint64_t expected, uint32_t slot_count);
coord_result file_holders(struct prim_backend *backend, const struct prim_call *call,
                          struct str group, coord_holders **ret_holders);
#endif
