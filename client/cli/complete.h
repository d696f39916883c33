/*
 * Completion scripts of both programs, made from the tables that parse their arguments.
 */
#ifndef LK_CLIENT_CLI_COMPLETE_H
#define LK_CLIENT_CLI_COMPLETE_H

#include "base/mem.h"

void complete_bash(struct lk_buf *out);
void complete_zsh(struct lk_buf *out);
void complete_fish(struct lk_buf *out);

#endif
