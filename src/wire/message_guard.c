/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: one pass over the encoded bytes, driven by the generated descriptor.
 *
 * No recursion: a nested message pushes a frame on a bounded stack. The path of an error is found
 * afterwards by scanning the levels again, so that valid messages cost nothing. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "wire/message_impl.h"

enum { PATH_CAP = 200, NAME_CAP = 80 };

struct frame {
    const ProtobufCMessageDescriptor *type;
    const ProtobufCFieldDescriptor *last; /* first guess for the next field */
    const uint8_t *start, *end;
    uint64_t seen; /* singular sub-messages found, one bit per field index */
};
struct walk {
    const uint8_t *at;    /* next byte to read */
    const uint8_t *field; /* the field being checked */
    const char *problem;
    uint32_t depth, depth_max; /* index of the deepest frame in use, and its limit */
    uint32_t fields_left;
    struct frame frames[MESSAGE_DEPTH_MOST];
};

/* -- single values -- */

static const uint8_t wire_of_type[] = {
    [PROTOBUF_C_TYPE_INT32] = WIRE_VARINT,  [PROTOBUF_C_TYPE_SINT32] = WIRE_VARINT,
    [PROTOBUF_C_TYPE_SFIXED32] = WIRE_I32,  [PROTOBUF_C_TYPE_INT64] = WIRE_VARINT,
    [PROTOBUF_C_TYPE_SINT64] = WIRE_VARINT, [PROTOBUF_C_TYPE_SFIXED64] = WIRE_I64,
    [PROTOBUF_C_TYPE_UINT32] = WIRE_VARINT, [PROTOBUF_C_TYPE_FIXED32] = WIRE_I32,
    [PROTOBUF_C_TYPE_UINT64] = WIRE_VARINT, [PROTOBUF_C_TYPE_FIXED64] = WIRE_I64,
    [PROTOBUF_C_TYPE_FLOAT] = WIRE_I32,     [PROTOBUF_C_TYPE_DOUBLE] = WIRE_I64,
    [PROTOBUF_C_TYPE_BOOL] = WIRE_VARINT,   [PROTOBUF_C_TYPE_ENUM] = WIRE_VARINT,
    [PROTOBUF_C_TYPE_STRING] = WIRE_LEN,    [PROTOBUF_C_TYPE_BYTES] = WIRE_LEN,
    [PROTOBUF_C_TYPE_MESSAGE] = WIRE_LEN,
};

/* True if no byte of the word is NUL or above 127. A good word can fail the test (a byte after a
 * NUL), a bad word never passes. */
static bool is_plain_word(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    return (((word - ones) | word) & high) == 0;
}

static bool is_plain(const uint8_t *at, uint32_t len)
{
    const uint8_t *last;
    uint64_t word;

    if (len < 4) {
        for (; len > 0; at++, len--)
            if (*at == 0 || *at >= 0x80) return false;
        return true;
    }
    if (len < 8) {
        uint32_t front, back;
        memcpy(&front, at, 4);
        memcpy(&back, at + len - 4, 4);
        return is_plain_word((uint64_t)front << 32 | back);
    }
    last = at + len - 8; /* the last word may overlap the word before */
    for (; at < last; at += 8) {
        memcpy(&word, at, 8);
        if (!is_plain_word(word)) return false;
    }
    memcpy(&word, last, 8);
    return is_plain_word(word);
}

static const char *text_problem(const uint8_t *at, uint32_t len, bool nul_allowed)
{
    if (is_plain(at, len)) return NULL;
    if (!nul_allowed && memchr(at, 0, len)) return "holds a NUL byte";
    return str_is_utf8(str_of(at, len)) ? NULL : "not UTF-8";
}

bool is_text_as_bytes(const ProtobufCMessageDescriptor *type, uint32_t number)
{
    for (const struct text_field *t = text_as_bytes; t->message; t++)
        if (t->number == number && strcmp(t->message, type->name) == 0) return true;
    return false;
}

/* Checks that the elements of a packed field are complete, and counts them. */
static enum err check_packed(struct walk *w, const uint8_t *at, uint32_t len, enum wire_type wire)
{
    const uint8_t *end = at + len;
    uint32_t count = 0, size = wire == WIRE_I64 ? 8 : 4;

    if (wire != WIRE_VARINT) {
        count = len / size;
        if (len % size) return w->problem = "packed values are cut short", ERR_PARSE;
    } else {
        for (uint32_t step; at < end; at += step, count++) {
            step = varint_len(at, end, VARINT_BYTES);
            if (step == 0) return w->problem = "packed values are cut short", ERR_PARSE;
            if (step > VARINT_BYTES) return w->problem = "number longer than ten bytes", ERR_PARSE;
        }
    }
    if (count > w->fields_left) return w->problem = "too many fields", ERR_TOO_LARGE;
    w->fields_left -= count;
    return ERR_OK;
}

/* -- the walk -- */

static void frame_open(struct frame *f, const ProtobufCMessageDescriptor *type,
                       const uint8_t *start, size_t len)
{
    f->type = type;
    f->last = type->n_fields ? type->fields : NULL;
    f->start = start;
    f->end = start + len;
    f->seen = 0;
}

static const ProtobufCFieldDescriptor *find_field(struct frame *f, uint32_t number)
{
    const ProtobufCFieldDescriptor *field = f->last;

    if (field) {
        if (field->id == number) return field;
        field++;
        if (field < f->type->fields + f->type->n_fields && field->id == number)
            return f->last = field;
    }
    field = protobuf_c_message_descriptor_get_field(f->type, number);
    if (field) f->last = field;
    return field;
}

/* protobuf-c loses data when it merges a sub-message that is given twice. No encoder writes such
 * messages. */
static enum err enter(struct walk *w, struct frame *f, const ProtobufCFieldDescriptor *field,
                      uint32_t len)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        size_t index = (size_t)(field - f->type->fields);
        assert(index < 64); /* muster's largest message has 34 fields */
        if (f->seen >> index & 1) return w->problem = "given twice", ERR_PARSE;
        f->seen |= (uint64_t)1 << index;
    }
    if (w->depth == w->depth_max) return w->problem = "nested too deeply", ERR_PARSE;
    frame_open(&w->frames[++w->depth], field->descriptor, w->at, len);
    return ERR_OK;
}

static enum err check_field(struct walk *w, struct frame *f)
{
    struct field_head head;
    const ProtobufCFieldDescriptor *field;
    const uint8_t *payload;
    enum wire_type wire;

    w->field = w->at;
    switch (head_read(w->at, f->end, &head, &w->problem)) {
    case HEAD_WHOLE: break;
    case HEAD_MORE: return w->problem = "cut short", ERR_PARSE;
    case HEAD_BAD: return ERR_PARSE;
    }
    payload = w->at + head.len;
    if (head.payload > (size_t)(f->end - payload)) return w->problem = "cut short", ERR_PARSE;
    if (w->fields_left == 0) return w->problem = "too many fields", ERR_TOO_LARGE;
    w->fields_left--;
    w->at = payload + head.payload;
    field = find_field(f, head.number);
    if (!field) return ERR_OK;
    wire = (enum wire_type)wire_of_type[field->type];
    if (head.wire != wire) {
        if (head.wire == WIRE_LEN && field->label == PROTOBUF_C_LABEL_REPEATED)
            return check_packed(w, payload, head.payload, wire);
        return w->problem = "wrong wire type", ERR_PARSE;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: w->problem = text_problem(payload, head.payload, false); break;
    case PROTOBUF_C_TYPE_BYTES:
        if (is_text_as_bytes(f->type, head.number))
            w->problem = text_problem(payload, head.payload, true);
        break;
    case PROTOBUF_C_TYPE_MESSAGE: w->at = payload; return enter(w, f, field, head.payload);
    default: break;
    }
    return w->problem ? ERR_PARSE : ERR_OK;
}

static enum err walk_run(struct walk *w)
{
    enum err err = ERR_OK;

    while (!err) {
        struct frame *f = &w->frames[w->depth];
        if (w->at < f->end) {
            err = check_field(w, f);
        } else {
            assert(w->at == f->end);
            if (w->depth == 0) return ERR_OK;
            w->depth--;
        }
    }
    return err;
}

/* -- the path of an error -- */

struct path {
    char text[PATH_CAP];
    char last[NAME_CAP];
    bool skipped; /* `text` is full: components before `last` are missing */
};

static void path_add(struct path *p)
{
    size_t len = strlen(p->text), more = strlen(p->last);

    if (p->skipped || len + more + 2 > sizeof p->text) {
        p->skipped = p->skipped || more > 0;
        return;
    }
    memcpy(p->text + len, p->last, more + 1);
    if (more > 0) memcpy(p->text + len + more, ".", 2);
}

static void path_name(struct path *p, const struct frame *f, const uint8_t *place)
{
    const ProtobufCFieldDescriptor *field;
    const char *problem = NULL;
    struct field_head found, head;
    uint64_t index = 0;

    path_add(p);
    p->last[0] = '\0';
    head_read(place, f->end, &found, &problem);
    if (found.number == 0) return; /* no valid tag at `place` */
    field = protobuf_c_message_descriptor_get_field(f->type, found.number);
    if (!field) {
        snprintf(p->last, sizeof p->last, "#%u", found.number);
        return;
    }
    for (const uint8_t *at = f->start; at < place; at += head.len + head.payload) {
        if (head_read(at, f->end, &head, &problem) != HEAD_WHOLE) break;
        if (head.number == found.number) index++;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED && wire_of_type[field->type] == WIRE_LEN)
        snprintf(p->last, sizeof p->last, "%s[%llu]", field->name, (unsigned long long)index);
    else
        snprintf(p->last, sizeof p->last, "%s", field->name);
}

static const uint8_t *field_before(const struct frame *f, const uint8_t *payload)
{
    const char *problem = NULL;
    const uint8_t *at = f->start;
    struct field_head head;

    while (head_read(at, f->end, &head, &problem) == HEAD_WHOLE && at + head.len != payload)
        at += head.len + head.payload;
    return at;
}

static void guard_note_path(const struct walk *w, struct note *note)
{
    struct path path = {"", "", false};

    if (!note) return;
    for (uint32_t level = 0; level <= w->depth; level++) {
        const struct frame *f = &w->frames[level];
        path_name(&path, f,
                  level < w->depth ? field_before(f, w->frames[level + 1].start) : w->field);
    }
    if (path.last[0] == '\0' && path.text[0] != '\0')
        path.text[strlen(path.text) - 1] = '\0'; /* cuts the final dot */
    if (path.text[0] == '\0' && path.last[0] == '\0')
        snprintf(path.last, sizeof path.last, "%s", w->frames[0].type->name);
    note_set(note, "%s%s%s: %s", path.text, path.skipped ? "..." : "", path.last, w->problem);
}

enum err message_guard(const ProtobufCMessageDescriptor *type, struct str bytes,
                       const struct message_limits *limits, struct note *note)
{
    struct walk w; /* not zeroed: each frame is written when it is entered */
    uint32_t depth = limits ? limits->depth_max : 0, fields = limits ? limits->fields_max : 0;
    enum err err;

    assert(type->magic == PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC);
    if (bytes.len > INT32_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%s: larger than 2 GiB", type->name);
    if (depth == 0) depth = MESSAGE_DEPTH_USUAL;
    if (depth > MESSAGE_DEPTH_MOST) depth = MESSAGE_DEPTH_MOST;
    if (!bytes.at) bytes = STR_EMPTY;
    w.at = w.field = (const uint8_t *)bytes.at;
    w.problem = NULL;
    w.depth = 0;
    w.depth_max = depth - 1;
    w.fields_left = fields ? fields : MESSAGE_FIELDS_USUAL;
    frame_open(&w.frames[0], type, w.at, bytes.len);
    err = walk_run(&w);
    if (err) guard_note_path(&w, note);
    return err;
}
