/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation in turn fails while a coordinator answers: a write that was answered as not done
 * was not done, and one that was answered as done is there. */
#include <stdio.h>

#include "lib/fault_alloc.h"
#include "service_rig.h"

enum { SHARDS = 4 };

static void queue_one(struct rig_answer *answer, const char *id)
{
    static char names[SHARDS][8] = {"s-0", "s-1", "s-2", "s-3"};
    char *shards[SHARDS] = {names[0], names[1], names[2], names[3]};
    Muster__V1__QueueInstructionRequest m = MUSTER__V1__QUEUE_INSTRUCTION_REQUEST__INIT;
    Bigfleet__V1alpha1__CoordinatorInstruction it =
        BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__INIT;
    Bigfleet__V1alpha1__TransferOwnership what = BIGFLEET__V1ALPHA1__TRANSFER_OWNERSHIP__INIT;

    it.payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_TRANSFER_OWNERSHIP;
    it.transfer_ownership = &what;
    it.instruction_id = (char *)(uintptr_t)id;
    m.shard_ids = shards;
    m.n_shard_ids = SHARDS;
    m.instruction = &it;
    rig_start(answer, (struct rig_call){.timeout_ms = 2000}, ".QueueInstruction", &m.base);
}

/* How many shards the instruction waits for. */
static size_t waits_for(const char *id)
{
    const Muster__V1__ListInstructionsResponse *all = rig_instructions("");
    size_t count = 0;

    for (size_t i = 0; i < all->n_instructions; i++)
        count += strcmp(all->instructions[i]->instruction->instruction_id, id) == 0;
    return count;
}

TEST(an_instruction_refused_for_lack_of_memory_is_queued_nowhere)
{
    enum { ENOUGH = 100 }; /* more than one call allocates */
    size_t refused = 0, open = 0, done = 0;

    rig_open((struct rig_options){0});
    for (int i = 0; i < SHARDS; i++) {
        char name[8];
        snprintf(name, sizeof name, "s-%d", i);
        CHECK_U64("added", rig_add(name, ""), GRPC_OK);
    }
    for (uint64_t k = 1; k <= ENOUGH; k++) {
        struct rig_answer answer = {0};
        char id[16], *room;
        size_t there;

        snprintf(id, sizeof id, "i-%d", (int)k);
        queue_one(&answer, id); /* the request and its answer have their memory already */
        CHECK_OK("room", buf_reserve(&answer.bytes, RIG_TEXT, &room));
        fault_alloc_arm(k);
        rig_wait(&answer);
        fault_alloc_arm(0);
        there = waits_for(id);
        if (answer.status == GRPC_OK) {
            CHECK_SIZE("done: everywhere", there, SHARDS);
            done++;
        } else if (answer.err == ERR_UNKNOWN) {
            open++;
        } else {
            CHECK_SIZE(answer.text, there, 0);
            refused++;
        }
        rig_answer_deinit(&answer);
    }
    CHECK("some were refused", refused > 0);
    CHECK("some were left open", open > 0);
    CHECK("most were done", done > ENOUGH / 2);
    rig_close();
}
