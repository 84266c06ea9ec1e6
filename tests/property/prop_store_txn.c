/* SPDX-License-Identifier: Apache-2.0 */
/* Random transactions on the store's machine against the plain model of tests/sim: every answer to
 * the letter, every state line by line. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "sim/store_compare.h"
#include "sim/store_txns.h"
#include "store/machine.h"
#include "store/txn_wire.h"
#include "wire/message.h"

enum { WORLDS = 60, STEPS = 400, LINES_MAX = 1 << 20 };
struct world {
    struct prng prng;
    struct arena arena;
    struct store_machine *store;
    struct state_machine machine;
    struct model *model;
    struct buf command, reply, shipped, plain;
    uint64_t index, values, taken, refused;
};

static void draw_value(void *owner, char value[TXNS_VALUE_CAP])
{
    struct world *w = owner;

    (void)snprintf(value, TXNS_VALUE_CAP, "E%llu", (unsigned long long)w->values++);
}

static void apply(struct world *w)
{
    static struct model_txns txns;
    struct model_renewal renewals[MODEL_RENEWALS];
    struct machine_entry entry = {.index = ++w->index,
                                  .term = 1,
                                  .clock_ns = w->index * NS_PER_MS,
                                  .version = STORE_MACHINE_VERSION,
                                  .level = STORE_MACHINE_VERSION,
                                  .actor = STR_EMPTY,
                                  .request_id = STR_EMPTY,
                                  .command = buf_peek(&w->command)};
    struct store_command command;
    struct model_command plain;
    struct model_answer answer;
    struct note why = {""};

    buf_clear(&w->reply);
    buf_clear(&w->shipped);
    buf_clear(&w->plain);
    CHECK_ERR("it is read", store_command_read(entry.command, &w->arena, &command, &why), ERR_OK);
    CHECK_ERR("the model has room", compare_command(&command, &plain), ERR_OK);
    if (command.kind == STORE_TXN)
        CHECK_ERR("for all of it", compare_txns(command.txn, &txns), ERR_OK);
    plain.txns = &txns;
    CHECK_OK("known", w->machine.ops->apply(w->machine.state, &entry, &w->reply, NULL));
    model_apply(w->model, entry.clock_ns, &plain, &answer, renewals);
    CHECK("the model knows it", model_trouble(w->model) == NULL);
    if (command.kind == STORE_TXN
            ? !compare_txn(buf_peek(&w->reply), &command, model_told(w->model), &why)
            : !compare_reply(buf_peek(&w->reply), &command, &answer, renewals, &why))
        CHECK_STR("the same answer", str_from(why.text), STR(""));
    compare_tell(store_machine_store(w->store), &w->shipped);
    model_tell(w->model, &w->plain);
    if (compare_lines(buf_peek(&w->shipped), buf_peek(&w->plain), &why))
        CHECK_STR("the same state", str_from(why.text), STR(""));
    if (command.kind == STORE_TXN) {
        struct store_txn_reply reported;

        CHECK_ERR("a reply", store_txn_parse(buf_peek(&w->reply), &reported), ERR_OK);
        w->taken += reported.refusal == TXN_TAKEN;
        w->refused += reported.refusal != TXN_TAKEN;
    }
}

static void step(struct world *w)
{
    uint64_t revision = keys_revision(store_keys(store_machine_store(w->store)));
    struct txns draw = {&w->prng, &w->arena, draw_value, w, revision};
    Etcdserverpb__TxnRequest one = ETCDSERVERPB__TXN_REQUEST__INIT, *request = &one;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT, *ops[] = {&op};
    uint64_t die = prng_below(&w->prng, 20);
    struct txn *txn;

    arena_reset(&w->arena);
    buf_clear(&w->command);
    if (die == 0) {
        struct store_command compact = {.kind = STORE_COMPACT,
                                        .prefer_slot = STORE_NO_SLOT,
                                        .expected = prng_below(&w->prng, revision + 2)};
        CHECK_ERR("written", store_command_write(&compact, &w->command), ERR_OK);
        apply(w);
        return;
    }
    one.n_success = 1;
    one.success = ops;
    if (die < 4) {
        op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        op.request_put = txns_draw_put(&draw);
    } else if (die < 6) {
        op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        op.request_delete_range = txns_draw_delete(&draw);
    } else {
        request = txns_draw(&draw);
    }
    CHECK_ERR("understood", txn_from_message(request, &w->arena, &txn), ERR_OK);
    if (txn_check(txn)) return; /* which the log never sees */
    CHECK_ERR("written", store_txn_write(request, die < 6 ? STORE_TXN_BARE : 0, &w->command),
              ERR_OK);
    apply(w);
}

TEST(random_transactions_equal_the_model)
{
    static struct world w;
    static const struct store_machine_options options;
    uint64_t taken = 0, refused = 0, seed = test_seed();

    for (uint64_t world = 0; world < WORLDS; world++) {
        memset(&w, 0, sizeof w);
        prng_seed(&w.prng, seed + world);
        arena_init(&w.arena, (size_t)8 << 20);
        buf_init(&w.command, REPLICA_COMMAND_MAX);
        buf_init(&w.reply, (size_t)16 << 20);
        buf_init(&w.shipped, LINES_MAX);
        buf_init(&w.plain, LINES_MAX);
        CHECK_ERR("opened", store_machine_open(&options, &w.store), ERR_OK);
        w.machine = store_machine_registration(w.store);
        w.model = model_open();
        for (int i = 0; i < STEPS; i++) step(&w);
        taken += w.taken;
        refused += w.refused;
        model_close(w.model);
        store_machine_close(w.store);
        buf_deinit(&w.command);
        buf_deinit(&w.reply);
        buf_deinit(&w.shipped);
        buf_deinit(&w.plain);
        arena_deinit(&w.arena);
    }
    CHECK("both kinds were drawn", taken > WORLDS * 50 && refused > WORLDS);
}
