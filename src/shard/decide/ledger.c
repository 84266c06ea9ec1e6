/* SPDX-License-Identifier: Apache-2.0 */
/* Shortfalls by fingerprint. Each decision builds a new page, so that an error leaves the previous
 * page unchanged. */
#include "shard/decide/ledger.h"

#include <stdlib.h>

#include "base/map.h"

struct page {
    struct arena arena;
    struct map by_fingerprint;
    const struct shortfall **sorted;
    size_t count;
};
struct ledger {
    struct page now;
    uint64_t seed;
};

#define LEDGER_BYTES_MAX ((size_t)1 << 30)

static void page_init(struct page *page, uint64_t seed)
{
    *page = (struct page){0};
    arena_init(&page->arena, LEDGER_BYTES_MAX);
    map_init(&page->by_fingerprint, MAP_MOST, seed);
}

static void page_deinit(struct page *page)
{
    map_deinit(&page->by_fingerprint);
    arena_deinit(&page->arena);
}

enum err ledger_open(uint64_t seed, struct ledger **ret_ledger)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);

    if (!ledger) return ERR_NOMEM;
    ledger->seed = seed;
    page_init(&ledger->now, seed);
    *ret_ledger = ledger;
    return ERR_OK;
}

void ledger_close(struct ledger *ledger)
{
    if (!ledger) return;
    page_deinit(&ledger->now);
    free(ledger);
}

static enum err note_row(struct page *next, const struct page *before,
                         const struct need_verdict *verdict)
{
    struct str fingerprint = verdict->need->key.fingerprint;
    struct shortfall *row = map_get(&next->by_fingerprint, fingerprint);
    struct resource_sum lacking;
    enum err err;

    amounts_sum(&verdict->shortage->unresolved, &lacking);
    if (resource_sum_is_zero(&lacking)) return ERR_OK;
    if (!row) {
        const struct shortfall *old = map_get(&before->by_fingerprint, fingerprint);

        row = ARENA_NEW(&next->arena, struct shortfall);
        if (!row) return ERR_NOMEM;
        err = profile_build(&next->arena, verdict->need->profile, &row->profile, NULL);
        if (err) return err;
        /* the fingerprint was canonical before */
        assert(str_equal(row->profile.fingerprint, fingerprint));
        row->age = old ? old->age + 1 : 1;
        resource_sum_clear(&row->lacking);
        err = map_put(&next->by_fingerprint, row->profile.fingerprint, row);
        if (err) return err;
    }
    resource_sum_add_sum(&row->lacking, &lacking);
    return ERR_OK;
}

static int compare_shortfalls(const void *a, const void *b)
{
    const struct shortfall *x = *(const struct shortfall *const *)a;
    const struct shortfall *y = *(const struct shortfall *const *)b;

    if (x->profile.priority != y->profile.priority)
        return x->profile.priority > y->profile.priority ? -1 : 1;
    if (x->age != y->age) return x->age > y->age ? -1 : 1;
    return str_compare(x->profile.fingerprint, y->profile.fingerprint);
}

static enum err sort_page(struct page *page)
{
    struct map_entry *entry;
    size_t cursor = 0;

    page->sorted =
        arena_calloc(&page->arena, map_count(&page->by_fingerprint), sizeof(struct shortfall *));
    if (!page->sorted) return ERR_NOMEM;
    while ((entry = map_next(&page->by_fingerprint, &cursor)))
        page->sorted[page->count++] = entry->value;
    qsort(page->sorted, page->count, sizeof(struct shortfall *), compare_shortfalls);
    return ERR_OK;
}

enum err ledger_note(struct ledger *ledger, const struct decision *decision)
{
    struct page next;
    enum err err = ERR_OK;

    page_init(&next, ledger->seed);
    for (size_t i = 0; i < decision->verdict_count && !err; i++)
        if (decision->verdicts[i].shortage)
            err = note_row(&next, &ledger->now, &decision->verdicts[i]);
    if (!err) err = sort_page(&next);
    if (err) {
        page_deinit(&next);
        return err;
    }
    page_deinit(&ledger->now);
    ledger->now = next;
    return ERR_OK;
}

const struct shortfall *const *ledger_shortfalls(const struct ledger *ledger, size_t *ret_count)
{
    *ret_count = ledger->now.count;
    return ledger->now.sorted;
}

uint32_t ledger_age(const struct ledger *ledger, struct str fingerprint)
{
    const struct shortfall *row = map_get(&ledger->now.by_fingerprint, fingerprint);

    return row ? row->age : 0;
}

const char *const shortfall_age_names[SHORTFALL_AGES] = {"1-9", "10-59", "60-299", "300+"};
const char *const shortfall_class_names[SHORTFALL_CLASSES] = {"critical", "service", "batch",
                                                              "other"};

size_t shortfall_age_index(uint32_t age)
{
    if (age < 10) return 0;
    if (age < 60) return 1;
    return age < 300 ? 2 : 3;
}

size_t shortfall_class_index(int32_t priority)
{
    if (priority >= 1000000) return 0;
    if (priority >= 1000) return 1;
    return priority >= 100 ? 2 : 3;
}
