/* A table: a data set that is written and read by rows, along its first dimension.
 *
 *     rows of numbers     [n], or [n, channels, height, width]   samples, labels, arrays of a checkpoint
 *     rows of structs     [n] of a C struct                      records and attempts of a trace
 *     rows of text        [n] of UTF-8 text of any length        names of a trace's operations
 *
 * A table either grows without bound, in chunks, or is one contiguous run of bytes whose length is known when it is
 * created.  That all byte counts fit 63 bits is checked once, when it is created or opened; afterwards only row numbers
 * are compared.  A table belongs to one thread at a time. */
#ifndef SHOAL_H5_TABLE_H
#define SHOAL_H5_TABLE_H
#include "h5/h5.h"

/* A member of a C struct as it stands in the file, at the same offset. */
typedef struct {
  const char *name;
  size_t offset;
  shoal_dtype type;
  unsigned count;      /* 0: one value; else an array of so many */
  unsigned text_bytes; /* 0: numbers; else a text in so many bytes, NUL-padded, and type and count mean nothing */
  bool optional;       /* older files lack it: reading leaves what is in memory */
} shoal_h5_member;

typedef struct {
  size_t bytes; /* of the struct, in memory and in the file */
  size_t n_members;
  const shoal_h5_member *members;
} shoal_h5_struct;

/* What a row is made of; with neither a struct nor text, numbers of `type`. */
typedef struct {
  shoal_dtype type;
  const shoal_h5_struct *members; /* borrowed while the table is created or opened */
  bool text;                      /* `char *` in memory */
} shoal_h5_row;

typedef struct {
  int ndim;            /* of the data set, 0 to 8; structs and text have 1.  0 is a scalar: one row */
  uint64_t dims[8];    /* dims[0]: rows, of a contiguous table */
  uint64_t chunk_rows; /* 0: contiguous, never longer than dims[0]; else it begins empty and grows in chunks */
  bool through;        /* chunks go to the file in the append that fills them, so that the file's size is known; else
                          the last one stays in memory, for appends much smaller than a chunk */
} shoal_h5_extent;

typedef struct shoal_h5_table shoal_h5_table;

/** Groups of the path are made.  ERR_ARG if the shape is impossible, ERR_IO if the name is taken. */
shoal_status shoal_h5_table_create(shoal_h5 at, const char *name, const shoal_h5_row *row,
                                   const shoal_h5_extent *extent, shoal_h5_table **out);
/** Open to read rows as `row` says, converted; in a file open for writing also to append.  Same refusals as
 *  shoal_h5_look; ERR_IO also if structs are asked for and a member that is not optional is missing.
 *
 *  Files open for reading are tuned for rows in random order: only the bytes asked for are fetched, unless the chunks
 *  are compressed, which are kept unpacked (at least one of them, 16 MiB or more). */
shoal_status shoal_h5_table_open(shoal_h5 at, const char *name, const shoal_h5_row *row, shoal_h5_table **out);
/** Frees; ignores NULL.  May follow the closing of the file.  Use finish, if you must know that all was written. */
void shoal_h5_table_close(shoal_h5_table *t);
/** Close, and tell what could not be written, which may show only here. */
shoal_status shoal_h5_table_finish(shoal_h5_table *t);

uint64_t shoal_h5_table_rows(const shoal_h5_table *t);   /* written so far */
uint64_t shoal_h5_table_offset(const shoal_h5_table *t); /* as in shoal_h5_facts */
shoal_h5 shoal_h5_table_object(const shoal_h5_table *t); /* for its attributes; borrowed */
shoal_status shoal_h5_table_facts(const shoal_h5_table *t, shoal_h5_facts *out);

/** Write rows [first, first + n): over rows that are there (first <= rows), and behind them.  ERR_ARG when a contiguous
 *  table has no room.  `data` is read directly: no copy is made of numbers and structs whose form is that of the file. */
shoal_status shoal_h5_table_put(shoal_h5_table *t, uint64_t first, uint64_t n, const void *data);
shoal_status shoal_h5_table_append(shoal_h5_table *t, uint64_t n, const void *data);
/** Read rows [first, first + n); ERR_ARG when there are fewer.  Rows of text: `data` is char *[n], each is allocated and
 *  freed by the caller, and none is when the call fails. */
shoal_status shoal_h5_table_read(shoal_h5_table *t, uint64_t first, uint64_t n, void *data);
/** Like read, for a table whose writer may have been killed: chunk by chunk up to the first that cannot be read, without
 *  an error.  Not for text.  @return rows read */
uint64_t shoal_h5_table_read_sound(shoal_h5_table *t, uint64_t first, uint64_t n, void *data);
#endif
