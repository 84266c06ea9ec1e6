/* SPDX-License-Identifier: Apache-2.0 */
#include "changes.h"

#include <inttypes.h>
#include <stdlib.h>

#include "prim/names.h"

/* Global, because qsort passes no argument; only one thread judges. */
static char **names;

static int by_revision(const void *a, const void *b)
{
    const struct change *left = a, *right = b;

    if (left->revision != right->revision) return left->revision < right->revision ? -1 : 1;
    return left->key == right->key ? 0 : strcmp(names[left->key], names[right->key]);
}

static uint32_t slot_key(const struct hist *h, const struct hist_call *call)
{
    char name[PRIM_SLOT_KEY_CAP];

    prim_slot_key(str_from(h->keys[call->key]), call->slot, name);
    return (uint32_t)((uintptr_t)map_get(&h->by_key, str_from(name)) - 1);
}

/* The change that the call made or found; false: none. */
static bool of_call(const struct hist *h, const struct hist_call *call, struct change *ret_change)
{
    struct change change = {.revision = call->revision, .key = call->key, .value = call->id};

    if (call->ended_ns == HIST_OPEN || call->code != COORD_OK) return false;
    switch (call->op) {
    case HIST_CREATE:
    case HIST_CAS: break;
    case HIST_DELETE:
        if (call->reason == COORD_R_ALREADY) return false;
        change.gone = true;
        change.value = 0;
        break;
    case HIST_GET:
    case HIST_STALE: change.value = call->found; break;
    case HIST_ACQUIRE:
        change.revision = call->token;
        change.key = slot_key(h, call);
        if (change.key == UINT32_MAX) return false; /* nobody ever speaks of it */
        break;
    default: return false;
    }
    *ret_change = change;
    return change.revision != 0;
}

static bool of_event(const struct hist_event *event, struct change *ret_change)
{
    *ret_change =
        (struct change){.revision = event->revision,
                        .key = event->key,
                        .gone = event->type == COORD_DELETE || event->type == COORD_EXPIRE,
                        .value = event->value};
    if (ret_change->gone) ret_change->value = 0;
    return ret_change->gone || event->type == COORD_PUT || event->type == COORD_ENTRY;
}

void changes_open(const struct hist *h, struct changes *c, struct judge_result *result)
{
    size_t count = 0, kept = 0;

    c->rows = calloc(h->call_count + h->event_count + 1, sizeof *c->rows);
    if (!c->rows) abort();
    for (size_t i = 0; i < h->call_count; i++)
        count += of_call(h, &h->calls[i], &c->rows[count]) ? 1 : 0;
    for (size_t i = 0; i < h->event_count; i++)
        count += of_event(&h->events[i], &c->rows[count]) ? 1 : 0;
    names = h->keys;
    if (count) qsort(c->rows, count, sizeof *c->rows, by_revision);
    for (size_t i = 0; i < count; i++) {
        struct change *last = kept ? &c->rows[kept - 1] : NULL, *now = &c->rows[i];
        if (!last || by_revision(last, now) != 0) {
            c->rows[kept++] = *now;
            continue;
        }
        if (last->gone != now->gone || (last->value && now->value && last->value != now->value))
            judge_bad(result,
                      "%s at revision %" PRIu64 " is reported as %s%" PRIu64 " and as %s%" PRIu64,
                      h->keys[now->key], now->revision, last->gone ? "gone " : "", last->value,
                      now->gone ? "gone " : "", now->value);
        if (!last->value) last->value = now->value;
    }
    c->count = kept;
}

void changes_close(struct changes *c)
{
    free(c->rows);
}

size_t changes_after(const struct changes *c, uint64_t revision)
{
    size_t low = 0, high = c->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->rows[middle].revision > revision)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const struct change *changes_last(const struct changes *c, uint32_t key, uint64_t revision)
{
    for (size_t i = changes_after(c, revision); i-- > 0;)
        if (c->rows[i].key == key) return &c->rows[i];
    return NULL;
}

/* Every acquire has a lease, so the end of the lease frees a slot, too. */
bool changes_may_be_gone(const struct hist *h, const struct change *change, int64_t by_ns)
{
    const struct hist_call *made = hist_call(h, change->value);

    if (!made || made->ttl_ms > 0) return true;
    for (size_t i = 0; i < h->call_count && h->calls[i].called_ns <= by_ns; i++) {
        const struct hist_call *call = &h->calls[i];
        if (call->key == change->key && call->op == HIST_DELETE && hist_may_change(call) &&
            (call->revision == 0 || call->revision > change->revision))
            return true;
    }
    return false;
}

void changes_must_be(const struct hist *h, uint32_t key, uint64_t value, uint64_t revision,
                     int64_t by_ns, const char *who, struct judge_result *result)
{
    const struct hist_call *made = hist_call(h, value);
    uint64_t own;

    if (!made || !hist_may_change(made)) {
        judge_bad(result, "%s found %" PRIu64 " at %s, which nobody wrote", who, value,
                  h->keys[key]);
        return;
    }
    own = made->op == HIST_ACQUIRE ? made->token : made->revision;
    if (made->op == HIST_ACQUIRE ? !str_starts(str_from(h->keys[key]), str_from(h->keys[made->key]))
                                 : made->key != key)
        judge_bad(result, "%s found at %s what was written to %s", who, h->keys[key],
                  h->keys[made->key]);
    else if (made->called_ns > by_ns)
        judge_bad(result, "%s found %" PRIu64 " at %s before it was written", who, value,
                  h->keys[key]);
    else if (own && own != revision)
        judge_bad(result, "%s found %" PRIu64 " at %s with revision %" PRIu64 ", not %" PRIu64, who,
                  value, h->keys[key], revision, own);
}
