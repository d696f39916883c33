/*
 * A terminal taken over for a while: plain ANSI on the alternate screen, and as it was afterwards, however
 * the program is asked to end.
 */
#ifndef LK_CLIENT_CLI_SCREEN_H
#define LK_CLIENT_CLI_SCREEN_H

#include "client/cli/top_view.h"

#include <signal.h>
#include <stdbool.h>
#include <termios.h>

struct screen {
    bool taken;            /* the alternate screen is on */
    bool colour;
    int signals;           /* descriptor; the signals come here and are blocked elsewhere */
    sigset_t before;       /* the signal mask */
    struct termios saved;  /* how the terminal was */
    unsigned width, height;
};

enum screen_event {
    SCREEN_TIMEOUT,
    SCREEN_KEY,    /* *ret_key: a character, or one of SCREEN_UP … */
    SCREEN_RESIZE, /* also after a stop: everything has to be drawn again */
    SCREEN_END,    /* a signal, or the terminal is gone */
};

enum { SCREEN_UP = 256, SCREEN_DOWN, SCREEN_LEFT, SCREEN_RIGHT };

/* Can one be shown? Standard input and output are a terminal, and it is not a dumb one. */
bool screen_possible(void);

/* The size of the terminal at standard output, or what COLUMNS says, or 80. */
unsigned screen_width(void);

/* False when the terminal would not. Before anything that starts threads; screen_leave in any case. */
bool screen_enter(struct screen *screen);
void screen_leave(struct screen *screen); /* safe on a zeroed one, and twice */

/* Waits for so long at most. */
enum screen_event screen_wait(struct screen *screen, int ms, int *ret_key);

/* Draws as many lines as fit. False when the terminal is gone. */
bool screen_draw(struct screen *screen, const struct lines *lines);

#endif
