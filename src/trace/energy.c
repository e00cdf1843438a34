/* Energy of the processors of a node, by RAPL (Running Average Power Limit), as Linux shows it:
 *
 *     /sys/class/powercap/intel-rapl:0/name                   package-0
 *                                      energy_uj              microjoules, from an arbitrary start
 *                                      max_energy_range_uj    the largest value, after which it begins at 0 again
 *                         intel-rapl:0:1/name                 dram, core, ...: parts of package 0, or beside it
 *
 * Only whole packages are read: one per socket, or per die.  They are counters of the node: what other jobs on it use is in them,
 * and memory, network and disks are not.  Newer kernels let only root read them; then there are none. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "trace/trace_impl.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char *path, uint64_t *out)
{
  char *text = NULL, *end;
  size_t length;
  if (shoal_read_file(path, &text, &length) != SHOAL_OK) return false;
  *out = strtoull(text, &end, 10);
  bool good = end != text && (*end == '\0' || *end == '\n');
  free(text);
  return good;
}

/* "package-0", "package-1-die-0". */
static bool read_package(const char *folder, char *name, size_t cap)
{
  char path[256], *text = NULL;
  size_t length;
  int n = snprintf(path, sizeof path, "%s/name", folder);
  if (n < 0 || (size_t)n >= sizeof path || shoal_read_file(path, &text, &length) != SHOAL_OK) return false;
  text[strcspn(text, "\n")] = '\0';
  snprintf(name, cap, "%s", text);
  free(text);
  return strncmp(name, "package-", 8) == 0;
}

static void add_domain(const char *powercap, const char *zone, shoal_trace_energies_open *e)
{
  char folder[200], range[256];
  shoal_trace_energy *row = &e->row[e->n];
  int n = snprintf(folder, sizeof folder, "%s/%s", powercap, zone);
  if (n < 0 || (size_t)n >= sizeof folder || e->n == SHOAL_TRACE_DOMAINS) return;
  snprintf(e->path[e->n], sizeof e->path[0], "%s/energy_uj", folder);
  snprintf(range, sizeof range, "%s/max_energy_range_uj", folder);
  if (!read_package(folder, row->domain, sizeof row->domain) || !read_number(e->path[e->n], &e->last[e->n])) return;
  if (!read_number(range, &e->most[e->n])) return;
  row->uj = 0;
  row->t0_ns = row->t1_ns = shoal_now_ns();
  e->n++;
}

/* Zones are "intel-rapl:0"; those with a second number are parts of them. */
static int is_zone(const struct dirent *d)
{
  const char *colon = strchr(d->d_name, ':');
  return strncmp(d->d_name, "intel-rapl:", 11) == 0 && colon && !strchr(colon + 1, ':');
}

void shoal_trace_energy_open(const char *powercap, shoal_trace_energies_open *e)
{
  struct dirent **zones = NULL;
  int n = scandir(powercap, &zones, is_zone, alphasort);
  e->n = 0;
  for (int i = 0; i < n; i++) {
    add_domain(powercap, zones[i]->d_name, e);
    free(zones[i]);
  }
  if (n >= 0) free(zones);
}

void shoal_trace_energy_read(shoal_trace_energies_open *e)
{
  for (size_t i = 0; i < e->n; i++) {
    uint64_t now;
    if (!read_number(e->path[i], &now)) continue;
    e->row[i].uj += now >= e->last[i] ? now - e->last[i] : e->most[i] - SHOAL_MIN(e->last[i], e->most[i]) + now;
    e->row[i].t1_ns = shoal_now_ns();
    e->last[i] = now;
  }
}
