/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are kept once and counted: found by their key, made with their first user, gone with
 * their last. Each kind has a table in its owner (the inventory or the needs table), which counts
 * the bytes.
 *
 * An object begins with its link. Its key is bytes of the struct that follow each other without
 * padding, or a text behind the struct, or both. */
#ifndef SHARD_STATE_SHARED_H
#define SHARD_STATE_SHARED_H
#include "base/str.h"
#include "shard/state/table.h"

struct shared_kind {
    size_t size, key, key_size; /* of the struct; where the bytes of the key are in it */
    size_t hash_size;           /* so many of them are hashed; 0: all */
    size_t text, len;           /* in the struct: the text and its uint32_t length; 0: no text */
    size_t table, bytes, seed;  /* in the owner */
    size_t slots, slot;         /* in the owner, in the struct; 0: the objects have no numbers */
    enum err (*born)(void *owner, void *object); /* a new one, before it is found; NULL: nothing */
    void (*gone)(void *owner, void *object);     /* before it leaves its table; NULL: nothing */
    void (*release)(void *owner, void *object);  /* gives what the struct holds; NULL: nothing */
    struct { /* shared objects that it points to, given with it; kind NULL: no more */
        const struct shared_kind *kind;
        size_t offset;
    } parts[2];
};
#define SHARED_KEY(type, first, last)                                                              \
    .key = offsetof(struct type, first), .key_size = offsetof(struct type, last) +                 \
                                                     sizeof((struct type *)0)->last -              \
                                                     offsetof(struct type, first)
#define SHARED_TEXT(type, length, characters)                                                      \
    .text = offsetof(struct type, characters), .len = offsetof(struct type, length)
#define SHARED_TABLE(owner, objects, type)                                                         \
    .size = sizeof(struct type), .table = offsetof(struct owner, objects),                         \
    .bytes = offsetof(struct owner, bytes), .seed = offsetof(struct owner, options.seed)
#define SHARED_PART(kind, type, member)                                                            \
    {                                                                                              \
        &(kind), offsetof(struct type, member)                                                     \
    }
#define SHARED_SLOTS(owner, numbers, type)                                                         \
    .slots = offsetof(struct owner, numbers), .slot = offsetof(struct type, slot)

/* Finds the object with the key of `like` and the text, or makes it of `like`, and counts it once
 * more. `err` is that of taking the parts of `like`, which are taken over whatever the answer.
 * *ret_pointer, a pointer to such an object, is set on success. `err`, ERR_NOMEM, the errors of
 * `born`. */
enum err shared_take(enum err err, void *owner, const struct shared_kind *kind, void *own_like,
                     struct str text, void *ret_pointer);
void shared_give(void *owner, const struct shared_kind *kind, void *object); /* NULL is fine */
void *shared_find(const void *owner, const struct shared_kind *kind, const void *like,
                  struct str text); /* NULL: none */
#endif
