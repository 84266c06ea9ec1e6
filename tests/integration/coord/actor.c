/* SPDX-License-Identifier: Apache-2.0 */
/* A process that runs commands over <muster/coord.h>: one command a line in, one line of
 * JSON out.
 *
 *   open URL                          create H KEY VALUE TTL OWNER      under H KEY VALUE
 *   cas KEY EXPECTED VALUE TTL H N    delete KEY EXPECTED H             get KEY
 *   acquire H GROUP N OWNER TTL FLAGS renew H   release H   releasekey H KEY   keep H   check H
 *   resize GROUP REV N                holders GROUP                     export H   import H BLOB
 *   watch W SCOPE BUCKET              events W WAIT_MS                  unwatch W
 *   timeout MS    id TEXT             caps      close      time      safe H    fence TOKEN
 *
 * The value "-" means none, and so does the handle "-". `id` sets the request id of the next call.
 * When a kept lease is lost, a line {"lost": H, ...} comes, at any time. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <muster/coord.h>

enum { HANDLES = 2048, WORDS = 8, LINE = 200000 };
static coord_store *store;
static coord_lease *leases[HANDLES];
static coord_watch *watches[HANDLES];
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;
static coord_call call;
static coord_fence fence;

static int64_t now_ms(void)
{
    struct timespec now = {0};

    /* The kernel's clock, not the one of drift.c. */
    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void put_text(const char *text, size_t len)
{
    putchar('"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7e)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void say(const coord_result *r)
{
    printf(
        "{\"code\": \"%s\", \"reason\": \"%s\", \"flags\": %u, \"slot\": %u, \"revision\": %" PRIu64
        ", \"token\": %" PRIu64 ", \"ttl\": %" PRId64
        ", \"live\": %u, \"slot_count\": %u, \"at\": %" PRId64 ", \"owner\": \"%s\", \"text\": ",
        coord_code_name(r->code), coord_reason_name(r->reason), r->flags, r->slot, r->revision,
        r->token, r->granted_ttl_ms, r->live, r->slot_count, now_ms(), r->owner);
    put_text(r->text, strlen(r->text));
}

static void answer(coord_result r)
{
    pthread_mutex_lock(&out);
    say(&r);
    puts("}");
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static coord_str str(const char *text)
{
    return (coord_str){text, strcmp(text, "-") == 0 ? 0 : strlen(text)};
}

static size_t handle(const char *word)
{
    return (size_t)strtoul(word, NULL, 10) % HANDLES;
}

static coord_lease *lease(const char *word)
{
    return strcmp(word, "-") == 0 ? NULL : leases[handle(word)];
}

/* A handle that is used again releases its old lease object. */
static void put_lease(const char *word, coord_lease *made)
{
    if (!made) return;
    coord_lease_unref(leases[handle(word)]);
    leases[handle(word)] = made;
}

static void on_lost(void *arg, coord_lease *which, int reason)
{
    pthread_mutex_lock(&out);
    printf("{\"lost\": %zu, \"reason\": \"%s\", \"at\": %" PRId64 ", \"check\": %d}\n",
           (size_t)(uintptr_t)arg, coord_reason_name(reason), now_ms(), coord_check(which));
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static uint64_t expected_of(const char *word)
{
    if (strcmp(word, "any") == 0) return COORD_ANY;
    return strcmp(word, "force") == 0 ? COORD_FORCE : strtoull(word, NULL, 10);
}

static void do_get(const char *key)
{
    coord_entry *entry = NULL;
    coord_result r = coord_get(store, &call, str(key), COORD_LATEST, &entry);

    pthread_mutex_lock(&out);
    say(&r);
    if (entry) {
        printf(", \"value\": ");
        put_text(entry->value.at, entry->value.len);
        printf(", \"owner_of\": \"%s\", \"ttl_of\": %" PRId64 ", \"created\": %" PRIu64,
               entry->owner, entry->ttl_ms, entry->create_revision);
    }
    puts("}");
    fflush(stdout);
    pthread_mutex_unlock(&out);
    coord_entry_free(entry);
}

static void do_holders(const char *group)
{
    coord_holders *holders = NULL;
    coord_result r = coord_list_holders(store, &call, str(group), &holders);

    pthread_mutex_lock(&out);
    say(&r);
    printf(", \"rows\": [");
    for (size_t i = 0; holders && i < holders->count; i++)
        printf("%s{\"slot\": %u, \"owner\": \"%s\", \"token\": %" PRIu64 "}", i ? ", " : "",
               holders->rows[i].slot, holders->rows[i].owner, holders->rows[i].token);
    puts("]}");
    fflush(stdout);
    pthread_mutex_unlock(&out);
    coord_holders_free(holders);
}

static void do_events(const char *which, int64_t wait_ms)
{
    static const char *const names[] = {"?",   "begin",  "entry",  "end",      "put",
                                        "del", "expire", "resync", "progress", "closed"};
    int64_t until = now_ms() + wait_ms;
    coord_event e;
    bool first = true;

    pthread_mutex_lock(&out);
    printf("{\"events\": [");
    while (now_ms() <= until && coord_watch_next(watches[handle(which)], until - now_ms(), &e)) {
        printf("%s[\"%s\", ", first ? "" : ", ", names[e.type]);
        put_text(e.key.at, e.key.len);
        printf(", %" PRIu64 ", ", e.revision);
        put_text(e.value.at, e.value.len);
        printf(", \"%s\", \"%s\"]", e.owner, coord_reason_name(e.reason));
        first = false;
    }
    puts("]}");
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static void do_export(const char *which)
{
    unsigned char blob[65536];
    size_t len = coord_lease_export(lease(which), blob, sizeof blob);

    pthread_mutex_lock(&out);
    printf("{\"blob\": \"");
    for (size_t i = 0; i < len && i < sizeof blob; i++) printf("%02x", blob[i]);
    puts("\"}");
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static void do_import(const char *which, const char *hex)
{
    unsigned char blob[65536];
    size_t len = strlen(hex) / 2;
    coord_lease *made = NULL;
    coord_result result;

    for (size_t i = 0; i < len && i < sizeof blob; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        blob[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    result = coord_lease_import(store, &call, blob, len, &made);
    put_lease(which, made);
    answer(result);
}

static void do_create(char **w)
{
    coord_lease *made = NULL;
    coord_result result = coord_create_if_absent(store, &call, str(w[2]), str(w[3]),
                                                 strtoll(w[4], NULL, 10), w[5], &made);

    put_lease(w[1], made);
    answer(result);
}

static void do_cas(char **w)
{
    coord_lease *made = NULL;
    coord_result result =
        coord_compare_and_set(store, &call, str(w[1]), strtoull(w[2], NULL, 10), str(w[3]),
                              strtoll(w[4], NULL, 10), "actor", lease(w[5]), &made);

    put_lease(w[6], made);
    answer(result);
}

static void do_acquire(char **w)
{
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_lease *made = NULL;
    coord_result result;

    request.group = str(w[2]);
    request.slot_count = (uint32_t)strtoul(w[3], NULL, 10);
    request.owner = w[4];
    request.ttl_ms = strtoll(w[5], NULL, 10);
    request.flags = (uint32_t)strtoul(w[6], NULL, 10);
    result = coord_acquire_slot(store, &call, &request, &made);
    put_lease(w[1], made);
    answer(result);
}

static void do_caps(void)
{
    coord_caps caps = coord_capabilities(store);

    pthread_mutex_lock(&out);
    printf("{\"bits\": %u, \"scope\": %d, \"watch\": %d, \"degraded\": %d, \"server\": \"%s\"}\n",
           caps.bits, caps.scope, caps.watch, caps.degraded, caps.server);
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static void done(int code)
{
    pthread_mutex_lock(&out);
    printf("{\"done\": %d, \"at\": %" PRId64 "}\n", code, now_ms());
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static bool about_leases(char **w)
{
    if (strcmp(w[0], "renew") == 0)
        answer(coord_renew(lease(w[1]), &call));
    else if (strcmp(w[0], "release") == 0)
        answer(coord_release(lease(w[1]), &call));
    else if (strcmp(w[0], "releasekey") == 0)
        answer(coord_release_key(lease(w[1]), &call, str(w[2])));
    else if (strcmp(w[0], "keep") == 0)
        answer(coord_keep(lease(w[1]), on_lost, (void *)(uintptr_t)handle(w[1])));
    else if (strcmp(w[0], "check") == 0)
        done(coord_check(lease(w[1])));
    else if (strcmp(w[0], "safe") == 0)
        done((int)coord_safe_for_ms(lease(w[1])));
    else if (strcmp(w[0], "fence") == 0)
        done(coord_fence_admit(&fence, strtoull(w[1], NULL, 10)));
    else if (strcmp(w[0], "export") == 0)
        do_export(w[1]);
    else if (strcmp(w[0], "import") == 0)
        do_import(w[1], w[2]);
    else
        return false;
    return true;
}

static bool about_watches(char **w)
{
    if (strcmp(w[0], "watch") == 0) {
        answer(coord_watch_open(store, &call, str(w[2]), w[3][0] == '1' ? COORD_WATCH_BUCKET : 0,
                                &watches[handle(w[1])]));
    } else if (strcmp(w[0], "events") == 0) {
        do_events(w[1], strtoll(w[2], NULL, 10));
    } else if (strcmp(w[0], "unwatch") == 0) {
        coord_watch_close(watches[handle(w[1])]);
        watches[handle(w[1])] = NULL;
        done(0);
    } else {
        return false;
    }
    return true;
}

static bool about_entries(char **w)
{
    if (strcmp(w[0], "create") == 0)
        do_create(w);
    else if (strcmp(w[0], "under") == 0)
        answer(coord_create_under(lease(w[1]), &call, str(w[2]), str(w[3])));
    else if (strcmp(w[0], "cas") == 0)
        do_cas(w);
    else if (strcmp(w[0], "delete") == 0)
        answer(coord_delete(store, &call, str(w[1]), expected_of(w[2]), lease(w[3])));
    else if (strcmp(w[0], "get") == 0)
        do_get(w[1]);
    else if (strcmp(w[0], "acquire") == 0)
        do_acquire(w);
    else if (strcmp(w[0], "resize") == 0)
        answer(coord_resize_group(store, &call, str(w[1]), strtoull(w[2], NULL, 10),
                                  (uint32_t)strtoul(w[3], NULL, 10)));
    else if (strcmp(w[0], "holders") == 0)
        do_holders(w[1]);
    else
        return false;
    return true;
}

static void close_all(void)
{
    for (size_t i = 0; i < HANDLES; i++) {
        coord_watch_close(watches[i]);
        watches[i] = NULL;
    }
    coord_close(store);
    store = NULL;
    for (size_t i = 0; i < HANDLES; i++) {
        coord_lease_unref(leases[i]);
        leases[i] = NULL;
    }
}

int main(void)
{
    static char line[LINE];
    int64_t timeout_ms = 0;

    while (fgets(line, sizeof line, stdin)) {
        char *words[WORDS] = {0}, *save = NULL;
        size_t count = 0;
        for (char *w = strtok_r(line, " \n", &save); w && count < WORDS;
             w = strtok_r(NULL, " \n", &save))
            words[count++] = w;
        while (count < WORDS) words[count++] = "-";
        if (strcmp(words[0], "id") == 0) {
            call.request_id = (coord_id){{1}};
            memcpy(call.request_id.b + 1, words[1], strlen(words[1]) < 15 ? strlen(words[1]) : 15);
            done(0);
            continue;
        }
        call.timeout_ms = timeout_ms;
        if (strcmp(words[0], "open") == 0) {
            coord_options options = {.open_timeout_ms = timeout_ms};
            answer(coord_open(words[1], &options, &store));
        } else if (strcmp(words[0], "timeout") == 0) {
            timeout_ms = strtoll(words[1], NULL, 10);
            done(0);
        } else if (strcmp(words[0], "caps") == 0) {
            do_caps();
        } else if (strcmp(words[0], "close") == 0) {
            close_all();
            done(0);
        } else if (strcmp(words[0], "time") == 0) {
            done(0);
        } else if (!about_entries(words) && !about_leases(words) && !about_watches(words)) {
            done(-1);
        }
        call.request_id = (coord_id){{0}};
    }
    close_all();
    return 0;
}
