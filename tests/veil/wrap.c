/* The program with its backend behind a veil.  Linked with --wrap, so that the program's own calls come here. */
#include "tensor/cpu/cpu.h"
#include "veil/veil.h"

shoal_status __real_shoal_backend_open_as(const shoal_backend_options *o, shoal_backend **out);
shoal_status __wrap_shoal_backend_open_as(const shoal_backend_options *o, shoal_backend **out);
void __real_shoal_cpu_set_winograd(shoal_backend *b, bool on);
void __wrap_shoal_cpu_set_winograd(shoal_backend *b, bool on);

shoal_status __wrap_shoal_backend_open_as(const shoal_backend_options *o, shoal_backend **out)
{
  shoal_backend *inner;
  SHOAL_TRY(__real_shoal_backend_open_as(o, &inner));
  shoal_status st = veil_over(inner, out);
  if (st != SHOAL_OK) shoal_backend_close(inner);
  return st;
}

void __wrap_shoal_cpu_set_winograd(shoal_backend *b, bool on)
{
  __real_shoal_cpu_set_winograd(veil_behind(b), on);
}
