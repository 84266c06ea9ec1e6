/* SPDX-License-Identifier: Apache-2.0 */
/* The case for an unset capability bit: UNSUPPORTED, and nothing has changed. */
#include "cases.h"

static void refuse_create(struct suite *s)
{
    WANT(create(s->store, N("k"), "v", 0, NULL, NULL), COORD_UNSUPPORTED, ANY_REASON);
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "nothing was made");
}

static void refuse_cas(struct suite *s)
{
    uint64_t revision = 1;
    if (suite_has(s, COORD_CAP_CREATE)) {
        coord_result made = create(s->store, N("k"), "v", 0, NULL, NULL);
        WANT(made, COORD_OK, COORD_R_CREATED);
        revision = made.revision;
    }
    WANT(cas(s->store, N("k"), revision, "w", COORD_TTL_KEEP, NULL), COORD_UNSUPPORTED, ANY_REASON);
    WANT(cas(s->store, N("k2"), 0, "w", COORD_TTL_KEEP, NULL), COORD_UNSUPPORTED, ANY_REASON);
    if (suite_has(s, COORD_CAP_CREATE)) {
        EXPECT_EQ(value_is(s->store, N("k"), "v"), revision, "unchanged");
    }
    EXPECT_EQ(value_is(s->store, N("k2"), NULL), 0, "nothing was made");
}

static void refuse_ttl(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_result r = create(s->store, N("k"), "v", 60000, "o", &lease);
    WANT(r, COORD_UNSUPPORTED, ANY_REASON);
    EXPECT(lease == NULL && r.text[0] != '\0', "no handle, and it learns why");
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "C2: nothing permanent in its place");
}

static void refuse_slots(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(acquire(s->store, N("g"), 1, "o", 60000, 0, &lease), COORD_UNSUPPORTED, ANY_REASON);
    EXPECT(lease == NULL, "no handle");
}

static void refuse_shrink(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_holders *before = NULL, *after = NULL;
    WANT(acquire(s->store, N("g"), 3, "o", suite_long_ttl(s), 0, &lease), COORD_OK,
         COORD_R_ACQUIRED);
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &before), COORD_OK, ANY_REASON);
    WANT(coord_resize_group(s->store, NULL, text(N("g")), before->revision, 1), COORD_UNSUPPORTED,
         ANY_REASON);
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &after), COORD_OK, ANY_REASON);
    EXPECT(after->slot_count == 3 && after->revision == before->revision, "unchanged");
    WANT(coord_resize_group(s->store, NULL, text(N("g")), before->revision, 4), COORD_OK,
         COORD_R_RESIZED);
    coord_result late = coord_resize_group(s->store, NULL, text(N("g")), before->revision, 3);
    coord_holders_free(before);
    coord_holders_free(after);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
    WANT(late, COORD_CONFLICT, COORD_R_REVISION); /* a lost race; not because of the count */
}

static void refuse_cooldown(struct suite *s)
{
    coord_lease *lease = NULL;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    struct name group = suite_name(s, "g");
    request.group = text(group.text);
    request.owner = "o";
    request.ttl_ms = suite_long_ttl(s);
    request.cooldown_ms = 1000;
    WANT(coord_acquire_slot(s->store, NULL, &request, &lease), COORD_UNSUPPORTED, ANY_REASON);
    coord_holders *holders = NULL;
    coord_result r = coord_list_holders(s->store, NULL, text(N("g")), &holders);
    EXPECT(r.code == COORD_NOT_FOUND || (r.code == COORD_OK && holders->count == 0),
           "nothing was made");
    if (r.code == COORD_OK) { coord_holders_free(holders); }
}

static void refuse_multi_key(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    WANT(coord_create_under(lease, NULL, text(N("k2")), text("v")), COORD_UNSUPPORTED, ANY_REASON);
    EXPECT_EQ(value_is(s->store, N("k2"), NULL), 0, "nothing was made");
    WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
}

static void refuse_force(struct suite *s)
{
    coord_lease *lease = NULL;
    WANT(create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    WANT(coord_delete(s->store, NULL, text(N("k")), COORD_FORCE, NULL), COORD_UNSUPPORTED,
         ANY_REASON);
    WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
}

void refuse_watch(struct suite *s)
{
    coord_watch *watch = NULL;
    WANT(coord_watch_open(s->store, NULL, text(N("k")), 0, &watch), COORD_UNSUPPORTED, ANY_REASON);
    EXPECT(watch == NULL, "no watch");
}

void refuse(struct suite *s, uint32_t missing)
{
    static const struct {
        uint32_t bit;
        case_fn *run;
    } table[] = {
        {COORD_CAP_CREATE, refuse_create},
        {COORD_CAP_CAS, refuse_cas},
        {COORD_CAP_TTL, refuse_ttl},
        {COORD_CAP_SLOTS, refuse_slots},
        {COORD_CAP_SHRINK, refuse_shrink},
        {COORD_CAP_COOLDOWN, refuse_cooldown},
        {COORD_CAP_MULTI_KEY, refuse_multi_key},
        {COORD_CAP_FORCE, refuse_force},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if ((missing & table[i].bit) != 0) {
            table[i].run(s);
            return; /* the first missing bit: the others need it */
        }
    }
    /* Promises without a call of their own: order, atomic lists, the order of waiters. */
    suite_skip(s, "this store does not promise it (bits 0x%x)", missing);
}
