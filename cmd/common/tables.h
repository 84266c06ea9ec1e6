/* The option tables of every command of both programs, in one place: a variable that belongs to
 * another command is then known, and not refused as a misspelling. */
#ifndef COMMON_TABLES_H
#define COMMON_TABLES_H
#include "conf/option.h"

extern const struct option_table dev_table;
extern const struct option_table cert_ca_table, cert_rotate_table, cert_retire_table;
extern const struct option_table cert_issue_table, cert_renew_table, cert_show_table;
extern const struct option_table config_check_table, config_reference_table;
extern const struct option_table *const all_tables[]; /* ends with NULL */

/* Commands that can be named by `musterctl config ... --role`; both end with NULL. */
extern const char *const role_names[];
extern const struct option_table *const role_tables[];

/* What conf_choice answers: log.level and log.format in the order of obs/log.h, events.sink so: */
enum events_choice { EVENTS_CHOICE_NONE, EVENTS_CHOICE_STDOUT, EVENTS_CHOICE_FILE };
#endif
