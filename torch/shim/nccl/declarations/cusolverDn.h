// See nccl.h in this folder.
#pragma once

typedef struct cusolverDnContext *cusolverDnHandle_t;
