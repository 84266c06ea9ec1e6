/* SPDX-License-Identifier: Apache-2.0 */
#include "disturb/fault.h"

#include <stdlib.h>
#include <time.h>

#include "base/prng.h"
#include "prim/answer.h"

struct fault {
    struct prim_backend base;
    struct prim_backend_ops ops;
    struct prim_backend *inner;
    struct prim_clock clock;
    pthread_mutex_t lock;
    struct fault_rules rules;
    struct prng draws;
    int64_t seen; /* calls the rules are for */
};

/* The faults of one call. */
struct fate {
    bool refuse, lose_request, lose_reply, hang;
    int64_t delay_before_ms, delay_after_ms;
};

static const char *const op_names[FAULT_OPS] = {
    "create",  "cas",   "delete",  "get",   "acquire", "resize",
    "holders", "renew", "release", "adopt", "watch",
};

static struct fault *fault_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct fault, base);
}

static struct fate draw(struct fault *fault, enum fault_op op)
{
    struct fate fate = {.refuse = false};
    (void)pthread_mutex_lock(&fault->lock);
    const struct fault_rules *rules = &fault->rules;
    bool meant = rules->ops == 0 || (rules->ops & BIT(op)) != 0;
    if (meant && (rules->first == 0 || fault->seen < rules->first)) {
        int64_t roll = (int64_t)prng_below(&fault->draws, 1000);
        fault->seen++;
        fate.delay_before_ms = rules->delay_before_ms;
        fate.delay_after_ms = rules->delay_after_ms;
        fate.refuse = roll < rules->refuse;
        roll -= rules->refuse;
        fate.lose_request = !fate.refuse && roll < rules->lose_request;
        roll -= rules->lose_request;
        fate.lose_reply = !fate.refuse && !fate.lose_request && roll < rules->lose_reply;
        roll -= rules->lose_reply;
        fate.hang = !fate.refuse && !fate.lose_request && !fate.lose_reply && roll < rules->hang;
    }
    (void)pthread_mutex_unlock(&fault->lock);
    return fate;
}

/* Waits until `ms` have passed; false when the call's deadline comes first. */
static bool pass_time(struct fault *fault, const struct prim_call *call, int64_t ms)
{
    if (ms == 0) { return true; } /* no delay, also after the deadline */
    int64_t left_ns = call->deadline_ns - prim_clock_now(&fault->clock);
    int64_t wanted_ns = ms * PRIM_NS_PER_MS;
    int64_t pass_ns = wanted_ns < left_ns ? wanted_ns : left_ns;
    if (pass_ns > 0) {
        struct timespec pause = {(time_t)(pass_ns / 1000000000), (long)(pass_ns % 1000000000)};
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    return wanted_ns <= left_ns;
}

/* True: *ret_result is the answer, and the store was not asked. */
static bool before(struct fault *fault, const struct fate *fate, const struct prim_call *call,
                   coord_result *ret_result)
{
    if (!pass_time(fault, call, fate->delay_before_ms)) {
        *ret_result = prim_unclear(COORD_R_TIMEOUT, "fault: the delay outlasted the deadline");
    } else if (fate->refuse) {
        *ret_result = prim_answer(COORD_UNAVAILABLE, COORD_R_CONNECTION, "fault: refused");
    } else if (fate->lose_request) {
        *ret_result = prim_unclear(COORD_R_CONNECTION, "fault: no answer");
    } else if (fate->hang) {
        (void)pass_time(fault, call, INT64_C(86400000));
        *ret_result = prim_unclear(COORD_R_TIMEOUT, "fault: silent until the deadline");
    } else {
        return false;
    }
    return true;
}

static coord_result after(struct fault *fault, const struct fate *fate,
                          const struct prim_call *call, coord_result result)
{
    if (!pass_time(fault, call, fate->delay_after_ms)) {
        return prim_unclear(COORD_R_TIMEOUT, "fault: the delay outlasted the deadline");
    }
    return fate->lose_reply ? prim_unclear(COORD_R_CONNECTION, "fault: no answer") : result;
}

#define DISTURBED(op, expression)                                                                  \
    struct fault *fault = fault_of(backend);                                                       \
    struct prim_backend *inner = fault->inner;                                                     \
    struct fate fate = draw(fault, op);                                                            \
    coord_result result;                                                                           \
    if (before(fault, &fate, call, &result)) { return result; }                                    \
    result = inner->ops->expression;                                                               \
    result = after(fault, &fate, call, result)

static coord_caps fault_capabilities(struct prim_backend *backend)
{
    struct prim_backend *inner = fault_of(backend)->inner;
    return inner->ops->capabilities(inner);
}

static coord_result fault_create(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_create *in, struct prim_grant *ret_grant)
{
    DISTURBED(FAULT_CREATE, create(inner, call, in, ret_grant));
    return result;
}

static coord_result fault_cas(struct prim_backend *backend, const struct prim_call *call,
                              const struct prim_cas *in, struct prim_grant *ret_grant)
{
    DISTURBED(FAULT_CAS, cas(inner, call, in, ret_grant));
    return result;
}

static coord_result fault_remove(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_delete *in)
{
    DISTURBED(FAULT_DELETE, remove(inner, call, in));
    return result;
}

static coord_result fault_get(struct prim_backend *backend, const struct prim_call *call,
                              struct str key, int consistency, coord_entry **ret_entry)
{
    coord_entry *entry = NULL;
    DISTURBED(FAULT_GET, get(inner, call, key, consistency, &entry));
    if (result.code == COORD_OK) {
        *ret_entry = entry;
    } else {
        coord_entry_free(entry);
    }
    return result;
}

static coord_result fault_acquire(struct prim_backend *backend, const struct prim_call *call,
                                  const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    DISTURBED(FAULT_ACQUIRE, acquire(inner, call, in, ret_grant));
    return result;
}

static coord_result fault_resize(struct prim_backend *backend, const struct prim_call *call,
                                 struct str group, uint64_t expected, uint32_t slot_count)
{
    DISTURBED(FAULT_RESIZE, resize(inner, call, group, expected, slot_count));
    return result;
}

static coord_result fault_holders(struct prim_backend *backend, const struct prim_call *call,
                                  struct str group, coord_holders **ret_holders)
{
    coord_holders *holders = NULL;
    DISTURBED(FAULT_HOLDERS, holders(inner, call, group, &holders));
    if (result.code == COORD_OK) {
        *ret_holders = holders;
    } else {
        coord_holders_free(holders);
    }
    return result;
}

static coord_result fault_renew(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    int64_t sent_ns = 0;
    DISTURBED(FAULT_RENEW, renew(inner, call, claim, &sent_ns));
    /* A delay before the call means a slow connection: the lease counts from before the delay. */
    *ret_sent_ns = fate.delay_before_ms > 0 ? 0 : sent_ns;
    return result;
}

static coord_result fault_release(struct prim_backend *backend, const struct prim_call *call,
                                  const struct prim_claim *claim, const char *key)
{
    DISTURBED(FAULT_RELEASE, release(inner, call, claim, key));
    return result;
}

static coord_result fault_adopt(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_claim *claim, int64_t *ret_left_ms)
{
    DISTURBED(FAULT_ADOPT, adopt(inner, call, claim, ret_left_ms));
    return result;
}

/* A lost reply cannot undo an open watch, so only the opening fails. Guards open
 * theirs in a thread of their own, and draw nothing. */
static coord_result fault_watch(struct prim_backend *backend, const struct prim_call *call,
                                struct prim_feed *feed, void **ret_watch)
{
    struct fault *fault = fault_of(backend);
    coord_result result;
    if (prim_feed_since(feed) == 0) {
        struct fate fate = draw(fault, FAULT_WATCH);
        if (before(fault, &fate, call, &result)) { return result; }
    }
    return fault->inner->ops->watch(fault->inner, call, feed, ret_watch);
}

static void fault_unwatch(struct prim_backend *backend, void *watch)
{
    struct prim_backend *inner = fault_of(backend)->inner;
    inner->ops->unwatch(inner, watch);
}

static void fault_wake(struct prim_backend *backend)
{
    struct prim_backend *inner = fault_of(backend)->inner;
    if (inner->ops->wake != NULL) { inner->ops->wake(inner); }
}

static void fault_close(struct prim_backend *backend)
{
    struct fault *fault = fault_of(backend);
    fault->inner->ops->close(fault->inner);
    (void)pthread_mutex_destroy(&fault->lock);
    free(fault);
}

static const struct prim_backend_ops fault_ops = {
    .capabilities = fault_capabilities,
    .create = fault_create,
    .cas = fault_cas,
    .remove = fault_remove,
    .get = fault_get,
    .acquire = fault_acquire,
    .resize = fault_resize,
    .holders = fault_holders,
    .renew = fault_renew,
    .release = fault_release,
    .adopt = fault_adopt,
    .watch = fault_watch,
    .unwatch = fault_unwatch,
    .wake = fault_wake,
    .close = fault_close,
};

struct prim_backend *prim_fault_make(struct prim_backend *inner, const struct prim_clock *clock,
                                     const struct fault_rules *rules, uint64_t seed)
{
    struct fault *fault = calloc(1, sizeof *fault);
    if (fault == NULL) { return NULL; }
    fault->inner = inner;
    fault->clock = *clock;
    fault->rules = *rules;
    prng_seed(&fault->draws, seed);
    (void)pthread_mutex_init(&fault->lock, NULL);
    fault->ops = fault_ops;
    fault->ops.name = inner->ops->name;
    fault->ops.renewals_max = inner->ops->renewals_max;
    if (inner->ops->adopt == NULL) { fault->ops.adopt = NULL; }
    fault->ops.guards_max = rules->deaf ? 0 : inner->ops->guards_max;
    fault->ops.guards_alone = inner->ops->guards_alone;
    fault->base = (struct prim_backend){.ops = &fault->ops,
                                        .clock = inner->clock,
                                        .host = inner->host,
                                        .id = inner->id,
                                        .limits = inner->limits};
    return &fault->base;
}

void prim_fault_set(struct prim_backend *backend, const struct fault_rules *rules)
{
    struct fault *fault = fault_of(backend);
    (void)pthread_mutex_lock(&fault->lock);
    fault->rules = *rules;
    fault->seen = 0;
    (void)pthread_mutex_unlock(&fault->lock);
}

static coord_result parse_ops(const char *text, uint32_t *ops)
{
    struct str rest = str_from(text), name;
    while (text != NULL && str_split(&rest, ',', &name)) {
        size_t op = 0;
        while (op < FAULT_OPS && !str_equal(str_from(op_names[op]), name)) { op++; }
        if (op == FAULT_OPS) {
            return prim_answer(COORD_INVALID, COORD_R_URL,
                               "fault_ops: create cas delete get acquire resize holders renew "
                               "release adopt watch");
        }
        *ops |= BIT(op);
    }
    return prim_ok(COORD_R_NONE);
}

coord_result prim_fault_wrap(struct prim_url *url, const struct prim_clock *clock,
                             struct prim_backend *inner, struct prim_backend **ret_backend)
{
    struct fault_rules rules = {.ops = 0};
    int64_t seed = 1;
    const struct {
        const char *name;
        int64_t high, *value;
        bool time;
    } params[] = {
        {"fault_first", INT64_MAX, &rules.first, false},
        {"fault_refuse", 1000, &rules.refuse, false},
        {"fault_lose_request", 1000, &rules.lose_request, false},
        {"fault_lose_reply", 1000, &rules.lose_reply, false},
        {"fault_hang", 1000, &rules.hang, false},
        {"fault_deaf", 1, &rules.deaf, false},
        {"fault_delay_before", 600000, &rules.delay_before_ms, true},
        {"fault_delay_after", 600000, &rules.delay_after_ms, true},
        {"fault_seed", INT64_MAX, &seed, false},
    };
    coord_result result = parse_ops(prim_url_param(url, "fault_ops"), &rules.ops);
    for (size_t i = 0; result.code == COORD_OK && i < ARRAY_LEN(params); i++) {
        result = params[i].time
                     ? prim_url_time_ms(url, params[i].name, 0, params[i].high, params[i].value)
                     : prim_url_number(url, params[i].name, 0, params[i].high, params[i].value);
    }
    if (result.code != COORD_OK) { return result; }
    if (rules.refuse + rules.lose_request + rules.lose_reply + rules.hang > 1000) {
        return prim_answer(COORD_INVALID, COORD_R_URL, "fault rates: at most 1000 together");
    }
    *ret_backend = prim_fault_make(inner, clock, &rules, (uint64_t)seed);
    return *ret_backend != NULL ? result : prim_no_memory();
}
