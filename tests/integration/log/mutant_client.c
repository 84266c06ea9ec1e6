/* SPDX-License-Identifier: Apache-2.0 */
/* The one file of the program that knows of a planted bug, with it. Included, so that the linter's
 * list of compilations has each shipped file once. */
#include "muster/log_node_client.c"
