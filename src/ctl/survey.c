/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the coordinators one question after the other, and all shards at the same time. Uses the
 * caller's thread, and one thread for each shard during a round. */
#include "ctl/survey.h"

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ctl/explain.h"
#include "io/fs.h"
#include "io/real.h"

#define CLAIMS_END "muster0" /* the byte after '/' is '0' */

enum { CLAIMS_MAX = 200, CACHE_MAX = 1 << 20 };
static const size_t survey_memory_max = (size_t)1 << 30;

static const struct remote_method methods[SURVEY_PARTS] = {
    [SURVEY_REPLICAS] = REMOTE_READS(FLEET_PATH "ListReplicas", muster__v1__list_replicas),
    [SURVEY_SHARDS] = REMOTE_READS(COORDINATOR_PATH "ListShards", bigfleet__v1alpha1__list_shards),
    [SURVEY_MEMBERS] = REMOTE_READS(MEMBERSHIP_PATH "ClusterStatus", muster__v1__cluster_status),
    [SURVEY_WORKERS] = REMOTE_READS(MEMBERSHIP_PATH "ListWorkers", muster__v1__list_workers),
    [SURVEY_STORE] = REMOTE_READS(STORE_PATH "Status", muster__v1__status),
    [SURVEY_CLAIMS] = REMOTE_READS(STORE_PATH "Range", muster__v1__range),
    [SURVEY_OWNERSHIP] =
        REMOTE_READS(FLEET_PATH "ListOwnershipIssues", muster__v1__list_ownership_issues),
};

static_assert(offsetof(struct ctl_survey, ownership) ==
                  offsetof(struct ctl_survey, said[SURVEY_OWNERSHIP]),
              "the answers by their types are in the order of the parts");

enum err ctl_survey_open(struct ctl_survey *survey, const struct conf *conf, struct note *note)
{
    *survey = (struct ctl_survey){.conf = conf};
    arena_init(&survey->memory, survey_memory_max);
    return remote_open(conf, NULL, &survey->remote, note);
}

static void survey_shard_close(struct survey_shard *shard)
{
    remote_close(shard->remote);
    arena_deinit(&shard->memory);
}

void ctl_survey_close(struct ctl_survey *survey)
{
    for (size_t i = 0; i < survey->shard_count; i++) survey_shard_close(&survey->shards[i]);
    remote_close(survey->remote);
    arena_deinit(&survey->memory);
}

/* -- the coordinators -- */

static enum err survey_ask_part(struct ctl_survey *survey, enum survey_part part)
{
    Muster__V1__RangeRequest range = MUSTER__V1__RANGE_REQUEST__INIT;
    uint8_t from[] = SURVEY_CLAIMS_PREFIX, end[] = CLAIMS_END;
    ProtobufCMessage *answer = NULL;
    enum err err;

    range.key = (ProtobufCBinaryData){sizeof from - 1, from};
    range.range_end = (ProtobufCBinaryData){sizeof end - 1, end};
    range.limit = CLAIMS_MAX;
    range.keys_only = true;
    err = remote_call(survey->remote, &methods[part], part == SURVEY_CLAIMS ? &range.base : NULL,
                      &survey->memory, &answer, &survey->why[part]);
    survey->said[part] = err ? NULL : answer;
    return err;
}

static void survey_ask_coordinators(struct ctl_survey *survey)
{
    for (size_t i = 0; i < SURVEY_PARTS; i++) {
        enum err err = survey_ask_part(survey, (enum survey_part)i);

        if (err != ERR_UNAVAILABLE && err != ERR_TIMEOUT && err != ERR_NOT_LEADER) continue;
        /* Without a coordinator further questions would wait for the same error. */
        for (size_t rest = i + 1; rest < SURVEY_PARTS; rest++) {
            survey->said[rest] = NULL;
            survey->why[rest] = survey->why[i];
        }
        return;
    }
}

/* -- the shards -- */

static bool survey_is_listed(const Bigfleet__V1alpha1__ListShardsResponse *list,
                             const struct survey_shard *shard)
{
    for (size_t i = 0; i < list->n_shards; i++)
        if (strcmp(list->shards[i]->shard_id, shard->id) == 0 &&
            strcmp(list->shards[i]->address, shard->address) == 0)
            return true;
    return false;
}

static bool survey_is_known(const struct ctl_survey *survey,
                            const Bigfleet__V1alpha1__ShardRegistryEntry *e)
{
    for (size_t i = 0; i < survey->shard_count; i++)
        if (strcmp(survey->shards[i].id, e->shard_id) == 0) return true;
    return false;
}

static void survey_add(struct ctl_survey *survey, const char *id, const char *address)
{
    struct survey_shard *shard = &survey->shards[survey->shard_count];

    if (survey->shard_count == SURVEY_SHARDS_MAX || strlen(id) >= SURVEY_ID_CAP ||
        strlen(address) >= SURVEY_ADDRESS_CAP) {
        survey->shards_left_out++;
        return;
    }
    *shard = (struct survey_shard){.conf = survey->conf};
    arena_init(&shard->memory, survey_memory_max / SURVEY_SHARDS_MAX);
    snprintf(shard->id, sizeof shard->id, "%s", id);
    snprintf(shard->address, sizeof shard->address, "%s", address);
    survey->shard_count++;
}

static void survey_take_list(struct ctl_survey *survey,
                             const Bigfleet__V1alpha1__ListShardsResponse *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < survey->shard_count; i++) {
        if (survey_is_listed(list, &survey->shards[i]))
            survey->shards[kept++] = survey->shards[i];
        else
            survey_shard_close(&survey->shards[i]);
    }
    survey->shard_count = kept;
    survey->shards_left_out = 0;
    for (size_t i = 0; i < list->n_shards; i++)
        if (!survey_is_known(survey, list->shards[i]))
            survey_add(survey, list->shards[i]->shard_id, list->shards[i]->address);
}

static void *survey_ask_shard(void *argument)
{
    struct survey_shard *shard = argument;
    ProtobufCMessage *answer = NULL;
    enum err err = ERR_OK;

    shard->said = NULL;
    arena_reset(&shard->memory);
    if (!shard->address[0]) {
        shard->err = note_fail(&shard->why, ERR_UNAVAILABLE, "its address is not known");
        return NULL;
    }
    if (!shard->remote)
        err = remote_open_at(shard->conf, REMOTE_SHARD, shard->address, 1, &shard->remote,
                             &shard->why);
    if (!err)
        err = remote_call(shard->remote,
                          REMOTE_READ_OF("/muster.v1.ShardView/Status", muster__v1__shard_status),
                          NULL, &shard->memory, &answer, &shard->why);
    if (!err) shard->said = (const void *)answer;
    shard->err = err;
    return NULL;
}

static void survey_ask_listed(struct ctl_survey *survey)
{
    pthread_t threads[SURVEY_SHARDS_MAX];
    bool begun[SURVEY_SHARDS_MAX];

    for (size_t i = 0; i < survey->shard_count; i++)
        begun[i] = pthread_create(&threads[i], NULL, survey_ask_shard, &survey->shards[i]) == 0;
    for (size_t i = 0; i < survey->shard_count; i++)
        if (begun[i])
            (void)pthread_join(threads[i], NULL);
        else
            (void)survey_ask_shard(&survey->shards[i]); /* without a thread, ask in turn */
}

void ctl_survey_ask(struct ctl_survey *survey)
{
    arena_reset(&survey->memory);
    survey_ask_coordinators(survey);
    if (survey->listed) survey_take_list(survey, survey->listed);
    survey_ask_listed(survey);
}

/* True for "host:port" and "unix:/path". Any other text is a shard's name. */
static bool survey_is_address(const char *text)
{
    const char *colon = strrchr(text, ':');

    return colon && (strncmp(text, "unix:/", 6) == 0 ||
                     (colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1)));
}

/* -- the shards that the coordinators listed last, for the time when none of them answers -- */

/* The user's cache has a file for each value of --coordinator. False: there is no such directory. */
static bool survey_cache_path(const struct ctl_survey *survey, char path[FS_PATH_CAP])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct option_value list = conf_list(survey->conf, "coordinator");
    uint64_t hash = 0;

    for (size_t i = 0; i < list.item_count; i++) hash = str_hash(list.items[i], hash);
    return (cache || home) &&
           snprintf(path, FS_PATH_CAP, "%s%s/muster/shards-%016" PRIx64, cache ? cache : home,
                    cache ? "" : "/.cache", hash) < FS_PATH_CAP;
}

/* A failure is no error, because the coordinators have answered. */
static void survey_cache_write(struct ctl_survey *survey)
{
    char path[FS_PATH_CAP];
    struct buf now, before;

    if (!survey_cache_path(survey, path)) return;
    for (size_t i = 0; i < survey->listed->n_shards; i++)
        survey->listed->shards[i]->last_heartbeat_unix_ns = 0; /* it changes all the time */
    buf_init(&now, CACHE_MAX);
    buf_init(&before, CACHE_MAX + 1);
    (void)fs_read_whole(fs_real(), path, CACHE_MAX, &before);
    if (!message_write(&survey->listed->base, &now, NULL) &&
        !str_equal(buf_peek(&now), buf_peek(&before)) &&
        !fs_make_parent(fs_real(), path, 0700, NULL))
        (void)fs_publish(fs_real(), path, buf_peek(&now), 0600, entropy_u64(entropy_real()));
    buf_deinit(&now);
    buf_deinit(&before);
}

static bool survey_cache_read(struct ctl_survey *survey)
{
    ProtobufCMessage *list = NULL;
    char path[FS_PATH_CAP];
    struct buf bytes;

    buf_init(&bytes, CACHE_MAX + 1);
    if (survey_cache_path(survey, path) && !fs_read_whole(fs_real(), path, CACHE_MAX, &bytes) &&
        message_read(methods[SURVEY_SHARDS].answer, buf_peek(&bytes), NULL, &survey->memory, &list,
                     NULL))
        list = NULL;
    buf_deinit(&bytes);
    survey->said[SURVEY_SHARDS] = list;
    return list != NULL;
}

/* Fills in the shard named `wanted`; NULL: every shard. */
static enum err survey_look_up(struct ctl_survey *survey, const char *wanted, struct note *note)
{
    enum err err = survey_ask_part(survey, SURVEY_SHARDS);
    struct nearest_names near = {.wanted = wanted};
    char hint[EXPLAIN_HINT_CAP];

    if (!err) {
        survey_cache_write(survey);
    } else if (survey_cache_read(survey)) {
        fprintf(stderr, "no coordinator answers; shards are asked where they were last\n");
    } else {
        *note = survey->why[SURVEY_SHARDS];
        note_prefix(note,
                    wanted ? "only coordinators know the address of --shard %s; give the address"
                           : "only coordinators know the shards; --shard ADDRESS needs none",
                    wanted);
        return err;
    }
    if (!wanted) {
        survey_take_list(survey, survey->listed);
        return ERR_OK;
    }
    for (size_t i = 0; i < survey->listed->n_shards; i++) {
        const Bigfleet__V1alpha1__ShardRegistryEntry *e = survey->listed->shards[i];
        nearest_names_offer(&near, e->shard_id);
        if (strcmp(e->shard_id, wanted) == 0) survey_add(survey, e->shard_id, e->address);
    }
    if (survey->shard_count) return ERR_OK;
    return note_fail(note, ERR_NOT_FOUND, "no shard %s is registered%s", wanted,
                     nearest_names_hint(&near, hint));
}

bool ctl_survey_answers(const struct survey_shard *shard)
{
    return shard->said || shard->err == ERR_UNSUPPORTED;
}

enum err ctl_survey_ask_shards(struct ctl_survey *survey, struct note *note)
{
    const char *wanted = conf_text(survey->conf, "shard");
    enum err err = ERR_OK;

    arena_reset(&survey->memory);
    if (wanted && survey_is_address(wanted))
        survey_add(survey, wanted, wanted);
    else
        err = survey_look_up(survey, wanted, note);
    if (err) return err;
    survey_ask_listed(survey);
    for (size_t i = 0; i < survey->shard_count; i++)
        if (ctl_survey_answers(&survey->shards[i])) return ERR_OK;
    if (survey->shard_count == 0) return ERR_OK;
    *note = survey->shards[0].why;
    return survey->shards[0].err;
}

/* -- small facts -- */

uint64_t ctl_survey_count(size_t count, Muster__V1__NamedCount *const *counts, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(counts[i]->name, name) == 0) return counts[i]->count;
    return 0;
}

const Muster__V1__Replica *ctl_survey_leader(const Muster__V1__ListReplicasResponse *list)
{
    for (size_t i = 0; i < list->n_replicas; i++)
        if (list->replicas[i]->leader) return list->replicas[i];
    return NULL;
}

uint64_t ctl_survey_lag(const Muster__V1__ListReplicasResponse *list, const Muster__V1__Replica *of)
{
    uint64_t furthest = 0;

    for (size_t i = 0; i < list->n_replicas; i++)
        furthest = max_u64(furthest, list->replicas[i]->match);
    return furthest - min_u64(furthest, of->match);
}
