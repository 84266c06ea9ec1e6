/* SPDX-License-Identifier: Apache-2.0 */
/* Random commands against plain arrays that model the tables, with views open meanwhile. Compared:
 * results, order of every walk, counts, hash, memory, and each view with a copy of the arrays from
 * when it was opened. The arrays keep invariants 1 to 7 of coordinator.md section 3 by
 * construction. Every second world has the level at which domains stay leaving until their shard
 * acknowledges them; the other worlds must have no leaving domain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "fleet/core/fleet.h"
#include "lib/test.h"

enum {
    SHARDS = 24,
    CLUSTERS = 150,
    KEYS = 6,
    VALUES = 400,
    DOMAINS = KEYS * VALUES,
    QUOTAS = 12,
    PROVIDERS = 60,
    NAME = 24,
    WORLDS = 12,
    STEPS = 20000,
    TEXT = 1 << 20
};

struct model { /* owner by index; -1: none */
    bool shards[SHARDS];
    int32_t registered[SHARDS];
    int clusters[CLUSTERS], domains[DOMAINS];
    uint64_t leaving[DOMAINS][SHARDS]; /* since when; 0: not */
    int32_t quotas[QUOTAS][SHARDS];    /* -1: no slice */
    bool quota_set[QUOTAS];
    int providers[PROVIDERS]; /* index of the address */
};
struct names { /* each ascending */
    char shards[SHARDS][NAME], clusters[CLUSTERS][NAME], keys[KEYS][NAME], values[VALUES][NAME],
        quotas[QUOTAS][NAME], providers[PROVIDERS][NAME];
};
struct watcher {
    struct fleet_view *view;
    struct buf want, got;
};
struct world {
    struct fleet *fleet;
    struct prng prng;
    struct fleet_entry entry; /* of the last command */
    struct model model;
    struct watcher watchers[FLEET_VIEWS_MAX];
};
static struct names names;

static int name_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Names of few letters, so that many are prefixes of others; the first may be empty. */
static void draw_names(struct prng *prng, char (*out)[NAME], size_t count, bool empty)
{
    for (size_t i = 0; i < count; i++) {
        bool taken = true;
        while (taken) {
            size_t len = prng_between(prng, empty ? 0 : 1, NAME - 1) % 12;
            if (!empty && len == 0) len = 1;
            for (size_t c = 0; c < len; c++) out[i][c] = (char)('a' + prng_below(prng, 3));
            out[i][len] = '\0';
            taken = false;
            for (size_t j = 0; j < i; j++) taken |= strcmp(out[i], out[j]) == 0;
        }
    }
    qsort(out, count, NAME, name_compare);
}

static struct str s(const char *text)
{
    return str_from(text);
}

/* -- both sides as lines -- */
static void line(struct buf *out, const struct fleet_row *row)
{
    enum err err = ERR_OK;

    switch (row->table) {
    case FLEET_SHARDS:
        err = buf_appendf(out, "s %.*s %.*s %lld\n", STR_ARG(row->shard.id),
                          STR_ARG(row->shard.address), (long long)row->shard.registered_at.seconds);
        break;
    case FLEET_CLUSTERS:
        err = buf_appendf(out, "c %.*s %.*s\n", STR_ARG(row->cluster.id),
                          STR_ARG(row->cluster.shard));
        break;
    case FLEET_DOMAINS:
        err = buf_appendf(out, "d %.*s %.*s %.*s\n", STR_ARG(row->domain.key),
                          STR_ARG(row->domain.value), STR_ARG(row->domain.shard));
        break;
    case FLEET_QUOTAS:
        err = buf_appendf(out, "q %.*s/%.*s", STR_ARG(row->quota.provider),
                          STR_ARG(row->quota.region));
        for (size_t i = 0; i < row->quota.slice_count; i++)
            err |= buf_appendf(out, " %.*s=%d", STR_ARG(row->quota.slices[i].shard),
                               row->quota.slices[i].slice);
        err |= buf_append_byte(out, '\n');
        break;
    case FLEET_PROVIDERS:
        err = buf_appendf(out, "p %.*s %.*s %.*s\n", STR_ARG(row->provider.name),
                          STR_ARG(row->provider.address), STR_ARG(row->provider.region));
        break;
    case FLEET_LEAVING:
        err = buf_appendf(out, "l %.*s %.*s %.*s %llu\n", STR_ARG(row->leaving.key),
                          STR_ARG(row->leaving.value), STR_ARG(row->leaving.shard),
                          (unsigned long long)row->leaving.since);
        break;
    case FLEET_TABLES: err = ERR_INTERNAL;
    }
    CHECK_OK("room for a line", err);
}

/* The rows of the fleet's own walks, as lines. */
static void fleet_lines(const struct fleet *fleet, struct buf *out)
{
    struct fleet_row row;

    for (unsigned t = 0; t < FLEET_TABLES; t++)
        for (struct fleet_walk walk = {0}; fleet_next(fleet, t, &walk, &row);) line(out, &row);
}

/* Leaving rows are ordered by key and value joined, then by the length of the key. */
static int joined[DOMAINS];

static int joined_compare(const void *a, const void *b)
{
    char text[2][2 * NAME + 2];
    const int *domain[2] = {a, b};
    int len[2];

    for (int i = 0; i < 2; i++) {
        const char *key = names.keys[*domain[i] / VALUES];
        len[i] = snprintf(text[i], sizeof text[i], "%s%s%c", key, names.values[*domain[i] % VALUES],
                          (char)strlen(key));
        text[i][len[i]++] = '\0'; /* its high byte */
    }
    return str_compare(str_of(text[0], (size_t)len[0]), str_of(text[1], (size_t)len[1]));
}

static void join_names(void)
{
    for (int i = 0; i < DOMAINS; i++) joined[i] = i;
    qsort(joined, DOMAINS, sizeof joined[0], joined_compare);
}

static struct fleet_leaving leaving_of(const struct model *m, int domain, int shard)
{
    return (struct fleet_leaving){s(names.keys[domain / VALUES]), s(names.values[domain % VALUES]),
                                  s(names.shards[shard]), m->leaving[domain][shard]};
}

/* Passes each row of the model to `each`, as the command that would write the row. */
static void model_rows(const struct model *m,
                       void (*each)(void *owner, const struct fleet_row *row), void *owner)
{
    struct fleet_slice slices[SHARDS];
    char address[NAME];

    for (int i = 0; i < SHARDS; i++)
        if (m->shards[i])
            each(owner, &(struct fleet_row){FLEET_SHARDS,
                                            .shard = {.id = s(names.shards[i]),
                                                      .address = s("h:1"),
                                                      .registered_at = {m->registered[i], 0}}});
    for (int i = 0; i < CLUSTERS; i++)
        if (m->clusters[i] >= 0)
            each(owner,
                 &(struct fleet_row){FLEET_CLUSTERS, .cluster = {s(names.clusters[i]),
                                                                 s(names.shards[m->clusters[i]])}});
    for (int i = 0; i < DOMAINS; i++)
        if (m->domains[i] >= 0)
            each(owner,
                 &(struct fleet_row){FLEET_DOMAINS, .domain = {s(names.keys[i / VALUES]),
                                                               s(names.values[i % VALUES]),
                                                               s(names.shards[m->domains[i]])}});
    for (int i = 0; i < QUOTAS; i++) {
        size_t count = 0;
        if (!m->quota_set[i]) continue;
        for (int shard = 0; shard < SHARDS; shard++)
            if (m->quotas[i][shard] >= 0)
                slices[count++] = (struct fleet_slice){s(names.shards[shard]), m->quotas[i][shard]};
        each(owner, &(struct fleet_row){FLEET_QUOTAS,
                                        .quota = {s(names.quotas[i]), s("r"), slices, count}});
    }
    for (int i = 0; i < PROVIDERS; i++) {
        if (m->providers[i] < 0) continue;
        snprintf(address, sizeof address, "h:%d", m->providers[i]);
        each(owner, &(struct fleet_row){FLEET_PROVIDERS,
                                        .provider = {s(names.providers[i]), s(address), s("r")}});
    }
    for (int i = 0; i < DOMAINS; i++)
        for (int shard = 0; shard < SHARDS; shard++)
            if (m->leaving[joined[i]][shard])
                each(owner, &(struct fleet_row){FLEET_LEAVING,
                                                .leaving = leaving_of(m, joined[i], shard)});
}

static void line_of_row(void *owner, const struct fleet_row *row)
{
    line(owner, row);
}

static void write_row(void *owner, const struct fleet_row *row)
{
    CHECK_U64("written again", fleet_put(owner, row).status, FLEET_DONE);
}

/* -- steps -- */
static struct fleet_result apply(struct world *w, const struct fleet_command *command)
{
    w->entry.index++;
    return fleet_apply_entry(w->fleet, command, w->entry);
}

static bool leaves(const struct world *w)
{
    return w->entry.level >= FLEET_LEAVING_LEVEL;
}

static void free_of(int *owners, size_t count, int shard, uint32_t *freed)
{
    for (size_t i = 0; i < count; i++) {
        if (owners[i] != shard) continue;
        owners[i] = -1;
        ++*freed;
    }
}

static void expect(struct world *w, struct fleet_command command, enum fleet_status status,
                   bool changed, int holder)
{
    struct fleet_result result = apply(w, &command);

    CHECK_TEXT("status", fleet_status_text(result.status), fleet_status_text(status));
    CHECK_U64("changed", result.changed, changed);
    CHECK_STR("holder", result.holder, s(holder < 0 ? "" : names.shards[holder]));
}

static void step_shard(struct world *w)
{
    int shard = (int)prng_below(&w->prng, SHARDS);
    struct model *m = &w->model;
    bool in = m->shards[shard];

    if (prng_chance(&w->prng, 700000)) {
        if (!in) m->registered[shard] = (int32_t)prng_below(&w->prng, 1000);
        m->shards[shard] = true;
        expect(w,
               (struct fleet_command){FLEET_ADD_SHARD,
                                      .add_shard = {.id = s(names.shards[shard]),
                                                    .address = s("h:1"),
                                                    .registered_at = {m->registered[shard], 0}}},
               in ? FLEET_SHARD_EXISTS : FLEET_DONE, !in, -1);
        return;
    }
    struct fleet_command command = {FLEET_REMOVE_SHARD, .remove_shard = s(names.shards[shard])};
    struct fleet_result result = apply(w, &command);
    uint32_t clusters = 0, domains = 0;
    CHECK_U64("removed", result.status, in ? FLEET_DONE : FLEET_SHARD_NOT_FOUND);
    free_of(m->clusters, CLUSTERS, shard, &clusters);
    for (int i = 0; leaves(w) && i < DOMAINS; i++)
        if (m->domains[i] == shard) m->leaving[i][shard] = w->entry.index;
    free_of(m->domains, DOMAINS, shard, &domains);
    m->shards[shard] = false;
    CHECK_U32("clusters", result.clusters_freed, clusters);
    CHECK_U32("domains", result.domains_freed, domains);
}

static void step_cluster(struct world *w)
{
    int shard = (int)prng_below(&w->prng, SHARDS), cluster = (int)prng_below(&w->prng, CLUSTERS);
    struct model *m = &w->model;
    int old = m->clusters[cluster];
    bool bound = m->shards[shard] && old >= 0 && old != shard;

    expect(w,
           (struct fleet_command){FLEET_BIND_CLUSTER, .bind_cluster = {s(names.clusters[cluster]),
                                                                       s(names.shards[shard])}},
           !m->shards[shard] ? FLEET_SHARD_NOT_FOUND
           : bound           ? FLEET_CLUSTER_BOUND
                             : FLEET_DONE,
           m->shards[shard] && old < 0, bound ? old : -1);
    if (m->shards[shard] && old < 0) m->clusters[cluster] = shard;
}

static int first_leaver(const struct model *m, int domain, int except)
{
    for (int shard = 0; shard < SHARDS; shard++)
        if (shard != except && m->leaving[domain][shard]) return shard;
    return -1;
}

static unsigned leavers(const struct model *m, int domain)
{
    unsigned count = 0;

    for (int shard = 0; shard < SHARDS; shard++) count += m->leaving[domain][shard] != 0;
    return count;
}

static void step_domain(struct world *w, uint32_t assign_chance)
{
    int shard = (int)prng_below(&w->prng, SHARDS), domain = (int)prng_below(&w->prng, DOMAINS);
    struct model *m = &w->model;
    int old = m->domains[domain];
    bool taken = m->shards[shard] && old >= 0 && old != shard;
    struct fleet_domain row = {s(names.keys[domain / VALUES]), s(names.values[domain % VALUES]),
                               s(names.shards[shard])};

    if (prng_chance(&w->prng, assign_chance)) {
        bool force = prng_chance(&w->prng, 300000);
        int leaver = first_leaver(m, domain, shard);
        bool waits = leaver >= 0 && !force;
        bool full = leaver >= 0 && force && leavers(m, domain) >= FLEET_LEAVERS_MAX;
        bool done = m->shards[shard] && old < 0 && !waits && !full;

        waits = waits && m->shards[shard] && old < 0;
        full = full && m->shards[shard] && old < 0;
        expect(w, (struct fleet_command){FLEET_ASSIGN_DOMAIN, .force = force, .assign_domain = row},
               !m->shards[shard] ? FLEET_SHARD_NOT_FOUND
               : taken           ? FLEET_DOMAIN_ASSIGNED
               : waits           ? FLEET_DOMAIN_LEAVING
               : full            ? FLEET_FULL
                                 : FLEET_DONE,
               done,
               taken   ? old
               : waits ? leaver
                       : -1);
        if (done) {
            m->domains[domain] = shard;
            m->leaving[domain][shard] = 0;
        }
    } else {
        expect(w, (struct fleet_command){FLEET_UNASSIGN_DOMAIN, .unassign_domain = row}, FLEET_DONE,
               old >= 0, old);
        if (old >= 0 && leaves(w)) m->leaving[domain][old] = w->entry.index;
        m->domains[domain] = -1;
    }
}

/* An acknowledgement, sometimes of an assignment that ended long before. */
static void step_clear(struct world *w)
{
    int domain = (int)prng_below(&w->prng, DOMAINS), shard = (int)prng_below(&w->prng, SHARDS);
    struct model *m = &w->model;
    struct fleet_leaving leaving;
    bool right;

    for (int i = 0; i < DOMAINS * SHARDS / 20 && !m->leaving[domain][shard]; i++) {
        domain = (int)prng_below(&w->prng, DOMAINS);
        shard = (int)prng_below(&w->prng, SHARDS);
    }
    leaving = leaving_of(m, domain, shard);
    right = leaving.since && prng_chance(&w->prng, 900000);
    if (!right) leaving.since++;
    expect(w, (struct fleet_command){FLEET_CLEAR_LEAVING, .clear_leaving = leaving}, FLEET_DONE,
           right, -1);
    if (right) m->leaving[domain][shard] = 0;
}

static void step_old(struct world *w)
{
    struct fleet_slice slices[SHARDS];
    struct model *m = &w->model;
    char address[NAME];

    if (prng_chance(&w->prng, 500000)) {
        int quota = (int)prng_below(&w->prng, QUOTAS);
        size_t count = prng_below(&w->prng, SHARDS);
        memset(m->quotas[quota], -1, sizeof m->quotas[quota]);
        m->quota_set[quota] = true;
        for (size_t i = 0; i < count; i++) { /* in any order, some twice */
            int shard = (int)prng_below(&w->prng, SHARDS);
            slices[i] = (struct fleet_slice){s(names.shards[shard]), (int32_t)i};
            m->quotas[quota][shard] = (int32_t)i;
        }
        expect(w,
               (struct fleet_command){FLEET_SET_QUOTA,
                                      .set_quota = {s(names.quotas[quota]), s("r"), slices, count}},
               FLEET_DONE, true, -1);
    } else {
        int provider = (int)prng_below(&w->prng, PROVIDERS);
        m->providers[provider] = (int)prng_below(&w->prng, 100);
        snprintf(address, sizeof address, "h:%d", m->providers[provider]);
        expect(w,
               (struct fleet_command){
                   FLEET_UPSERT_PROVIDER,
                   .upsert_provider = {s(names.providers[provider]), s(address), s("r")}},
               FLEET_DONE, true, -1);
    }
}

/* -- views -- */
static void watcher_finish(struct watcher *watcher)
{
    struct fleet_row row;
    bool more = true;

    while (more) {
        CHECK_OK("next", fleet_view_next(watcher->view, &row, &more));
        if (more) line(&watcher->got, &row);
    }
    CHECK_STR("a view is of its moment", buf_peek(&watcher->got), buf_peek(&watcher->want));
}

static void watcher_close(struct watcher *watcher)
{
    fleet_view_close(watcher->view);
    watcher->view = NULL;
    buf_deinit(&watcher->got);
    buf_deinit(&watcher->want);
}

static void step_watcher(struct world *w)
{
    struct watcher *watcher = &w->watchers[prng_below(&w->prng, FLEET_VIEWS_MAX)];
    uint64_t rows = prng_below(&w->prng, 200);
    struct fleet_row row;
    bool more = true;

    if (!watcher->view) {
        CHECK_OK("open", fleet_view_open(w->fleet, &watcher->view));
        buf_init(&watcher->want, TEXT);
        buf_init(&watcher->got, TEXT);
        model_rows(&w->model, line_of_row, &watcher->want);
        return;
    }
    for (uint64_t i = 0; i < rows && more; i++) {
        CHECK_OK("next", fleet_view_next(watcher->view, &row, &more));
        if (more) line(&watcher->got, &row);
    }
    if (more && prng_chance(&w->prng, 970000)) return;
    if (!more || prng_chance(&w->prng, 800000)) watcher_finish(watcher);
    watcher_close(watcher); /* or given up half-way */
}

/* -- the whole -- */
static void compare(struct world *w)
{
    struct buf want, got;
    struct fleet *rebuilt;

    buf_init(&want, TEXT);
    buf_init(&got, TEXT);
    model_rows(&w->model, line_of_row, &want);
    fleet_lines(w->fleet, &got);
    CHECK_STR("the tables equal the model, in order", buf_peek(&got), buf_peek(&want));
    CHECK_OK("open", fleet_open(&rebuilt));
    model_rows(&w->model, write_row, rebuilt);
    CHECK_U64("hash of the content alone", fleet_hash(w->fleet), fleet_hash(rebuilt));
    CHECK("counts", memcmp(fleet_counts(w->fleet).of, fleet_counts(rebuilt).of,
                           sizeof(struct fleet_counts)) == 0);
    fleet_close(rebuilt);
    buf_deinit(&want);
    buf_deinit(&got);
}

static void leaving_compare(struct world *w, int shard)
{
    struct fleet_walk walk = {0};
    struct fleet_row leaving;
    uint32_t count = 0;

    for (int i = 0; i < DOMAINS; i++) {
        if (!w->model.leaving[joined[i]][shard]) continue;
        count++;
        CHECK("more",
              fleet_next_of(w->fleet, FLEET_LEAVING, &walk, s(names.shards[shard]), &leaving));
        CHECK_STR("key", leaving.leaving.key, s(names.keys[joined[i] / VALUES]));
        CHECK_STR("value", leaving.leaving.value, s(names.values[joined[i] % VALUES]));
        CHECK_U64("since", leaving.leaving.since, w->model.leaving[joined[i]][shard]);
    }
    CHECK("end", !fleet_next_of(w->fleet, FLEET_LEAVING, &walk, s(names.shards[shard]), &leaving));
    CHECK_U32("counted", fleet_count_leaving(w->fleet, s(names.shards[shard])), count);
}

static void owned_compare(struct world *w)
{
    int shard = (int)prng_below(&w->prng, SHARDS);
    struct fleet_walk walk = {0};
    struct fleet_row domain;
    struct fleet_row cluster;

    for (int i = 0; i < DOMAINS; i++) {
        if (w->model.domains[i] != shard) continue;
        CHECK("more",
              fleet_next_of(w->fleet, FLEET_DOMAINS, &walk, s(names.shards[shard]), &domain));
        CHECK_STR("key", domain.domain.key, s(names.keys[i / VALUES]));
        CHECK_STR("value", domain.domain.value, s(names.values[i % VALUES]));
    }
    CHECK("end", !fleet_next_of(w->fleet, FLEET_DOMAINS, &walk, s(names.shards[shard]), &domain));
    walk = (struct fleet_walk){0};
    for (int i = 0; i < CLUSTERS; i++) {
        if (w->model.clusters[i] != shard) continue;
        CHECK("more",
              fleet_next_of(w->fleet, FLEET_CLUSTERS, &walk, s(names.shards[shard]), &cluster));
        CHECK_STR("cluster", cluster.cluster.id, s(names.clusters[i]));
    }
    CHECK("end", !fleet_next_of(w->fleet, FLEET_CLUSTERS, &walk, s(names.shards[shard]), &cluster));
    leaving_compare(w, shard);
}

static void world_run(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    uint32_t assign_chance;

    assert_non_null(w);
    prng_seed(&w->prng, seed);
    draw_names(&w->prng, names.shards, SHARDS, false);
    draw_names(&w->prng, names.clusters, CLUSTERS, true);
    draw_names(&w->prng, names.keys, KEYS, true);
    draw_names(&w->prng, names.values, VALUES, true);
    draw_names(&w->prng, names.quotas, QUOTAS, true);
    draw_names(&w->prng, names.providers, PROVIDERS, false);
    join_names();
    w->entry.level = seed % 2 ? 1 : FLEET_LEAVING_LEVEL;
    CHECK_OK("open", fleet_open(&w->fleet));
    for (int i = 0; i < CLUSTERS; i++) w->model.clusters[i] = -1;
    for (int i = 0; i < DOMAINS; i++) w->model.domains[i] = -1;
    for (int i = 0; i < PROVIDERS; i++) w->model.providers[i] = -1;
    assign_chance = 200000 + (uint32_t)prng_below(&w->prng, 700000);
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t what = prng_below(&w->prng, 1000);
        if (i % 4000 == 0) assign_chance = 1000000 - assign_chance; /* grow, then shrink */
        if (what < 12 || (i < 100 && what < 500))
            step_shard(w);
        else if (what < 100)
            step_cluster(w);
        else if (what < 120)
            step_old(w);
        else if (what < 200)
            step_watcher(w);
        else if (what < 350)
            step_clear(w);
        else
            step_domain(w, assign_chance);
        if (i % 1000 == 0) compare(w);
        if (i % 100 == 0) owned_compare(w);
    }
    compare(w);
    for (unsigned i = 0; i < FLEET_VIEWS_MAX; i++) {
        if (!w->watchers[i].view) continue;
        watcher_finish(&w->watchers[i]);
        watcher_close(&w->watchers[i]);
    }
    fleet_close(w->fleet); /* asserts that all counted memory was freed */
    free(w);
}

TEST(random_commands_and_views_agree_with_plain_arrays)
{
    uint64_t seed = test_seed();

    for (unsigned i = 0; i < WORLDS; i++) world_run(seed + i);
}
