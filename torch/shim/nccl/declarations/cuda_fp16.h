// See nccl.h in this folder: no type of 16 bits is used.
#pragma once
