// See nccl.h in this folder.
#pragma once

typedef struct cublasLtContext *cublasLtHandle_t;
