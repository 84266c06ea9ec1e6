/* SPDX-License-Identifier: Apache-2.0 */
/* What slots.c needs of entries.c: a grant written over whatever is there. */
#ifndef PRIM_KUBE_ENTRIES_H
#define PRIM_KUBE_ENTRIES_H
#include "prim/kube/store.h"

struct entry_new {
    struct str key, value, owner;
    int64_t ttl_ms; /* 0: no lease */
    coord_id lease_id;
    uint32_t flags; /* ENVELOPE_SLOT, ENVELOPE_GROUP */
};
/* Who is there: revision, token, owner, hint. */
void kube_entry_tell(coord_result *result, const struct doc *doc, int64_t left_ms);
void kube_entry_grant(const struct doc *doc, uint32_t slot, int64_t sent_ns,
                      struct prim_grant *ret);
bool kube_entry_is_replay(const struct ask *ask, const struct doc *doc);
struct lease_write kube_entry_write(const struct ask *ask, const struct entry_new *in,
                                    const struct doc *over);
struct lease_write kube_entry_tombstone(const struct ask *ask, struct str key,
                                        const struct doc *over, const coord_id *released_by);
/* Both: *ret_done false when somebody was faster or the outcome is open; read again and judge. The
 * first takes the doc in every case. */
coord_result kube_entry_replay(struct ask *ask, struct str key, struct doc *own_doc, uint32_t slot,
                               struct prim_grant *ret_grant, bool *ret_done);
coord_result kube_entry_put(struct ask *ask, const struct entry_new *in, const struct doc *over,
                            int reason, uint32_t slot, struct prim_grant *ret_grant,
                            bool *ret_done);
#endif
