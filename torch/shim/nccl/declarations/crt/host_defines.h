// The macros with which the headers of the CUDA runtime mark their declarations. A host compiler needs only the alignments.
#pragma once

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDART_CB
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __location__(a)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
