/* For tests that start programs:  ckpt_split FROM TO SHARDS  writes a checkpoint again with so many shards. */
#include "unit/ckpt_split.h"
#include "base/error.h"
#include <stdio.h>

int main(int argc, char **argv)
{
  if (argc != 4) return fprintf(stderr, "usage: %s FROM TO SHARDS\n", argv[0]), 2;
  shoal_status st = split_checkpoint(argv[1], argv[2], atoi(argv[3]), -1);
  if (st != SHOAL_OK) shoal_error_report(st);
  return shoal_status_exit_code(st);
}
