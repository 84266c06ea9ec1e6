/* SPDX-License-Identifier: Apache-2.0 */
/* Random moves of nodes between two lists against two plain arrays. */
#include <string.h>

#include "base/list.h"
#include "base/prng.h"
#include "lib/test.h"

enum { NODES = 40, STEPS = 100000 };

struct row {
    size_t at[NODES], count;
};

static void row_remove(struct row *row, size_t node)
{
    size_t kept = 0;

    for (size_t i = 0; i < row->count; i++)
        if (row->at[i] != node) row->at[kept++] = row->at[i];
    row->count = kept;
}

static void row_insert(struct row *row, size_t place, size_t node)
{
    memmove(&row->at[place + 1], &row->at[place], (row->count - place) * sizeof row->at[0]);
    row->at[place] = node;
    row->count++;
}

static void check_row(struct list *head, const struct list *nodes, const struct row *row)
{
    size_t i = 0;

    LIST_EACH(head, node)
    {
        CHECK("not longer", i < row->count);
        CHECK("in order", node == &nodes[row->at[i]]);
        CHECK("both directions agree", node->prev->next == node && node->next->prev == node);
        i++;
    }
    CHECK_SIZE("not shorter", i, row->count);
    CHECK("empty says so", list_empty(head) == (row->count == 0));
}

TEST(lists_behave_as_arrays)
{
    struct list heads[2], nodes[NODES];
    struct row rows[2] = {{{0}, 0}, {{0}, 0}};
    struct prng p;

    prng_seed(&p, test_seed());
    list_init(&heads[0]);
    list_init(&heads[1]);
    for (size_t i = 0; i < NODES; i++) list_init(&nodes[i]);
    for (int s = 0; s < STEPS; s++) {
        size_t side = prng_below(&p, 2), node = prng_below(&p, NODES);
        struct row *row = &rows[side];
        uint64_t die = prng_below(&p, 100);

        if (die < 60) { /* moves the node to a random place */
            list_remove(&nodes[node]);
            row_remove(&rows[0], node);
            row_remove(&rows[1], node);
        }
        if (die < 20) {
            list_append(&heads[side], &nodes[node]);
            row_insert(row, row->count, node);
        } else if (die < 35) {
            list_prepend(&heads[side], &nodes[node]);
            row_insert(row, 0, node);
        } else if (die < 45 && row->count > 0) {
            size_t place = prng_below(&p, row->count);
            list_insert_before(&nodes[row->at[place]], &nodes[node]);
            row_insert(row, place, node);
        } else if (die >= 60 && die < 65) {
            list_splice(&heads[side], &heads[!side]);
            for (size_t i = 0; i < rows[!side].count; i++)
                row_insert(row, row->count, rows[!side].at[i]);
            rows[!side].count = 0;
        } else if (die >= 65 && die < 80) {
            struct list *got = list_pop(&heads[side]);
            CHECK("pop", got == (row->count > 0 ? &nodes[row->at[0]] : NULL));
            if (got) row_remove(row, row->at[0]);
        } else if (die >= 80 && die < 85) {
            LIST_EACH_SAFE(&heads[side], at, following)
            {
                if (!prng_chance(&p, 300000)) continue;
                row_remove(row, (size_t)(at - nodes));
                list_remove(at);
            }
        }
        check_row(&heads[0], nodes, &rows[0]);
        check_row(&heads[1], nodes, &rows[1]);
    }
}
