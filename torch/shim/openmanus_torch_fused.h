/* The fused operations of libopenmanus_torch. Included by openmanus_torch.h, whose conventions hold here too. */
#ifndef OPENMANUS_TORCH_FUSED_H
#define OPENMANUS_TORCH_FUSED_H

#endif
