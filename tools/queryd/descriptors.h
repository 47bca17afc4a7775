/*
 * descriptors.h - limits.proto and health.proto as a FileDescriptorSet, made by protoc when we
 * were built: for grpc_options.descriptors, which reflection answers from.
 */
#ifndef TALLY_QUERYD_DESCRIPTORS_H
#define TALLY_QUERYD_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

const uint8_t *queryd_descriptors(size_t *len);

#endif
