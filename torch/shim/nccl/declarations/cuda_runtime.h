// See nccl.h in this folder.
#pragma once

#include <cuda_runtime_api.h>
