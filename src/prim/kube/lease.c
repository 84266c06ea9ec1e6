/* SPDX-License-Identifier: Apache-2.0 */
/* Converts entries to Lease objects and back (lease.h). Pure: no clock, no I/O, any thread.
 * Labels, annotations, owners and finalizers of other programs survive an update. */
#include "prim/kube/lease.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "prim/answer.h"
#include "text/base64.h"
#include "text/ndjson.h"
#include "text/rfc3339.h"

enum {
    REVISION_SHIFT = 24,
    ENVELOPE_MAX = ENVELOPE_HEADER + PRIM_OWNER_MAX + PRIM_VALUE_MAX,
    FIELD_CAP = LEASE_PREFIX_MAX + 16,
};

/* -- names -- */

void kube_lease_hash(struct str text, char ret_hash[LEASE_HASH_CAP])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int done = EVP_Digest(text.at, text.len, digest, &len, EVP_sha256(), NULL);

    assert(done == 1 && len == 32); /* hashing bytes in memory cannot fail otherwise */
    (void)done;
    for (size_t i = 0; i < LEASE_HASH_CAP - 1; i++) {
        size_t bit = i * 5;
        uint32_t two = (uint32_t)digest[bit / 8] << 8 | digest[bit / 8 + 1];
        ret_hash[i] = alphabet[two >> (11 - bit % 8) & 31];
    }
    ret_hash[LEASE_HASH_CAP - 1] = '\0';
}

void kube_lease_name(struct str key, char ret_name[LEASE_NAME_CAP])
{
    char hash[LEASE_HASH_CAP];

    kube_lease_hash(key, hash);
    (void)snprintf(ret_name, LEASE_NAME_CAP, "crd-%s", hash);
}

/* -- reading -- */

static struct str field_name(char room[FIELD_CAP], const char *prefix, const char *word)
{
    int len = snprintf(room, FIELD_CAP, "%s/%s", prefix, word);

    assert(len > 0 && len < FIELD_CAP);
    return str_of(room, (size_t)len);
}

static bool annotation(const struct json *object, const char *prefix, const char *word,
                       struct str *ret_text)
{
    char room[FIELD_CAP];
    const struct json *all = json_find(object, "metadata.annotations");

    if (!all || json_kind(all) != JSON_KIND_OBJECT) return false;
    const struct json *value = json_member(all, field_name(room, prefix, word));
    return value && !json_get_string(value, "", ret_text, NULL);
}

/* Parses "2026-11-15T20:00:00Z", the only form the server writes. */
static bool read_seconds(struct str text, uint64_t *ret_seconds)
{
    int64_t seconds;
    uint32_t nanos;

    if (text.len != 20 || rfc3339_parse(text, &seconds, &nanos)) return false;
    /* The shifted seconds must fit into the 63 bits of a revision. */
    if (seconds <= 0 || (uint64_t)seconds >= 1ull << (63 - REVISION_SHIFT - 1)) return false;
    *ret_seconds = (uint64_t)seconds;
    return true;
}

static bool read_word(const struct json *object, const char *path, char *ret_word, size_t cap)
{
    struct str text;

    if (json_get_string(object, path, &text, NULL) || text.len == 0 || text.len >= cap)
        return false;
    memcpy(ret_word, text.at, text.len);
    ret_word[text.len] = '\0';
    return true;
}

static bool read_spec(const struct json *object, struct kube_lease_view *view)
{
    uint64_t number;
    const struct json *spec = json_find(object, "spec");
    const struct json *held_for = spec ? json_find(spec, "leaseDurationSeconds") : NULL;

    if (!spec || json_kind(spec) != JSON_KIND_OBJECT) return false;
    view->foreign = json_find(spec, "strategy") || json_find(spec, "preferredHolder");
    if (held_for) {
        if (json_get_u64(held_for, "", &number, NULL) || number > INT32_MAX) return false;
        view->duration_s = (uint32_t)number;
    }
    if (!json_get_u64(spec, "leaseTransitions", &number, NULL) && number < INT32_MAX)
        view->transitions = (uint32_t)number;
    (void)json_get_string(spec, "acquireTime", &view->acquired, NULL);
    return true;
}

/* Parses "<boot id in hex> <ms>". Other content counts as unknown, not as damage, because only
 * an import needs the text. */
static void read_moment(const struct json *object, const char *prefix, struct kube_lease_view *view)
{
    struct str text, boot;
    uint64_t ms;

    if (!annotation(object, prefix, "at", &text) || !str_split(&text, ' ', &boot) ||
        str_to_u64(text, &ms) || ms > INT64_MAX / 1000000)
        return;
    view->boot = boot;
    view->at_ms = (int64_t)ms;
}

/* ERR_CORRUPT, ERR_NOMEM. */
static enum err read_envelope(struct str text, struct kube_lease_view *view)
{
    enum err err;

    buf_init(&view->bytes, ENVELOPE_MAX);
    err = base64_decode(text, &view->bytes);
    if (!err) return envelope_decode(buf_peek(&view->bytes), &view->envelope);
    return err == ERR_NOMEM ? err : ERR_CORRUPT;
}

enum err kube_lease_decode(const struct json *object, const char *prefix,
                           struct kube_lease_view *ret_view, struct note *note)
{
    struct kube_lease_view view = {.object = object, .acquired = STR_EMPTY, .boot = STR_EMPTY};
    struct str text;
    const char *what = NULL;
    enum err err = ERR_CORRUPT;
    uint64_t created_s;

    if (!read_word(object, "metadata.uid", view.uid, sizeof view.uid) ||
        !read_word(object, "metadata.resourceVersion", view.version, sizeof view.version))
        what = "no uid or version";
    else if (json_get_string(object, "metadata.creationTimestamp", &text, NULL) ||
             !read_seconds(text, &created_s))
        what = "no creation time";
    else if (!annotation(object, prefix, "key", &view.key))
        what = "no key";
    else if (!annotation(object, prefix, "n", &text) || str_to_u64(text, &view.n) || view.n == 0 ||
             view.n > 1ull << 48)
        what = "no counter";
    else if (!annotation(object, prefix, "c", &text) || str_to_u64(text, &view.create_n) ||
             view.create_n == 0 || view.create_n > view.n)
        what = "no counter of its beginning";
    else if (!read_spec(object, &view))
        what = "no spec";
    else if (!annotation(object, prefix, "env", &text))
        what = "no envelope";
    else if ((err = read_envelope(text, &view)))
        what = "a damaged envelope";
    /* Contenders need the duration to take over the lease. */
    else if (kube_lease_is_leased(&view) && view.duration_s == 0)
        what = "leased without a duration";
    if (what) {
        kube_lease_view_deinit(&view);
        if (err == ERR_NOMEM) return note_fail(note, err, "out of memory");
        return note_fail(note, ERR_CORRUPT, "not an entry of ours: %s", what);
    }
    read_moment(object, prefix, &view);
    view.revision = (created_s << REVISION_SHIFT) + view.n;
    view.create_revision = (created_s << REVISION_SHIFT) + view.create_n;
    if (view.envelope.flags & ENVELOPE_LEASED)
        view.token = view.envelope.token ? view.envelope.token : view.revision;
    *ret_view = view;
    return ERR_OK;
}

void kube_lease_view_deinit(struct kube_lease_view *view)
{
    buf_deinit(&view->bytes);
    *view = (struct kube_lease_view){0};
}

void kube_doc_deinit(struct doc *doc)
{
    kube_lease_view_deinit(&doc->view);
    json_close(doc->json);
    *doc = (struct doc){0};
}

/* -- writing -- */

/* Copies the members whose key does not begin with `ours`. */
static void copy_foreign(struct ndjson *w, const struct json *from, struct str ours)
{
    void *cursor = NULL;
    struct str key, text;
    const struct json *value;

    if (!from || json_kind(from) != JSON_KIND_OBJECT) return;
    while (json_next(from, &cursor, &key, &value))
        if (!str_starts(key, ours) && !json_get_string(value, "", &text, NULL))
            ndjson_string(w, key, text);
}

/* Copies members of other programs, which a PUT would otherwise remove. */
static enum err copy_member(struct ndjson *w, const struct kube_lease_view *over, const char *name)
{
    const struct json *metadata = json_find(over->object, "metadata");
    const struct json *value = metadata ? json_find(metadata, name) : NULL;
    struct buf text;
    enum err err;

    if (!value) return ERR_OK;
    buf_init(&text, LEASE_BODY_MAX);
    err = json_write(value, NDJSON_LINE, &text);
    if (!err) ndjson_raw(w, str_from(name), str_trim(buf_peek(&text)));
    buf_deinit(&text);
    return err;
}

static enum err write_annotations(struct ndjson *w, const struct lease_write *in, struct str ours)
{
    char room[FIELD_CAP], number[24], moment[PRIM_ID_TEXT_CAP + 24];
    struct buf envelope, text;
    enum err err;

    buf_init(&envelope, ENVELOPE_MAX);
    buf_init(&text, LEASE_BODY_MAX);
    err = envelope_encode(&in->envelope, &envelope);
    if (!err) err = base64_encode(buf_peek(&envelope), &text);
    if (!err) {
        ndjson_open_object(w, STR("annotations"));
        if (in->over) copy_foreign(w, json_find(in->over->object, "metadata.annotations"), ours);
        ndjson_string(w, field_name(room, in->prefix, "key"), in->key);
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)in->n);
        ndjson_c_string(w, field_name(room, in->prefix, "n"), number);
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)in->create_n);
        ndjson_c_string(w, field_name(room, in->prefix, "c"), number);
        ndjson_string(w, field_name(room, in->prefix, "env"), buf_peek(&text));
        if (in->envelope.flags & ENVELOPE_LEASED) {
            (void)snprintf(moment, sizeof moment, "%s %llu", in->boot,
                           (unsigned long long)in->at_ms);
            ndjson_c_string(w, field_name(room, in->prefix, "at"), moment);
        }
        ndjson_close_object(w);
    }
    buf_deinit(&text);
    buf_deinit(&envelope);
    return err;
}

static void write_labels(struct ndjson *w, const struct lease_write *in, struct str ours)
{
    char room[FIELD_CAP], hash[LEASE_HASH_CAP], number[16];
    uint32_t flags = in->envelope.flags, slot = 0;
    const char *kind = flags & ENVELOPE_GROUP ? "group" : flags & ENVELOPE_SLOT ? "slot" : "key";

    ndjson_open_object(w, STR("labels"));
    if (in->over) copy_foreign(w, json_find(in->over->object, "metadata.labels"), ours);
    kube_lease_hash(prim_bucket_of(in->key), hash);
    ndjson_c_string(w, field_name(room, in->prefix, "bucket"), hash);
    ndjson_c_string(w, field_name(room, in->prefix, "kind"), kind);
    ndjson_c_string(w, field_name(room, in->prefix, "store"), in->store_id);
    if (flags & ENVELOPE_SLOT && claim_slot_number(prim_leaf_of(in->key), &slot)) {
        (void)snprintf(number, sizeof number, "%u", slot);
        ndjson_c_string(w, field_name(room, in->prefix, "slot"), number);
    }
    ndjson_close_object(w);
}

static void write_spec(struct ndjson *w, const struct lease_write *in)
{
    char holder[PRIM_OWNER_MAX + 1 + PRIM_ID_TEXT_CAP], id[PRIM_ID_TEXT_CAP], now[RFC3339_CAP];
    const struct claim_envelope *e = &in->envelope;
    uint32_t before = in->over ? in->over->transitions : 0;
    bool leased = e->flags & ENVELOPE_LEASED && !(e->flags & ENVELOPE_TOMBSTONE);

    rfc3339_text((int64_t)(in->wall_us / 1000000), (uint32_t)(in->wall_us % 1000000) * 1000, 6,
                 now);
    ndjson_open_object(w, STR("spec"));
    if (leased) {
        prim_id_text(&e->lease_id, id);
        (void)snprintf(holder, sizeof holder, "%.*s#%s", STR_ARG(e->owner), id);
        ndjson_c_string(w, STR("holderIdentity"), holder);
        ndjson_i64(w, STR("leaseDurationSeconds"), e->ttl_ms / 1000);
        if (in->new_holder || !in->over || !in->over->acquired.len)
            ndjson_c_string(w, STR("acquireTime"), now);
        else
            ndjson_string(w, STR("acquireTime"), in->over->acquired);
        ndjson_c_string(w, STR("renewTime"), now);
    } else {
        ndjson_c_string(w, STR("holderIdentity"), "");
    }
    ndjson_u64(w, STR("leaseTransitions"),
               in->new_holder && in->over && before < INT32_MAX - 1 ? before + 1 : before);
    ndjson_close_object(w);
}

enum err kube_lease_encode(const struct lease_write *in, struct buf *out)
{
    static const char *const kept[] = {"ownerReferences", "finalizers"};
    char name[LEASE_NAME_CAP], room[FIELD_CAP];
    struct ndjson w;
    struct str ours = field_name(room, in->prefix, "");
    size_t start = out->len;
    enum err err = ERR_OK, ended;

    kube_lease_name(in->key, name);
    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_c_string(&w, STR("apiVersion"), "coordination.k8s.io/v1");
    ndjson_c_string(&w, STR("kind"), "Lease");
    ndjson_open_object(&w, STR("metadata"));
    ndjson_c_string(&w, STR("name"), name);
    ndjson_c_string(&w, STR("namespace"), in->namespace_);
    if (in->over) {
        ndjson_c_string(&w, STR("uid"), in->over->uid);
        ndjson_c_string(&w, STR("resourceVersion"), in->over->version);
        for (size_t i = 0; i < ARRAY_LEN(kept) && !err; i++)
            err = copy_member(&w, in->over, kept[i]);
    }
    write_labels(&w, in, ours);
    if (!err) err = write_annotations(&w, in, ours);
    ndjson_close_object(&w);
    write_spec(&w, in);
    ended = ndjson_end(&w);
    if (err && !ended) out->len = start; /* a part is missing although the text is well-formed */
    if (!err) err = ended;
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}
