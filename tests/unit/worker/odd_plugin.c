/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects that break the plugin contract, for test_cdylib.c. */
#include <muster/plugin.h>

const struct muster_plugin *abi_two(void), *no_plugin(void), *half_plugin(void);

const struct muster_plugin *abi_two(void)
{
    static const struct muster_plugin plugin = {.abi_version = 2, .name = "two"};
    return &plugin;
}

const struct muster_plugin *no_plugin(void)
{
    return 0;
}

const struct muster_plugin *half_plugin(void)
{
    static const struct muster_plugin plugin = {.abi_version = MUSTER_PLUGIN_ABI, .name = "half"};
    return &plugin;
}
