/*
 * `lanekeeper index`: makes the index of a dataset, or of all datasets of a configuration.
 */
#ifndef LK_CLIENT_CLI_CMD_INDEX_H
#define LK_CLIENT_CLI_CMD_INDEX_H

/* @argv[0] is "index". Returns the exit status: 0 all is well, 1 a failure, 2 usage. */
int lk_cmd_index(int argc, char **argv);

#endif
