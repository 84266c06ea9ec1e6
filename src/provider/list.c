/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a MachineList as it arrives: wire/message.h splits it into machines, machine_wire.h reads
 * each machine. Tombstones are read at the end. Runs on the thread that merges machines. */
#include "provider/list.h"

#include <stdlib.h>

#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

/* Limit of decoded tombstones, as a multiple of their encoded size. */
enum { REST_GROWTH = 8, REST_FLOOR = 64 << 10 };

struct provider_list {
    struct machine_reader *reader;
    struct provider_list_events events;
    void *context;
    struct message_stream *stream;
    struct arena rest;
    uint64_t machines, refused, unnamed;
};

static void list_refuse(struct provider_list *list, struct str bytes, const char *why)
{
    struct str id = machine_read_id(bytes);

    list->refused++;
    if (id.len == 0) list->unnamed++;
    list->events.on_refused(list->context, id, why);
}

static enum err on_element(void *owner, struct str bytes, size_t len)
{
    struct provider_list *list = owner;
    struct machine_record record;
    struct note note = {""};
    enum err err;

    if (len > bytes.len) {
        note_set(&note, "%zu bytes, at most %d are allowed", len, PROVIDER_MACHINE_MAX);
        list_refuse(list, bytes, note.text);
        return ERR_OK;
    }
    err = machine_read(list->reader, bytes, &record, &note);
    if (err == ERR_NOMEM) return err;
    if (!err) err = id_check("id", record.machine.id, ID_MAX, &note);
    if (err) {
        list_refuse(list, bytes, note.text);
        return ERR_OK;
    }
    list->machines++;
    return list->events.on_machine(list->context, &record);
}

enum err provider_list_open(struct machine_reader *reader,
                            const struct provider_list_events *events, void *context,
                            struct provider_list **ret_list)
{
    struct provider_list *list = calloc(1, sizeof *list);
    enum err err;

    if (!list) return ERR_NOMEM;
    list->reader = reader;
    list->events = *events;
    list->context = context;
    arena_init(&list->rest, (size_t)PROVIDER_REMOVED_MAX * REST_GROWTH + REST_FLOOR);
    err = message_stream_open_raw(&bigfleet__v1alpha1__machine_list__descriptor, "machines",
                                  PROVIDER_MACHINE_MAX, PROVIDER_REMOVED_MAX, on_element, list,
                                  &list->stream);
    if (err) {
        provider_list_close(list);
        return err;
    }
    *ret_list = list;
    return ERR_OK;
}

void provider_list_close(struct provider_list *list)
{
    if (!list) return;
    message_stream_close(list->stream);
    arena_deinit(&list->rest);
    free(list);
}

enum err provider_list_feed(struct provider_list *list, struct str bytes, struct note *note)
{
    return message_stream_feed(list->stream, bytes, note);
}

static void list_report_removed(struct provider_list *list,
                                const Bigfleet__V1alpha1__MachineList *message)
{
    for (size_t i = 0; i < message->n_removed_ids; i++) {
        struct str id = str_from(message->removed_ids[i]);
        if (id_check("removed_ids", id, ID_MAX, NULL) == ERR_OK)
            list->events.on_removed(list->context, id);
        else
            list->events.on_refused(list->context, STR_EMPTY, "removed_ids: no id");
    }
}

static struct str view(const ProtobufCBinaryData *bytes)
{
    return bytes->len > 0 ? str_of(bytes->data, bytes->len) : STR_EMPTY;
}

enum err provider_list_finish(struct provider_list *list, struct provider_list_end *ret_end,
                              struct note *note)
{
    const Bigfleet__V1alpha1__MachineList *message;
    ProtobufCMessage *rest;
    enum err err = message_stream_end(list->stream, &list->rest, &rest, note);

    if (err) return err;
    message = (const Bigfleet__V1alpha1__MachineList *)rest;
    if (message->more && message->next_page.len == 0)
        return note_fail(note, ERR_PARSE, "more: without a next_page");
    list_report_removed(list, message);
    *ret_end = (struct provider_list_end){
        .machines = list->machines,
        .refused = list->refused,
        .removed = message->n_removed_ids,
        .whole = list->unnamed == 0,
        .more = message->more,
        .next_page = view(&message->next_page),
        .cursor = message->tombstones ? view(&message->revision) : STR_EMPTY,
        .revision = view(&message->revision),
        .tombstones = message->tombstones,
    };
    return ERR_OK;
}
