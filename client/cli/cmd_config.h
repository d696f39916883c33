/*
 * `lanekeeper config`: the reference of all keys, and the check of a configuration without serving it.
 */
#ifndef LK_CLIENT_CLI_CMD_CONFIG_H
#define LK_CLIENT_CLI_CMD_CONFIG_H

/*
 * @argv[0] is "config". Answers go to standard output, problems to standard error (with --json, all
 * to standard output as one object). Returns the exit status: 0 all is well, 1 a problem, 2 usage.
 */
int lk_cmd_config(int argc, char **argv);

#endif
