/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a very large message element by element.
 *
 * The bytes are split at the fields of the outermost level. Elements are passed on, gathered only
 * if a chunk cuts them. All other fields are kept for one ordinary decode at the end. */
#include <stdlib.h>
#include <string.h>

#include "wire/message_impl.h"

struct message_stream {
    const ProtobufCMessageDescriptor *type;
    const ProtobufCFieldDescriptor *field;
    message_raw_fn *each;
    void *owner;
    size_t element_max;
    uint64_t count;
    enum err failed;
    uint8_t head[HEAD_BYTES]; /* received part of an incomplete field head */
    uint32_t head_len;
    uint32_t missing; /* payload bytes still to come */
    uint32_t skipped; /* payload bytes beyond element_max, which are dropped */
    bool in_element;  /* the payload goes to `element`; if not, to `rest` */
    struct buf element, rest;
};

enum err message_stream_open_raw(const ProtobufCMessageDescriptor *type, const char *field,
                                 size_t element_max, size_t rest_max, message_raw_fn *each,
                                 void *owner, struct message_stream **ret_stream)
{
    const ProtobufCFieldDescriptor *found =
        protobuf_c_message_descriptor_get_field_by_name(type, field);
    struct message_stream *s;

    if (!found || found->label != PROTOBUF_C_LABEL_REPEATED ||
        found->type != PROTOBUF_C_TYPE_MESSAGE)
        return ERR_INVALID;
    s = calloc(1, sizeof *s);
    if (!s) return ERR_NOMEM;
    s->type = type;
    s->field = found;
    s->each = each;
    s->owner = owner;
    s->element_max = min_size(element_max, INT32_MAX);
    buf_init(&s->element, s->element_max);
    buf_init(&s->rest, min_size(rest_max, INT32_MAX));
    *ret_stream = s;
    return ERR_OK;
}

void message_stream_close(struct message_stream *stream)
{
    if (!stream) return;
    buf_deinit(&stream->rest);
    buf_deinit(&stream->element);
    free(stream);
}

static enum err message_stream_pass(struct message_stream *s, struct str bytes, struct note *note)
{
    enum err err = s->each(s->owner, bytes, bytes.len + s->skipped);

    if (!err) {
        s->count++;
        return ERR_OK;
    }
    return note_fail(note, err, "%s[%llu]: %s", s->field->name, (unsigned long long)s->count,
                     err_text(err));
}

static enum err no_memory(const struct message_stream *s, struct note *note)
{
    return note_fail(note, ERR_NOMEM, "%s: out of memory", s->type->name);
}

static enum err message_stream_keep(struct message_stream *s, const uint8_t *at, size_t len,
                                    struct note *note)
{
    return buf_append(&s->rest, str_of(at, len)) ? no_memory(s, note) : ERR_OK;
}

/* A payload that is too long is refused, or cut if it is an element. */
static enum err begin_field(struct message_stream *s, const uint8_t *bytes,
                            const struct field_head *head, struct note *note)
{
    s->missing = head->payload;
    s->skipped = 0;
    s->in_element = head->number == s->field->id;
    if (!s->in_element) {
        if (head->len + (size_t)head->payload <= s->rest.max - s->rest.len)
            return message_stream_keep(s, bytes, head->len, note);
        return note_fail(note, ERR_TOO_LARGE, "%s: fields beside %s are more than %zu bytes",
                         s->type->name, s->field->name, s->rest.max);
    }
    if (head->wire != WIRE_LEN)
        return note_fail(note, ERR_PARSE, "%s[%llu]: wrong wire type", s->field->name,
                         (unsigned long long)s->count);
    if (head->payload > s->element_max) s->skipped = head->payload - (uint32_t)s->element_max;
    return ERR_OK;
}

/* *ret_begun: the head is complete. */
static enum err message_stream_take_head(struct message_stream *s, struct str *bytes,
                                         bool *ret_begun, struct note *note)
{
    const uint8_t *at = (const uint8_t *)bytes->at;
    size_t held = s->head_len, take = min_size(bytes->len, HEAD_BYTES - held);
    const char *problem = NULL;
    struct field_head head;
    enum head_state state;
    enum err err;

    if (held > 0) { /* the head came in pieces: join them */
        memcpy(s->head + held, at, take);
        state = head_read(s->head, s->head + held + take, &head, &problem);
    } else {
        state = head_read(at, at + bytes->len, &head, &problem);
    }
    if (state == HEAD_BAD) return note_fail(note, ERR_PARSE, "%s: %s", s->type->name, problem);
    *ret_begun = state == HEAD_WHOLE;
    if (state == HEAD_MORE) { /* an incomplete head fits into s->head */
        if (held == 0) memcpy(s->head, at, take);
        s->head_len = (uint32_t)(held + take);
        *bytes = str_tail(*bytes, take);
        return ERR_OK;
    }
    err = begin_field(s, held > 0 ? s->head : at, &head, note);
    s->head_len = 0;
    *bytes = str_tail(*bytes, head.len - held);
    return err;
}

static enum err take_payload(struct message_stream *s, struct str *bytes, struct note *note)
{
    struct str part = {bytes->at, min_size(bytes->len, s->missing)};
    bool whole = s->in_element && s->element.len == 0 && part.len == s->missing && !s->skipped;
    enum err err;

    *bytes = str_tail(*bytes, part.len);
    s->missing -= (uint32_t)part.len;
    if (!s->in_element) return message_stream_keep(s, (const uint8_t *)part.at, part.len, note);
    if (whole) return message_stream_pass(s, part, note);
    if (s->skipped) part.len = min_size(part.len, s->element_max - s->element.len);
    if (buf_append(&s->element, part)) return no_memory(s, note);
    if (s->missing > 0) return ERR_OK;
    err = message_stream_pass(s, buf_peek(&s->element), note);
    buf_clear(&s->element);
    return err;
}

enum err message_stream_feed(struct message_stream *stream, struct str bytes, struct note *note)
{
    enum err err = stream->failed;

    if (err) note_set(note, "%s: failed before", stream->type->name);
    while (!err && bytes.len > 0) {
        bool begun = true;
        if (stream->missing == 0) err = message_stream_take_head(stream, &bytes, &begun, note);
        /* An empty element has no payload to wait for. */
        if (!err && begun && (stream->missing > 0 || stream->in_element))
            err = take_payload(stream, &bytes, note);
    }
    stream->failed = err;
    return err;
}

enum err message_stream_end(struct message_stream *stream, struct arena *arena,
                            ProtobufCMessage **ret_rest, struct note *note)
{
    if (stream->failed) {
        note_set(note, "%s: failed before", stream->type->name);
        return stream->failed;
    }
    if (stream->head_len > 0 || stream->missing > 0) {
        if (stream->missing > 0 && stream->in_element)
            note_set(note, "%s[%llu]: cut short", stream->field->name,
                     (unsigned long long)stream->count);
        else
            note_set(note, "%s: cut short", stream->type->name);
        return ERR_PARSE;
    }
    return message_read(stream->type, buf_peek(&stream->rest), NULL, arena, ret_rest, note);
}
