/* Saved machines (hwloc's XML): what can be opened can be printed, and its JSON reads back. */
#include "topo/machine.h"
#include "base/json.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  shoal_machine *m;
  if (shoal_machine_open(fuzz_file("machine.xml", data, n), &m) != SHOAL_OK) return 0;
  shoal_json j = { 0 };
  shoal_str table = { 0 };
  json_t *tree;
  shoal_machine_put_json(m, &j, NULL);
  shoal_machine_print(m, &table);
  FUZZ_CHECK(shoal_json_read(j.text.text, "machine", &tree) == SHOAL_OK);
  json_decref(tree);
  shoal_str_free(&j.text);
  shoal_str_free(&table);
  shoal_machine_close(m);
  return 0;
}
