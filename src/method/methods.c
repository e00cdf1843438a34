/* The list of methods. */
#include "base/mem.h"
#include "method/method.h"
#include <string.h>

static const shoal_method *const methods[] = {
  &shoal_method_sync, &shoal_method_local_sgd, &shoal_method_daso,  &shoal_method_swarm,
  &shoal_method_ab,   &shoal_method_ist,       &shoal_method_local,
};

size_t shoal_methods(const shoal_method *const **out)
{
  *out = methods;
  return SHOAL_COUNT(methods);
}

const shoal_method *shoal_method_find(const char *name)
{
  for (size_t i = 0; i < SHOAL_COUNT(methods); i++)
    if (strcmp(methods[i]->name, name) == 0) return methods[i];
  return NULL;
}
