/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a copy, a cluster by URL or the coordinators, over the etcd client of prim/etcd.
 * Calls block; the client has its own thread. */
#include "ctl/store_side.h"

#include <stdio.h>
#include <stdlib.h>

#include "prim/etcd/client.h"
#include "prim/etcd/reply.h"

enum { PAGE_KEYS = 100 }; /* 100 of the largest values have 150 MiB */

struct store_side {
    struct ctl *ctl;
    const char *name;
    struct etcd_client client;
    int64_t timeout_ns;
    bool reached; /* until a call succeeded, --timeout limits the first call */
};

/* -- opening -- */

static enum err store_side_open_side(struct ctl *ctl, const char *name,
                                     const struct etcd_client_options *options,
                                     struct store_side **ret_side)
{
    struct store_side *side = calloc(1, sizeof *side);
    enum err err;

    if (!side) return ERR_NOMEM;
    side->ctl = ctl;
    side->name = name;
    side->timeout_ns = (int64_t)(conf_number(ctl->conf, "timeout") * NS_PER_MS);
    side->reached = conf_source(ctl->conf, "timeout") != CONF_DEFAULT;
    err = etcd_client_open(&side->client, options, &ctl->note);
    if (err) {
        free(side);
        return err;
    }
    *ret_side = side;
    return ERR_OK;
}

static enum err store_side_read_url(struct ctl *ctl, const char *option, struct prim_url *url,
                                    struct grpc_servers *servers)
{
    const coord_options none = {0};
    const struct prim_open in = {.url = url, .options = &none};
    coord_result result = prim_url_parse(conf_text(ctl->conf, option), url);

    if (result.code == COORD_OK && strcmp(url->scheme, "etcd") != 0 &&
        strcmp(url->scheme, "etcds") != 0)
        result = (coord_result){.code = COORD_INVALID, .text = "etcd:// or etcds:// is needed"};
    if (result.code == COORD_OK && strlen(url->path) > 1)
        result = (coord_result){.code = COORD_INVALID,
                                .text = "--prefix says which keys, not the path of the URL"};
    if (result.code == COORD_OK) result = grpc_servers_read(&in, &etcd_scheme, servers);
    if (result.code == COORD_OK) result = prim_url_done(url);
    if (result.code == COORD_OK) return ERR_OK;
    return ctl_fail(ctl, ERR_INVALID, "--%s: %s", option, result.text);
}

enum err store_side_open_url(struct ctl *ctl, const char *option, struct store_side **ret_side)
{
    struct prim_url url = {0};
    struct grpc_servers servers = {0};
    enum err err = store_side_read_url(ctl, option, &url, &servers);

    if (!err)
        err =
            store_side_open_side(ctl, "etcd",
                                 &(struct etcd_client_options){.servers = &servers,
                                                               .user = url.user,
                                                               .password = url.password,
                                                               .clock = {.now = prim_boottime_ns}},
                                 ret_side);
    prim_url_deinit(&url);
    return err;
}

enum err store_side_open_coordinators(struct ctl *ctl, struct store_side **ret_side)
{
    struct option_value list = conf_list(ctl->conf, "coordinator");
    struct grpc_servers servers = {.ca_file = conf_text(ctl->conf, "tls.ca-file"),
                                   .cert_file = conf_text(ctl->conf, "tls.cert-file"),
                                   .key_file = conf_text(ctl->conf, "tls.key-file")};

    if (list.item_count == 0 || list.item_count > PRIM_URL_HOSTS_MAX)
        return ctl_fail(ctl, ERR_INVALID, "--coordinator: 1 to %d addresses are needed",
                        PRIM_URL_HOSTS_MAX);
    for (size_t i = 0; i < list.item_count; i++) {
        (void)snprintf(servers.memory[i], GRPC_ADDRESS_CAP, "%.*s", STR_ARG(list.items[i]));
        servers.addresses[i] = servers.memory[i];
    }
    servers.tls = servers.ca_file || servers.cert_file || servers.key_file;
    if (servers.tls && !(servers.ca_file && servers.cert_file && servers.key_file))
        return ctl_fail(ctl, ERR_INVALID, "--tls-cert, --tls-key and --tls-ca belong together");
    return store_side_open_side(
        ctl, "the coordinators",
        &(struct etcd_client_options){.servers = &servers, .clock = {.now = prim_boottime_ns}},
        ret_side);
}

void store_side_close(struct store_side *side)
{
    if (!side) return;
    etcd_client_close(&side->client);
    free(side);
}

const char *store_side_name(const struct store_side *side)
{
    return side->name;
}

/* -- asking -- */

static enum err store_side_failed(struct store_side *side, const struct grpc_thread_op *op)
{
    struct ctl *ctl = side->ctl;
    coord_result result;
    struct str text;

    if (etcd_says(op, GRPC_OUT_OF_RANGE, "compacted"))
        return ctl_fail(
            ctl, ERR_UNAVAILABLE,
            "%s: what is being read was compacted meanwhile; the same command again goes on "
            "where this one was",
            side->name);
    if (etcd_says(op, GRPC_PERMISSION_DENIED, "") || etcd_says(op, GRPC_UNAUTHENTICATED, ""))
        return ctl_fail(ctl, ERR_DENIED, "%s: %s", side->name, op->text);
    result = etcd_failure(op, false);
    text = str_from(result.text);
    if (str_starts(text, STR("etcd: "))) text = str_tail(text, sizeof "etcd: " - 1);
    note_set(&ctl->note, "%s: %.*s", side->name, STR_ARG(text));
    return result.code == COORD_INVALID       ? ERR_INVALID
           : result.code == COORD_UNSUPPORTED ? ERR_UNSUPPORTED
                                              : ERR_UNAVAILABLE;
}

/* The call must be repeatable: a read, or a transaction that compares first. */
static enum err store_side_ask(struct store_side *side, const char *path,
                               const ProtobufCMessage *request,
                               const ProtobufCMessageDescriptor *type, struct arena *arena,
                               ProtobufCMessage **ret_message)
{
    struct grpc_thread_op op;
    enum err err;

    etcd_op_init(&op, path, grpc_now(&side->client.grpc_thread) + side->timeout_ns);
    op.idempotent = true;
    op.hurried = !side->reached;
    err = message_write(request, &op.request, &side->ctl->note);
    if (!err) {
        grpc_op_run(&side->client.grpc_thread, &op);
        side->reached = true;
        if (op.err) {
            err = store_side_failed(side, &op);
        } else {
            err = grpc_read(buf_peek(&op.response), type, arena, ret_message);
            if (err) note_set(&side->ctl->note, "%s: an answer that cannot be read", side->name);
        }
    }
    grpc_op_deinit(&op);
    return err;
}

/* -- reading -- */

enum err store_prefix_end(struct ctl *ctl, struct str prefix, ProtobufCBinaryData *ret_end)
{
    uint8_t *end = arena_alloc(&ctl->memory, prefix.len + 1);
    size_t len = prefix.len;

    if (!end) return ERR_NOMEM;
    if (len) memcpy(end, prefix.at, len);
    while (len > 0 && end[len - 1] == 0xff) len--;
    if (len > 0)
        end[len - 1]++;
    else
        end[len++] = '\0'; /* the range has no upper end */
    *ret_end = (ProtobufCBinaryData){len, end};
    return ERR_OK;
}

void store_walk_open(struct store_walk *walk, struct store_side *side, struct str from,
                     struct str end)
{
    *walk = (struct store_walk){.side = side, .end = end};
    buf_init(&walk->from, ETCD_REQUEST_MAX);
    arena_init(&walk->page, 1);
    (void)buf_append(&walk->from, from); /* without memory the first page fails */
}

void store_walk_close(struct store_walk *walk)
{
    arena_deinit(&walk->page);
    buf_deinit(&walk->from);
}

static enum err store_side_next_page(struct store_walk *walk)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    ProtobufCMessage *message;
    const Mvccpb__KeyValue *row;
    enum err err;

    if (walk->from.len == 0) return ERR_NOMEM;
    request.key = grpc_bytes(buf_peek(&walk->from));
    request.range_end = grpc_bytes(walk->end);
    request.limit = PAGE_KEYS;
    request.revision = walk->revision;
    arena_deinit(&walk->page);
    arena_init(&walk->page, 1);
    walk->answer = NULL;
    err = store_side_ask(walk->side, "/etcdserverpb.KV/Range", &request.base,
                         &etcdserverpb__range_response__descriptor, &walk->page, &message);
    if (err) return err;
    walk->answer = (const Etcdserverpb__RangeResponse *)message;
    walk->at = 0;
    walk->last = !walk->answer->more || walk->answer->n_kvs == 0;
    if (!walk->revision && walk->answer->header) walk->revision = walk->answer->header->revision;
    if (walk->last) return ERR_OK;
    row = walk->answer->kvs[walk->answer->n_kvs - 1];
    if (str_compare(grpc_str(row->key), buf_peek(&walk->from)) < 0)
        return ctl_fail(walk->side->ctl, ERR_CORRUPT, "%s: a page that leads back",
                        walk->side->name);
    buf_clear(&walk->from);
    err = buf_append(&walk->from, grpc_str(row->key));
    return err ? err : buf_append_byte(&walk->from, '\0');
}

enum err store_walk_next(struct store_walk *walk, const Mvccpb__KeyValue **ret_row)
{
    *ret_row = NULL;
    while (!walk->answer || walk->at == walk->answer->n_kvs) {
        enum err err;

        if (walk->answer && walk->last) return ERR_OK;
        err = store_side_next_page(walk);
        if (err) return err;
    }
    *ret_row = walk->answer->kvs[walk->at++];
    return ERR_OK;
}

/* -- changing -- */

struct change_parts { /* of one transaction */
    Etcdserverpb__Compare compares[STORE_CHANGES_MAX], *compare_list[STORE_CHANGES_MAX];
    Etcdserverpb__RequestOp ops[STORE_CHANGES_MAX], *op_list[STORE_CHANGES_MAX];
    Etcdserverpb__PutRequest puts[STORE_CHANGES_MAX];
    Etcdserverpb__DeleteRangeRequest removals[STORE_CHANGES_MAX];
};

static void store_side_fill_part(struct change_parts *parts, size_t i,
                                 const struct store_change *change)
{
    Etcdserverpb__Compare *compare = &parts->compares[i];
    Etcdserverpb__RequestOp *op = &parts->ops[i];

    etcdserverpb__compare__init(compare);
    compare->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    compare->key = grpc_bytes(change->key);
    compare->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    compare->mod_revision = change->seen;
    parts->compare_list[i] = compare;
    etcdserverpb__request_op__init(op);
    if (change->removes) {
        etcdserverpb__delete_range_request__init(&parts->removals[i]);
        parts->removals[i].key = grpc_bytes(change->key);
        op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        op->request_delete_range = &parts->removals[i];
    } else {
        etcdserverpb__put_request__init(&parts->puts[i]);
        parts->puts[i].key = grpc_bytes(change->key);
        parts->puts[i].value = grpc_bytes(change->value);
        op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        op->request_put = &parts->puts[i];
    }
    parts->op_list[i] = op;
}

enum err store_side_change(struct store_side *side, const struct store_change *changes,
                           size_t count, bool *ret_done)
{
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    struct change_parts *parts = calloc(1, sizeof *parts);
    ProtobufCMessage *message;
    struct arena arena;
    enum err err;

    if (!parts) return ERR_NOMEM;
    assert(count <= STORE_CHANGES_MAX);
    for (size_t i = 0; i < count; i++) store_side_fill_part(parts, i, &changes[i]);
    txn.n_compare = txn.n_success = count;
    txn.compare = parts->compare_list;
    txn.success = parts->op_list;
    arena_init(&arena, 1);
    err = store_side_ask(side, "/etcdserverpb.KV/Txn", &txn.base,
                         &etcdserverpb__txn_response__descriptor, &arena, &message);
    if (!err) *ret_done = ((const Etcdserverpb__TxnResponse *)message)->succeeded;
    arena_deinit(&arena);
    free(parts);
    return err;
}
