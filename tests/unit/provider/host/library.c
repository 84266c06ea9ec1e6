/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>

#include "provider/host/operation.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

static const struct label plain_resources[] = {{{"cpu", 3}, {"2", 1}}, {{"memory", 6}, {"8Gi", 3}}};
static const struct label plain_labels[] = {{{"rack", 4}, {"r1", 2}}};
const struct offer plain_offer = {
    .instance_type = {"m5.large", 8},
    .zone = {"z1", 2},
    .capacity_type = CAPACITY_ON_DEMAND,
    .price_per_hour = 0.096,
    .resources = plain_resources,
    .resource_count = 2,
    .labels = plain_labels,
    .label_count = 1,
};
static const struct book_options options = {
    .seed = 1, .identity = 0xabcd, .boot = 7, .provider = "test", .keeps_blobs = true};

struct book *library_open(void)
{
    return library_replay(STR_EMPTY);
}

struct book *library_replay(struct str changes)
{
    struct book *book = NULL;
    struct note note = {.text = ""};

    CHECK_OK("open", book_open(&options, &book));
    check_err(note.text, book_replay(book, changes, &note), ERR_OK, "replay", __FILE__, __LINE__);
    check_err(note.text, book_loaded(book), ERR_OK, "loaded", __FILE__, __LINE__);
    return book;
}

void library_offer(struct book *book, const char *id)
{
    struct note note = {.text = ""};
    enum err err = book_see(book, SEEN_OFFERED, str_from(id), &plain_offer, STR_EMPTY, &note);

    check_err(note.text, err, ERR_OK, "offer", __FILE__, __LINE__);
}

static ProtobufCMessage *decode(const ProtobufCMessageDescriptor *type, struct str bytes,
                                struct arena *arena)
{
    ProtobufCMessage *message = NULL;
    struct note note = {.text = ""};
    enum err err = message_read(type, bytes, NULL, arena, &message, &note);

    check_err(note.text, err, ERR_OK, "decode", __FILE__, __LINE__);
    return message;
}

struct asked library_ask(struct book *book, const struct book_request *request)
{
    struct asked asked = {.why = ""};
    struct note note = {.text = ""};
    struct arena arena;
    struct buf bytes;

    arena_init(&arena, 8 << 20);
    buf_init(&bytes, 8 << 20);
    asked.answer = book_ask(book, request, NULL, &bytes, &note);
    snprintf(asked.why, sizeof asked.why, "%s", note.text);
    CHECK("an answer or a reason", (asked.answer.status == GRPC_OK) == (bytes.len > 0));
    if (bytes.len > 0) {
        const Bigfleet__V1alpha1__TransitionAck *ack = (const void *)decode(
            &bigfleet__v1alpha1__transition_ack__descriptor, buf_peek(&bytes), &arena);
        snprintf(asked.operation, sizeof asked.operation, "%s", ack->operation_id);
        asked.state = (enum machine_state)ack->machine->state;
    }
    buf_deinit(&bytes);
    arena_deinit(&arena);
    return asked;
}

struct asked library_call(struct book *book, enum operation_kind kind, const char *id)
{
    return library_ask(book, &(struct book_request){.kind = kind,
                                                    .machine_id = str_from(id),
                                                    .shard = STR_EMPTY,
                                                    .cluster = STR("c1"),
                                                    .blob = STR_EMPTY});
}

void library_end(struct book *book, struct operation_ticket operation)
{
    const struct operation_end end = {.host = STR_EMPTY, .error = STR_EMPTY};
    enum err err;

    CHECK("under way", book_end(book, operation, &end, &err));
    CHECK_OK("ended", err);
}

void library_bring(struct book *book, const char *id, enum machine_state state)
{
    static const enum operation_kind way[] = {OPERATION_CREATE, OPERATION_CONFIGURE};

    for (size_t i = 0; i < ARRAY_LEN(way); i++) {
        struct asked asked;

        if (state == operation_moves[way[i]].from) return;
        asked = library_call(book, way[i], id);
        CHECK_U32(asked.why, asked.answer.status, GRPC_OK);
        if (state == operation_moves[way[i]].passing) return;
        library_end(book, asked.answer.operation);
    }
}

static int by_id(const void *a, const void *b)
{
    const Bigfleet__V1alpha1__Machine *const *left = a, *const *right = b;
    return strcmp((*left)->id, (*right)->id);
}

static void write_machine(const Bigfleet__V1alpha1__Machine *m, struct buf *into)
{
    char name[MACHINE_NAME_CAP];

    buf_appendf(into, "%s %s", m->id, machine_state_name((uint32_t)m->state, name));
    if (m->host) buf_appendf(into, " %s", m->host->ref);
    if (m->cluster[0]) buf_appendf(into, " %s", m->cluster);
    for (size_t i = 0; i < m->n_shard_metadata; i++) {
        buf_appendf(into, " %.*s=", (int)m->shard_metadata[i]->key.len,
                    (const char *)m->shard_metadata[i]->key.data);
        buf_append(into, str_of(m->shard_metadata[i]->value.data, m->shard_metadata[i]->value.len));
    }
    if (m->last_error[0]) buf_appendf(into, " '%s'", m->last_error);
    if (strcmp(m->instance_type, "m5.large") != 0) buf_appendf(into, " (%s)", m->instance_type);
    CHECK("a type, always", m->instance_type[0]);
    buf_append(into, STR(" | "));
}

static void take_revision(const ProtobufCBinaryData *from, char to[64])
{
    snprintf(to, 64, "%.*s", (int)from->len, (const char *)from->data);
}

void library_list(struct book *book, const struct book_filter *filter, struct listing *ret)
{
    struct book_walk *walk = NULL;
    struct note note = {.text = ""};
    Bigfleet__V1alpha1__MachineList *list;
    struct arena arena;
    struct buf bytes;
    size_t before;

    *ret = (struct listing){.count = 0};
    buf_init(&ret->text, 64 << 20);
    arena_init(&arena, 512 << 20);
    buf_init(&bytes, 64 << 20);
    check_err(note.text, book_walk_open(book, filter, &walk, &note), ERR_OK, "list", __FILE__,
              __LINE__);
    do {
        before = bytes.len;
        CHECK_OK("next", book_walk_next(walk, 100, &bytes));
    } while (bytes.len > before);
    CHECK_U64("as long as announced", bytes.len, book_walk_total(walk));
    book_walk_close(walk);
    list = (void *)decode(&bigfleet__v1alpha1__machine_list__descriptor, buf_peek(&bytes), &arena);
    if (list->n_machines > 0)
        qsort(list->machines, list->n_machines, sizeof list->machines[0], by_id);
    for (size_t i = 0; i < list->n_machines; i++) write_machine(list->machines[i], &ret->text);
    for (size_t i = 0; i < list->n_removed_ids; i++)
        buf_appendf(&ret->text, "gone %s | ", list->removed_ids[i]);
    buf_append_byte(&ret->text, '\0'); /* NUL-terminated, too */
    ret->text.len--;
    ret->count = list->n_machines;
    ret->tombstones = list->tombstones;
    ret->more = list->more;
    take_revision(&list->revision, ret->revision);
    take_revision(&list->next_page, ret->next_page);
    buf_deinit(&bytes);
    arena_deinit(&arena);
}

void listing_free(struct listing *listing)
{
    buf_deinit(&listing->text);
}

static enum err dump_operation(void *context, const struct backend_machine *machine,
                               struct operation_ticket operation)
{
    struct buf *into = ((void **)context)[0];
    struct book *book = ((void **)context)[1];
    struct backend_operation op;
    struct arena arena;
    enum err err;

    if (!operation.number) return ERR_OK;
    arena_init(&arena, 4 << 20);
    CHECK("under way", book_operation(book, operation, &arena, &op, &err));
    buf_appendf(into, "%.*s op-%llu grace %llu blob %zu metadata %zu | ", STR_ARG(machine->id),
                (unsigned long long)operation.number, (unsigned long long)op.grace_ms, op.blob.len,
                op.metadata_count);
    arena_deinit(&arena);
    return ERR_OK;
}

void library_dump(struct book *book, struct buf *into)
{
    struct book_stats stats = book_stats(book);
    struct buf operations;
    struct listing listing;
    void *context[2] = {&operations, book};

    library_list(book, &(struct book_filter){.since = STR_EMPTY, .page_token = STR_EMPTY},
                 &listing);
    buf_append(into, buf_peek(&listing.text));
    buf_init(&operations, 64 << 20);
    CHECK_OK("each", book_each(book, dump_operation, context));
    /* Operations have no order: compares their number and the sum of bytes. */
    buf_appendf(into, "\nrevision %s operations %llu, %zu bytes, blobs %llu", listing.revision,
                (unsigned long long)stats.operations, operations.len,
                (unsigned long long)stats.blob_bytes);
    buf_appendf(into, " tombstones %llu strangers %llu", (unsigned long long)stats.tombstones,
                (unsigned long long)stats.strangers);
    for (int i = 0; i < MACHINE_STATE_COUNT; i++)
        buf_appendf(into, " %llu", (unsigned long long)stats.machines[i]);
    buf_deinit(&operations);
    listing_free(&listing);
}
