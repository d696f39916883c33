/*
 * The commands. Each takes argv with its own name first, says what it has to say, and returns the
 * exit status: 0 all is well, 1 a problem was found, 2 wrong arguments, 3 no daemon could be reached.
 */
#ifndef LK_CLIENT_CLI_COMMANDS_H
#define LK_CLIENT_CLI_COMMANDS_H

int cmd_detokenize(int argc, char **argv);
int cmd_digest(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_measure(int argc, char **argv);
int cmd_peek(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_verify(int argc, char **argv);

#endif
