/*
 * The hand-over of batch memory to trainers on the same host, over a Unix stream socket. Client and
 * server say the same with it, so it stands here once.
 *
 *   client -> server   {"LKH1", u32 0, u64 client id}, once; then any number of
 *                      {u32 1, u32 0, u64 lease}: gives that lease back
 *   server -> client   {"LKH1", u32 regions}, with as many descriptors as SCM_RIGHTS; then for each of
 *                      them u64 its size
 *
 * all little-endian. A client id is chosen by the client and is not 0. Whatever is not this closes the
 * connection, and the end of the connection gives all leases of its client back.
 */
#ifndef LK_PROTO_HANDOVER_H
#define LK_PROTO_HANDOVER_H

#define LK_HANDOVER_MAGIC "LKH1"
#define LK_HANDOVER_MESSAGE_BYTES 16 /* of every message of a client */
#define LK_HANDOVER_RELEASE 1u
#define LK_HANDOVER_REGIONS_MAX 64

#endif
