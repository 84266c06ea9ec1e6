/* SPDX-License-Identifier: Apache-2.0 */
/* Machines on the wire: encoded and decoded unchanged, and wrong fields refused by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/machine_write.h"
#include "lib/test.h"
#include "records.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

#define MACHINE (&bigfleet__v1alpha1__machine__descriptor)

struct world {
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct buf bytes;
};

static void world_open(struct world *w)
{
    dimensions_init(&w->dimensions);
    CHECK_OK("reader", machine_reader_open(&w->dimensions, &w->reader));
    buf_init(&w->bytes, BYTES_MAX);
}

static void world_close(struct world *w)
{
    machine_reader_close(w->reader);
    dimensions_deinit(&w->dimensions);
    buf_deinit(&w->bytes);
}

static void check_labels(const struct label *got, size_t got_count, const struct label *want,
                         size_t want_count)
{
    CHECK_SIZE("as many", got_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        CHECK_STR("key", got[i].key, want[i].key);
        CHECK_STR("value", got[i].value, want[i].value);
    }
}

static void check_equal(const struct machine_record *got, const struct machine_record *want)
{
    const struct machine *a = &got->machine, *b = &want->machine;

    CHECK_STR("id", a->id, b->id);
    CHECK_U32("state", a->state, b->state);
    CHECK_STR("host.provider", a->host_provider, b->host_provider);
    CHECK_STR("host.ref", a->host_ref, b->host_ref);
    CHECK_STR("cluster", a->cluster, b->cluster);
    CHECK_STR("type", a->attributes.instance_type, b->attributes.instance_type);
    CHECK_STR("zone", a->attributes.zone, b->attributes.zone);
    CHECK_U32("capacity type", a->capacity_type, b->capacity_type);
    CHECK("price", a->price_per_hour == b->price_per_hour);
    CHECK("probability", a->interruption_probability == b->interruption_probability);
    CHECK_STR("error", a->last_error, b->last_error);
    CHECK("resources", resources_equal(&a->resources, &b->resources));
    CHECK("allocatable", resources_equal(&a->allocatable, &b->allocatable));
    CHECK_U64("allocatable is there or not", a->allocatable.mask, b->allocatable.mask);
    check_labels(a->attributes.labels, a->attributes.label_count, b->attributes.labels,
                 b->attributes.label_count);
    check_labels(got->metadata, got->metadata_count, want->metadata, want->metadata_count);
}

TEST(a_record_comes_back_as_it_went_out_in_every_state)
{
    struct machine_record sent, got;
    struct note note = {""};
    struct world w;

    world_open(&w);
    record_full(&w.dimensions, &sent);
    for (uint32_t i = MACHINE_SPECULATIVE; i < MACHINE_STATE_COUNT; i++) {
        sent.machine.state = (enum machine_state)i;
        buf_clear(&w.bytes);
        CHECK_OK("written", machine_write(&w.dimensions, &sent, &w.bytes));
        CHECK_OK("read", machine_read(w.reader, buf_peek(&w.bytes), &got, &note));
        check_equal(&got, &sent);
        CHECK_OK("and a generated decoder would take it",
                 message_guard(MACHINE, buf_peek(&w.bytes), NULL, &note));
    }
    world_close(&w);
}

TEST(an_empty_vector_of_capacity_is_none)
{
    struct machine_record sent, got;
    struct world w;

    world_open(&w);
    record_full(&w.dimensions, &sent);
    sent.machine.allocatable = (struct resources){0};
    CHECK_OK("written", machine_write(&w.dimensions, &sent, &w.bytes));
    put_field(&w.bytes, 13, STR_EMPTY);
    CHECK_OK("read", machine_read(w.reader, buf_peek(&w.bytes), &got, NULL));
    CHECK("so resources count", machine_capacity(&got.machine) == &got.machine.resources);
    world_close(&w);
}

/* The generated code writes maps in an order of its own. */
TEST(what_others_write_is_read_in_any_order)
{
    Bigfleet__V1alpha1__Machine__LabelsEntry z = BIGFLEET__V1ALPHA1__MACHINE__LABELS_ENTRY__INIT,
                                             a = BIGFLEET__V1ALPHA1__MACHINE__LABELS_ENTRY__INIT;
    Bigfleet__V1alpha1__Machine__LabelsEntry *labels[] = {&z, &a};
    Bigfleet__V1alpha1__Machine m = BIGFLEET__V1ALPHA1__MACHINE__INIT;
    struct machine_record got;
    struct world w;

    world_open(&w);
    z.key = (char[]){"z"};
    z.value = (char[]){"last"};
    a.key = (char[]){"a"};
    m.id = (char[]){"m-2"};
    m.state = BIGFLEET__V1ALPHA1__MACHINE_STATE__MACHINE_STATE_IDLE;
    m.labels = labels;
    m.n_labels = 2;
    buf_append(&w.bytes,
               STR("\xa2\x06\x03new\x5a\x01?")); /* fields 100 and 11: unknown to muster */
    CHECK_OK("written", message_write(&m.base, &w.bytes, NULL));
    CHECK_OK("read", machine_read(w.reader, buf_peek(&w.bytes), &got, NULL));
    CHECK_STR("id", got.machine.id, STR("m-2"));
    CHECK_U32("state", got.machine.state, MACHINE_IDLE);
    check_labels(got.machine.attributes.labels, got.machine.attributes.label_count,
                 (const struct label[]){{STR("a"), STR("")}, {STR("z"), STR("last")}}, 2);
    world_close(&w);
}

TEST(more_labels_than_are_sorted_by_hand)
{
    struct machine_record got;
    struct world w;
    char entry[] = "\x0a\x02zz\x12\x01v";

    world_open(&w);
    put_field(&w.bytes, 1, STR("m"));
    for (int i = 0; i < 100; i++) {
        entry[2] = (char)('a' + (99 - i) / 10);
        entry[3] = (char)('0' + (99 - i) % 10);
        put_field(&w.bytes, 10, str_of(entry, 7));
    }
    CHECK_OK("read", machine_read(w.reader, buf_peek(&w.bytes), &got, NULL));
    CHECK_SIZE("all", got.machine.attributes.label_count, 100);
    CHECK_STR("first", got.machine.attributes.labels[0].key, STR("a0"));
    CHECK_STR("last", got.machine.attributes.labels[99].key, STR("j9"));
    world_close(&w);
}

static const struct {
    const char *why;
    struct str bytes;
    enum err err;
    const char *says;
} refusals[] = {
    {"no id", BYTES("\x10\x03"), ERR_INVALID, "id: empty"},
    {"a control character", BYTES("\x0a\x02m\n"), ERR_INVALID, "id: control character"},
    {"NUL in an id", BYTES("\x0a\x02m\0"), ERR_INVALID, "id: control character"},
    {"not UTF-8", BYTES("\x0a\x02m\xff"), ERR_INVALID, "id: not UTF-8"},
    {"a state nobody knows", BYTES("\x0a\x01m\x10\x09"), ERR_INVALID, "state: unknown number 9"},
    {"a negative state", BYTES("\x0a\x01m\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
     ERR_INVALID, "state: unknown number -1"},
    {"a state of 2^32 + 3", BYTES("\x0a\x01m\x10\x83\x80\x80\x80\x10"), ERR_INVALID,
     "state: unknown number 4294967299"},
    {"a capacity type nobody knows", BYTES("\x0a\x01m\x30\x05"), ERR_INVALID,
     "capacity_type: unknown number 5"},
    {"a price of another type", BYTES("\x0a\x01m\x38\x05"), ERR_PARSE,
     "price_per_hour: wrong wire type"},
    {"a state of another type", BYTES("\x0a\x01m\x12\x01x"), ERR_PARSE, "state: wrong wire type"},
    {"an id of another type", BYTES("\x08\x01"), ERR_PARSE, "id: wrong wire type"},
    {"two hosts", BYTES("\x0a\x01m\x1a\x00\x1a\x00"), ERR_PARSE, "host: given twice"},
    {"a host cut short", BYTES("\x0a\x01m\x1a\x03\x0a\x05x"), ERR_PARSE, "host: cut short"},
    {"a label twice", BYTES("\x0a\x01m\x52\x03\x0a\x01k\x52\x06\x0a\x01k\x12\x01v"), ERR_INVALID,
     "labels: \"k\" is given twice"},
    {"a label without key", BYTES("\x0a\x01m\x52\x03\x12\x01v"), ERR_INVALID,
     "labels[0]: key: empty"},
    {"a damaged label", BYTES("\x0a\x01m\x52\x03\x0a\x07k"), ERR_PARSE, "labels: entry: cut short"},
    {"a label's value of another type", BYTES("\x0a\x01m\x52\x02\x10\x01"), ERR_PARSE,
     "labels: value: wrong wire type"},
    {"metadata twice", BYTES("\x0a\x01m\x7a\x03\x0a\x01k\x7a\x03\x0a\x01k"), ERR_PARSE,
     "shard_metadata: a key is given twice"},
    {"metadata that is no text", BYTES("\x0a\x01m\x7a\x06\x0a\x01k\x12\x01\xc0"), ERR_PARSE,
     "shard_metadata: not UTF-8"},
    {"an error that is no text", BYTES("\x0a\x01m\x62\x01\xc0"), ERR_PARSE,
     "last_error: not UTF-8"},
    {"a quantity that is none",
     BYTES("\x0a\x01m\x4a\x0c\x0a\x0a\x0a\x03"
           "cpu\x12\x03lot"),
     ERR_PARSE, "resources[cpu]"},
    {"a negative quantity",
     BYTES("\x0a\x01m\x4a\x0b\x0a\x09\x0a\x03"
           "cpu\x12\x02-1"),
     ERR_INVALID, "resources[cpu]: negative"},
    {"amounts twice", BYTES("\x0a\x01m\x6a\x00\x6a\x00"), ERR_PARSE, "allocatable: given twice"},
    {"amounts cut short", BYTES("\x0a\x01m\x6a\x01\x0a"), ERR_PARSE, "allocatable: cut short"},
    {"the record cut short", BYTES("\x0a\x05m"), ERR_PARSE, "machine: cut short"},
    {"a group", BYTES("\x0a\x01m\x0b"), ERR_PARSE, "machine: groups are not supported"},
    {"field number 0", BYTES("\x0a\x01m\x02\x00"), ERR_PARSE, "machine: bad field number"},
};

/* Refused by the reader, or by machine_check() of the result. */
TEST(what_is_wrong_is_refused_and_named)
{
    struct machine_record got;
    enum err err;
    struct note note;
    struct world w;

    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        note_set(&note, "%s", "");
        err = machine_read(w.reader, refusals[i].bytes, &got, &note);
        if (!err) err = machine_check(&got.machine, NULL, &note);
        CHECK_ERR(refusals[i].why, err, refusals[i].err);
        CHECK_HAS(refusals[i].why, note.text, refusals[i].says);
    }
    CHECK_U32("no name of a refused record was kept but those that were read before",
              w.dimensions.count, 0);
    world_close(&w);
}

static void put_many(struct buf *into, uint32_t field, int count)
{
    char entry[] = "\x0a\x03...";

    for (int i = 0; i < count; i++) {
        entry[2] = (char)('a' + i / 400);
        entry[3] = (char)('a' + i / 20 % 20);
        entry[4] = (char)('a' + i % 20);
        put_field(into, field, str_of(entry, 5));
    }
}

TEST(too_many_of_anything_is_refused)
{
    const struct {
        const char *why, *says;
        uint32_t field;
        int most;
    } cases[] = {
        {"labels", "labels: more than 256 entries", 10, LABELS_MAX},
        {"metadata", "shard_metadata: more than 256 entries", 15, 256},
    };
    struct machine_record got;
    struct note note;
    struct world w;

    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        buf_clear(&w.bytes);
        put_field(&w.bytes, 1, STR("m"));
        put_many(&w.bytes, cases[i].field, cases[i].most);
        CHECK_OK(cases[i].why, machine_read(w.reader, buf_peek(&w.bytes), &got, &note));
        put_field(&w.bytes, cases[i].field, STR("\x0a\x04more"));
        CHECK_ERR(cases[i].why, machine_read(w.reader, buf_peek(&w.bytes), &got, &note),
                  ERR_TOO_LARGE);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
    }
    world_close(&w);
}

TEST(a_long_error_is_cut_between_letters_and_not_refused)
{
    struct machine_record sent = {.machine = {.id = STR("m"), .state = MACHINE_FAILED}}, got;
    char text[ERROR_TEXT_MAX + 100];
    struct world w;

    world_open(&w);
    memset(text, 'x', sizeof text);
    memcpy(text + ERROR_TEXT_MAX - 1, "ö", 2);
    sent.machine.last_error = str_of(text, sizeof text);
    CHECK_OK("written", machine_write(&w.dimensions, &sent, &w.bytes));
    CHECK_OK("read", machine_read(w.reader, buf_peek(&w.bytes), &got, NULL));
    CHECK_SIZE("cut", got.machine.last_error.len, ERROR_TEXT_MAX - 1);
    world_close(&w);
}

/* Its receiver counts each under its own reason. */
TEST(numbers_that_are_none_reach_the_invariant)
{
    const struct {
        const char *why;
        double price, probability;
        enum machine_fault fault;
    } cases[] = {
        {"NaN price", NAN, 0, MACHINE_FAULT_PRICE},
        {"infinite price", INFINITY, 0, MACHINE_FAULT_PRICE},
        {"negative price", -1, 0, MACHINE_FAULT_PRICE},
        {"probability 2", 0, 2, MACHINE_FAULT_PROBABILITY},
        {"NaN probability", 0, NAN, MACHINE_FAULT_PROBABILITY},
        {"negative zero is zero", 0, -0.0, MACHINE_SOUND},
    };
    struct machine_record sent, got;
    struct note note;
    struct world w;

    world_open(&w);
    record_full(&w.dimensions, &sent);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        sent.machine.price_per_hour = cases[i].price;
        sent.machine.interruption_probability = cases[i].probability;
        buf_clear(&w.bytes);
        CHECK_OK(cases[i].why, machine_write(&w.dimensions, &sent, &w.bytes));
        CHECK_OK(cases[i].why, machine_read(w.reader, buf_peek(&w.bytes), &got, &note));
        CHECK_U32(cases[i].why, machine_invariant(&got.machine, &note), cases[i].fault);
    }
    world_close(&w);
}

TEST(the_same_amounts_again_are_the_same)
{
    struct machine_record sent, first, again;
    struct world w;

    world_open(&w);
    record_full(&w.dimensions, &sent);
    CHECK_OK("written", machine_write(&w.dimensions, &sent, &w.bytes));
    CHECK_OK("parsed", machine_read(w.reader, buf_peek(&w.bytes), &first, NULL));
    CHECK_OK("remembered", machine_read(w.reader, buf_peek(&w.bytes), &again, NULL));
    CHECK("equal", memcmp(&first.machine.resources, &again.machine.resources,
                          sizeof first.machine.resources) == 0);
    CHECK("not those of allocatable",
          !resources_equal(&again.machine.resources, &again.machine.allocatable));
    world_close(&w);
}

/* More shapes than the cache holds, all of one length, so that they replace each other. */
TEST(thousands_of_shapes_are_each_their_own)
{
    char amounts[] = "\x0a\x0b\x0a\x03"
                     "cpu\x12\x04....";
    struct machine_record got;
    struct world w;

    world_open(&w);
    for (int round = 0; round < 2; round++) {
        for (int cpus = 1000; cpus < 6000; cpus++) {
            char digits[8];
            snprintf(digits, sizeof digits, "%04d", cpus);
            memcpy(amounts + 9, digits, 4);
            buf_clear(&w.bytes);
            put_field(&w.bytes, 1, STR("m"));
            put_field(&w.bytes, 9, str_of(amounts, 13));
            CHECK_OK("read", machine_read(w.reader, buf_peek(&w.bytes), &got, NULL));
            CHECK_I64("its own", got.machine.resources.milli[0], (int64_t)cpus * 1000);
        }
    }
    world_close(&w);
}

TEST(the_id_of_a_refused_record_is_found_where_it_can_be)
{
    CHECK_STR("before the damage", machine_read_id(STR("\x0a\x01m\x10\x09\x0b")), STR("m"));
    CHECK_STR("after the wrong field", machine_read_id(STR("\x10\x63\x0a\x01m")), STR("m"));
    CHECK_STR("behind damage nothing is believed", machine_read_id(STR("\x0b\x0a\x01m")), STR(""));
    CHECK_STR("an id that is none", machine_read_id(STR("\x0a\x02m\n")), STR(""));
}

TEST(an_ack_has_a_machine_and_an_operation)
{
    const struct {
        const char *why;
        struct str bytes;
        const char *says; /* NULL: fine */
    } cases[] = {
        {"good", BYTES("\x0a\x04op-1\x12\x05\x0a\x01m\x10\x03"), NULL},
        {"no machine", BYTES("\x0a\x04op-1"), "machine: missing"},
        {"no operation", BYTES("\x12\x03\x0a\x01m"), "operation_id: empty"},
        {"two machines", BYTES("\x0a\x01o\x12\x00\x12\x00"), "machine: given twice"},
        {"an operation that is no text", BYTES("\x0a\x01\xff\x12\x03\x0a\x01m"),
         "operation_id: not UTF-8"},
        {"a bad machine", BYTES("\x0a\x01o\x12\x05\x0a\x01m\x10\x63"), "state: unknown number 99"},
        {"cut short", BYTES("\x0a\x01o\x12\x09\x0a"), "ack: cut short"},
        {"empty", BYTES(""), "machine: missing"},
    };
    struct machine_record got;
    struct note note;
    struct world w;

    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str operation = STR_EMPTY;
        enum err err = machine_read_ack(w.reader, cases[i].bytes, &operation, &got, &note);
        if (cases[i].says) {
            CHECK(cases[i].why, err != ERR_OK);
            CHECK_HAS(cases[i].why, note.text, cases[i].says);
            continue;
        }
        CHECK_OK(cases[i].why, err);
        CHECK_STR("the operation", operation, STR("op-1"));
        CHECK_STR("the machine", got.machine.id, STR("m"));
    }
    world_close(&w);
}
