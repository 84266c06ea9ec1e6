/* SPDX-License-Identifier: Apache-2.0 */
/* The memory core with each allocation failing in turn: the answer says so, nothing has changed,
 * and a lease still ends. */
#include "../../unit/prim/memory/desk.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

/* Calls until it is done; a refusal for want of memory has changed nothing. */
#define DO(call)                                                                                   \
    do {                                                                                           \
        uint64_t before_ = memory_core_revision(d.core);                                           \
        coord_result result_ = (call);                                                             \
        if (result_.code == COORD_UNAVAILABLE) {                                                   \
            CHECK_I64("why", result_.reason, COORD_R_MEMORY);                                      \
            CHECK_U64("no revision was used", memory_core_revision(d.core), before_);              \
            result_ = (call);                                                                      \
        }                                                                                          \
        CHECK_I64(#call, result_.code, COORD_OK);                                                  \
        last = result_;                                                                            \
    } while (0)

TEST(no_memory_is_an_answer_and_changes_nothing)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct desk d = {.now = 1000 * MS};
        struct hand plain = {0}, slot = {0}, next = {0};
        struct prim_grant grant = {0};
        coord_result last;
        const struct memory_group *group = NULL;
        d.core =
            memory_core_open(&(struct memory_core_options){.entries_max = 100, .bytes_max = 1000});
        if (d.core == NULL) { continue; }
        DO(desk_create(&d, "k", 50, "o", &plain));
        DO(desk_under(&d, "k2", &plain));
        DO(desk_cas(&d, "k", desk_get(&d, "k")->revision, COORD_TTL_KEEP, &plain, &grant));
        grant = (struct prim_grant){0};
        DO(desk_cas(&d, "k", desk_get(&d, "k")->revision, 70, &plain, &grant));
        DO(desk_cas(&d, "absent", 0, 50, NULL, &grant));
        DO(desk_acquire(&d, "g", 2, "a", 50, 0, &slot));
        DO(desk_acquire(&d, "g", 2, "a", 50, COORD_TAKEOVER_SAME_OWNER, &next));
        CHECK_I64("there", memory_core_group(d.core, d.now, STR("g"), &group).code, COORD_OK);
        DO(desk_resize(&d, "g", group->revision, 9));
        CHECK_U32("grown", last.slot_count, 9);
        DO(desk_release(&d, &next, 0, NULL));
        DO(desk_remove(&d, "absent", COORD_FORCE, NULL));
        d.now += 1000 * MS;
        memory_core_expire(d.core, d.now);
        CHECK_I64("every lease ends, with memory or without", memory_core_next_deadline(d.core),
                  INT64_MAX);
        memory_core_close(d.core);
    }
}
