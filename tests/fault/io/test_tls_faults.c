/* SPDX-License-Identifier: Apache-2.0 */
/* TLS and certificates under failures: the k-th allocation, OpenSSL's own among them; the k-th
 * file call; a power cut between any two calls. Nothing may leak, no stranger may be accepted, and
 * complete files must stay complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "cert/cert.h"
#include "lib/fault_alloc.h"
#include "lib/fault_fs.h"
#include "sim/sim_fs.h"
#include "unit/io/tls_pair.h"

#define NAME FORGE_NAME
#define TEXT FORGE_TEXT

/* -- allocations: OpenSSL's go through ours, so the sweep counts them -------------------------- */

static void *count_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return malloc(size);
}
static void *count_realloc(void *old, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return realloc(old, size);
}
static void count_free(void *old, const char *file, int line)
{
    (void)file, (void)line;
    free(old);
}
__attribute__((constructor)) static void count_openssl(void)
{
    if (!CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free)) abort();
}

static struct forge_pair root, foreign_root, server_leaf, client_leaf, strange_leaf;

static void make_leaves(void)
{
    static const struct forge_spec spec = {
        .common_names = {TEXT("a common name")},
        .names = {NAME(URI, "bigfleet://admin"), NAME(DNS, "localhost")}};

    if (root.key) return;
    forge_root(&root, "root");
    forge_root(&foreign_root, "root"); /* the same name: both candidates are tried */
    forge(&server_leaf, &root, &spec);
    forge(&client_leaf, &root, &spec);
    forge(&strange_leaf, &foreign_root, &spec);
}
__attribute__((destructor)) static void forget_leaves(void)
{
    if (!root.key) return;
    forge_free(&root);
    forge_free(&foreign_root);
    forge_free(&server_leaf);
    forge_free(&client_leaf);
    forge_free(&strange_leaf);
}

static enum err open_context(enum tls_side side, const struct forge_pair *pair,
                             struct tls_context **ret_context)
{
    return tls_context_open(NULL,
                            &(struct tls_options){.side = side,
                                                  .cert_pem = forge_cert(pair),
                                                  .key_pem = forge_key(pair),
                                                  .ca_pem = forge_cert(&root),
                                                  .alpn = {"h2"}},
                            ret_context, NULL);
}

TEST(opening_a_context_is_clean_at_every_failing_allocation)
{
    struct tls_context *context = NULL;
    uint64_t failed = 0;

    make_leaves();
    CHECK_OK("warm", open_context(TLS_SERVER, &server_leaf, &context));
    tls_context_unref(context);
    for (uint64_t k = sweep_first(), more = true; more; k += sweep_stride()) {
        enum err err;
        context = NULL;
        fault_alloc_arm(k);
        err = open_context(TLS_SERVER, &server_leaf, &context);
        more = fault_alloc_fired();
        fault_alloc_arm(0);
        failed += err != ERR_OK;
        if ((err == ERR_OK) != (context != NULL))
            fail_msg("output set without success, k %d", (int)k);
        tls_context_unref(context);
    }
    CHECK("the sweep reached into OpenSSL", failed > 10); /* of more than a thousand */
}

TEST(a_failed_replacement_leaves_the_old_material)
{
    struct tls_context *context;

    make_leaves();
    CHECK_OK("open", open_context(TLS_SERVER, &server_leaf, &context));
    for (uint64_t k = sweep_first(), more = true; more; k += sweep_stride()) {
        uint64_t loads = tls_context_info(context).loads;
        enum err err;
        fault_alloc_arm(k);
        err = tls_context_replace(context, forge_cert(&client_leaf), forge_key(&client_leaf),
                                  forge_cert(&root), NULL);
        more = fault_alloc_fired();
        fault_alloc_arm(0);
        if (tls_context_info(context).loads != loads + (err == ERR_OK))
            fail_msg("k %d: loads do not fit the answer", (int)k);
    }
    tls_context_unref(context);
}

/* One handshake under failures; true when the server accepted the client. */
static bool converse(struct tls_context *server_context, struct tls_context *client_context)
{
    struct tls_end client = {0}, server = {0};
    bool taken_in = false;

    buf_init(&client.got, 1 << 20);
    buf_init(&server.got, 1 << 20);
    if (!tls_session_open(server_context, NULL, &server.session, NULL) &&
        !tls_session_open(client_context, "localhost", &client.session, NULL)) {
        bool any = true;
        char plain[TLS_RECORD_MAX];
        size_t got;
        client.err = tls_session_read(client.session, plain, sizeof plain, &got);
        while (any) {
            struct tls_end *from[] = {&client, &server}, *to[] = {&server, &client};
            any = false;
            for (int i = 0; i < 2; i++) {
                struct str out = tls_session_output(from[i]->session);
                if (out.len == 0) continue;
                any = true;
                if (!to[i]->err) to[i]->err = tls_session_feed(to[i]->session, out);
                if (!to[i]->err) {
                    got = 0;
                    do {
                        bool shaking = to[i]->session->state == TLS_SHAKING;
                        to[i]->err = tls_session_read(to[i]->session, plain, sizeof plain, &got);
                        if (!to[i]->err && shaking && to[i]->session->state == TLS_OPEN) got = 1;
                    } while (!to[i]->err && got);
                }
                tls_session_consume(from[i]->session, out.len);
            }
        }
        taken_in = server.session->state == TLS_OPEN;
        if (taken_in && !tls_session_identity(server.session)) fail_msg("open without an identity");
        if (taken_in) {
            (void)tls_session_write(server.session, STR("words"));
            if (server.session->state == TLS_OPEN) (void)tls_session_end(server.session);
        }
    }
    tls_end_close(&client);
    tls_end_close(&server);
    return taken_in;
}

/* Either side may fail first. There must be no crash, no leak, and no accepted stranger. */
static void sweep_conversation(const struct forge_pair *client_pair, bool welcome)
{
    struct tls_context *server_context, *client_context;
    uint64_t runs = 0, taken_in = 0;

    make_leaves();
    CHECK_OK("server", open_context(TLS_SERVER, &server_leaf, &server_context));
    CHECK_OK("client", open_context(TLS_CLIENT, client_pair, &client_context));
    CHECK_U64("warm", converse(server_context, client_context), welcome);
    for (uint64_t k = sweep_first(), more = true; more; k += sweep_stride()) {
        bool in;
        fault_alloc_arm(k);
        in = converse(server_context, client_context);
        more = fault_alloc_fired();
        fault_alloc_arm(0);
        runs++;
        taken_in += in;
        if (in && !welcome) fail_msg("a stranger got in when allocation %d failed", (int)k);
    }
    fprintf(stderr, "%d failing allocations, %d conversations went on without them\n", (int)runs,
            (int)taken_in);
    CHECK("the sweep reached into OpenSSL", runs > 40);
    tls_context_unref(server_context);
    tls_context_unref(client_context);
}

TEST(a_handshake_is_clean_at_every_failing_allocation)
{
    sweep_conversation(&client_leaf, true);
}
TEST(no_failing_allocation_lets_a_stranger_in)
{
    sweep_conversation(&strange_leaf, false);
}

/* -- files: the authority on a disk whose calls fail ------------------------------------------- */

static const struct cert_ca_options ca = {.dir = "/tls"};
static const struct cert_leaf_options leaf = {
    .ca_dir = "/tls", .cert_file = "/tls/leaf.pem", .key_file = "/tls/leaf.key.pem"};
static const struct cert_leaf_options leaf_forced = {.ca_dir = "/tls",
                                                     .cert_file = "/tls/leaf.pem",
                                                     .key_file = "/tls/leaf.key.pem",
                                                     .force = true,
                                                     .new_key = true};
static const struct cert_request request = {.kind = CERT_SHARD, .id = TEXT("s-1")};
static const wall_time today = {1800000000000};

/* Operations on the authority, in this order; each is one scenario of the sweeps. */
enum step { MAKE_CA, MAKE_LEAF, RENEW_LEAF, ROTATE, RENEW_ROTATED, RETIRE, STEP_COUNT };
static enum err do_step(struct fs *fs, enum step step)
{
    struct cert_report ca_report;
    struct cert_report leaf_report;

    switch (step) {
    case MAKE_CA: return cert_ca_ensure(fs, &ca, today, &ca_report, NULL);
    case MAKE_LEAF: return cert_leaf_ensure(fs, &leaf, &request, today, &leaf_report, NULL);
    case RENEW_LEAF: return cert_leaf_ensure(fs, &leaf_forced, NULL, today, &leaf_report, NULL);
    case RENEW_ROTATED: return cert_leaf_ensure(fs, &leaf, NULL, today, &leaf_report, NULL);
    case ROTATE: return cert_ca_rotate(fs, &ca, today, &ca_report, NULL);
    case RETIRE: return cert_ca_retire(fs, &ca, false, today, &ca_report, NULL);
    default: abort();
    }
}

/* The state before each step is made once and copied from then on: keys are slow. */
static const char *const paths[] = {"/tls/ca.pem", "/tls/ca.key.pem", "/tls/leaf.pem",
                                    "/tls/leaf.key.pem"};
static struct buf before[STEP_COUNT][ARRAY_LEN(paths)];
static bool before_known[STEP_COUNT];

__attribute__((destructor)) static void forget_before(void)
{
    for (int step = 0; step < STEP_COUNT; step++)
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) buf_deinit(&before[step][i]);
}

static void learn_before(enum step step)
{
    struct sim_fs *disk;
    struct prng prng;

    prng_seed(&prng, 1);
    CHECK_OK("a disk", sim_fs_open(&(struct sim_fs_options){0}, &prng, &disk));
    for (enum step done = MAKE_CA; done < step; done++)
        CHECK_OK("before", do_step(sim_fs_fs(disk), done));
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        buf_init(&before[step][i], CERT_FILE_MAX);
        (void)fs_read_whole(sim_fs_fs(disk), paths[i], CERT_FILE_MAX, &before[step][i]);
    }
    before_known[step] = true;
    sim_fs_close(disk);
}

static struct sim_fs *disk_before(enum step step, uint64_t seed, bool harsh)
{
    struct sim_fs_options options = {0};
    struct sim_fs *disk;
    struct prng prng;

    if (!before_known[step]) learn_before(step);
    if (harsh) {
        options.write_lost_per_million = 400000;
        options.write_torn_per_million = 300000;
        options.name_lost_per_million = 500000;
    }
    prng_seed(&prng, seed);
    CHECK_OK("a disk", sim_fs_open(&options, &prng, &disk));
    if (step > MAKE_CA) CHECK_OK("its directory", fs_make_dirs(sim_fs_fs(disk), "/tls", 0700));
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (before[step][i].len)
            CHECK_OK("its files", fs_publish(sim_fs_fs(disk), paths[i], buf_peek(&before[step][i]),
                                             i % 2 ? 0600 : 0644, i));
    return disk;
}

/* Repeated without faults, every file is there and fits. */
static void check_whole(struct fs *fs, const char *why)
{
    struct cert_report ca_report;
    struct cert_report leaf_report;
    struct tls_context *context;
    struct note note = {0};
    enum err err = cert_ca_ensure(fs, &ca, today, &ca_report, &note);

    if (err) note_prefix(&note, "%s", why);
    CHECK_ERR(note.text, err, ERR_OK);
    err = cert_leaf_ensure(fs, &leaf, &request, today, &leaf_report, &note);
    if (err) note_prefix(&note, "%s", why);
    CHECK_ERR(note.text, err, ERR_OK);
    err = tls_context_open(fs,
                           &(struct tls_options){.side = TLS_SERVER,
                                                 .cert_file = leaf.cert_file,
                                                 .key_file = leaf.key_file,
                                                 .ca_files = {"/tls/ca.pem"}},
                           &context, &note);
    CHECK_ERR(note.text, err, ERR_OK);
    tls_context_unref(context);
}

TEST(after_any_failing_file_call_a_repeat_succeeds)
{
    for (enum step step = MAKE_CA; step < STEP_COUNT; step++) {
        bool more = true;
        for (uint64_t k = 1; more; k++) { /* every run begins at the same place */
            struct sim_fs *disk = disk_before(step, 1, false);
            struct fault_fs fault;
            char why[64];
            fault_fs_init(&fault, sim_fs_fs(disk));
            fault_fs_arm(&fault,
                         (struct fault_fs_plan){.calls = FAULT_FS_ANY, .nth = k, .err = ERR_IO});
            (void)do_step(fault_fs_fs(&fault), step);
            more = fault_fs_fired(&fault);
            snprintf(why, sizeof why, "step %d, call %d", (int)step, (int)k);
            check_whole(sim_fs_fs(disk), why);
            sim_fs_close(disk);
        }
    }
}

TEST(after_a_power_cut_between_any_two_calls_a_repeat_succeeds)
{
    for (enum step step = MAKE_CA; step < STEP_COUNT; step++) {
        bool more = true;
        for (uint64_t k = 1; more; k++) {
            for (uint64_t seed = 1; seed <= (getenv("MUSTER_TEST_LONG") ? 16 : 1); seed++) {
                struct fault_fs fault;
                struct sim_fs *disk = disk_before(step, seed * 1000 + k, true);
                char why[64];
                fault_fs_init(&fault, sim_fs_fs(disk));
                fault_fs_arm(&fault, (struct fault_fs_plan){.calls = FAULT_FS_ANY,
                                                            .nth = k,
                                                            .err = ERR_IO,
                                                            .from_then_on = true});
                (void)do_step(fault_fs_fs(&fault), step);
                more = fault_fs_fired(&fault);
                sim_fs_crash(disk);
                snprintf(why, sizeof why, "step %d, call %d, seed %d", (int)step, (int)k,
                         (int)seed);
                check_whole(sim_fs_fs(disk), why);
                sim_fs_close(disk);
            }
        }
    }
}

/* -- an authority under failing allocations (our own and OpenSSL's) ---------------------------- */

TEST(the_authority_is_clean_at_every_failing_allocation)
{
    for (enum step step = MAKE_CA; step < STEP_COUNT; step++) {
        bool more = true;
        uint64_t runs = 0;
        for (uint64_t k = sweep_first(); more; k += sweep_stride(), runs++) {
            struct sim_fs *disk = disk_before(step, 7, false);
            fault_alloc_arm(k);
            (void)do_step(sim_fs_fs(disk), step);
            more = fault_alloc_fired();
            fault_alloc_arm(0);
            check_whole(sim_fs_fs(disk), "after a failed allocation");
            sim_fs_close(disk);
        }
        fprintf(stderr, "step %d: %d runs\n", (int)step, (int)runs);
    }
}
