/* A table: a data set that is read and written by rows, along its first dimension.
 *
 *     rows of numbers     [n], or [n, channels, height, width]   samples, labels, arrays of a checkpoint
 *     rows of structs     [n] of a C struct                      records and attempts of a trace
 *     rows of text        [n] of UTF-8 text                      names of a trace's operations
 *
 * A table is either chunked and extendible without limit, or contiguous with a length fixed at creation.  That all byte
 * counts fit 63 bits is checked once, when the table is created or opened; afterwards only row numbers are compared.
 * A table may be used by one thread at a time. */
#ifndef SHOAL_H5_TABLE_H
#define SHOAL_H5_TABLE_H
#include "h5/h5.h"

/* A member of a C struct; it has the same offset in the file. */
typedef struct {
  const char *name;
  size_t offset;
  shoal_dtype type;
  unsigned count;      /* 0: one value; else an array of `count` values */
  unsigned text_bytes; /* 0: numbers; else a NUL-padded string of this size, and type and count are ignored */
  bool optional;       /* older files may lack it: the caller's memory must be zero there, and stays so */
} shoal_h5_member;

typedef struct {
  size_t bytes; /* of the struct, in memory and in the file */
  size_t n_members;
  const shoal_h5_member *members;
} shoal_h5_struct;

/* Contents of a row: a struct, or a string, or otherwise numbers of `type`. */
typedef struct {
  shoal_dtype type;
  const shoal_h5_struct *members; /* borrowed only during create or open */
  bool text;
  size_t text_bytes; /* of text: NUL-padded, char[text_bytes] in memory; 0: any length, `char *` in memory */
} shoal_h5_row;

typedef struct {
  int ndim;            /* of the data set, 0 to 8; 1 for structs and text.  0 is a scalar: one row */
  uint64_t dims[8];    /* dims[0]: number of rows of a contiguous table; ignored for a chunked one */
  uint64_t chunk_rows; /* 0: contiguous, with dims[0] rows; else chunked, initially empty, and extendible */
  bool through;        /* write-through: the append that fills a chunk writes it, so that the file's size is known.
                          Else the last chunk stays cached, for appends much smaller than a chunk */
} shoal_h5_extent;

typedef struct shoal_h5_table shoal_h5_table;

/** Creates the groups of the path.  ERR_ARG if the shape is invalid, ERR_IO if the name exists. */
shoal_status shoal_h5_table_create(shoal_h5 at, const char *name, const shoal_h5_row *row,
                                   const shoal_h5_extent *extent, shoal_h5_table **out);
/** Open to read rows, converted to the type `row`.  Same errors as shoal_h5_look; ERR_IO also if `row` is a struct and a
 *  member that is not optional is missing in the file, or if it is text of any length in filtered chunks.
 *
 *  Only the bytes requested are read, except of filtered chunks, which are read whole and kept unpacked (16 MiB, or one
 *  chunk if that is larger).  One that does not unpack to exactly its bytes fails the read.  What was never written
 *  reads as the fill value, or zeros. */
shoal_status shoal_h5_table_open(shoal_h5 at, const char *name, const shoal_h5_row *row, shoal_h5_table **out);
/** Release the table; ignores NULL.  Allowed after the file was closed.  Use finish to learn of failed writes. */
void shoal_h5_table_close(shoal_h5_table *t);
/** Close, and report failed writes; cached chunks may be written only here. */
shoal_status shoal_h5_table_finish(shoal_h5_table *t);

uint64_t shoal_h5_table_rows(const shoal_h5_table *t);   /* rows written so far */
uint64_t shoal_h5_table_offset(const shoal_h5_table *t); /* as in shoal_h5_facts */
shoal_h5 shoal_h5_table_object(const shoal_h5_table *t); /* for its attributes; borrowed */
shoal_status shoal_h5_table_facts(const shoal_h5_table *t, shoal_h5_facts *out);

/** How many chunks of a table have no storage, of how many: what they hold was never written and reads as the fill value, or
 *  zeros.  `first` is the first row of the first of them, as far as one is at the start of its rows.  A contiguous table is one
 *  chunk.  Costs a pass over the index of chunks. */
void shoal_h5_table_unwritten(const shoal_h5_table *t, uint64_t *missing, uint64_t *chunks, uint64_t *first);

/** Write rows [first, first + n), first <= rows: overwrites existing rows and appends the others.  ERR_ARG if they
 *  exceed the length of a contiguous table.  No copy is made of `data` if memory and file type are the same. */
shoal_status shoal_h5_table_put(shoal_h5_table *t, uint64_t first, uint64_t n, const void *data);
shoal_status shoal_h5_table_append(shoal_h5_table *t, uint64_t n, const void *data);
/** Read rows [first, first + n); ERR_ARG if there are fewer.  For text of any length `data` is char *[n]: each
 *  string is allocated, and the caller frees it; none is allocated if the call fails. */
shoal_status shoal_h5_table_read(shoal_h5_table *t, uint64_t first, uint64_t n, void *data);
/** Like read, for a table whose writer may have been killed, or whose file is cut off: reads chunk by chunk and stops at the first
 *  unreadable one, without an error.  Of a chunk that is cut off the rows that are there in full are read, others are zeroed.
 *  Not for text.  @return number of rows read */
uint64_t shoal_h5_table_read_sound(shoal_h5_table *t, uint64_t first, uint64_t n, void *data);
#endif
