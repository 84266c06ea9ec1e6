/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the answers of a NATS server (decode.h). Pure: no I/O, any thread. ERR_PARSE: a field
 * is missing on which a guarantee depends. */
#include "prim/nats/decode.h"

#include <stdio.h>

#include "prim/answer.h"
#include "text/base64.h"
#include "text/json.h"
#include "text/rfc3339.h"

static struct str string_at(const struct json *json, const char *path)
{
    struct str text;
    return json_get_string(json, path, &text, NULL) == ERR_OK ? text : STR_EMPTY;
}

/* 0: missing, or no number. */
static int64_t number_at(const struct json *json, const char *path)
{
    int64_t number;
    return json_get_i64(json, path, &number, NULL) == ERR_OK ? number : 0;
}

static bool truth_at(const struct json *json, const char *path)
{
    bool truth;
    return json_get_bool(json, path, &truth, NULL) == ERR_OK && truth;
}

/* True: neither absent, null nor empty. */
static bool is_set(const struct json *json, const char *path)
{
    const struct json *value = json_find(json, path);
    if (value == NULL || json_kind(value) == JSON_KIND_NULL) return false;
    bool container = json_kind(value) == JSON_KIND_OBJECT || json_kind(value) == JSON_KIND_ARRAY;
    return !container || json_count(value) > 0;
}

static enum err open_answer(struct str text, struct json **ret_json, struct jet_error *ret_error,
                            struct note *note)
{
    struct json *json;
    *ret_error = (struct jet_error){0};
    enum err err = json_open(text, JET_ANSWER_MAX, &json, note);
    if (err) return err == ERR_NOMEM ? err : ERR_PARSE;
    if (json_kind(json) != JSON_KIND_OBJECT) {
        json_close(json);
        return note_fail(note, ERR_PARSE, "an answer that is no object");
    }
    if (is_set(json, "error")) {
        int64_t code = number_at(json, "error.code"), number = number_at(json, "error.err_code");
        /* An error without a valid code is still an error. */
        ret_error->code = code > 0 && code < 1000 ? (uint32_t)code : 500;
        ret_error->number = number > 0 && number < 1000000 ? (uint32_t)number : 0;
        prim_copy_printable(ret_error->text, sizeof ret_error->text,
                            string_at(json, "error.description"));
    }
    *ret_json = json;
    return ERR_OK;
}

/* Parses "2026-11-15T20:47:38.7617445Z"; 0: anything else. */
static int64_t unix_ms_of(struct str text)
{
    int64_t seconds;
    uint32_t nanos;

    if (!str_ends(text, STR("Z")) || rfc3339_parse(text, &seconds, &nanos) || seconds < 0) return 0;
    return seconds * 1000 + nanos / 1000000;
}

enum err jet_decode_account(struct str text, struct jet_account *ret, struct note *note)
{
    struct jet_account account = {0};
    struct json *json;
    enum err err = open_answer(text, &json, &account.error, note);
    if (err) return err;
    if (account.error.code == 0) {
        const struct json *api;
        err = json_get_object(json, "api", &api, note) ? ERR_PARSE : ERR_OK;
        int64_t level = number_at(json, "api.level");
        account.level = level > 0 ? (uint64_t)level : 0;
    }
    json_close(json);
    if (err == ERR_OK) *ret = account;
    return err;
}

static const char *stream_fault(const struct json *json, bool mine)
{
    if (!mine) return "its subjects are not those of the bucket alone";
    if (is_set(json, "config.mirror")) return "it mirrors another stream";
    if (is_set(json, "config.sources")) return "it has sources";
    if (is_set(json, "config.subject_transform")) return "it transforms subjects";
    if (number_at(json, "config.max_msgs_per_subject") != 1)
        return "max_msgs_per_subject must be 1 (history 1): an older value must not come back";
    if (!truth_at(json, "config.deny_delete")) return "deny_delete must be set";
    if (!truth_at(json, "config.allow_rollup_hdrs")) return "allow_rollup_hdrs must be set";
    if (!str_equal(string_at(json, "config.discard"), STR("new")))
        return "discard must be 'new': the old must not make room by itself";
    if (truth_at(json, "config.discard_new_per_subject"))
        return "discard_new_per_subject would refuse every update";
    if (!str_equal(string_at(json, "config.retention"), STR("limits")))
        return "retention must be 'limits'";
    if (number_at(json, "config.max_age") != 0)
        return "max_age must be 0: entries without a lease would end by themselves";
    if (truth_at(json, "config.no_ack")) return "no_ack must not be set";
    if (truth_at(json, "config.sealed")) return "it is sealed";
    if (truth_at(json, "config.allow_msg_counter")) return "it holds counters";
    return "";
}

enum err jet_decode_stream(struct str text, struct str bucket, struct jet_stream *ret,
                           struct note *note)
{
    struct jet_stream stream = {0};
    struct json *json;
    enum err err = open_answer(text, &json, &stream.error, note);
    if (err) return err;
    const struct json *config;
    if (stream.error.code == 0 && json_get_object(json, "config", &config, note)) {
        err = ERR_PARSE;
    } else if (stream.error.code == 0) {
        char subject[128];
        (void)snprintf(subject, sizeof subject, "$KV.%.*s.>", STR_ARG(bucket));
        const struct json *subjects = json_find(json, "config.subjects");
        stream.mine = subjects != NULL && json_count(subjects) == 1 &&
                      str_equal(string_at(subjects, "0"), str_from(subject));
        prim_copy_printable(stream.fault, sizeof stream.fault,
                            str_from(stream_fault(json, stream.mine)));
        stream.message_ttl = truth_at(json, "config.allow_msg_ttl") &&
                             number_at(json, "config.subject_delete_marker_ttl") >= 1000000000;
        int64_t replicas = number_at(json, "config.num_replicas");
        stream.replicas = replicas > 1 ? (uint64_t)replicas : 1;
        stream.on_disk = str_equal(string_at(json, "config.storage"), STR("file")) &&
                         !str_equal(string_at(json, "config.persist_mode"), STR("async"));
        int64_t message_max = number_at(json, "config.max_msg_size");
        stream.message_max = message_max > 0 ? (uint64_t)message_max : 0;
        prim_copy_printable(stream.created, sizeof stream.created, string_at(json, "created"));
        stream.now_ms = unix_ms_of(string_at(json, "ts"));
        const struct json *metadata = json_find(json, "config.metadata");
        const struct json *version =
            metadata == NULL ? NULL : json_member(metadata, STR("_nats.ver"));
        if (version != NULL)
            prim_copy_printable(stream.version, sizeof stream.version, string_at(version, ""));
        if (stream.created[0] == '\0') {
            note_set(note, "a stream without a time of creation");
            err = ERR_PARSE;
        }
    }
    json_close(json);
    if (err == ERR_OK) *ret = stream;
    return err;
}

enum err jet_decode_ack(struct str text, struct jet_ack *ret, struct note *note)
{
    struct jet_ack ack = {0};
    struct json *json;
    enum err err = open_answer(text, &json, &ack.error, note);
    if (err) return err;
    int64_t sequence = number_at(json, "seq");
    json_close(json);
    if (ack.error.code == 0 && sequence <= 0)
        return note_fail(note, ERR_PARSE, "an acknowledgement without a sequence");
    ack.sequence = ack.error.code == 0 ? (uint64_t)sequence : 0;
    *ret = ack;
    return ERR_OK;
}

enum err jet_decode_consumer(struct str text, struct jet_consumer *ret, struct note *note)
{
    struct jet_consumer consumer = {0};
    struct json *json;
    enum err err = open_answer(text, &json, &consumer.error, note);
    if (err) return err;
    if (consumer.error.code == 0) {
        struct str name = string_at(json, "name");
        int64_t pending = number_at(json, "num_pending");
        consumer.pending = pending > 0 ? (uint64_t)pending : 0;
        if (name.len == 0 || name.len >= sizeof consumer.name ||
            name.len != strspn(name.at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        "0123456789-_")) {
            note_set(note, "a consumer without a name");
            err = ERR_PARSE;
        } else {
            prim_copy_printable(consumer.name, sizeof consumer.name, name);
        }
    }
    json_close(json);
    if (err == ERR_OK) *ret = consumer;
    return err;
}

struct str jet_header(struct str block, struct str name)
{
    struct str rest = block, line;
    bool first = true;
    while (str_split(&rest, '\n', &line)) {
        size_t colon = str_find(line, ':');
        if (!first && colon < line.len && str_equal_nocase(str_trim(str_of(line.at, colon)), name))
            return str_trim(str_tail(line, colon + 1));
        first = false; /* "NATS/1.0" with a status */
    }
    return STR_EMPTY;
}

/* A lease with a shorter TTL than this store grants counts as foreign, because a renewal would
 * write this TTL again. */
static bool is_too_short(const struct claim_envelope *envelope)
{
    return (envelope->flags & (ENVELOPE_LEASED | ENVELOPE_TOMBSTONE)) == ENVELOPE_LEASED &&
           envelope->ttl_ms < JET_TTL_MIN_MS;
}

void jet_seen_of(const struct claim_envelope *envelope, uint64_t sequence,
                 struct prim_seen *ret_seen)
{
    struct prim_seen seen = {.kind = PRIM_SEEN_LIVE, .envelope = *envelope, .sequence = sequence};
    seen.left_ms = -1;
    seen.revision = envelope->revision > 0 ? envelope->revision : sequence;
    seen.create_revision = envelope->token > 0 ? envelope->token : seen.revision;
    if (envelope->flags & ENVELOPE_TOMBSTONE) {
        seen.kind = PRIM_SEEN_TOMBSTONE;
    } else if (envelope->flags & ENVELOPE_LEASED) {
        seen.token = seen.create_revision;
        seen.ttl_ms = envelope->ttl_ms;
    }
    *ret_seen = seen;
}

void jet_state_of(uint64_t sequence, struct str marker, struct str operation, struct str payload,
                  struct jet_state *ret_state)
{
    struct prim_seen seen = {.kind = PRIM_SEEN_FOREIGN, .sequence = sequence, .left_ms = -1};
    struct claim_envelope envelope;
    if (marker.len > 0) {
        seen.kind = str_equal(marker, STR("MaxAge")) ? PRIM_SEEN_EXPIRED : PRIM_SEEN_DELETED;
    } else if (str_equal(operation, STR("DEL")) || str_equal(operation, STR("PURGE"))) {
        seen.kind = PRIM_SEEN_DELETED;
    } else if (envelope_decode(payload, &envelope) == ERR_OK && envelope.revision <= sequence &&
               envelope.token <= sequence && !is_too_short(&envelope)) {
        jet_seen_of(&envelope, sequence, &seen);
    }
    *ret_state = (struct jet_state){.seen = seen};
}

enum err jet_decode_message(struct str text, struct buf *memory, struct jet_error *ret_error,
                            struct jet_state *ret_state, struct note *note)
{
    struct jet_error error;
    struct jet_state state = {.seen = {.kind = PRIM_SEEN_NOTHING, .left_ms = -1}};
    struct json *json;
    buf_clear(memory);
    enum err err = open_answer(text, &json, &error, note);
    if (err) return err;
    if (error.code == 0) {
        int64_t sequence = number_at(json, "message.seq");
        err = base64_decode(string_at(json, "message.hdrs"), memory);
        size_t headers_len = memory->len;
        if (err == ERR_OK) err = base64_decode(string_at(json, "message.data"), memory);
        if (err == ERR_OK && sequence > 0) {
            struct str headers = str_of(buf_peek(memory).at, headers_len);
            jet_state_of((uint64_t)sequence, jet_header(headers, STR("Nats-Marker-Reason")),
                         jet_header(headers, STR("KV-Operation")),
                         str_tail(buf_peek(memory), headers_len), &state);
            state.stored_ms = unix_ms_of(string_at(json, "message.time"));
        } else if (err != ERR_NOMEM) {
            note_set(note, "a message without a sequence, or not in base64");
            err = ERR_PARSE;
        }
    }
    json_close(json);
    if (err == ERR_OK) {
        *ret_error = error;
        *ret_state = state;
    }
    return err;
}

enum err jet_decode_delivery(struct str reply, struct jet_delivery *ret)
{
    struct str parts[16], rest = reply, part;
    size_t count = 0;
    while (str_split(&rest, '.', &part)) {
        if (count == ARRAY_LEN(parts)) return ERR_PARSE;
        parts[count++] = part;
    }
    /* $JS.ACK.[domain.account.]stream.consumer.delivered.stream-seq.consumer-seq.time.pending */
    size_t at = count == 9 ? 5 : 7;
    struct jet_delivery delivery;
    if ((count != 9 && count < 11) || !str_equal(parts[0], STR("$JS")) ||
        !str_equal(parts[1], STR("ACK")) ||
        str_to_u64(parts[at], &delivery.stream_sequence) != ERR_OK ||
        str_to_u64(parts[at + 1], &delivery.consumer_sequence) != ERR_OK ||
        str_to_u64(parts[at + 3], &delivery.pending) != ERR_OK || delivery.stream_sequence == 0 ||
        delivery.stream_sequence > INT64_MAX)
        return ERR_PARSE;
    *ret = delivery;
    return ERR_OK;
}
