// See gloo/declarations.h.
#include <gloo/declarations.h>
