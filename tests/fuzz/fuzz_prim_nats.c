/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes from a NATS server: the first byte chooses the kind of answer. The result is a refusal
 * with a note, or plain data within its bounds. */
#include <stdlib.h>
#include <string.h>

#include "prim/nats/decode.h"
#include "prim/nats/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_error(const struct jet_error *error)
{
    must(error->code < 1000 && memchr(error->text, '\0', sizeof error->text) != NULL);
}

static void check_state(const struct jet_state *state)
{
    const struct prim_seen *seen = &state->seen;
    must(seen->kind <= PRIM_SEEN_FOREIGN);
    if (seen->kind != PRIM_SEEN_LIVE) return;
    must(seen->sequence > 0 && seen->revision > 0 && seen->create_revision > 0);
    must(seen->revision <= seen->sequence && seen->create_revision <= seen->sequence);
    must(seen->token == 0 || seen->token == seen->create_revision);
}

static void stream(struct str text)
{
    struct jet_stream stream;
    struct note note = {""};
    if (jet_decode_stream(text, STR("b"), &stream, &note)) {
        must(note.text[0] != '\0');
        return;
    }
    check_error(&stream.error);
    must(stream.error.code != 0 || stream.created[0] != '\0');
    must(stream.error.code != 0 || stream.replicas > 0);
}

static void message(struct str text)
{
    struct jet_error error;
    struct jet_state state;
    struct note note = {""};
    struct buf memory;
    buf_init(&memory, JET_ANSWER_MAX);
    if (jet_decode_message(text, &memory, &error, &state, &note) == ERR_OK) {
        check_error(&error);
        check_state(&state);
    } else {
        must(note.text[0] != '\0');
    }
    buf_deinit(&memory);
}

static void subject(struct str text)
{
    char key[PRIM_KEY_MAX + 1], again[JET_SUBJECT_CAP];
    if (!jet_key_of(STR("b"), text, key)) return;
    jet_subject_of(STR("b"), str_from(key), again);
    must(str_equal(str_from(again), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jet_account account;
    struct jet_ack ack;
    struct jet_consumer consumer;
    struct jet_delivery delivery;
    struct jet_state state;
    struct str text;

    if (size == 0) return 0;
    text = str_of(data + 1, size - 1);
    switch (data[0]) {
    case 'i':
        if (!jet_decode_account(text, &account, NULL)) check_error(&account.error);
        break;
    case 's': stream(text); break;
    case 'a':
        if (!jet_decode_ack(text, &ack, NULL)) {
            check_error(&ack.error);
            must((ack.error.code == 0) == (ack.sequence > 0));
        }
        break;
    case 'c':
        if (!jet_decode_consumer(text, &consumer, NULL)) {
            check_error(&consumer.error);
            must(consumer.error.code != 0 || strpbrk(consumer.name, ".*> ") == NULL);
        }
        break;
    case 'm': message(text); break;
    case 'd':
        if (!jet_decode_delivery(text, &delivery)) must(delivery.stream_sequence > 0);
        break;
    case 'h': {
        struct str marker = jet_header(text, STR("Nats-Marker-Reason"));
        jet_state_of(7, marker, jet_header(text, STR("KV-Operation")), text, &state);
        check_state(&state);
        break;
    }
    case 'k': subject(text); break;
    default: break;
    }
    return 0;
}
