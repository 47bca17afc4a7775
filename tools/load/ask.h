/*
 * ask.h - the mode `tally-load ask`: questions over gRPC instead of records.
 */
#ifndef TALLY_LOAD_ASK_H
#define TALLY_LOAD_ASK_H

/* argv[0] is "ask".  The exit code. */
int ask_main(int argc, char **argv);

#endif
