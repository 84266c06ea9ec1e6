/* SPDX-License-Identifier: Apache-2.0 */
/* Resource vectors, packed and unpacked, and the table of names. Pure, except for its arena. */
#include "model/resource.h"

/* Walk a set with: for (left = set; left; left &= left - 1) ... lowest(left). */
static uint32_t lowest(uint64_t set)
{
    return (uint32_t)__builtin_ctzll(set);
}

void dimensions_init(struct dimensions *d)
{
    *d = (struct dimensions){0};
    arena_init(&d->arena, 1 << 16); /* 64 names of at most 317 bytes, and block headers */
}

void dimensions_deinit(struct dimensions *d)
{
    arena_deinit(&d->arena);
    d->count = 0;
}

/* Returns the place in by_name where `name` is or would be inserted. */
static uint32_t place_of(const struct dimensions *d, struct str name, bool *ret_found)
{
    uint32_t low = 0, high = d->count;

    *ret_found = false;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = str_compare(d->names[d->by_name[middle]], name);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum err dimensions_index(struct dimensions *d, struct str name, uint32_t *ret_index,
                          struct note *note)
{
    bool found;
    uint32_t place = place_of(d, name, &found);
    char *copy;
    enum err err;

    if (found) {
        *ret_index = d->by_name[place];
        return ERR_OK;
    }
    err = id_check("name", name, RESOURCE_NAME_MAX, note);
    if (err) return err;
    if (str_has(name, ',') || str_has(name, '=')) { /* separators in resource_sum_key() */
        return note_fail(note, ERR_INVALID, "name: ',' or '='");
    }
    if (d->count == DIMENSIONS_MAX)
        return note_fail(note, ERR_FULL, "name: this shard knows %d others already",
                         DIMENSIONS_MAX);
    copy = arena_dup(&d->arena, name);
    if (!copy) return ERR_NOMEM;
    memmove(&d->by_name[place + 1], &d->by_name[place], d->count - place);
    d->by_name[place] = (uint8_t)d->count;
    d->names[d->count] = str_of(copy, name.len);
    *ret_index = d->count++;
    return ERR_OK;
}

static void take_formats(struct resource_formats *to, struct resource_formats from, uint64_t which)
{
    to->binary = (to->binary & ~which) | (from.binary & which);
    to->exponent = (to->exponent & ~which) | (from.exponent & which);
}

static struct resource_formats format_bits(enum quantity_format format, uint64_t bit)
{
    return (struct resource_formats){.binary = format == QUANTITY_BINARY_SI ? bit : 0,
                                     .exponent = format == QUANTITY_DECIMAL_EXPONENT ? bit : 0};
}

static enum quantity_format format_of(struct resource_formats formats, uint32_t dimension)
{
    return formats.binary >> dimension & 1     ? QUANTITY_BINARY_SI
           : formats.exponent >> dimension & 1 ? QUANTITY_DECIMAL_EXPONENT
                                               : QUANTITY_DECIMAL_SI;
}

/* --- one machine, one unit --- */

bool resources_equal(const struct resources *a, const struct resources *b)
{
    return resources_covers(a, b) && resources_covers(b, a);
}

enum err resources_set(struct resources *r, uint32_t dimension, int64_t milli,
                       enum quantity_format format)
{
    uint64_t bit = (uint64_t)1 << dimension;
    uint32_t count = resource_bits(r->mask), place;

    assert(dimension < DIMENSIONS_MAX && milli >= 0);
    place = resource_bits(r->mask & (bit - 1));
    if (!(r->mask & bit)) {
        if (count == RESOURCES_MAX) return ERR_FULL;
        memmove(&r->milli[place + 1], &r->milli[place], (count - place) * sizeof r->milli[0]);
        r->mask |= bit;
    }
    r->milli[place] = milli;
    take_formats(&r->formats, format_bits(format, bit), bit);
    return ERR_OK;
}

enum err resources_max(struct resources *a, const struct resources *b)
{
    struct resources joined = *a;

    for (uint64_t left = b->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        int64_t milli = resources_get(b, d);
        bool named = a->mask >> d & 1;
        enum err err;
        if (named && resources_get(a, d) >= milli) continue;
        err = resources_set(&joined, d, milli, format_of(b->formats, d));
        if (err) return err;
    }
    *a = joined;
    return ERR_OK;
}

/* --- demand, deficits, totals --- */

void resource_sum_copy(struct resource_sum *to, const struct resource_sum *from)
{
    to->mask = from->mask;
    to->formats = from->formats;
    for (uint64_t left = from->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        to->milli[d] = from->milli[d];
    }
}

static int128 at_most(int128 milli)
{
    return milli > QUANTITY_MILLI_MAX ? QUANTITY_MILLI_MAX : milli;
}

static void add_one(struct resource_sum *s, uint32_t d, int128 milli,
                    struct resource_formats formats)
{
    uint64_t bit = (uint64_t)1 << d;
    int128 had = resource_sum_get(s, d);

    if (had == 0) take_formats(&s->formats, formats, bit);
    s->mask |= bit;
    s->milli[d] = at_most(had + milli);
}

void resource_sum_add(struct resource_sum *s, const struct resources *r)
{
    const int64_t *milli = r->milli;

    for (uint64_t left = r->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        add_one(s, d, *milli++, r->formats);
    }
}

void resource_sum_add_sum(struct resource_sum *s, const struct resource_sum *other)
{
    for (uint64_t left = other->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        add_one(s, d, other->milli[d], other->formats);
    }
}

static int128 resource_times(int128 milli, uint64_t n)
{
    int128 product;

    return __builtin_mul_overflow(milli, (int128)n, &product) ? QUANTITY_MILLI_MAX
                                                              : at_most(product);
}

void resource_sum_scale(struct resource_sum *s, const struct resources *r, uint64_t n)
{
    resource_sum_clear(s);
    resource_sum_add(s, r);
    resource_sum_scale_sum(s, s, n);
}

void resource_sum_scale_sum(struct resource_sum *s, const struct resource_sum *of, uint64_t n)
{
    if (n == 0) {
        resource_sum_clear(s);
        return;
    }
    if (s != of) resource_sum_copy(s, of);
    for (uint64_t left = s->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        s->milli[d] = resource_times(s->milli[d], n);
    }
}

bool resource_sum_is_zero(const struct resource_sum *s)
{
    for (uint64_t left = s->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        if (s->milli[d] > 0) return false;
    }
    return true;
}

enum err resource_sum_narrow(const struct resource_sum *s, struct resources *ret_resources)
{
    struct resources narrow = {.mask = s->mask, .formats = s->formats};
    int64_t *milli = narrow.milli;

    if (resource_bits(s->mask) > RESOURCES_MAX) return ERR_TOO_LARGE;
    for (uint64_t left = s->mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        if (s->milli[d] > INT64_MAX) return ERR_TOO_LARGE;
        *milli++ = (int64_t)s->milli[d];
    }
    *ret_resources = narrow;
    return ERR_OK;
}

/* The quantity is read first: a malformed row must add no names to the table. */
static enum err parse_pair(struct dimensions *d, const struct label *pair, struct resource_sum *sum,
                           int128 most, struct note *note)
{
    struct quantity quantity;
    uint32_t dimension;
    uint64_t bit;
    enum err err = quantity_parse(pair->value, &quantity, note);

    if (!err && quantity.nano < 0) {
        note_set(note, "negative");
        err = ERR_INVALID;
    }
    if (!err && quantity_milli(&quantity) > most) {
        note_set(note, "more than 2^63 thousandths");
        err = ERR_TOO_LARGE;
    }
    if (!err) err = dimensions_index(d, pair->key, &dimension, note);
    if (err) return err;
    bit = (uint64_t)1 << dimension;
    if (sum->mask & bit) return note_fail(note, ERR_INVALID, "given twice");
    sum->mask |= bit;
    sum->milli[dimension] = quantity_milli(&quantity);
    take_formats(&sum->formats, format_bits(quantity.format, bit), bit);
    return ERR_OK;
}

static enum err parse_pairs(struct dimensions *d, const char *field, const struct label *pairs,
                            size_t count, int128 most, struct resource_sum *sum, struct note *note)
{
    resource_sum_clear(sum);
    if (count > RESOURCES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%s: %zu entries, at most %d are allowed", field,
                         count, RESOURCES_MAX);
    for (size_t i = 0; i < count; i++) {
        enum err err = parse_pair(d, &pairs[i], sum, most, note);
        if (!err) continue;
        if (err == ERR_NOMEM) return err;
        if (id_check("", pairs[i].key, RESOURCE_NAME_MAX, NULL))
            note_prefix(note, "%s[%zu]", field, i);
        else
            note_prefix(note, "%s[%.*s]", field, STR_ARG(pairs[i].key));
        return err;
    }
    return ERR_OK;
}

enum err resources_parse(struct dimensions *d, const char *field, const struct label *pairs,
                         size_t count, struct resources *ret_resources, struct note *note)
{
    struct resource_sum sum;
    enum err err = parse_pairs(d, field, pairs, count, INT64_MAX, &sum, note);

    return err ? err : resource_sum_narrow(&sum, ret_resources);
}

enum err resource_sum_parse(struct dimensions *d, const char *field, const struct label *pairs,
                            size_t count, struct resource_sum *ret_sum, struct note *note)
{
    struct resource_sum sum;
    enum err err = parse_pairs(d, field, pairs, count, QUANTITY_MILLI_MAX, &sum, note);

    if (!err) resource_sum_copy(ret_sum, &sum);
    return err;
}

void resource_sum_unpack(struct resource_sum *s, uint64_t mask, struct resource_formats formats,
                         const int128 *packed)
{
    s->mask = mask;
    s->formats = formats;
    for (uint64_t left = mask; left; left &= left - 1) {
        uint32_t d = lowest(left);
        s->milli[d] = *packed++;
    }
}

/* --- text --- */

enum err resource_sum_each(const struct dimensions *d, const struct resource_sum *s,
                           resource_each *each, void *context)
{
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t dimension = d->by_name[i];
        char text[QUANTITY_TEXT_CAP];
        struct quantity quantity;
        size_t len;
        enum err err;
        if (!(s->mask >> dimension & 1)) continue;
        quantity = quantity_from_milli(s->milli[dimension], format_of(s->formats, dimension));
        len = quantity_text(&quantity, text);
        err = each(context, d->names[dimension], str_of(text, len));
        if (err) return err;
    }
    return ERR_OK;
}

struct joined { /* "name=amount,name=amount" at the end of a buffer */
    struct buf *out;
    size_t start;
};

static enum err join(void *context, struct str name, struct str amount)
{
    struct joined *j = context;

    return buf_appendf(j->out, "%s%.*s=%.*s", j->out->len > j->start ? "," : "", STR_ARG(name),
                       STR_ARG(amount));
}

static enum err keep_or_cut(struct joined *j, enum err err)
{
    if (err) j->out->len = j->start;
    return err;
}

enum err resource_sum_text(const struct dimensions *d, const struct resource_sum *s,
                           struct buf *out)
{
    struct joined j = {out, out->len};

    return keep_or_cut(&j, resource_sum_each(d, s, join, &j));
}

enum err resource_sum_key(const struct dimensions *d, const struct resource_sum *s, struct buf *out)
{
    struct joined j = {out, out->len};
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < d->count && !err; i++) {
        uint32_t dimension = d->by_name[i];
        int128 milli = resource_sum_get(s, dimension);
        char text[QUANTITY_TEXT_CAP];
        if (milli == 0) continue;
        err = join(&j, d->names[dimension], str_of(text, int128_text(milli, text)));
    }
    return keep_or_cut(&j, err);
}

/* The next dimension with an amount above zero, by name; DIMENSIONS_MAX if none is left. */
static uint32_t next_named(const struct dimensions *d, const struct resource_sum *s,
                           uint32_t *place)
{
    while (*place < d->count) {
        uint32_t dimension = d->by_name[(*place)++];
        if (resource_sum_get(s, dimension) > 0) return dimension;
    }
    return DIMENSIONS_MAX;
}

/* Compares names with their '=', as in the key: "cpu=", "cpu2=". */
static int name_compare(struct str a, struct str b)
{
    size_t len = min_size(a.len, b.len);
    int order = memcmp(a.at, b.at, len);

    if (order) return order;
    return (a.len > len ? (unsigned char)a.at[len] : '=') -
           (b.len > len ? (unsigned char)b.at[len] : '=');
}

int resource_sum_key_compare(const struct dimensions *d, const struct resource_sum *a,
                             const struct resource_sum *b)
{
    uint32_t a_place = 0, b_place = 0;

    for (;;) {
        uint32_t x = next_named(d, a, &a_place), y = next_named(d, b, &b_place);
        char a_text[QUANTITY_TEXT_CAP], b_text[QUANTITY_TEXT_CAP];
        int order;
        if (x == DIMENSIONS_MAX || y == DIMENSIONS_MAX) { /* the vector that has ended is smaller */
            return (y == DIMENSIONS_MAX) - (x == DIMENSIONS_MAX);
        }
        if (x != y) return name_compare(d->names[x], d->names[y]);
        /* In the key, ',' follows a number and is smaller than every digit. */
        order = str_compare(str_of(a_text, int128_text(a->milli[x], a_text)),
                            str_of(b_text, int128_text(b->milli[x], b_text)));
        if (order) return order;
    }
}
