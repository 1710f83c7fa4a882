// The part of NCCL's interface (nccl.h of NCCL 2.28, against which libtorch is built) that c10d's ProcessGroupNCCL.hpp names.
// The wheel with the header has 200 MB, so that only ./build.sh cuda downloads it; it checks these declarations against it.
//
// ncclConfig_t must have NCCL's layout: it is a member of ProcessGroupNCCL's options, and NCCL reads it.
#pragma once

#include <cuda_runtime_api.h>

#include <climits>

#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_VERSION_CODE NCCL_VERSION(2, 28, 9)
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_SPLIT_NOCOLOR -1

extern "C" {

typedef struct ncclComm *ncclComm_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum { ncclSuccess = 0, ncclInProgress = 7 } ncclResult_t;

// As in NCCL, the values of ncclDataType_t and ncclRedOp_t number the elements and the sums.
typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclHalf = 6,
  ncclFloat = 7,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclMaxRedOp = INT_MAX } ncclRedOp_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
} ncclConfig_t;

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

}  // extern "C"

#define NCCL_CONFIG_INITIALIZER                                                                                        \
  {                                                                                                                    \
    sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, INT_MIN, INT_MIN, INT_MIN, INT_MIN, nullptr, INT_MIN, INT_MIN, \
        nullptr, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN                                                  \
  }
