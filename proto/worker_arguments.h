/*
 * The command line of lanekeeper-worker, by which an operator connects one to a daemon and a daemon starts its own:
 * one table of options, for parsing, help and the manual page.
 */
#ifndef LK_PROTO_WORKER_ARGUMENTS_H
#define LK_PROTO_WORKER_ARGUMENTS_H

struct worker_argument {
    int key;           /* a letter that stands for it */
    const char *name;  /* without its dashes; NULL ends the table */
    const char *value; /* what stands for its value in help */
    const char *help;  /* a line */
};

#define WORKER_ARGUMENTS 5
const struct worker_argument *worker_arguments(void); /* [WORKER_ARGUMENTS + 1] */

extern const char worker_synopsis[]; /* "lanekeeper-worker --connect ADDRESS …" */
extern const char worker_about[];    /* what it does, in prose */

#endif
