/* SPDX-License-Identifier: Apache-2.0 */
/* The memory store with each allocation failing in turn: the answer says so, nothing has changed,
 * and a lease still ends. */
#include "../../unit/prim/memory/rig.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

/* Calls until it is done; a refusal for want of memory has changed nothing. */
#define DO(call)                                                                                   \
    do {                                                                                           \
        uint64_t before_ = d.shared->revision;                                                     \
        coord_result result_ = (call);                                                             \
        if (result_.code == COORD_UNAVAILABLE) {                                                   \
            CHECK_I64("why", result_.reason, COORD_R_MEMORY);                                      \
            CHECK_U64("no revision was used", d.shared->revision, before_);                        \
            result_ = (call);                                                                      \
        }                                                                                          \
        CHECK_I64(#call, result_.code, COORD_OK);                                                  \
        last = result_;                                                                            \
    } while (0)

TEST(no_memory_is_an_answer_and_changes_nothing)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct rig d = {.ids = 0};
        struct hand plain = {0}, slot = {0}, next = {0};
        struct prim_grant grant = {0};
        coord_result last;
        if (!rig_try_open(&d, 100, 1000)) { continue; }
        DO(rig_create(&d, "k", 50, "o", &plain));
        DO(rig_under(&d, "k2", &plain));
        DO(rig_cas(&d, "k", rig_get(&d, "k")->revision, COORD_TTL_KEEP, &plain, &grant));
        grant = (struct prim_grant){0};
        DO(rig_cas(&d, "k", rig_get(&d, "k")->revision, 70, &plain, &grant));
        DO(rig_cas(&d, "absent", 0, 50, NULL, &grant));
        /* The group and the slot are two changes: the group may be there without the slot. */
        coord_result first = rig_acquire(&d, "g", 2, "a", 50, 0, &slot);
        if (first.code == COORD_UNAVAILABLE) { DO(rig_acquire(&d, "g", 2, "a", 50, 0, &slot)); }
        DO(rig_acquire(&d, "g", 2, "a", 50, COORD_TAKEOVER_SAME_OWNER, &next));
        DO(rig_resize(&d, "g", memory_record_of(d.shared, STR("g/.group"))->revision, 9));
        CHECK_U32("grown", last.slot_count, 9);
        DO(rig_release(&d, &next, 0, NULL));
        DO(rig_remove(&d, "absent", COORD_FORCE, NULL));
        d.now += 1000 * MS;
        rig_expire(&d);
        CHECK("every lease ends, with memory or without", heap_peek(&d.shared->deadlines) == NULL);
        rig_close(&d);
    }
}
