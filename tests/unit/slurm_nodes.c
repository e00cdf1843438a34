/* Node lists written out, against lists written by hand, and faults by their position. */
#include "check.h"
#include "slurm/nodes.h"

static void expands(const char *list, const char *want)
{
  char **names = NULL, got[4096] = "";
  size_t n = 0;
  CHECK_OK(shoal_topo_expand_nodes(list, &names, &n));
  for (size_t i = 0; i < n; i++) {
    strncat(got, names[i], sizeof got - strlen(got) - 2);
    if (i + 1 < n) strcat(got, " ");
    free(names[i]);
  }
  free(names);
  CHECK_STR(got, want, "%s", list);
}

static void fails(const char *list, const char *words)
{
  char **names = NULL;
  size_t n = 7;
  CHECK_STATUS(shoal_topo_expand_nodes(list, &names, &n), SHOAL_ERR_USAGE, "\"%s\" was taken", list);
  CHECK(!names, "outputs are written only on success");
  CHECK_EQ(n, 7);
  CHECK_HAS(check_error(), words, "\"%s\"", list);
}

static void many(void)
{
  char **names;
  size_t n;
  REQUIRE(shoal_topo_expand_nodes("n[00001-20000]", &names, &n) == SHOAL_OK, "many");
  if (CHECK_EQ(n, 20000)) {
    CHECK_STR(names[0], "n00001");
    CHECK_STR(names[19999], "n20000");
  }
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
}

int main(void)
{
  expands("n1", "n1");
  expands("localhost", "localhost");
  expands("a,b-2,c.d", "a b-2 c.d");
  expands("n[1-2,4]", "n1 n2 n4");
  expands("n[1-2,4],m7", "n1 n2 n4 m7");
  expands("n[08-11]x", "n08x n09x n10x n11x");
  expands("n[01-03]", "n01 n02 n03");
  expands("n[9-11]", "n9 n10 n11");
  expands("r[1-2]n[1,3]", "r1n1 r1n3 r2n1 r2n3");
  expands("r[0-1][0-1]z,q", "r00z r01z r10z r11z q");
  expands("[1-3]", "1 2 3");
  expands("a[1],a[1]", "a1 a1");
  expands("n[001,2,03-04]", "n001 n2 n03 n04");
  many();
  fails("", "position 1: a name is expected");
  fails("a,,b", "position 3: a name is expected");
  fails("a,", "position 3: a name is expected");
  fails(",a", "position 1: a name is expected");
  fails("n[1-2", "position 6: the ] is missing");
  fails("n[", "position 3: the ] is missing");
  fails("n1-2]", "position 5: a ] without its [");
  fails("n[1-2]]", "position 7: a ] without its [");
  fails("n[]", "position 3: a number is expected");
  fails("n[1,]", "position 5: a number is expected");
  fails("n[1-]", "position 5: a number is expected");
  fails("n[a-b]", "position 3: a number is expected");
  fails("n[4-2]", "position 3: the range runs backwards");
  fails("n[1[2]]", "position 4: a comma or ] is expected");
  fails("n[1-2-3]", "position 6: a comma or ] is expected");
  fails("a b", "position 2: a blank in a name");
  fails("a\n", "position 2: a blank in a name");
  fails("n[1 -2]", "position 4: a comma or ] is expected");
  fails("n[1-99999999999]", "position 5: the number is too long");
  fails("n[1-999999999]", "more than 100000 nodes");
  fails("n[1-999][1-999][1-999]", "more than 100000 nodes");
  char longest[400];
  memset(longest, 'a', sizeof longest);
  longest[399] = '\0';
  fails(longest, "position 1: the name is too long");
  return check_done();
}
