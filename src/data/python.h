/* Commands for Python that messages print: they must work as they stand, or say what they need. */
#ifndef SHOAL_DATA_PYTHON_H
#define SHOAL_DATA_PYTHON_H
#include "base/str.h"

typedef struct {
  char run[256];   /* "python3"; the system's by its path, where it has the packages and another one is found first */
  char needs[192]; /* "", or "needs h5py (apt install python3-h5py)" if it is not seen that it has them */
} shoal_python;
/** The Python for a command that imports these packages, a list that ends with NULL: what SHOAL_PYTHON names, else the system's if
 *  it has them, else whatever is called python3. */
void shoal_find_python(const char *const *packages, shoal_python *out);
/** `text` as a literal of Python, with its quotes, in a command that stands between double quotes of the shell.  Returns buf; of
 *  a literal that does not fit in, dots. */
const char *shoal_python_text(const char *text, char buf[SHOAL_WORD]);
#endif
