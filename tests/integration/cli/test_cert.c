/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert: every identity of the design is requested twice, shown, renewed and rotated. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "lib/golden.h"

static struct proc proc;

static int ctl(const char *const *words)
{
    return cli_run(&proc, cli_musterctl(), words, NULL);
}

static const char *new_ca(const char *name)
{
    const char *dir = cli_path(name);
    CHECK_I64("an authority", ctl(WORDS("cert", "ca", "--dir", dir)), 0);
    CHECK("created", strncmp(proc.output, "created ", 8) == 0);
    return dir;
}

static uint32_t mode_of(const char *dir, const char *name)
{
    char path[4300];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(path, stat(path, &info) == 0);
    return info.st_mode & 07777;
}

static const struct {
    const char *kind, *id, *file, *proves;
} identities[] = {
    {"replica", "1", "replica-1", "URI:muster://replica/1"},
    {"admin", NULL, "admin", "URI:bigfleet://admin"},
    {"readonly", NULL, "readonly", "URI:bigfleet://readonly"},
    {"shard", "eu-1", "shard-eu-1", "URI:bigfleet://shard/eu-1"},
    {"cluster", "c1", "cluster-c1", "URI:bigfleet://cluster/c1"},
    {"provider", "aws", "provider-aws", "CN=provider-aws"},
    {"worker", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "worker-01ARZ3NDEKTSV4RRFFQ69G5FAV",
     "DNS:worker-01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    {"worker-service", NULL, "worker-service", "CN=localhost"},
    {"store", "app", "store-app", "CN=app"},
    {"server", NULL, "server", "DNS:localhost"},
};
TEST(every_identity_is_issued_kept_and_shown)
{
    const char *dir = new_ca("every");
    for (size_t i = 0; i < ARRAY_LEN(identities); i++) {
        char file[4300], name[128];
        const char *words[8] = {"cert", "issue", "--dir", dir, identities[i].kind};
        if (identities[i].id) {
            words[5] = "--id";
            words[6] = identities[i].id;
        }
        CHECK_I64(identities[i].kind, ctl(words), 0);
        CHECK("created", strncmp(proc.output, "created ", 8) == 0);
        CHECK_I64("again", ctl(words), 0);
        CHECK("kept", strncmp(proc.output, "kept ", 5) == 0);
        snprintf(file, sizeof file, "%s/%s.pem", dir, identities[i].file);
        CHECK_I64("show", ctl(WORDS("cert", "show", file)), 0);
        CHECK_HAS(identities[i].kind, proc.output, identities[i].proves);
        snprintf(name, sizeof name, "%s.key.pem", identities[i].file);
        CHECK_U64("its key is nobody else's", mode_of(dir, name), 0600);
    }
    CHECK_U64("the authority's key too", mode_of(dir, "ca.key.pem"), 0600);
    CHECK_I64("asking for the authority again keeps it", ctl(WORDS("cert", "ca", "--dir", dir)), 0);
    CHECK("kept", strncmp(proc.output, "kept ", 5) == 0);
}

TEST(a_certificate_with_other_names_is_renewed_and_says_why)
{
    const char *dir = new_ca("names");
    CHECK_I64("issue", ctl(WORDS("cert", "issue", "--dir", dir, "shard", "--id", "a")), 0);
    CHECK_I64("with a name",
              ctl(WORDS("cert", "issue", "--dir", dir, "shard", "--id", "a", "--names",
                        "shard.example,10.0.0.7")),
              0);
    CHECK("renewed", strncmp(proc.output, "renewed ", 8) == 0);
    CHECK_I64("json",
              ctl(WORDS("cert", "issue", "--dir", dir, "shard", "--id", "a", "--names",
                        "shard.example,10.0.0.7", "--force", "--new-key", "--json")),
              0);
    CHECK_HAS("result", proc.output, "{\"result\":\"renewed\",\"cert\":\"");
    CHECK_HAS("a new key", proc.output, "\"key_made\":true");
    char file[4300];
    snprintf(file, sizeof file, "%s/shard-a.pem", dir);
    CHECK_I64("show", ctl(WORDS("cert", "show", "--json", file)), 0);
    CHECK_HAS("names", proc.output, "\"DNS:shard.example\",\"IP:10.0.0.7\"");
}

TEST(an_authority_is_rotated_without_a_gap)
{
    const char *dir = new_ca("rotate");
    CHECK_I64("issue", ctl(WORDS("cert", "issue", "--dir", dir, "admin")), 0);
    CHECK_I64("issue", ctl(WORDS("cert", "issue", "--dir", dir, "replica", "--id", "2")), 0);
    CHECK_I64("rotate", ctl(WORDS("cert", "rotate", "--dir", dir)), 0);
    CHECK_HAS("both are trusted", proc.output, "2 roots are trusted");
    CHECK_HAS("the next command", proc.output, "next: musterctl cert renew");
    CHECK_I64("not while somebody leans on the old root",
              ctl(WORDS("cert", "retire", "--dir", dir)), 4);
    CHECK_HAS("names it", proc.output, "still signed by an old root");
    CHECK_I64("renew all", ctl(WORDS("cert", "renew", "--dir", dir)), 0);
    const char *admin = strstr(proc.output, "admin.pem"),
               *replica = strstr(proc.output, "replica-2.pem");
    CHECK("both, in order of their names", admin && replica && admin < replica);
    CHECK_I64("retire", ctl(WORDS("cert", "retire", "--dir", dir)), 0);
    CHECK("retired", strncmp(proc.output, "retired ", 8) == 0);
    CHECK_I64("nothing is left to do", ctl(WORDS("cert", "renew", "--dir", dir)), 0);
    CHECK("kept", strncmp(proc.output, "kept ", 5) == 0);
}

static const struct {
    const char *why, *words[8];
    int code;
    const char *says;
} refused[] = {
    {"no authority",
     {"cert", "issue", "--dir", "/nowhere", "admin"},
     5,
     "no authority in /nowhere; make one with: musterctl cert ca --dir /nowhere"},
    {"no authority to rotate",
     {"cert", "rotate", "--dir", "/nowhere"},
     5,
     "no authority in /nowhere"},
    {"no authority to renew from",
     {"cert", "renew", "--dir", "/nowhere"},
     5,
     "no authority in /nowhere"},
    {"a misspelt kind",
     {"cert", "issue", "replcia", "--id=1"},
     2,
     "unknown kind 'replcia' (did you mean 'replica'?)"},
    {"an unknown kind", {"cert", "issue", "frobnicator"}, 2, "there are replica, admin, readonly"},
    {"no id", {"cert", "issue", "replica"}, 2, "replica needs --id"},
    {"an id too many", {"cert", "issue", "admin", "--id=1"}, 2, "admin takes no --id"},
    {"an id that is none", {"cert", "issue", "shard", "--id=a/b"}, 2, "id"},
    {"too many days",
     {"cert", "issue", "admin", "--days=36501"},
     2,
     "--days: must be between 1 and 36500"},
    {"an address with a mistake in it",
     {"cert", "issue", "server", "--names", "999.1.1.1"},
     2,
     "'999.1.1.1' is neither a DNS name nor an address"},
    {"control bytes in a name",
     {"cert", "ca", "--dir", "/nowhere", "--common-name", "a\nb"},
     2,
     "a common name has"},
    {"a directory", {"cert", "show", "/tmp"}, 2, "/tmp: is a directory"},
    {"a key to write to",
     {"cert", "issue", "admin", "--out", "x.key.pem"},
     2,
     "--out x.key.pem: give PATH or PATH.pem"},
    {"a directory to write to", {"cert", "issue", "admin", "--out", "x/"}, 2, "--out x/: give"},
    {"no certificate", {"cert", "show", "/dev/null"}, 2, "/dev/null"},
    {"no file", {"cert", "show", "/nowhere/x.pem"}, 5, "/nowhere/x.pem"},
    {"a key is not what is renewed", {"cert", "renew", "x.key.pem"}, 2, "give the certificate"},
};
TEST(a_refusal_says_why_and_what_to_do)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        CHECK_I64(refused[i].why, ctl(refused[i].words), refused[i].code);
        CHECK_HAS(refused[i].why, proc.output, refused[i].says);
    }
}

TEST(half_an_authority_is_not_touched)
{
    const char *dir = cli_path("half");
    CHECK("directory", mkdir(dir, 0700) == 0);
    char key[4300];
    snprintf(key, sizeof key, "%s/ca.key.pem", dir);
    cli_write(key, "something of somebody's\n");
    CHECK("refused", ctl(WORDS("cert", "ca", "--dir", dir)) != 0);
    FILE *file = fopen(key, "r");
    char text[64] = "";
    CHECK("still there", file && fgets(text, sizeof text, file));
    fclose(file);
    CHECK_TEXT("the file is unchanged", text, "something of somebody's\n");
}

TEST(a_key_that_others_may_read_is_warned_about)
{
    const char *dir = new_ca("exposed");
    char key[4300];
    snprintf(key, sizeof key, "%s/ca.key.pem", dir);
    CHECK("opened", chmod(key, 0644) == 0);
    CHECK_I64("works", ctl(WORDS("cert", "ca", "--dir", dir)), 0);
    CHECK_HAS("warns", proc.output, "may be read by others; chmod 600 it");
    CHECK("or is refused", ctl(WORDS("cert", "ca", "--dir", dir, "--strict-permissions")) != 0);
}

static const char *in(const char *dir, const char *name)
{
    static char paths[8][4300];
    static size_t next;
    char *path = paths[next++ % ARRAY_LEN(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void copy(const char *from, const char *to)
{
    char bytes[8192];
    FILE *file = fopen(from, "r");
    CHECK(from, file != NULL);
    bytes[fread(bytes, 1, sizeof bytes - 1, file)] = '\0';
    fclose(file);
    cli_write(to, bytes);
}

TEST(the_authority_survives_being_named_as_a_leaf)
{
    const char *dir = new_ca("survives");
    CHECK_I64("as --out",
              ctl(WORDS("cert", "issue", "readonly", "--dir", dir, "--out", in(dir, "ca"))), 4);
    CHECK_HAS("said", proc.output, "ca.pem belongs to an authority");
    CHECK_I64("as the certificate to renew",
              ctl(WORDS("cert", "renew", "--dir", dir, "--force", in(dir, "ca.pem"))), 4);
    copy(in(dir, "ca.pem"), in(dir, "admin.pem"));
    CHECK_I64("copied", ctl(WORDS("cert", "issue", "admin", "--dir", dir)), 4);
    CHECK_HAS("said", proc.output, "admin.pem holds the certificate of an authority");
    CHECK_I64("it is there", ctl(WORDS("cert", "ca", "--dir", dir)), 0);
    CHECK_I64("and signs", ctl(WORDS("cert", "issue", "readonly", "--dir", dir)), 0);
}

TEST(out_takes_the_name_with_or_without_its_ending)
{
    const char *dir = new_ca("out");
    CHECK_I64("with", ctl(WORDS("cert", "issue", "admin", "--dir", dir, "--out", in(dir, "x.pem"))),
              0);
    CHECK_HAS("once", proc.output, "/x.pem  valid until");
    CHECK_I64("without", ctl(WORDS("cert", "issue", "admin", "--dir", dir, "--out", in(dir, "x"))),
              0);
    CHECK("the same", strncmp(proc.output, "kept ", 5) == 0);
}

TEST(one_refused_file_does_not_stop_the_others)
{
    const char *dir = new_ca("others");
    cli_write(in(dir, "a.pem"), "my notes\n");
    CHECK_I64("one", ctl(WORDS("cert", "issue", "admin", "--dir", dir)), 0);
    CHECK_I64("another", ctl(WORDS("cert", "issue", "readonly", "--dir", dir)), 0);
    cli_write(in(dir, "b.pem"), "more notes\n");
    CHECK_I64("all", ctl(WORDS("cert", "renew", "--dir", dir, "--force")), 4);
    CHECK_HAS("before", proc.output, "a.pem is there and holds no certificate of ours");
    CHECK_HAS("between", proc.output, "b.pem is there and holds no certificate of ours");
    CHECK_HAS("done", proc.output, "admin.pem  valid until");
    CHECK_HAS("done", proc.output, "readonly.pem  valid until");
    CHECK_I64("the worst of them",
              ctl(WORDS("cert", "renew", "--dir", dir, in(dir, "a.pem"), in(dir, "none.pem"),
                        in(dir, "admin.key.pem"), in(dir, "admin.pem"))),
              5);
    CHECK_HAS("the last one", proc.output, "admin.pem  valid until");
    CHECK_I64("keys are called so",
              ctl(WORDS("cert", "show", in(dir, "admin.key.pem"), in(dir, "admin.pem"))), 0);
    CHECK_HAS("text", proc.output, "admin.key.pem\n  a private key\n");
    CHECK("nothing of it", !strstr(proc.output, "BEGIN"));
    CHECK_HAS("and then", proc.output, "CN=admin");
    CHECK_I64("json",
              ctl(WORDS("cert", "show", "--json", in(dir, "admin.key.pem"), in(dir, "a.pem"),
                        in(dir, "admin.pem"))),
              2);
    CHECK_HAS("a line of its own", proc.output, "admin.key.pem\",\"private_key\":true}\n");
    CHECK_HAS("and then", proc.output, "\"subject\":\"CN=admin\"");
    CHECK_I64("said once", ctl(WORDS("cert", "renew", "--dir", "/nowhere", "x.pem", "y.pem")), 5);
    CHECK("not of each", !strstr(strstr(proc.output, "no authority") + 1, "no authority"));
}

/* Masks the path, the dates and the random numbers, which differ from run to run. */
static void mask(const char *text, char *into, size_t cap)
{
    size_t used = 0;
    const char *at = text, *end;

    for (; *at && used + 2 < cap; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        bool varies = strncmp(at, "  valid ", 8) == 0 || strncmp(at, "  serial ", 9) == 0 ||
                      strncmp(at, "  fingerprint ", 14) == 0 || at[0] == '/';
        int kept = at[0] == '/' ? 0 : varies ? 15 : (int)(end - at);
        used +=
            (size_t)snprintf(into + used, cap - used, "%.*s%s\n", kept, at, varies ? "..." : "");
    }
}

TEST(show_reads_as_the_transcript)
{
    const char *dir = new_ca("golden");
    char text[4096] = "";
    CHECK_I64("issue",
              ctl(WORDS("cert", "issue", "--dir", dir, "worker", "--id",
                        "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--out", in(dir, "w"))),
              0);
    CHECK_I64("issue", ctl(WORDS("cert", "issue", "--dir", dir, "admin")), 0);
    CHECK_I64("show",
              ctl(WORDS("cert", "show", in(dir, "ca.pem"), in(dir, "ca.key.pem"),
                        in(dir, "admin.pem"), in(dir, "w.pem"))),
              0);
    mask(proc.output, text, sizeof text);
    golden_check("cli/cert-show.txt", str_from(text));
}

TEST(an_existing_certificate_that_differs_from_the_request_is_reported)
{
    const char *dir = new_ca("wish");
    CHECK_I64("another name", ctl(WORDS("cert", "ca", "--dir", dir, "--common-name", "acme")), 4);
    CHECK_HAS("said", proc.output, "asked for CN=acme, has CN=muster-dev-ca");
    CHECK_I64("another kind", ctl(WORDS("cert", "ca", "--dir", dir, "--rollout")), 4);
    CHECK_HAS("said", proc.output, "asked for CN=rollout-dev-ca");
    CHECK_I64("other days", ctl(WORDS("cert", "ca", "--dir", dir, "--days", "365")), 0);
    CHECK_HAS("said", proc.output, "asked for 365 days, has 3650; rotate makes a new root");
    CHECK_I64("the same", ctl(WORDS("cert", "ca", "--dir", dir, "--days", "3650")), 0);
    CHECK("no words", !strstr(proc.output, "asked"));
    CHECK_I64("issue", ctl(WORDS("cert", "issue", "--dir", dir, "admin")), 0);
    CHECK_I64("other days", ctl(WORDS("cert", "issue", "--dir", dir, "admin", "--days", "1")), 0);
    CHECK("kept", strncmp(proc.output, "kept ", 5) == 0);
    CHECK_HAS("said", proc.output, "asked for 1 days, has 90; --force renews it");
    CHECK_I64("json", ctl(WORDS("cert", "issue", "--dir", dir, "admin", "--days", "1", "--json")),
              0);
    CHECK_HAS("said", proc.output, "\"why\":\"asked for 1 days, has 90");
    CHECK_I64("a new key", ctl(WORDS("cert", "issue", "--dir", dir, "admin", "--new-key")), 0);
    CHECK_HAS("said", proc.output, "its key too; --force renews both");
}

TEST(help_names_a_page_that_exists)
{
    CHECK_I64("a group", ctl(WORDS("cert", "--help")), 0);
    CHECK_HAS("says", proc.output, "See musterctl help cert COMMAND for one of them.");
    CHECK_I64("and so it is", ctl(WORDS("help", "cert", "ca")), 0);
}

/* -- the manual -------------------------------------------------------------------------------- */

#define RUN_MARK "<!-- run by tests/integration/cli/test_cert.c -->\n```sh\n"
TEST(the_commands_of_the_manual_work_unchanged)
{
    enum { BLOCKS = 4 };
    static char text[64 * 1024];
    char script[8192];
    const char *at = text;
    int found = 0;
    FILE *file = fopen(in(cli_source(), "docs/certificates.md"), "r");

    CHECK("the manual", file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (; (at = strstr(at, RUN_MARK)); found++) { /* one after the other, in one directory */
        const char *end = strstr(at += sizeof RUN_MARK - 1, "\n```");
        CHECK("closed", end != NULL);
        int len = snprintf(
            script, sizeof script, "mkdir -p '%s'; cd '%s'; musterctl() { '%s' \"$@\"; }\n%.*s\n",
            cli_path("manual"), cli_path("manual"), cli_musterctl(), (int)(end - at), at);
        CHECK("fits", len > 0 && (size_t)len < sizeof script);
        int code = cli_run(&proc, "/bin/sh", WORDS("-e", "-c", script), NULL);
        if (code != 0) fprintf(stderr, "%s\nsays: %s\n", script, proc.output);
        CHECK_I64("a block of the manual", code, 0);
    }
    CHECK_I64("blocks", found, BLOCKS);
}
