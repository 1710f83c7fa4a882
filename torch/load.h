#ifndef OPENMANUS_LOAD_H
#define OPENMANUS_LOAD_H

/* Loads libopenmanus_torch.so, libcgotorch.so and libtorch. Call it once, before any function of openmanus_torch.h or of
 * gotorch. Returns NULL, or a message that the caller frees with free. */
char *om_load(void);

#endif
