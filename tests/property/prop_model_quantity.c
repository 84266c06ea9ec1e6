/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities against slow decimal arithmetic on digit strings, written from the rules: exact value,
 * rounding to nano-units, canonical text, sums. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"
#include "model/quantity.h"

enum { ROUNDS = 6000, DIGITS = 120 }; /* 50 digits, 60 doublings, 39 zeroes at most */

/* A whole number of any length, least digit first. */
struct big {
    uint8_t digit[DIGITS];
};

static void big_times(struct big *b, unsigned factor)
{
    unsigned carry = 0;

    for (int i = 0; i < DIGITS; i++) {
        carry += b->digit[i] * factor;
        b->digit[i] = (uint8_t)(carry % 10);
        carry /= 10;
    }
    assert(carry == 0);
}

/* Returns the remainder. */
static unsigned big_divide(struct big *b, unsigned by)
{
    unsigned rest = 0;

    for (int i = DIGITS - 1; i >= 0; i--) {
        rest = rest * 10 + b->digit[i];
        b->digit[i] = (uint8_t)(rest / by);
        rest %= by;
    }
    return rest;
}

static void big_increment(struct big *b)
{
    int i = 0;

    while (b->digit[i] == 9) b->digit[i++] = 0;
    b->digit[i]++;
}

static bool big_is_zero(const struct big *b)
{
    for (int i = 0; i < DIGITS; i++)
        if (b->digit[i]) return false;
    return true;
}

static int big_compare(const struct big *a, const struct big *b)
{
    for (int i = DIGITS - 1; i >= 0; i--)
        if (a->digit[i] != b->digit[i]) return a->digit[i] < b->digit[i] ? -1 : 1;
    return 0;
}

static void big_read(const char *digits, struct big *b)
{
    memset(b, 0, sizeof *b);
    for (; *digits; digits++) {
        big_times(b, 10);
        b->digit[0] = (uint8_t)(*digits - '0');
    }
}

static void big_text(const struct big *b, char text[DIGITS + 1])
{
    int top = DIGITS - 1, len = 0;

    while (top > 0 && b->digit[top] == 0) top--;
    for (; top >= 0; top--) text[len++] = (char)('0' + b->digit[top]);
    text[len] = '\0';
}

/* A drawn quantity and its expected value. */
struct drawn {
    char text[QUANTITY_TEXT_MAX + 1];
    struct big nano;
    bool negative, too_large;
    char canonical[DIGITS + 20];
};

static const struct {
    const char *text;
    int ten, two; /* powers */
} suffixes[] = {
    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"", 0, 0},    {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};
enum { SUFFIXES = sizeof suffixes / sizeof suffixes[0], FIRST_BINARY = 10 };

static void draw_digits(struct prng *p, char *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (char)('0' + (prng_chance(p, 400000) ? 0 : prng_below(p, 10)));
    out[count] = '\0';
}

static void canonical(struct drawn *d, bool binary, bool exponent)
{
    struct big limit, number = d->nano, whole = d->nano;
    int power = -9;
    char text[DIGITS + 1], suffix[16] = "";
    unsigned rest = 0;

    if (big_is_zero(&number)) {
        snprintf(d->canonical, sizeof d->canonical, "0");
        return;
    }
    for (int i = 0; i < 9; i++) rest |= big_divide(&whole, 10);
    big_read("1024", &limit);
    if (binary && rest == 0 && big_compare(&whole, &limit) >= 0) {
        static const char *const names[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
        int name = 0;
        for (; name < 6; name++) {
            struct big tried = whole;
            if (big_divide(&tried, 1024) != 0) break;
            whole = tried;
        }
        number = whole;
        snprintf(suffix, sizeof suffix, "%s", names[name]);
    } else {
        for (; power < 18 || exponent; power += 3) {
            struct big tried = number;
            if (big_divide(&tried, 1000) != 0) break;
            number = tried;
        }
        if (exponent && power) snprintf(suffix, sizeof suffix, "e%d", power);
        for (int i = 0; i < FIRST_BINARY && !exponent; i++)
            if (suffixes[i].ten == power) snprintf(suffix, sizeof suffix, "%s", suffixes[i].text);
    }
    big_text(&number, text);
    snprintf(d->canonical, sizeof d->canonical, "%s%s%s", d->negative ? "-" : "", text, suffix);
}

static void draw(struct prng *p, struct drawn *d)
{
    char whole[32], fraction[32], suffix[16], joined[64];
    bool exponent = prng_chance(p, 200000), binary = false;
    size_t suffix_index = prng_below(p, SUFFIXES);
    int ten, two = 0;
    unsigned rest = 0;
    struct big most;

    draw_digits(p, whole, prng_below(p, prng_chance(p, 200000) ? 25 : 6));
    draw_digits(p, fraction, prng_chance(p, 600000) ? 0 : prng_below(p, 25));
    if (!*whole && !*fraction) draw_digits(p, whole, 1);
    if (exponent) {
        ten = (int)prng_below(p, 60) - 30;
        snprintf(suffix, sizeof suffix, "%c%s%d", prng_chance(p, 500000) ? 'e' : 'E',
                 ten >= 0 && prng_chance(p, 300000) ? "+" : "", ten);
    } else {
        ten = suffixes[suffix_index].ten;
        two = suffixes[suffix_index].two;
        binary = suffix_index >= FIRST_BINARY;
        snprintf(suffix, sizeof suffix, "%s", suffixes[suffix_index].text);
    }
    d->negative = prng_chance(p, 200000);
    snprintf(d->text, sizeof d->text, "%s%s%s%s%s",
             d->negative              ? "-"
             : prng_chance(p, 100000) ? "+"
                                      : "",
             whole, *fraction || prng_chance(p, 100000) ? "." : "", fraction, suffix);
    /* value = digits x 10^(ten - places) x 2^two, times 10^9 for nano-units */
    snprintf(joined, sizeof joined, "%s%s", whole, fraction);
    big_read(joined, &d->nano);
    for (int i = 0; i < two; i++) big_times(&d->nano, 2);
    ten += 9 - (int)strlen(fraction);
    for (; ten > 0; ten--) big_times(&d->nano, 10);
    for (; ten < 0; ten++) rest |= big_divide(&d->nano, 10);
    if (rest) big_increment(&d->nano);
    big_read("9223372036854775807000000000", &most);
    d->too_large = big_compare(&d->nano, &most) > 0;
    big_read("999999999", &most);
    canonical(d, binary && big_compare(&d->nano, &most) > 0, exponent);
}

TEST(values_and_texts_agree_with_slow_arithmetic)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        struct quantity q = {0}, again = {0};
        struct drawn d;
        char text[QUANTITY_TEXT_CAP], want[DIGITS + 2];
        draw(&p, &d);
        if (d.too_large) {
            CHECK_ERR(d.text, quantity_parse(str_from(d.text), &q, NULL), ERR_TOO_LARGE);
            continue;
        }
        CHECK_OK(d.text, quantity_parse(str_from(d.text), &q, NULL));
        want[0] = '-';
        big_text(&d.nano, want + 1);
        int128_text(q.nano, text);
        CHECK_TEXT(d.text, text, d.negative && q.nano != 0 ? want : want + 1);
        quantity_text(&q, text);
        CHECK_TEXT(d.text, text, d.canonical);
        CHECK_OK(text, quantity_parse(str_from(text), &again, NULL));
        CHECK("the printed text reads back the same", quantity_compare(&q, &again) == 0);
        quantity_text(&again, want);
        CHECK_TEXT("and printing it again", want, text);
    }
}

TEST(adding_the_opposite_undoes_a_sum)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        struct quantity a, b, c;
        struct drawn x, y;
        draw(&p, &x);
        draw(&p, &y);
        if (quantity_parse(str_from(x.text), &a, NULL) ||
            quantity_parse(str_from(y.text), &b, NULL))
            continue;
        c = a;
        if (quantity_add(&c, &b)) continue;
        CHECK("order follows the sum", (quantity_compare(&c, &a) > 0) == (b.nano > 0));
        b.nano = -b.nano;
        CHECK_OK("back", quantity_add(&c, &b));
        CHECK("the same", quantity_compare(&c, &a) == 0);
    }
}
