/* SPDX-License-Identifier: Apache-2.0 */
/* A host for a backend under test: a real loop, and a list of everything that was reported to it.
 * */
#ifndef TESTS_UNIT_PROVIDER_FAKE_HOST_H
#define TESTS_UNIT_PROVIDER_FAKE_HOST_H
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../io/rig.h"
#include "base/map.h"
#include "provider/host/operation.h"

enum { REPORTED_MAX = 256, FAKE_TRIES = 60000 };
struct reported {
    uint64_t number; /* 0: a sighting */
    bool failed;
    enum sighting what;
    char id[256], text[400]; /* the error or the reason; or the host */
    char type[64], label[64];
};
struct fake_host {
    struct backend_host face;
    struct rig rig;
    struct backend *backend;
    struct reported reported[REPORTED_MAX];
    size_t count;
    bool inside; /* a call of the backend's */
    uint64_t number;
};

static inline struct reported *fake_next(struct backend_host *face)
{
    struct fake_host *host = CONTAINER_OF(face, struct fake_host, face);

    CHECK("never from inside", !host->inside);
    CHECK("room", host->count < REPORTED_MAX);
    return &host->reported[host->count++];
}

static inline void fake_done(struct backend_host *face, struct operation_ticket ticket,
                             const struct operation_end *end)
{
    struct reported *reported = fake_next(face);
    struct str text = end->failed ? end->error : end->host;

    CHECK("a failure has a message", !end->failed || end->error.len > 0);
    reported->number = ticket.number;
    reported->failed = end->failed;
    snprintf(reported->text, sizeof reported->text, "%.*s", STR_ARG(text));
}

static inline enum err fake_seen(struct backend_host *face, enum sighting what, struct str id,
                                 const struct offer *offer, struct str why, struct note *note)
{
    struct reported *reported = fake_next(face);

    (void)note;
    reported->what = what;
    snprintf(reported->id, sizeof reported->id, "%.*s", STR_ARG(id));
    snprintf(reported->text, sizeof reported->text, "%.*s", STR_ARG(why));
    if (!offer) return ERR_OK;
    snprintf(reported->type, sizeof reported->type, "%.*s", STR_ARG(offer->instance_type));
    if (offer->label_count > 0)
        snprintf(reported->label, sizeof reported->label, "%.*s=%.*s",
                 STR_ARG(offer->labels[0].key), STR_ARG(offer->labels[0].value));
    return ERR_OK;
}

static inline void fake_open(struct fake_host *host)
{
    *host = (struct fake_host){.face = {fake_done, fake_seen}};
    rig_open(&host->rig);
}

static inline void fake_take(struct fake_host *host, struct backend *backend)
{
    host->backend = backend;
    backend->host = &host->face;
    host->count = 0;
}

static inline void fake_close(struct fake_host *host)
{
    host->inside = true;
    if (host->backend) host->backend->ops->close(host->backend);
    host->backend = NULL;
    host->inside = false;
    rig_close(&host->rig);
}

static const struct offer fake_offer = {.instance_type = {"local", 5},
                                        .capacity_type = CAPACITY_ON_DEMAND};

/* The number of the operation. */
static inline uint64_t fake_start(struct fake_host *host, struct backend_operation operation,
                                  const char *id)
{
    struct operation_end refused = {.failed = true};
    struct note note = {""};
    enum err err;

    operation.ticket.number = ++host->number;
    operation.machine.id = str_from(id);
    operation.machine.state = operation_moves[operation.kind].passing;
    if (!operation.machine.offer) operation.machine.offer = &fake_offer;
    host->inside = true;
    err = host->backend->ops->start(host->backend, &operation, &note);
    host->inside = false;
    refused.error = str_from(note.text[0] ? note.text : err_text(err));
    if (err) fake_done(&host->face, operation.ticket, &refused); /* as the host ends it */
    return operation.ticket.number;
}

static inline const struct reported *fake_find(const struct fake_host *host, uint64_t number)
{
    for (size_t i = 0; i < host->count; i++)
        if (host->reported[i].number == number) return &host->reported[i];
    return NULL;
}

/* The condition may change outside the loop, without waking it. */
#define FAKE_UNTIL(why, host, condition)                                                           \
    do {                                                                                           \
        const struct timespec pause_ = {.tv_nsec = 1000000};                                       \
        for (int tries_ = 0; tries_ < FAKE_TRIES && !(condition); tries_++) {                      \
            real_io_turn((host)->rig.real, false);                                                 \
            nanosleep(&pause_, NULL);                                                              \
        }                                                                                          \
        CHECK(why, condition);                                                                     \
    } while (0)

/* How it ended. */
static inline const struct reported *fake_await(struct fake_host *host, uint64_t number)
{
    FAKE_UNTIL("it is done", host, fake_find(host, number));
    return fake_find(host, number);
}

static inline const struct reported *fake_do(struct fake_host *host,
                                             struct backend_operation operation, const char *id)
{
    return fake_await(host, fake_start(host, operation, id));
}

static inline const struct reported *fake_sighting(const struct fake_host *host, const char *id,
                                                   enum sighting what)
{
    for (size_t i = 0; i < host->count; i++)
        if (!host->reported[i].number && host->reported[i].what == what &&
            strcmp(host->reported[i].id, id) == 0)
            return &host->reported[i];
    return NULL;
}

/* -- files -- */

static inline const char *in_dir(const char *name)
{
    static char paths[8][600];
    static int turn;

    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", test_dir(), name);
    return paths[turn];
}

static inline void write_text(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    if (!file) abort();
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

static inline const char *read_text(const char *path)
{
    static char text[64 * 1024];
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;

    if (file) fclose(file);
    text[len] = '\0';
    return text;
}
#endif
