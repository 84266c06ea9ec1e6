/* SPDX-License-Identifier: Apache-2.0 */
/* Stores answers in a ring by age and in a map by request id. Answers never change, so views point
 * to them, and the last view frees dropped answers. Runs during apply. */
#include "fleet/answers.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/map.h"

enum { ANSWERS_HEAD = 4 };

struct answer {               /* stored in encoded form */
    struct answer *next_gone; /* links dropped answers that a view may still use */
    size_t len;
    char bytes[]; /* the encoded answer, then its key: kind and id */
};
struct fleet_answers {
    size_t max, first, count; /* first: index of the oldest answer in the ring */
    struct answer **ring;
    struct map by_key; /* key: one byte for the kind, then the request id */
    size_t views;
    struct answer *gone;
};
struct fleet_answers_view {
    struct fleet_answers *answers;
    size_t next, count;
    struct answer *at[];
};

/* The key is stored behind the encoding, where kind and id are separate. */
static struct str key_of(const struct answer *answer)
{
    size_t id_len = (uint8_t)answer->bytes[1];

    return str_of(answer->bytes + answer->len, 1 + id_len);
}

static struct str make_key(uint8_t kind, struct str id, char key[1 + FLEET_ANSWER_ID_MAX])
{
    key[0] = (char)kind;
    memcpy(key + 1, id.at, id.len);
    return str_of(key, 1 + id.len);
}

static struct answer *make_answer(uint8_t kind, struct str id, struct str reply)
{
    size_t len = ANSWERS_HEAD + id.len + reply.len;
    struct answer *answer = malloc(sizeof *answer + len + 1 + id.len);

    if (!answer) return NULL;
    answer->next_gone = NULL;
    answer->len = len;
    answer->bytes[0] = (char)kind;
    answer->bytes[1] = (char)id.len;
    store_le16(answer->bytes + 2, (uint16_t)reply.len);
    memcpy(answer->bytes + ANSWERS_HEAD, id.at, id.len);
    if (reply.len) memcpy(answer->bytes + ANSWERS_HEAD + id.len, reply.at, reply.len);
    make_key(kind, id, answer->bytes + len);
    return answer;
}

/* -- life -- */

enum err fleet_answers_open(size_t max, struct fleet_answers **ret_answers)
{
    struct fleet_answers *answers = calloc(1, sizeof *answers);

    assert(max > 0 && max <= FLEET_ANSWERS_MAX);
    if (!answers) return ERR_NOMEM;
    answers->max = max;
    answers->ring = calloc(max, sizeof(struct answer *));
    if (!answers->ring) {
        free(answers);
        return ERR_NOMEM;
    }
    map_init(&answers->by_key, max, 0); /* fixed seed: simulated runs must be repeatable */
    *ret_answers = answers;
    return ERR_OK;
}

static void forget_oldest(struct fleet_answers *answers)
{
    struct answer *oldest = answers->ring[answers->first];
    void *was = map_remove(&answers->by_key, key_of(oldest));

    assert(was == oldest);
    answers->first = (answers->first + 1) % answers->max;
    answers->count--;
    if (answers->views) {
        oldest->next_gone = answers->gone;
        answers->gone = oldest;
    } else {
        free(oldest);
    }
}

void fleet_answers_clear(struct fleet_answers *answers)
{
    while (answers->count) forget_oldest(answers);
    assert(map_count(&answers->by_key) == 0);
}

void fleet_answers_close(struct fleet_answers *answers)
{
    if (!answers) return;
    assert(answers->views == 0);
    fleet_answers_clear(answers);
    map_deinit(&answers->by_key);
    free(answers->ring);
    free(answers);
}

size_t fleet_answers_count(const struct fleet_answers *answers)
{
    return answers->count;
}

/* -- finding and putting -- */

bool fleet_answers_find(const struct fleet_answers *answers, uint8_t kind, struct str id,
                        struct str *ret_reply)
{
    char key[1 + FLEET_ANSWER_ID_MAX];
    const struct answer *answer;

    assert(id.len <= FLEET_ANSWER_ID_MAX);
    answer = map_get(&answers->by_key, make_key(kind, id, key));
    if (!answer) return false;
    *ret_reply = str_of(answer->bytes + ANSWERS_HEAD + id.len, answer->len - ANSWERS_HEAD - id.len);
    return true;
}

enum err fleet_answers_put(struct fleet_answers *answers, uint8_t kind, struct str id,
                           struct str reply)
{
    struct answer *answer;
    struct str there;
    enum err err;

    assert(id.len > 0 && id.len <= FLEET_ANSWER_ID_MAX && reply.len <= FLEET_ANSWER_REPLY_MAX);
    if (fleet_answers_find(answers, kind, id, &there)) return ERR_OK;
    answer = make_answer(kind, id, reply);
    if (!answer) return ERR_NOMEM;
    if (answers->count == answers->max) forget_oldest(answers);
    err = map_put(&answers->by_key, key_of(answer), answer);
    if (err) {
        free(answer);
        return err;
    }
    answers->ring[(answers->first + answers->count) % answers->max] = answer;
    answers->count++;
    return ERR_OK;
}

/* -- views -- */

enum err fleet_answers_view_open(struct fleet_answers *answers,
                                 struct fleet_answers_view **ret_view)
{
    struct fleet_answers_view *view =
        malloc(sizeof *view + answers->count * sizeof(struct answer *));

    if (!view) return ERR_NOMEM;
    view->answers = answers;
    view->next = 0;
    view->count = answers->count;
    for (size_t i = 0; i < view->count; i++)
        view->at[i] = answers->ring[(answers->first + i) % answers->max];
    answers->views++;
    *ret_view = view;
    return ERR_OK;
}

enum err fleet_answers_view_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct fleet_answers_view *view = opaque;
    size_t start = into->len;

    while (view->next < view->count && (into->len == start || into->len - start < budget)) {
        const struct answer *answer = view->at[view->next];
        enum err err = buf_append(into, str_of(answer->bytes, answer->len));

        if (err) return err;
        view->next++;
    }
    *ret_done = view->next == view->count;
    return ERR_OK;
}

void fleet_answers_view_close(void *opaque)
{
    struct fleet_answers_view *view = opaque;
    struct fleet_answers *answers;

    if (!view) return;
    answers = view->answers;
    assert(answers->views > 0);
    answers->views--;
    free(view);
    if (answers->views) return;
    while (answers->gone) {
        struct answer *gone = answers->gone;

        answers->gone = gone->next_gone;
        free(gone);
    }
}

/* -- restore -- */

enum err fleet_answers_take(void *answers, struct str bytes, size_t *ret_taken, struct note *note)
{
    size_t taken = 0;

    while (bytes.len - taken >= ANSWERS_HEAD) {
        const char *head = bytes.at + taken;
        size_t id_len = (uint8_t)head[1], reply_len = load_le16(head + 2);
        struct str id, reply;
        enum err err;

        if (id_len == 0 || id_len > FLEET_ANSWER_ID_MAX || reply_len > FLEET_ANSWER_REPLY_MAX)
            return note_fail(note, ERR_CORRUPT, "answers: id of %zu bytes, reply of %zu", id_len,
                             reply_len);
        if (bytes.len - taken < ANSWERS_HEAD + id_len + reply_len) break;
        id = str_of(head + ANSWERS_HEAD, id_len);
        reply = str_of(head + ANSWERS_HEAD + id_len, reply_len);
        err = fleet_answers_put(answers, (uint8_t)head[0], id, reply);
        if (err) return err;
        taken += ANSWERS_HEAD + id_len + reply_len;
    }
    *ret_taken = taken;
    return ERR_OK;
}
